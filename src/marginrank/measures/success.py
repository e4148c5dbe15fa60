"""Success at k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure, cut
from marginrank.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class Success(BinaryMeasure):
    """Success at k, also called hit rate: 1 if a relevant document is among the first k, else 0.

    trec_eval's ``success_k``. Documents with grade ``rel`` or higher are relevant.

    >>> Success(k=3).value([0, 0, 1]), Success(k=2).value([0, 0, 1])
    (1.0, 0.0)
    """

    name = "success"
    first_only = True
    k: int
    rel: float = 1

    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Return 1 for the first relevant document if it is among the first k, else 0."""
        return np.where((i == 1) & (j < self.k), 1.0, 0.0)

    def share(self, i: AnyArray, n_rel: IntArray) -> FloatArray:  # noqa: ARG002
        """Return 1 for the first relevant document and 0 for the others."""
        return np.where(i == 1, 1.0, 0.0)

    def discounts(self, n: int) -> FloatArray:
        """Return 1 down to rank k, then 0."""
        return cut(np.ones(n), self.k)
