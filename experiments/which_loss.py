"""Which loss to train: measures and pairs, bounds, feature maps, numbers of queries and costs on five collections."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments import letor
from experiments.base import Experiment, Size, Task
from experiments.chk import pack
from experiments.letor import FOLDS, Fold, arranged
from experiments.rankers import TOLERANCE
from experiments.text_collections import collection
from experiments.which_loss_report import ALL, COLLECTIONS, FEW, LOSSES, METHODS, RULES, SIZES, SMALL, report
from marginrank.data.queries import Queries
from marginrank.datasets.python_docs import pydocs
from marginrank.evaluation.evaluation import evaluate
from marginrank.losses.structured import StructuredLoss
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.selection import Rule
from marginrank.ranker.tuning import tune
from marginrank.solvers.auto import Auto

MEASURES: Final = ("ndcg@10", "ap", "rr@10")
CRITERION: Final = "ndcg@10"
CS: Final = tuple(float(f"{C:g}") for C in 10.0 ** np.arange(-2, 5))
#: Losses that have no preset under their map and measure.
UNNAMED: Final = {"rr@10 po": StructuredLoss("rr@10", "po"), "rr@10 dorm": StructuredLoss("rr@10", "dorm")}


@cache
def _parts(data: Path, name: str, most: int | None) -> tuple[Queries, ...]:
    """Return five parts of the queries of a collection: the published ones, or every fifth query."""
    if name in letor.SETS:
        return letor.parts(data, name, most)
    if name == "pydocs":
        docs = pydocs()
        queries = Queries.concatenate([docs.train, docs.test])
    else:
        queries = collection(data, name)
    parts = [queries[np.arange(part, len(queries), len(FOLDS))] for part in range(len(FOLDS))]
    return tuple(parts if most is None else [part[np.arange(min(most, len(part)))] for part in parts])


def _fewer(split: Fold, size: int | None, number: int) -> Fold:
    """Draw training queries with several grades, and a third as many to choose by."""
    if size is None:
        return split
    rng = np.random.default_rng(number)
    return Fold(_drawn(split.train, size, rng), _drawn(split.valid, max(size // 3, 3), rng), split.test)


def _drawn(queries: Queries, size: int, rng: np.random.Generator) -> Queries:
    varied = [number for number in range(len(queries)) if len(set(queries[number].grades.tolist())) > 1]
    return queries[np.sort(rng.permutation(varied)[:size])]


def ranker(method: str, bound: str | None) -> Ranker:
    """Return an untrained ranker with the defaults of the package, on one thread and with a small tolerance."""
    return Ranker(UNNAMED.get(method, method), bound=bound, solver=Auto(tol=TOLERANCE), n_jobs=1)  # type: ignore[arg-type]


def _chosen(untrained: Ranker, split: Fold, Cs: Sequence[float], rule: str) -> Ranker:
    """Choose C by the validation queries, or by cross-validation on training and validation queries together."""
    if rule == "folds":
        both = Queries.concatenate([split.train, split.valid])
        return tune(untrained, both, folds=5, Cs=Cs, criterion=CRITERION, n_jobs=1).ranker
    selected: Rule = "one-se" if rule == "one-se" else "best"
    return tune(untrained, split.train, valid=split.valid, Cs=Cs, criterion=CRITERION, rule=selected, n_jobs=1).ranker


def _row(
    data: Path,
    *,
    name: str,
    method: str,
    bound: str | None,
    size: int | None,
    folds: Sequence[int],
    Cs: Sequence[float],
    most: int | None,
    rule: str = "best",
) -> dict[str, Any]:
    """Train one method on every fold, C by the validation queries, and measure it on the test queries."""
    by_measure: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    chosen, ratios, seconds = [], [], 0.0
    for number in folds:
        split = _fewer(arranged(_parts(data, name, most), number), size, number)
        began = time.process_time()
        model = _chosen(ranker(method, bound), split, Cs, rule)
        seconds += time.process_time() - began
        evaluation = evaluate(split.test, model.predict(split.test), list(MEASURES), n_jobs=1)
        for measure in MEASURES:
            by_measure[measure] += evaluation[measure].tolist()
        chosen.append(model.C)
        ratios.append(None if model.health_ is None else round(model.health_.objective_ratio, 6))
    return {
        "C": chosen,
        "objective_ratio": ratios,
        "seconds": round(seconds / len(folds), 3),
        "values": {measure: pack(values) for measure, values in by_measure.items()},
    }


def _plan(size: Size) -> list[Task]:
    folds, Cs, most = (FOLDS, CS, None) if size == "full" else ((1,), (1.0, 100.0), 6)
    sizes = SIZES if size == "full" else dict.fromkeys(SIZES, (5,))
    options: dict[str, Any] = {"folds": folds, "Cs": Cs, "most": most}
    whole = [
        Task(f"{name}/{title}/{ALL}", _row, {"name": name, "method": method, "bound": bound, "size": None, **options})
        for name in COLLECTIONS
        for title, (method, bound) in METHODS.items()
    ]
    choices = [
        Task(
            f"{SMALL}/{title}/{rule}",
            _row,
            {
                "name": SMALL,
                "method": METHODS[title][0],
                "bound": METHODS[title][1],
                "size": None,
                "rule": rule,
                **options,
            },
        )
        for title in LOSSES
        for rule in RULES
        if rule != "best"
    ]
    curves = [
        Task(
            f"{name}/{title}/{n}",
            _row,
            {"name": name, "method": METHODS[title][0], "bound": METHODS[title][1], "size": n, **options},
        )
        for name in COLLECTIONS
        for title in FEW
        for n in sizes[name]
    ]
    return whole + choices + curves


EXPERIMENT: Final = Experiment(
    "which-loss",
    "Which loss should I train?",
    "",
    "Linear rankers, trained with the defaults of the package on five collections: two with the features of their "
    "publishers (MQ2008, OHSUMED), and three whose features are the scores of five retrievers (BM25 on the whole "
    "text, on titles or with other parameters, character n-grams, latent semantic analysis): questions about the "
    "Python documentation, SciFact and Cranfield. Queries are in five parts; three train, the next chooses C by "
    "NDCG@10, and the last one tests, in turn. Nothing is chosen on test queries.",
    ("letor4-mq2008", "letor3-ohsumed", "scifact", "cranfield"),
    _plan,
    report,
    of_paper=False,
)
