"""The linear scorer: one weight per feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from marginrank.data.inputs import FeatureError, features_named
from marginrank.data.partitions import PartitionedQueries
from marginrank.data.queries import Queries, feature_number
from marginrank.errors import DataError, Parameter
from marginrank.preparation.standardization import Standardize
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import BLOCK_BYTES, allocate, blocks, for_each_block, reader_of
from marginrank.runtime.threads import CHUNKS, for_each
from marginrank.runtime.torch_device import Device, features_device
from marginrank.scorers.base import PreparedScorer, Scorer, same_kind
from marginrank.scorers.form import Form
from marginrank.scorers.linear.form import LinearForm, replace_nan
from marginrank.scorers.linear.gpu import GpuFeatures
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: Most that rounding may move the values of a feature, as a share of their standard deviation.
_MOST: Final = 0.01
#: How far rounding moves a number at most, as a share of it, and where it is next to 0.
_RELATIVE: Final = 2.0**-12
_ABSOLUTE: Final = 2.0**-25
_ADVICE: Final = ("use ", Parameter("scaling", "standard"), ", or leave out dtype")


def rounded(X: Features, n_jobs: int | None = None, *, checked: bool = True) -> AnyArray:
    """Return dense features in float16.

    Values beyond its range are refused and, if ``checked``, features that rounding would move by more than 1 %
    of their standard deviation.

    >>> rounded(np.array([[1.0, 0.1], [3.0, 0.7]])).tolist()
    [[1.0, 0.0999755859375], [3.0, 0.7001953125]]
    >>> rounded(np.array([[2024.0, 0.1], [2025.0, 0.7], [4048.5, 0.2]]) + [100_000.0, 0.0])
    Traceback (most recent call last):
        ...
    marginrank.data.inputs.FeatureError: feature 0 has values beyond the range of float16; ...
    """
    if sp.issparse(X):
        raise DataError("float16 is for dense features, and these are sparse; leave it out")
    half = allocate(X.shape, np.float16)
    n_rows = max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes))
    moments = np.zeros((1 + len(X) // n_rows, 3, X.shape[1]))
    # Around the first row, so that what all values share does not drown their differences.
    origin = np.zeros(X.shape[1]) if not len(X) else X[0].astype(np.float64)

    def work(number: int, rows: slice, block: AnyArray) -> None:
        with np.errstate(over="ignore", under="ignore"):
            half[rows] = block
        off, away = half[rows].astype(np.float64) - block, block - origin
        moments[number] = (off * off).sum(axis=0), away.sum(axis=0), (away * away).sum(axis=0)

    for_each_block(X, work, n_rows, n_jobs, half)
    moved, total, squares = moments.sum(axis=0) / max(1, len(X))
    if not np.isfinite(moved).all():
        column = int(np.argmin(np.isfinite(moved)))
        raise FeatureError("{feature} has values beyond the range of float16; ", column, _ADVICE)
    if checked:
        _check_share(np.sqrt(moved), np.sqrt(np.maximum(squares - total * total, 0.0)))
    return half


def check_rounding(scaler: Standardize) -> None:
    """Refuse features that rounding could move too far, given their means and standard deviations."""
    sizes = np.sqrt(scaler.mean_ * scaler.mean_ + scaler.scale_ * scaler.scale_)
    _check_share(_RELATIVE * sizes + _ABSOLUTE, scaler.scale_)


def _check_share(moved: FloatArray, deviations: FloatArray) -> None:
    shares = np.where(deviations > 0.0, moved / np.where(deviations > 0.0, deviations, 1.0), 0.0)
    if shares.max(initial=0.0) > _MOST:
        column = int(np.argmax(shares))
        text = f"rounding {{feature}} to float16 changes it by {shares[column]:.1%} of its standard deviation; "
        raise FeatureError(text, column, _ADVICE)


def float16_bits(X: AnyArray) -> AnyArray:
    """Return float16 as whole numbers of 16 bits, since Numba has no float16; other features as they are."""
    return X.view(np.uint16) if X.dtype == np.float16 else X


Rows: TypeAlias = Callable[[Any, Any, int, int], None]

#: Types of dense features that kernels take; others become float64.
_KERNEL_TYPES: Final = tuple(np.dtype(kind) for kind in (np.float16, np.float32, np.float64))
#: Least features that are worth a task of their own.
_LEAST_BYTES: Final = 1 << 16

#: What a missing value is to a linear scorer.
Missing: TypeAlias = Literal["error", "zero", "mean", "indicator"]


@dataclass(frozen=True)
class Linear(Scorer):
    """One weight per feature: the score is X·w, for dense or sparse features.

    Args:
        nonnegative: True for no negative weights, or the features this applies to, by name or number.
        missing: How to treat NaN: ``error`` refuses it; ``zero`` replaces it by 0 before scaling; ``mean`` by the mean
            of the training documents after scaling; ``indicator`` by the mean, and features with missing values in
            training get a second weight that is added where they are missing.
        device: Where to keep dense features in training: None for the memory of this machine; ``cuda`` or
            another PyTorch device for a copy there, in float64 unless they are float16; ``auto`` for CUDA if it is
            available. Losses that do not run in PyTorch are computed on the CPU.
        dtype: Type of dense features in training: None for their own, ``float16`` for half of the memory of float32.
            The objective and its gap are those of the rounded features; predictions use the features as they are.

    >>> queries = Queries.from_arrays([[1.0, 0.5], [0.0, 2.0]], [1, 0], group=[2])
    >>> Linear().prepare(queries).scores(np.array([2.0, -1.0])).tolist()
    [1.5, -2.0]
    >>> gaps = Queries.from_arrays([[1.0, np.nan], [0.0, 2.0]], [1, 0], group=[2], allow_nan=True)
    >>> Linear(missing="mean").prepare(gaps).scores(np.array([2.0, -1.0])).tolist()
    [0.0, -2.0]
    >>> Linear(missing="indicator").prepare(gaps).scores(np.array([2.0, -1.0, 7.0])).tolist()
    [7.0, -2.0]
    """

    name = "linear"
    takes_sparse = True
    gil_bound = True
    nonnegative: bool | Sequence[int | str] = False
    missing: Missing = "error"
    device: str | None = None
    dtype: Literal["float16"] | None = None

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return self.missing != "error"

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale: with ``missing="zero"``, 0 for NaN."""
        return replace_nan(X, np.zeros(X.shape[1])) if self.missing == "zero" else X

    def learn(self, queries: Queries) -> LinearForm:
        """Return the form of the weights, with what replaces missing values."""
        n, X = queries.n_features, queries.X
        match self.missing:
            case "error":
                return LinearForm(n)
            case "zero":
                return LinearForm(n, raw_fill=np.zeros(n))
            case "mean":
                return LinearForm(n, fill=_means(queries))
            case _:
                return LinearForm(n, fill=_means(queries), flagged=_with_gaps(X))

    def learn_in(self, queries: PartitionedQueries) -> LinearForm:
        """Return the form of the weights, with what replaces missing values."""
        if self.device is not None:
            raise DataError("features on a device are not trained on partitions; leave out device")
        if self.dtype is not None:
            with features_named(queries):
                check_rounding(Standardize().fit(queries))
        n = queries.n_features
        if self.missing in ("error", "zero"):
            return LinearForm(n, raw_fill=np.zeros(n) if self.missing == "zero" else None)
        if queries.is_sparse:
            raise DataError(
                "means of sparse features are not learned from partitions; use ",
                Parameter("scorer", "linear(missing=zero)"),
            )
        gaps = np.flatnonzero(queries.missing) if self.missing == "indicator" else np.zeros(0, dtype=np.int64)
        return LinearForm(n, fill=np.asarray(Standardize().fit(queries).mean_, dtype=np.float64), flagged=gaps)

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring the documents of given queries."""
        return self._prepared(queries, self.learn(queries), n_jobs, checked=True)

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring other queries with the same weights."""
        return self._prepared(queries, same_kind(self, form, LinearForm), n_jobs)

    def _prepared(
        self, queries: Queries, form: LinearForm, n_jobs: int | None, *, checked: bool = False
    ) -> PreparedLinear:
        X, signs = form.columns(queries.X), self._signs(queries, form)
        if self.dtype is not None:
            with features_named(queries):
                X = rounded(X, n_jobs, checked=checked)
        device = features_device(self.device, "Linear(device=...)")
        return PreparedLinear(queries if X is queries.X else queries.with_features(X), signs, form, device)

    def _signs(self, queries: Queries, form: LinearForm) -> IntArray | None:
        if self.nonnegative is False or self.nonnegative is None:
            return None
        signs = np.zeros(form.n_parameters, dtype=np.int64)
        chosen = range(queries.n_features) if self.nonnegative is True else self.nonnegative
        for feature in chosen:
            signs[feature_number(feature, queries.feature_labels)] = 1
        return signs


