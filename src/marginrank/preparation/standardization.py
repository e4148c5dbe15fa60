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

#: Values of a block: features are never all in float64, and a block fits into the cache of a core.
_BLOCK_VALUES: Final = 1 << 17
#: Minimum number of rows of a block, so that the results of all blocks need little memory.
_MIN_ROWS: Final = 256


class Standardize(FeatureTransformer):
    """Scale each column to mean 0 and standard deviation 1 over all training documents.

    ``x' = (x - mean_) / scale_``, ``scale_² = Σ (x - mean_)² / n``

    A column that is constant in the training documents has ``scale_`` 0, and becomes 0 for every later value
    too. NaN is left out of mean and standard deviation and stays NaN; a
    column without any value counts as constant at 0. ``qid`` and ``group`` are accepted and make no
    difference.

    A sparse ``X`` is divided by ``scale_``, which counts its zeros, but not centered: zeros stay zeros, and a linear
    ranker orders documents the same with and without centering. Fitted on a sparse ``X``, ``mean_`` is 0, and dense
    features are not centered either.

    >>> scaler = Standardize().fit([[1.0, 4.0], [3.0, 4.0]])
    >>> scaler.mean_.tolist(), scaler.scale_.tolist()
    ([2.0, 4.0], [1.0, 0.0])
    >>> scaler.transform([[5.0, 7.0]]).tolist()
    [[3.0, 0.0]]

    Attributes:
        mean_: Mean of each column.
        scale_: Standard deviation of each column, 0 if it is constant.
    """

    takes_sparse: ClassVar[bool] = True
    mean_: FloatArray
    scale_: FloatArray

    def _learn(self, X: Features) -> None:
        self._learn_partitioned(LocalPartitions([lambda: X]))

    def _learn_partitioned(self, parts: Partitions[Features]) -> None:
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

    def _apply(self, X: Features, grouping: Grouping | None) -> Features:  # noqa: ARG002
        if sp.issparse(X):
            varies = self.scale_ > 0
            divisor = np.where(varies, self.scale_, 1.0)
            if self.mean_.any():
                raise DataError(
                    "Standardize was fitted on dense features, and centering would fill the zeros of a sparse X; pass "
                    "X.toarray(), or fit on a sparse X"
                )
            data = np.where(varies[X.indices] | np.isnan(X.data), X.data / divisor[X.indices], 0.0)
            return sp.csr_array((data.astype(X.dtype), X.indices, X.indptr), shape=X.shape)
        out = allocate(X.shape, X.dtype)

        def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
            out[rows] = standardized(block, self.mean_, self.scale_)

        for_each_block(X, work, _block_rows(X), out=out)
        return out


def _unit(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the range of each column, and refuse one that float64 cannot hold."""
    with np.errstate(over="ignore"):
        unit = high.astype(np.float64) - low
    if np.isinf(unit).any():
        column = int(np.argmax(np.isinf(unit)))
        raise FeatureError("the values of {feature} lie further apart than float64 holds; scale it down", column)
    return unit


def _extent(X: Features) -> Arrays:
    """Return the minimum and maximum of each column, NaN if it is empty, and whether X is sparse."""
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


def _widest(left: Arrays, right: Arrays) -> Arrays:
    return np.fmin(left[0], right[0]), np.fmax(left[1], right[1]), left[2] | right[2]


def _sums(X: Features, origin: FloatArray, unit: FloatArray) -> Arrays:
    """Return the count and sum of ``(X - origin) / unit``, by column, without NaN."""
    if sp.issparse(X):
        column, values, counts = _present(X, unit)
        return counts, np.bincount(column, values, X.shape[1])
    missing, sums = _by_block(X, lambda block: _sum_present(_in_units(block, origin, unit)), 2).sum(axis=0)
    return len(X) - missing.astype(np.int64), sums


def _squares(X: Features, origin: FloatArray, unit: FloatArray, mean: FloatArray) -> Arrays:
    """Return the sum of the squares of ``(X - origin) / unit - mean``, by column, without NaN."""
    if sp.issparse(X):
        column, values, counts = _present(X, unit)
        zeros = counts - np.bincount(column, minlength=X.shape[1])
        return (np.bincount(column, (values - mean[column]) ** 2, X.shape[1]) + zeros * mean**2,)

    def squared(block: AnyArray) -> FloatArray:
        centred = _in_units(block, origin, unit)
        centred -= mean
        return np.asarray(_sum_present(np.multiply(centred, centred, out=centred))[1])

    return (_by_block(X, squared, 1).sum(axis=(0, 1)),)


def _block_rows(X: AnyArray) -> int:
    return max(_MIN_ROWS, _BLOCK_VALUES // max(1, int(X.shape[1])))


def _by_block(X: AnyArray, reduce: Callable[..., AnyArray], n: int) -> FloatArray:
    """Return the reduction of each column to n numbers in each block of rows, whatever the number of threads."""
    reduced = np.empty((-(-len(X) // _block_rows(X)), n, X.shape[1]))

    def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        reduced[number] = reduce(block)

    for_each_block(X, work, _block_rows(X))
    return reduced


def _in_units(block: AnyArray, origin: FloatArray, unit: FloatArray) -> FloatArray:
    shifted = np.subtract(block, origin, dtype=np.float64)
    shifted /= unit
    return shifted


def _sum_present(values: FloatArray) -> FloatArray:
    """Return the number of NaNs of each column, and the sum of its other values."""
    total = values.sum(axis=0)
    if not np.isnan(total).any():
        return np.stack([np.zeros_like(total), total])
    return np.stack([np.isnan(values).sum(axis=0), np.nansum(values, axis=0)])


def _present(X: sp.csr_array, unit: FloatArray) -> tuple[AnyArray, FloatArray, AnyArray]:
    """Return the columns of the stored values without NaN, these in units, and the values per column with zeros."""
    present = ~np.isnan(X.data)
    column = X.indices[present]
    counts = X.shape[0] - np.bincount(X.indices[~present], minlength=X.shape[1])
    return column, X.data[present].astype(np.float64) / unit[column], counts
