"""The modified winner-takes-all loss, whose cutoff differs from query to query."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marginrank.losses.base import Bound, Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.ideal_ranking import TwoBoundLoss
from marginrank.losses.prepared_per_query import PreparedPerQuery
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
