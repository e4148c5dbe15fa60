"""Solvers that note what they spend on quadratic programs, and how many planes hold their solution up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.risk import RankingRisk
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.n_slack import NSlack, WorkingSets
from marginrank.solvers.planes import PlaneModel
from marginrank.solvers.solution import Solution
from marginrank.typing import FloatArray

#: A multiplier counts from this share of C on.
_HELD: Final = 1e-6


class Watched(NamedTuple):
    """A solution, seconds of the quadratic programs, planes with a multiplier, and queries that have such a plane."""

    solution: Solution
    programs: float
    planes: int
    holders: int | None


@dataclass(frozen=True)
class _WatchedNSlack(NSlack):
    programs: list[float] = field(default_factory=list)
    last: list[WorkingSets] = field(default_factory=list)

    def _solve(self, sets: WorkingSets, scale: float, *, partly: bool) -> None:
        began = time.perf_counter()
        super()._solve(sets, scale, partly=partly)
        self.programs.append(time.perf_counter() - began)
        self.last[:] = [sets]


class _WatchedPlanes(PlaneModel):
    def __init__(self, n_parameters: int) -> None:
        super().__init__(n_parameters)
        self.programs: list[float] = []

    def minimize(self, *args: Any, **options: Any) -> tuple[FloatArray, float]:
        began = time.perf_counter()
        found = super().minimize(*args, **options)
        self.programs.append(time.perf_counter() - began)
        return found

    @property
    def holding(self) -> int:
        return int((self._idle == 0).sum())


def n_slack(risk: RankingRisk, C: float, tol: float) -> Watched:
    """Minimise by cutting planes with a slack for every query."""
    solver = _WatchedNSlack(tol=tol)
    solution = solver.minimize(risk, risk.n_parameters, C)
    (sets,) = solver.last
    held = np.where(sets._known, sets._alpha[sets._places], 0.0) > _HELD * C
    return Watched(solution, sum(solver.programs), int(held.sum()), int(held.any(axis=1).sum()))


def bundle(risk: RankingRisk, C: float, tol: float) -> Watched:
    """Minimise by the bundle method, whose planes are of parts of the risk."""
    model = _WatchedPlanes(risk.n_parameters)
    solution = Bundle(tol=tol).minimize(risk.parts, risk.n_parameters, C, model=model)
    return Watched(solution, sum(model.programs), model.holding, None)


SOLVERS: Final[Mapping[str, Callable[[RankingRisk, float, float], Watched]]] = {"n-slack": n_slack, "bundle": bundle}
