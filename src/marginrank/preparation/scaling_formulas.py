"""Scalings as functions of arrays, without the estimators around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from marginrank.typing import AnyArray, FloatArray, IntArray


def standardized(X: AnyArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (X − mean) / scale, and 0 if the scale is 0; NaN stays NaN.

    >>> standardized(np.array([[5.0, 7.0, np.nan]]), np.array([2.0, 4.0, 0.0]), np.array([1.0, 0.0, 0.0])).tolist()
    [[3.0, 0.0, nan]]
    """
    varies = scale > 0
    centered = (X - mean) / np.where(varies, scale, 1.0)
    return np.asarray(centered if varies.all() else np.where(varies | np.isnan(centered), centered, 0.0))


def unscaled_weights(weights: FloatArray, scale: FloatArray) -> FloatArray:
    """Return weights / scale, the weights of centered features that give the same scores; 0 if the scale is 0.

    >>> unscaled_weights(np.array([6.0, 1.0]), np.array([2.0, 0.0])).tolist()
    [3.0, 0.0]
    """
    varies = scale > 0
    return np.where(varies, weights / np.where(varies, scale, 1.0), 0.0)


def to_unit_range(X: AnyArray, offsets: IntArray) -> FloatArray:
    """Return each column scaled to [0, 1] within each query."""
    low = np.fmin.reduceat(X, offsets[:-1], axis=0).astype(np.float64)
    high = np.fmax.reduceat(X, offsets[:-1], axis=0).astype(np.float64)
    with np.errstate(over="ignore"):
        spread = high - low
    if np.isinf(spread).any():
        from marginrank.data.inputs import FeatureError  # noqa: PLC0415

        feature = int(np.argwhere(np.isinf(spread))[0, 1])
        raise FeatureError("the values of {feature} lie further apart than float64 holds; scale it down", feature)
    unit: FloatArray = X - _per_document(low, offsets)
    unit /= _per_document(_or_one(spread), offsets)
    return unit


def to_unit_variance(X: AnyArray, offsets: IntArray) -> FloatArray:
    """Return each column with mean 0 and standard deviation 1 within each query."""
    # Standardizing undoes any scaling before it; in [0, 1], squares cannot overflow or vanish, and a constant feature
    # is exactly 0.
    unit = to_unit_range(X, offsets)
    present = ~np.isnan(unit)
    count = np.maximum(_sums(present, offsets), 1)
    unit -= _per_document(_sums(np.where(present, unit, 0.0), offsets) / count, offsets)
    variance = _sums(np.where(present, unit * unit, 0.0), offsets) / count
    unit /= _per_document(_or_one(np.sqrt(variance)), offsets)
    return unit


def to_percentiles(X: AnyArray, offsets: IntArray) -> FloatArray:
    """Return the percentile rank of each value among those of its query."""
    # The narrowest type lets the stable sort below run in linear time.
    query = _per_document(np.arange(len(offsets) - 1, dtype=np.min_scalar_type(len(offsets))), offsets)
    start = _per_document(offsets[:-1], offsets)
    out = np.empty(X.shape)
    for feature, values in enumerate(X.T):
        order = np.argsort(values)
        order = order[np.argsort(query[order], kind="stable")]
        ranks = _middle_of_ties(values[order], query) - start
        present = ~np.isnan(values)
        out[order, feature] = ranks / _per_document(np.maximum(_sums(present, offsets), 1), offsets)
        out[~present, feature] = np.nan
    return out


def _middle_of_ties(values: AnyArray, query: AnyArray) -> FloatArray:
    """Return the middle of the positions of the equal values around each value, within a query.

    >>> _middle_of_ties(np.array([1.0, 1.0, 1.0, 2.0]), np.array([0, 0, 1, 1])).tolist()
    [1.0, 1.0, 2.5, 3.5]
    """
    starts = np.flatnonzero(np.r_[True, (values[1:] != values[:-1]) | (query[1:] != query[:-1])])
    ends = np.r_[starts[1:], len(values)]
    return np.repeat((starts + ends) / 2, ends - starts)


def _or_one(divisor: FloatArray) -> FloatArray:
    return np.where(divisor > 0, divisor, 1.0)


def _sums(values: AnyArray, offsets: IntArray) -> FloatArray:
    return np.add.reduceat(values, offsets[:-1], axis=0, dtype=np.float64)


def _per_document(values: AnyArray, offsets: IntArray) -> AnyArray:
    return np.repeat(values, np.diff(offsets), axis=0)


#: Scalings by query, as functions of features and offsets of queries, which may not be empty.
BY_QUERY: Final[Mapping[str, Callable[[AnyArray, IntArray], FloatArray]]] = {
    "query-minmax": to_unit_range,
    "query-standard": to_unit_variance,
    "query-percentile": to_percentiles,
}
#: Learned attributes of each scaling, one number per feature.
LEARNED: Final[Mapping[str, tuple[str, ...]]] = {"standard": ("mean_", "scale_"), **dict.fromkeys(BY_QUERY, ())}
