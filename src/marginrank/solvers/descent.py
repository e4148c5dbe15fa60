"""A bundle method with proximity control for nonconvex risks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, evaluate, merge_parts
from marginrank.typing import FloatArray

#: Share of the predicted decrease that a step must bring, and the share that allows longer steps.
_DESCENT: Final = 0.1
_GOOD: Final = 0.5
#: Factor of the proximity weight after a failed step, and the weight below which it becomes 0.
_TIGHTER: Final = 4.0
_LOOSE: Final = 1e-2
#: Failed steps from a point after which the proximity weight grows in any case.
_PATIENCE: Final = 20
#: Gap that the quadratic programs may leave, as a share of the gain at which the solver stops, and of the predicted
#: gain.
_PROGRAM_GAP: Final = 0.1
_ROUGH_GAP: Final = 0.3
#: Number of last points, the nearest of which to y keeps its planes when others are dropped.
_RECENT: Final = 10


@dataclass(frozen=True)
class Descent(Solver):
    """Descent by subgradients with proximity control, for risks that are convex or not.

    Chapelle, Le and Smola (2007) §4 minimize the tight bound by gradient descent, and name the method of Fuduli,
    Gaudioso and Giallombardo (2004) as the alternative: a bundle of subgradients models the risk near the best point y,
    and a proximity term keeps the step where the model can be trusted,

        θ = argmin ½‖θ − center‖² + C·model_y(θ) + ½ρ‖θ − y‖².

    Planes are lower bounds of convex risks only. A plane above the risk at y is lowered until it is as far below it. If
    θ brings a tenth of the decrease predicted by the model, y moves there; otherwise y stays, θ adds its planes, and ρ
    grows if these do not explain the failure. The objective never increases. The model is of the risk alone, part by
    part; the regularizer is exact.

    If the risk is not convex there is no lower bound, and the result is stationary: planes taken near y predict a gain
    of at most ``tol`` times the objective. For a convex risk this is the bundle method.

    Args:
        tol: Predicted gain at which the solver stops, relative to the objective.
        max_iter: Maximum number of steps, of one evaluation each.
        time_limit: Maximum number of seconds.
        callback: Called after every step with the `Step` and the best θ so far; True stops.
        idle: Steps after which an inactive plane is dropped.

    >>> from marginrank.solvers.problem import FunctionProblem
    >>> hinge = FunctionProblem(lambda w: (max(0.0, 1 - w[0]), np.where(w < 1, -1.0, 0.0)), 1)
    >>> ramp = lambda w: (float(np.clip(1 - w[0], 0, 2)), np.where(abs(w) < 1, -1.0, 0.0))
    >>> problem = FunctionProblem(ramp, 1, convex=False, majorant=hinge)
    >>> Descent().minimize(problem, C=3.0, start=np.array([0.5])).theta.round(6).tolist()
    [1.0]
    """

    name = "descent"
    supports = ("signs", "center", "nonconvex")
    tol: float = 1e-4
    idle: int = 5

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ − center‖² + C·risk(θ) from ``start`` down to a stationary point."""
        progress = SolverProgress(self, problem, C)
        passes = 1
        with progress.interruptible():
            y = _visit(problem, problem.inside(problem.origin if start is None else start), C)
            progress.offer(y.theta, y.risk)
            bundle, rho, n_failed, predicted = _Bundle([y]), 0.0, 0, 0.0
            while True:
                # Far from the optimum, a program that is solved roughly is about as useful.
                min_gain = self.tol * abs(y.objective)
                # The gap of a convex problem is closed only if programs are more precise than it.
                precise = _PROGRAM_GAP * min(min_gain, progress.primal - progress.bound)
                rough = _ROUGH_GAP * predicted > precise
                max_gap = _ROUGH_GAP * predicted if rough else precise
                theta, bound, lowest = bundle.minimize(problem, C, rho, max_gap, progress.deadline)
                predicted = y.objective - lowest
                settled = not problem.convex and (1.0 + rho) * predicted <= min_gain
                if settled and rough:
                    predicted = 0.0
                    continue
                if settled and not bundle.local:
                    # Planes from elsewhere may be above the risk here.
                    bundle, n_failed = bundle.nearby(), 0
                    continue
                # A program that was stopped by the deadline proves nothing.
                settled = settled and not progress.late
                if progress.note(bound if problem.convex else -np.inf, passes, settled=settled):
                    break
                point = _visit(problem, theta, C)
                passes += 1
                progress.offer(point.theta, point.risk)
                decrease = y.objective - point.objective
                if decrease >= _DESCENT * predicted:
                    y, n_failed = point, 0
                    bundle.move(y)
                    if decrease >= _GOOD * predicted:
                        rho = rho / _TIGHTER if rho > _LOOSE else 0.0
                else:
                    n_failed += 1
                    explained = bundle.add(point)
                    if not problem.convex and (not explained or n_failed % _PATIENCE == 0):
                        rho = max(1.0, _TIGHTER * rho)
                bundle.prune(self.idle)
        return progress.solution()