class PreparedLinear(PreparedScorer):
    """Scores X·w of dense or sparse features, on the CPU or another device.

    Args:
        queries: Queries with one column for each weight.
        signs: Signs that weights have to keep to.
        form: What is left after training.
        device: PyTorch device of the features; None for the memory of this machine.
    """

    def __init__(
        self,
        queries: Queries,
        signs: IntArray | None = None,
        form: LinearForm | None = None,
        device: Device | None = None,
    ) -> None:
        self.form = form or LinearForm(queries.n_features)
        self.queries, X = queries, queries.X
        self.signs = signs
        self.n_parameters = self.form.n_parameters
        self.n_bytes = X.data.nbytes if sp.issparse(X) else X.shape[0] * X.shape[1] * X.dtype.itemsize
        self.rows = rows = None if device is None else GpuFeatures(X, device)
        self._empty = None if rows is None else rows.empty
        if rows is None:
            self._score, self._pull_back = _row_kernels(X)
        else:
            self._score, self._pull_back = rows.score, rows.pull_back
            self.n_bytes = self.run_bytes = rows.n_bytes

    @cached_property
    def spread(self) -> float:  # type: ignore[override]
        """Root of the mean square distance of the documents from their mean."""
        return float(np.linalg.norm(Standardize().fit(self.queries).scale_))

    def table(self, theta: FloatArray) -> FloatArray:
        """Return the weights themselves."""
        return np.ascontiguousarray(theta, dtype=np.float64)

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        self._score(table, scores, start, stop)

    def empty(self, n: int) -> FloatArray:
        """Make room for scores or slopes."""
        return super().empty(n) if self._empty is None else self._empty(n)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add Σ slope·row."""
        self._pull_back(slopes, cells, start, stop)

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Return the cells themselves."""
        return cells

    def cells(self, documents: IntArray) -> FloatArray:
        """Return the features of some documents."""
        rows = self.queries.X[documents]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


