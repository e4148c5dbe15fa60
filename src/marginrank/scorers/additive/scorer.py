"""The additive scorer: one curve per feature."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from marginrank.data.inputs import features_named
from marginrank.data.partitions import PartitionedQueries
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.preparation.binning import Spacing
from marginrank.runtime.mapped_arrays import allocate, fits_in_memory, flush_rows, reader_of
from marginrank.runtime.threads import PerThread
from marginrank.runtime.torch_device import features_device
from marginrank.scorers.additive.form import AdditiveForm, CurveShape
from marginrank.scorers.additive.gpu import GpuBins
from marginrank.scorers.base import PreparedScorer, Scorer, same_kind
from marginrank.scorers.form import Form, Monotone
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Bytes of rows that are read twice in a pass without much ado, whether memory has room for them or not.
_FEW_BYTES: Final = 1 << 28


@dataclass(frozen=True)
class Additive(Scorer):
    """One curve per feature; see `AdditiveForm` for what θ means.

    Args:
        bins: Maximum number of bins per feature, 2 to 255.
        spacing: How thresholds are chosen on the training data: ``quantile``, ``even`` or ``mixed`` (half by quantile,
            half evenly).
        shape: ``lines`` for piecewise linear curves, ``steps`` for step functions, which take a quarter of the memory.
        monotone: ``increasing`` or ``decreasing`` for all features, or a mapping from feature (name or number) to one
            of them.
        device: Where to score in training: None for this machine; ``cuda`` or another PyTorch device for a copy of the
            bins there; ``auto`` for CUDA if it is available. Losses that do not run in PyTorch are computed on the CPU.
    """

    name = "additive"
    takes_nan = True
    scale_matters = False
    bins: int = 255
    spacing: Spacing = "quantile"
    shape: CurveShape = "lines"
    monotone: Monotone | None = None
    device: str | None = None

    def learn(self, queries: Queries, n_jobs: int | None = None) -> AdditiveForm:
        """Choose the thresholds on the training data."""
        with features_named(queries):
            return AdditiveForm.learn(queries.X, self.bins, self.spacing, shape=self.shape, n_jobs=n_jobs)

    def learn_in(self, queries: PartitionedQueries) -> AdditiveForm:
        """Choose the thresholds, which are those of all documents in one memory."""
        from marginrank.preparation.binning import columns_of  # noqa: PLC0415
        from marginrank.scorers.additive.bin_placement import check_bins, count_placed, place_bins  # noqa: PLC0415

        if self.device is not None:
            raise DataError("bins on a device are not trained on partitions; leave out device")
        check_bins(self.bins, self.spacing, self.shape)
        columns = columns_of(queries, count_placed(self.bins, self.shape), self.spacing)
        placed = [place_bins(column, self.bins, self.spacing, self.shape) for column, _ in columns]
        starts = np.array([start for start, _ in placed]) if self.shape == "lines" else None
        return AdditiveForm(tuple(cuts for _, cuts in placed), np.array([missing for _, missing in columns]), starts)

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedAdditive:
        """Choose the thresholds, and prepare for scoring the documents of given queries."""
        return self.resume(queries, self.learn(queries, n_jobs), n_jobs)

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedAdditive:
        """Prepare for scoring other queries with the same thresholds."""
        bins = same_kind(self, form, AdditiveForm)
        prepared = PreparedAdditive(queries, bins, n_jobs)
        device = features_device(self.device, "Additive(device=...)")
        if device is not None:
            prepared.rows = GpuBins(queries.X, bins, device, n_jobs)
        if self.monotone is not None:
            prepared.signs = bins.signs(self.monotone, queries.feature_labels)
        return prepared


class PreparedAdditive(PreparedScorer):
    """Scores Σ_f g_f(x_f), with curves g_f that are the running sums of the increments of feature f.

    The features are read once, and only where they lie among the thresholds is kept: `queries` here have no features. A
    pass over the rows of steps reads a byte for each feature, and less where features with few bins share one; a pass
    over lines reads four bytes. What memory has no room for is kept on disk. The cells are a histogram of slopes over
    bins, and the gradient is their running sums from the last bin down.
    """

    few_cells = True

    def __init__(self, queries: Queries, bins: AdditiveForm, n_jobs: int | None = None) -> None:
        self.queries = queries.without_features()
        self.bins = self.form = bins
        self.n_parameters = bins.n_parameters
        self._rows = (_Words if bins.shape == "steps" else _Places)(queries, bins, n_jobs)
        self.n_bytes = self._rows.n_bytes
        self.dear = self.n_bytes <= _FEW_BYTES

    def table(self, theta: FloatArray) -> FloatArray:
        """Return the value of each cell, feature after feature."""
        return self.bins.table(theta)

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the sums of the values of the features for the rows from ``start`` to ``stop``."""
        self._rows.score(table, scores, start, stop)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add each slope to the cells that its row is scored from."""
        self._rows.pull_back(slopes, cells, start, stop)

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Return sums of the cells above each threshold."""
        return self.bins.gradient(cells)


