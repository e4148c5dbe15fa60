"""The linear scorer: one weight per feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast, get_args

import numpy as np

from marginrank.data.queries import Queries, feature_number
from marginrank.preparation.standardize import Standardize
from marginrank.scorers.base import NAN_ADVICE, PreparedScorer, Scorer
from marginrank.scorers.device_rows import DeviceRows
from marginrank.scorers.forms import Form, stored
from marginrank.sparse import sp
from marginrank.threads import CHUNKS, for_each
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

Rows: TypeAlias = Callable[[Any, Any, int, int], None]
#: What a missing value is to a linear scorer.
Missing: TypeAlias = Literal["error", "zero", "mean", "indicator"]
_NO_FEATURES = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Linear(Scorer):
    """One weight per feature: the score is X·w, for dense or sparse features.

    Args:
        nonnegative: True for no negative weights, or the features this applies to, by name or number.
        missing: How to treat NaN: ``error`` refuses it; ``zero`` replaces it by 0 before scaling; ``mean`` by the mean
            of the training documents after scaling; ``indicator`` by the mean, and features with missing values in
            training get a second weight that is added where they are missing.
        device: Where to keep dense features in training: None for the memory of this machine; ``cuda``, another device
            of PyTorch or ``auto`` for a copy there in float64, which needs PyTorch. Losses without kernels for a GPU
            are computed on the CPU.

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
    nonnegative: bool | Sequence[int | str] = False
    missing: Missing = "error"
    device: str | None = None

    def __post_init__(self) -> None:
        if self.missing not in get_args(Missing):
            raise ValueError(f"missing is {self.missing!r}; choose one of {', '.join(map(repr, get_args(Missing)))}")

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

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedLinear:  # noqa: ARG002
        """Prepare for scoring the documents of given queries."""
        form = self.learn(queries)
        return PreparedLinear(queries, self._signs(queries, form), form, self.device)

    def _signs(self, queries: Queries, form: Weights) -> IntArray | None:
        if self.nonnegative is False or self.nonnegative is None:
            return None
        signs = np.zeros(form.n_parameters, dtype=np.int64)
        chosen = range(queries.n_features) if self.nonnegative is True else self.nonnegative
        for feature in chosen:
            signs[feature_number(feature, queries.feature_labels)] = 1
        return signs