def _with_gaps(X: Features) -> IntArray:
    """Features that are missing somewhere."""
    if sp.issparse(X):
        return np.unique(X.indices[np.isnan(X.data)]).astype(np.int64)
    gaps = np.zeros(X.shape[1], dtype=np.bool_)
    for _, block in blocks(X):
        gaps |= np.isnan(block).any(axis=0)
    return np.flatnonzero(gaps)


def _means(queries: Queries) -> FloatArray:
    """Mean of each feature over the documents that have it, 0 where none has."""
    X = queries.X
    if not sp.issparse(X):
        return np.asarray(Standardize().fit(queries).mean_, dtype=np.float64)
    absent = np.isnan(X.data)
    sums = np.bincount(X.indices, np.where(absent, 0.0, X.data), minlength=X.shape[1])
    known = X.shape[0] - np.bincount(X.indices, absent, minlength=X.shape[1])
    return np.asarray(sums / np.maximum(known, 1.0))


def linear_scores(X: Features, w: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Scores X·w in float64, whatever the features are, without a copy of them.

    >>> linear_scores(np.array([[1.0, 2.0]], dtype=np.float32), np.array([0.5, 0.25])).tolist()
    [1.0]
    """
    n = X.shape[0]
    scores = np.empty(n)
    n_bytes = X.data.nbytes if sp.issparse(X) else X.nbytes
    n_chunks = max(CHUNKS, (0 if sp.issparse(X) else X.nbytes) // BLOCK_BYTES)
    bounds = np.linspace(0, n, min(n_chunks, n, 1 + n_bytes // _LEAST_BYTES) + 1, dtype=np.int64).tolist()
    (score, _), weights = _row_kernels(X), np.ascontiguousarray(w, dtype=np.float64)
    for_each(lambda start, stop: score(weights, scores, start, stop), list(pairwise(bounds)), n_jobs)
    return scores


def _copied_rows(X: AnyArray) -> Callable[[int, int], AnyArray] | None:
    """Return what copies rows to memory as kernels take them; None where they are there already."""
    kind = X.dtype if X.dtype in _KERNEL_TYPES else np.dtype(np.float64)
    if (reader := reader_of(X)) is not None:
        return lambda start, stop: float16_bits(np.asarray(reader.rows(start, stop), dtype=kind))
    if X.flags.c_contiguous and X.dtype == kind:
        return None
    return lambda start, stop: float16_bits(np.ascontiguousarray(X[start:stop], dtype=kind))


def _row_kernels(X: Features) -> tuple[Rows, Rows]:
    """Return what scores rows, and what adds gradients times rows, for the kind of features at hand."""
    from marginrank.scorers.linear import linear_kernel as kernel  # noqa: PLC0415

    if sp.issparse(X):
        parts = X.data, X.indices, X.indptr
        return (
            lambda w, scores, start, stop: kernel.score_sparse_rows(*parts, w, scores, start, stop),
            lambda slopes, out, start, stop: kernel.add_sparse_rows(*parts, slopes, out, start, stop),
        )
    rows = _copied_rows(X)
    if rows is None:
        bits = float16_bits(X)
        return (
            lambda w, scores, start, stop: kernel.score_rows(bits, w, scores, start, stop),
            lambda slopes, out, start, stop: kernel.add_rows(bits, slopes, out, start, stop),
        )
    return (
        lambda w, scores, start, stop: kernel.score_rows(rows(start, stop), w, scores[start:stop], 0, stop - start),
        lambda slopes, out, start, stop: kernel.add_rows(rows(start, stop), slopes[start:stop], out, 0, stop - start),
    )
