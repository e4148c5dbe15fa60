"""Mean reciprocal rank and winner takes all: Le and Smola (2008), Figs. 5 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments import letor
from experiments.base import Experiment, Finding, Picture, Report, Size, Table, Task
from experiments.dorm import (
    BOUND_NOTE,
    CS,
    PAPER,
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
from marginrank.losses.base import Bound, Loss
from marginrank.losses.structured import StructuredLoss
from marginrank.ranker.ranker import Ranker
from marginrank.typing import FloatArray

SETS: Final = ("mq2008", "ohsumed")
SHARES: Final = (0.1, 0.3, 1.0)
MEASURES: Final = ("rr", "wta")
TITLES: Final = {"rr": "MRR", "wta": "WTA"}
_INVERSE: Final = "dorm(shape=power,d=1)"
_LOSSES: Final[Mapping[str, str | Loss]] = {
    "DORM for MRR": StructuredLoss("rr", _INVERSE),
    "DORM for WTA": StructuredLoss("wta", "dorm"),
    "mWTA": "mwta",
    "DORM for NDCG": StructuredLoss("ndcg@10", _INVERSE),
}
#: Bounds by the ending of the name of a method.
BOUNDS: Final[Mapping[str, Bound]] = {"": "hinge", ", tight": "tight"}
METHODS: Final[Mapping[str, Ranker]] = {
    **{name + end: ranker(loss, bound=bound) for name, loss in _LOSSES.items() for end, bound in BOUNDS.items()},
    "Prec@3": ranker("svmprec@3"),
    "ROCArea": ranker("svmauc"),
    "ranking SVM": ranker("ranksvm"),
    "multiclass SVM": ranker("svm-multiclass"),
    "SVMmrr": ranker("svmmrr", bound="hinge"),
}
#: Methods that the paper compares with.
OTHERS: Final = ("Prec@3", "ROCArea", "ranking SVM", "multiclass SVM")


def _fold(
    data: Path, *, name: str, method: str, fold: int, most: int | None, shares: Sequence[float], Cs: Sequence[float]
) -> dict[str, Any]:
    """Both measures of the test queries, each with the C that the validation queries prefer by it."""
    split = letor.fold(data, name, fold, most)
    counts, means = [], []
    values: dict[str, FloatArray] = {}
    for count, models in paths(METHODS[method], split.train, shares, Cs, seed=fold):
        chosen = {measure: best(models, split.valid, measure) for measure in MEASURES}
        values = {measure: judged(model, split.test, measure) for measure, model in chosen.items()}
        counts.append(count)
        means.append([round(float(values[measure].mean()), 6) for measure in MEASURES])
    return {
        "shares": list(shares),
        "queries": counts,
        "means": means,
        "ratio": ratio_at_zero(chosen["rr"]),
        "values": {measure: by_query.round(4).tolist() for measure, by_query in values.items()},
    }


def _plan(size: Size) -> list[Task]:
    return [
        Task(f"{name}/{method}/fold {fold}", _fold, {"name": name, "method": method, "fold": fold, **options})
        for name in SETS
        for method in METHODS
        for fold, options in settings(size, SHARES)
    ]


def _queries(results: Mapping[str, Any], name: str) -> FloatArray:
    return letor.fold_average(results, f"{name}/{OTHERS[0]}", "queries")


def _table(results: Mapping[str, Any], name: str) -> Table:
    labels = share_labels(results, f"{name}/{OTHERS[0]}")
    columns = ("method", *(f"{TITLES[measure]}, {label}" for measure in MEASURES for label in labels))
    rows: list[tuple[Any, ...]] = [
        (method, *letor.fold_average(results, f"{name}/{method}", "means").T.ravel().tolist()) for method in METHODS
    ]
    caption = f"{letor.SETS[name].title}: MRR and WTA by share of the training queries (and their number)"
    return Table(f"{caption}, mean over folds", columns, rows)


def _claim(
    results: Mapping[str, Any], name: str, measure: str, method: str, others: Sequence[str], claim: str, source: str
) -> Finding:
    values = {method: letor.pooled(results, f"{name}/{method}", measure) for method in (method, *others)}
    verdict, evidence = advantage(values, method, methods_at_zero(results, name, values))
    title = f"{claim} ({method} on {letor.SETS[name].title})."
    return Finding(title, f"{PAPER}, {source}", verdict, evidence, claim)


def _fails(results: Mapping[str, Any], name: str, trained_for_wta: str) -> Finding:
    """Test whether training for WTA itself is worse in WTA than the best method for another measure."""
    values = {method: letor.pooled(results, f"{name}/{method}", "wta") for method in (trained_for_wta, *OTHERS)}
    top = max(OTHERS, key=lambda method: values[method].mean())
    pair = {top: values[top], trained_for_wta: values[trained_for_wta]}
    verdict, evidence = advantage(pair, top, methods_at_zero(results, name, pair))
    claim = "Training for WTA itself leads to bad performance in WTA"
    title = f"{claim} ({trained_for_wta} on {letor.SETS[name].title})."
    return Finding(title, f"{PAPER}, §6.4 and Fig. 6", verdict, evidence, claim)


def _findings(results: Mapping[str, Any], name: str) -> list[Finding]:
    findings = []
    for end in BOUNDS:
        mrr, ndcg, wta = f"DORM for MRR{end}", f"DORM for NDCG{end}", f"DORM for WTA{end}"
        claim = "DORM for MRR has a higher MRR than all others, with DORM for NDCG among them"
        findings.append(_claim(results, name, "rr", mrr, (*OTHERS, ndcg), claim, "§6.4 and Fig. 5"))
        findings.append(_fails(results, name, wta))
        claim = "mWTA has a higher WTA than DORM for WTA"
        findings.append(_claim(results, name, "wta", f"mWTA{end}", (wta,), claim, "Fig. 6"))
        claim = "mWTA has a higher WTA than all other methods"
        findings.append(_claim(results, name, "wta", f"mWTA{end}", OTHERS, claim, "Fig. 6"))
    return findings


def _picture(results: Mapping[str, Any], measure: str) -> Picture:
    at = MEASURES.index(measure)
    panels = {
        letor.SETS[name].title: {
            method: (
                _queries(results, name).tolist(),
                np.asarray(letor.fold_average(results, f"{name}/{method}", "means"))[:, at].tolist(),
            )
            for method in METHODS
            if METHODS[method].bound != "hinge"
        }
        for name in SETS
    }
    caption = f"{TITLES[measure]} by number of training queries; methods under the hinge are in the tables alone."
    return Picture(measure, caption, curves(panels, "training queries", TITLES[measure]))


def _report(results: Mapping[str, Any]) -> Report:
    return Report(
        [_table(results, name) for name in SETS],
        [_picture(results, measure) for measure in MEASURES],
        [finding for name in SETS for finding in _findings(results, name)],
        [
            WEB_NOTE,
            BOUND_NOTE,
            "MRR counts the first document above grade 0, WTA whether the first document has the highest grade of its "
            "query. C is chosen by the measure that is reported, among "
            f"{', '.join(f'{C:g}' for C in CS)}, on the validation queries.",
            "As in the paper, c_i is 1/(i + 1) for DORM and 1/√(i + 1) for mWTA and WTA, here with ranks from 0. Its "
            "rule for the cutoffs of mWTA leaves the case of exactly two grades among the first three open; here it "
            "counts as more than one, and the cutoff is 3.",
            "Prec@3 is trained under the tight bound where its hinge is minimal at w = 0. SVMmrr, which the paper "
            "does not have, is trained under its hinge.",
        ],
    )


EXPERIMENT: Final = Experiment(
    "dorm-mrr",
    "Training for MRR and for winner takes all",
    "Le and Smola (2008), Figs. 5 and 6",
    "DORM is trained for MRR, for WTA, for the modified WTA and for NDCG, and compared with other methods in MRR and "
    "WTA, on a tenth, three tenths and all of the training queries.",
    ("letor4-mq2008", "letor3-ohsumed"),
    _plan,
    _report,
)
