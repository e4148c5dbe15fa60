"""The additive scorer: one curve per feature."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np

from marginrank.data.inputs import features_named
from marginrank.data.partitions import PartitionedQueries
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.preparation.binning import Spacing, partitioned_quantiles
from marginrank.runtime.mapped_arrays import allocate, fits_in_memory, flush_rows, reader_of
from marginrank.runtime.threads import PerThread
from marginrank.runtime.torch_device import features_device
from marginrank.scorers.additive.bin_placement import check_bins, count_placed, learn_bins, place_bins
from marginrank.scorers.additive.form import AdditiveForm, CurveShape
from marginrank.scorers.additive.gpu import GpuBins
from marginrank.scorers.base import PreparedScorer, Scorer, check_form
from marginrank.scorers.form import Form, Monotone
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Size of the rows up to which a pass may read them twice, even from disk.
_SMALL_BYTES: Final = 1 << 28


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
    slow_for_large_C = True  # noqa: N815
    bins: int = 255
    spacing: Spacing = "quantile"
    shape: CurveShape = "lines"
    monotone: Monotone | None = None
    device: str | None = None

    def learn(self, queries: Queries, n_jobs: int | None = None) -> AdditiveForm:
        """Choose the thresholds on the training data."""
        with features_named(queries):
            return learn_bins(queries.X, self.bins, self.spacing, shape=self.shape, n_jobs=n_jobs)

    def learn_partitioned(self, queries: PartitionedQueries) -> AdditiveForm:
        """Choose the thresholds; they are the same as without partitions."""
        if self.device is not None:
            raise DataError("bins on a device are not trained on partitions; leave out device")
        check_bins(self.bins, self.spacing, self.shape)
        columns = partitioned_quantiles(queries, count_placed(self.bins, self.shape), self.spacing)
        placements = [place_bins(column, self.bins, self.spacing, self.shape) for column, _ in columns]
        starts = np.array([start for start, _ in placements]) if self.shape == "lines" else None
        missing = np.array([missing for _, missing in columns])
        return AdditiveForm(tuple(cuts for _, cuts in placements), missing, starts)

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedAdditive:
        """Choose the thresholds, and prepare for scoring the documents of given queries."""
        return self.resume(queries, self.learn(queries, n_jobs), n_jobs)

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedAdditive:
        """Prepare for scoring queries with thresholds that were learned before."""
        bins = check_form(self, form, AdditiveForm)
        prepared = PreparedAdditive(queries, bins, n_jobs)
        device = features_device(self.device, "Additive(device=...)")
        if device is not None:
            prepared.gpu_rows = GpuBins(queries.X, bins, device, n_jobs)
        if self.monotone is not None:
            prepared.signs = bins.signs(self.monotone, queries.feature_labels)
        return prepared


class PreparedAdditive(PreparedScorer):
    """Scores Σ_f g_f(x_f), with curves g_f that are the cumulative sums of the increments of feature f.

    The features are read once, and only the bins of their values are stored: `queries` here have no features. A pass
    over the rows of steps reads a byte for each feature, and less if features with few bins share one; a pass over
    lines reads four bytes. Codes that do not fit into memory are stored on disk. The weights are the bin values, the
    gradient sums are a histogram over bins, and the gradient is their cumulative sums from the last bin down.
    """

    sparse_table = True
    _layout: tuple[IntArray, ...]

    def __init__(self, queries: Queries, bins: AdditiveForm, n_jobs: int | None = None) -> None:
        from marginrank.scorers.additive import additive_kernel as kernel  # noqa: PLC0415

        self.queries = queries.without_features()
        self.bins = self.form = bins
        self.n_parameters = bins.n_parameters
        if bins.shape == "steps":
            self._layout, encode = _pack(bins)
            n_columns = len(self._layout[1]) // 4
            self._score, self._pull_back = kernel.score_packed_columns, kernel.add_packed_columns
        else:
            varying = np.flatnonzero(bins.n_codes > 1)
            n_columns = len(varying)
            self._layout, encode = (bins.first_bins[varying], bins.n_codes[varying]), lambda block: block[:, varying].T
            self._score, self._pull_back = kernel.score_position_columns, kernel.add_position_columns
        self._codes = _CodeColumns(n_columns, queries.n_documents)
        bins.encode_blocks(queries.X, lambda start, block: self._codes.store(start, encode(block)), n_jobs)
        self.n_bytes = self._codes.n_bytes
        self.expensive = self.n_bytes <= _SMALL_BYTES

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return the value of each bin, feature after feature."""
        return self.bins.bin_values(theta)

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the sums of the bin values for the rows from ``start`` to ``stop``."""
        columns, rows = self._codes.columns(start, stop)
        self._score(columns, *self._layout, weights, scores[start - rows.start :], rows.start, rows.stop)

    def pull_back(self, gradient: FloatArray, gradient_sums: FloatArray, start: int, stop: int) -> None:
        """Add the gradient of each row to the bins of its values."""
        columns, rows = self._codes.columns(start, stop)
        gradient = gradient[start - rows.start :]
        self._pull_back(columns, *self._layout, gradient, gradient_sums, rows.start, rows.stop)

    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the sums above each threshold."""
        return self.bins.gradient(gradient_sums)


