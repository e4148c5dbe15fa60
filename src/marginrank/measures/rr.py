"""Reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure, cut
from marginrank.measures.gains import reciprocal
from marginrank.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class RR(BinaryMeasure):
    """Reciprocal rank of the first relevant document; 0 if it comes after rank k.

    Chakrabarti et al. (KDD 2008) §2.2.2: 1/(1 + r) if its rank r, counted from 0, is below k. Documents with grade
    ``rel`` or higher are relevant.

    >>> RR().value([0, 0, 1])
    0.333333...
    >>> RR(k=2).value([0, 0, 1])
    0.0
    """

    name = "rr"
    first_only = True
    k: int | None = None
    rel: float = 1

    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Return 1/rank for the first relevant document and 0 for the others."""
        counts = (i == 1) if self.k is None else (i == 1) & (j < self.k)
        return np.where(counts, 1.0 / (1.0 + j), 0.0)

    def share(self, i: AnyArray, n_rel: IntArray) -> FloatArray:  # noqa: ARG002
        """Return 1 for the first relevant document and 0 for the others."""
        return np.where(i == 1, 1.0, 0.0)

    def discounts(self, n: int) -> FloatArray:
        """Return 1/rank down to rank k."""
        return cut(reciprocal(n), self.k)
