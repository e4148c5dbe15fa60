"""NDCG at ten cutoffs against the usual baselines: Chapelle, Le and Smola (2007), Fig. 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from experiments.base import Experiment, Size, Task
from experiments.cls import (
    CS,
    CUTS,
    FOLDERS,
    NAMES,
    NDCGS,
    PAPER,
    measured,
    ndcg_loss,
    regression,
    scaled_fold,
    tight,
)
from experiments.cls_ndcg_report import ALIKE, EACH, METHODS, OURS, report
from experiments.letor import FOLDS, Fold, choose
from experiments.letor_published import mean_of, published
from experiments.rankers import ranker
from marginrank.ranker import Ranker, Scaling

#: Rounds of RankBoost, one of which the validation queries choose.
ROUNDS: Final = (30, 100, 300)
#: RankBoost with features in [0, 1] in each query if the validation queries say so, or with those of the other methods.
BOOSTED: Final[Mapping[str, Sequence[Scaling | None]]] = {"rankboost": (None, "query-minmax"), ALIKE: (None,)}


def _trained(method: str, data: Fold, Cs: Sequence[float]) -> Ranker:
    """Train a method for NDCG@10 and choose its C, or its rounds, by the validation queries."""
    if method in BOOSTED:
        rankers = [ranker(f"rankboost@{n}", scaling=scaling) for n in ROUNDS for scaling in BOOSTED[method]]
        chosen = [choose(one, data, Cs=[1.0], criterion="ndcg@10") for one in rankers]
        return max(chosen, key=lambda one: one.best.mean).ranker
    if method == OURS:
        untrained = tight(regression(data, Cs=Cs))
    else:
        untrained = ranker(ndcg_loss(), bound="hinge") if method == "hinge" else ranker(method)
    return choose(untrained, data, Cs=Cs, criterion="ndcg@10").ranker


def _one_model(
    data: Path, *, name: str, method: str, number: int, most: int | None, Cs: Sequence[float]
) -> dict[str, Any]:
    """NDCG@1 to NDCG@10 of one model."""
    own = scaled_fold(data, name, number, most)
    scores = _trained(method, own, Cs).predict(own.test)
    return measured(dict.fromkeys(CUTS, scores), own, name)


def _each_k(data: Path, *, name: str, number: int, most: int | None, Cs: Sequence[float]) -> dict[str, Any]:
    """NDCG@k of a model that was trained and chosen for NDCG@k, for every k."""
    own = scaled_fold(data, name, number, most)
    start = regression(own, Cs=Cs)
    chosen = {k: choose(tight(start, k), own, Cs=Cs, criterion=f"ndcg@{k}").ranker for k in CUTS}
    return measured({k: ranker.predict(own.test) for k, ranker in chosen.items()}, own, name)


def _published(data: Path) -> dict[str, dict[str, list[float | None]]]:
    """Tables of the publisher, where they lie beside the data."""
    tables = published(data)
    return {
        name: {method: [mean_of(tables, name, method, measure) for measure in NDCGS] for method in tables.get(name, {})}
        for name in NAMES
    }


def _plan(size: Size) -> list[Task]:
    folds, most, Cs = (FOLDS, None, CS) if size == "full" else (FOLDS[:1], 6, (1.0,))
    tasks = [Task("published", _published)]
    for name in NAMES:
        for number in folds:
            shared = {"name": name, "number": number, "most": most, "Cs": Cs}
            tasks.append(Task(f"{name}/{EACH}/fold {number}", _each_k, shared))
            tasks += [
                Task(f"{name}/{method}/fold {number}", _one_model, {"method": method, **shared})
                for method in METHODS
                if method != EACH
            ]
    return tasks


EXPERIMENT: Final = Experiment(
    "cls-ndcg",
    "Large margin training for NDCG against the usual baselines",
    f"{PAPER}, Fig. 2 and §5",
    "Rankers for NDCG@10 with the profile A(r) = max(k + 1 − r, 0): under the tight bound of eq. (14), begun at a "
    "regression (“tight”), and under the convex hinge of eq. (12) (“hinge”). Beside them RankSVM, regression on the "
    "grades and RankBoost. “tight, each k” is trained anew for each cutoff, as in §5.1.",
    FOLDERS,
    _plan,
    report,
)
