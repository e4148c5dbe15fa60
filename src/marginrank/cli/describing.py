"""Rankers and data in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginrank.reporting.rankers import preset_of, weights
from marginrank.words import count, table

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.ranker import Ranker


def data_line(queries: Queries, paths: Sequence[Path]) -> str:
    """Name and count judged queries in a line."""
    names = ", ".join(path.name for path in paths)
    sizes = [
        count(len(queries), "query", "queries"),
        count(queries.n_documents, "document"),
        count(queries.n_features, "feature"),
    ]
    grades = f"grades {queries.grades.min():g} to {queries.grades.max():g}" if queries.n_documents else "no grades"
    return f"{names}: {', '.join([*sizes, grades])}"


def ranker_facts(ranker: Ranker) -> list[tuple[str, str]]:
    """The same for people."""
    solution, health = ranker.solution_, ranker.health_
    name = preset_of(ranker) or ranker.measure_
    scaled = "" if ranker.scaling_ is None else f", scaling {ranker.scaling_}"
    scaled += "" if ranker.weighting is None else f", weighting {ranker.weighting}"
    if health is None:
        return _baseline_facts(ranker, f"{name}: baseline, {ranker.form_.kind} form{scaled}")
    gap = "no certificate (tight bound)"
    if math.isfinite(solution.gap):
        share = 100 * solution.gap / abs(solution.primal) if solution.primal else 0.0
        gap = f"gap {solution.gap:.2g} ({share:.2g} %)"
    work = f"{count(solution.n_iter, 'iteration')}, {solution.passes:.0f} passes"
    state = "converged" if solution.converged else f"stopped: {solution.reason}"
    collapsed = "; the hinge is least at weights 0" if health.collapsed else ""
    return [
        ("method", f"{name}: {ranker.scorer} scorer, {ranker.bound_} bound, solver {ranker.solver_}{scaled}"),
        ("loss", ranker.loss_),
        ("C", f"{solution.C:g}"),
        ("objective", f"{solution.primal:.6g}, {gap}, {state} after {work}"),
        (
            "health",
            f"average slack {health.average_slack:.4g} of {health.slack_at_zero:.4g} at weights 0, "
            f"objective {100 * health.objective_ratio:.1f} % of that at 0, ‖w‖ {health.norm:.4g}{collapsed}",
        ),
    ]


def _baseline_facts(ranker: Ranker, method: str) -> list[tuple[str, str]]:
    """What there is to say where no loss was minimised."""
    from marginrank.methods.presets import parse_preset  # noqa: PLC0415

    solution = ranker.solution_
    state = "done" if solution.converged else f"stopped: {solution.reason}"
    return [
        ("method", method),
        ("trained", ranker.loss_),
        *([("C", f"{solution.C:g}")] if parse_preset(str(ranker.preset)).takes_C else []),
        (
            "objective",
            f"{solution.primal:.6g} in its own terms, no certificate (baseline), {state} after "
            f"{count(solution.n_iter, 'round')}",
        ),
    ]


def selection_text(ranker: Ranker) -> str | None:
    """The table of the choice that a ranker came from, as `tune` prints it; None if there was none."""
    from marginrank.tuning import Candidate, Selection  # noqa: PLC0415

    kept = getattr(ranker, "selection_", None)
    if kept is None:
        return None
    figures = [field.name for field in fields(Candidate) if field.name != "parameters"]
    candidates = [
        Candidate({name: value for name, value in one.items() if name not in figures}, *(one[name] for name in figures))
        for one in kept["candidates"]
    ]
    rest = {name: kept[name] for name in ("criterion", "policy", "rule", "held_out")}
    return str(Selection(tuple(candidates), kept["chosen"], ranker, **rest))


def weights_text(ranker: Ranker, most: int) -> str:
    """The largest weights, the step functions with the largest spread, or the features that trees ask for most."""
    rows = weights(ranker)
    if not rows:
        return f"none to tell apart in a ranker of the form {ranker.form_.kind!r}"
    ordered = sorted(rows, key=lambda row: -abs(row["size"]))[:most]
    heads, sign = ["feature", ranker.form_.sized_by], "+" if ranker.form_.kind == "linear" else ""
    if ranker.bins_ is None:
        return table([heads, *([row["feature"], f"{row['size']:{sign}.6g}"] for row in ordered)], right=[1])
    return table(
        [
            [*heads, "steps"],
            *([row["feature"], f"{row['size']:.6g}", _steps(row)] for row in ordered),
        ],
        right=[1],
    )


def _steps(row: dict[str, Any]) -> str:
    """Values of a step function with the thresholds between them, shortened where they are many."""
    words = [f"{row['values'][0]:.3g}"]
    for threshold, value in zip(row["thresholds"], row["values"][1:], strict=True):
        if f"{value:.3g}" != words[-1]:
            words += [f"|{threshold:.3g}|", f"{value:.3g}"]
    shown = words if len(words) <= 11 else [*words[:5], "...", *words[-5:]]
    missing = "" if row["missing"] is None else f"; missing {row['missing']:.3g}"
    return " ".join(shown) + missing