class _CodeColumns:
    """Codes of four bytes, stored column by column in memory, or document by document on disk."""

    def __init__(self, n_columns: int, n_documents: int) -> None:
        self.n_bytes = 4 * n_columns * n_documents
        self.in_memory = fits_in_memory(self.n_bytes)
        shape = (n_columns, n_documents) if self.in_memory else (n_documents, n_columns)
        self.numbers = allocate(shape, np.uint32)
        self._reader = None if self.in_memory else reader_of(self.numbers)
        self._transposed = PerThread(_TransposedRows)

    def store(self, start: int, columns: AnyArray) -> None:
        """Store the columns of a block of documents."""
        rows = slice(start, start + columns.shape[1])
        if self.in_memory:
            self.numbers[:, rows] = columns
        else:
            self.numbers[rows] = columns.T
            flush_rows(self.numbers, rows)

    def columns(self, start: int, stop: int) -> tuple[AnyArray, slice]:
        """Return columns, and the rows of the documents in them; from disk, only the columns of these documents."""
        if self.in_memory:
            return self.numbers, slice(start, stop)
        transposed = self._transposed()
        if transposed.rows != (start, stop):
            rows = self.numbers[start:stop] if self._reader is None else self._reader.rows(start, stop)
            transposed.columns, transposed.rows = np.ascontiguousarray(rows.T), (start, stop)
        return transposed.columns, slice(0, stop - start)


class _TransposedRows:
    """The columns of the documents that a thread read last."""

    def __init__(self) -> None:
        self.columns: AnyArray = np.empty((0, 0), dtype=np.uint32)
        self.rows: tuple[int, int] | None = None


def _pack(bins: AdditiveForm) -> tuple[tuple[IntArray, ...], Callable[[AnyArray], AnyArray]]:
    """Return the features that share each byte, as kernels take them, and the function that packs codes into words."""
    from marginrank.scorers.additive.additive_kernel import pack_rows  # noqa: PLC0415

    groups = share_bytes(bins.n_codes.tolist())
    groups += [[]] * (-len(groups) % 4)
    features = np.array([feature for group in groups for feature in group], dtype=np.int64)
    bounds = np.array(list(accumulate(map(len, groups), initial=0)), dtype=np.int64)

    def pack(codes: AnyArray) -> AnyArray:
        words = np.empty((len(groups) // 4, len(codes)), dtype=np.uint32)
        pack_rows(codes, features, bounds, bins.n_codes, words)
        return words

    return (features, bounds, bins.first_bins, bins.n_codes), pack


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
