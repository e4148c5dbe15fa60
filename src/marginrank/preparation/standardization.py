"""Columns on a common scale, learned from the training documents of all queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np

from marginrank.data.inputs import FeatureError
from marginrank.data.partitions import Arrays, LocalPartitions, Partitions
from marginrank.errors import DataError
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.preparation.scaling_formulas import standardized
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import allocate, for_each_block
from marginrank.typing import AnyArray, Features, FloatArray

#: Numbers worked on at a time: features are never held in float64 at once, and a block stays in the cache of a core.
_NUMBERS: Final = 1 << 17
#: Least rows of a block, so that what is kept of each takes little memory beside them.
_LEAST_ROWS: Final = 256


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
        self._learn_in(LocalPartitions([lambda: X]))

    def _learn_in(self, parts: Partitions[Features]) -> None:
        ((low, high, sparse),) = parts.reduce(_extent, merge=_widest)
        empty = np.isnan(low)
        low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
        unit = _unit(low, high)
        # In units of the range, squares cannot overflow or vanish, and a constant column is exactly 0.
        origin, divisor = np.zeros(len(low)) if sparse.any() else low, np.where(unit > 0, unit, 1.0)
        ((counts, sums),) = parts.add(_sums, origin, divisor)
        counts = np.maximum(counts, 1)
        mean = sums / counts
        ((squares,),) = parts.add(_squares, origin, divisor, mean)
        self.mean_ = np.zeros(len(low)) if sparse.any() else low + mean * unit
        self.scale_ = np.sqrt(squares / counts) * unit

    def scaled_rows(self, rows: AnyArray) -> AnyArray:
        """Scale some rows of dense features, which are not checked again."""
        return standardized(rows, self.mean_, self.scale_).astype(rows.dtype, copy=False)

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
        out = allocate(X.shape, X.dtype)

        def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
            out[rows] = self.scaled_rows(block)

        for_each_block(X, work, _rows_at_a_time(X), out=out)
        return out


def _unit(low: FloatArray, high: FloatArray) -> FloatArray:
    """Range of each column, unless float64 cannot hold it."""
    with np.errstate(over="ignore"):
        unit = high.astype(np.float64) - low
    if np.isinf(unit).any():
        column = int(np.argmax(np.isinf(unit)))
        raise FeatureError("the values of {feature} lie further apart than float64 holds; scale it down", column)
    return unit


def _extent(X: Features) -> Arrays:
    """Least and greatest value of each column, NaN where it has none, and whether it is sparse."""
    if not X.shape[0]:
        return np.full(X.shape[1], np.nan, X.dtype), np.full(X.shape[1], np.nan, X.dtype), np.array([sp.issparse(X)])
    if not sp.issparse(X):
        ends = _by_block(X, lambda block: np.stack([np.fmin.reduce(block), np.fmax.reduce(block)]), 2)
        low, high = np.fmin.reduce(ends[:, 0]), np.fmax.reduce(ends[:, 1])
        return low.astype(X.dtype), high.astype(X.dtype), np.array([False])
    n, width = X.shape
    partly = np.bincount(X.indices, minlength=width) < n
    low, high = np.where(partly, 0.0, np.nan), np.where(partly, 0.0, np.nan)
    np.fmin.at(low, X.indices, X.data)
    np.fmax.at(high, X.indices, X.data)
    return low, high, np.array([True])


def _widest(one: Arrays, other: Arrays) -> Arrays:
    return np.fmin(one[0], other[0]), np.fmax(one[1], other[1]), one[2] | other[2]


def _sums(X: Features, origin: FloatArray, unit: FloatArray) -> Arrays:
    """Count and sum of ``(X - origin) / unit``, by column, without the NaNs."""
    if sp.issparse(X):
        column, values, counts = _present(X, unit)
        return counts, np.bincount(column, values, X.shape[1])
    missing, sums = _by_block(X, lambda block: _sum_of_numbers(_in_units(block, origin, unit)), 2).sum(axis=0)
    return len(X) - missing.astype(np.int64), sums


def _squares(X: Features, origin: FloatArray, unit: FloatArray, mean: FloatArray) -> Arrays:
    """Sum of the squares of ``(X - origin) / unit - mean``, by column, without the NaNs."""
    if sp.issparse(X):
        column, values, counts = _present(X, unit)
        zeros = counts - np.bincount(column, minlength=X.shape[1])
        return (np.bincount(column, (values - mean[column]) ** 2, X.shape[1]) + zeros * mean**2,)

    def squared(block: AnyArray) -> FloatArray:
        away = _in_units(block, origin, unit)
        away -= mean
        return np.asarray(_sum_of_numbers(np.multiply(away, away, out=away))[1])

    return (_by_block(X, squared, 1).sum(axis=(0, 1)),)


def _rows_at_a_time(X: AnyArray) -> int:
    return max(_LEAST_ROWS, _NUMBERS // max(1, int(X.shape[1])))


def _by_block(X: AnyArray, reduce: Callable[..., AnyArray], n: int) -> FloatArray:
    """Return what columns are reduced to, n numbers each, in each block of rows; they do not depend on the threads."""
    found = np.empty((-(-len(X) // _rows_at_a_time(X)), n, X.shape[1]))

    def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        found[number] = reduce(block)

    for_each_block(X, work, _rows_at_a_time(X))
    return found


def _in_units(block: AnyArray, origin: FloatArray, unit: FloatArray) -> FloatArray:
    away = np.subtract(block, origin, dtype=np.float64)
    away /= unit
    return away


def _sum_of_numbers(values: FloatArray) -> FloatArray:
    """Return how many NaNs each column has, and the sum of its other values."""
    total = values.sum(axis=0)
    if not np.isnan(total).any():
        return np.stack([np.zeros_like(total), total])
    return np.stack([np.isnan(values).sum(axis=0), np.nansum(values, axis=0)])


def _present(X: sp.csr_array, unit: FloatArray) -> tuple[AnyArray, FloatArray, AnyArray]:
    """Columns of the stored values that are not NaN, the values over the unit, and values of each column, zeros too."""
    present = ~np.isnan(X.data)
    column = X.indices[present]
    counts = X.shape[0] - np.bincount(X.indices[~present], minlength=X.shape[1])
    return column, X.data[present].astype(np.float64) / unit[column], counts
