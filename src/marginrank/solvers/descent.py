"""Descent on a risk that need not be convex, with planes that count near a point only."""

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

#: Share of the predicted descent that a step must bring, and the share that allows longer ones.
_DESCENT: Final = 0.1
_GOOD: Final = 0.5
#: Factor of the proximity weight after a step too far, and the weight that counts as none.
_TIGHTER: Final = 4.0
_LOOSE: Final = 1e-2
#: Steps from a point that fail before the next are held closer, whatever the planes say.
_PATIENCE: Final = 20
#: Share of the gain at which the solver stops that the quadratic programs may leave, and share of the gain promised.
_SHARE: Final = 0.1
_ROUGHLY: Final = 0.3
#: Points of which the nearest to y keeps its planes where others are dropped.
_RECENT: Final = 10


@dataclass(frozen=True)
class Descent(Solver):
    """Descent by subgradients with proximity control, for risks that are convex or not.

    Chapelle, Le and Smola (2007) §4 minimise the tight bound by gradient descent, and name the method of Fuduli,
    Gaudioso and Giallombardo (2004) as the alternative: a bundle of subgradients models the risk near the best point y,
    and a proximity term keeps the step where the model can be trusted,

        θ = argmin ½‖θ − center‖² + C·model_y(θ) + ½ρ‖θ − y‖².

    A plane is known to be a lower bound for a convex risk only. Each is lowered until it is below the risk at y by as
    much as it was above or below it. If θ brings a tenth of the descent that the model promises, y moves there;
    otherwise y stays, θ adds its planes, and ρ grows if these do not explain why. The objective never rises. The model
    is of the risk alone, part by part; the regulariser is taken as it is.

    Where the risk is not convex there is no lower bound, and the end is called stationary: no more than ``tol`` times
    the objective can be gained, by planes that were all taken near y. For a convex risk this is the bundle method.

    Args:
        tol: Gain that the model promises at which the solver stops, relative to the objective.
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
        """Minimise ½‖θ − center‖² + C·risk(θ) from ``start`` down to a stationary point."""
        progress = SolverProgress(self, problem, C)
        passes = 1
        with progress.interruptible():
            y = _visit(problem, problem.inside(problem.origin if start is None else start), C)
            progress.offer(y.theta, y.risk)
            bundle, rho, n_failed, promised = _Bundle([y]), 0.0, 0, 0.0
            while True:
                # Far from the end, a program that is solved roughly leads about as far.
                little = self.tol * abs(y.objective)
                rough = _ROUGHLY * promised > _SHARE * little
                enough = _ROUGHLY * promised if rough else _SHARE * little
                theta, bound, lowest = bundle.minimize(problem, C, rho, enough, progress.deadline)
                promised = y.objective - lowest
                settled = not problem.convex and (1.0 + rho) * promised <= little
                if settled and rough:
                    promised = 0.0
                    continue
                if settled and not bundle.local:
                    # Planes from elsewhere may be above the risk here.
                    bundle, n_failed = bundle.nearby(), 0
                    continue
                # A search that ended at the deadline proves nothing.
                settled = settled and not progress.late
                if progress.note(bound if problem.convex else -np.inf, passes, settled=settled):
                    break
                there = _visit(problem, theta, C)
                passes += 1
                progress.offer(there.theta, there.risk)
                descended = y.objective - there.objective
                if descended >= _DESCENT * promised:
                    y, n_failed = there, 0
                    bundle.move(y)
                    if descended >= _GOOD * promised:
                        rho = rho / _TIGHTER if rho > _LOOSE else 0.0
                else:
                    n_failed += 1
                    explained = bundle.add(there)
                    if not problem.convex and (not explained or n_failed % _PATIENCE == 0):
                        rho = max(1.0, _TIGHTER * rho)
                bundle.prune(self.idle)
        return progress.solution()


@dataclass(frozen=True, eq=False)
class _DescentPoint:
    """Where the risk was evaluated, and what its parts were."""

    theta: FloatArray
    values: FloatArray
    slopes: FloatArray
    objective: float

    @property
    def risk(self) -> float:
        return float(self.values.sum())


def _visit(problem: Problem, theta: FloatArray, C: float) -> _DescentPoint:
    values, slopes = merge_parts(*evaluate(problem.parts, theta))
    return _DescentPoint(theta, values, slopes, problem.objective(theta, float(values.sum()), C))


class _Bundle:
    """Planes of the parts of the risk, as they are seen from the best point."""

    def __init__(self, points: Sequence[_DescentPoint]) -> None:
        #: The best point.
        self.y = points[-1]
        #: Whether all planes were taken near this point, or on the way from it.
        self.local = True
        self._planes = PlaneModel(self.y.slopes.shape[1])
        self._last: deque[_DescentPoint] = deque(maxlen=_RECENT)
        for point in points:
            self._append(point)

    def nearby(self) -> _Bundle:
        """Return a bundle of the planes taken at y and next to it; those at y alone would be a model of little."""
        others = [point for point in self._last if point is not self.y]
        nearest = min(others, key=lambda point: float(np.linalg.norm(point.theta - self.y.theta)))
        return _Bundle([nearest, self.y])

    def _append(self, point: _DescentPoint) -> None:
        self._planes.add(point.theta, point.values, point.slopes)
        self._last.append(point)

    def _lowered(self) -> FloatArray:
        """Offsets of the planes, each below the risk at y by as much as it was above or below it."""
        planes = self._planes
        errors = self.y.values[planes.owners] - planes.values(self.y.theta)
        return np.asarray(planes.offsets - np.maximum(-2.0 * errors, 0.0))

    def minimize(
        self, problem: Problem, C: float, rho: float, enough: float, deadline: float
    ) -> tuple[FloatArray, float, float]:
        """Return where the model is least near y, a lower bound of it there, and its value without the proximity.

        The bound may be too low by what is ``enough``.
        """
        offsets = self._lowered()
        center = (problem.origin + rho * self.y.theta) / (1.0 + rho)
        # What is left counts 1 + ρ times in the objective, and as often again in what ends the search.
        theta, bound = self._planes.minimize(
            C / (1.0 + rho),
            center,
            problem.signs,
            enough / (1.0 + rho) ** 2,
            deadline=deadline,
            offsets=offsets,
        )
        self._model = self._planes.maxima(theta, offsets)
        return theta, bound, problem.objective(theta, float(self._model.sum()), C)

    def move(self, y: _DescentPoint) -> None:
        """Go on from a better point."""
        self.y, self.local = y, False
        self._append(y)

    def add(self, point: _DescentPoint) -> bool:
        """Add the planes of a point that was no better; return whether they explain most of what the model missed."""
        self._append(point)
        now = self._planes.maxima(point.theta, self._lowered())
        missed = point.risk - float(self._model.sum())
        return float(now.sum() - self._model.sum()) >= _GOOD * missed

    def prune(self, idle: int) -> None:
        """Drop the planes that have not held anything up for so many steps."""
        self._planes.prune(idle)
