"""The page of a report: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from marginrank.evaluation.comparison import PairedComparison
from marginrank.evaluation.systems import training_note
from marginrank.reporting import charts
from marginrank.reporting.conclusion import conclusion
from marginrank.reporting.html_elements import (
    ABSENT,
    Cell,
    TableColumn,
    chart,
    command,
    details,
    escape,
    facts_list,
    file_text,
    legend,
    listed,
    number,
    paragraph,
    section,
    table,
    whole_page,
)
from marginrank.reporting.missing_section import missing_parts
from marginrank.reporting.models_section import model_parts
from marginrank.reporting.queries_section import queries_parts
from marginrank.reporting.raters_section import raters_parts
from marginrank.reporting.recompute_commands import Commands
from marginrank.reporting.report_facts import Mean, ReportFacts
from marginrank.runtime.text import count
from marginrank.version import __version__

_RUN: Final = (
    "Paths are relative to the folder where the report was made, or to the folder of the files if they are elsewhere; "
    "run the commands there."
)
_ABOUT_SEGMENTS: Final = (
    "The verdict is that of the randomization test: p < 0.05, Holm-adjusted for the number of rows of the table."
)
#: Grades that have a chart; more of them are only counted.
_MOST_GRADES: Final = 30


def render(facts: ReportFacts) -> str:
    """Render the page."""
    sections = {
        "measures": ("Measures", _means(facts)),
        "differences": ("Differences", _comparisons(facts)),
        "segments": ("Segments", _segments(facts)),
        "cutoffs": ("NDCG by cutoff", _curve(facts)),
        "queries": ("Queries", queries_parts(facts)),
        "models": ("Models", model_parts(facts)),
        "missing": ("Missing judgements", missing_parts(facts)),
        "raters": ("Raters", raters_parts(facts)),
        "data": ("Data", _data(facts)),
    }
    shown = {name: (title, parts) for name, (title, parts) in sections.items() if parts}
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, (title, _) in shown.items())
    contents = (
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'
        '<noscript><p class="note">Charts and sorting need JavaScript; all numbers are in the tables.</p></noscript>'
    )
    footer = (
        f"<p>Made by marginrank {escape(__version__)}. {escape(_RUN) if facts.commands else ''}</p>\n"
        "<details><summary>Licenses of the scripts in this page</summary>"
        f"<pre>{escape(file_text('licenses.txt'))}</pre></details>"
    )
    return whole_page(
        facts.title,
        f"{_intro(facts)}\n{contents}",
        [section(name, title, *parts) for name, (title, parts) in shown.items()],
        footer,
        library=library(),
        config=charts.CONFIG,
    )


@cache
def library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed in one script."""
    try:
        import vl_convert  # noqa: PLC0415
    except ImportError:
        raise ImportError("reports need vl-convert-python: pip install 'marginrank[report]'") from None
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")


def _intro(facts: ReportFacts) -> str:
    settings, profile = facts.settings, facts.profile
    counted = f"{facts.queries.counted:,} of {profile['queries']:,}"
    entries = [
        ("data", facts.data),
        ("queries evaluated", counted),
        ("policy", f"{settings.policy}: {settings.policy_summary}"),
        *(
            []
            if settings.depth is None
            else [("depth", f"only the first {settings.depth} documents of each ranking are evaluated")]
        ),
        *([("baseline", settings.baseline)] if len(facts.systems) > 1 else []),
    ]
    return _training_note(facts) + paragraph(conclusion(facts), "lead") + facts_list(entries)


def _training_note(facts: ReportFacts) -> str:
    if not facts.trained_on_these:
        return ""
    note = training_note(facts.trained_on_these)
    return paragraph(note[0].upper() + note[1:] + ".", "warning")


