"""The minimum of a regulariser plus maxima of planes, to full precision."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.qp.dual_ascent import ascend
from marginrank.solvers.qp.interior_point import FlatPoint, InteriorPoint
from marginrank.solvers.qp.plane_program import GramMatrix, PlaneProgram
from marginrank.typing import FloatArray, IntArray

_MOST_STEPS: Final = 100
#: Gaps, as shares of the minimum, that are rounding error, and that no active set need close.
_ROUNDING: Final = 1e-15
_NEAR: Final = 1e-13
#: Sums of slopes, as shares of C times the longest, that are rounding error.
_NO_SLOPE: Final = 1e-14
#: Share of the gap asked for that compiled interior points aim at; their last step goes well below as a rule.
_WITHIN: Final = 0.5


class Planes(NamedTuple):
    """Planes offset + slope·θ, each of which belongs to one part.

    Args:
        slopes: One row per plane.
        offsets: One number per plane.
        owners: The part of each plane; every part has at least one.
        products: Products of the slopes, where they are kept.
        alpha: Multipliers to begin with.
    """

    slopes: FloatArray
    offsets: FloatArray
    owners: IntArray
    products: GramMatrix | None = None
    alpha: FloatArray | None = None


class PlaneMinimum(NamedTuple):
    """The minimiser, a lower bound of the minimum, and a multiplier per plane: α ≥ 0 with the sum C in every part.

    The multipliers are those of the planes that touch; the bound may be that of others nearby.
    """

    theta: FloatArray
    bound: float
    alpha: FloatArray


def minimize_planes(
    planes: Planes,
    C: float,
    *,
    center: FloatArray | None = None,
    signs: IntArray | None = None,
    enough: float = 0.0,
    precision: float = 1e-13,
    deadline: float = np.inf,
) -> PlaneMinimum:
    """Minimise ½‖θ − center‖² + C·Σ_b max_{k of b} (offset_k + slope_k·θ).

    Args:
        planes: The planes; the maximum is taken over those of a part, and the sum over the parts.
        C: Weight of the maxima.
        center: Where the regulariser is least; 0 by default.
        signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
        enough: Gap between the minimum and the bound that need not be closed.
        precision: How near the bound must come to the minimum, as a share of it and of how far it is below the value at
            the centre.
        deadline: When to end with what was found, on the clock of `time.perf_counter`.

    A primal-dual interior point method, at a cost of m·d·min(m, d) a step for m planes of d slopes. It is compiled
    for free θ of few entries, from multipliers on and to a gap that is enough. Where rounding errors stop it early, an
    active set takes over from its last point.

    >>> planes = Planes(np.eye(2), np.array([1.0, 0.0]), np.array([0, 0]))
    >>> theta, bound, alpha = minimize_planes(planes, 2.0)
    >>> theta.round(6).tolist(), round(bound, 6), alpha.round(6).tolist()
    ([-1.5, -0.5], 0.25, [1.5, 0.5])
    """
    program = PlaneProgram.of(planes.slopes, planes.offsets, planes.owners, C, center, signs)
    best, flat = _BestPlanes(program, precision, enough), enough > 0.0 and program.flat
    if len(planes.owners) == program.n_parts:
        best.offer_multipliers(np.full(program.n_parts, C))
        return best.found()
    near = None
    if planes.alpha is not None and (flat or planes.products is not None):
        if _climb(program, None if flat else planes.products, planes.alpha, best, deadline):
            return best.found()
        # From afar interior points are more exact, and need more steps.
        near = best.alpha if enough > 0.0 and not flat else None
        # They are far off at first, and end where they seem to lead nowhere.
        best = _BestPlanes(program, precision, enough)
    gram = None if planes.products is None else planes.products.whole(len(planes.owners))
    _close(InteriorPoint(program, gram, near), best, deadline)
    return best.found()


def _close(point: InteriorPoint, best: _BestPlanes, deadline: float) -> None:
    """Follow the interior points, and step from vertex to vertex where they end before the gap is closed."""
    _follow(point, best, deadline)
    best.sharp = point.touching().alpha
    if best.near or time.perf_counter() > deadline:
        return
    for away, alpha in point.touching().vertices():
        best.offer(away)
        if best.offer_multipliers(alpha):
            best.sharp = alpha
        if best.closed or time.perf_counter() > deadline:
            break


def _climb(
    program: PlaneProgram, products: GramMatrix | None, alpha: FloatArray, best: _BestPlanes, deadline: float
) -> bool:
    """Raise the dual from multipliers on, in compiled code without products; return whether the caller may stop."""
    begin = program.balanced(alpha)
    if products is None:
        best.offer_multipliers(begin)
        return best.closed or _follow_flat(FlatPoint(program, begin), best, deadline)
    for raised in ascend(program, products, begin, best.target, deadline):
        best.offer_multipliers(raised.alpha, raised.pull, raised.heights)
        best.sharp = raised.sharp
        if best.closed:
            return True
    return False


def _follow_flat(point: FlatPoint, best: _BestPlanes, deadline: float) -> bool:
    """Follow the interior points until the gap is closed or time is up; False where they end before."""
    late = False
    while not (best.closed or late):
        before = point.gap
        point.follow(_WITHIN * best.target)
        best.offer_multipliers(point.plane_multipliers())
        best.offer(point.away())
        late = time.perf_counter() > deadline
        if not point.gap < before:
            break
    best.sharp = point.plane_multipliers(touching=True)
    return best.closed or late


def _follow(point: InteriorPoint, best: _BestPlanes, deadline: float) -> None:
    """Follow the interior points until the gap is closed or they lead nowhere."""
    smallest, idle = np.inf, 0
    for _ in range(_MOST_STEPS):
        better = best.offer_multipliers(point.plane_multipliers())
        better |= best.offer(point.away())
        idle = 0 if better or point.complementarity < 0.5 * smallest else idle + 1
        smallest = min(smallest, point.complementarity)
        if best.closed or idle > 5 or time.perf_counter() > deadline or not point.step():
            break


@dataclass
class _BestPlanes:
    """The best point and the best bound so far; near rounding error either can get worse again."""

    program: PlaneProgram
    precision: float
    enough: float = 0.0

    def __post_init__(self) -> None:
        self._away, self._value = np.zeros(len(self.program.middle)), np.inf
        self.alpha, self._bound = np.zeros(len(self.program.owners)), -np.inf
        #: Multipliers without those that are next to nothing, where these are known.
        self.sharp: FloatArray | None = None
        self._home = self.program.at_middle

    def offer(self, away: FloatArray, heights: FloatArray | None = None) -> bool:
        """Take a point if it is better, where the heights of the planes may be known."""
        point = self.program.inside(away)
        value = self.program.primal(point, heights)
        if value < self._value:
            self._away, self._value = point, value
            return True
        return False

    def offer_multipliers(
        self, alpha: FloatArray, pull: FloatArray | None = None, heights: FloatArray | None = None
    ) -> bool:
        """Take multipliers and the point that goes with them, if they are better.

        The sum of α times the slopes may be known, and the heights of the planes at that point.
        """
        away, bound = self.program.dual(alpha, pull)
        better = bound > self._bound
        if better:
            self.alpha, self._bound = alpha, bound
        return self.offer(away, heights) or better

    @property
    def closed(self) -> bool:
        """Whether the bound is near, as a share of the minimum and of how far it is below the value at the middle."""
        return self._value - self._bound <= self.target

    @property
    def target(self) -> float:
        """The gap to close."""
        if not np.isfinite(self._value - self._bound):
            # How far the bound is below the value at the middle may be much less than that value.
            share = _ROUNDING if self.enough > 0.0 else self.precision
            return max(self.enough, share * abs(self._home))
        share = self.precision * min(abs(self._value), max(self._home - self._bound, 0.0))
        return max(self.enough, share, _ROUNDING * abs(self._value))

    @property
    def near(self) -> bool:
        """Whether an active set could add little."""
        if self.closed:
            return True
        # Where the minimum is 0, no gap is a small share of it.
        squares = np.einsum("ij,ij->i", self.program.slopes, self.program.slopes)
        pull = _NO_SLOPE * self.program.C * float(squares.max(initial=0.0)) ** 0.5
        return bool(self._value - self._bound <= max(_NEAR * abs(self._value), pull * pull))

    def found(self) -> PlaneMinimum:
        return PlaneMinimum(
            self.program.theta(self._away), self._bound, self.alpha if self.sharp is None else self.sharp
        )
