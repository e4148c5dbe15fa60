"""Does the optimizer learn anything: Chakrabarti et al. (KDD 2008), Figures 4 to 6 and the scale of φpo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Experiment, Report, Size, Task
from experiments.chk import (
    CLEANINGS,
    CRITERION,
    DATA,
    FOLDERS,
    LOSSES,
    MEASURES,
    documents,
    fold,
    pack,
    prepared,
)
from experiments.chk_health_report import FEW, findings, pictures, tables
from experiments.letor import FOLDS, choose, values
from experiments.rankers import ranker
from marginrank.data.queries import Queries
from marginrank.losses.feature_maps import PartialOrder
from marginrank.losses.structured import StructuredLoss
from marginrank.model.model import Health
from marginrank.typing import FloatArray, IntArray

CS: Final = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 4, 13))
#: A sum over pairs is some thousand times a mean, so that it wants a C that is smaller by the square of that.
SMALL_CS: Final = tuple(float(f"{C:g}") for C in 10.0 ** np.arange(-9, 5))
#: Losses with φpo, whose scale §3.1.1 calls critical.
SCALED: Final = {"AUC": "auc", "MAP": "ap", "NDCG-NC": "ndcg(discount=letor)"}


@dataclass(frozen=True)
class UnscaledPartialOrder(PartialOrder):
    """φpo as a sum over pairs, without 1/(n⁺n⁻).

    >>> UnscaledPartialOrder().scales(np.array([5]), np.array([6])).tolist()
    [1.0]
    """

    def scales(self, lengths: IntArray, n_pairs: IntArray) -> FloatArray:  # noqa: ARG002
        """1 for every query."""
        return np.ones(len(lengths))


def few_relevant(queries: Queries, most: int) -> Queries:
    """Keep the first relevant documents of each query, at most ``most``, and all irrelevant ones.

    >>> queries = Queries.from_arrays([[1.0], [2.0], [3.0], [4.0]], [1, 0, 1, 1], group=[4])
    >>> few_relevant(queries, 2).X.ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    relevant = queries.grades >= 1
    before: IntArray = np.cumsum(relevant) - relevant
    keep = ~relevant | (before - np.repeat(before[queries.offsets[:-1]], queries.lengths) < most)
    return documents(queries, keep)


def _path(data: Path, *, name: str, cleaning: str, method: str, Cs: Sequence[float], most: int | None) -> Any:
    """Health of one loss for every C, trained on all queries."""
    queries = Queries.concatenate(prepared(data, name, cleaning, most))
    models = ranker(LOSSES[method], bound="hinge").fit_path(queries, Cs=Cs)
    return {"C": list(Cs), **_healths([model.health_ for model in models])}


def _healths(healths: Sequence[Health | None]) -> dict[str, list[float]]:
    known = [health for health in healths if health is not None]
    return {
        "slack": [round(one.average_slack, 6) for one in known],
        "ratio": [round(one.objective_ratio, 6) for one in known],
        "norm": [float(f"{one.norm:.6g}") for one in known],
    }


def _few(data: Path, *, name: str, methods: Sequence[str], C: float, most: int | None) -> dict[str, dict[str, float]]:
    """Return the objective relative to that at w = 0 with at most 1, 2, 5 relevant documents per query."""
    queries = Queries.concatenate(prepared(data, name, "cleaned", most))
    ratios: dict[str, dict[str, float]] = {}
    for method in methods:
        caps = {str(cap): few_relevant(queries, cap) for cap in FEW} | {"all": queries}
        healths = {cap: ranker(LOSSES[method], bound="hinge", C=C).fit(kept).health_ for cap, kept in caps.items()}
        ratios[method] = {cap: round(one.objective_ratio, 6) for cap, one in healths.items() if one is not None}
    return ratios


def _why(data: Path, *, name: str, cleaning: str, methods: Sequence[str], most: int | None) -> dict[str, list[float]]:
    """Slope of the risk at w = 0 towards a RankSVM, and the share of queries whose slack rises that way."""
    queries = Queries.concatenate(prepared(data, name, cleaning, most))
    direction = ranker("ranksvm-squared", C=100.0).fit(queries).coef_
    scores = np.asarray(queries.X @ (direction / np.linalg.norm(direction)))
    slopes_at_zero = {}
    for method in methods:
        loss = LOSSES[method].prepare(queries)
        # The slack is piecewise linear, so a short step shows the slope of the first piece.
        step = 1e-7
        slopes = ((loss(step * scores)[0] - loss(np.zeros_like(scores))[0]) / step)[loss.active]
        slopes_at_zero[method] = [round(float(slopes.mean()), 6), round(float((slopes > 1e-6).mean()), 6)]
    return slopes_at_zero


