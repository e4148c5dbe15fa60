"""The linear scorer: scores X·w, and the risk of a loss as a function of w."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.threads import chunk_bounds, for_each, thread_count
from marginrank.typing import Features, FloatArray

#: Features that are read together: few enough to stay in a core's cache between scores and gradient.
CACHED_BYTES = 1 << 21

Rows: TypeAlias = Callable[[Any, Any, int, int], None]


class LinearRisk:
    """Mean loss over the queries that carry an order, and its gradient, as a function of the weights w.

    The features are read once: a few queries at a time are scored, their losses taken, and the slopes brought back to
    the weights while the features are still in the cache. Results do not depend on the number of threads.

    >>> from marginrank.losses.structured import StructuredLoss
    >>> queries = Queries.from_arrays([[1.0, 0.0], [0.0, 1.0]], [1, 0], group=[2])
    >>> risk = LinearRisk(queries, StructuredLoss("auc", "po"))
    >>> value, gradient = risk(np.array([0.25, 0.0]))
    >>> value, gradient.tolist()
    (0.5, [-2.0, 2.0])
    """

    def __init__(self, queries: Queries, loss: Loss, n_jobs: int | None = None) -> None:
        if not isinstance(queries, Queries) or not isinstance(loss, Loss):
            raise TypeError("LinearRisk(queries, loss) takes Queries and a Loss, such as StructuredLoss('ap')")
        self.queries = queries
        self.loss = loss.bind(queries)
        weights = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
        counted = np.where(self.loss.active, weights, 0.0)
        self.weights = counted / counted.sum() if counted.any() else counted
        self._offsets = queries.offsets
        self._width = queries.n_features
        self._score, self._pull_back = _row_kernels(queries.X)
        row_bytes = queries.n_features * queries.X.dtype.itemsize
        self._chunks = list(pairwise(chunk_bounds(queries.offsets, _chunk_count(queries, row_bytes)).tolist()))
        self._n_jobs = thread_count(n_jobs)
        self._scores, self._slopes = np.empty(queries.n_documents), np.empty(queries.n_documents)
        self._xi = np.zeros(len(queries))

    def __call__(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Risk and gradient at w."""
        weights = self._check(w)
        parts = np.zeros((len(self._chunks), self._width))
        for_each(
            lambda number: self._work(weights, parts, number), [(k,) for k in range(len(self._chunks))], self._n_jobs
        )
        return float(self.weights @ self._xi), parts.sum(axis=0)

    def scores(self, w: FloatArray) -> FloatArray:
        """Scores X·w, in the order of the rows that the queries were made from, as `evaluate` takes them."""
        weights = self._check(w)
        self._score(weights, self._scores, 0, len(self._scores))
        return np.asarray(self.queries.restore(self._scores.copy()))

    def _check(self, w: FloatArray) -> FloatArray:
        weights = np.asarray(w, dtype=np.float64)
        if weights.shape != (self._width,):
            raise DataError(f"w has shape {weights.shape} for {self._width} features; give one weight per feature")
        if not np.isfinite(weights).all():
            raise DataError(f"w[{int(np.argmin(np.isfinite(weights)))}] is not finite")
        return np.ascontiguousarray(weights)

    def _work(self, w: FloatArray, parts: FloatArray, number: int) -> None:
        first, end = self._chunks[number]
        start, stop = int(self._offsets[first]), int(self._offsets[end])
        self._score(w, self._scores, start, stop)
        if not np.isfinite(self._scores[start:stop]).all():
            at = start + int(np.argmin(np.isfinite(self._scores[start:stop])))
            raise DataError(f"document {at} has score {self._scores[at]}; its features are missing, or w is too large")
        self.loss.evaluate(self._scores, self._xi, self._slopes, first, end)
        self._slopes[start:stop] *= np.repeat(self.weights[first:end], np.diff(self._offsets[first : end + 1]))
        self._pull_back(self._slopes, parts[number], start, stop)


def _chunk_count(queries: Queries, row_bytes: int) -> int:
    size = queries.X.data.nbytes if sp.issparse(queries.X) else queries.n_documents * row_bytes
    # Every chunk has a gradient of its own until the end, which must not take more room than the features.
    most = max(8, size // (8 * max(1, queries.n_features)))
    return max(1, min(len(queries), size // CACHED_BYTES, most))


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
