"""The section on raters: how far they agree, what each is like, and ratings to doubt."""

from __future__ import annotations

from typing import Final

from marginrank.judging.agreement import Agreement
from marginrank.judging.raters import RaterReport
from marginrank.reporting.html_elements import Cell, TableColumn, command, details, number, paragraph, table
from marginrank.reporting.recompute_commands import Commands
from marginrank.reporting.report_facts import ReportFacts

#: Most queries in the table of disagreement.
MOST_QUERIES: Final = 100


def raters_parts(facts: ReportFacts) -> list[str]:
    """Make the parts of the section; none without raters."""
    if facts.raters is None:
        return []
    agreement, report = facts.raters
    flags = [paragraph(f"{str(flag)[0].upper()}{str(flag)[1:]}.", "warning") for flag in report.flags]
    parts = [*flags, _raters(report)]
    if agreement is None:
        parts.insert(0, paragraph("No document was judged by two raters, so there is no agreement to measure.", "note"))
    else:
        pairs = [(f"kappa of {a} and {b}", one) for (a, b), one in agreement.kappa.items()]
        parts.insert(0, _agreement([("alpha of all raters", agreement.alpha), *pairs]))
    apart = [one for one in report.queries if one.different][:MOST_QUERIES]
    if apart:
        columns = [TableColumn("query")] + [
            TableColumn(title, number=True) for title in ("mean square", "documents that differ", "of")
        ]
        rows = [
            [Cell(one.query), number(one.value, ".2f"), number(one.different, ",d"), number(one.documents, ",d")]
            for one in apart
        ]
        parts.append(details("Queries with most disagreement", table("Disagreement by query", columns, rows)))
    return [*parts, command(facts.commands, Commands.raters)]


def _agreement(rows: list[tuple[str, Agreement]]) -> str:
    columns = [
        TableColumn("agreement"),
        *(TableColumn(name, number=True) for name in ("value", "interval", "documents")),
    ]
    cells = [
        [Cell(name), number(one.value, ".3f"), _interval(one.interval, ".3f"), number(one.documents, ",d")]
        for name, one in rows
    ]
    return table("Agreement: 1 if raters agree on everything, 0 at chance level", columns, cells)


def _raters(report: RaterReport) -> str:
    titles = ("grades", "mean", "deviation", "bias", "interval", "spread")
    columns = [TableColumn("rater"), *(TableColumn(title, number=True) for title in titles)]
    rows = [
        [
            Cell(one.name),
            number(one.grades, ",d"),
            number(one.mean, ".2f"),
            number(one.deviation, ".2f"),
            number(one.bias.value, "+.2f"),
            _interval(one.bias.interval, "+.2f"),
            number(one.spread, ".2f"),
        ]
        for one in report.raters
    ]
    return table("Raters; bias is the mean difference from the others on the same documents", columns, rows)


def _interval(interval: tuple[float, float], form: str) -> Cell:
    low, high = (number(end, form) for end in interval)
    return Cell(f"{low.text} to {high.text}", low.key)
