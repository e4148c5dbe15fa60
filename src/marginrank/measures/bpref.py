"""Binary preference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure
from marginrank.measures.ranked_grades import RankedGrades
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class Bpref(BinaryMeasure):
    """Binary preference: how rarely documents judged irrelevant come before relevant ones.

    Unjudged documents are left out. This is trec_eval's ``bpref``, after Buckley and Voorhees (SIGIR 2004): (1/R) Σ
    over the R relevant documents of 1 − min(n, R)/min(N, R), with n judged irrelevant ones before it, of N in the pool,
    retrieved or not. A relevant document that is not retrieved counts 0. Documents with grade ``rel`` or higher are
    relevant.

    >>> Bpref().value([1, 0, 1, 0])                 # (1 + (1 − 1/2)) / 2
    0.75
    >>> Bpref().value([1, float("nan"), 1, 0])      # no irrelevant document comes before a relevant one
    1.0
    """

    name = "bpref"
    sees_unjudged = True
    rel: float = 1

    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Return the share of the first irrelevant documents that come after the i-th relevant one."""
        return np.asarray(1.0 - np.minimum(j, n_rel) / np.maximum(np.minimum(n_irr, n_rel), 1))

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> IntArray:  # noqa: ARG002
        """Return the number of relevant documents."""
        return n_rel

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Sum the credits of each query over its judged documents."""
        return super().values(rankings.resolved("skip"))

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have a relevant document."""
        return super().defined(rankings.resolved("irrelevant"))
