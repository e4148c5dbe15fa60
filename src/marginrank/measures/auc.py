"""Area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure
from marginrank.measures.rankings import Rankings
from marginrank.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class AUC(BinaryMeasure):
    """Area under the ROC curve: the share of (relevant, irrelevant) pairs in the right order.

    Yue et al. (SIGIR 2007) §2.1; 1 − Δ_AUC of Chakrabarti et al. (KDD 2008) eq. (7). Relevant are grades from ``rel``
    on; a query needs a document of each kind.

    >>> AUC().value([1, 0, 1, 0])       # 3 of 4 pairs
    0.75
    """

    name = "auc"
    linear_at_rank = True
    rel: float = 1

    def credit(self, i: IntArray, j: IntArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Irrelevant documents that come after."""
        return np.asarray(n_irr - j, dtype=np.float64)

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> IntArray:
        """The number of pairs."""
        return n_rel * n_irr

    def defined(self, rankings: Rankings) -> BoolArray:
        """Queries with a relevant and an irrelevant document."""
        n_rel = rankings.count_relevant(self.rel)
        return (n_rel > 0) & (n_rel < np.diff(rankings.pool_offsets))
