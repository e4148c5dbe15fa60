"""Average precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure, cut
from marginrank.measures.gains import reciprocal
from marginrank.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class AP(BinaryMeasure):
    """Average precision: precision at the rank of each relevant document, averaged over all of them.

    Yue et al. (SIGIR 2007) §2: MAP = (1/rel) Σ_{j: p_j = 1} Prec@j. Relevant documents that are not retrieved, or are
    ranked after k, count 0. Documents with grade ``rel`` or higher are relevant.

    >>> AP().value([1, 0, 1])           # (1/1 + 2/3) / 2
    0.833333...
    """

    name = "ap"
    linear_at_rank = True
    k: int | None = None
    rel: float = 1

    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Return the precision at the i-th relevant document."""
        precision = np.asarray(i / (i + j))
        return precision if self.k is None else np.where(i + j <= self.k, precision, 0.0)

    def share(self, i: AnyArray, n_rel: IntArray) -> FloatArray:  # noqa: ARG002
        """Return i: precision is i over the rank."""
        return np.asarray(i, dtype=np.float64)

    def discounts(self, n: int) -> FloatArray:
        """Return 1/rank down to rank k."""
        return cut(reciprocal(n), self.k)

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> IntArray:  # noqa: ARG002
        """Return the number of relevant documents."""
        return n_rel