@dataclass(frozen=True, eq=False)
class Weights(Form):
    """Weights of features: the score is X·θ.

    >>> Weights(2).score(np.array([2.0, -1.0]), np.array([[1.0, 0.5]])).tolist()
    [1.5]

    Args:
        n_features: Number of features.
        raw_fill: What replaces NaN of each feature before scaling; None if nothing does.
        fill: What replaces NaN after scaling; None if nothing does.
        flagged: Features with a second weight, which is added where they are NaN; these weights are the last of θ.
    """

    kind: ClassVar[str] = "linear"
    sized_by: ClassVar[str] = "weight"
    takes_sparse: ClassVar[bool] = True
    nan_advice: ClassVar[str] = NAN_ADVICE
    n_features: int
    raw_fill: FloatArray | None = None
    fill: FloatArray | None = None
    flagged: IntArray = field(default_factory=lambda: _NO_FEATURES)

    def __post_init__(self) -> None:
        for fill in (self.raw_fill, self.fill):
            if fill is not None and not (fill.shape == (self.n_features,) and np.isfinite(fill).all()):
                raise ValueError("what replaces missing values is not one number for each feature")
        numbers = np.array([-1, *self.flagged.tolist(), self.n_features])
        if (np.diff(numbers) <= 0).any() or (len(self.flagged) and self.fill is None):
            raise ValueError("the features with a weight for missing values do not fit")

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return self.raw_fill is not None or self.fill is not None

    @property
    def n_parameters(self) -> int:
        """One for each feature, and one more for each that is flagged."""
        return self.n_features + len(self.flagged)

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X if self.raw_fill is None else replace_nan(X, self.raw_fill)

    def columns(self, X: Features) -> Features:
        """Return what the parameters are weights of: features without NaN, and a column of 0 and 1 for each flagged."""
        if self.fill is None:
            return X
        filled = replace_nan(X, self.fill)
        if not len(self.flagged):
            return filled
        if sp.issparse(X):
            gaps = np.isnan(X.data).astype(X.dtype)
            absent = sp.csr_array((gaps, X.indices, X.indptr), shape=X.shape, copy=True)
            absent.eliminate_zeros()
            return sp.csr_array(sp.hstack([cast("sp.csr_array", filled), absent[:, self.flagged]], format="csr"))
        return np.hstack([np.asarray(filled), np.isnan(X[:, self.flagged]).astype(X.dtype)])

    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents."""
        return linear_scores(self.columns(X), theta, n_jobs)

    def contributions(self, theta: FloatArray, X: Features, references: Features) -> FloatArray:
        """Return weight times the difference to the mean value of the references, for each document and feature.

        Where a value is missing, its second weight counts with the feature.

        >>> Weights(2).contributions(np.array([2.0, -1.0]), np.array([[3.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 5.0]]))
        array([[3., 2.]])
        """
        columns, others = self.columns(X), self.columns(references)
        values = np.asarray(columns.toarray() if sp.issparse(columns) else columns, dtype=np.float64)
        parts = np.asarray((values - np.asarray(others.mean(axis=0, dtype=np.float64)).ravel()) * theta)
        parts[:, self.flagged] += parts[:, self.n_features :]
        return parts[:, : self.n_features]

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the weights of the features."""
        return theta[: self.n_features]

    def arrays(self) -> dict[str, AnyArray]:
        """Return what replaces missing values."""
        parts = {"raw_fill": self.raw_fill, "fill": self.fill, "flagged": self.flagged if len(self.flagged) else None}
        return {f"weights.{name}": part for name, part in parts.items() if part is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Make weights for a number of features."""
        types = {"raw_fill": np.float64, "fill": np.float64, "flagged": np.int64}
        parts = {
            name: stored(arrays, f"weights.{name}", dtype)
            for name, dtype in types.items()
            if f"weights.{name}" in arrays
        }
        return cls(n_features, **parts)


class PreparedLinear(PreparedScorer):
    """Scores X·w of dense or sparse features, on the CPU or another device."""

    def __init__(
        self,
        queries: Queries,
        signs: IntArray | None = None,
        form: Weights | None = None,
        device: str | None = None,
    ) -> None:
        self.form = form or Weights(queries.n_features)
        X = self.form.columns(queries.X)
        self.queries = queries if X is queries.X else queries.with_features(X)
        self.signs = signs
        self.n_parameters = self.form.n_parameters
        self.n_bytes = X.data.nbytes if sp.issparse(X) else X.shape[0] * X.shape[1] * X.dtype.itemsize
        #: The features on a device, if they are kept there.
        self.rows = None if device is None else DeviceRows(X, device)
        if self.rows is None:
            self._score, self._pull_back = _row_kernels(X)
        else:
            self._score, self._pull_back = self.rows.score, self.rows.pull_back
            self.n_bytes = self.run_bytes = self.rows.n_bytes

    @cached_property
    def spread(self) -> float:  # type: ignore[override]
        """Root of the mean square distance of the documents from their mean."""
        return float(np.linalg.norm(Standardize().fit(self.queries).scale_))

    def table(self, theta: FloatArray) -> FloatArray:
        """Return the weights themselves."""
        return theta

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        self._score(table, scores, start, stop)

    def empty(self, n: int) -> FloatArray:
        """Make room for scores or slopes."""
        return super().empty(n) if self.rows is None else self.rows.empty(n)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add Σ slope·row."""
        self._pull_back(slopes, cells, start, stop)

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Return the cells themselves."""
        return cells


def replace_nan(X: Features, fill: FloatArray) -> Features:
    """Return features with a value of their column in place of NaN; without any NaN, X itself.

    >>> replace_nan(np.array([[1.0, np.nan]]), np.array([5.0, 7.0])).tolist()
    [[1.0, 7.0]]
    """
    absent = np.isnan(X.data if sp.issparse(X) else X)
    if not absent.any():
        return X
    if sp.issparse(X):
        data = np.where(absent, fill[X.indices], X.data).astype(X.dtype)
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
    return np.where(absent, fill, X).astype(X.dtype)


def _with_gaps(X: Features) -> IntArray:
    """Features that are missing somewhere."""
    if sp.issparse(X):
        return np.unique(X.indices[np.isnan(X.data)]).astype(np.int64)
    return np.flatnonzero(np.isnan(X).any(axis=0))


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
    score, _ = _row_kernels(X)
    bounds = np.linspace(0, n, min(CHUNKS, n) + 1, dtype=np.int64).tolist()
    for_each(lambda start, stop: score(w, scores, start, stop), list(pairwise(bounds)), n_jobs)
    return scores


def _row_kernels(X: Features) -> tuple[Rows, Rows]:
    """Scores of rows, and slopes of rows back to weights, for the kind of features at hand."""
    from marginrank.scorers import linear_kernel as kernel  # noqa: PLC0415

    if sp.issparse(X):
        parts = X.data, X.indices, X.indptr
        return (
            lambda w, scores, start, stop: kernel.score_sparse_rows(*parts, w, scores, start, stop),
            lambda slopes, out, start, stop: kernel.add_sparse_rows(*parts, slopes, start, stop, out),
        )
    return (
        lambda w, scores, start, stop: kernel.score_rows(X, w, scores, start, stop),
        lambda slopes, out, start, stop: kernel.add_rows(X, slopes, start, stop, out),
    )
