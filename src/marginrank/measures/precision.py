"""Precision at k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Normalizer, PositionMeasure, cut
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class Precision(PositionMeasure):
    """Precision at k: the share of relevant documents among the first k.

    Le and Smola (2008) eq. (15). Documents with grade ``rel`` or higher are relevant; a list shorter than k is padded
    with irrelevant documents. With fewer than k relevant documents the ideal is below 1, and Δ is relative to it.

    >>> Precision(k=2).value([1, 0, 1])
    0.5
    >>> Precision(k=5).ideal([1, 0, 1])
    0.4
    """

    name = "p"
    sums_over_relevant = True
    k: int
    rel: float = 1

    @property
    def normalizer(self) -> Normalizer:
        """The cutoff."""
        return float(self.k)

    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return 1 for relevant documents, else 0."""
        return (grades >= self.rel).astype(np.float64)

    def discounts(self, n: int) -> FloatArray:
        """Return 1 down to rank k, then 0."""
        return cut(np.ones(n), self.k)
