"""The quadratic program of planes: what its primal and its dual are worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from marginrank.typing import BoolArray, FloatArray, IntArray

#: Halvings of the way along which the dual is raised.
_MOST_HALVINGS: Final = 6
#: Entries of θ that are few, whatever the number of planes.
_FEW_ENTRIES: Final = 64


@dataclass(frozen=True)
class PlaneProgram:
    """Minimise ½‖v‖² + C·Σ_b max_{k of b} (height_k + slope_k·v) over v = θ − middle with signs of θ.

    Args:
        slopes: One row per plane.
        heights: The planes at the middle.
        owners: The part of each plane.
        C: Weight of the maxima.
        middle: Where the regulariser is least.
        signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
    """

    slopes: FloatArray
    heights: FloatArray
    owners: IntArray
    C: float
    middle: FloatArray
    signs: IntArray

    @classmethod
    def of(
        cls,
        slopes: FloatArray,
        offsets: FloatArray,
        owners: IntArray,
        C: float,
        center: FloatArray | None,
        signs: IntArray | None,
    ) -> PlaneProgram:
        """Build the program with a middle and signs, whether they are given or not."""
        d = slopes.shape[1]
        middle = np.zeros(d) if center is None else center
        heights = offsets if center is None else offsets + slopes @ middle
        return cls(slopes, heights, owners, C, middle, np.zeros(d, dtype=np.int64) if signs is None else signs)

    @cached_property
    def n_parts(self) -> int:
        """Return the number of parts."""
        return int(self.owners.max()) + 1

    @cached_property
    def by_part(self) -> tuple[IntArray, IntArray]:
        """Planes of one part after the other, and where each part begins."""
        order = np.argsort(self.owners, kind="stable")
        return order, np.searchsorted(self.owners[order], np.arange(self.n_parts))

    @cached_property
    def free(self) -> BoolArray:
        """Entries of θ that may have any sign."""
        return np.asarray(self.signs == 0)

    @cached_property
    def all_free(self) -> bool:
        """Whether no entry of θ has a sign to keep to."""
        return bool(self.free.all())

    @property
    def flat(self) -> bool:
        """Whether θ is free and has few entries, or no more than there are planes: the primal is the small program."""
        return self.all_free and self.slopes.shape[1] <= max(len(self.owners), _FEW_ENTRIES)

    def theta(self, away: FloatArray) -> FloatArray:
        """Return θ, exactly 0 where its sign is at the limit."""
        theta = self.middle + away
        return np.where((self.signs != 0) & (away == -self.middle) | (self.signs * theta < 0), 0.0, theta)

    def inside(self, away: FloatArray) -> FloatArray:
        """Bring a point to the signs asked for."""
        if self.all_free:
            return away
        return np.where(self.signs * (self.middle + away) < 0, -self.middle, away)

    def primal(self, away: FloatArray, heights: FloatArray | None = None) -> float:
        """Return the value at a point, where the heights of the planes may be known."""
        there = self.heights + self.slopes @ away if heights is None else heights
        return 0.5 * float(away @ away) + self.C * float(self.tops(there).sum())

    @property
    def at_middle(self) -> float:
        """The value at the middle, or the point next to it that keeps to the signs."""
        nowhere = np.zeros(len(self.middle))
        return self.primal(nowhere, self.heights) if self.all_free else self.primal(self.inside(nowhere))

    def tops(self, heights: FloatArray) -> FloatArray:
        """Return the largest of the numbers of the planes of each part."""
        order, starts = self.by_part
        return np.asarray(np.maximum.reduceat(heights[order], starts))

    def dual(self, alpha: FloatArray, pull: FloatArray | None = None) -> tuple[FloatArray, float]:
        """Return the minimiser and the minimum of the Lagrangian, which is a lower bound whatever α is.

        The sum of α times the slopes, ``pull``, may be known.
        """
        pull = alpha @ self.slopes if pull is None else pull
        away = self.inside(-pull)
        return away, float(self.heights @ alpha) + 0.5 * float(away @ away) + float(pull @ away)

    def longest_rise(self, pull: FloatArray, pull_change: FloatArray, rise: float) -> float:
        """Return how far to go from multipliers to others, at most all the way, for the dual to be highest.

        Args:
            pull: Sum of the multipliers times the slopes.
            pull_change: How it changes on the way.
            rise: How the sum of the multipliers times the heights at the middle changes.
        """

        def slope(length: float) -> float:
            return rise + float(pull_change @ self.inside(-(pull + length * pull_change)))

        low, high = 0.0, 1.0
        if slope(high) >= 0.0:
            return high
        # The slope falls along the way, by pieces of straight lines.
        for _ in range(_MOST_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
        return low

    def balanced(self, alpha: FloatArray) -> FloatArray:
        """Make multipliers feasible: none below 0, and the sum C in every part."""
        alpha = np.maximum(alpha, 0.0)
        totals = np.bincount(self.owners, alpha, minlength=self.n_parts)[self.owners]
        if totals.all():
            return np.asarray(alpha * (self.C / totals))
        sizes = np.bincount(self.owners)[self.owners]
        return np.where(totals > 0, alpha * (self.C / np.where(totals > 0, totals, 1.0)), self.C / sizes)
