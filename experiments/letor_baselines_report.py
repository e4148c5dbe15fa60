"""Tables and verdicts for known methods on LETOR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from experiments.base import Cell, Finding, Picture, Report, Table
from experiments.letor import FOLDS, SETS
from experiments.letor_published import mean_of
from experiments.verdicts import exact
from marginrank.model.plots import new_figure

METHODS: Final = {
    "ranksvm": "RankSVM",
    "rankboost": "RankBoost",
    "regression": "regression",
    "svmmap": "SVMmap",
    "lambdarank": "LambdaRank",
}
_CUTS: Final = range(1, 11)
MEASURES: Final = ("ap", *(f"ndcg@{k}" for k in _CUTS), *(f"p@{k}" for k in _CUTS))
#: A difference in MAP that wants an explanation.
CLOSE: Final = 0.01


class Variant(NamedTuple):
    """A choice that the publisher does not report, made otherwise."""

    title: str
    preset: str
    options: Mapping[str, Any]
    sets: tuple[str, ...] = ("ohsumed", "ohsumed2", "mq2008")


VARIANTS: Final = {
    "ranksvm-pairs": Variant("every pair counts the same, not every query", "ranksvm", {"weighting": "pairs"}),
    "ranksvm-raw": Variant("features as they are", "ranksvm", {"scaling": None}, ("ohsumed2",)),
    "ranksvm-standard": Variant("features standardized over all queries", "ranksvm", {"scaling": "standard"}),
    "rankboost-last": Variant("all rounds, none chosen", "rankboost", {"validation": False}),
    "rankboost-raw": Variant("features as they are", "rankboost", {"scaling": None}, ("ohsumed2",)),
}


def report(results: Mapping[str, Any]) -> Report:
    """Show ours beside the publisher's."""
    tables = results["published"]
    names = [name for name in SETS if any(one.startswith(f"{name}/") for one in results)]
    pairs = [(name, method) for name in names for method in METHODS if f"{name}/{method}" in results]
    shown = [_means(results, tables, pairs)]
    for name in names:
        methods = [method for given, method in pairs if given == name]
        shown += [_by_cut(results, tables, name, methods, "ndcg"), _by_cut(results, tables, name, methods, "p")]
    shown.append(_choices(results, names))
    compared = [pair for pair in pairs if pair[1] != "svmmap" and mean_of(tables, *pair, "ap") is not None]
    findings = [_map_finding(results, tables, *pair) for pair in compared]
    findings += [_ndcg_finding(results, tables, *pair) for pair in compared]
    return Report(shown, [_picture(results, tables, compared)], findings, _NOTES)


