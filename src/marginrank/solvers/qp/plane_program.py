"""The quadratic program of planes: what its primal and its dual are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from marginrank.runtime.cholesky import Cholesky
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

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


_MOST_STEPS: Final = 40
#: Share of the multipliers that interior points begin with on all planes alike; the others stay where they were.
_SPREAD: Final = 0.05
#: Least entry on the diagonal, as a share of the largest product, for which factors in float32 are good enough.
_RESOLVED: Final = 1e-6


class GramMatrix:
    """Products of slopes over the entries of θ that are free, kept up to date as planes and entries come and go.

    Products of planes that are new are made where they are asked for; programs of few entries of θ never do.

    >>> GramMatrix(2).over(np.array([True, False]), np.array([[1.0, 2.0]])).tolist()
    [[1.0]]
    """

    def __init__(self, n_parameters: int) -> None:
        self._free = np.ones(n_parameters, dtype=np.bool_)
        self._matrix = np.zeros((0, 0))

    def whole(self, n_planes: int) -> FloatArray | None:
        """The products of so many planes over all entries, if these are the last that were asked for."""
        return self._matrix if self._free.all() and len(self._matrix) == n_planes else None

    def keep(self, planes: BoolArray) -> None:
        """Drop all other planes."""
        kept = np.flatnonzero(planes[: len(self._matrix)])
        # Rows and then columns: several times as fast as both at once.
        self._matrix = self._matrix.take(kept, axis=0).take(kept, axis=1)

    def over(self, free: BoolArray, slopes: FloatArray) -> FloatArray:
        """Return the products over the free entries alone, of all planes."""
        changed = np.flatnonzero(free != self._free)
        known = len(self._matrix)
        if 2 * len(changed) >= np.count_nonzero(free):
            chosen = slopes[:, free]
            self._matrix = chosen @ chosen.T
        elif len(changed):
            chosen = slopes[:known, changed]
            self._matrix = self._matrix + (chosen * np.where(free[changed], 1.0, -1.0)) @ chosen.T
        self._free = free
        if len(self._matrix) < len(slopes):
            self._append(slopes[known:], slopes[:known])
        return self._matrix

    def _append(self, added: FloatArray, slopes: FloatArray) -> None:
        n, end = len(slopes), len(slopes) + len(added)
        weighed = added if self._free.all() else added * self._free
        matrix = np.empty((end, end))
        matrix[:n, :n] = self._matrix
        matrix[n:, :n] = weighed @ slopes.T
        matrix[:n, n:] = matrix[n:, :n].T
        matrix[n:, n:] = weighed @ added.T
        self._matrix = matrix


def maximize_dual(
    gram: FloatArray, heights: FloatArray, owners: IntArray, C: float, alpha: FloatArray, target: float
) -> FloatArray | None:
    """Maximise heights·Δ − ½ΔᵀKΔ over multipliers α + Δ ≥ 0 with the sum C in every part, until the gap is ``target``.

    Interior points from α on that meet all equations, after Mehrotra (1992); a step factorizes one matrix of the size
    of ``gram``. Well-conditioned ones are factorized in float32: directions are then slightly less accurate, but slacks
    are computed from α in float64. Returns None where the arithmetic ends them early.

    >>> K, heights = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([-1.0, 0.0])   # of the planes 1 + θ₁ and θ₂
    >>> maximize_dual(K, heights, np.array([0, 0]), 2.0, np.array([2.0, 0.0]), 1e-9).round(6).tolist()
    [1.5, 0.5]
    """
    n_parts = int(owners.max()) + 1
    level = heights + gram @ alpha
    # In units where the entries are near 1: min ½aᵀQa − q·a, with α = C·a and slacks t = ξ_owner − q + Qa.
    unit = max(C * float(np.ptp(level)), C * C * float(gram.diagonal().max()), 1e-300)
    Q, q = gram * (C * C / unit), level * (C / unit)
    members = owners == np.arange(n_parts)[:, None]
    a = (1.0 - _SPREAD) * alpha / C + _SPREAD / members.sum(axis=1)[owners]
    at = q - Q @ a
    tops = np.where(members, at, -np.inf).max(axis=1)
    # Slacks that leave each plane about the same share of the gap.
    t = (tops + float(tops.sum() - a @ at) / n_parts)[owners] - at
    single: AnyArray | None = Q.astype(np.float32)
    for _ in range(_MOST_STEPS):
        gap = float(a @ t)
        if gap * unit <= target:
            return np.asarray(C * a)
        if single is not None and (t / a).min() < _RESOLVED * Q.diagonal().max():
            single = None
        try:
            da, dt, far = _step(Q, Q if single is None else single, members, a, t)
        except np.linalg.LinAlgError:
            far = 0.0
        if not np.isfinite(far) or far < 1e-8:
            if single is None:
                return None
            single = None
            continue
        a, t = a + far * da, t + far * dt
    return None


def _step(
    Q: FloatArray, rounded: AnyArray, members: BoolArray, a: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return how a and t change in a step by a predictor and a corrector, and its length.

    Systems are solved with Q as rounded; slacks follow from Q itself.
    """
    solve, owners, sums = _bordered(rounded, members, t / a), members.argmax(axis=0), members @ a

    def direction(products: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Newton's step towards products a·t that differ from today's by these amounts."""
        da, d_xi = solve(products / a)
        # Remove rounding errors from the sum of each part, in proportion to a.
        da -= a * (members @ da / sums)[owners]
        return da, d_xi[owners] + Q @ da

    gap = float(a @ t)
    da, dt = direction(-a * t)
    far = _longest(a, da, t, dt)
    ahead = float((a + far * da) @ (t + far * dt))
    da, dt = direction((ahead / gap) ** 3 * gap / len(a) - a * t - da * dt)
    return da, dt, 0.995 * _longest(a, da, t, dt)


def _bordered(
    Q: AnyArray, members: BoolArray, stiffness: FloatArray
) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """Return what solves (Q + diag(stiffness))·x + membersᵀ·y = right, members·x = 0; in the type of Q."""
    system = Q.copy()
    system.flat[:: len(Q) + 1] += stiffness
    factors = Cholesky(system)
    # With many parts, one triangular solve instead of two saves time.
    halfway = factors.solve_lower(members.T)
    between = (halfway.T @ halfway).astype(np.float64)

    def solve(right: FloatArray) -> tuple[FloatArray, FloatArray]:
        free = factors.solve_lower(right)
        y = np.linalg.solve(between, halfway.T @ free)
        return factors.solve_upper(free - halfway @ y.astype(Q.dtype)).astype(np.float64), y

    return solve


def _longest(a: FloatArray, da: FloatArray, t: FloatArray, dt: FloatArray) -> float:
    """Longest step, at most 1, that leaves all of a and t above 0."""
    fastest = max(float((-da / a).max()), float((-dt / t).max()))
    return 1.0 / fastest if fastest > 1.0 else 1.0
