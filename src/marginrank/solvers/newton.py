"""Truncated Newton: quadratic models of a smooth risk, minimised by conjugate gradients."""

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

#: Share of the fall that the slope promises which a step has to bring.
DECREASE: Final = 1e-4
#: Products with the Hessian in one step from which a preconditioner is worth making, and from which one of an earlier
#: point is worth making anew.
_MANY: Final = 6
_MANY_MORE: Final = 10
#: Halvings after which a step is lost in rounding.
_MOST_HALVINGS: Final = 60


@dataclass(frozen=True)
class Newton(Solver):
    """Truncated Newton method for convex risks with a gradient and a generalised Hessian.

    Steps are computed by conjugate gradients, as Lin, Weng and Keerthi (2008) do for linear classifiers and Lee and Lin
    (2014) for RankSVM with squared hinges; they use a trust region, here a step is halved until the objective falls.
    The problem may bring a preconditioner. One that takes passes over the data is made after a step that took more than
    a few products, at the point where that led, and again where it no longer saves any.

    F is ½‖θ‖² plus a convex function, so F(θ) − ½‖∇F(θ)‖² is a lower bound: the minimum of the regulariser plus the
    plane that touches the risk at θ. The gap is a certificate.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the centre, whichever is smaller.
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
        """Minimise ½‖θ‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
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
                # On a quadratic the next gradient is what is left over here: less than the gap asks for is in vain.
                last = 0.5 * np.sqrt(2.0 * progress.target)
                enough = max(self.residual * float(np.linalg.norm(point.gradient)), float(last))
                step = _newton_step(objective, point, enough, progress)
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
    """F(θ) = ½‖θ‖² + C·risk(θ), with a count of what it cost."""

    def __init__(self, risk: Problem, C: float) -> None:
        self._risk, self._C = risk, C
        self.passes = 0.0
        self._solve: Callable[[FloatArray], FloatArray] | None = None
        self._made_for: _NewtonPoint | None = None
        self._price = risk.preconditioner_passes(C)
        self._slow = self._price == 0.0

    def at(self, theta: FloatArray) -> _NewtonPoint:
        """F and its gradient θ + C·∇risk(θ)."""
        self.passes += 1
        (value,), (slope,) = evaluate(self._risk, theta)
        primal = 0.5 * float(theta @ theta) + self._C * float(value)
        return _NewtonPoint(theta, float(value), primal, theta + self._C * slope)

    def curve(self, point: _NewtonPoint, direction: FloatArray) -> FloatArray:
        """Hessian I + C·H of F at a point, times a direction."""
        self.passes += 1
        return direction + self._C * self._risk.hessian_product(point.theta, direction)

    def preconditioner(self, point: _NewtonPoint) -> Callable[[FloatArray], FloatArray]:
        """Multiply with about the inverse of the Hessian of F at a point, or at one before."""
        if self._slow:
            self._solve, self._made_for = self._risk.preconditioner(point.theta, self._C), point
            self.passes += self._price
            self._slow = self._price == 0.0
        return self._solve or (lambda vector: vector)

    def better_stop(self, point: _NewtonPoint, n_products: int) -> bool:
        """Tell whether to end a step after so many products, for a new preconditioner to save some in the next."""
        many = _MANY if self._solve is None else _MANY_MORE
        self._slow = self._slow or (many <= n_products and self._price < np.inf)
        return self._slow and self._made_for is not point


def _newton_step(objective: _Objective, point: _NewtonPoint, enough: float, progress: SolverProgress) -> FloatArray:
    """Solve (I + C·H)·step = −∇F by conjugate gradients, until the norm of what is left is at most ``enough``.

    Where a new preconditioner is due, the step ends with what it has, for the next one to go on with it.
    """
    step, left = np.zeros_like(point.gradient), -point.gradient
    solve = objective.preconditioner(point)
    direction = solve(left)
    square = float(left @ direction)
    # In exact arithmetic one product for each parameter is the most; rounding takes a few times as many.
    for n_products in range(10 * len(step)):
        if float(left @ left) <= enough**2 or progress.late or objective.better_stop(point, n_products):
            break
        image = objective.curve(point, direction)
        length = square / max(float(direction @ image), 1e-300)
        farther = step + length * direction
        if not np.isfinite(farther).all():
            break
        step = farther
        left = left - length * image
        scaled = solve(left)
        before, square = square, float(left @ scaled)
        direction = scaled + square / before * direction
    return step


def _descend(objective: _Objective, point: _NewtonPoint, step: FloatArray, progress: SolverProgress) -> _NewtonPoint:
    """Halve the step until the objective falls; return the same point where that does not happen, or time is up."""
    slope, length = float(point.gradient @ step), 1.0
    for _ in range(_MOST_HALVINGS):
        reached = objective.at(point.theta + length * step)
        # A convex function has not risen where it still falls, which holds below the rounding of its values too.
        if reached.primal <= point.primal + DECREASE * length * slope or float(reached.gradient @ step) <= 0.0:
            return reached
        if progress.late:
            break
        length *= 0.5
    return point
