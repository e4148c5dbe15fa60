"""Normalized discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass

from marginrank.measures.base import Normalizer
from marginrank.measures.dcg import DCG


@dataclass(frozen=True, repr=False)
class NDCG(DCG):
    """Normalized discounted cumulative gain: DCG@k over the DCG@k of the best ranking.

    Järvelin and Kekäläinen (TOIS 2002); Chapelle, Le and Smola (2007) eq. (1). Gains and discounts
    are those of ``dcg``.

    >>> NDCG().value([1, 0, 2])         # 2.5 / (3 + 1/log2(3))
    0.688528...
    >>> NDCG(k=1).value([1, 0, 2])      # 1 / 3
    0.333333...
    """

    name = "ndcg"
    sums_over_relevant = False

    @property
    def normalizer(self) -> Normalizer:
        """The DCG of the best ranking."""
        return "ideal"
