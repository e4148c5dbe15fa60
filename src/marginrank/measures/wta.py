"""Winner takes all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import PositionMeasure, cut
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class WTA(PositionMeasure):
    """Winner takes all: 1 if the first document has the highest grade of its query, else 0.

    Le and Smola (2008) eq. (9).

    >>> WTA().value([1, 2, 0]), WTA().value([2, 2, 0])
    (0.0, 1.0)
    """

    name = "wta"

    @property
    def depth(self) -> int:
        """Only the first rank counts."""
        return 1

    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:
        """Return 1 for documents with the highest grade of their query, unless that is 0."""
        return np.where((grades == best) & (best > 0), 1.0, 0.0)

    def discounts(self, n: int) -> FloatArray:
        """Return 1 for the first rank, then 0."""
        return cut(np.ones(n), 1)
