"""Rank-biased precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import PositionMeasure, cut
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class RBP(PositionMeasure):
    """Rank-biased precision: (1 − p) Σ_r p^r over the relevant documents, ranks r from 0.

    Moffat and Zobel (TOIS 2008): a reader goes on to the next document with probability p. Documents with grade
    ``rel`` or higher are relevant.

    >>> RBP(p=0.5).value([1, 0, 1])                 # 0.5 · (1 + 0.25)
    0.625
    """

    name = "rbp"
    k: int | None = None
    p: float = 0.8
    rel: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 < self.p < 1, "p is above 0 and below 1")

    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return 1 for relevant documents, else 0."""
        return (grades >= self.rel).astype(np.float64)

    def discounts(self, n: int) -> FloatArray:
        """Return the probability that a rank is the last one read."""
        return cut((1.0 - self.p) * np.power(self.p, np.arange(n, dtype=np.float64)), self.k)
