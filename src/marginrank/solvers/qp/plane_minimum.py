"""The minimum of a regularizer plus maxima of cutting planes, with a lower bound."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.qp.active_set import ActiveSet
from marginrank.solvers.qp.dual_ascent import ascend
from marginrank.solvers.qp.interior_point import InteriorPoint
from marginrank.solvers.qp.plane_program import GramMatrix, PlaneProgram
from marginrank.typing import FloatArray, IntArray

#: Number of parameters that is small for any number of planes.
_FEW_PARAMETERS: Final = 64
#: Planes per parameter up to which the dual ascent is used, which needs only those near the maximum of their part.
#: ``fit`` with svmmap and C = 100, CPU time for 1 relative to 2: dense 20,000 × 300 2.4, 4,000 × 136 1.0.
_PLANES_PER_PARAMETER: Final = 2
_MAX_CALLS: Final = 100
#: Gaps, as shares of the minimum, that are rounding error, and that the active set need not close.
_ROUNDING: Final = 1e-15
_NEAR: Final = 1e-13
#: Norm of a sum of gradients, as a share of C times the largest, that is rounding error.
_NO_GRADIENT: Final = 1e-14
#: Share of the gap asked for that the interior point method aims at; its last step goes well below as a rule.
_WITHIN: Final = 0.5
#: Share of the gap that may be left after some steps for others to be worth taking, and how many steps have to leave
#: more before the method ends: one of them may be short. ``fit`` of 50 queries × 300 features with ndcg@10 and C = 100,
#: CPU time for 1 step relative to 5: 5.
_PROGRESS: Final = 0.9
_SLOW_STEPS: Final = 5
#: Share of C below which a plane is inactive, if the gap is not closed to the end.
_INACTIVE: Final = 2e-3


class Planes(NamedTuple):
    """Planes offset + gradient·θ, each of which belongs to one part.

    Args:
        gradients: One row per plane.
        offsets: One number per plane.
        owners: The part of each plane; every part has at least one.
        products: The Gram matrix of the gradients, if it is kept between programs.
        alpha: Multipliers to start from.
    """

    gradients: FloatArray
    offsets: FloatArray
    owners: IntArray
    products: GramMatrix | None = None
    alpha: FloatArray | None = None


class PlaneMinimum(NamedTuple):
    """The minimizer, a lower bound of the minimum, and a multiplier per plane: α ≥ 0 with the sum C in every part.

    The multipliers are those of the active planes; the bound may belong to others nearby.
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
    max_gap: float = 0.0,
    precision: float = 1e-13,
    deadline: float = np.inf,
) -> PlaneMinimum:
    """Minimize ½‖θ − center‖² + C·Σ_b max_{k of b} (offset_k + gradient_k·θ).

    Args:
        planes: The planes; the maximum is taken over those of a part, and the sum over the parts.
        C: Weight of the maxima.
        center: The minimizer of the regularizer; 0 by default.
        signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
        max_gap: Gap between the minimum and the bound that need not be closed.
        precision: Gap that need not be closed, as a share of the minimum and of its distance from the value at the
            center, whichever is smaller.
        deadline: When to return the best so far, on the clock of `time.perf_counter`.

    With few parameters for the planes the primal-dual interior point method is used, otherwise the dual ascent. If
    rounding errors stop these early, the active-set method continues from the multipliers reached.

    >>> planes = Planes(np.eye(2), np.array([1.0, 0.0]), np.array([0, 0]))
    >>> theta, bound, alpha = minimize_planes(planes, 2.0)
    >>> theta.round(6).tolist(), round(bound, 6), alpha.round(6).tolist()
    ([-1.5, -0.5], 0.25, [1.5, 0.5])
    """
    program = PlaneProgram.of(planes.gradients, planes.offsets, planes.owners, C, center, signs)
    best = _Best(program, precision, max_gap)
    start = np.zeros(len(planes.owners)) if planes.alpha is None else planes.alpha
    best.offer_multipliers(program.feasible(start))
    if len(planes.owners) == program.n_parts or (max_gap > 0.0 and best.closed):
        return best.minimum()
    m, d = planes.gradients.shape
    if d <= max(m // _PLANES_PER_PARAMETER, _FEW_PARAMETERS):
        _interior_point(best, deadline)
    else:
        _dual_ascent(best, GramMatrix(d) if planes.products is None else planes.products, deadline)
    if not best.near and time.perf_counter() <= deadline:
        _active_set(best, deadline)
    return best.minimum()


def _interior_point(best: _Best, deadline: float) -> None:
    """Iterate until the gap is closed, time is up, or rounding errors end it."""
    point, slow = InteriorPoint(best.program, best.alpha), 0
    for _ in range(_MAX_CALLS):
        before = point.gap
        moved = point.iterate(_WITHIN * best.target)
        best.offer_multipliers(point.multipliers())
        best.offer(point.v_with_zeros)
        if not best.closed:
            best.offer(point.v)
        slow = slow + 1 if point.gap > _PROGRESS * before else 0
        slow_enough = slow >= max(1, _SLOW_STEPS // point.n_steps)
        if best.closed or not moved or slow_enough or time.perf_counter() > deadline:
            break
    best.active = point.multipliers(active=_INACTIVE if best.max_gap > 0.0 else 0.0)


def _dual_ascent(best: _Best, products: GramMatrix, deadline: float) -> None:
    """Maximize the dual until the gap is closed, time is up, or nothing is gained."""
    for _ in range(_MAX_CALLS):
        better = False
        for result in ascend(best.program, products, best.alpha, best.target, deadline):
            better |= best.offer_multipliers(result.alpha, result.gradient, result.values)
            best.active = result.active if best.max_gap > 0.0 else None
            if best.closed or time.perf_counter() > deadline:
                return
        if not better:
            return


def _active_set(best: _Best, deadline: float) -> None:
    """Go from vertex to vertex until the gap is closed or time is up."""
    start = best.alpha if best.active is None else best.active
    for v, alpha in ActiveSet(best.program, start).vertices(deadline):
        best.offer(v)
        if best.offer_multipliers(alpha):
            best.active = alpha
        if best.closed:
            break


@dataclass
class _Best:
    """The best point and the best bound so far; near rounding error either can get worse again."""

    program: PlaneProgram
    precision: float
    max_gap: float = 0.0

    def __post_init__(self) -> None:
        self._v, self._value = np.zeros(len(self.program.center)), np.inf
        self.alpha, self._bound = np.zeros(len(self.program.owners)), -np.inf
        #: Multipliers of the active planes alone, if they are known.
        self.active: FloatArray | None = None
        self._center_value = self.program.primal(self.program.project(self._v))

    def offer(self, v: FloatArray, values: FloatArray | None = None) -> bool:
        """Take a point if it is better; ``values`` are those of the planes there, if they are known."""
        v = self.program.project(v)
        value = self.program.primal(v, values)
        if value < self._value:
            self._v, self._value = v, value
            return True
        return False

    def offer_multipliers(
        self, alpha: FloatArray, gradient: FloatArray | None = None, values: FloatArray | None = None
    ) -> bool:
        """Take multipliers, and the minimizer of the Lagrangian, if they are better.

        ``gradient`` is Σ α_k·gradient_k and ``values`` are those of the planes at the minimizer, if they are known.
        """
        v, bound = self.program.dual(alpha, gradient)
        better = bound > self._bound
        if better:
            self.alpha, self._bound = alpha, bound
        return self.offer(v, values) or better

    @property
    def closed(self) -> bool:
        """Whether the gap is at most the target."""
        return self._value - self._bound <= self.target

    @property
    def target(self) -> float:
        """The gap to close."""
        share = self.precision * min(abs(self._value), max(self._center_value - self._bound, 0.0))
        return max(self.max_gap, share, _ROUNDING * abs(self._value))

    @property
    def near(self) -> bool:
        """Whether the active set could add little."""
        if self.closed:
            return True
        # If the minimum is 0, no gap is a small share of it.
        gradient = _NO_GRADIENT * self.program.C * float(self.program.norms.max(initial=0.0))
        return bool(self._value - self._bound <= max(_NEAR * abs(self._value), gradient * gradient))

    def minimum(self) -> PlaneMinimum:
        alpha = self.alpha if self.active is None else self.active
        return PlaneMinimum(self.program.theta(self._v), self._bound, alpha)
