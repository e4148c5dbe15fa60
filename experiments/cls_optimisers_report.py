"""What `cls_optimisers` shows: seconds and passes, and whether three optimisers take about the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from experiments.base import Cell, Finding, Picture, Report, Table
from experiments.cls import DATA_NOTE, PAPER, SCALING_NOTE
from experiments.letor import SETS
from experiments.verdicts import in_all
from marginrank.plots import new_figure

#: Gaps as shares of the objective.
GAPS: Final = (1e-2, 1e-3)
#: The loss of the paper, with A(r) = max(k + 1 − r, 0).
OWN: Final = "NDCG@10, φdorm"
#: The optimisers of §3.
THREE: Final = ("n-slack", "subgradient", "bundle")
#: Times are of the same order if the longest is at most so many times the shortest.
ORDER: Final = 10.0


def report(results: Mapping[str, Any]) -> Report:
    """Give tables, pictures and findings."""
    problems = _problems(results)
    return Report(
        [_table(results), _spread_table(problems)],
        [Picture("gaps", "The gap, as a share of the objective, against seconds, for the larger C.", _draw(problems))],
        [_same_finding(problems), _bottleneck_finding(problems)],
        [
            DATA_NOTE,
            SCALING_NOTE,
            "The paper's times are of one private set of 1,500 queries and several hundred features, on a machine of "
            "2007: about 15 minutes. Here only the ratios between optimisers can be compared.",
            "The loss of the paper, NDCG@10 with φdorm, is least at w = 0 here or near it (see cls-collapse), where "
            "all optimisers begin: their time is that of the proof. The losses beside it have other optima.",
            "The paper solves the assignment problem of eq. (8) by Kuhn–Munkres. Here rankings are merged grade by "
            "grade, which is exact as well.",
            "A dash: not reached in 10 seconds. Seconds are medians of up to three runs on one thread. The bundle "
            "takes the risk in parts with a plane each. The subgradients of §3.3.1 are given a certificate.",
        ],
    )


def _problems(results: Mapping[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Results of the solvers by set, loss and C."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for key, one in results.items():
        name, loss, C, solver = key.split("/")
        found.setdefault((name, loss, C), {})[solver] = one
    return found


def _title(problem: tuple[str, str, str]) -> str:
    name, loss, C = problem
    return f"{SETS[name].title}, {loss}, {C}"


def _table(results: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for problem, solvers in _problems(results).items():
        for solver, one in solvers.items():
            cells: list[Cell] = []
            for gap in GAPS:
                seconds, passes = one["seconds"][f"{gap:g}"], one["passes"][f"{gap:g}"]
                cells += [seconds, None if passes is None else round(passes)]
            rows.append((_title(problem), solver, *cells, one["objective"], f"{one['share in the risk']:.0%}"))
    columns = ["problem", "solver"]
    columns += [f"{unit} to {gap:.1%}" for gap in GAPS for unit in ("seconds", "passes")]
    return Table("Until the gap is small enough", (*columns, "objective / at 0", "time in the risk"), rows)


def _spread(solvers: Mapping[str, Any], gap: float) -> float | None:
    """Longest over shortest time of the three; None where one of them did not get there."""
    seconds = [solvers[solver]["seconds"][f"{gap:g}"] for solver in THREE]
    return None if None in seconds else max(seconds) / max(min(seconds), 1e-9)


def _spread_table(problems: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> Table:
    rows = [(_title(problem), *(_spread(solvers, gap) for gap in GAPS)) for problem, solvers in problems.items()]
    columns = ("problem", *(f"to {gap:.1%}" for gap in GAPS))
    return Table("Longest over shortest time of n-slack, subgradient and bundle", columns, rows)


def _same_finding(problems: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> Finding:
    spreads = [_spread(solvers, gap) for solvers in problems.values() for gap in GAPS]
    known = [spread for spread in spreads if spread is not None]
    within = sum(spread <= ORDER for spread in known)
    first = [_first(solvers) for solvers in problems.values()]
    return Finding(
        "Cutting planes, subgradients and bundles take training times of the same order.",
        f"{PAPER}, §5.1",
        in_all(spread is not None and spread <= ORDER for spread in spreads),
        f"the longest time is at most {ORDER:g} times the shortest in {within} of {len(spreads)} cases (problem and "
        f"gap), and at most {max(known, default=float('nan')):.0f} times where all got there; in {spreads.count(None)} "
        f"cases one did not get there in 10 seconds; first at {min(GAPS):.1%}: "
        + ", ".join(f"{solver} {first.count(solver)} times" for solver in THREE),
    )


def _first(solvers: Mapping[str, Any]) -> str | None:
    """Give which of the three was the first to reach the smallest gap."""
    reached = {solver: solvers[solver]["seconds"][f"{min(GAPS):g}"] for solver in THREE}
    known = {solver: seconds for solver, seconds in reached.items() if seconds is not None}
    return min(known, key=lambda solver: float(known[solver])) if known else None


def _bottleneck_finding(problems: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> Finding:
    shares = [solvers["n-slack"]["share in the risk"] for (_, loss, _), solvers in problems.items() if loss == OWN]
    return Finding(
        "With cutting planes the quadratic program is the bottleneck; the assignment problem is very fast beside it.",
        f"{PAPER}, §3.2",
        in_all(share < 0.5 for share in shares),
        f"{OWN}: n-slack spends {min(shares):.0%} to {max(shares):.0%} of its time on the risk, which includes the "
        "search for the most violated rankings; less than half counts as fast",
    )


def _draw(problems: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> Any:
    """Draw a panel for each set and loss, at the largest C."""
    shown = {(name, loss): (C, solvers) for (name, loss, C), solvers in problems.items()}
    figure = new_figure(12.0, 6.4)
    panels = figure.subplots(-(-len(shown) // 3), 3, squeeze=False).ravel()
    lines = {}
    for axes, ((name, loss), (C, solvers)) in zip(panels, shown.items(), strict=False):
        for number, (solver, one) in enumerate(solvers.items()):
            if one["landmarks"]:
                seconds, gaps = zip(*one["landmarks"], strict=True)
                lines[solver] = axes.plot(seconds, gaps, marker="osv^Dx"[number], markersize=3, color=f"C{number}")[0]
        axes.axhline(min(GAPS), color="gray", linewidth=0.8, linestyle=":")
        axes.set(xscale="log", yscale="log", ylim=(1e-4, 20), title=_title((name, loss, C)), xlabel="seconds")
        axes.title.set_fontsize("small")
        axes.grid(alpha=0.3)
    for axes in panels[::3]:
        axes.set_ylabel("gap / objective")
    figure.legend(lines.values(), lines.keys(), loc="outside right upper", frameon=False)
    return figure
