"""Columns on a common scale, learned from the training documents of all queries."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from marginrank.data.naming import FeatureError
from marginrank.errors import DataError
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.preparation.formulas import standardized
from marginrank.sparse import sp
from marginrank.typing import AnyArray, Features, FloatArray

# Rows worked on at a time, so that float32 or memory-mapped features are never held in float64 at once.
BLOCK = 8192


class Standardize(FeatureTransformer):
    """Scale each column to mean 0 and standard deviation 1 over all training documents.

    ``x' = (x - mean_) / scale_``, ``scale_² = Σ (x - mean_)² / n``

    A column that is constant in the training documents carries nothing to learn from: it has ``scale_`` 0
    and becomes 0 for every later value too. NaN is left out of mean and standard deviation and stays NaN; a
    column without any value counts as constant at 0. ``qid`` and ``group`` are accepted and make no
    difference.

    A sparse ``X`` is divided by ``scale_``, which counts its zeros, but not centred: zeros stay zeros, and a linear
    ranker orders documents the same with and without centring. Fitted on a sparse ``X``, ``mean_`` is 0, and dense
    features are not centred either.

    >>> scaler = Standardize().fit([[1.0, 4.0], [3.0, 4.0]])
    >>> scaler.mean_.tolist(), scaler.scale_.tolist()
    ([2.0, 4.0], [1.0, 0.0])
    >>> scaler.transform([[5.0, 7.0]]).tolist()
    [[3.0, 0.0]]

    Attributes:
        mean_: Mean of each column.
        scale_: Standard deviation of each column, 0 where it is constant.
    """

    takes_sparse: ClassVar[bool] = True
    mean_: FloatArray
    scale_: FloatArray

    def _learn(self, X: Features) -> None:
        if sp.issparse(X):
            self.scale_ = _sparse_spread(X)
            self.mean_ = np.zeros(X.shape[1])
            return
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        empty = np.isnan(low)
        low = np.where(empty, 0.0, low)
        unit = _unit(low, np.where(empty, 0.0, high))
        # In units of the range, squares cannot overflow or vanish, and a constant column is exactly 0.
        mean, std = _moments(X, low, np.where(unit > 0, unit, 1.0))
        self.mean_ = low + mean * unit
        self.scale_ = std * unit

    def _apply(self, X: Features, grouping: Grouping | None) -> Features:  # noqa: ARG002
        if sp.issparse(X):
            varies = self.scale_ > 0
            divisor = np.where(varies, self.scale_, 1.0)
            if self.mean_.any():
                raise DataError(
                    "Standardize was fitted on dense features, and centring would fill the zeros of a sparse X; pass "
                    "X.toarray(), or fit on a sparse X"
                )
            data = np.where(varies[X.indices] | np.isnan(X.data), X.data / divisor[X.indices], 0.0)
            return sp.csr_array((data.astype(X.dtype), X.indices, X.indptr), shape=X.shape)
        out = np.empty(X.shape, dtype=X.dtype)
        for rows in _blocks(len(X)):
            out[rows] = standardized(X[rows], self.mean_, self.scale_)
        return out


def _unit(low: FloatArray, high: FloatArray) -> FloatArray:
    """Range of each column, unless float64 cannot hold it."""
    with np.errstate(over="ignore"):
        unit = high.astype(np.float64) - low
    if np.isinf(unit).any():
        column = int(np.argmax(np.isinf(unit)))
        raise FeatureError("the values of {feature} lie further apart than float64 holds; scale it down", column)
    return unit


def _sparse_spread(X: sp.csr_array) -> FloatArray:
    """Standard deviation of each column of a CSR matrix, zeros counted and NaN left out."""
    present = ~np.isnan(X.data)
    column, values = X.indices[present], X.data[present].astype(np.float64)
    n_columns = X.shape[1]
    stored = np.bincount(column, minlength=n_columns)
    count = X.shape[0] - np.bincount(X.indices[~present], minlength=n_columns)
    low = np.where(stored < count, 0.0, np.inf)
    high = -low
    np.minimum.at(low, column, values)
    np.maximum.at(high, column, values)
    empty = count == 0
    unit = _unit(np.where(empty, 0.0, low), np.where(empty, 0.0, high))
    values /= np.where(unit > 0, unit, 1.0)[column]
    count = np.maximum(count, 1)
    mean = np.bincount(column, values, n_columns) / count
    squares = np.bincount(column, (values - mean[column]) ** 2, n_columns) + (count - stored) * mean**2
    return np.asarray(unit * np.sqrt(squares / count))


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def _moments(X: AnyArray, origin: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of ``(X - origin) / unit``, by column, without the NaNs."""
    blocks = _blocks(len(X))
    count = np.maximum(sum(np.count_nonzero(~np.isnan(X[rows]), axis=0) for rows in blocks), 1)
    mean = sum(np.nansum((X[rows] - origin) / unit, axis=0) for rows in blocks) / count
    squares = sum(np.nansum(((X[rows] - origin) / unit - mean) ** 2, axis=0) for rows in blocks)
    return mean, np.sqrt(squares / count)
