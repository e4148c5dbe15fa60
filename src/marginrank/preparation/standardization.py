"""Columns on a common scale, learned from the training documents of all queries."""

from __future__ import annotations

from typing import ClassVar, Final, cast

import numpy as np

from marginrank.data.inputs import FeatureError
from marginrank.data.partitions import Arrays, LocalPartitions, Partitions
from marginrank.errors import DataError
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import allocate, blocks, for_each_block
from marginrank.typing import AnyArray, Features, FloatArray

#: Values of a block.
_BLOCK_VALUES: Final = 1 << 20
#: Minimum number of rows of a block, so that the results of all blocks need little memory.
_MIN_ROWS: Final = 256
#: Rows that are searched first for a value of each column; most columns have one there.
_ORIGIN_ROWS: Final = 16
#: Sums of magnitudes beyond which squares could overflow or vanish, so that they are computed in units of the range.
_LARGE, _SMALL = 1e140, 1e-130
#: Distance of the first value from the mean, in standard deviations, from which moments are computed relative to the
#: mean: squares then lose four of their digits.
_FAR: Final = 100.0


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
    takes_device: ClassVar[bool] = True
    mean_: FloatArray
    scale_: FloatArray

    def _learn(self, X: Features) -> None:
        self._learn_partitioned(LocalPartitions([lambda: X]))

    def _learn_partitioned(self, parts: Partitions[Features]) -> None:
        ((origin, sparse),) = parts.reduce(_origin, merge=_first_present)
        origin, unit = np.where(np.isnan(origin), 0.0, origin), np.ones(len(origin))
        # Sums that overflow are computed again.
        with np.errstate(over="ignore"):
            ((counts, sums, squares, sizes),) = parts.add(_moments, origin)
        if ((sizes > _LARGE) | ((sizes > 0) & (sizes < _SMALL))).any():
            (extent,) = parts.reduce(_extent, merge=_widest)
            unit = _unit(*extent)
            ((counts, sums, squares, _),) = parts.add(_moments, origin, unit)
        shift, variance = _shift_and_variance(counts, sums, squares)
        far = np.abs(shift) > _FAR * np.sqrt(variance)
        if far.any():
            origin = np.where(far, origin + shift * unit, origin)
            ((counts, sums, squares, _),) = parts.add(_moments, origin, unit)
            shift, variance = _shift_and_variance(counts, sums, squares)
        self.mean_ = np.zeros(len(origin)) if sparse.any() else origin + shift * unit
        self.scale_ = np.sqrt(variance) * unit

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
        if isinstance(X, DeviceFeatures):
            return cast("Features", X.standardized(self.mean_, self.scale_))
        from marginrank.preparation.standardization_kernel import standardize_rows  # noqa: PLC0415

        out = allocate(X.shape, X.dtype)

        def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
            standardize_rows(np.ascontiguousarray(block), self.mean_, self.scale_, out[rows])

        for_each_block(X, work, out=out)
        return out


def _origin(X: Features) -> Arrays:
    """Return a value of each column, NaN if it is empty, and whether X is sparse.

    Sums of squares are computed relative to it: an offset that all values share does not cost precision, since the
    distance of one of n values from the mean is at most √n standard deviations, and a constant column is exactly 0.
    """
    n, width = X.shape
    origin = np.full(width, np.nan)
    if sp.issparse(X):
        present = ~np.isnan(X.data)
        origin[X.indices[present]] = X.data[present]
        origin[np.bincount(X.indices, minlength=width) < n] = 0.0
        return origin, np.array([True])
    for rows in (X[:_ORIGIN_ROWS], X[_ORIGIN_ROWS:]):
        for _, block in blocks(rows):
            empty = np.flatnonzero(np.isnan(origin))
            if not len(empty):
                break
            values = block[:, empty]
            origin[empty] = values[np.argmin(np.isnan(values), axis=0), np.arange(len(empty))]
    return origin, np.array([False])


def _first_present(left: Arrays, right: Arrays) -> Arrays:
    return np.where(np.isnan(left[0]), right[0], left[0]), left[1] | right[1]


def _moments(X: Features, origin: FloatArray, unit: FloatArray | None = None) -> Arrays:
    """Return count, sum, sum of squares and of magnitudes of ``(X - origin) / unit``, by column, without NaN."""
    if sp.issparse(X):
        return _sparse_moments(X, origin, 1.0 if unit is None else unit)
    if isinstance(X, DeviceFeatures):
        return X.moments(origin, unit)
    from marginrank.preparation.standardization_kernel import add_moments  # noqa: PLC0415

    n_rows = max(_MIN_ROWS, _BLOCK_VALUES // max(1, int(X.shape[1])))
    moments, zeros = np.zeros((-(-len(X) // n_rows), 4, X.shape[1])), np.zeros(X.shape[1])

    def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        if unit is None:
            add_moments(np.ascontiguousarray(block), origin, *moments[number])
        else:
            add_moments(np.subtract(block, origin, dtype=np.float64) / unit, zeros, *moments[number])

    for_each_block(X, work, n_rows)
    return tuple(moments.sum(axis=0))


def _shift_and_variance(counts: FloatArray, sums: FloatArray, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distance of the mean from the origin, and the variance, of each column."""
    counts = np.maximum(counts, 1)
    shift = sums / counts
    return shift, np.maximum(squares / counts - shift * shift, 0.0)


def _sparse_moments(X: sp.csr_array, origin: FloatArray, unit: FloatArray | float) -> Arrays:
    width, absent = X.shape[1], np.isnan(X.data)
    column, divisor = X.indices[~absent], np.broadcast_to(unit, X.shape[1])
    counts = X.shape[0] - np.bincount(X.indices[absent], minlength=width)
    n_zeros = counts - np.bincount(column, minlength=width)
    with np.errstate(over="ignore", invalid="ignore"):
        # A column without zeros may have squares of them that overflow.
        zeros = np.where(n_zeros > 0, -origin / divisor, 0.0)
        values = (X.data[~absent] - origin[column]) / divisor[column]
        sums = [np.bincount(column, of(values), width) + n_zeros * of(zeros) for of in (np.positive, np.square, np.abs)]
    return counts, *sums


def _unit(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the range of each column, 1 if it is 0, and refuse one that float64 cannot hold."""
    with np.errstate(over="ignore"):
        unit = np.subtract(high, low, dtype=np.float64)
    if np.isinf(unit).any():
        column = int(np.argmax(np.isinf(unit)))
        raise FeatureError("the values of {feature} lie further apart than float64 holds; scale it down", column)
    return np.where(unit > 0, unit, 1.0)


def _extent(X: Features) -> Arrays:
    """Return the minimum and maximum of each column, NaN if it is empty."""
    low, high = np.full((2, X.shape[1]), np.nan)
    if sp.issparse(X):
        low[np.bincount(X.indices, minlength=X.shape[1]) < X.shape[0]] = 0.0
        high[:] = low
        np.fmin.at(low, X.indices, X.data)
        np.fmax.at(high, X.indices, X.data)
    else:
        for _, block in blocks(X):
            low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
    return low, high


def _widest(left: Arrays, right: Arrays) -> Arrays:
    return np.fmin(left[0], right[0]), np.fmax(left[1], right[1])
