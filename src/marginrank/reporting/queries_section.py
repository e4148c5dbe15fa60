"""The section on queries: differences per query, and the largest gains and losses with their documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from marginrank.reporting import charts
from marginrank.reporting.explanation import Explanation
from marginrank.reporting.html_elements import (
    ABSENT,
    Cell,
    TableColumn,
    breakable,
    chart,
    command,
    details,
    escape,
    number,
    paragraph,
    table,
)
from marginrank.reporting.recompute_commands import Commands
from marginrank.reporting.report_facts import Contest, Duel, Place, QueryTable, ReportFacts
from marginrank.runtime.text import count

#: Features in an explanation; all others are one line.
MOST_REASONS: Final = 6


def queries_parts(facts: ReportFacts) -> list[str]:
    """Make the parts of the section."""
    parts = [part for contest in facts.contests for part in _contest(facts, contest)]
    queries = facts.queries
    left_out = f"; the policy leaves out {queries.left_out:,} more" if queries.left_out else ""
    which = ""
    if len(queries.rows) < queries.counted:
        most = "where the systems differ most" if facts.contests else "with the lowest values"
        which = f" The table has the {len(queries.rows):,} {most}."
    return [
        *parts,
        f"<h3>All queries, {escape(queries.measure)}</h3>" if facts.contests else "",
        paragraph(f"{count(queries.counted, 'query', 'queries')}{left_out}.{which}"),
        details("Values per query", _query_table(queries, [system.name for system in facts.systems])),
        command(facts.commands, Commands.queries),
    ]


def _query_table(queries: QueryTable, names: Sequence[str]) -> str:
    pair, texts = len(names) == 2, any(row.text for row in queries.rows)
    columns = [
        TableColumn("query"),
        *([TableColumn("text")] if texts else []),
        TableColumn("documents", number=True),
        TableColumn("relevant", number=True),
        *(TableColumn(name, number=True) for name in names),
        *([TableColumn("difference", number=True)] if pair else []),
    ]
    rows = [
        [
            Cell(row.query),
            *([Cell(row.text or ABSENT, look="text")] if texts else []),
            number(row.documents, ",d"),
            number(row.relevant, ",d"),
            *map(number, row.values),
            *([number(row.values[1] - row.values[0], "+.4f")] if pair else []),
        ]
        for row in queries.rows
    ]
    return table(f"{queries.measure} of each query", columns, rows)


def _contest(facts: ReportFacts, contest: Contest) -> list[str]:
    n, shared = contest.bars[-1].last, any(bar.query is None for bar in contest.bars)
    caption = f"{contest.system} minus {contest.other}, {count(n, 'query', 'queries')}, sorted."
    if shared:
        caption += f" Each bar is the mean of {_share(n, len(contest.bars))} queries."
    commands = [
        command(facts.commands, _ranking(model.name), f"Rankings of {model.name}")
        for model in facts.models
        if model.name in (contest.system, contest.other)
    ]
    return [
        f"<h3>{escape(contest.system)} against {escape(contest.other)}, {escape(contest.measure)}</h3>",
        chart(charts.differences(contest.bars, contest.system, contest.other, contest.measure), caption),
        *_duels("Largest gains", contest.won, contest, facts.commands),
        *_duels("Largest losses", contest.lost, contest, facts.commands),
        *commands,
    ]


def _share(n_queries: int, n_bars: int) -> str:
    """Return how many queries a bar stands for.

    >>> _share(1000, 500), _share(710, 500)
    ('2', '1 or 2')
    """
    least, rest = divmod(n_queries, n_bars)
    return f"{least:,} or {least + 1:,}" if rest else f"{least:,}"


def _ranking(name: str) -> Callable[[Commands], str]:
    return lambda commands: commands.ranking(name)


def _duels(title: str, duels: Sequence[Duel], contest: Contest, commands: Commands | None) -> list[str]:
    if not duels:
        return []
    return [f"<h4>{escape(title)}</h4>", *(_duel(duel, contest, commands) for duel in duels)]


def _duel(duel: Duel, contest: Contest, commands: Commands | None) -> str:
    difference = number(duel.difference, "+.4f").text
    look = "win" if duel.difference > 0 else "loss"
    shown = duel.text or duel.query
    named = f' <span class="muted">{breakable(duel.query)}</span>' if duel.text else ""
    summary = (
        f'<span class="query">{breakable(shown)}</span> <span class="figures"><span class="{look}">{difference}</span>'
        f'<span class="muted">{duel.other:.4f} → {duel.value:.4f}</span></span>{named}'
    )
    lists = _places(contest.other, duel.other_documents, contest.system)
    lists += _places(contest.system, duel.documents, contest.other)
    reasons = "".join(_reasons(commands, system, explained) for system, explained in duel.reasons.items())
    return details(summary, f'<div class="grid pair">{lists}{reasons}</div>', "duel")


def _reasons(commands: Commands | None, system: str, explained: Explanation) -> str:
    """Show the contributions that explain the rank of a document, and the command that recomputes them."""
    first, rest, n_rest = explained.shortened(MOST_REASONS)
    reference = "the mean of the query" if explained.other is None else explained.other
    columns = [
        TableColumn("feature"),
        *(TableColumn(head, number=True) for head in (explained.document, reference, "contribution")),
    ]
    rows = [
        [
            Cell(reason.feature, look="name"),
            number(reason.value, ".4g"),
            number(reason.other, ".4g"),
            _signed(reason.contribution),
        ]
        for reason in first
    ]
    rows += [[Cell(count(n_rest, "other feature")), Cell(""), Cell(""), _signed(rest)]] if n_rest else []
    difference = explained.score - explained.base
    rows += [[Cell("score"), number(explained.score, ".4g"), number(explained.base, ".4g"), _signed(difference)]]
    documents = [name for name in (explained.document, explained.other) if name is not None]
    caption = f"{system}: why {explained.document} is above {reference}"
    recompute = command(commands, lambda known: known.explanation(system, explained.query, documents))
    return f'<div class="why">{table(caption, columns, rows, sortable=False)}{recompute}</div>'


def _signed(value: float) -> Cell:
    return number(value, "+.4g", "win" if value > 0 else "loss" if value < 0 else "")


def _places(system: str, places: Sequence[Place], other: str) -> str:
    if not places:
        return paragraph(f"{system} ranks no documents for this query.")
    heads = [("rank", True), ("other", True), ("document", False), ("grade", True), ("score", True)]
    largest = max(abs(place.score) for place in places)
    form = ".4f" if 0.01 <= largest < 1e5 else ".4g"
    caption = f"{system}, with ranks in {other}"
    return table(
        caption, [TableColumn(*head) for head in heads], [_place(place, form) for place in places], sortable=False
    )


def _place(place: Place, form: str) -> list[Cell]:
    grade = Cell(ABSENT, look="muted") if place.grade is None else number(place.grade, "g", _shade(place.grade))
    other_rank = number(place.other_rank, ",d", "muted")
    return [number(place.rank, "d"), other_rank, Cell(place.document, look="name"), grade, number(place.score, form)]


def _shade(grade: float) -> str:
    """Return the CSS class that shades a grade.

    >>> _shade(0.0), _shade(0.5), _shade(7.0)
    ('grade0', 'grade1', 'grade4')
    """
    return f"grade{0 if grade <= 0 else max(1, min(4, int(grade)))}"