def fold_difference(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Standard error of the mean difference over folds; None unless both know theirs.

    >>> fold_difference([0.5, 0.3], [0.4, 0.4])         # differences 0.1 and -0.1: s.d. √2 / 10, over √2
    0.1
    >>> fold_difference([0.5, 0.3], [0.4]) is None
    True
    """
    if len(ours) != len(theirs) or len(ours) < 2:
        return None
    differences = np.subtract(ours, theirs)
    return round(float(np.std(differences, ddof=1) / np.sqrt(len(differences))), 6)


def _mean(results: Mapping[str, Any], task: str, measure: str = "ap") -> float:
    return float(np.mean(results[task]["means"][measure]))


def _means(results: Mapping[str, Any], tables: Mapping[str, Any], pairs: Sequence[tuple[str, str]]) -> Table:
    rows: list[list[Cell]] = []
    for name, method in pairs:
        one, ours = results[f"{name}/{method}"], _mean(results, f"{name}/{method}")
        theirs = mean_of(tables, name, method, "ap")
        of_folds = tables.get(name, {}).get(method, {}).get("ap", [])
        rows.append(
            [
                SETS[name].title,
                METHODS[method],
                ours,
                one["errors"]["ap"],
                theirs,
                None if theirs is None else f"{ours - theirs:+.4f}",
                fold_difference(one["means"]["ap"], of_folds),
            ]
        )
    columns = ("set", "method", "MAP", "s.e. over queries", "published", "difference", "its s.e. over folds")
    return Table("MAP, mean over the five folds", columns, rows)


def _by_cut(
    results: Mapping[str, Any], tables: Mapping[str, Any], name: str, methods: Sequence[str], measure: str
) -> Table:
    measures = [f"{measure}@{k}" for k in _CUTS]
    rows: list[list[Cell]] = []
    for method in methods:
        rows.append([METHODS[method], *(_mean(results, f"{name}/{method}", at) for at in measures)])
        theirs = [mean_of(tables, name, method, at) for at in measures]
        if any(value is not None for value in theirs):
            rows.append([f"{METHODS[method]}, published", *theirs])
    spelled = {"ndcg": "NDCG", "p": "P"}[measure]
    return Table(f"{SETS[name].title}: {spelled}@n", ("method", *(f"@{k}" for k in _CUTS)), rows)


def _choices(results: Mapping[str, Any], names: Sequence[str]) -> Table:
    rows = [(SETS[name].title, title, f"{change:+.4f}") for name in names for title, change in _changes(results, name)]
    return Table("Effect of other choices", ("set", "choice", "change of MAP"), rows)


def _changes(results: Mapping[str, Any], name: str, preset: str | None = None) -> list[tuple[str, float]]:
    """Return the change of MAP for each other choice."""
    changes = []
    for method in [method for method in METHODS if preset in (None, method) and f"{name}/{method}" in results]:
        tested = np.array(results[f"{name}/{method}"]["tested"])
        if tested.shape[1] > 1:
            change = float(tested.mean(axis=0).max()) - _mean(results, f"{name}/{method}")
            changes.append((f"{METHODS[method]}: the one C that is best on the test queries", change))
    for label, variant in VARIANTS.items():
        if preset in (None, variant.preset) and f"{name}/{label}" in results:
            change = _mean(results, f"{name}/{label}") - _mean(results, f"{name}/{variant.preset}")
            changes.append((f"{METHODS[variant.preset]}: {variant.title}", change))
    return changes


def _map_finding(results: Mapping[str, Any], tables: Mapping[str, Any], name: str, method: str) -> Finding:
    ours, theirs = _mean(results, f"{name}/{method}"), mean_of(tables, name, method, "ap") or np.nan
    difference = ours - theirs
    evidence = (
        f"MAP {ours:.4f}, published {theirs:.4f}, difference {difference:+.4f}; the standard error of a mean over "
        f"these queries is {results[f'{name}/{method}']['errors']['ap']:.4f}"
    )
    spread = fold_difference(
        results[f"{name}/{method}"]["means"]["ap"], tables.get(name, {}).get(method, {}).get("ap", [])
    )
    if spread is not None:
        evidence += f", that of the difference over the folds {spread:.4f}"
    changes = _changes(results, name, method)
    if changes:
        low, high = min(change for _, change in changes), max(change for _, change in changes)
        evidence += f"; other choices move it by {low:+.4f} to {high:+.4f}"
    if changes and abs(difference) > CLOSE:
        title, change = min(changes, key=lambda one: abs(difference + one[1]))
        evidence += f", and {difference + change:+.4f} is left with another ({title})"
    return Finding(
        f"{METHODS[method]} on {SETS[name].title} comes within {CLOSE} of the published MAP.",
        _source(name),
        exact(abs(difference) <= CLOSE),
        evidence,
        f"Baselines come within {CLOSE} of the published MAP",
    )


def _ndcg_finding(results: Mapping[str, Any], tables: Mapping[str, Any], name: str, method: str) -> Finding:
    one = results[f"{name}/{method}"]
    known = [f"ndcg@{k}" for k in _CUTS if mean_of(tables, name, method, f"ndcg@{k}") is not None]
    differences = {
        at: _mean(results, f"{name}/{method}", at) - (mean_of(tables, name, method, at) or 0) for at in known
    }
    in_errors = {at: abs(value) / max(one["errors"][at], 1e-9) for at, value in differences.items()}
    worst = max(in_errors, key=lambda at: in_errors[at])
    return Finding(
        f"NDCG@n of {METHODS[method]} on {SETS[name].title} is within a standard error of the published.",
        _source(name),
        exact(in_errors[worst] <= 1.0),
        f"of {len(known)} cuts {worst.upper()} is farthest: {_mean(results, f'{name}/{method}', worst):.4f}, published "
        f"{mean_of(tables, name, method, worst):.4f}, which is {in_errors[worst]:.1f} standard errors over queries"
        + _elsewhere(results, name, method, worst),
        "NDCG@n of baselines is within a standard error of the published",
    )


def _elsewhere(results: Mapping[str, Any], name: str, method: str, measure: str) -> str:
    """Spell out the means of the other choices for a method."""
    tasks = [f"{name}/{label}" for label, variant in VARIANTS.items() if variant.preset == method]
    means = [_mean(results, task, measure) for task in tasks if task in results]
    return f"; other choices give {', '.join(f'{mean:.4f}' for mean in means)}" if means else ""


def _source(name: str) -> str:
    return {"ohsumed2": "LETOR 2.0", "ohsumed": "LETOR 3.0", "mq2008": "LETOR 4.0"}[name] + ", published baselines"


def _picture(results: Mapping[str, Any], tables: Mapping[str, Any], compared: Sequence[tuple[str, str]]) -> Picture:
    figure = new_figure(7.2, 1.2 + 0.42 * len(compared))
    axes = figure.subplots()
    heights = np.arange(len(compared))
    ours = [_mean(results, f"{name}/{method}") for name, method in compared]
    errors = [results[f"{name}/{method}"]["errors"]["ap"] for name, method in compared]
    axes.errorbar(ours, heights, xerr=errors, fmt="o", capsize=3, label="ours, ± one standard error over queries")
    theirs = [mean_of(tables, name, method, "ap") for name, method in compared]
    axes.plot(theirs, heights, "D", fillstyle="none", color="black", label="published")
    axes.set_yticks(heights, [f"{METHODS[method]}, {SETS[name].title}" for name, method in compared])
    axes.invert_yaxis()
    axes.set(xlabel="MAP")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return Picture("map", "Mean average precision, ours and published, mean over the five folds.", figure)


_NOTES: Final = (
    "The features of LETOR 3.0 and 4.0 are those that the publisher scaled by query. Those of LETOR 2.0 are not scaled "
    "in the file, and are brought to [0, 1] by query here, as in the later releases.",
    "RankSVM here is the mean over queries of the mean hinge over pairs, with C a power of ten from 0.001 to 10,000. "
    "Programs of the time sum over pairs, which is one of the other choices.",
    "RankBoost has 300 rounds at most and thresholds at 254 quantiles of each feature. LambdaRank is LightGBM with its "
    "defaults and at most 100 trees, their number by NDCG on the validation queries; nothing is published to compare.",
    "The standard error over queries says how far a mean would move on other queries; two methods on the same queries "
    "move together, so that of the difference over folds is the fairer yardstick where the folds are published.",
    "The numbers of LETOR 3.0 are means over the folds, known for four cuts of NDCG and MAP only. Those of SVMmap are "
    "second-hand, and decide nothing.",
    f"All numbers follow the official scripts: {len(FOLDS)} folds, queries without relevant documents count 0, and "
    "NDCG@n of a list shorter than n is 0, which is why it falls on MQ2008.",
)
