"""The progress of a solver: best point, trace, stopping rule and Ctrl-C; evaluation of the risk."""

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
from marginrank.runtime.tuned_constants import FEW_PARAMETERS, PARTS
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from marginrank.solvers.base import Solver

SomeSolver = TypeVar("SomeSolver", bound="Solver")
#: Relative differences between objectives that are rounding errors.
ROUNDING: Final = 1e-14
#: Largest risk and gradient whose squares, times C, do not overflow.
_LARGEST: Final = 1e100


class SolverProgress:
    """The best point so far, the trace and the stopping rule of a solver.

    A lower bound is a certificate only if the risk is convex and its values are exact. Otherwise solvers still use
    their bounds to stop, but the trace and the solution have none, and the reason is not ``converged``.

    Args:
        solver: The solver, with its limits.
        problem: The problem.
        C: Weight of the risk.
        risk_at_center: The risk at the center, if it is known.
    """

    def __init__(self, solver: Solver, problem: Problem, C: float, risk_at_center: float | None = None) -> None:
        self.C = check_C(C)
        solver.check(problem)
        self.solver, self.problem = solver, problem
        self.trace: list[Step] = []
        self.reason: Reason = "interrupted"
        #: The best lower bound so far; a certificate only if the problem is certifiable.
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
        """When the time limit ends, on the clock of `time.perf_counter`; never before there is a point to return."""
        return np.inf if self._best is None else self._began + self.solver.time_limit

    @property
    def late(self) -> bool:
        """Whether the time limit has passed and there is a point to return."""
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
        """Return how much worse than the best a point may be: a rounding error if the best is the center.

        With tiny features all gains are rounding errors, and any point is better than the center, which ranks nothing.
        """
        theta, primal, _ = self._point()
        return ROUNDING * abs(primal) if np.array_equal(theta, self._center) else 0.0

    @property
    def possible(self) -> float:
        """An upper bound of the decrease of the objective from the center.

        Evaluates the risk at the center if the solver was not there.
        """
        if self._center_risk is None:
            self._center_passes += 1
            self._center_risk = float(self.problem(self._center)[0])
        return self.problem.objective(self._center, self._center_risk, self.C) - self.bound

    @property
    def target(self) -> float:
        """The gap to stop at: a share of the objective, and of its possible decrease from the center.

        With small features or C the objective is nearly constant, and the center itself would meet the first alone.
        """
        share = min(abs(self.primal), max(self.possible, 0.0))
        # If the possible decrease is a rounding error, one step from the center is enough.
        smallest = min(ROUNDING, self.solver.tol) * abs(self.primal) if self._n_offered > 1 else 0.0
        return max(self.solver.tol * share, smallest)

    @property
    def _close(self) -> bool:
        gap = self.primal - self.bound
        # At the center a gap of 0 may be a rounding error, unless the risk is 0.
        if self._n_offered == 1 and self.primal > 0 and np.array_equal(self.theta, self._center):
            return False
        # The target may need an evaluation at the center, so it comes second.
        return gap <= self.solver.tol * abs(self.primal) and gap <= self.target

    def note(self, bound: float, passes: float, *, settled: bool = False, stalled: bool = False) -> bool:
        """Record an iteration that ended at the points offered, and return whether to stop.

        Args:
            bound: Lower bound of the objective, if the problem is convex and exact.
            passes: Evaluations of the whole risk so far.
            settled: Whether the solver cannot improve any further.
            stalled: Whether rounding errors allow no further step, which proves nothing.
        """
        # A bound is above the objective only by a rounding error.
        self.bound = min(max(self.bound, bound), self.primal)
        close, certifiable = self._close, self.problem.certifiable
        dual = self.bound if certifiable else -np.inf
        step = Step(self.primal, dual, self.seconds, passes + self._center_passes, self.C)
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
    """Solve for several C, from the smallest up, each given the previous solution; results in the order given.

    The time limit holds for all of them together. After Ctrl-C the larger C get the last parameters: their optimum is
    not below that of a smaller C, so its lower bound is valid for them.
    """
    requested = [check_C(C) for C in Cs]
    began = time.perf_counter()
    solutions: dict[float, Solution] = {}
    before: Solution | None = None
    for C in sorted(set(requested)):
        if before is not None and before.reason == "interrupted":
            before = _carried(before, C)
        else:
            seconds_left = max(solver.time_limit - (time.perf_counter() - began), 1e-9)
            try:
                before = solve(replace(solver, time_limit=seconds_left), C, before)
            except KeyboardInterrupt:
                if before is None:
                    raise
                before = _carried(before, C)
        solutions[C] = before
    return [solutions[C] for C in requested]


def _carried(solution: Solution, C: float) -> Solution:
    """Return the solution for a smaller C as the interrupted one for this C."""
    primal = solution.primal + (C - solution.C) * solution.risk
    last = replace(solution.trace[-1], primal=primal)
    return replace(solution, C=C, primal=primal, reason="interrupted", trace=(last,))


def evaluate(
    risk: Callable[[FloatArray], tuple[float | FloatArray, FloatArray]], theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the parts of the risk and their gradients, one row each; raise an error if they overflow."""
    return checked_parts(*risk(theta), theta)


def checked_parts(value: float | FloatArray, gradient: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and gradients of the risk at θ, one row each; raise an error if they overflow."""
    values, gradients = np.atleast_1d(np.asarray(value, dtype=np.float64)), np.atleast_2d(gradient)
    if not max(np.abs(values).max(initial=0.0), np.abs(gradients).max(initial=0.0)) <= _LARGEST:
        raise NumericalError(
            f"the risk is {values.sum()} at a point of norm {np.linalg.norm(theta):g}; rescale the features, or grades"
        )
    return values, gradients


def merge_parts(values: FloatArray, gradients: FloatArray, max_parts: int = PARTS) -> tuple[FloatArray, FloatArray]:
    """Sum neighboring parts of the risk so that there are at most ``max_parts``, if there are many parameters.

    >>> values, gradients = merge_parts(np.array([1.0, 2.0, 3.0]), np.ones((3, 1000)), 2)
    >>> values.tolist(), gradients[:, 0].tolist()
    ([1.0, 5.0], [1.0, 2.0])
    """
    if len(values) <= max_parts or gradients.shape[1] <= FEW_PARAMETERS:
        return values, gradients
    starts = np.arange(max_parts) * len(values) // max_parts
    return np.add.reduceat(values, starts), summed(gradients, starts)


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
