"""Discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass

from marginrank.measures.base import PositionMeasure, cut
from marginrank.measures.gains import DISCOUNTS, Discount, Gain, check_gain, gains_of
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class DCG(PositionMeasure):
    """Discounted cumulative gain: gains of the first k documents, each discounted by its rank.

    DCG@k = Σ_{r<k} D(r)·G(g_r), Järvelin and Kekäläinen (TOIS 2002); Le and Smola (2008) eq. (11). Gains are
    ``exp2`` (2^g − 1), ``linear`` (g), ``binary`` (g ≥ 1), or those of grades 0, 1, 2, ... in a table such as
    ``0|1|3|10``, a tuple in Python; discounts ``log2`` (1/log2(2 + r)) or ``letor`` (1, 1, 1/log2(1 + r)), ranks from
    0.

    >>> DCG().value([1, 0, 2])          # 1/1 + 0 + 3/2
    2.5
    >>> DCG(k=1).delta([1, 0, 2])       # 3 - 1
    2.0
    >>> DCG(k=1, gain=(0, 1, 10)).value([2, 0, 1])
    10.0
    """

    name = "dcg"
    sums_over_relevant = True
    k: int | None = None
    gain: Gain = "exp2"
    discount: Discount = "log2"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gain(self.gain)

    @property
    def threshold(self) -> float | None:
        """1 if gains are binary, else None."""
        return 1.0 if self.gain == "binary" else None

    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the gain of each grade."""
        return gains_of(self.gain, grades)

    def discounts(self, n: int) -> FloatArray:
        """Return the discounts of the first n ranks, 0 after rank k."""
        return cut(DISCOUNTS[self.discount](n), self.k)
