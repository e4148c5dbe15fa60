"""Area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure
from marginrank.measures.ranked_grades import RankedGrades
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class AUC(BinaryMeasure):
    """Area under the ROC curve: the share of (relevant, irrelevant) pairs in the right order.

    Yue et al. (SIGIR 2007) §2.1; 1 − Δ_AUC of Chakrabarti et al. (KDD 2008) eq. (7). Documents with grade ``rel`` or
    higher are relevant; a query needs a relevant and an irrelevant document.

    >>> AUC().value([1, 0, 1, 0])       # 3 of 4 pairs
    0.75
    """

    name = "auc"
    linear_at_rank = True
    sums_over_pairs = True
    rel: float = 1

    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:  # noqa: ARG002
        """Return the number of irrelevant documents after the i-th relevant one."""
        return np.asarray(n_irr - j, dtype=np.float64)

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> IntArray:
        """Return the number of pairs."""
        return n_rel * n_irr

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have both a relevant and an irrelevant document."""
        n_rel = rankings.count_relevant(self.rel)
        return (n_rel > 0) & (n_rel < np.diff(rankings.pool_offsets))
