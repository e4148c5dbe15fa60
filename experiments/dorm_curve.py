"""NDCG@10 for growing numbers of training queries: Le and Smola (2008), Fig. 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from experiments import letor
from experiments.base import Experiment, Finding, Picture, Report, Size, Table, Task
from experiments.dorm import (
    BOUND_NOTE,
    CS,
    PAPER,
    SHARES,
    WEB_NOTE,
    advantage,
    best,
    curves,
    judged,
    methods_at_zero,
    paths,
    ratio_at_zero,
    settings,
    share_labels,
)
from experiments.rankers import ranker
from marginrank.ranker.ranker import Ranker

SETS: Final = ("mq2008", "ohsumed")
OWN: Final = ("DORM", "DORM, tight")
METHODS: Final[Mapping[str, Ranker]] = {
    "DORM": ranker("dorm-ndcg@10", bound="hinge"),
    "DORM, tight": ranker("dorm-ndcg@10", bound="tight"),
    "ranking SVM": ranker("ranksvm"),
    "SVM-IR-QP": ranker("svm-ir-qp"),
    "ROCArea": ranker("svmauc"),
    "Prec@10": ranker("svmprec@10"),
    "multiclass SVM": ranker("svm-multiclass"),
    "best feature": ranker("best-feature").set_params(method="best-feature(measure=ap)"),
}


def _fold(
    data: Path, *, name: str, method: str, fold: int, most: int | None, shares: Sequence[float], Cs: Sequence[float]
) -> dict[str, Any]:
    """NDCG@10 on the test queries for every share of the training queries, C chosen by the validation queries."""
    split = letor.fold(data, name, fold, most)
    counts, means = [], []
    values: dict[str, list[float]] = {}
    for count, models in paths(METHODS[method], split.train, shares, Cs, seed=fold):
        model = best(models, split.valid, "ndcg@10")
        by_query = judged(model, split.test, "ndcg@10")
        values.setdefault("least", by_query.tolist())
        counts.append(count)
        means.append(round(float(by_query.mean()), 6))
    values["all"] = by_query.tolist()
    return {
        "shares": list(shares),
        "queries": counts,
        "means": means,
        "ratio": ratio_at_zero(model),
        "values": values,
    }


def _plan(size: Size) -> list[Task]:
    return [
        Task(f"{name}/{method}/fold {fold}", _fold, {"name": name, "method": method, "fold": fold, **options})
        for name in SETS
        for method in METHODS
        for fold, options in settings(size, SHARES)
    ]


def _table(results: Mapping[str, Any], name: str) -> Table:
    columns = ("method", *share_labels(results, f"{name}/{OWN[0]}"))
    rows = [(method, *letor.fold_average(results, f"{name}/{method}", "means").tolist()) for method in METHODS]
    caption = f"NDCG@10 on {letor.SETS[name].title} by share of the training queries (and their number)"
    return Table(f"{caption}, mean over folds", columns, rows)


def _claims(results: Mapping[str, Any], name: str, method: str) -> list[Finding]:
    title = letor.SETS[name].title
    others = {
        method: letor.pooled(results, f"{name}/{method}", "all")
        for method in METHODS
        if method not in (*OWN, "best feature")
    }
    source, findings = f"{PAPER}, Fig. 3 and §6.3", []
    for share, claim in (
        ("least", "DORM with a tenth of the training queries has a higher NDCG@10 than all others with all of them"),
        ("all", "DORM has a higher NDCG@10 than all others, with all training queries"),
    ):
        mine = letor.pooled(results, f"{name}/{method}", share)
        at_zero = methods_at_zero(results, name, [method, *others])
        verdict, evidence = advantage({method: mine, **others}, method, at_zero)
        findings.append(Finding(f"{claim}; {method} on {title}.", source, verdict, evidence, claim))
    return findings


def _picture(results: Mapping[str, Any], file: str, caption: str, methods: Sequence[str]) -> Picture:
    panels = {
        letor.SETS[name].title: {
            method: (
                letor.fold_average(results, f"{name}/{method}", "queries").tolist(),
                letor.fold_average(results, f"{name}/{method}", "means").tolist(),
            )
            for method in methods
        }
        for name in SETS
    }
    return Picture(file, caption, curves(panels, "training queries", "NDCG@10"))


def _report(results: Mapping[str, Any]) -> Report:
    caption = "NDCG@10 by number of training queries"
    others = [method for method in METHODS if method != OWN[0]]
    return Report(
        [_table(results, name) for name in SETS],
        [
            _picture(results, "ndcg", f"{caption}.", list(METHODS)),
            _picture(results, "close", f"{caption}, without the hinge of DORM.", others),
        ],
        [finding for method in OWN for name in SETS for finding in _claims(results, name, method)],
        [
            WEB_NOTE,
            BOUND_NOTE,
            "Training queries are taken in a random order of each fold, the same for all methods: 10, 30, 50, 70 and "
            "100%, as 100 to 1000 of 1000 queries in the paper. The profile is c_i = 1/√(i + 1), ranks from 0.",
            f"C is chosen among {', '.join(f'{C:g}' for C in CS)} by NDCG@10 of the validation queries. Queries "
            "without relevant documents are left out, and tied documents count the mean over all orders. Tests "
            "are paired by query over all folds.",
            "BM25 is replaced by the single feature that ranks the training queries best. Prec@10 is trained "
            "under the tight bound where its hinge is minimal at w = 0.",
        ],
    )


EXPERIMENT: Final = Experiment(
    "dorm-curve",
    "NDCG@10 by number of training queries",
    "Le and Smola (2008), Fig. 3",
    "Linear methods are trained on growing shares of the training queries of each fold and compared in NDCG@10 on its "
    "test queries.",
    ("letor4-mq2008", "letor3-ohsumed"),
    _plan,
    _report,
)
