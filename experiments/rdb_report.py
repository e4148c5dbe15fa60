"""Tables, plots and findings on risk bounds: Riezler and De Bona (2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from experiments.base import Finding, Picture, Report, Table
from experiments.letor import SETS
from experiments.verdicts import conjunction, exact, rate, rate_interval, within
from marginrank.evaluation.paired_tests import bca_interval
from marginrank.model.plots import new_figure
from marginrank.typing import BoolArray, FloatArray

#: Probability that a bound may fail.
DELTA: Final = 0.05
#: The C of the tables over n, and of the pictures.
SHOWN_C: Final = 0.1
#: Which bound of the paper is for which method.
PRINTED_IN: Final = {"svmmap": "Corollary 3", "svmauc": "Corollary 2", "position-hinge": "Corollary 1"}
_RESAMPLES: Final = 1000
_PAPER: Final = "Riezler and De Bona (2009)"
_COLUMNS: Final = ("gap", "95% interval", "2β", "stability", "argmax", "paper, printed", "paper, repaired")
_LINES: Final = (
    ("mean gap", "bound on the mean, 2β", ":"),
    ("stability", "stability", "-"),
    ("argmax", "argmax", "--"),
)
_NOTES: Final = (
    "The paper has no experiment; it asks for one.",
    "Queries without a relevant or without an irrelevant document are left out.",
    "Each split is a random order of the queries: the first n train, all others test. All settings share the orders.",
    "The gap is the mean of the trained loss over the test queries less that over the training queries. In the tables "
    "the gap at w = 0 is subtracted, which is 0 on average and has most of the noise in common.",
    "Intervals are over splits of one set of queries, so they do not say how another set would differ.",
    "Norms, Lipschitz constants and sizes are the largest of all queries of the set, which stand for all that can be "
    "drawn. B is the norm that no minimizer exceeds.",
    "Corollaries 1 and 2 are per pair: times the most pairs of a query for the number of pairs. For svmauc, whose φpo "
    "counts a pair twice, Corollary 2 is taken at twice the weights.",
    "The position hinge is trained with the repaired margins.",
)


class Cell(NamedTuple):
    """One setting: all that its splits have in common."""

    name: str
    method: str
    C: float
    n: int

    def __str__(self) -> str:
        return f"{self.method} on {SETS[self.name].title}, C = {self.C:g}, {self.n} queries"


class Summary(NamedTuple):
    """One setting over all splits.

    Args:
        raw: Test risk less training risk of each split.
        gaps: The same less that at w = 0, whose mean is 0: the same mean with less noise.
        mean: Mean of the gaps.
        low: Lower end of its interval.
        high: Upper end.
        target: Mean test loss of what is bounded.
        bounds: What each bound adds to the empirical risk, at most over the splits; logarithms for those of the paper.
    """

    raw: FloatArray
    gaps: FloatArray
    mean: float
    low: float
    high: float
    target: float
    bounds: Mapping[str, float]


def report(results: Mapping[str, Any]) -> Report:
    """Tables, pictures and findings of all splits."""
    cells = summaries(results)
    names = list(dict.fromkeys(cell.name for cell in cells))
    return Report(
        [_by_size(cells, name) for name in names] + [_by_C(cells, name) for name in names],
        [
            Picture("gaps", f"Measured gaps and bounds on them, C = {SHOWN_C:g}.", _draw_gaps(cells, names)),
            Picture("rankings", "The bounds that count rankings, as powers of ten.", _draw_rankings(cells, names)),
        ],
        findings(cells, results),
        _NOTES,
    )


def findings(cells: Mapping[Cell, Summary], results: Mapping[str, Any]) -> list[Finding]:
    """Test the bounds on the summaries, and which hinge dominates on the results."""
    return [
        _stability_holds(cells),
        _mean_gap_holds(cells),
        _argmax_is_tighter(cells),
        _falls(cells),
        _pairs_hold(cells),
        _rankings_say_something(cells),
        _dominates(results),
    ]


def summaries(results: Mapping[str, Any]) -> dict[Cell, Summary]:
    """Put the splits of each setting together, in the order of tables."""
    rows: dict[Cell, list[Mapping[str, Any]]] = {}
    for task, rows_of_task in results.items():
        name, _, kind = task.partition("/")
        for row in rows_of_task if kind.startswith("split") else ():
            rows.setdefault(Cell(name, row["method"], row["C"], row["n"]), []).append(row)
    methods = list(PRINTED_IN)
    ordered = sorted(rows, key=lambda cell: (cell.name, methods.index(cell.method), cell.C, cell.n))
    return {cell: _summary(rows[cell]) for cell in ordered}


def _summary(rows: Sequence[Mapping[str, Any]]) -> Summary:
    raw = np.array([row["test"] - row["train"] for row in rows])
    gaps = raw - [row["gap at 0"] for row in rows]
    return Summary(
        raw,
        gaps,
        float(gaps.mean()),
        *bca_interval(gaps, 0.95, _RESAMPLES, 0),
        float(np.mean([row["target"] for row in rows])),
        {kind: max(row["bounds"][kind] for row in rows) for kind in rows[0]["bounds"]},
    )


def _row(one: Summary) -> tuple[float | str, ...]:
    bounds = one.bounds
    paper = (_power(bounds["printed"]), _power(bounds["repaired"]))
    interval = f"[{one.low:+.4f}, {one.high:+.4f}]"
    return (one.mean, interval, bounds["mean gap"], bounds["stability"], bounds["argmax"], *paper)


def _power(exponent: float) -> float | str:
    return f"10^{exponent:,.0f}" if exponent > 6 else float(10.0**exponent)


def _by_size(cells: Mapping[Cell, Summary], name: str) -> Table:
    rows = [
        (f"{cell.method} ({PRINTED_IN[cell.method]})", cell.n, *_row(one))
        for cell, one in cells.items()
        if cell.name == name and cell.C == SHOWN_C
    ]
    caption = f"{SETS[name].title}: gap of the trained loss and bounds on it, C = {SHOWN_C:g}, δ = {DELTA:g}"
    return Table(caption, ("method", "queries", *_COLUMNS), rows)


def _by_C(cells: Mapping[Cell, Summary], name: str) -> Table:
    most = max(cell.n for cell in cells if cell.name == name)
    rows = [
        (cell.method, cell.C, one.target, *_row(one))
        for cell, one in cells.items()
        if cell.name == name and cell.n == most
    ]
    caption = (
        f"{SETS[name].title}: the same by C, {most} training queries; test loss is 1 − AP or the share of wrong pairs"
    )
    return Table(caption, ("method", "C", "test loss", *_COLUMNS), rows)


def _line(cells: Mapping[Cell, Summary], name: str, method: str, C: float) -> tuple[FloatArray, list[Summary]]:
    """Return numbers of training queries with their summaries."""
    line = [cell for cell in cells if cell[:3] == (name, method, C)]
    return np.array([cell.n for cell in line], dtype=np.float64), [cells[cell] for cell in line]


def _draw_gaps(cells: Mapping[Cell, Summary], names: Sequence[str]) -> Any:
    figure = new_figure(10.0, 3.2 * len(names))
    panels = figure.subplots(len(names), len(PRINTED_IN), squeeze=False, sharex="row", sharey=True)
    for row, name in zip(panels, names, strict=True):
        for axes, method in zip(row, PRINTED_IN, strict=True):
            _draw_panel(axes, *_line(cells, name, method, SHOWN_C), pairwise=method != "svmmap")
            axes.set_title(f"{SETS[name].title}, {method}", fontsize="medium")
        row[0].set_ylabel("risk less empirical risk")
    figure.legend(*panels[0][-1].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw_panel(axes: Any, n: FloatArray, selected: Sequence[Summary], *, pairwise: bool) -> None:
    means = np.array([one.mean for one in selected])
    spread = np.abs(np.array([[one.low, one.high] for one in selected]).T - means)
    axes.errorbar(n, means, spread, fmt="o", color="black", capsize=3, label="measured gap")
    for kind, label, style in _LINES:
        axes.plot(n, [one.bounds[kind] for one in selected], style, label=label)
    if pairwise:
        axes.plot(n, [10 ** one.bounds["repaired"] for one in selected], "-.", label="paper, repaired")
    axes.axhline(1.0, color="gray", linewidth=0.8)
    axes.set_yscale("log")
    _set_queries(axes, n)


def _draw_rankings(cells: Mapping[Cell, Summary], names: Sequence[str]) -> Any:
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    for name in names:
        n, selected = _line(cells, name, "svmmap", SHOWN_C)
        for kind, label in (("repaired", "Corollary 3"), ("theorem 4", "Theorem 4")):
            axes.plot(n, [one.bounds[kind] for one in selected], "o-", label=f"{label}, {SETS[name].title}")
    _set_queries(axes, max((_line(cells, name, "svmmap", SHOWN_C)[0] for name in names), key=len))
    axes.set(ylim=(0, None), ylabel="log10 of the bound")
    axes.legend(frameon=False, fontsize="small")
    return figure


def _set_queries(axes: Any, n: FloatArray) -> None:
    axes.set(xscale="log", xlabel="training queries")
    axes.set_xticks(n[::2], [f"{one:g}" for one in n[::2]])
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def _most_broken(settings: Sequence[BoolArray]) -> tuple[int, int]:
    """Return how many splits are above a bound, in the setting in which they are most, and of how many."""
    worst = max(settings, key=lambda above: float(above.mean()))
    return int(worst.sum()), len(worst)


def _excluded(count: int, n: int) -> str:
    """Describe how often something happened, and which rates that excludes.

    >>> _excluded(0, 30)
    '0 of 30 splits at most, which excludes rates above 12% only (95% interval)'
    """
    _, high = rate_interval(count, n)
    return f"{count} of {n} splits at most, which excludes rates above {100 * high:.0f}% only (95% interval)"


def _stability_holds(cells: Mapping[Cell, Summary]) -> Finding:
    broken, n = _most_broken([one.raw > one.bounds["stability"] for one in cells.values()])
    ratios = {cell: float(one.raw.max() / one.bounds["stability"]) for cell, one in cells.items()}
    closest = max(ratios, key=ratios.__getitem__)
    selected = [one for cell, one in cells.items() if cell.method != "position-hinge"]
    useful = sum(one.bounds["stability"] < 1.0 for one in selected)
    return Finding(
        f"Risk less empirical risk stays below the bound by stability in {1 - DELTA:.0%} of samples or more.",
        "Bousquet and Elisseeff (2002), with the constants of structured hinges",
        rate(broken, n, most=DELTA),
        f"above it in {_excluded(broken, n)}; the largest gap is {ratios[closest]:.0%} of the bound "
        f"({closest}); the bound is below 1, the largest loss, in {useful} of {len(selected)} settings of svmmap and "
        "svmauc",
    )


def _mean_gap_holds(cells: Mapping[Cell, Summary]) -> Finding:
    excess = [[value - one.bounds["mean gap"] for value in (one.mean, one.low, one.high)] for one in cells.values()]
    closest = max(cells, key=lambda cell: cells[cell].mean / cells[cell].bounds["mean gap"])
    one = cells[closest]
    return Finding(
        "The mean of the gap is at most 2β = 2CG²/n.",
        "Bousquet and Elisseeff (2002), with the constants of structured hinges",
        within([(low, high) for _, low, high in excess], most=0.0),
        f"larger in {sum(mean > 0 for mean, _, _ in excess)} of {len(cells)} settings, with all of its interval in "
        f"{sum(low > 0 for _, low, _ in excess)}; closest: mean gap "
        f"{one.mean:.4f} [{one.low:+.4f}, {one.high:+.4f}] against {one.bounds['mean gap']:.4f} ({closest})",
    )


def _argmax_is_tighter(cells: Mapping[Cell, Summary]) -> Finding:
    selected = [one for cell, one in cells.items() if cell.method == "svmmap"]
    broken, n = _most_broken([one.raw > one.bounds["argmax"] for one in selected])
    smaller = all(np.log10(one.bounds["argmax"]) < one.bounds["repaired"] for one in selected)
    values, least = [one.bounds["argmax"] for one in selected], min(one.bounds["repaired"] for one in selected)
    return Finding(
        "Tighter bounds may be given for learners that take the largest hinge.",
        f"{_PAPER}, section 5",
        conjunction([exact(smaller), rate(broken, n, most=DELTA)]),
        f"the bound for the largest hinge adds {min(values):.3g} to {max(values):.3g} to the empirical risk, "
        f"Corollary 3 at least 10^{least:,.0f}; gaps are above the former in {_excluded(broken, n)}",
    )


def _falls(cells: Mapping[Cell, Summary]) -> Finding:
    largest = max(cell.C for cell in cells)
    lines = dict.fromkeys((cell.name, cell.method) for cell in cells)
    changes = {line: _change(*_line(cells, *line, largest)) for line in lines}
    shown = "; ".join(
        f"{method} on {SETS[name].title} {mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        for (name, method), (mean, low, high) in changes.items()
    )
    return Finding(
        "The gap falls with the number n of training queries at least as fast as the bounds do, as 1/√n.",
        f"{_PAPER}, Theorems 3 and 4",
        within([(low, high) for _, low, high in changes.values()], most=0.0),
        f"√n times the gap, from the fewest to the most queries, with 95% intervals, C = {largest:g}: {shown}",
    )


def _change(n: FloatArray, line: Sequence[Summary]) -> tuple[float, float, float]:
    """Mean change of √n·gap from the fewest to the most queries, and the ends of its interval over splits.

    >>> few = Summary(np.zeros(2), np.array([0.5, 0.5]), 0.5, 0, 0, 0, {})
    >>> _change(np.array([4.0, 16.0]), [few, few._replace(gaps=np.array([0.125, 0.125]))])     # 4·⅛ − 2·½
    (-0.5, -0.5, -0.5)
    """
    change = np.sqrt(n[-1]) * line[-1].gaps - np.sqrt(n[0]) * line[0].gaps
    return float(change.mean()), *bca_interval(change, 0.95, _RESAMPLES, 0)


def _pairs_hold(cells: Mapping[Cell, Summary]) -> Finding:
    selected = [one for cell, one in cells.items() if cell.method != "svmmap"]
    broken, n = _most_broken([one.raw > 10 ** one.bounds["repaired"] for one in selected])
    useful = sum(one.bounds["repaired"] < 0 for one in selected)
    return Finding(
        f"Corollaries 1 and 2, per pair and with repaired constants, hold in {1 - DELTA:.0%} of samples or more.",
        f"{_PAPER}, Corollaries 1 and 2",
        rate(broken, n, most=DELTA),
        f"the gap is above the bound in {_excluded(broken, n)}; the smallest bound on it is "
        f"{10 ** min(one.bounds['repaired'] for one in selected):.3g}, and {useful} of {len(selected)} are below 1",
    )


def _rankings_say_something(cells: Mapping[Cell, Summary]) -> Finding:
    selected = [one.bounds for cell, one in cells.items() if cell.method == "svmmap"]
    average, every = (min(bounds[kind] for bounds in selected) for kind in ("repaired", "theorem 4"))
    return Finding(
        "Corollary 3 and Theorem 4 bound the loss of average precision below 1, its largest value.",
        f"{_PAPER}, Corollary 3 and Theorem 4",
        exact(average < 0),
        f"they add at least 10^{average:,.0f} and 10^{every:,.0f} to the empirical risk, in all {len(selected)} "
        "settings",
    )


def _dominates(results: Mapping[str, Any]) -> Finding:
    counts = {name.partition("/")[0]: one for name, one in results.items() if name.endswith("/dominance")}
    shown = "; ".join(
        f"{SETS[name].title} {one['levels']} times in {one['tried']:,}, with the repaired margins {one['bound']} times"
        for name, one in counts.items()
    )
    return Finding(
        "The pairwise hinge is at least the number of pairs in the wrong order.",
        f"{_PAPER}, section 3",
        exact(not any(one["levels"] for one in counts.values())),
        f"queries and weights for which it is smaller: {shown}",
    )
