"""Average precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class AP(BinaryMeasure):
    """Average precision: precision at the rank of each relevant document, averaged over all of them.

    Yue et al. (SIGIR 2007) §2: MAP = (1/rel) Σ_{j: p_j = 1} Prec@j. Relevant documents that are not retrieved, or only
    after rank k, count 0. Relevant are grades from ``rel`` on.

    >>> AP().value([1, 0, 1])           # (1/1 + 2/3) / 2
    0.833333...
    """

    name = "ap"
    linear_at_rank = True
    k: int | None = None
    rel: float = 1

    def credit(self, i: IntArray, j: IntArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Precision at the i-th relevant document."""
        precision = i / (i + j)
        return precision if self.k is None else np.where(i + j <= self.k, precision, 0.0)

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> IntArray:  # noqa: ARG002
        """The number of relevant documents."""
        return n_rel