@dataclass(frozen=True, eq=False)
class _DescentPoint:
    """A point, with the parts of the risk and their gradients."""

    theta: FloatArray
    values: FloatArray
    gradients: FloatArray
    objective: float

    @property
    def risk(self) -> float:
        return float(self.values.sum())


def _visit(problem: Problem, theta: FloatArray, C: float) -> _DescentPoint:
    values, gradients = merge_parts(*evaluate(problem.parts, theta))
    return _DescentPoint(theta, values, gradients, problem.objective(theta, float(values.sum()), C))


class _Bundle:
    """Planes of the parts of the risk, lowered if they are above the risk at the best point."""

    def __init__(self, points: Sequence[_DescentPoint]) -> None:
        #: The best point.
        self.y = points[-1]
        #: Whether all planes were taken at this point, or in failed steps from it.
        self.local = True
        self._planes = PlaneModel(self.y.gradients.shape[1])
        self._last: deque[_DescentPoint] = deque(maxlen=_RECENT)
        for point in points:
            self._append(point)

    def nearby(self) -> _Bundle:
        """Return a bundle of the planes taken at y and at the nearest point; those at y alone model little."""
        others = [point for point in self._last if point is not self.y]
        nearest = min(others, key=lambda point: float(np.linalg.norm(point.theta - self.y.theta)))
        return _Bundle([nearest, self.y])

    def _append(self, point: _DescentPoint) -> None:
        self._planes.add(point.theta, point.values, point.gradients)
        self._last.append(point)

    def _lowered(self) -> FloatArray:
        """Return the offsets of the planes; one that was above the risk at y is as far below it."""
        planes = self._planes
        errors = self.y.values[planes.owners] - planes.values(self.y.theta)
        return np.asarray(planes.offsets - np.maximum(-2.0 * errors, 0.0))

    def minimize(
        self, problem: Problem, C: float, rho: float, max_gap: float, deadline: float
    ) -> tuple[FloatArray, float, float]:
        """Return the minimizer of the model near y, a lower bound, and the model's value without the proximity term.

        The bound may be too low by ``max_gap``.
        """
        offsets = self._lowered()
        center = (problem.origin + rho * self.y.theta) / (1.0 + rho)
        # The gap counts 1 + ρ times in the objective, and as often again in the stopping rule.
        theta, bound = self._planes.minimize(
            C / (1.0 + rho),
            center,
            problem.signs,
            max_gap / (1.0 + rho) ** 2,
            deadline=deadline,
            offsets=offsets,
        )
        self._model = self._planes.maxima(theta, offsets)
        return theta, bound, problem.objective(theta, float(self._model.sum()), C)

    def move(self, y: _DescentPoint) -> None:
        """Continue from a better point."""
        self.y, self.local = y, False
        self._append(y)

    def add(self, point: _DescentPoint) -> bool:
        """Add the planes of a failed step; return whether they explain most of the error of the model."""
        self._append(point)
        model = self._planes.maxima(point.theta, self._lowered())
        error = point.risk - float(self._model.sum())
        return float(model.sum() - self._model.sum()) >= _GOOD * error

    def prune(self, idle: int) -> None:
        """Drop planes that were inactive for ``idle`` steps."""
        self._planes.prune(idle)
