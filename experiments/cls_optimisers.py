"""Three optimisers of the same objective, timed: Chapelle, Le and Smola (2007), §3 and §5.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.base import Experiment, Size, Task
from experiments.cls import FOLDERS, NAMES, PAPER, ndcg_loss, scaled_fold
from experiments.cls_optimisers_report import GAPS, OWN, report
from experiments.timing import TimedRisk
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.risk import RankingRisk
from marginrank.scorers.linear import LinearScorer
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.frank_wolfe import FrankWolfe
from marginrank.solvers.n_slack import NSlack
from marginrank.solvers.newton import Newton
from marginrank.solvers.solution import Solution, Step
from marginrank.solvers.subgradient import Subgradient

LOSSES: Final[Mapping[str, Loss]] = {
    OWN: ndcg_loss(),
    "NDCG@10, φpo": StructuredLoss("ndcg@10", "po"),
    "NDCG, φpo": StructuredLoss("ndcg", "po"),
    "squared pairs": PairwiseHinge(power=2),
}
#: Losses by set. On OHSUMED the cut NDCG is least at 0 with φpo too, and the one without a cut is not.
PROBLEMS: Final = {
    "ohsumed2": (OWN, "NDCG, φpo", "squared pairs"),
    "mq2008": (OWN, "NDCG@10, φpo", "squared pairs"),
}
SOLVERS: Final[Mapping[str, Callable[..., Any]]] = {
    "n-slack": NSlack,
    "subgradient": Subgradient,
    "conjugate subgradient": partial(Subgradient, conjugate=True),
    "bundle": Bundle,
    "frank-wolfe": FrankWolfe,
    "newton": Newton,
}
CS: Final = (1.0, 100.0)
#: Seconds after which a solver is stopped, and below which it is run again.
LIMIT: Final = 10.0
QUICK: Final = 2.0


class Run(NamedTuple):
    """What a solver found, and the share of its time that was spent in the risk."""

    solution: Solution
    share: float


def _solve(risk: TimedRisk, solver: str, C: float, limit: float) -> Run:
    """Minimise from 0; only the bundle takes the risk in parts."""
    asked, risk.seconds = risk.parts if solver == "bundle" else risk, 0.0
    solution: Solution = SOLVERS[solver](tol=min(GAPS), max_iter=100000, time_limit=limit).minimize(
        asked, risk.n_parameters, C
    )
    return Run(solution, risk.seconds / max(solution.trace[-1].seconds, 1e-9))


def first_within(trace: tuple[Step, ...], gap: float) -> Step | None:
    """Give the first step whose gap is at most a share of the objective.

    >>> steps = (Step(4.0, 2.0, 0.1, 1.0), Step(3.0, 2.97, 0.2, 2.0))
    >>> first_within(steps, 0.1).passes, first_within(steps, 0.001)
    (2.0, None)
    """
    return next((step for step in trace if step.gap <= gap * abs(step.primal)), None)


def landmarks(trace: tuple[Step, ...]) -> list[list[float]]:
    """Give seconds and gap, as a share of the objective, each time the gap has fallen by a fifth.

    >>> landmarks((Step(2.0, 1.0, 0.1, 1), Step(2.0, 1.1, 0.2, 2), Step(2.0, 1.5, 0.3, 3)))
    [[0.1, 0.5], [0.3, 0.25]]
    """
    found: list[list[float]] = []
    for step in trace:
        gap = step.gap / max(abs(step.primal), 1e-300)
        if np.isfinite(gap) and (not found or gap <= 0.8 * found[-1][1]):
            found.append([round(step.seconds, 5), float(f"{gap:.4g}")])
    return found


def _timing(
    data: Path, *, name: str, loss: str, solver: str, C: float, most: int | None, limit: float, runs: int
) -> dict[str, Any]:
    """Seconds and passes of a solver until its certificate is good enough, the median of a few runs."""
    train = scaled_fold(data, name, 1, most).train
    with threadpool_limits(1, "blas"):
        risk = TimedRisk(RankingRisk(LinearScorer(train), LOSSES[loss], n_jobs=1))
        at_zero, _ = risk(np.zeros(risk.n_parameters))
        _solve(risk, solver, C, 1e-3)  # so that nothing is compiled while time is taken
        found = [_solve(risk, solver, C, limit)]
        if found[0].solution.trace[-1].seconds < QUICK:
            found += [_solve(risk, solver, C, limit) for _ in range(runs - 1)]
    last = found[-1].solution
    reached = {f"{gap:g}": [first_within(one.solution.trace, gap) for one in found] for gap in GAPS}
    return {
        "objective": round(last.primal / (C * at_zero), 6),
        "lower bound": round(last.dual / (C * at_zero), 6),
        "seconds": {gap: _median(steps, "seconds") for gap, steps in reached.items()},
        "passes": {gap: _median(steps, "passes") for gap, steps in reached.items()},
        "share in the risk": round(median(one.share for one in found), 4),
        "landmarks": landmarks(last.trace),
    }


def _median(steps: Sequence[Step | None], key: Literal["seconds", "passes"]) -> float | None:
    """Give the median of what the steps took, or None where a run did not get there."""
    known = [float(getattr(step, key)) for step in steps if step is not None]
    return round(median(known), 5) if len(known) == len(steps) else None


def _plan(size: Size) -> list[Task]:
    most, Cs, limit, runs = (None, CS, LIMIT, 3) if size == "full" else (6, CS[:1], 0.01, 1)
    shared = {"most": most, "limit": limit, "runs": runs}
    return [
        Task(
            f"{name}/{loss}/C = {C:g}/{solver}",
            _timing,
            {"name": name, "loss": loss, "solver": solver, "C": C, **shared},
            alone=True,
        )
        for name in NAMES
        for loss in PROBLEMS[name]
        for C in Cs
        for solver in SOLVERS
        if solver != "newton" or LOSSES[loss].smooth
    ]


EXPERIMENT: Final = Experiment(
    "cls-optimisers",
    "Cutting planes, subgradients and bundles, timed",
    f"{PAPER}, §3 and §5.1",
    "The three optimisers of §3 (cutting planes with a slack for each query, steepest subgradient, bundle) minimise "
    "the same objective on the training queries of fold 1, until the gap between objective and lower bound is 1 % and "
    "0.1 % of the objective. Beside them the conjugate subgradient of §3.3.1, block Frank–Wolfe, and for a smooth "
    "loss Newton.",
    FOLDERS,
    _plan,
    report,
)
