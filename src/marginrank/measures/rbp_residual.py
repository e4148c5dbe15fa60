"""Residual of rank-biased precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Measure
from marginrank.measures.ranked_grades import RankedGrades, discounted_sums
from marginrank.measures.rbp import RBP
from marginrank.typing import BoolArray, FloatArray


@dataclass(frozen=True, repr=False)
class RBPResidual(Measure):
    """Residual of rank-biased precision: by how much unjudged documents could raise it.

    Moffat and Zobel (TOIS 2008): (1 − p) Σ_r p^r over the ranks r of unjudged documents, from 0, plus p^n for what
    would come after the last of n documents. ``rbp`` is between its value and the sum of both, whatever is not judged,
    and however long the list would be. trec_eval's ``rbp_resid`` leaves p^n out if every document is judged. For an
    empty list it is 0. Smaller is better, and it cannot be trained for.

    >>> RBPResidual(p=0.5).value([1, float("nan"), 0])      # 0.5 · 0.5 + 0.5³
    0.375
    """

    name = "rbp_residual"
    trainable = False
    sees_unjudged = True
    p: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 < self.p < 1, "p is above 0 and below 1")

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Compute the residual of each query."""
        unjudged = rankings.mean_over_ties(np.isnan(rankings.grades).astype(np.float64))
        lengths = np.diff(rankings.offsets)
        if rankings.depth is not None:
            lengths = np.minimum(lengths, rankings.depth)
        discounts = RBP(k=rankings.depth, p=self.p).discounts(rankings.longest)
        return discounted_sums(unjudged, rankings.offsets, discounts) + np.where(lengths > 0, self.p**lengths, 0.0)

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell that every query counts."""
        return np.ones(len(rankings), dtype=np.bool_)
