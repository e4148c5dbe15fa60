"""Features relative to the other documents of the same query; nothing is learned from the training data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from marginrank.data.partitions import Partitions
from marginrank.errors import DataError
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.preparation.scaling_formulas import to_percentiles, to_unit_range, to_unit_variance
from marginrank.runtime.mapped_arrays import BLOCK_BYTES, allocate, flush_rows, is_large
from marginrank.runtime.threads import for_chunks
from marginrank.typing import AnyArray, Features, FloatArray, IntArray


class _PerQuery(FeatureTransformer):
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True, "group": None}
    __metadata_request__transform: ClassVar[dict[str, Any]] = {"qid": True, "group": None}

    def _learn(self, X: AnyArray) -> None:
        """Learn nothing but the columns."""

    def _learn_partitioned(self, parts: Partitions[Features]) -> None:
        """Learn nothing but the columns."""

    def _apply(self, X: AnyArray, grouping: Grouping | None) -> AnyArray:
        if grouping is None:
            raise DataError(
                f"{type(self).__name__} works query by query: pass qid (the query of each row), group (the "
                "rows of each query) or a Queries; in a Pipeline, switch scikit-learn's metadata routing on "
                "and give the Pipeline qid"
            )
        offsets, rows = grouping
        bounds = np.unique(offsets)  # reduceat cannot handle empty queries
        out = allocate(X.shape, X.dtype)

        def work(first: int, end: int) -> None:
            inside = slice(bounds[first], bounds[end])
            chosen = inside if rows is None else rows[inside]
            out[chosen] = self._apply_block(np.asarray(X[chosen]), bounds[first : end + 1] - bounds[first])

        if rows is None and is_large(X):
            _in_order(work, bounds, X, out)
        else:
            for_chunks(work, bounds)
        return out

    @staticmethod
    def _apply_block(X: AnyArray, offsets: IntArray) -> FloatArray:
        raise NotImplementedError


def _in_order(work: Callable[[int, int], object], bounds: IntArray, X: AnyArray, out: AnyArray) -> None:
    """Process a few queries at a time, so that little of X and of the result is in memory."""
    step = max(1, BLOCK_BYTES // X.strides[0])
    first = 0
    while first < len(bounds) - 1:
        end = max(first + 1, int(np.searchsorted(bounds, bounds[first] + step, side="right")) - 1)
        work(first, end)
        flush_rows(out, slice(int(bounds[first]), int(bounds[end])))
        first = end


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

    _apply_block = staticmethod(to_unit_range)


class QueryStandardize(_PerQuery):
    """Scale each feature to mean 0 and standard deviation 1 inside each query.

    ``x' = (x - mean) / std``, ``std² = Σ (x - mean)² / n``

    A feature that is constant in a query, or a query of one document, becomes 0. NaN is left out of mean and
    standard deviation and stays NaN.

    >>> QueryStandardize().fit_transform([[1.0], [3.0], [9.0]], group=[2, 1]).tolist()
    [[-1.0], [1.0], [0.0]]
    """

    _apply_block = staticmethod(to_unit_variance)


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

    _apply_block = staticmethod(to_percentiles)
