"""The base class of solvers: options, limits and the interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, cast

import numpy as np

from marginrank.errors import Parameter, ParameterError
from marginrank.runtime.option_objects import OptionObject, parse_spelling
from marginrank.solvers.problem import Capability, Problem
from marginrank.solvers.solution import Solution, Step
from marginrank.solvers.stopping import solve_path
from marginrank.typing import FloatArray

#: Called after every iteration with the `Step` and the best θ so far; True stops the solver.
Callback: TypeAlias = Callable[[Step, FloatArray], bool | None]
_NEEDS: dict[Capability, str] = {
    "blocks": "a risk that is a sum over blocks",
    "hessian": "a smooth risk",
    "majorant": "a risk with a convex majorant",
}


@dataclass(frozen=True)
class Solver(OptionObject, ABC):
    """Minimize ½‖θ − center‖² + C·risk(θ).

    A subclass is a frozen dataclass of its options, in a module of this folder; its ``name`` is its spelling.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of iterations.
        time_limit: Maximum number of seconds; the iteration ends within a few evaluations of the risk.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
    """

    family = "solver"
    example = "auto or bundle(tol=1e-8)"
    #: Capabilities that a problem must have.
    needs: ClassVar[tuple[Capability, ...]] = ()
    #: Properties of problems that the solver can handle.
    supports: ClassVar[tuple[Literal["signs", "center", "nonconvex"], ...]] = ()

    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float = np.inf
    callback: Callback | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tol >= 0:
            raise ParameterError(Parameter("tol"), f" is {self.tol}; it must not be negative")
        if not self.max_iter >= 1:
            raise ParameterError(Parameter("max_iter"), f" is {self.max_iter}; at least one iteration is needed")
        if not self.time_limit > 0:
            raise ParameterError(Parameter("time_limit"), f" is {self.time_limit}; it must be positive")

    def choose(self, problem: Problem) -> Solver:  # noqa: ARG002
        """Return the solver that solves a problem: this one, unless it chooses among others."""
        return self

    @abstractmethod
    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize the objective for one C.

        Args:
            problem: The risk, and constraints on θ.
            C: Weight of the risk.
            start: Initial θ; the center by default.
        """

    def path(self, problem: Problem, Cs: Iterable[float], start: FloatArray | None = None) -> list[Solution]:
        """Minimize for several C, from the smallest up, each from the previous solution; results in the order given."""

        def solve(solver: Solver, C: float, before: Solution | None) -> Solution:
            return solver.minimize(problem, C, start if before is None else before.theta)

        return solve_path(self, Cs, solve)

    def check(self, problem: Problem) -> None:
        """Raise an error for a problem that the solver cannot handle."""
        if not problem.convex and "majorant" not in problem.capabilities:
            raise ValueError(
                "the risk is not convex and has no convex majorant, so no solver can minimize it; use a convex loss"
            )
        for need in self.needs:
            if need not in problem.capabilities:
                raise ValueError(
                    f"solver {self.name!r} needs {_NEEDS[need]}, which this loss does not give; use 'auto'"
                )
        if not problem.convex and "nonconvex" not in self.supports:
            raise ValueError(f"solver {self.name!r} needs a convex risk; use 'cccp', 'descent' or 'auto'")
        if problem.signs is not None and "signs" not in self.supports:
            raise ValueError(f"solver {self.name!r} does not support signs of weights; use 'bundle' or 'auto'")
        if problem.center is not None and "center" not in self.supports:
            raise ValueError(f"solver {self.name!r} does not support a center; use 'bundle' or 'auto'")


def parse_solver(spec: str | Solver) -> Solver:
    """Read the spelling of a solver, such as ``bundle`` or ``newton(tol=1e-8)``.

    >>> parse_solver("bundle(tol=1e-8)").tol
    1e-08
    """
    return cast("Solver", parse_spelling(Solver, spec))
