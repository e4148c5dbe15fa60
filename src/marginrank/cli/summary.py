"""Models and data in words."""

from __future__ import annotations

import inspect
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from marginrank.runtime.text import count, printable, table

if TYPE_CHECKING:
    from marginrank.data.partitions import AnyQueries
    from marginrank.evaluation.evaluation import Unjudged
    from marginrank.model.model import Health, Model

#: Files that are named one by one.
_MOST_NAMES: Final = 8
#: Why training ended, in words.
STATES: Final[Mapping[str, str]] = {
    "converged": "converged",
    "stationary": "stationary",
    "max_iter": "stopped at the maximum number of iterations",
    "time_limit": "stopped at the time limit",
    "callback": "stopped early",
    "interrupted": "interrupted",
}


def data_line(queries: AnyQueries, paths: Sequence[Path]) -> str:
    """Name and count judged queries in a line."""
    names = [printable(path.name) for path in paths]
    shown = ", ".join(names) if len(names) <= _MOST_NAMES else f"{names[0]}, ..., {names[-1]} ({len(names)} files)"
    return f"{shown}: {sizes_line(queries)}"


def sizes_line(queries: AnyQueries) -> str:
    """Count judged queries in a line."""
    sizes = [
        count(len(queries), "query", "queries"),
        count(queries.n_documents, "document"),
        count(queries.n_features, "feature"),
    ]
    grades = "no grades"
    if queries.has_grades and queries.n_documents:
        given = queries.grades
        known = list(given) if isinstance(given, dict) else given[given >= 0]
        grades = f"grades {min(known):g} to {max(known):g}" if len(known) else "no grades"
        grades += f", {queries.n_unjudged:,} unjudged" if queries.n_unjudged else ""
    return ", ".join([*sizes, grades])


def brief_facts(model: Model) -> list[tuple[str, str]]:
    """Describe a model by its method, measure, scorer and C, and say if its training was cut short."""
    from marginrank.reporting.explanation import takes_C  # noqa: PLC0415

    solution, method = model.solution, model.method
    rounds = count(solution.n_iter, "iteration" if model.health is not None else "round")
    cut_short = solution.reason not in ("converged", "stationary")
    return [
        *([] if method.preset is None else [("method", method.preset)]),
        ("measure", method.measure),
        ("scorer", model.form.kind),
        *([("C", f"{solution.C:g}")] if model.health is not None and takes_C(model) else []),
        *([("training", f"{STATES[solution.reason]} after {rounds}")] if cut_short else []),
    ]


def model_facts(model: Model) -> list[tuple[str, str]]:
    """Describe how a model was trained and how good its optimum is, in a few lines."""
    solution, health, method = model.solution, model.health, model.method
    name = method.preset or method.measure
    scaled = "" if model.scaling is None else f", scaling {model.scaling}"
    scaled += "" if method.weighting is None else f", weighting {method.weighting}"
    state = STATES[solution.reason]
    if health is None:
        return [
            ("method", f"{name}: baseline, {model.form.kind} model{scaled}"),
            ("trained", method.trained),
            (
                "objective",
                f"{solution.primal:.6g} in its own terms, no certificate (baseline), "
                f"{'done' if state == 'stationary' else state} after {count(solution.n_iter, 'round')}",
            ),
        ]
    gap = "no certificate" + (" (tight bound)" if method.bound == "tight" else "")
    if math.isfinite(solution.gap):
        share = 100 * solution.gap / abs(solution.primal) if solution.primal else 0.0
        gap = f"gap {solution.gap:.2g} ({share:.2g}%)"
    from marginrank.reporting.explanation import takes_C  # noqa: PLC0415

    work = f"{count(solution.n_iter, 'iteration')}, {count(round(solution.passes), 'pass', 'passes')}"
    work += "" if solution.n_planes is None else f", {count(solution.n_planes, 'cutting plane')}"
    return [
        ("method", f"{name}: {model.form.kind} scorer, {method.bound} bound, solver {method.solver}{scaled}"),
        ("loss", method.trained),
        *([("C", f"{solution.C:g}")] if takes_C(model) else []),
        ("objective", f"{solution.primal:.6g}, {gap}, {state} after {work}"),
        ("health", _health(health)),
    ]


