"""Descent along the shortest subgradient, with a line search that backtracks."""

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

#: Descent that a step must bring, as a share of what its direction promises at first.
_DESCENT: Final = 0.1
#: How far below the risk at a point a plane may be and still count as touching it, as a share of the gap.
_NEAR: Final = 0.25
#: How near to the shortest a direction must be.
_PRECISION: Final = 1e-6
#: Step at which backtracking ends, whatever it has found.
_SHORTEST_STEP: Final = 1e-12


@dataclass(frozen=True)
class Subgradient(Solver):
    """Steepest subgradient descent with a backtracking line search.

    Chapelle, Le and Smola (2007) §3.3.1. The direction is minus the shortest vector in the hull of the subgradients
    that were gathered about the point: a step that fails adds the subgradient found where it ended, until the
    shortest vector leads down or is short enough to prove that the point is nearly optimal. The conjugate variant
    (Wolfe 1975) keeps what was gathered when the point moves on, as long as it is no farther off than the gap.

    The weights λ of the shortest vector p are a certificate: the planes of the risk, combined by them, are below it, so
    the optimum is at least C·Σλ_k offset_k − ½‖C·Σλ_k slope_k‖². That is less than the objective by ½‖p‖² and by what
    the planes are off at the point. They count as touching within a quarter of the gap, so a p too short to lead down
    halves the gap.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the centre, whichever is smaller.
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
        """Minimise ½‖θ‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        progress = SolverProgress(self, problem, C)
        planes = _SubgradientPlanes(problem.n_parameters, C)
        passes, length = 0, np.inf

        def visit(theta: FloatArray) -> _SubgradientPoint:
            nonlocal passes
            values, slopes = evaluate(problem, theta)
            point = _SubgradientPoint(theta, C, float(values.sum()), slopes.sum(axis=0))
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
        """Find a point that is lower by enough, or stay here with a plane that touches; give the length of the step.

        A step of 1 leads to the least of the regulariser with the plane of ``shortest``, so none is longer.
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
    """Where the risk was evaluated, and what it was."""

    theta: FloatArray
    C: float
    risk: float
    slope: FloatArray

    @property
    def objective(self) -> float:
        return 0.5 * float(self.theta @ self.theta) + self.C * self.risk


class _SubgradientPlanes:
    """Planes that the risk is never below; the first is 0."""

    def __init__(self, n_parameters: int, C: float) -> None:
        self.C = C
        self.slopes, self.offsets = np.zeros((1, n_parameters)), np.zeros(1)

    def add(self, point: _SubgradientPoint) -> None:
        self.slopes = np.vstack([self.slopes, point.slope])
        self.offsets = np.append(self.offsets, point.risk - point.slope @ point.theta)

    def errors(self, point: _SubgradientPoint) -> FloatArray:
        """How far each plane is below the objective at a point."""
        return self.C * (point.risk - self.offsets - self.slopes @ point.theta)

    def _within(self, point: _SubgradientPoint, most: float) -> BoolArray:
        errors = self.errors(point)
        # Where the gap is all rounding error, the plane of the point itself must still count.
        return errors <= max(most, float(errors.min()))

    def shortest(self, point: _SubgradientPoint, near: float, deadline: float) -> tuple[FloatArray, float]:
        """Shortest vector in the hull of the subgradients of the planes near a point, and the bound they make."""
        touching = self._within(point, near)
        slopes, offsets = self.slopes[touching], self.offsets[touching]
        subgradients = point.theta + self.C * slopes
        one_part = Planes(subgradients, np.zeros(len(slopes)), np.zeros(len(slopes), dtype=np.int64))
        weights = minimize_planes(one_part, 1.0, precision=_PRECISION, deadline=deadline).alpha
        pull = self.C * (weights @ slopes)
        return weights @ subgradients, self.C * float(weights @ offsets) - 0.5 * float(pull @ pull)

    def drop(self, point: _SubgradientPoint, most: float) -> None:
        """Drop planes that are far below the objective at a point."""
        keep = self._within(point, most)
        keep[0] = True
        self.slopes, self.offsets = self.slopes[keep], self.offsets[keep]

    def restart(self, point: _SubgradientPoint) -> None:
        """Drop all planes but 0 and that of a point."""
        self.slopes, self.offsets = self.slopes[:1], self.offsets[:1]
        self.add(point)
