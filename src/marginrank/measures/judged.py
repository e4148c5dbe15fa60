"""Share of judged documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Measure, cut
from marginrank.measures.ranked_grades import RankedGrades, discounted_sums
from marginrank.typing import BoolArray, FloatArray


@dataclass(frozen=True, repr=False)
class Judged(Measure):
    """Share of the first k documents that have a judgement.

    ``Judged@k`` of ir-measures: the count is divided by k or, for a shorter list, by its length; it is 0 if nothing
    was retrieved. Every query counts, also those without relevant documents. Most measures take documents without a
    judgement as irrelevant, so they say little if this one is low. A document with grade −1 in the judgements is
    unjudged, as it is for trec_eval; ir-measures counts it as judged. It cannot be trained for.

    >>> from marginrank import evaluate
    >>> evaluate({"q": {"a": 1, "b": 0}}, {"q": {"a": 3.0, "x": 2.0, "b": 1.0}}, "judged@2").mean["judged@2"]
    0.5
    """

    name = "judged"
    trainable = False
    sees_unjudged = True
    k: int | None = None

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Compute the share of judged documents among the first k of each list."""
        judged = (~np.isnan(rankings.grades)).astype(np.float64)
        first = cut(cut(np.ones(rankings.longest), self.k), rankings.depth)
        counts = discounted_sums(rankings.mean_over_ties(judged), rankings.offsets, first)
        return counts / np.maximum(discounted_sums(np.ones(len(judged)), rankings.offsets, first), 1)

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell that every query counts."""
        return np.ones(len(rankings), dtype=np.bool_)
