"""Inferred average precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.errors import DataError, Parameter
from marginrank.measures.base import BinaryMeasure
from marginrank.measures.ranked_grades import RankedGrades
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: trec_eval's constant against divisions by 0.
_EPSILON: Final = 0.00001


@dataclass(frozen=True, repr=False)
class InfAP(BinaryMeasure):
    """Inferred average precision: AP estimated from a random sample of judgements.

    trec_eval's ``infAP``, after Yilmaz and Aslam (CIKM 2006): (1/R) Σ over the R relevant documents of the expected
    precision at its rank r, 1/r + (p/r)·(i + ε)/(i + j + 2ε), with p documents of the pool before it, of which i are
    judged relevant and j judged irrelevant. Unjudged documents of the pool, with grade NaN or −1, are taken to be as
    often relevant as the judged ones above that rank; documents outside, which a run returns and the judgements do not
    list, to be irrelevant. With all grades it is AP, but for ε = 10⁻⁵. Documents with grade ``rel`` or higher are
    relevant.

    >>> round(InfAP().value([1, 0, 1]), 4)          # (1 + (1/3 + 2/3 · 1/2)) / 2
    0.8333
    >>> round(InfAP().value([1, float("nan"), 1]), 4)       # (1 + (1/3 + 2/3 · 1/1)) / 2
    1.0
    """

    name = "infap"
    sees_unjudged = True
    rel: float = 1

    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Return the expected precision at the i-th relevant document if all documents are judged."""
        return _expected_precision(i + j, i + j - 1, i - 1, j)

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> IntArray:  # noqa: ARG002
        """Return the number of relevant documents."""
        return n_rel

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Sum the expected precisions of each query."""
        if not rankings.has_unjudged:
            return super().values(rankings)
        if rankings.tied is not None and rankings.tied.any():
            raise DataError(
                f"documents are tied and some are unjudged, and {self} has no mean over the orders of both; use ",
                Parameter("policy", "trec"),
                ", which breaks ties by document id",
            )
        relevant = np.nan_to_num(rankings.grades) >= self.rel
        judged = ~np.isnan(rankings.grades)
        pooled = np.ones(len(judged), dtype=np.bool_) if rankings.pooled is None else rankings.pooled
        n_relevant, n_judged, n_pooled = (_counted_before(rankings, kind) for kind in (relevant, judged, pooled))
        rank = _counted_before(rankings, np.ones(len(judged), dtype=np.bool_)) + 1
        precision = _expected_precision(rank, n_pooled, n_relevant, n_judged - n_relevant)
        query = rankings.query_of_document[relevant]
        sums = np.bincount(query, precision[relevant], minlength=len(rankings))
        return np.asarray(sums / np.maximum(rankings.resolved("irrelevant").count_relevant(self.rel), 1))

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have a relevant document."""
        return super().defined(rankings.resolved("irrelevant"))


def _expected_precision(rank: AnyArray, n_pooled: AnyArray, n_rel: AnyArray, n_irr: AnyArray) -> FloatArray:
    """Return the expected precision at a relevant document, given its rank and the documents before it.

    >>> _expected_precision(np.array([1]), np.array([0]), np.array([0]), np.array([0])).tolist()
    [1.0]
    """
    share = (n_rel + _EPSILON) / (n_rel + n_irr + 2 * _EPSILON)
    return np.asarray((1.0 + n_pooled * share) / rank)


def _counted_before(rankings: RankedGrades, kind: BoolArray) -> IntArray:
    """Count the documents of a kind before each document in its list."""
    running = np.append(0, np.cumsum(kind))
    return np.asarray(running[:-1] - np.repeat(running[rankings.offsets[:-1]], np.diff(rankings.offsets)))
