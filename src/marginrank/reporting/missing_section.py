"""The section on missing judgements: shares of unjudged documents, and what their grades could change."""

from __future__ import annotations

from marginrank.evaluation.grade_bounds import GradeBounds
from marginrank.reporting.html_elements import Cell, TableColumn, command, number, paragraph, table
from marginrank.reporting.recompute_commands import Commands
from marginrank.reporting.report_facts import ReportFacts


def missing_parts(facts: ReportFacts) -> list[str]:
    """Make the parts of the section; none if every document of the first ranks is judged."""
    if not any(one.documents for one in facts.unjudged.values()):
        return []
    parts = [_shares(facts), paragraph(_about(facts), "note")]
    if facts.bounds is None:
        return parts
    return [*parts, *_bounds(facts.bounds), command(facts.commands, Commands.bounds)]


def _shares(facts: ReportFacts) -> str:
    columns = [TableColumn("system"), *(TableColumn(name, number=True) for name in ("unjudged", "of", "share"))]
    rows = [
        [Cell(name), number(one.documents, ",d"), number(one.out_of, ",d"), number(one.share, ".1%")]
        for name, one in facts.unjudged.items()
    ]
    return table(f"Unjudged documents among the first {facts.settings.k} of each query", columns, rows)


def _about(facts: ReportFacts) -> str:
    if facts.settings.unjudged == "skip":
        return "Unjudged documents are left out of the lists, and those after them move up."
    return (
        "Unjudged documents count as irrelevant. A system that returns more of them than the others may be better than "
        "its means say."
    )


def _bounds(bounds: GradeBounds) -> list[str]:
    numbers = (bounds.measure, "lowest", "highest")
    columns = [TableColumn("system"), *(TableColumn(name, number=True) for name in numbers)]
    rows = [[Cell(one.system), *(number(value) for value in one[1:])] for one in bounds.means]
    caption = f"{bounds.measure} for all grades of unjudged documents"
    parts = [table(caption, columns, rows)]
    if bounds.differences:
        columns = [TableColumn("system"), TableColumn("verdict")]
        columns += [TableColumn(name, number=True) for name in ("difference", "lowest", "highest")]
        compared = [
            [
                Cell(one.system),
                Cell("could flip" if one.could_flip else "cannot flip", look="loss" if one.could_flip else "muted"),
                *(number(value, "+.4f") for value in one[2:]),
            ]
            for one in bounds.differences
        ]
        parts.append(table(f"{caption}: difference from {bounds.differences[0].other}", columns, compared))
    grades = "{:g} to {:g}".format(*bounds.grades)
    note = (
        f"The lowest and the highest mean if each unjudged document may have any grade from {grades}: the worst case, "
        "however unlikely."
    )
    return [*parts, paragraph(note, "note")]