def _scale(data: Path, *, name: str, method: str, folds: Sequence[int], Cs: Sequence[float], most: int | None) -> Any:
    """Test accuracy with φpo as a mean and as a sum over pairs, the latter with any C and with those of the paper."""
    usual = [C for C in Cs if CS[0] <= C]
    ways = {
        "mean": (PartialOrder(), usual),
        "sum": (UnscaledPartialOrder(), Cs),
        "sum, C ≥ 0.01": (UnscaledPartialOrder(), usual),
    }
    by_way: dict[str, dict[str, str]] = {}
    for label, (feature_map, Cs_tried) in ways.items():
        model = ranker(StructuredLoss(SCALED[method], feature_map), bound="hinge")
        by_measure: dict[str, list[float]] = {measure: [] for measure in MEASURES}
        for number in folds:
            split = fold(data, name, "cleaned", number, most)
            best = choose(model, split, Cs=Cs_tried, criterion=CRITERION).ranker
            by_query = values(split.test, best.predict(split.test), list(MEASURES.values()))
            for measure, spelled in MEASURES.items():
                by_measure[measure] += by_query[spelled]
        by_way[label] = {measure: pack(measured) for measure, measured in by_measure.items()}
    return by_way


def _plan(size: Size) -> list[Task]:
    full = size == "full"
    sets, most, folds = (DATA, None, FOLDS) if full else (("mq2008",), 6, (1,))
    cleanings, Cs, small = (CLEANINGS, CS, SMALL_CS) if full else (("cleaned",), (1.0, 100.0), (1e-4, 1.0))
    few: dict[str, Any] = {"methods": ("NDCG", "MRR", "DORM", "MRR φpo") if full else ("MRR",), "C": Cs[-1]}
    tasks = []
    for name in sets:
        for cleaning in cleanings:
            where = {"name": name, "cleaning": cleaning, "most": most}
            tasks += [
                Task(f"path/{name}/{cleaning}/{method}", _path, {**where, "method": method, "Cs": Cs})
                for method in LOSSES
            ]
            tasks.append(Task(f"why/{name}/{cleaning}", _why, {**where, "methods": list(LOSSES)}))
        tasks.append(Task(f"few/{name}", _few, {"name": name, **few, "most": most}))
        tasks += [
            Task(
                f"scale/{name}/{method}",
                _scale,
                {"name": name, "method": method, "folds": folds, "Cs": small, "most": most},
            )
            for method in SCALED
        ]
    return tasks


def _report(results: Mapping[str, Any]) -> Report:
    return Report(
        tables(results),
        pictures(results),
        findings(results),
        (
            "The paper shows one set and does not say which. Here there are four: OHSUMED and MQ2008, as published and "
            "cleaned, with all queries for training. COMBO has one slack for each of its three losses, and so up to 3.",
            "Figure 6 scales the last point of each line to 1; here ‖w‖² is not scaled.",
            "Training stops at a certified gap of 1e-4 of the objective, so a line at 1 is not a failure of the "
            "solver. The argmax printed in the paper is not exact (its Facts 3.3 and 3.4), its solver may stop early, "
            "and the y* of DORM may follow the scores there, where it is fixed here. Each of these could move w where "
            "the exact hinge stays at 0.",
            "Why a hinge is minimal at w = 0: for small w the most violated ranking has the largest Δ and, among "
            "those, the highest score. With a cutoff, every ranking with k irrelevant documents first has the largest "
            "Δ, so the constraint compares the k best irrelevant documents with the relevant ones; under φmrr, with "
            "the worst relevant one. If these score higher than the relevant documents in most queries along every "
            "useful direction, the risk increases in all of them. AUC and MAP depend on all ranks: only one order of "
            "relevant and irrelevant documents has the largest Δ, and every useful direction reduces its violation.",
            "Without its scale φpo is larger by the number of pairs, so C is chosen from 1e-9 on, and in a second run "
            "from 0.01 on, where the regularizer has no effect.",
        ),
    )


EXPERIMENT: Final = Experiment(
    "chk-health",
    "Losses and feature maps that learn, and those that stay at 0",
    "Chakrabarti et al. (2008), §4.2 with Figures 4 to 6, and §3.1.1",
    "For each loss with its feature map: the average slack, the objective relative to that at w = 0, and ‖w‖² against "
    "C. Where loss and map fit together, the slack decreases as C grows; otherwise w stays at 0. Further tables show "
    "the slope of the risk at w = 0 towards a RankSVM, the effect of few relevant documents on φmrr, and the effect "
    "of the scale 1/(n⁺n⁻) of φpo.",
    FOLDERS,
    _plan,
    _report,
)
