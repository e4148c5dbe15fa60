"""Expected reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Measure, TwoLevels, cut
from marginrank.measures.gains import reciprocal
from marginrank.measures.ranked_grades import RankedGrades
from marginrank.typing import AnyArray, BoolArray, FloatArray


@dataclass(frozen=True, repr=False)
class ERR(Measure):
    """Expected reciprocal rank: the expectation of 1/rank of the document at which a user stops.

    Chapelle et al. (CIKM 2009): a user who reads down the list stops at a document of grade g with probability
    R = (2^g − 1)/2^``max_grade``, so ERR@k = Σ_{r<k} 1/(r + 1)·R_r·Π_{i<r} (1 − R_i), ranks from 0. Training needs
    queries with a single grade above 0; then the i-th relevant document is reached with probability (1 − R)^(i−1).

    >>> ERR(max_grade=1).value([1, 0, 1])           # 1/2 + 1/2 · 1/2 · 1/3
    0.583333...
    """

    name = "err"
    k: int | None = None
    max_grade: float = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 < self.max_grade <= 1000, "max_grade is above 0 and at most 1000")

    def stops(self, grades: FloatArray) -> FloatArray:
        """Return the probability that a user who reads a document stops there."""
        if grades.max(initial=0.0) > self.max_grade:
            raise ValueError(f"{self!r}: grade {grades.max():g} is above max_grade={self.max_grade:g}; raise it")
        return np.asarray((np.exp2(grades) - 1.0) / 2.0**self.max_grade)

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Compute the expected reciprocal rank of each query."""
        from marginrank.measures.ranking_kernel import sum_cascade  # noqa: PLC0415

        out = np.empty(len(rankings))
        tied = np.zeros(0, dtype=np.bool_) if rankings.tied is None else rankings.tied
        depth = min(limit for limit in (self.k, rankings.depth, rankings.longest) if limit is not None)
        sum_cascade(self.stops(rankings.grades), tied, rankings.offsets, depth, out)
        return out

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have a document above grade 0."""
        return rankings.best > 0

    def worth(self, rankings: RankedGrades) -> FloatArray:
        """Return the probabilities of stopping."""
        return self.stops(rankings.grades)

    def shares(self, i: AnyArray, levels: TwoLevels) -> FloatArray:
        """Return the probability that a user stops at the i-th document above grade 0."""
        if np.any(levels.worse):
            raise ValueError(f"{self!r} can be trained for only if the lower of two grades is 0")
        return np.asarray(levels.better * (1.0 - levels.better) ** (i - 1))

    def discounts(self, n: int) -> FloatArray:
        """Return 1/rank down to rank k."""
        return cut(reciprocal(n), self.k)
