"""Losses as weighted sums over relevant documents, each against all other documents of its query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marginrank.data.grouping import offsets_from_sizes, rows_of
from marginrank.errors import DataError
from marginrank.losses.base import Judgements, PreparedLoss
from marginrank.losses.prepared_per_query import PreparedPerQuery
from marginrank.typing import FloatArray

if TYPE_CHECKING:
    from marginrank.losses.base import Loss

_NOT_A_SUM: Final = (
    "is not a sum over relevant documents, so weights of documents would not make it unbiased; train 'ranksvm', "
    "StructuredLoss('dcg@10') or SoftmaxCrossEntropy(), or judge documents and leave out document_weights"
)


def prepare_weighted(loss: Loss, judged: Judgements, weights: FloatArray) -> PreparedLoss:
    """Prepare a loss for queries with document weights, and for those among them that are judged instead."""
    missing = np.isnan(weights)
    if not missing.any():
        return RelevantDocuments(loss.of_clicks, judged, weights)
    # NaN for one document is NaN for its query.
    whole = np.zeros(len(judged.offsets) - 1, dtype=np.bool_)
    whole[np.searchsorted(judged.offsets, np.flatnonzero(missing), side="right") - 1] = True
    parts = [
        (np.flatnonzero(~whole), loss._of),
        (np.flatnonzero(whole), lambda part: loss._of(part._replace(weights=None))),
    ]
    return PreparedPerQuery([(queries, prepare) for queries, prepare in parts if len(queries)], judged)


class RelevantDocuments(PreparedLoss):
    """The loss of each relevant document alone, averaged by weight.

    Every document i with a grade g_i > 0 and a weight w_i > 0 is an example: it alone is relevant, with grade 1, and
    all other documents of its query compete with it, other relevant ones too. With v_i = g_i·w_i and ℓ_i the loss of
    the example, ξ = Σ_i v_i·ℓ_i / Σ_i v_i, and the query counts Σ_i v_i times its weight, so that the risk is the mean
    of ℓ over all examples of all queries. With g_i clicks that each had the probability 1/w_i to be seen, it is, up to
    a factor, the estimate of Joachims, Swaminathan and Schnabel (WSDM 2017). Scores are copied for each example,
    features are not.

    >>> from marginrank.losses import PairwiseHinge
    >>> weighted = PairwiseHinge().prepare([1, 0, 2], weights=[3.0, 9.0, 1.0])   # 3 examples of document 0, 2 of 2
    >>> weighted([0.0, 0.0, 0.5])[0].tolist()                                    # (3·(1 + 1.5)/2 + 2·½) / 5
    [0.95]
    """

    def __init__(self, loss: Loss, judged: Judgements, weights: FloatArray) -> None:
        if not loss.sums_relevant:
            raise DataError(f"{loss} {_NOT_A_SUM}")
        self.offsets = judged.offsets
        lengths, total = np.diff(judged.offsets), judged.grades * weights
        relevant = np.flatnonzero(total > 0)
        query = np.repeat(np.arange(len(lengths)), lengths)[relevant]
        # The document of each place of each example, one example after the other.
        self._documents = rows_of(judged.offsets, query)
        self._places = offsets_from_sizes(lengths[query])
        self._examples = np.searchsorted(query, np.arange(len(lengths) + 1))
        grades = (self._documents == np.repeat(relevant, lengths[query])).astype(np.float64)
        groups = None if judged.groups is None else judged.groups[self._documents]
        alone = Judgements(grades, self._places, groups, lambda: judged.keys()[self._documents])
        self._each = loss._of(alone)
        value = np.where(self._each.active, total[relevant], 0.0)
        #: Weight of the examples of each query.
        self.totals = np.bincount(query, value, len(lengths)).astype(np.float64)
        self.active = self.totals > 0
        self._shares = value / np.where(self.active, self.totals, 1.0)[query]
        self._by_place = np.repeat(self._shares, lengths[query])
        n = len(self._documents)
        self._scores, self._out, self._move, self._xi = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(len(query))

    def counted(self, query_weights: FloatArray | None) -> FloatArray:
        """Return the weight of each query: its own times that of its examples."""
        return super().counted(query_weights) * self.totals

    @property
    def exact(self) -> bool:
        """Whether the loss of every example is."""
        return self._each.exact

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Write the slacks of queries ``first`` to ``end`` and their gradient with respect to the scores."""
        low, high, places = self._range(first, end)
        self._scores[places] = scores[self._documents[places]]
        self._each.evaluate(self._scores, self._xi, self._out, low, high)
        parts = np.repeat(np.arange(first, end), np.diff(self._examples[first : end + 1])) - first
        xi[first:end] = np.bincount(parts, self._shares[low:high] * self._xi[low:high], end - first)
        self._add_up(gradient, places, first, end)

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:
        """Write the generalized Hessian of queries ``first`` to ``end`` at the scores, times the direction."""
        low, high, places = self._range(first, end)
        self._scores[places] = scores[self._documents[places]]
        self._move[places] = direction[self._documents[places]]
        self._each.curve(self._scores, self._move, self._out, low, high)
        self._add_up(product, places, first, end)

    def diagonal(self, scores: FloatArray) -> FloatArray:
        """Return the diagonal of the generalized Hessian at the scores."""
        each = self._by_place * self._each.diagonal(scores[self._documents])
        return np.bincount(self._documents, each, len(scores)).astype(np.float64)

    def _range(self, first: int, end: int) -> tuple[int, int, slice]:
        low, high = int(self._examples[first]), int(self._examples[end])
        return low, high, slice(int(self._places[low]), int(self._places[high]))

    def _add_up(self, out: FloatArray, places: slice, first: int, end: int) -> None:
        start, stop = int(self.offsets[first]), int(self.offsets[end])
        each = self._by_place[places] * self._out[places]
        out[start:stop] = np.bincount(self._documents[places] - start, each, stop - start)
