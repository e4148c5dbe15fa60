"""Regression on differences of gains, which ignores what is the same for all documents of a query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.losses.base import Judgements, Loss, PreparedLoss
from marginrank.losses.pointwise import PreparedSquares
from marginrank.losses.smooth import varied
from marginrank.measures.gains import GAINS, check_gain


@dataclass(frozen=True, repr=False)
class SquaredDifferences(Loss):
    """Regression on differences of gains: ξ = the mean over ordered pairs of ¼((s_i − s_j) − (g_i − g_j))².

    This is half the variance of the errors s_i − g_i inside a query, so it costs no more than `SquaredError`, which
    also asks for the mean gain of the query. Documents sorted by their expected gains have the largest expected DCG:
    Cossock and Zhang (2006), who regress on gains for that reason. Queries whose gains are all the same have ξ = 0.

    Args:
        gain: Gains of grades: ``linear`` (the grades), ``exp2`` (2^g − 1) or ``binary`` (g ≥ 1).
        unit: Number that the gains are divided by.

    >>> xi, gradient = SquaredDifferences()([2, 0], [1.0, 0.5])       # errors −1 and 0.5: ½·0.75²
    >>> xi.tolist(), gradient.tolist()
    ([0.28125], [-0.375, 0.375])
    >>> SquaredDifferences("exp2", unit=3.0)([2, 0], [8.0, 7.0])[0].tolist()
    [0.0]
    """

    gain: str = "linear"
    unit: float = 1.0

    def __post_init__(self) -> None:
        check_gain(self.gain)
        if not 0 < self.unit < np.inf:
            raise ValueError(f"unit is {self.unit}; give a positive number")

    @property
    def smooth(self) -> bool:
        """True."""
        return True

    @property
    def criterion(self) -> str:
        """NDCG, which uses graded relevance."""
        return "ndcg"

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Compute the gains."""
        gains = GAINS[self.gain](judged.grades) / self.unit
        return PreparedSquares(gains, judged.offsets, varied(gains, judged.offsets), centered=True)
