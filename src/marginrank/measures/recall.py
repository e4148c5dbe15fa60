"""Recall at k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Normalizer, PositionMeasure, cut
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class Recall(PositionMeasure):
    """Recall at k: the share of the relevant documents that are among the first k.

    Relevant are grades from ``rel`` on.

    >>> Recall(k=2).value([1, 0, 1])
    0.5
    """

    name = "recall"
    k: int | None = None
    rel: float = 1

    @property
    def normalizer(self) -> Normalizer:
        """The number of relevant documents."""
        return "total"

    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:  # noqa: ARG002
        """1 for relevant documents."""
        return (grades >= self.rel).astype(np.float64)

    def discounts(self, n: int) -> FloatArray:
        """1 down to rank k."""
        return cut(np.ones(n), self.k)