class _Codes:
    """Numbers of four bytes for each document, one column after the other; on disk, one document after the other."""

    def __init__(self, n_columns: int, n_documents: int) -> None:
        self.n_bytes = 4 * n_columns * n_documents
        self.in_memory = fits_in_memory(self.n_bytes)
        shape = (n_columns, n_documents) if self.in_memory else (n_documents, n_columns)
        self.numbers = allocate(shape, np.uint32)
        self._reader = None if self.in_memory else reader_of(self.numbers)
        self._turned = PerThread(_Turned)

    def put(self, start: int, columns: AnyArray) -> None:
        """Keep the numbers of some documents, given by columns."""
        rows = slice(start, start + columns.shape[1])
        if self.in_memory:
            self.numbers[:, rows] = columns
        else:
            self.numbers[rows] = columns.T
            flush_rows(self.numbers, rows)

    def columns(self, start: int, stop: int) -> tuple[AnyArray, slice]:
        """Return columns, and where the documents are in them; on disk, the columns of these alone."""
        if self.in_memory:
            return self.numbers, slice(start, stop)
        turned = self._turned()
        if turned.rows != (start, stop):
            rows = self.numbers[start:stop] if self._reader is None else self._reader.rows(start, stop)
            turned.columns, turned.rows = np.ascontiguousarray(rows.T), (start, stop)
        return turned.columns, slice(0, stop - start)


class _Turned:
    """The columns of the documents that a thread works on."""

    def __init__(self) -> None:
        self.columns: AnyArray = np.empty((0, 0), dtype=np.uint32)
        self.rows: tuple[int, int] | None = None


class _Words:
    """Codes of steps, several to a byte where they fit, four bytes to a word."""

    def __init__(self, queries: Queries, bins: AdditiveForm, n_jobs: int | None) -> None:
        from marginrank.scorers.additive.additive_kernel import pack_rows  # noqa: PLC0415

        self._packing = packing = _pack(bins)
        self._words = _Codes((len(packing.bounds) - 1) // 4, queries.n_documents)
        self.n_bytes = self._words.n_bytes

        def keep(start: int, codes: AnyArray) -> None:
            words = np.empty(((len(packing.bounds) - 1) // 4, len(codes)), dtype=np.uint32)
            pack_rows(codes, packing.features, packing.bounds, packing.n_codes, words, 0)
            self._words.put(start, words)

        bins.encode_blocks(queries.X, keep, n_jobs)

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        from marginrank.scorers.additive.additive_kernel import score_words  # noqa: PLC0415

        words, rows = self._words.columns(start, stop)
        score_words(words, *self._packing, table, scores[start - rows.start :], rows.start, rows.stop)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        from marginrank.scorers.additive.additive_kernel import add_words  # noqa: PLC0415

        words, rows = self._words.columns(start, stop)
        add_words(words, *self._packing, slopes[start - rows.start :], cells, rows.start, rows.stop)


class _Places:
    """Positions of lines, one feature after the other; features without parameters are left out."""

    def __init__(self, queries: Queries, bins: AdditiveForm, n_jobs: int | None) -> None:
        varying = np.flatnonzero(bins.n_codes > 1)
        self._cells = bins.first_cells[varying], bins.n_codes[varying]
        self._positions = _Codes(len(varying), queries.n_documents)
        self.n_bytes = self._positions.n_bytes
        bins.encode_blocks(queries.X, lambda start, block: self._positions.put(start, block[:, varying].T), n_jobs)

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        from marginrank.scorers.additive.additive_kernel import score_places  # noqa: PLC0415

        positions, rows = self._positions.columns(start, stop)
        score_places(positions, *self._cells, table, scores[start - rows.start :], rows.start, rows.stop)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        from marginrank.scorers.additive.additive_kernel import add_places  # noqa: PLC0415

        positions, rows = self._positions.columns(start, stop)
        add_places(positions, *self._cells, slopes[start - rows.start :], cells, rows.start, rows.stop)


class _Packing(NamedTuple):
    """Which features share a byte, as the kernels take it."""

    features: IntArray
    bounds: IntArray
    first_cells: IntArray
    n_codes: IntArray


def _pack(bins: AdditiveForm) -> _Packing:
    groups = share_bytes(bins.n_codes.tolist())
    groups += [[]] * (-len(groups) % 4)
    features = [feature for group in groups for feature in group]
    bounds = list(accumulate(map(len, groups), initial=0))
    return _Packing(
        np.array(features, dtype=np.int64), np.array(bounds, dtype=np.int64), bins.first_cells, bins.n_codes
    )


def share_bytes(n_codes: list[int]) -> list[list[int]]:
    """Group features so that the codes of each group have at most 256 combinations; constant ones need no byte.

    >>> share_bytes([16, 2, 17, 1, 16, 8])        # 17·2 and 16·8; 16 with nothing left
    [[2, 1], [4, 5], [0]]
    """
    left = deque(sorted((f for f, size in enumerate(n_codes) if size > 1), key=n_codes.__getitem__))
    groups = []
    while left:
        group = [left.pop()]
        combinations = n_codes[group[0]]
        while left and combinations * n_codes[left[0]] <= 256:
            combinations *= n_codes[left[0]]
            group.append(left.popleft())
        groups.append(group)
    return groups
