"""Reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class RR(BinaryMeasure):
    """Reciprocal rank of the first relevant document; 0 if it comes after rank k.

    Chakrabarti et al. (KDD 2008) §2.2.2: 1/(1 + r) for its rank r from 0 if r < k. Relevant are grades from ``rel`` on.

    >>> RR().value([0, 0, 1])
    0.333333...
    >>> RR(k=2).value([0, 0, 1])
    0.0
    """

    name = "rr"
    first_only = True
    k: int | None = None
    rel: float = 1

    def credit(self, i: IntArray, j: IntArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """1/rank for the first relevant document, nothing for the others."""
        counts = (i == 1) if self.k is None else (i == 1) & (j < self.k)
        return np.where(counts, 1.0 / (1.0 + j), 0.0)
