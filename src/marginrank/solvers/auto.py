"""The choice of a solver for a problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from marginrank.solvers.base import Solver
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.descent import Descent
from marginrank.solvers.newton import Newton
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Auto(Solver):
    """Choose a solver: Newton for smooth risks, descent for nonconvex ones, otherwise the bundle.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of iterations.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
    """

    name = "auto"
    supports = ("signs", "center", "nonconvex")
    tol: float = 1e-4

    def choose(self, problem: Problem) -> Solver:
        """Return the solver for a problem, with the limits of this one."""
        limits = {"tol": self.tol, "time_limit": self.time_limit, "callback": self.callback}
        free = problem.signs is None and problem.center is None
        smooth = "hessian" in problem.capabilities and free
        kind = Descent if not problem.convex else Newton if smooth else Bundle
        return kind(**limits, max_iter=self.max_iter)  # type: ignore[arg-type]

    def check(self, problem: Problem) -> None:
        """Raise an error for a problem that no solver can handle."""
        self.choose(problem).check(problem)

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize with the chosen solver."""
        return self.choose(problem).minimize(problem, C, start)

    def path(self, problem: Problem, Cs: Iterable[float], start: FloatArray | None = None) -> list[Solution]:
        """Minimize for several C with the chosen solver."""
        return self.choose(problem).path(problem, Cs, start)
