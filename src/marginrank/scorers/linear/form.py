"""Weights of features: the form of the linear scorer after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from marginrank.runtime.device_features import DeviceFeatures
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import allocate, blocks, flush_rows
from marginrank.scorers.form import NAN_ADVICE, Form, stored
from marginrank.scorers.terms import LinearTerm
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

_NO_FEATURES = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LinearForm(Form):
    """Weights of features: the score is X·θ.

    >>> LinearForm(2).score(np.array([2.0, -1.0]), np.array([[1.0, 0.5]])).tolist()
    [1.5]

    Args:
        n_features: Number of features.
        raw_fill: Value of each feature that replaces NaN before scaling; None to keep NaN.
        fill: Value of each feature that replaces NaN after scaling; None to keep NaN.
        flagged: Features with a second weight, which is added if they are NaN; these weights are the last of θ.
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
                raise ValueError("the fill of missing values is not one finite number for each feature")
        numbers = np.array([-1, *self.flagged.tolist(), self.n_features])
        if (np.diff(numbers) <= 0).any() or (len(self.flagged) and self.fill is None):
            raise ValueError("the features with a weight for missing values do not fit")

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return self.raw_fill is not None or self.fill is not None

    @property
    def weights_features(self) -> bool:  # type: ignore[override]
        """Whether scores are weighted sums of the features: not if they are filled after scaling."""
        return self.fill is None

    @property
    def n_parameters(self) -> int:
        """One for each feature, and one more for each that is flagged."""
        return self.n_features + len(self.flagged)

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X if self.raw_fill is None else replace_nan(X, self.raw_fill)

    def columns(self, X: Features) -> Features:
        """Return the columns that θ weights: features without NaN, and an indicator for each flagged feature."""
        if self.fill is None:
            return X
        if not len(self.flagged):
            return replace_nan(X, self.fill)
        if sp.issparse(X):
            filled = replace_nan(X, self.fill)
            missing = np.isnan(X.data).astype(X.dtype)
            absent = sp.csr_array((missing, X.indices, X.indptr), shape=X.shape, copy=True)
            absent.eliminate_zeros()
            return sp.csr_array(sp.hstack([cast("sp.csr_array", filled), absent[:, self.flagged]], format="csr"))
        columns = allocate((len(X), self.n_parameters), X.dtype)
        for rows, block in blocks(X):
            missing = np.isnan(block)
            columns[rows, : self.n_features] = np.where(missing, self.fill, block)
            columns[rows, self.n_features :] = missing[:, self.flagged]
            flush_rows(columns, rows)
        return columns

    def score(self, theta: FloatArray, X: npt.ArrayLike | Features, n_jobs: int | None = None) -> FloatArray:
        """Return the scores of documents; stored values of sparse features are added in order."""
        if not sp.issparse(X):
            return super().score(theta, X, n_jobs)
        from marginrank.scorers.linear.scorer import linear_scores  # noqa: PLC0415

        return linear_scores(self.columns(X), theta, n_jobs)

    def terms(self, theta: FloatArray) -> tuple[LinearTerm, ...]:
        """Return the weights of features and of missing values."""
        weights, flags = np.split(theta, [self.n_features])
        return (LinearTerm(weights, self.raw_fill, self.fill, self.flagged, flags),)

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the weights of the features."""
        return theta[: self.n_features]

    def arrays(self) -> dict[str, AnyArray]:
        """Return the values that replace missing ones."""
        arrays = {"raw_fill": self.raw_fill, "fill": self.fill, "flagged": self.flagged if len(self.flagged) else None}
        return {f"weights.{name}": array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the form from what `arrays` returned."""
        types = {"raw_fill": np.float64, "fill": np.float64, "flagged": np.int64}
        fills = {
            name: stored(arrays, f"weights.{name}", dtype)
            for name, dtype in types.items()
            if f"weights.{name}" in arrays
        }
        return cls(n_features, **fills)


def replace_nan(X: Features, fill: FloatArray) -> Features:
    """Return features with NaN replaced by the value of the column; X itself if it has no NaN.

    >>> replace_nan(np.array([[1.0, np.nan]]), np.array([5.0, 7.0])).tolist()
    [[1.0, 7.0]]
    """
    if sp.issparse(X):
        absent = np.isnan(X.data)
        data = np.where(absent, fill[X.indices], X.data).astype(X.dtype)
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape) if absent.any() else X
    if isinstance(X, DeviceFeatures):
        return X if X.is_finite(allow_nan=False) else cast("Features", X.filled(fill))
    if not has_nan(X):
        return X
    filled = allocate(X.shape, X.dtype)
    for rows, block in blocks(X):
        filled[rows] = np.where(np.isnan(block), fill, block)
        flush_rows(filled, rows)
    return filled


def has_nan(X: AnyArray) -> bool:
    """Return whether any value is NaN, by blocks of rows."""
    return any(np.isnan(block).any() for _, block in blocks(X))
