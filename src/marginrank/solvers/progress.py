"""What all solvers share: limits, the best point so far, the trace, and a quiet end on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np

from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.typing import FloatArray

#: Called after every iteration with what it reached and the best θ so far; True stops the solver.
Callback: TypeAlias = Callable[[Step, FloatArray], bool | None]


@dataclass(frozen=True)
class Limits:
    """When a solver stops.

    Args:
        tol: Gap between objective and lower bound at which the optimum counts as found, as a share of the objective.
        max_iter: Most iterations.
        time_limit: Most seconds; an iteration that has begun is finished.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
    """

    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float = np.inf
    callback: Callback | None = None

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise ValueError(f"tol is {self.tol}; give a number from 0 on")
        if not self.max_iter >= 1:
            raise ValueError(f"max_iter is {self.max_iter}; at least one iteration is needed")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit is {self.time_limit}; give seconds above 0")


SomeLimits = TypeVar("SomeLimits", bound=Limits)


class Progress:
    """The best point so far and the way there.

    >>> progress = Progress(Limits(tol=0.1), C=1.0)
    >>> progress.record(np.array([2.0]), primal=5.0, risk=3.0, dual=1.0, passes=1)
    False
    >>> progress.record(np.array([1.0]), primal=2.5, risk=2.0, dual=2.4, passes=2)
    True
    >>> progress.solution()
    Solution(C=1, objective=2.5, gap=0.1, 2 iterations, converged)
    """

    def __init__(self, limits: Limits, C: float) -> None:
        if not (C > 0 and np.isfinite(C)):
            raise ValueError(f"C is {C}; it must be a number above 0")
        self.limits = limits
        self.C = float(C)
        self.trace: list[Step] = []
        self.reason: Reason = "interrupted"
        self.dual = -np.inf
        self._best: tuple[FloatArray, float, float] | None = None
        self._began = time.perf_counter()

    @property
    def theta(self) -> FloatArray:
        """The best point so far."""
        return self._point()[0]

    @property
    def primal(self) -> float:
        """The objective there."""
        return self._point()[1]

    def _point(self) -> tuple[FloatArray, float, float]:
        if self._best is None:
            raise RuntimeError("no point has been recorded")
        return self._best

    def offer(self, theta: FloatArray, primal: float, risk: float) -> bool:
        """Keep a point if it is the best so far, and say whether it is."""
        if self._best is not None and not primal < self._best[1]:
            return False
        self._best = theta, primal, risk
        return True

    def record(self, theta: FloatArray, primal: float, risk: float, dual: float, passes: float) -> bool:
        """Note an iteration, and say whether to stop."""
        self.offer(theta, primal, risk)
        return self.note(dual, passes)

    def note(self, dual: float, passes: float, *, converged: bool = False) -> bool:
        """Note an iteration that ended at the points offered, and say whether to stop."""
        self.dual = max(self.dual, dual)
        step = Step(self.primal, self.dual, time.perf_counter() - self._began, passes)
        self.trace.append(step)
        stopped = self.limits.callback is not None and self.limits.callback(step, self.theta)
        if converged or step.gap <= self.limits.tol * abs(step.primal):
            self.reason = "converged"
        elif stopped:
            self.reason = "callback"
        elif len(self.trace) >= self.limits.max_iter:
            self.reason = "max_iter"
        elif step.seconds > self.limits.time_limit:
            self.reason = "time_limit"
        else:
            return False
        return True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """End quietly on Ctrl-C once there is a point to give back."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.trace:
                raise

    def solution(self) -> Solution:
        """The best point, with its certificate and the trace."""
        theta, primal, risk = self._point()
        return Solution(theta, self.C, primal, self.dual, risk, self.reason, tuple(self.trace))


def along(
    limits: SomeLimits, Cs: Iterable[float], solve: Callable[[SomeLimits, float, Solution | None], Solution]
) -> list[Solution]:
    """Solve for several C, from the smallest up, each given the solution before; solutions come in the order given.

    The time limit holds for all of them together. After Ctrl-C the larger C get the parameters reached until then:
    their optimum is not below that of a smaller C, so the lower bound holds for them too.
    """
    wanted = [float(C) for C in Cs]
    began = time.perf_counter()
    found: dict[float, Solution] = {}
    before: Solution | None = None
    for C in sorted(set(wanted)):
        if before is not None and before.reason == "interrupted":
            primal = before.primal + (C - before.C) * before.risk
            here = replace(before.trace[-1], primal=primal)
            before = replace(before, C=C, primal=primal, trace=(here,))
        else:
            left = max(limits.time_limit - (time.perf_counter() - began), 1e-9)
            before = solve(replace(limits, time_limit=left), C, before)
        found[C] = before
    return [found[C] for C in wanted]


def evaluate(
    risk: Callable[[FloatArray], tuple[float | FloatArray, FloatArray]], theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ask for the parts of the risk and their slopes, one row each; refuse what is not finite."""
    value, slope = risk(theta)
    values, slopes = np.atleast_1d(np.asarray(value, dtype=np.float64)), np.atleast_2d(slope)
    if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
        raise FloatingPointError(
            f"the risk is {values.sum()} at a point of norm {np.linalg.norm(theta):g}; rescale the features"
        )
    return values, slopes
