"""Expected rank utility."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Normalizer, PositionMeasure
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class ERU(PositionMeasure):
    """Expected rank utility: votes above neutral, discounted by half every ``halflife`` − 1 ranks.

    Le and Smola (2008) eq. (16), after Breese et al. (1998): Σ_r 2^(−r/(α − 1))·max(g_r − d, 0) with ranks r from 0,
    half-life α and neutral vote d. The paper leaves both open; the defaults are 5 and 0. ``normalized`` divides
    by the value of the best ranking, as NDCG does.

    >>> ERU(halflife=2).value([1, 0, 4])            # 1 + 4/4
    2.0
    """

    name = "eru"
    halflife: float = 5
    neutral: float = 0
    normalized: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.halflife > 1, "the half-life is above 1")

    @property
    def normalizer(self) -> Normalizer:
        """The value of the best ranking if ``normalized``, else 1."""
        return "ideal" if self.normalized else 1.0

    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the votes above neutral."""
        return np.maximum(grades - self.neutral, 0.0)

    def discounts(self, n: int) -> FloatArray:
        """Return the probability that a rank is seen."""
        return np.exp2(-np.arange(n) / (self.halflife - 1.0))
