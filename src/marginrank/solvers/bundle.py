"""Cutting planes of the risk, and the point where their maximum with the regulariser is least."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.problem import Problem, Segment
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import FEW_PARTS, SolverProgress, checked_parts, evaluate, merge_parts, solve_path
from marginrank.typing import FloatArray

#: Points at which the risk is evaluated.
_TRIES: Final = 4
#: Share of the way between two points that is left on either side.
_APART: Final = 0.1


class _Tangent(NamedTuple):
    """The risk and its slope at a share of the way."""

    t: float
    risk: float
    slope: float


def line_search(line: Segment, C: float, center: FloatArray, first: float, enough: float = 0.0) -> tuple[float, float]:
    """Return about where ½‖θ − center‖² + C·risk(θ) is least on the way, and the risk there.

    The objective is convex, so it is least between a point where it falls and one where it rises. The risk is taken for
    the larger of its tangents at these two, and evaluated next where the objective would then be least.

    Args:
        line: The way.
        C: Weight of the risk.
        center: Where the regulariser is least.
        first: Share of the way to begin with.
        enough: How much lower the objective need not become.
    """
    change = line.end - line.start
    linear, square = float((line.start - center) @ change), float(change @ change)

    def value(at: _Tangent) -> float:
        return linear * at.t + 0.5 * square * at.t**2 + C * at.risk

    def lowest(slope: float) -> float:
        """Where the objective is least if the risk has this slope everywhere."""
        return -(linear + C * slope) / square

    low: _Tangent | None = None
    high: _Tangent | None = None
    best, t = None, first
    for _ in range(_TRIES):
        here = _Tangent(t, *line(t))
        best = here if best is None or value(here) < value(best) else best
        if linear + square * t + C * here.slope > 0.0:
            high = here
        else:
            low = here
        if high is None:
            if t >= 1.0:
                break
            t = min(1.0, 2.0 * t)
        elif low is None:
            t = 0.5 * high.t
        else:
            t = min(max(_meeting(low, high), lowest(high.slope)), lowest(low.slope))
            if value(best) - value(_Tangent(t, low.risk + low.slope * (t - low.t), low.slope)) <= enough:
                break
            apart = _APART * (high.t - low.t)
            t = min(max(t, low.t + apart), high.t - apart)
    assert best is not None
    return best.t, best.risk


def _meeting(low: _Tangent, high: _Tangent) -> float:
    """Return where two tangents meet; half-way where they are parallel."""
    bend = high.slope - low.slope
    if bend <= 0.0:
        return 0.5 * (low.t + high.t)
    return (low.risk - high.risk + high.slope * high.t - low.slope * low.t) / bend


#: Share of the gap between objective and bound that the quadratic programs may leave.
_SHARE: Final = 0.1
#: Share of the gap by which the objective may fall less than the model says, for a longer step.
_SURPRISE: Final = 0.1
#: Iterations without any gain after which they are solved exactly; as many more are lost in rounding.
_PATIENCE: Final = 5
#: The C above which more parts are worth their programs, and how many. A path shares planes, and gets by with few.
_LARGE_C: Final = 1e3
_MANY_PARTS: Final = 64
#: Below this tolerance, programs grow so large that fewer parts and more passes are faster.
_LARGE_TOL: Final = 1e-3


@dataclass(frozen=True)
class Bundle(Solver):
    """The bundle method: cutting planes with a step back towards the best point.

    Joachims, Finley and Yu (2009); Chapelle, Le and Smola (2007) §3.3.2 with the planes of the risk alone, since planes
    of the whole objective would not be a lower bound. Planes are taken a share of the way from the best point to the
    minimiser of the model, as Franc and Sonnenburg (2009) do, which prevents oscillation. Where scores take much longer
    than the loss, as with additive scorers, the objective is first minimised along that way; elsewhere the share is
    doubled where the objective fell about as far as the model said. Each part of the risk has its own planes, which
    makes a better model for the same evaluations. The minimum of the model is a lower bound, so the gap is a
    certificate. Planes are valid for every C, and a path shares them.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the centre, whichever is smaller.
        max_iter: Maximum number of iterations, of one evaluation each.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        step: Least share of the way from the best point to the minimiser of the model at which planes are taken.
        idle: Iterations after which an inactive plane is dropped; two at most where there are many planes.

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
        """Minimise ½‖θ − center‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        n_parts = _MANY_PARTS if C > _LARGE_C and self.tol >= _LARGE_TOL else FEW_PARTS
        return self.refine(problem, C, PlaneModel(problem.n_parameters), start, n_parts)

    def path(self, problem: Problem, Cs: Iterable[float], start: FloatArray | None = None) -> list[Solution]:
        """Minimise for several C, from the smallest up, with one set of planes; results in the order given."""
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
        n_parts: int = FEW_PARTS,
    ) -> Solution:
        """Minimise with planes of this risk from before, of as many parts, which are used and added to.

        A ``start`` that is a solution has its planes among them, and is not evaluated again.
        """
        progress = SolverProgress(self, problem, C, start.risk_at_center if isinstance(start, Solution) else None)
        search = _PlaneSearch(problem, planes, progress, self.step, n_parts)
        with progress.interruptible():
            search.begin(start)
            # From the centre, which ranks nothing, a step is taken before anything can end the search.
            begun, still = start is not None, 0
            while True:
                before, best = progress.bound, progress.primal
                left = best - before if np.isfinite(before) else self.tol * best
                minimizer, bound = planes.minimize(
                    C,
                    problem.center,
                    problem.signs,
                    _SHARE * left if still < _PATIENCE else 0.0,
                    max(1e-13, 1e-3 * self.tol),
                    progress.deadline,
                )
                if begun and progress.note(bound, search.passes, stalled=still > 2 * _PATIENCE):
                    break
                begun = True
                search.step_towards(minimizer, bound)
                # Without this a plane could come and go for ever while the bound stands still.
                if progress.bound > before:
                    planes.prune(self.idle)
                still = 0 if progress.bound > before or progress.primal < best else still + 1
        return progress.solution()


class _PlaneSearch:
    """Where planes are taken on the way from the best point to the minimiser of the model.

    Where the risk along the way costs little, the least point of it is the next best point, and planes are taken a
    share of the rest of the way from there (Franc and Sonnenburg, 2009). Elsewhere planes are taken a share of the way
    from the best point, and the share is doubled where the objective fell about as far as the model said.
    """

    def __init__(
        self, problem: Problem, planes: PlaneModel, progress: SolverProgress, step: float, n_parts: int
    ) -> None:
        self._problem, self._planes, self._progress, self._step = problem, planes, progress, step
        self._n_parts = n_parts
        self._share = 1.0
        #: The way that led to the best point, and how far it is along it.
        self._line: Segment | None = None
        self._at = 0.0
        self.passes: float = 0

    def begin(self, start: FloatArray | Solution | None) -> None:
        """Take planes at the start, unless it is a solution whose planes are known."""
        if isinstance(start, Solution):
            self._progress.offer(start.theta, start.risk)
        else:
            theta = self._problem.inside(self._problem.origin if start is None else start)
            self._take(theta, evaluate(self._problem.parts, theta))

    def step_towards(self, minimizer: FloatArray, bound: float) -> None:
        """Take planes on the way to the minimiser of the model, whose minimum is a bound."""
        if self._line is not None:
            self._step_along(self._line.then(self._at, minimizer))
        elif (line := self._problem.line(self._progress.theta, minimizer)) is not None:
            # The start of the first way is scored as well as its end.
            self.passes += 0.5
            self._step_along(line)
        else:
            self._step_by_share(minimizer, bound)

    def _step_by_share(self, minimizer: FloatArray, bound: float) -> None:
        best, theta, share = self._progress.primal, self._progress.theta, self._share
        # Both are convex along the way, so the model is at most this.
        expected = (1.0 - share) * best + share * bound + _SURPRISE * share * (best - bound)
        at = minimizer if share == 1.0 else theta + share * (minimizer - theta)
        better = self._take(at, evaluate(self._problem.parts, at))
        self._share = min(1.0, 2.0 * share) if better and self._progress.primal <= expected else self._step

    def _step_along(self, line: Segment) -> None:
        progress = self._progress
        enough = _SHARE * (progress.primal - progress.bound)
        found, risk = line_search(line, progress.C, self._problem.origin, self._share, enough)
        at = found if progress.offer(line.point(found), risk) else 0.0
        self._share = min(1.0, max(2.0 * at, 0.3 * self._share))
        further = at + self._step * (1.0 - at)
        theta = line.point(further)
        if self._take(theta, checked_parts(*line.parts(further), theta)):
            at = further
        self._line, self._at = line, at

    def _take(self, theta: FloatArray, found: tuple[FloatArray, FloatArray]) -> bool:
        values, slopes = merge_parts(*found, self._n_parts)
        self._planes.add(theta, values, slopes)
        self.passes += 1
        return self._progress.offer(theta, float(values.sum()))
