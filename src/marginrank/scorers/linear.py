"""The linear scorer: one weight per feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from marginrank.data.naming import features_named
from marginrank.data.partitioned import PartitionedQueries
from marginrank.data.queries import Queries, feature_number
from marginrank.errors import DataError
from marginrank.mapped import BLOCK_BYTES, blocks, reader_of
from marginrank.preparation.standardize import Standardize
from marginrank.scorers.base import PreparedScorer, Scorer, same_kind
from marginrank.scorers.device_rows import DeviceRows
from marginrank.scorers.forms import Form
from marginrank.scorers.half import as_kernels_take_it, check_half, check_rounding, rounded
from marginrank.scorers.weights import Weights, replace_nan
from marginrank.sparse import sp
from marginrank.threads import CHUNKS, for_each
from marginrank.typing import AnyArray, Features, FloatArray, IntArray, Step

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
        device: Where to keep dense features in training: None for the memory of this machine; ``cuda``, another device
            of PyTorch or ``auto`` for a copy there, which needs PyTorch. Losses without kernels for a GPU are computed
            on the CPU.
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
    light = True
    nonnegative: bool | Sequence[int | str] = False
    missing: Missing = "error"
    device: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.missing not in get_args(Missing):
            raise ValueError(f"missing is {self.missing!r}; choose one of {', '.join(map(repr, get_args(Missing)))}")
        if self.dtype not in (None, "float16"):
            raise ValueError(f"the linear scorer has no dtype {self.dtype!r}; choose 'float16', or leave it out")

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return self.missing != "error"

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale: with ``missing="zero"``, 0 for NaN."""
        return replace_nan(X, np.zeros(X.shape[1])) if self.missing == "zero" else X

    def learn(self, queries: Queries) -> Weights:
        """Return the form of the weights, with what replaces missing values."""
        n, X = queries.n_features, queries.X
        match self.missing:
            case "error":
                return Weights(n)
            case "zero":
                return Weights(n, raw_fill=np.zeros(n))
            case "mean":
                return Weights(n, fill=_means(queries))
            case _:
                return Weights(n, fill=_means(queries), flagged=_with_gaps(X))

    def learn_in(self, queries: PartitionedQueries) -> Weights:
        """Return the form of the weights, with what replaces missing values."""
        if self.device is not None:
            raise DataError("features on a device are not trained on partitions; leave out device")
        if self.dtype is not None:
            with features_named(queries):
                check_rounding(Standardize().fit(queries))
        n = queries.n_features
        if self.missing in ("error", "zero"):
            return Weights(n, raw_fill=np.zeros(n) if self.missing == "zero" else None)
        if queries.is_sparse:
            raise DataError("means of sparse features are not learned from partitions; use missing='zero'")
        gaps = np.flatnonzero(queries.missing) if self.missing == "indicator" else np.zeros(0, dtype=np.int64)
        return Weights(n, fill=np.asarray(Standardize().fit(queries).mean_, dtype=np.float64), flagged=gaps)

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring the documents of given queries."""
        return self._prepared(queries, self.learn(queries), n_jobs, checked=True)

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring other queries with the same weights."""
        return self._prepared(queries, same_kind(self, form, Weights), n_jobs)

    def _prepared(
        self, queries: Queries, form: Weights, n_jobs: int | None, *, checked: bool = False
    ) -> PreparedLinear:
        X, signs = form.columns(queries.X), self._signs(queries, form)
        if self.dtype is not None:
            check_half()
            with features_named(queries):
                X = rounded(X, n_jobs, checked=checked)
        return PreparedLinear(queries if X is queries.X else queries.with_features(X), signs, form, self.device)

    def _signs(self, queries: Queries, form: Weights) -> IntArray | None:
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
        device: Where features are kept; None for the memory of this machine.
    """

    def __init__(
        self,
        queries: Queries,
        signs: IntArray | None = None,
        form: Weights | None = None,
        device: str | None = None,
    ) -> None:
        self.form = form or Weights(queries.n_features)
        self.queries, X = queries, queries.X
        self.signs = signs
        self.n_parameters = self.form.n_parameters
        self.n_bytes = X.data.nbytes if sp.issparse(X) else X.shape[0] * X.shape[1] * X.dtype.itemsize
        self.rows = rows = None if device is None else DeviceRows(X, device)
        self._empty = None if rows is None else rows.empty
        if rows is None:
            self._score, self._pull_back, self._in_memory = _row_kernels(X)
            # In compiled code a run costs nothing to begin, so that it may as well fit a smaller cache.
            self.run_bytes = PreparedScorer.run_bytes // (1 if self._in_memory is None else 2)
        else:
            self._score, self._pull_back, self._in_memory = rows.score, rows.pull_back, None
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

    def steps(
        self, table: FloatArray, scores: FloatArray, slopes: FloatArray, cells: FloatArray
    ) -> tuple[Step, Step] | None:
        """Return the kernels that `score` and `pull_back` are, without the rows; None where rows are read from disk."""
        if self._in_memory is None:
            return None
        score, add, features = self._in_memory
        return (score, (*features, table, scores)), (add, (*features, slopes, cells))

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
    score, weights = _row_kernels(X).score, np.ascontiguousarray(w, dtype=np.float64)
    for_each(lambda start, stop: score(weights, scores, start, stop), list(pairwise(bounds)), n_jobs)
    return scores


def _copied_rows(X: AnyArray) -> Callable[[int, int], AnyArray] | None:
    """Return what copies rows to memory as kernels take them; None where they are there already."""
    kind = X.dtype if X.dtype in _KERNEL_TYPES else np.dtype(np.float64)
    if (reader := reader_of(X)) is not None:
        return lambda start, stop: as_kernels_take_it(np.asarray(reader.rows(start, stop), dtype=kind))
    if X.flags.c_contiguous and X.dtype == kind:
        return None
    return lambda start, stop: as_kernels_take_it(np.ascontiguousarray(X[start:stop], dtype=kind))


class _RowKernels(NamedTuple):
    """Scores of rows, slopes of rows back to weights, and the kernels of both with the features, if in memory."""

    score: Rows
    add: Rows
    in_memory: tuple[Callable[..., None], Callable[..., None], tuple[Any, ...]] | None


def _row_kernels(X: Features) -> _RowKernels:
    """Choose kernels for the kind of features at hand."""
    from marginrank.scorers import linear_kernel as kernel  # noqa: PLC0415

    rows = None if sp.issparse(X) else _copied_rows(X)
    if rows is not None:
        return _RowKernels(
            lambda w, scores, start, stop: kernel.score_rows(rows(start, stop), w, scores[start:stop], 0, stop - start),
            lambda slopes, out, start, stop: kernel.add_rows(
                rows(start, stop), slopes[start:stop], out, 0, stop - start
            ),
            None,
        )
    if not sp.issparse(X):
        score, add = kernel.score_rows, kernel.add_rows
        parts: tuple[Any, ...] = (as_kernels_take_it(X),)
    else:
        score, add = kernel.score_sparse_rows, kernel.add_sparse_rows
        parts = X.data, X.indices, X.indptr
    return _RowKernels(
        lambda w, scores, start, stop: score(*parts, w, scores, start, stop),
        lambda slopes, out, start, stop: add(*parts, slopes, out, start, stop),
        (score, add, parts),
    )
