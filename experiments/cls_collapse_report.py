"""Tables, plots and findings of `cls_collapse`: where the hinge is minimal, both bounds, and Fig. 1 on real queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from experiments.base import Cell, Finding, Picture, Report, Table
from experiments.cls import (
    DATA_NOTE,
    MODEL_NOTE,
    NAMES,
    PAPER,
    PROFILES,
    SCALING_NOTE,
    compared,
)
from experiments.letor import FOLDS, SETS, fold_average, pooled
from experiments.verdicts import Difference, beats, exact, in_all, rate, rate_interval
from marginrank.model.plots import new_figure
from marginrank.training.loss_minimizer import COLLAPSED

#: Feature maps: φdorm with the profiles of the paper, and φpo of Yue et al. (2007).
MAPS: Final[Mapping[str, str]] = {**{shape: f"A = {text}" for shape, text in PROFILES.items()}, "po": "φpo"}
#: Multiples t of the weights of a RankSVM.
LENGTHS: Final = tuple(round(float(t), 6) for t in np.logspace(-3, 3, 25))
KINDS: Final = ("hinge", "tight", "loss")
#: What rounding may take from an inequality.
ROUNDING: Final = 1e-9


def report(results: Mapping[str, Any]) -> Report:
    """Return tables, pictures and findings."""
    return Report(
        [_paths_table(results), _along_table(results), _test_table(results)],
        [
            Picture(
                "bounds", "Both bounds and the loss, on training queries, at w = t·w_RankSVM.", _draw_along(results)
            ),
            Picture(
                "figure-1",
                "Fig. 1 with the training queries of OHSUMED, fold 1, at w_RankSVM. The ideal ranking y is at the "
                "cross. Right of it are rankings with a higher output.",
                _draw_queries(results["figure 1"]),
            ),
        ],
        [
            _zero_finding(results),
            _trains_finding(results),
            _story_finding(results),
            _order_finding(results),
            _smaller_finding(results),
            _cure_finding(results),
        ],
        [
            DATA_NOTE,
            SCALING_NOTE,
            MODEL_NOTE,
            "The ideal ranking y has documents of one grade in a random order, as in the paper. "
            "y is among the rankings of the maximum, so that no slack is below 0.",
            "Fig. 1 of the paper is a sketch. Here it has the rankings of real queries.",
        ],
    )


def _paths(results: Mapping[str, Any], name: str, shape: str) -> list[Mapping[str, Any]]:
    keys = [f"{name}/{shape}/fold {number}" for number in FOLDS]
    return [results[key] for key in keys if key in results]


def _paths_table(results: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in NAMES:
        for shape, text in MAPS.items():
            paths = _paths(results, name, shape)
            if paths:
                Cs = paths[0]["Cs"]
                least = [min(one[key][-1] for one in paths) for key in ("objective", "lower bound")]
                largest = max(max(one["norm"]) for one in paths)
                rows.append((SETS[name].title, text, f"{Cs[0]:g} to {Cs[-1]:g}", *least, largest))
    columns = ("set", "feature map", "C", "objective / at 0", "lower bound / at 0", "largest ‖w‖")
    return Table(
        "The hinge of NDCG@10: least of the folds at the largest C, and largest weights for any C", columns, rows
    )


def _along_table(results: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in NAMES:
        means = {kind: fold_average(results, f"{name}/along", kind) for kind in KINDS}
        for at in range(0, len(LENGTHS), 4):
            rows.append((SETS[name].title, f"{LENGTHS[at]:g}", *(float(means[kind][at]) for kind in KINDS)))
    return Table(
        "Means over the training queries at w = t·w_RankSVM", ("set", "t", "hinge", "tight", "1 − NDCG@10"), rows
    )


def _cured(results: Mapping[str, Any], name: str) -> Difference:
    (row,) = compared(results, name, [("test tight", "test hinge")], "ndcg@10")
    return row


def _test_table(results: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in NAMES:
        means = [float(pooled(results, f"{name}/test {bound}", "ndcg@10").mean()) for bound in ("hinge", "tight")]
        row = _cured(results, name)
        rows.append((SETS[name].title, *means, *row.interval, row.p))
    columns = ("set", "hinge", "tight", "difference from", "to", "Wilcoxon p")
    return Table("NDCG@10 on the test queries; ties count their mean over all orders", columns, rows)


def _at_zero(results: Mapping[str, Any], name: str) -> tuple[list[bool], str]:
    """Return for each fold whether the hinge is minimal at w = 0, and the numbers."""
    paths = _paths(results, name, "truncated")
    zero = [min(one["lower bound"]) >= COLLAPSED for one in paths]
    reached, bound, norm = (
        min(min(one["objective"]) for one in paths),
        min(min(one["lower bound"]) for one in paths),
        max(max(one["norm"]) for one in paths),
    )
    return zero, (
        f"w = 0 is minimal in {sum(zero)} of {len(paths)} folds, for C up to {paths[0]['Cs'][-1]:g}: the smallest "
        f"objective is {reached:.4f} of that at 0, with a lower bound of {bound:.4f}; largest ‖w‖ {norm:.2g}"
    )


def _zero_finding(results: Mapping[str, Any]) -> Finding:
    zero, evidence = _at_zero(results, "ohsumed2")
    claim = "On OHSUMED, minimizing eq. (12) gives w = 0 even for very small λ."
    return Finding(claim, f"{PAPER}, §5.3", in_all(zero), evidence)


def _trains_finding(results: Mapping[str, Any]) -> Finding:
    zero, evidence = _at_zero(results, "mq2008")
    return Finding(
        "The hinge is minimal at w = 0 on some sets only: web search (here MQ2008) is not one of them.",
        f"{PAPER}, §4 and §5.1",
        in_all(not one for one in zero),
        evidence,
    )


def _story_finding(results: Mapping[str, Any]) -> Finding:
    queries = {kind: np.asarray(queries) for kind, queries in results["figure 1"].items()}
    good = (queries["worst above"] > 0) & (queries["loss"] < queries["random loss"])
    count, n = int(good.sum()), len(good)
    low, high = rate_interval(count, n)
    return Finding(
        "The prediction ŷ can be good while a bad ranking ỹ has a larger output than the ideal one, so that the hinge "
        "is large.",
        f"{PAPER}, Fig. 1",
        rate(count, n, least=0.5),
        f"true for {count / n:.0%} [{low:.0%}, {high:.0%}] of the training queries of OHSUMED, fold 1, at w_RankSVM, "
        "if good means better than a "
        f"random order (more than half counts); mean loss {queries['loss'].mean():.3f} of ŷ, "
        f"{queries['worst loss'].mean():.3f} of ỹ, "
        f"{queries['random loss'].mean():.3f} of a random order",
    )


def _order_finding(results: Mapping[str, Any]) -> Finding:
    along = [one for key, one in results.items() if "/along/" in key]
    least = [min(one[key] for one in along) for key in ("least of hinge − tight", "least of tight − loss")]
    return Finding(
        "The bound of eq. (14) is never above the hinge, and never below the loss.",
        f"{PAPER}, §4",
        exact(min(least) >= -ROUNDING),
        f"over all queries and t, hinge − tight is at least {least[0]:.1g}, and tight − loss at least {least[1]:.1g}",
    )


def _smaller_finding(results: Mapping[str, Any]) -> Finding:
    at, zero = LENGTHS.index(1.0), float(fold_average(results, "ohsumed2/along", "at zero"))
    here = {kind: float(fold_average(results, "ohsumed2/along", kind)[at]) for kind in KINDS}
    return Finding(
        "Where no w has a small hinge, the bound of eq. (14) can be much smaller.",
        f"{PAPER}, §4",
        exact(here["tight"] < zero < here["hinge"]),
        f"OHSUMED: both are {zero:.3f} at w = 0; at w_RankSVM, where the loss is {here['loss']:.3f}, the tight bound "
        f"is {here['tight']:.3f} and the hinge {here['hinge']:.1f}",
    )


def _cure_finding(results: Mapping[str, Any]) -> Finding:
    row = _cured(results, "ohsumed2")
    return Finding(
        "The bound of eq. (14) solves the problem of w = 0 on OHSUMED.",
        f"{PAPER}, §5.3",
        beats([row]),
        f"NDCG@10 on the test queries: {row}",
    )


def _draw_along(results: Mapping[str, Any]) -> Any:
    figure = new_figure(10.0, 4.0)
    axes = figure.subplots(1, len(NAMES), sharey=True)
    labels = ("hinge, eq. (12)", "tight bound, eq. (14)", "loss, 1 − NDCG@10")
    for panel, name in zip(axes, NAMES, strict=True):
        for kind, label, style in zip(KINDS, labels, ("-", "-", "--"), strict=True):
            panel.plot(LENGTHS, fold_average(results, f"{name}/along", kind), style, label=label)
        at_zero = float(fold_average(results, f"{name}/along", "at zero"))
        panel.axhline(at_zero, color="gray", linewidth=0.8, linestyle=":", label="both bounds at w = 0")
        panel.set(xscale="log", xlabel="t, for w = t·w_RankSVM", title=SETS[name].title, ylim=(0.2, 2.0))
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("mean over training queries")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def _draw_queries(queries: Mapping[str, list[float]]) -> Any:
    figure = new_figure(7.6, 4.2)
    axes = figure.subplots()
    predicted, worst = (queries["above"], queries["loss"]), (queries["worst above"], queries["worst loss"])
    gaps = np.full(len(queries["loss"]), np.nan)
    x, y = (np.column_stack([begin, end, gaps]).ravel() for begin, end in zip(predicted, worst, strict=True))
    axes.plot(x, y, color="gray", linewidth=0.5, alpha=0.6)
    axes.plot(*predicted, "o", label="ŷ, by score")
    axes.plot(*worst, "v", label="ỹ, of the bounds' maximum")
    axes.plot([0.0], [0.0], "x", color="black", markersize=10, markeredgewidth=2, label="y, ideal")
    axes.set(xlabel="output above the ideal ranking, w·Ψ(·) − w·Ψ(y)", ylabel="loss, 1 − NDCG@10")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    return figure
