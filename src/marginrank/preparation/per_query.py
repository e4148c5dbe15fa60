"""Features relative to the other documents of the same query; nothing is learned from the training data."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from marginrank.data.naming import FeatureError
from marginrank.errors import DataError
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.threads import for_chunks
from marginrank.typing import AnyArray, FloatArray, IntArray


class _PerQuery(FeatureTransformer):
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True, "group": None}
    __metadata_request__transform: ClassVar[dict[str, Any]] = {"qid": True, "group": None}

    def _learn(self, X: AnyArray) -> None:
        """Only the number and the names of the columns are kept."""

    def _apply(self, X: AnyArray, grouping: Grouping | None) -> AnyArray:
        if grouping is None:
            raise DataError(
                f"{type(self).__name__} works query by query: pass qid (the query of each row), group (the "
                "rows of each query) or a Queries; in a Pipeline, switch scikit-learn's metadata routing on "
                "and give the Pipeline qid"
            )
        offsets, rows = grouping
        bounds = np.unique(offsets)  # reduceat knows no empty queries
        out = np.empty(X.shape, dtype=X.dtype)

        def work(first: int, end: int) -> None:
            inside = slice(bounds[first], bounds[end])
            place = inside if rows is None else rows[inside]
            out[place] = self._apply_block(np.asarray(X[place]), bounds[first : end + 1] - bounds[first])

        for_chunks(work, bounds)
        return out

    def _apply_block(self, X: AnyArray, offsets: IntArray) -> FloatArray:
        raise NotImplementedError


class QueryMinMax(_PerQuery):
    """Scale each feature to [0, 1] inside each query, as LETOR's QueryLevelNorm files do.

    ``x' = (x - min) / (max - min)``

    with the minimum and maximum over the documents of the query; this is also the per-query scaling of
    SVM_acc4 in Yue et al. (SIGIR 2007), section 5.2.1, whose example is the first doctest.

    A feature that is constant in a query, or a query of one document, becomes 0. NaN is left out of minimum
    and maximum and stays NaN.

    >>> scores = [[0.2], [0.6], [0.7], [5.0]]
    >>> QueryMinMax().fit_transform(scores, qid=["q", "q", "q", "alone"]).round(6).tolist()
    [[0.0], [0.8], [1.0], [0.0]]
    """

    def _apply_block(self, X: AnyArray, offsets: IntArray) -> FloatArray:
        return _to_unit_range(X, offsets)


class QueryStandardize(_PerQuery):
    """Scale each feature to mean 0 and standard deviation 1 inside each query.

    ``x' = (x - mean) / std``, ``std² = Σ (x - mean)² / n``

    A feature that is constant in a query, or a query of one document, becomes 0. NaN is left out of mean and
    standard deviation and stays NaN.

    >>> QueryStandardize().fit_transform([[1.0], [3.0], [9.0]], group=[2, 1]).tolist()
    [[-1.0], [1.0], [0.0]]
    """

    def _apply_block(self, X: AnyArray, offsets: IntArray) -> FloatArray:
        # Standardising undoes any scaling before it; from [0, 1], squares cannot overflow or vanish, and a
        # constant feature is exactly 0.
        unit = _to_unit_range(X, offsets)
        present = ~np.isnan(unit)
        count = np.maximum(_sums(present, offsets), 1)
        unit -= _per_document(_sums(np.where(present, unit, 0.0), offsets) / count, offsets)
        variance = _sums(np.where(present, unit * unit, 0.0), offsets) / count
        unit /= _per_document(_or_one(np.sqrt(variance)), offsets)
        return unit


class QueryPercentile(_PerQuery):
    """Replace each feature by its percentile rank among the documents of the query.

    ``x' = (#{x_j < x} + ½ #{x_j = x}) / n``

    where j runs over the n documents of the query and x itself is one of the equal ones: documents with
    equal values share the middle of the ranks they take, and the mean over a query is ½. SVM_acc3 of Yue et
    al. (SIGIR 2007), section 5.2.1, converts scores into percentiles without saying what ties get; the half
    is the usual definition of the percentile rank.

    A feature that is constant in a query, or a query of one document, becomes ½. NaN is left out of the
    counts and stays NaN.

    >>> QueryPercentile().fit_transform([[30.0], [10.0], [30.0], [70.0]], group=[4]).tolist()
    [[0.5], [0.125], [0.5], [0.875]]
    """

    def _apply_block(self, X: AnyArray, offsets: IntArray) -> FloatArray:
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


def _to_unit_range(X: AnyArray, offsets: IntArray) -> FloatArray:
    low = np.fmin.reduceat(X, offsets[:-1], axis=0).astype(np.float64)
    high = np.fmax.reduceat(X, offsets[:-1], axis=0).astype(np.float64)
    with np.errstate(over="ignore"):
        spread = high - low
    if np.isinf(spread).any():
        feature = int(np.argwhere(np.isinf(spread))[0, 1])
        raise FeatureError("the values of {feature} lie further apart than float64 holds; scale it down", feature)
    unit: FloatArray = X - _per_document(low, offsets)
    unit /= _per_document(_or_one(spread), offsets)
    return unit


def _middle_of_ties(values: AnyArray, query: AnyArray) -> FloatArray:
    """Middle of the places that a run of equal values of one query takes.

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
