"""The conclusion of a report: two sentences in plain English."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from marginrank.evaluation.comparison import PairedComparison
from marginrank.reporting.report_facts import Leader, ReportFacts
from marginrank.runtime.text import count

_OPEN: Final = (
    "which does not show that they are equal: the interval is the range of differences that these queries leave open."
)


def conclusion(facts: ReportFacts) -> str:
    """Summarize in two sentences which system is best by the first measure, by how much, and how certain that is."""
    if len(facts.systems) == 1:
        return _alone(facts)
    leader = facts.leaders[facts.settings.measures[0]]
    return " ".join(
        _baseline_leads(facts, leader) if leader.system == facts.settings.baseline else _other_leads(facts, leader)
    )


def _alone(facts: ReportFacts) -> str:
    mean = facts.means[0]
    interval = _interval(mean.low, mean.high, facts.settings.confidence, "")
    return (
        f"{mean.system} has a mean {mean.measure} of {mean.mean:.4f} over {_queries(mean.queries)} ({interval}). "
        "Add a second system to test whether their difference is significant."
    )


def _other_leads(facts: ReportFacts, leader: Leader) -> tuple[str, str]:
    measure, baseline, rows = _judged_by(facts)
    row = next(row for row in rows if row.system == leader.system)
    name = leader.system
    by = f"{row.difference:.4f} above the baseline {baseline} ({_interval_of(facts, row)})"
    reached = f"{_mean(facts, name)} over {_queries(facts.comparisons[measure].n_queries)}, {by}"
    if not leader.rivals:
        rest = "" if len(rows) == 1 else ", and so are the differences from all other systems"
        return f"{name} is best by {measure}: {reached}.", f"The difference is significant ({_p(facts, row)}){rest}."
    first = f"{name} has the highest mean {measure}: {reached}."
    if row.verdict == "better":
        return first, (
            f"The difference from {baseline} is significant ({_p(facts, row)}), but there is no significant difference "
            f"between {name} and {_any_of(leader.rivals)}."
        )
    others = [row.system for row in rows if row.verdict == "better"]
    but = f"but {_listed(others)} {_is(others)} significantly better than {baseline}." if others else _OPEN
    return first, f"The difference is not significant ({_p(facts, row)}), {but}"


def _baseline_leads(facts: ReportFacts, leader: Leader) -> tuple[str, str]:
    measure, baseline, rows = _judged_by(facts)
    row = max(rows, key=lambda row: row.difference)
    by = f"{-row.difference:.4f} below it" if row.difference else "level with it"
    reached = f"{_mean(facts, baseline)} over {_queries(facts.comparisons[measure].n_queries)}"
    nearest = f"{row.system} is {by} ({_interval_of(facts, row)})"
    if not leader.rivals:
        rest = "" if len(rows) == 1 else ", and so are the differences from all other systems"
        return (
            f"The baseline {baseline} is best by {measure}: {reached}; {nearest}.",
            f"The difference is significant ({_p(facts, row)}){rest}.",
        )
    return (
        f"The baseline {baseline} has the highest mean {measure}: {reached}; {nearest}.",
        f"There is no significant difference between {baseline} and {_any_of(leader.rivals)}, {_OPEN}",
    )


def _judged_by(facts: ReportFacts) -> tuple[str, str, Sequence[PairedComparison]]:
    measure = facts.settings.measures[0]
    return measure, facts.settings.baseline, facts.comparisons[measure].rows


def _mean(facts: ReportFacts, system: str) -> str:
    measure = facts.settings.measures[0]
    return next(f"{mean.mean:.4f}" for mean in facts.means if (mean.system, mean.measure) == (system, measure))


def _interval_of(facts: ReportFacts, row: PairedComparison) -> str:
    return _interval(*row.interval, facts.settings.confidence, "+")


def _interval(low: float, high: float, confidence: float, sign: str) -> str:
    """Spell out an interval.

    >>> _interval(-0.01, 0.02, 0.95, "+"), _interval(-math.inf, math.inf, 0.95, "")
    ('95% interval −0.0100 to +0.0200', 'a single query has no interval')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return "a single query has no interval"
    return f"{100 * confidence:g}% interval {low:{sign}.4f} to {high:{sign}.4f}".replace("-", "−")


def _p(facts: ReportFacts, row: PairedComparison) -> str:
    p = row.holm_randomization
    adjusted = ", Holm-adjusted" if len(facts.systems) > 2 else ""
    return f"{'p < 0.001' if p < 0.001 else f'p = {p:.3f}'}, randomization test{adjusted}"


def _queries(n: int) -> str:
    return count(n, "query", "queries")


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _any_of(names: Sequence[str]) -> str:
    """Name systems that one is compared with.

    >>> _any_of(["a"]), _any_of(["a", "b"])
    ('a', 'any of a and b')
    """
    return _listed(names) if len(names) == 1 else f"any of {_listed(names)}"


def _listed(names: Sequence[str], most: int = 4) -> str:
    """Name a few systems.

    >>> _listed(["a"]), _listed(["a", "b", "c"]), _listed(list("abcdef"))
    ('a', 'a, b and c', 'a, b, c and 3 others')
    """
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
