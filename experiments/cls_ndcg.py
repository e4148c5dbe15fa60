"""NDCG at ten cutoffs against the usual baselines: Chapelle, Le and Smola (2007), Fig. 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Cell, Experiment, Finding, Picture, Report, Size, Table, Task
from experiments.cls import (
    CS,
    CUTS,
    DATA_NOTE,
    FOLDERS,
    MODEL_NOTE,
    NAMES,
    NDCGS,
    PAPER,
    SCALING_NOTE,
    compared,
    measured,
    ndcg_loss,
    regression,
    scaled_fold,
    tight,
)
from experiments.letor import FOLDS, SETS, Fold, choose, fold_average, pooled
from experiments.letor_published import mean_of, published
from experiments.rankers import ranker
from experiments.verdicts import Difference, about, alike, beats, unanimous, within
from marginrank import Ranker
from marginrank.model.plots import new_figure

OURS: Final = "tight"
EACH: Final = "tight, each k"
ALIKE: Final = "rankboost, scaled alike"
#: The preset: another reading of what the paper leaves open.
PRESET: Final = "chapelle-ndcg"
OTHERS: Final = (EACH, PRESET, "hinge", "ranksvm", "regression", "rankboost", ALIKE)
METHODS: Final = (OURS, *OTHERS)
#: What §5 says the gain is.
CLAIMED: Final = 0.02
#: Published rows that are drawn beside ours.
DRAWN: Final = ("ranksvm", "rankboost")

#: Rounds of RankBoost, one of which the validation queries choose.
ROUNDS: Final = (30, 100, 300)
#: RankBoost with features in [0, 1] in each query if the validation queries say so, or with those of the other methods.
BOOSTED: Final[Mapping[str, Sequence[str | None]]] = {"rankboost": (None, "query-minmax"), ALIKE: (None,)}


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
    split = scaled_fold(data, name, number, most)
    scores = _trained(method, split, Cs).predict(split.test)
    return measured(dict.fromkeys(CUTS, scores), split, name)


def _each_k(data: Path, *, name: str, number: int, most: int | None, Cs: Sequence[float]) -> dict[str, Any]:
    """NDCG@k of a model that was trained and chosen for NDCG@k, for every k."""
    split = scaled_fold(data, name, number, most)
    start = regression(split, Cs=Cs)
    chosen = {k: choose(tight(start, k), split, Cs=Cs, criterion=f"ndcg@{k}").ranker for k in CUTS}
    return measured({k: ranker.predict(split.test) for k, ranker in chosen.items()}, split, name)


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


def _report(results: Mapping[str, Any]) -> Report:
    """Return tables, curves and findings."""
    tests = {
        name: dict(zip(OTHERS, _compared(results, name, [(OURS, other) for other in OTHERS]), strict=True))
        for name in NAMES
    }
    return Report(
        [*(_table(results, name) for name in NAMES), _tests_table(results, tests)],
        [Picture("curves", "NDCG at cutoffs 1 to 10, as in Fig. 2; dotted lines are the publisher's.", _draw(results))],
        [
            *_ohsumed_findings(results),
            *_web_findings(results),
            _each_finding(results),
        ],
        [
            DATA_NOTE,
            SCALING_NOTE,
            MODEL_NOTE,
            "The preset chapelle-ndcg differs from “tight” in what the paper leaves open: A(r) = 1/√r, which §5.2 has, "
            "and a regression w0 with C = 100. A gain counts where both have it.",
            "Fig. 2 has no numbers, so the paper's values are not shown. Tables follow the scripts of "
            "the publisher, whose NDCG@k of a list shorter than k is 0: hence the fall from NDCG@8 on in MQ2008. Tests "
            "and the right picture follow eq. (1) and leave out queries without a relevant document.",
            "The published rows are means over folds, without values by query, and are not tested.",
            "Where the hinge leaves the weights at 0 (see cls-collapse), all documents of a query tie: the scripts "
            "take the order of the file, eq. (1) the mean over all orders.",
            "RankBoost has 30, 100 or 300 rounds, and features that are scaled as for the others or to [0, 1] in each "
            "query: the validation queries choose. In the row “scaled alike” they choose the rounds alone.",
        ],
    )


def _compared(results: Mapping[str, Any], name: str, pairs: Sequence[tuple[str, str]]) -> list[Difference]:
    """Compare the mean of NDCG@1 to NDCG@10 by query, a tenth of the sum that §5.1 tests."""
    return compared(results, name, pairs, "ndcg")


def _table(results: Mapping[str, Any], name: str) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (method, *fold_average(results, f"{name}/{method}", "official").tolist()) for method in METHODS
    ]
    rows += [(f"{method} (published)", *means) for method, means in results["published"][name].items()]
    caption = f"{SETS[name].title}: NDCG@k, mean of the test folds, policy {SETS[name].policy}"
    return Table(caption, ("method", *(f"@{k}" for k in CUTS)), rows)


def _tests_table(results: Mapping[str, Any], tests: Mapping[str, Mapping[str, Difference]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, by_method in tests.items():
        for other, row in by_method.items():
            gain = row.mean / _mean(results, name, other)
            rows.append((SETS[name].title, other, row.mean, *row.interval, f"{gain:+.1%}", row.p))
    columns = ("set", "tight against", "difference", "from", "to", "gain", "Wilcoxon p (Holm)")
    return Table("Mean of NDCG@1 to NDCG@10 by query, with simultaneous 95% intervals", columns, rows)


def _mean(results: Mapping[str, Any], name: str, method: str) -> float:
    return max(float(pooled(results, f"{name}/{method}", "ndcg").mean()), 1e-9)


def _gain_finding(results: Mapping[str, Any], name: str, other: str, where: str, section: str) -> Finding:
    """Test the gain that is claimed, with two readings of the paper."""
    mean = _mean(results, name, other)
    verdicts, evidence = [], []
    for method in (OURS, PRESET):
        (row,) = _compared(results, name, [(method, other)])
        verdicts.append(about([row], CLAIMED * mean))
        low, high = (end / mean for end in row.interval)
        evidence.append(f"{row}, a gain of {row.mean / mean:+.1%} [{low:+.1%}, {high:+.1%}]")
    return Finding(
        f"{where}, the large margin method has a better NDCG than {other}, by about 2%.",
        f"{PAPER}, {section}",
        unanimous(verdicts),
        "; ".join(evidence),
        f"{where}, the large margin method has a better NDCG than others, by about 2%",
    )


def _ohsumed_findings(results: Mapping[str, Any]) -> list[Finding]:
    findings = [_gain_finding(results, "ohsumed2", other, "On OHSUMED", "§5.3") for other in ("rankboost", "ranksvm")]
    rows = _compared(results, "ohsumed2", [(OURS, "rankboost"), (OURS, "ranksvm")])
    (scaled_alike,) = _compared(results, "ohsumed2", [(OURS, ALIKE)])
    findings.append(
        Finding(
            "On OHSUMED, the difference to RankBoost and to RankSVM is not significant.",
            f"{PAPER}, §5.3",
            unanimous([alike(rows), alike([scaled_alike, rows[1]])]),
            f"{'; '.join(map(str, rows))}; and with RankBoost on features scaled as for the others: {scaled_alike}",
        )
    )
    published = results["published"]["ohsumed2"]
    mean = float(fold_average(results, f"ohsumed2/{OURS}", "official").mean())
    by_query = pooled(results, f"ohsumed2/{OURS}", "ndcg")
    half = 1.96 * float(by_query.std(ddof=1)) / np.sqrt(len(by_query))
    printed = {method: sum(published[method]) / len(CUTS) for method in DRAWN if method in published}
    ends = {method: ((mean - half) / one - 1, (mean + half) / one - 1) for method, one in printed.items()}
    if printed:
        findings.append(
            Finding(
                "On OHSUMED, NDCG is around 2% above the results of RankBoost and RankSVM in the LETOR distribution.",
                f"{PAPER}, §5.3",
                within(ends.values(), 0.5 * CLAIMED, 1.5 * CLAIMED),
                f"mean of NDCG@1 to @10 {mean:.4f}, "
                + ", ".join(
                    f"{mean / printed[method] - 1:+.1%} [{low:+.1%}, {high:+.1%}] against {method}"
                    for method, (low, high) in ends.items()
                )
                + "; 1% to 3% count as around 2%; there are no published values by query, so the intervals are "
                "those of our mean",
            )
        )
    return findings


def _web_findings(results: Mapping[str, Any]) -> list[Finding]:
    findings = []
    for other in ("regression", "ranksvm"):
        one = _gain_finding(results, "mq2008", other, "On web search (here MQ2008)", "§5.1")
        (hinge,) = _compared(results, "mq2008", [("hinge", other)])
        findings.append(replace(one, evidence=f"{one.evidence}; with the hinge, as in §5.1: {hinge}"))
    return findings


def _each_finding(results: Mapping[str, Any]) -> Finding:
    (row,), (web,) = (_compared(results, name, [(OURS, EACH)]) for name in ("ohsumed2", "mq2008"))
    return Finding(
        "On OHSUMED, NDCG@10 is better to train for and to choose by than each NDCG@k, which is unstable.",
        f"{PAPER}, §5.3",
        beats([row]),
        f"NDCG of the test queries: {row}; on MQ2008 {web}",
    )


def _draw(results: Mapping[str, Any]) -> Any:
    """Draw a panel for each set; the hinge, far below the others, and a second RankBoost are left to the tables."""
    figure = new_figure(11.0, 4.2)
    axes = figure.subplots(1, len(NAMES))
    for panel, name, key in zip(axes, NAMES, ("official", "plain"), strict=True):
        shown = [method for method in METHODS if method not in ("hinge", ALIKE)]
        for method, marker in zip(shown, "osxv^D", strict=True):
            line = fold_average(results, f"{name}/{method}", key)
            panel.plot(CUTS, line, marker=marker, markersize=4, linewidth=2.2 if method == OURS else 1.2, label=method)
        for method, color in zip(DRAWN, ("gray", "black"), strict=True):
            if key == "official" and method in results["published"][name]:
                line = results["published"][name][method]
                panel.plot(CUTS, line, ":", color=color, label=f"{method} (published)")
        panel.set(xlabel="cutoff k", xticks=CUTS, title=SETS[name].title)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("NDCG@k, policy letor3")
    axes[1].set_ylabel("NDCG@k, eq. (1)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


EXPERIMENT: Final = Experiment(
    "cls-ndcg",
    "Large margin training for NDCG against the usual baselines",
    f"{PAPER}, Fig. 2 and §5",
    "Rankers for NDCG@10 with the profile A(r) = max(k + 1 − r, 0): under the tight bound of eq. (14), begun at a "
    "regression (“tight”), and under the convex hinge of eq. (12) (“hinge”). Beside them RankSVM, regression on the "
    "grades and RankBoost. “tight, each k” is retrained for each cutoff, as in §5.1.",
    FOLDERS,
    _plan,
    _report,
)
