"""What all solvers share: the best point so far, the trace, when to stop, and a quiet end on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from marginrank.errors import NumericalError
from marginrank.runtime.option_objects import check_C
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from marginrank.solvers.base import Solver

SomeSolver = TypeVar("SomeSolver", bound="Solver")
#: Differences between objectives below this share of them are rounding errors.
ROUNDING: Final = 1e-14
#: Largest risk and slope whose squares, times C, are computed with.
_LARGEST: Final = 1e100
#: Parts of the risk that have planes of their own, where more would cost more in programs than they save in passes.
#: With few parameters programs are cheap, and all parts have planes of their own.
FEW_PARTS: Final = 32
FEW_PARAMETERS: Final = 512


class SolverProgress:
    """The best point so far and the way there.

    A lower bound is a certificate only where the risk is convex and its values are exact. Elsewhere solvers still use
    their bounds to stop, but the trace and the solution have none, and the end is not called converged.
    """

    def __init__(self, solver: Solver, problem: Problem, C: float, risk_at_center: float | None = None) -> None:
        self.C = check_C(C)
        solver.check(problem)
        self.solver, self.problem = solver, problem
        self.trace: list[Step] = []
        self.reason: Reason = "interrupted"
        #: The best lower bound that a solver has seen; not a certificate unless the problem is certifiable.
        self.bound = -np.inf
        self._best: tuple[FloatArray, float, float] | None = None
        self._began = time.perf_counter()
        self._center = problem.inside(problem.origin)
        self._center_risk = risk_at_center
        self._n_offered = self._center_passes = 0

    @property
    def theta(self) -> FloatArray:
        """The best point so far."""
        return self._point()[0]

    @property
    def primal(self) -> float:
        """The objective there."""
        return self._point()[1]

    @property
    def seconds(self) -> float:
        """Seconds since the solver began."""
        return time.perf_counter() - self._began

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit, at least a little."""
        return max(self.solver.time_limit - self.seconds, 1e-9)

    @property
    def deadline(self) -> float:
        """When the time limit passes, on the clock of `time.perf_counter`; never before there is a point to return."""
        return np.inf if self._best is None else self._began + self.solver.time_limit

    @property
    def late(self) -> bool:
        """Whether the time limit has passed and there is a point to return; long iterations ask."""
        return self.seconds > self.solver.time_limit and self._best is not None

    def _point(self) -> tuple[FloatArray, float, float]:
        if self._best is None:
            raise RuntimeError("no point has been recorded")
        return self._best

    def offer(self, theta: FloatArray, risk: float) -> bool:
        """Keep a point if it is the best so far, and return whether it is."""
        primal = self.problem.objective(theta, risk, self.C)
        if not np.isfinite(primal):
            raise NumericalError(f"the objective is {primal} with C = {self.C:g}; lower C, or rescale the features")
        self._n_offered += 1
        if self._center_risk is None and np.array_equal(theta, self._center):
            self._center_risk = risk
        if self._best is not None and not primal < self._best[1] + self._tie():
            return False
        self._best = theta, primal, risk
        return True

    def _tie(self) -> float:
        """How much worse a point may be: where features are tiny, all that can be gained is lost in rounding.

        Any point is then better than the centre, which ranks nothing.
        """
        theta, primal, _ = self._point()
        return ROUNDING * abs(primal) if np.array_equal(theta, self._center) else 0.0

    @property
    def possible(self) -> float:
        """The most that the objective can fall from the centre, by what is known of it.

        Evaluates the risk at the centre if the solver was not there.
        """
        if self._center_risk is None:
            self._center_passes += 1
            self._center_risk = float(self.problem(self._center)[0])
        return self.problem.objective(self._center, self._center_risk, self.C) - self.bound

    @property
    def target(self) -> float:
        """The gap to stop at: a share of the objective, and of what it can fall from the centre.

        The first alone would be met at the centre itself where features or C are small, since the objective is then
        nearly the same everywhere.
        """
        share = min(abs(self.primal), max(self.possible, 0.0))
        # Where the possible fall is lost in rounding, one step from the centre is all that can be asked for.
        least = min(ROUNDING, self.solver.tol) * abs(self.primal) if self._n_offered > 1 else 0.0
        return max(self.solver.tol * share, least)

    @property
    def _close(self) -> bool:
        gap = self.primal - self.bound
        # At the centre a gap of 0 may be all rounding error, unless no risk is left.
        if self._n_offered == 1 and self.primal > 0 and np.array_equal(self.theta, self._center):
            return False
        # The second needs the risk at the centre, which may not be known yet.
        return gap <= self.solver.tol * abs(self.primal) and gap <= self.target

    def note(self, bound: float, passes: float, *, settled: bool = False, stalled: bool = False) -> bool:
        """Record an iteration that ended at the points offered, and return whether to stop.

        Args:
            bound: Lower bound of the objective, as far as the problem is convex and exact.
            passes: Evaluations of the whole risk so far.
            settled: Whether the solver has nothing more to gain.
            stalled: Whether the arithmetic allows no further step, which proves nothing.
        """
        # A bound above the objective is one by a rounding error.
        self.bound = min(max(self.bound, bound), self.primal)
        close, certifiable = self._close, self.problem.certifiable
        dual = self.bound if certifiable else -np.inf
        step = Step(self.primal, dual, self.seconds, passes + self._center_passes)
        self.trace.append(step)
        stopped = self.solver.callback is not None and self.solver.callback(step, self.theta)
        if settled or close:
            self.reason = "converged" if np.isfinite(step.dual) else "stationary"
        elif stalled:
            self.reason = "stationary"
        elif stopped:
            self.reason = "callback"
        elif len(self.trace) >= self.solver.max_iter:
            self.reason = "max_iter"
        elif step.seconds > self.solver.time_limit:
            self.reason = "time_limit"
        else:
            return False
        return True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """End quietly on Ctrl-C once there is a point to return."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.trace:
                raise

    def solution(self) -> Solution:
        """Return the best point, with its certificate and the trace."""
        theta, primal, risk = self._point()
        dual = self.bound if self.problem.certifiable else -np.inf
        return Solution(theta, self.C, primal, dual, risk, self.reason, tuple(self.trace), self._center_risk)


def solve_path(
    solver: SomeSolver, Cs: Iterable[float], solve: Callable[[SomeSolver, float, Solution | None], Solution]
) -> list[Solution]:
    """Solve for several C, from the smallest up, each given the solution before; results in the order given.

    The time limit holds for all of them together. After Ctrl-C the larger C get the parameters reached until then:
    their optimum is not below that of a smaller C, so the lower bound holds for them too.
    """
    asked = [check_C(C) for C in Cs]
    began = time.perf_counter()
    solutions: dict[float, Solution] = {}
    before: Solution | None = None
    for C in sorted(set(asked)):
        if before is not None and before.reason == "interrupted":
            before = _carried(before, C)
        else:
            left = max(solver.time_limit - (time.perf_counter() - began), 1e-9)
            try:
                before = solve(replace(solver, time_limit=left), C, before)
            except KeyboardInterrupt:
                if before is None:
                    raise
                before = _carried(before, C)
        solutions[C] = before
    return [solutions[C] for C in asked]


def _carried(solution: Solution, C: float) -> Solution:
    """Return the parameters found for a smaller C as what an interrupt left for this one."""
    primal = solution.primal + (C - solution.C) * solution.risk
    last = replace(solution.trace[-1], primal=primal)
    return replace(solution, C=C, primal=primal, reason="interrupted", trace=(last,))


def evaluate(
    risk: Callable[[FloatArray], tuple[float | FloatArray, FloatArray]], theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the parts of the risk and their slopes, one row each; refuse what cannot be squared."""
    return checked_parts(*risk(theta), theta)


