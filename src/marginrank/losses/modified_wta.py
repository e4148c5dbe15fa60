"""The modified winner-takes-all loss, whose cutoff differs from query to query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from marginrank.losses.base import Bound, Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.ideal_ranking import TwoBoundLoss
from marginrank.losses.structured import Groups, StructuredLoss
from marginrank.measures.ndcg import NDCG
from marginrank.typing import FloatArray, IntArray


def mwta_cutoffs(grades: FloatArray, offsets: IntArray) -> IntArray:
    """Return the cutoff of each query for mWTA, Le and Smola (2008) §6.4.

    If the first three documents of the ideal ranking have two or more grades, 3; if they have one, the first rank (from
    1) at which the next grade appears. The paper says "more than two" for the first case and leaves exactly two open;
    here two are enough. Queries with a single grade get 1.

    >>> mwta_cutoffs(np.array([2.0, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1]), np.array([0, 4, 9, 11])).tolist()
    [3, 5, 1]
    """
    cutoffs = np.ones(len(offsets) - 1, dtype=np.int64)
    for query in range(len(cutoffs)):
        ideal = np.sort(grades[offsets[query] : offsets[query + 1]])[::-1]
        changes = np.flatnonzero(np.diff(ideal))
        if len(changes):
            cutoffs[query] = max(min(3, len(ideal)), int(changes[0]) + 2)
    return cutoffs


@dataclass(frozen=True, repr=False)
class ModifiedWTA(TwoBoundLoss):
    """mWTA: NDCG with a cutoff for each query, so that winner takes all can be learned; Le and Smola (2008) §6.4.

    >>> ModifiedWTA()([1, 0], [0.0, 0.0])[0].round(4).tolist()                # as ndcg@2
    [0.3691]
    """

    feature_map: str | FeatureMap = "dorm"
    bound: Bound = "hinge"
    groups: Groups = "auto"

    @property
    def criterion(self) -> str:
        """Winner takes all, which mWTA stands in for."""
        return "wta"

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Prepare queries with the same cutoff together."""
        cutoffs = mwta_cutoffs(judged.grades, judged.offsets)
        loss = StructuredLoss(NDCG(), self.feature_map, self.bound, self.groups, ideal=self.ideal, seed=self.seed)
        parts = [
            (np.flatnonzero(cutoffs == k), replace(loss, measure=NDCG(k=int(k)))._prepare)
            for k in np.unique(cutoffs).tolist()
        ]
        return PreparedPerQuery(parts, judged)


class PreparedPerQuery(PreparedLoss):
    """A loss that prepares parts of the queries differently."""

    def __init__(
        self, parts: Sequence[tuple[IntArray, Callable[[Judgements], PreparedLoss]]], judged: Judgements
    ) -> None:
        self.offsets = judged.offsets
        self.active = np.zeros(len(self.offsets) - 1, dtype=np.bool_)
        self._parts: list[tuple[IntArray, IntArray, PreparedLoss, FloatArray, FloatArray, FloatArray]] = []
        for queries, prepare in parts:
            documents, judged_part = judged.select(queries)
            part = prepare(judged_part)
            self.active[queries] = part.active
            n = len(documents)
            self._parts.append((queries, documents, part, np.empty(n), np.zeros(len(queries)), np.empty(n)))

    @property
    def exact(self) -> bool:
        """Whether every part is."""
        return all(part.exact for _, _, part, _, _, _ in self._parts)

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Evaluate the queries of each part among these."""
        for queries, documents, part, part_scores, part_xi, part_gradient in self._parts:
            low, high = np.searchsorted(queries, (first, end)).tolist()
            rows = slice(part.offsets[low], part.offsets[high])
            part_scores[rows] = scores[documents[rows]]
            part.evaluate(part_scores, part_xi, part_gradient, low, high)
            xi[queries[low:high]] = part_xi[low:high]
            gradient[documents[rows]] = part_gradient[rows]
