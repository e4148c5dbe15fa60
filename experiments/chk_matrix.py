"""Which loss to train for which measure: Chakrabarti et al. (KDD 2008), Figure 9."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Experiment, Size, Task
from experiments.chk import (
    CLEANINGS,
    CRITERION,
    DATA,
    FOLDERS,
    MEASURES,
    ONLY_IRRELEVANT,
    fold,
    pack,
    ranker,
)
from experiments.chk_matrix_report import METHODS, READING, report
from experiments.letor import FOLDS, choose, values

CS: Final = tuple(float(f"{C:g}") for C in 10.0 ** np.arange(-2, 5))


def _row(
    data: Path, *, name: str, cleaning: str, method: str, folds: Sequence[int], Cs: Sequence[float], most: int | None
) -> dict[str, Any]:
    """Train one method on every fold, C by the validation queries, and measure it on the test queries."""
    by_measure: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    chosen, ratios = [], []
    for number in folds:
        split = fold(data, name, cleaning, number, most)
        model = choose(ranker(method), split, Cs=Cs, criterion=CRITERION).ranker
        by_query = values(split.test, model.predict(split.test), list(MEASURES.values()))
        for measure, spelled in MEASURES.items():
            by_measure[measure] += by_query[spelled]
        chosen.append(model.C)
        ratios.append(None if model.health_ is None else round(model.health_.objective_ratio, 6))
    return {
        "C": chosen,
        "objective_ratio": ratios,
        "mean": {measure: round(float(np.nanmean(measured)), 6) for measure, measured in by_measure.items()},
        "values": {measure: pack(measured) for measure, measured in by_measure.items()},
    }


def _reading(data: Path, *, method: str, **options: Any) -> dict[str, float]:
    """Means of one method on OHSUMED after the other cleaning."""
    means: dict[str, float] = _row(data, name="ohsumed2", cleaning=ONLY_IRRELEVANT, method=method, **options)["mean"]
    return means


def _plan(size: Size) -> list[Task]:
    folds, Cs, most = (FOLDS, CS, None) if size == "full" else ((1,), (1.0, 100.0), 6)
    options: dict[str, Any] = {"folds": folds, "Cs": Cs, "most": most}
    sets = DATA if size == "full" else ("ohsumed2",)
    cleanings = CLEANINGS if size == "full" else ("cleaned",)
    tasks = [
        Task(f"{name}/{cleaning}/{method}", _row, {"name": name, "cleaning": cleaning, "method": method, **options})
        for name in sets
        for cleaning in cleanings
        for method in METHODS
    ]
    return tasks + [
        Task(f"{READING}{method}", _reading, {"method": method, **options}) for method in ("MAP", "NDCG-NC", "McRank")
    ]


EXPERIMENT: Final = Experiment(
    "chk-matrix",
    "Which loss to train for which measure",
    "Chakrabarti et al. (2008), Figure 9",
    "Each row is trained for one loss and tested by MRR@10, NDCG@10 and MAP over five folds. Is the loss of a measure "
    "the best one to train for it, and does a combination of losses suit all measures? On some sets the hinge of a "
    "loss is minimal at w = 0 for every C; such a row ranks at random. Each claim is therefore tested twice, with the "
    "hinge of the paper and with the tight bound.",
    FOLDERS,
    _plan,
    report,
)