def checked_parts(value: float | FloatArray, slope: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and slopes of the risk at θ as arrays, one row each; refuse what cannot be squared."""
    values, slopes = np.atleast_1d(np.asarray(value, dtype=np.float64)), np.atleast_2d(slope)
    if not max(np.abs(values).max(initial=0.0), np.abs(slopes).max(initial=0.0)) <= _LARGEST:
        raise NumericalError(
            f"the risk is {values.sum()} at a point of norm {np.linalg.norm(theta):g}; rescale the features, or grades"
        )
    return values, slopes


def merge_parts(values: FloatArray, slopes: FloatArray, most: int = FEW_PARTS) -> tuple[FloatArray, FloatArray]:
    """Add up neighbouring parts of the risk so that there are at most so many, where there are many parameters.

    >>> values, slopes = merge_parts(np.array([1.0, 2.0, 3.0]), np.ones((3, 1000)), 2)
    >>> values.tolist(), slopes[:, 0].tolist()
    ([1.0, 5.0], [1.0, 2.0])
    """
    if len(values) <= most or slopes.shape[1] <= FEW_PARAMETERS:
        return values, slopes
    starts = np.arange(most) * len(values) // most
    return np.add.reduceat(values, starts), summed(slopes, starts)


def summed(rows: FloatArray, starts: IntArray) -> FloatArray:
    """Sum consecutive rows, from each start up to the next; the rows themselves if each is a start.

    >>> summed(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1])).tolist()
    [[1.0], [5.0]]
    """
    if len(starts) == len(rows):
        return rows
    if rows.shape[1] <= FEW_PARAMETERS:
        return np.asarray(np.add.reduceat(rows, starts, axis=0))
    # On long rows reduceat takes ten times as long.
    sums = rows[starts]
    for number, (first, end) in enumerate(pairwise([*starts.tolist(), len(rows)])):
        for row in rows[first + 1 : end]:
            sums[number] += row
    return sums
