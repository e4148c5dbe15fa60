"""Risks and solvers that measure where the time of training goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.solvers.bundle import Bundle
from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.n_slack import NSlack
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress
from marginrank.solvers.working_sets import WorkingSets
from marginrank.training.risk import RankingRisk
from marginrank.typing import FloatArray

#: Smallest multiplier that counts, as a share of C.
_ACTIVE: Final = 1e-6


class TimedRisk(Problem):
    """A risk that adds up the seconds spent in it, and counts how often it was evaluated.

    Args:
        risk: The risk.
        clock: The clock: wall time, or the time of the processor.
    """

    def __init__(self, risk: RankingRisk, clock: Callable[[], float] = time.perf_counter) -> None:
        self.n_blocks, self.n_parameters, self.capabilities = risk.n_blocks, risk.n_parameters, risk.capabilities
        self.convex, self.exact = risk.convex, risk.exact
        self.seconds, self.calls = 0.0, 0
        self._risk, self._clock = risk, clock

    def _timed(self, call: Callable[..., Any], *arguments: Any) -> Any:
        began = self._clock()
        result = call(*arguments)
        self.seconds += self._clock() - began
        self.calls += 1
        return result

    def __call__(self, theta: FloatArray) -> Any:
        """Return risk and gradient."""
        return self._timed(self._risk, theta)

    def parts(self, theta: FloatArray) -> Any:
        """Return the same in parts."""
        return self._timed(self._risk.parts, theta)

    def block(self, number: int, theta: FloatArray) -> Any:
        """Return the share of one query."""
        return self._timed(self._risk.block, number, theta)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> Any:
        """Return the Hessian times a direction."""
        return self._timed(self._risk.hessian_product, theta, direction)


class TimedSolution(NamedTuple):
    """A solution, and what it cost.

    Args:
        solution: What the solver returned.
        programs: Seconds spent on quadratic programs.
        planes: Number of planes with a positive multiplier.
        queries: Number of queries with such a plane, for a solver whose planes belong to queries.
    """

    solution: Solution
    programs: float
    planes: int
    queries: int | None


@dataclass(frozen=True)
class _TimedNSlack(NSlack):
    programs: list[float] = field(default_factory=list)
    last: list[WorkingSets] = field(default_factory=list)

    def _solve(self, sets: WorkingSets, target: float, progress: SolverProgress, *, partly: bool | int) -> None:
        began = time.perf_counter()
        super()._solve(sets, target, progress, partly=partly)
        self.programs.append(time.perf_counter() - began)
        self.last[:] = [sets]


class _TimedPlanes(PlaneModel):
    def __init__(self, n_parameters: int) -> None:
        super().__init__(n_parameters)
        self.programs: list[float] = []

    def minimize(self, *args: Any, **options: Any) -> tuple[FloatArray, float]:
        began = time.perf_counter()
        minimum = super().minimize(*args, **options)
        self.programs.append(time.perf_counter() - began)
        return minimum

    @property
    def n_active(self) -> int:
        return int((self._idle == 0).sum())


def n_slack(risk: RankingRisk, C: float, tol: float) -> TimedSolution:
    """Minimize by cutting planes with a slack for every query."""
    solver = _TimedNSlack(tol=tol)
    solution = solver.minimize(risk, C)
    (sets,) = solver.last
    active = np.where(sets._known, sets._alpha[sets._places], 0.0) > _ACTIVE * C
    return TimedSolution(solution, sum(solver.programs), int(active.sum()), int(active.any(axis=1).sum()))


def bundle(risk: RankingRisk, C: float, tol: float) -> TimedSolution:
    """Minimize by the bundle method, whose planes are of parts of the risk."""
    model = _TimedPlanes(risk.n_parameters)
    solution = Bundle(tol=tol).refine(risk, C, model)
    return TimedSolution(solution, sum(model.programs), model.n_active, None)


SOLVERS: Final[Mapping[str, Callable[[RankingRisk, float, float], TimedSolution]]] = {
    "n-slack": n_slack,
    "bundle": bundle,
}
