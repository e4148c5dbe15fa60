"""The concave-convex procedure for risks that are differences of convex functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution, Step
from marginrank.solvers.stopping import SolverProgress, evaluate, solve_path
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True)
class ConcaveConvex(Solver):
    """The concave-convex procedure (Yuille and Rangarajan 2003) for a risk with a convex majorant.

    With R the majorant and T the risk, K = R − T is convex. At θ_t it is replaced by its tangent:

        θ_{t+1} = argmin ½‖θ − center‖² + C·[R(θ) − K(θ_t) − ∇K(θ_t)·(θ − θ_t)]

    which never increases ½‖θ − center‖² + C·T(θ). The linear term only moves the center, to center + C·∇K(θ_t), so all
    these problems share the planes of R. Chapelle, Le and Smola (2007) §4 minimize the same objective, with the tight
    bound as T, by gradient descent from a center w0.

    The objective is not convex: there is no lower bound, ``dual`` is −inf, and the result is stationary: an iteration
    gained less than ``tol`` times the objective.

    Args:
        tol: Gain of an iteration at which the solver stops, relative to the objective.
        max_iter: Maximum number of iterations; each is a convex problem.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        anneal: Iterations over which the weight of K grows from 0 to 1; 0 starts with all of it.

    >>> from marginrank.solvers.problem import FunctionProblem
    >>> hinge = FunctionProblem(lambda w: (max(0.0, 1 - w[0]), np.where(w < 1, -1.0, 0.0)), 1)
    >>> ramp = lambda w: (float(np.clip(1 - w[0], 0, 2)), np.where(abs(w) < 1, -1.0, 0.0))
    >>> problem = FunctionProblem(ramp, 1, convex=False, majorant=hinge)
    >>> ConcaveConvex().minimize(problem, C=3.0, start=np.array([0.5])).theta.round(6).tolist()
    [1.0]
    """

    name = "cccp"
    needs = ("majorant",)
    supports = ("signs", "center", "nonconvex")
    tol: float = 1e-4
    max_iter: int = 50
    anneal: int = 0

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ − center‖² + C·risk(θ) from ``start`` down to a stationary point."""
        return self._descend(problem, C, PlaneModel(problem.n_parameters), start)

    def path(self, problem: Problem, Cs: Iterable[float], start: FloatArray | None = None) -> list[Solution]:
        """Minimize for several C, from the smallest up, each from the previous solution; results in the order given."""
        planes = PlaneModel(problem.n_parameters)

        def solve(solver: ConcaveConvex, C: float, before: Solution | None) -> Solution:
            if before is None:
                return solver._descend(problem, C, planes, start)
            return replace(solver, anneal=0)._descend(problem, C, planes, before.theta)

        return solve_path(self, Cs, solve)

    def _descend(self, problem: Problem, C: float, planes: PlaneModel, start: FloatArray | None) -> Solution:
        progress = SolverProgress(self, problem, C)
        theta = problem.inside(problem.origin if start is None else start)
        passes = 0.0
        with progress.interruptible():
            before, gain, precision, round_number = np.inf, 1e-2, np.inf, 0
            while True:
                values, gradients = evaluate(problem, theta)
                risk = float(values.sum())
                objective = problem.objective(theta, risk, C)
                progress.offer(theta, risk)
                # No gain proves nothing if the convex problem was solved roughly.
                settled = round_number > self.anneal and precision <= self.tol
                settled = settled and before - objective <= self.tol * abs(objective)
                if progress.note(-np.inf, passes + 1, settled=settled):
                    break
                majorant = _majorant(problem)
                convex_values, convex_gradients = evaluate(majorant.parts, theta)
                planes.add(theta, convex_values, convex_gradients)
                passes += 2
                if np.isfinite(before):
                    gain = max(before - objective, 0.0) / max(abs(objective), 1e-300)
                tangent = convex_gradients.sum(axis=0) - gradients.sum(axis=0)
                weight = 1.0 if self.anneal == 0 else min(1.0, round_number / self.anneal)
                precision = max(self.tol, min(0.1 * gain, 1e-2))
                moved = _Moved(majorant, problem.origin + C * weight * tangent, problem.signs)
                step = _until(precision * abs(objective), progress.seconds_left).refine(moved, C, planes, theta)
                passes += step.passes
                if step.reason == "interrupted":
                    raise KeyboardInterrupt
                theta, before, round_number = step.theta, objective, round_number + 1
        return progress.solution()


def _majorant(problem: Problem) -> Problem:
    if problem.majorant is None:
        raise ValueError("the problem has no convex majorant")
    return problem.majorant


class _Moved(Problem):
    """The same risk with another center and signs."""

    def __init__(self, problem: Problem, center: FloatArray, signs: IntArray | None) -> None:
        self.n_parameters, self.center, self.signs = problem.n_parameters, center, signs
        self.parts = problem.parts  # type: ignore[method-assign]
        self._problem = problem

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        return self._problem(theta)


def _until(gap: float, seconds: float) -> Bundle:
    """Return a bundle solver that stops at an absolute gap: a moved center shifts the objective by a constant."""

    def near(step: Step, theta: FloatArray) -> bool:  # noqa: ARG001
        return step.gap <= gap

    return Bundle(tol=1e-10, max_iter=200, time_limit=seconds, callback=near)
