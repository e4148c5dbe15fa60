"""The truncated Newton method for smooth risks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, evaluate
from marginrank.typing import FloatArray

#: Share of the decrease predicted by the gradient that a step must bring (Armijo).
DECREASE: Final = 1e-4
#: Products with the Hessian in one step from which a preconditioner pays, and from which one of an earlier point is
#: replaced.
_MANY: Final = 6
_MANY_MORE: Final = 10
#: Halvings after which a step is a rounding error.
_MOST_HALVINGS: Final = 60


@dataclass(frozen=True)
class Newton(Solver):
    """Truncated Newton method for convex risks with a gradient and a generalized Hessian.

    Steps are computed by conjugate gradients, as Lin, Weng and Keerthi (2008) do for linear classifiers and Lee and Lin
    (2014) for RankSVM with squared hinges; they use a trust region, here a step is halved until the objective
    decreases. The problem may have a preconditioner. One that takes passes over the data is made after a step that took
    more than a few products, and made again when it no longer saves any.

    F is ½‖θ‖² plus a convex function, so F(θ) − ½‖∇F(θ)‖² is a lower bound: the minimum of the regularizer plus the
    plane that touches the risk at θ. The gap is a certificate.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of Newton steps.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        residual: Share of the gradient at which conjugate gradients stop.

    >>> class Parabola(Problem):
    ...     n_parameters, capabilities = 1, frozenset({"hessian"})
    ...     def __call__(self, theta):
    ...         return 0.5 * float((theta - 3.0) @ (theta - 3.0)), theta - 3.0
    ...     def hessian_product(self, theta, direction):
    ...         return direction
    >>> solution = Newton().minimize(Parabola(), C=2.0)      # ½·2² + 2·½·1²
    >>> solution.theta.tolist(), solution.primal, solution.converged
    ([2.0], 3.0, True)
    """

    name = "newton"
    needs = ("hessian",)
    residual: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.residual < 1:
            raise ValueError(f"residual is {self.residual}; give a number between 0 and 1")

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        progress = SolverProgress(self, problem, C)
        objective = _Objective(problem, progress.C)
        with progress.interruptible():
            point = objective.at(np.zeros(problem.n_parameters) if start is None else np.array(start, dtype=np.float64))
            stalled = False
            while True:
                progress.offer(point.theta, point.risk)
                settled = not point.gradient.any()
                if progress.note(point.dual, objective.passes, settled=settled, stalled=stalled):
                    break
                # On a quadratic the next gradient is the residual, which need not be smaller than the gap asks for.
                last = 0.5 * np.sqrt(2.0 * progress.target)
                tolerance = max(self.residual * float(np.linalg.norm(point.gradient)), float(last))
                step = _newton_step(objective, point, tolerance, progress)
                reached = _descend(objective, point, step, progress)
                point, stalled = reached, reached is point and not progress.late
        return progress.solution()


@dataclass(frozen=True, eq=False)
class _NewtonPoint:
    theta: FloatArray
    risk: float
    primal: float
    gradient: FloatArray

    @property
    def dual(self) -> float:
        return self.primal - 0.5 * float(self.gradient @ self.gradient)


class _Objective:
    """F(θ) = ½‖θ‖² + C·risk(θ), with a count of passes."""

    def __init__(self, risk: Problem, C: float) -> None:
        self._risk, self._C = risk, C
        self.passes = 0.0
        self._solve: Callable[[FloatArray], FloatArray] | None = None
        self._made_for: _NewtonPoint | None = None
        self._cost = risk.preconditioner_passes(C)
        self._slow = self._cost == 0.0

    def at(self, theta: FloatArray) -> _NewtonPoint:
        """Evaluate F and its gradient θ + C·∇risk(θ)."""
        self.passes += 1
        (value,), (gradient,) = evaluate(self._risk, theta)
        primal = 0.5 * float(theta @ theta) + self._C * float(value)
        return _NewtonPoint(theta, float(value), primal, theta + self._C * gradient)

    def curve(self, point: _NewtonPoint, direction: FloatArray) -> FloatArray:
        """Return the Hessian I + C·H of F at a point, times a direction."""
        self.passes += 1
        return direction + self._C * self._risk.hessian_product(point.theta, direction)

    def preconditioner(self, point: _NewtonPoint) -> Callable[[FloatArray], FloatArray]:
        """Return a function that multiplies with about the inverse Hessian of F at this or an earlier point."""
        if self._slow:
            self._solve, self._made_for = self._risk.preconditioner(point.theta, self._C), point
            self.passes += self._cost
            self._slow = self._cost == 0.0
        return self._solve or (lambda vector: vector)

    def better_stop(self, point: _NewtonPoint, n_products: int) -> bool:
        """Return whether to end a step after ``n_products``, since a new preconditioner makes the next one cheaper."""
        many = _MANY if self._solve is None else _MANY_MORE
        self._slow = self._slow or (many <= n_products and self._cost < np.inf)
        return self._slow and self._made_for is not point


def _newton_step(objective: _Objective, point: _NewtonPoint, tolerance: float, progress: SolverProgress) -> FloatArray:
    """Solve (I + C·H)·step = −∇F by conjugate gradients, until the norm of the residual is at most ``tolerance``.

    The step ends early if a new preconditioner is due.
    """
    step, residual = np.zeros_like(point.gradient), -point.gradient
    solve = objective.preconditioner(point)
    direction = solve(residual)
    square = float(residual @ direction)
    # In exact arithmetic one product for each parameter is the most; rounding takes a few times as many.
    for n_products in range(10 * len(step)):
        if float(residual @ residual) <= tolerance**2 or progress.late or objective.better_stop(point, n_products):
            break
        image = objective.curve(point, direction)
        length = square / max(float(direction @ image), 1e-300)
        farther = step + length * direction
        if not np.isfinite(farther).all():
            break
        step = farther
        residual = residual - length * image
        scaled = solve(residual)
        before, square = square, float(residual @ scaled)
        direction = scaled + square / before * direction
    return step


def _descend(objective: _Objective, point: _NewtonPoint, step: FloatArray, progress: SolverProgress) -> _NewtonPoint:
    """Halve the step until the objective decreases; return the same point if it does not, or time is up."""
    derivative, length = float(point.gradient @ step), 1.0
    for _ in range(_MOST_HALVINGS):
        reached = objective.at(point.theta + length * step)
        # A convex function that still falls has not increased, even if its values differ by rounding errors only.
        if reached.primal <= point.primal + DECREASE * length * derivative or float(reached.gradient @ step) <= 0.0:
            return reached
        if progress.late:
            break
        length *= 0.5
    return point