def _means(facts: ReportFacts) -> list[str]:
    settings, names = facts.settings, [system.name for system in facts.systems]
    by_name = {(mean.system, mean.measure): mean for mean in facts.means}
    columns = [TableColumn("system"), TableColumn("kind")]
    for measure in settings.measures:
        columns += [
            TableColumn(measure, number=True),
            TableColumn(f"{100 * settings.confidence:g} % interval", number=True),
        ]
    rows = [[Cell(system.name), Cell(system.kind)] for system in facts.systems]
    for row, name in zip(rows, names, strict=True):
        for measure in settings.measures:
            mean = by_name[name, measure]
            row += [number(mean.mean, look="best" if facts.best.get(measure) == name else ""), _interval(mean)]
    sizes = sorted({mean.queries for mean in facts.means})
    over = " or ".join(count(n, "query", "queries") for n in sizes)
    pictures = [
        chart(charts.intervals([by_name[name, measure] for name in names], names, measure))
        for measure in settings.measures
    ]
    return [
        table(f"Means over {over}", columns, rows),
        f'<div class="grid wide">{"".join(pictures)}</div>' if len(names) > 1 else "",
        paragraph(_about_intervals(facts), "note"),
        command(facts.commands, Commands.means),
    ]


def _about_intervals(facts: ReportFacts) -> str:
    share = f"{100 * facts.settings.confidence:g} %"
    text = f"Intervals are {share} BCa bootstrap intervals over queries: how far a mean may move on other queries."
    if facts.queries.counted == 1:
        text = "A single query has no interval."
    if len(facts.systems) == 1:
        return text
    marks = "A mean in bold is significantly higher than that of every other system."
    if not facts.best:
        marks = "No mean is in bold, because none is significantly higher than that of every other system."
    return (
        f"{text} Systems are judged on the same queries, so they can differ significantly although their intervals "
        f"overlap; see Differences. {marks}"
    )


def _interval(mean: Mean, form: str = ".4f") -> Cell:
    low, high = number(mean.low, form), number(mean.high, form)
    return Cell(ABSENT) if low.key is None or high.key is None else Cell(f"{low.text} to {high.text}", low.key)


def _comparisons(facts: ReportFacts) -> list[str]:
    if not facts.comparisons:
        return []
    settings, names = facts.settings, [system.name for system in facts.systems]
    parts, pictures = [], []
    for measure, comparison in facts.comparisons.items():
        parts.append(
            table(
                f"{measure}: difference to {settings.baseline} over {count(comparison.n_queries, 'query', 'queries')}",
                _compared_columns(settings.confidence),
                [_compared(row) for row in comparison.rows],
            )
        )
        means = [
            Mean(row.system, measure, row.difference, *row.interval, comparison.n_queries) for row in comparison.rows
        ]
        pictures.append(chart(charts.intervals(means, names, f"difference in {measure}", form="+.4f", zero_line=True)))
    return [
        *parts,
        f'<div class="grid wide">{"".join(pictures)}</div>',
        paragraph(_about_tests(len(facts.systems) - 1), "note"),
        command(facts.commands, Commands.comparisons),
    ]


def _about_tests(n_rows: int) -> str:
    adjusted = f", Holm-adjusted for {n_rows} comparisons" if n_rows > 1 else ""
    return (
        "Differences are means over queries of system minus baseline, with BCa bootstrap intervals. p-values are "
        f"two-sided. The verdict is that of the randomization test: p < 0.05{adjusted}. “No significant difference” "
        "does not mean “the same”: the interval shows how large the difference may be."
    )


def _compared_columns(confidence: float) -> list[TableColumn]:
    numbers = [
        "difference",
        f"{100 * confidence:g} % interval",
        "won",
        "lost",
        "tied",
        "p randomization",
        "p t-test",
        "p Wilcoxon",
    ]
    return [TableColumn("system"), TableColumn("verdict"), *(TableColumn(name, number=True) for name in numbers)]


def _compared(row: PairedComparison) -> list[Cell]:
    return [
        Cell(row.system),
        Cell(row.verdict, look={"better": "win", "worse": "loss"}.get(row.verdict, "muted")),
        number(row.difference, "+.4f"),
        _interval(Mean("", "", row.difference, *row.interval, 0), "+.4f"),
        *(number(n, ",d") for n in (row.wins, row.losses, row.ties)),
        *(_p(p) for p in (row.p_randomization, row.p_t, row.p_wilcoxon)),
    ]


def _p(p: float) -> Cell:
    return Cell("<0.0001" if p < 0.0001 else f"{p:.4f}", p)


