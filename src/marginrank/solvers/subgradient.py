"""The steepest subgradient method with a backtracking line search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.problem import Problem
from marginrank.solvers.qp.plane_minimum import Planes, minimize_planes
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, evaluate
from marginrank.typing import BoolArray, FloatArray

#: Decrease that a step must bring, as a share of the one predicted by its direction (Armijo).
_DESCENT: Final = 0.1
#: Distance of a plane below the risk at a point up to which it is active there, as a share of the gap.
_NEAR: Final = 0.25
#: Precision of the shortest subgradient.
_PRECISION: Final = 1e-6
#: Step size at which backtracking ends.
_SHORTEST_STEP: Final = 1e-12


@dataclass(frozen=True)
class Subgradient(Solver):
    """Steepest subgradient descent with a backtracking line search.

    Chapelle, Le and Smola (2007) §3.3.1. The direction is minus the shortest vector in the hull of the subgradients
    that were collected near the point: a step that fails adds the subgradient at its end, until the shortest vector is
    a descent direction or short enough to prove that the point is nearly optimal. The conjugate variant (Wolfe 1975)
    keeps the subgradients when the point moves on, as long as their planes are within the gap.

    The weights λ of the shortest vector p are a certificate: the planes of the risk, combined by them, are below it, so
    the optimum is at least C·Σλ_k offset_k − ½‖C·Σλ_k gradient_k‖². That is less than the objective by ½‖p‖² and by the
    distance of the planes below the risk at the point. Planes are active within a quarter of the gap, so a p too short
    to be a descent direction halves the gap.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of directions.
        time_limit: Maximum number of seconds.
        callback: Called after every direction with the `Step` and the best θ so far; True stops.
        conjugate: Whether subgradients are kept when the point moves on.

    >>> from marginrank.solvers.problem import FunctionProblem
    >>> distance = FunctionProblem(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1)
    >>> solution = Subgradient(tol=1e-9).minimize(distance, C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    name = "subgradient"
    conjugate: bool = False

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        progress = SolverProgress(self, problem, C)
        planes = _SubgradientPlanes(problem.n_parameters, C)
        passes, length = 0, np.inf

        def visit(theta: FloatArray) -> _SubgradientPoint:
            nonlocal passes
            values, gradients = evaluate(problem, theta)
            point = _SubgradientPoint(theta, C, float(values.sum()), gradients.sum(axis=0))
            passes += 1
            planes.add(point)
            progress.offer(theta, point.risk)
            return point

        with progress.interruptible():
            here = visit(np.zeros(problem.n_parameters) if start is None else np.array(start, dtype=np.float64))
            while True:
                gap = here.objective - max(progress.bound, 0.0)
                shortest, bound = planes.shortest(here, _NEAR * gap, progress.deadline)
                if progress.note(bound, passes, settled=not shortest.any()):
                    break
                if 0.5 * float(shortest @ shortest) > _NEAR * gap:
                    here, length = self._search(visit, planes, here, shortest, _NEAR * gap, 2.0 * length, progress)
                    planes.drop(here, gap)
        return progress.solution()

    def _search(
        self,
        visit: Callable[[FloatArray], _SubgradientPoint],
        planes: _SubgradientPlanes,
        here: _SubgradientPoint,
        shortest: FloatArray,
        near: float,
        length: float,
        progress: SolverProgress,
    ) -> tuple[_SubgradientPoint, float]:
        """Return a point with enough decrease, or the same with a new active plane; and the length of the step.

        A step size of 1 leads to the minimizer of the regularizer plus the plane of ``shortest``, so none is larger.
        """
        norm = float(np.linalg.norm(shortest))

        def reach(step: float) -> tuple[_SubgradientPoint, bool]:
            there = visit(here.theta - step * shortest)
            return there, there.objective <= here.objective - _DESCENT * step * norm**2

        step = min(1.0, length / norm)
        there, low = reach(step)
        backtracked = not low
        while not low:
            if planes.errors(here)[-1] <= near or step < _SHORTEST_STEP or progress.late:
                return here, step * norm
            step *= 0.5
            there, low = reach(step)
        while step < 1.0 and not backtracked and not progress.late:
            farther, _ = reach(min(1.0, 2.0 * step))
            if farther.objective >= there.objective:
                break
            there, step = farther, min(1.0, 2.0 * step)
        if not self.conjugate:
            planes.restart(there)
        return there, step * norm


@dataclass(frozen=True, eq=False)
class _SubgradientPoint:
    """A point, with the risk and its gradient."""

    theta: FloatArray
    C: float
    risk: float
    gradient: FloatArray

    @property
    def objective(self) -> float:
        return 0.5 * float(self.theta @ self.theta) + self.C * self.risk


class _SubgradientPlanes:
    """Planes below the risk; the first is 0."""

    def __init__(self, n_parameters: int, C: float) -> None:
        self.C = C
        self.gradients, self.offsets = np.zeros((1, n_parameters)), np.zeros(1)

    def add(self, point: _SubgradientPoint) -> None:
        self.gradients = np.vstack([self.gradients, point.gradient])
        self.offsets = np.append(self.offsets, point.risk - point.gradient @ point.theta)

    def errors(self, point: _SubgradientPoint) -> FloatArray:
        """Return the distance of each plane below the objective at a point."""
        return self.C * (point.risk - self.offsets - self.gradients @ point.theta)

    def _within(self, point: _SubgradientPoint, max_error: float) -> BoolArray:
        errors = self.errors(point)
        # If the gap is a rounding error, the plane of the point itself is still active.
        return errors <= max(max_error, float(errors.min()))

    def shortest(self, point: _SubgradientPoint, near: float, deadline: float) -> tuple[FloatArray, float]:
        """Return the shortest vector in the hull of the subgradients near a point, and its lower bound."""
        active = self._within(point, near)
        gradients, offsets = self.gradients[active], self.offsets[active]
        subgradients = point.theta + self.C * gradients
        planes = Planes(subgradients, np.zeros(len(gradients)), np.zeros(len(gradients), dtype=np.int64))
        weights = minimize_planes(planes, 1.0, precision=_PRECISION, deadline=deadline).alpha
        combined = self.C * (weights @ gradients)
        return weights @ subgradients, self.C * float(weights @ offsets) - 0.5 * float(combined @ combined)

    def drop(self, point: _SubgradientPoint, max_error: float) -> None:
        """Drop planes that are far below the objective at a point."""
        keep = self._within(point, max_error)
        keep[0] = True
        self.gradients, self.offsets = self.gradients[keep], self.offsets[keep]

    def restart(self, point: _SubgradientPoint) -> None:
        """Drop all planes but 0 and that of a point."""
        self.gradients, self.offsets = self.gradients[:1], self.offsets[:1]
        self.add(point)