def _health(health: Health) -> str:
    collapsed = "; the hinge is minimal at w = 0" if health.collapsed else ""
    return (
        f"average slack {health.average_slack:.4g} of {health.slack_at_zero:.4g} at w = 0, "
        f"objective {100 * health.objective_ratio:.1f}% of that at 0, ‖w‖ {health.norm:.4g}{collapsed}"
    )


def health_lines(health: Health, measure: str) -> list[str]:
    """Describe the fit to the training queries, and what it means."""
    before = health.slack_at_zero
    learned = 100 * (1 - health.average_slack / before) if before else 0.0
    return [
        f"health: {_health(health)}",
        f"  slack is what is minimized instead of 1 - {measure}; training lowered it by {learned:.0f}%",
        "  (near 0%: nothing was learned; 100%: every training query is ranked perfectly)",
    ]


def unjudged_line(unjudged: Mapping[str, Unjudged], rule: str = "irrelevant") -> str:
    r"""Name the systems that return documents without a judgement; nothing where there are none.

    >>> from marginrank.evaluation.evaluation import Unjudged
    >>> unjudged_line({"bm25": Unjudged(10, 3, 24), "dense": Unjudged(10, 0, 24)})
    '\nunjudged, and counted as not relevant: 12.5% of the first 10 documents of bm25'
    """
    named = [
        f"{100 * one.share:.1f}% of the first {one.k} documents of {printable(name)}"
        for name, one in unjudged.items()
        if one.documents
    ]
    counted = "counted as not relevant" if rule == "irrelevant" else "left out"
    return f"\nunjudged, and {counted}: {', '.join(named)}" if named else ""


def weights_text(model: Model, most: int) -> str:
    """Return a table of the largest weights, the curves with the largest spread, or the features split on most."""
    from marginrank.reporting.explanation import feature_records  # noqa: PLC0415

    rows = feature_records(model)
    if not rows:
        return f"none: the scores of a {model.form.kind} model are not made of features"
    ordered = sorted(rows, key=lambda row: -abs(row["size"]))[:most]
    heads, sign = ["feature", model.form.sized_by], "+" if model.form.kind == "linear" else ""
    if "values" not in rows[0]:
        return table([heads, *([row["feature"], f"{row['size']:{sign}.6g}"] for row in ordered)], right=[1])
    return table(
        [[*heads, "steps"], *([row["feature"], f"{row['size']:.6g}", _steps(row)] for row in ordered)], right=[1]
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


_MARKUP: Final = re.compile(r":\w+:`([^`]*)`|``(.*?)``|`~?([^`]*)`")
#: A line that starts an item of a list, or the description of a parameter.
_ITEM: Final = re.compile(r"(- |\w+: )")
_WIDEST: Final = 100


def terminal_width() -> int:
    """Return the width of the terminal, but not more than is pleasant to read."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


def screen_width() -> int | None:
    """Return the width of the terminal that standard output is; None for files and pipes, where nothing is wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def readable(documented: object, width: int | None = None) -> str:
    r"""Return the docstring of an object as plain text.

    >>> def search(depth: int) -> None:
    ...     '''Find ``documents`` by their `words`,
    ...     all of them.
    ...
    ...     >>> search(3)
    ...
    ...     Args:
    ...         depth: How many; ``None`` stands
    ...             for all.
    ...     '''
    >>> print(readable(search, 30))
    Find documents by their words,
    all of them.
    <BLANKLINE>
    depth: How many; None stands
        for all.
    """
    text = _MARKUP.sub(lambda match: next(filter(None, match.groups()), ""), inspect.getdoc(documented) or "")
    blocks = [block for block in text.split("\n\n") if not block.lstrip().startswith(">>>")]
    return "\n\n".join(filter(None, (_wrapped(block, width or terminal_width()) for block in blocks)))


def _wrapped(block: str, width: int) -> str:
    """Join the lines of each paragraph or item, and rewrap them."""
    items: list[str] = []
    for line in textwrap.dedent(re.sub(r"\A\w+:\n", "", block)).splitlines():
        if not items or (_ITEM.match(line) and not line.startswith(" ")):
            items.append(line.strip())
        else:
            items[-1] += " " + line.strip()
    return "\n".join(
        textwrap.fill(item, width, subsequent_indent=_indent(item), break_on_hyphens=False) for item in items
    )


def _indent(item: str) -> str:
    return "  " if item.startswith("- ") else "    " if _ITEM.match(item) else ""