def _segments(facts: ReportFacts) -> list[str]:
    if not facts.segments:
        return []
    parts = [_segment_means(facts, measure) for measure in facts.settings.measures]
    parts += [_segment_differences(facts, measure) for measure in facts.comparisons]
    recompute = facts.commands is not None and facts.commands.sources.by is not None
    return [
        *parts,
        paragraph(_ABOUT_SEGMENTS, "note") if facts.comparisons else "",
        command(facts.commands, Commands.segments) if recompute else "",
    ]


def _segment_means(facts: ReportFacts, measure: str) -> str:
    columns = [TableColumn("segment"), TableColumn("queries", number=True)]
    for system in facts.systems:
        interval = f"{100 * facts.settings.confidence:g} % interval"
        columns += [TableColumn(system.name, number=True), TableColumn(interval, number=True)]
    rows = []
    for segment, means in facts.segments.items():
        chosen = [mean for mean in means if mean.measure == measure]
        cells = [cell for mean in chosen for cell in (number(mean.mean), _interval(mean))]
        rows.append([Cell(segment), number(chosen[0].queries, ",d"), *cells])
    return table(f"{measure} in each segment", columns, rows)


def _segment_differences(facts: ReportFacts, measure: str) -> str:
    columns = [TableColumn("segment"), TableColumn("queries", number=True)]
    rows = [
        [Cell(segment), number(part.n_queries, ",d"), *_compared(row)]
        for segment, part in facts.comparisons[measure].by_segment.items()
        for row in part.rows
    ]
    caption = f"{measure}: difference to {facts.settings.baseline} in each segment"
    return table(caption, columns + _compared_columns(facts.settings.confidence), rows)


def _curve(facts: ReportFacts) -> list[str]:
    names, most = [system.name for system in facts.systems], facts.settings.k
    value = {(point.system, point.k): point.ndcg for point in facts.curve}
    columns = [TableColumn("system"), *(TableColumn(f"@{k}", number=True) for k in range(1, most + 1))]
    rows = [[Cell(name), *(number(value[name, k]) for k in range(1, most + 1))] for name in names]
    return [
        legend(names),
        chart(charts.curves(facts.curve, names)),
        details("Numbers", table("NDCG@k", columns, rows)),
        command(facts.commands, Commands.curve),
    ]


def _data(facts: ReportFacts) -> list[str]:
    profile = facts.profile
    lengths = profile["list_lengths"]
    per_query = f"{lengths['min']:,} to {lengths['max']:,}, median {lengths['median']:g}"
    entries = [
        ("queries", f"{profile['queries']:,}"),
        ("documents", f"{profile['documents']:,}"),
        ("documents per query", per_query),
    ]
    if profile["unjudged"]:
        entries[2:2] = [("unjudged", f"{profile['unjudged']:,} documents")]
    if "features" in profile:
        entries[1:1] = [
            ("with a single grade", f"{profile['queries_of_one_grade']:,} queries, where all rankings are equally good")
        ]
        entries += _feature_entries(profile)
    grades = profile["grades"]
    if grades is None or len(grades) > _MOST_GRADES:
        entries.append(("grades", "too many to list" if grades is None else f"{len(grades)} different values"))
    return [
        facts_list(entries),
        chart(charts.grade_bars(grades)) if grades and len(grades) <= _MOST_GRADES else "",
        details("Numbers", _grade_table(grades)) if grades else "",
        command(facts.commands, Commands.data),
    ]


def _feature_entries(profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    missing = [f"{name} ({n:,})" for name, n in profile["missing_values"].items()]
    return [
        ("features", f"{profile['features']:,} ({profile['feature_type']})"),
        ("all-zero documents", f"{profile['zero_documents']:,}"),
        ("constant features", listed(profile["constant_features"])),
        ("duplicated features", listed([" = ".join(group) for group in profile["duplicated_features"]])),
        ("missing values", listed(missing)),
    ]


def _grade_table(grades: Mapping[str, int]) -> str:
    total = sum(grades.values())
    columns = [TableColumn("grade"), TableColumn("documents", number=True), TableColumn("share", number=True)]
    rows = [[Cell(grade, float(grade)), number(n, ",d"), number(n / total, ".1%")] for grade, n in grades.items()]
    return table("Documents of each grade", columns, rows)
