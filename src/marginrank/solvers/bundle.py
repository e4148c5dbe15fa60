"""The bundle (cutting-plane) method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from marginrank.runtime.tuned_constants import PARTS
from marginrank.solvers.base import Solver
from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.problem import Problem, Segment
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, checked_parts, evaluate, merge_parts, solve_path
from marginrank.typing import FloatArray

#: Most points of a line search.
_TRIES: Final = 4
#: Smallest distance of the next step size from the ends of its bracket, as a share of the bracket.
_MARGIN: Final = 0.1


class _Tangent(NamedTuple):
    """The risk and its derivative at a step size."""

    t: float
    risk: float
    derivative: float


def line_search(
    segment: Segment, C: float, center: FloatArray, first: float, max_gain: float = 0.0
) -> tuple[float, float]:
    """Return the step size that about minimizes ½‖θ − center‖² + C·risk(θ) on a segment, and the risk there.

    The objective is convex, so its minimizer lies between a point where it falls and one where it rises. With the
    larger of the tangents at these two in place of the risk, the minimizer of the objective is the next point.

    Args:
        segment: The segment.
        C: Weight of the risk.
        center: The minimizer of the regularizer.
        first: Step size to start with.
        max_gain: Decrease of the objective that is not worth another point.
    """
    change = segment.end - segment.start
    linear, square = float((segment.start - center) @ change), float(change @ change)

    def value(tangent: _Tangent) -> float:
        return linear * tangent.t + 0.5 * square * tangent.t**2 + C * tangent.risk

    def minimizer(derivative: float) -> float:
        """Return the minimizer of the objective if the risk has this derivative everywhere."""
        return -(linear + C * derivative) / square

    low: _Tangent | None = None
    high: _Tangent | None = None
    best, t = None, first
    for _ in range(_TRIES):
        tangent = _Tangent(t, *segment(t))
        best = tangent if best is None or value(tangent) < value(best) else best
        if linear + square * t + C * tangent.derivative > 0.0:
            high = tangent
        else:
            low = tangent
        if high is None:
            if t >= 1.0:
                break
            t = min(1.0, 2.0 * t)
        elif low is None:
            t = 0.5 * high.t
        else:
            t = min(max(_intersection(low, high), minimizer(high.derivative)), minimizer(low.derivative))
            if value(best) - value(_Tangent(t, low.risk + low.derivative * (t - low.t), low.derivative)) <= max_gain:
                break
            margin = _MARGIN * (high.t - low.t)
            t = min(max(t, low.t + margin), high.t - margin)
    assert best is not None
    return best.t, best.risk


def _intersection(low: _Tangent, high: _Tangent) -> float:
    """Return where two tangents intersect; the midpoint if they are parallel."""
    change = high.derivative - low.derivative
    if change <= 0.0:
        return 0.5 * (low.t + high.t)
    return (low.risk - high.risk + high.derivative * high.t - low.derivative * low.t) / change


#: Gap that the quadratic programs may leave, as a share of the gap between objective and bound.
_PROGRAM_GAP: Final = 0.1
#: Share of the gap by which the decrease may fall short of the model's for the step size to be doubled.
_SHORTFALL: Final = 0.1
#: Iterations without progress after which programs are solved exactly; after as many more the solver stops.
_PATIENCE: Final = 5
#: Share of the largest entry of θ below which an entry with a sign constraint is set to 0 if the minimizer has 0 there.
#: On random problems with 5 or 30 weights at tol 1e-5, 25 of 5,018 small weights then stay above 0 (without: 3,188).
_SMALL_ENTRY: Final = 1e-2


@dataclass(frozen=True)
class Bundle(Solver):
    """The bundle method: cutting planes with a step back towards the best point.

    Joachims, Finley and Yu (2009); Chapelle, Le and Smola (2007) §3.3.2 with the planes of the risk alone, since planes
    of the whole objective would not be a lower bound. Planes are taken between the best point and the minimizer of the
    model, as Franc and Sonnenburg (2009) do, which prevents oscillation. If scores take much longer than the loss, as
    with additive scorers, a line search on that segment comes first; otherwise the step size is doubled when the
    objective decreased about as much as the model. Each part of the risk has its own planes, which makes a better model
    for the same evaluations. The minimum of the model is a lower bound, so the gap is a certificate. Planes are valid
    for every C, and a path shares them.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of iterations, of one evaluation each.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        step: Smallest step size from the best point towards the minimizer of the model.
        idle: Iterations after which an inactive plane is dropped; at most two if there are many planes.

    >>> import numpy as np
    >>> from marginrank.solvers.problem import FunctionProblem
    >>> distance = FunctionProblem(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1)
    >>> solution = Bundle(tol=1e-9).minimize(distance, C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    name = "bundle"
    supports = ("signs", "center")
    step: float = 0.2
    idle: int = 5

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ − center‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        return self.refine(problem, C, PlaneModel(problem.n_parameters), start)

    def path(self, problem: Problem, Cs: Iterable[float], start: FloatArray | None = None) -> list[Solution]:
        """Minimize for several C, from the smallest up, with one set of planes; results in the order given."""
        planes = PlaneModel(problem.n_parameters)

        def solve(solver: Bundle, C: float, before: Solution | None) -> Solution:
            return solver.refine(problem, C, planes, start if before is None else before)

        return solve_path(self, Cs, solve)

    def refine(
        self,
        problem: Problem,
        C: float,
        planes: PlaneModel,
        start: FloatArray | Solution | None = None,
        n_parts: int = PARTS,
    ) -> Solution:
        """Minimize with known planes of this risk, of the same parts, and add to them.

        If ``start`` is a solution, its planes are among them, and it is not evaluated again.
        """
        progress = SolverProgress(self, problem, C, start.risk_at_center if isinstance(start, Solution) else None)
        known = planes.n_taken
        search = _PlaneSearch(problem, planes, progress, self.step, n_parts)
        with progress.interruptible():
            search.begin(start)
            # The center ranks nothing, so one step from it is taken in any case.
            begun, stalled = start is not None, 0
            while True:
                before, best = progress.bound, progress.primal
                gap = best - before if np.isfinite(before) else self.tol * best
                minimizer, bound = planes.minimize(
                    C,
                    problem.center,
                    problem.signs,
                    _PROGRAM_GAP * gap if stalled < _PATIENCE else 0.0,
                    max(1e-13, 1e-3 * self.tol),
                    progress.deadline,
                )
                if begun and progress.note(bound, search.passes, stalled=stalled > 2 * _PATIENCE):
                    break
                begun = True
                search.step_towards(minimizer, bound)
                # Otherwise a plane could be dropped and added for ever while the bound does not increase.
                if progress.bound > before:
                    planes.prune(self.idle)
                stalled = 0 if progress.bound > before or progress.primal < best else stalled + 1
        return replace(progress.solution(), n_planes=planes.n_taken - known)


class _PlaneSearch:
    """Points between the best point and the minimizer of the model, at which planes are taken.

    If the risk on the segment is cheap, a line search finds the next best point, and planes are taken between it and
    the minimizer (Franc and Sonnenburg, 2009). Otherwise planes are taken a step from the best point, and the step size
    is doubled when the objective decreased about as much as the model.
    """

    def __init__(
        self, problem: Problem, planes: PlaneModel, progress: SolverProgress, step: float, n_parts: int
    ) -> None:
        self._problem, self._planes, self._progress, self._step = problem, planes, progress, step
        self._n_parts = n_parts
        self._step_size, self._better = 1.0, True
        #: The segment of the best point, and its step size there.
        self._segment: Segment | None = None
        self._best_step_size = 0.0
        self.passes: float = 0

    def begin(self, start: FloatArray | Solution | None) -> None:
        """Take planes at the start, unless it is a solution whose planes are known."""
        if isinstance(start, Solution):
            self._progress.offer(start.theta, start.risk)
        else:
            theta = self._problem.inside(self._problem.origin if start is None else start)
            self._take(theta, evaluate(self._problem.parts, theta))

    def step_towards(self, minimizer: FloatArray, bound: float) -> None:
        """Take planes between the best point and the minimizer of the model, whose minimum is ``bound``."""
        if self._segment is not None:
            self._search_segment(self._segment.then(self._best_step_size, minimizer))
        elif (segment := self._problem.segment(self._progress.theta, minimizer)) is not None:
            # Both ends of the first segment are scored.
            self.passes += 0.5
            self._search_segment(segment)
        else:
            self._step_by_size(minimizer, bound)

    def _step_by_size(self, minimizer: FloatArray, bound: float) -> None:
        best, theta, step = self._progress.primal, self._progress.theta, self._step_size
        # Objective and model are convex, so the model is at most this.
        expected = (1.0 - step) * best + step * bound + _SHORTFALL * step * (best - bound)
        point = minimizer if step == 1.0 else self._with_zeros(theta + step * (minimizer - theta), minimizer)
        better = self._take(point, evaluate(self._problem.parts, point))
        self._better = better
        self._step_size = min(1.0, 2.0 * step) if better and self._progress.primal <= expected else self._step

    def _with_zeros(self, theta: FloatArray, minimizer: FloatArray) -> FloatArray:
        """Set small entries to the zeros that the minimizer has by its signs, which steps would only approach."""
        if self._problem.signs is None or not self._better:
            return theta
        small = np.abs(theta) < _SMALL_ENTRY * np.abs(theta).max(initial=0.0)
        return np.where((self._problem.signs != 0) & (minimizer == 0.0) & small, 0.0, theta)

    def _search_segment(self, segment: Segment) -> None:
        progress = self._progress
        max_gain = _PROGRAM_GAP * (progress.primal - progress.bound)
        t, risk = line_search(segment, progress.C, self._problem.origin, self._step_size, max_gain)
        best = t if progress.offer(segment.point(t), risk) else 0.0
        self._step_size = min(1.0, max(2.0 * best, 0.3 * self._step_size))
        further = best + self._step * (1.0 - best)
        theta = segment.point(further)
        if self._take(theta, checked_parts(*segment.parts(further), theta)):
            best = further
        self._segment, self._best_step_size = segment, best

    def _take(self, theta: FloatArray, parts: tuple[FloatArray, FloatArray]) -> bool:
        values, gradients = merge_parts(*parts, self._n_parts)
        self._planes.add(theta, values, gradients)
        self.passes += 1
        return self._progress.offer(theta, float(values.sum()))
