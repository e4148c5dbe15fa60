"""Recall at k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import Normalizer, PositionMeasure, cut
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class Recall(PositionMeasure):
    """Recall at k: the share of the relevant documents that are among the first k.

    Documents with grade ``rel`` or higher are relevant.

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
        """Return 1 for relevant documents, else 0."""
        return (grades >= self.rel).astype(np.float64)

    def discounts(self, n: int) -> FloatArray:
        """Return 1 down to rank k, then 0."""
        return cut(np.ones(n), self.k)
