"""Risk bounds against measured gaps as training queries grow, which Riezler and De Bona (2009) §5 ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Experiment, Size, Task
from experiments.letor import parts
from experiments.rdb_report import DELTA, report
from marginrank.bounds import (
    Population,
    ap_loss,
    argmax_bound,
    binary_grades,
    corollary_1,
    corollary_2,
    corollary_3,
    largest_loss_at_zero,
    lipschitz_constants,
    mean_loss,
    norm_bound,
    pair_reach,
    stability_bound,
    theorem_4,
    zero_one_loss,
)
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PositionHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.solution import Solution
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.typing import FloatArray

#: What is trained. The position hinge has the repaired margins, so that it dominates the share of wrong pairs.
LOSSES: Final[Mapping[str, Loss]] = {
    "svmmap": StructuredLoss("ap"),
    "svmauc": StructuredLoss("auc"),
    "position-hinge": PositionHinge(m="bound", normalize="pairs"),
}
NAMES: Final = ("mq2008", "ohsumed")
#: Weights are tried at these lengths as well: they rank the same, and what dominates has to do so for all weights.
_SCALES: Final = (1.0, 10.0, 100.0)


@dataclass(frozen=True, eq=False)
class _Constants:
    """Constants of the bounds, over all queries of a set, by method."""

    population: Population
    lipschitz: Mapping[str, float]
    reach: Mapping[str, float]
    at_zero: Mapping[str, float]


@cache
def _all_queries(data: Path, name: str, most: int | None) -> Queries:
    """Queries with relevant and irrelevant documents: the others have a single grade for some method."""
    queries = Queries.concatenate(parts(data, name, most))
    return queries[LOSSES["svmmap"].prepare(queries).active]


@cache
def _constants(data: Path, name: str, most: int | None) -> _Constants:
    queries = _all_queries(data, name, most)
    return _Constants(
        Population.of(queries),
        {method: float(lipschitz_constants(loss, queries).max()) for method, loss in LOSSES.items()},
        {method: float(pair_reach(loss, queries).max()) for method, loss in LOSSES.items()},
        {method: largest_loss_at_zero(queries, loss) for method, loss in LOSSES.items()},
    )


def sizes(n_queries: int, first: int) -> list[int]:
    """Return numbers of training queries: doubled from the first on, and four fifths of all at the end.

    >>> sizes(105, 10)
    [10, 20, 40, 84]
    """
    last = n_queries * 4 // 5
    doubled = [first * 2**step for step in range(n_queries) if first * 2**step < 0.75 * last]
    return [*doubled, last]


def _split(
    data: Path, *, name: str, split: int, first: int, Cs: Sequence[float], most: int | None
) -> list[dict[str, Any]]:
    """Train on the first queries of a random order, more and more of them, and measure on all others."""
    queries, constants = _all_queries(data, name, most), _constants(data, name, most)
    order = np.random.default_rng(split).permutation(len(queries))
    rows = []
    for n in sizes(len(queries), first):
        train, test = queries[np.sort(order[:n])], queries[np.sort(order[n:])]
        for method, loss in LOSSES.items():
            zero = np.zeros(queries.n_features)
            at_zero = mean_loss(test, loss, zero) - mean_loss(train, loss, zero)
            for solution in _minimize(train, loss, Cs):
                rows.append(
                    {"method": method, "C": solution.C, "n": n, "gap at 0": at_zero}
                    | _measured(train, test, method, solution)
                    | {"bounds": _bounds(train, method, solution, constants)}
                )
    return rows


def _minimize(queries: Queries, loss: Loss, Cs: Sequence[float]) -> Sequence[Solution]:
    # The gap of the solver is part of the bounds, and a smaller one takes ten times as long.
    return Bundle(tol=1e-4).path(empirical_risk(queries, loss, n_jobs=1), Cs)


def _measured(train: Queries, test: Queries, method: str, solution: Solution) -> dict[str, float]:
    w, loss = solution.theta, LOSSES[method]
    return {
        "train": mean_loss(train, loss, w),
        "test": mean_loss(test, loss, w),
        "target": float(np.mean(_target(test, method, w))),
    }


def _target(queries: Queries, method: str, w: FloatArray) -> FloatArray:
    """The loss that is bounded: 1 − AP, or the share of wrong pairs."""
    if method == "svmmap":
        return ap_loss(queries, w)
    return zero_one_loss(binary_grades(queries) if method == "svmauc" else queries, w, "pair")


def _bounds(train: Queries, method: str, solution: Solution, constants: _Constants) -> dict[str, float]:
    """Return what each bound adds to the empirical risk; for those of the paper the logarithm."""
    loss, w, C, gap = LOSSES[method], solution.theta, solution.C, max(solution.gap, 0.0)
    G, zero = constants.lipschitz[method], constants.at_zero[method]
    B = norm_bound(C, zero, G) + sqrt(2.0 * gap)
    stable = stability_bound(train, loss, w, C, gap=gap, delta=DELTA, lipschitz=G, at_zero=zero)
    uniform = argmax_bound(train, loss, w, B=B, delta=DELTA, reach=constants.reach[method], at_zero=zero)
    excess = {"mean gap": stable.complexity, "stability": stable.excess, "argmax": uniform.excess}
    shared: dict[str, Any] = {"delta": DELTA, "population": constants.population}
    if method == "svmmap":
        forms = corollary_3(train, w, B=B, **shared)
        excess["theorem 4"] = theorem_4(train, w, B=B, **shared).repaired.log10_excess
    elif method == "svmauc":
        # Under φpo a pair counts 2(s_i − s_j): the hinge of Corollary 2 at twice the weights.
        forms = corollary_2(train, 2.0 * w, B=2.0 * B, per="pair", **shared)
    else:
        forms = corollary_1(train, w, B=B, per="pair", **shared)
    return excess | {"printed": forms.printed.log10_excess, "repaired": forms.repaired.log10_excess}


def _dominance(data: Path, *, name: str, Cs: Sequence[float], most: int | None) -> dict[str, int]:
    """Count queries with more wrong pairs than the printed and the repaired hinge say, for weights of any length."""
    queries = _all_queries(data, name, most)
    weights = [solution.theta for solution in _minimize(queries, PositionHinge(normalize="pairs"), Cs)]
    counts = {"tried": len(queries) * len(weights) * len(_SCALES), "levels": 0, "bound": 0}
    for w in [scale * w for w in weights for scale in _SCALES]:
        wrong, scores = zero_one_loss(queries, w), queries.X @ w
        for hinge in (PositionHinge(m="levels"), PositionHinge(m="bound")):
            counts[hinge.m] += int(np.sum(wrong > hinge.prepare(queries)(scores)[0] + 1e-9))
    return counts


def _plan(size: Size) -> list[Task]:
    full = size == "full"
    names, n_splits, first = (NAMES, 30, 10) if full else (NAMES[:1], 2, 4)
    shared = {"Cs": [0.01, 0.1, 1.0, 10.0], "most": None} if full else {"Cs": [0.1, 1.0], "most": 3}
    tasks = [Task(f"{name}/dominance", _dominance, {"name": name} | shared) for name in names]
    return tasks + [
        Task(f"{name}/split {split}", _split, {"name": name, "split": split, "first": first} | shared)
        for name in names
        for split in range(n_splits)
    ]


EXPERIMENT: Final = Experiment(
    "rdb",
    "Risk bounds against measured gaps",
    "Riezler and De Bona (2009), Theorems 3 and 4, Corollaries 1 to 3, section 5",
    "How much larger is the risk on new queries than on those trained on, and what do the bounds say? svmmap, svmauc "
    "and the position-sensitive hinge are trained on more and more queries, in random orders, and measured on all "
    "others.\n\n"
    "Two bounds stand beside those of the paper: one by uniform stability, and one for the largest hinge.",
    ("letor4-mq2008", "letor3-ohsumed"),
    _plan,
    report,
)
