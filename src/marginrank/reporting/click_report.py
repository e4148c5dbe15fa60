"""The report on a click log: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.clicks.click_evaluation import Estimator, click_interval, compare_clicks, evaluate_clicks
from marginrank.clicks.click_log import ClickLog
from marginrank.clicks.propensities import Propensities, exposure_weights
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.comparison import Comparison, PairedComparison
from marginrank.evaluation.evaluation import Evaluation
from marginrank.evaluation.systems import System, default_baseline, orderings, score_documents
from marginrank.reporting import charts
from marginrank.reporting.html_elements import (
    Cell,
    TableColumn,
    chart,
    escape,
    facts_list,
    file_text,
    legend,
    number,
    paragraph,
    section,
    table,
    whole_page,
)
from marginrank.reporting.page import library
from marginrank.reporting.report_builder import query_bars
from marginrank.reporting.report_facts import Mean
from marginrank.runtime.text import count
from marginrank.typing import FloatArray
from marginrank.version import __version__

#: Queries and documents that a table shows.
_SHOWN: Final = 20


@dataclass(frozen=True, eq=False)
class ClickReport:
    """Content of the page of a click log.

    Args:
        log: The log.
        propensities: The correction; None for propensities of rows.
        measure: ``dcg``, ``dcg@k`` or ``rank``.
        estimator: ``ips`` or ``snips``.
        results: Estimates of each system, corrected.
        naive: The same without a correction, per relevant document.
        corrected: With the correction, per relevant document.
        comparison: Every system against the baseline; None if there is one system.
        baseline: Its name.
        first_documents: The first documents of each query by system.
    """

    log: ClickLog
    propensities: Propensities | None
    measure: str
    estimator: Estimator
    results: Mapping[str, Evaluation]
    naive: Mapping[str, Evaluation]
    corrected: Mapping[str, Evaluation]
    comparison: Comparison | None
    baseline: str
    first_documents: Mapping[str, Sequence[str]]

    @property
    def verdict(self) -> str:
        """The conclusion about the systems, in a sentence."""
        if self.comparison is None:
            (mean,) = _means(self.results)
            return f"{mean.system} has {mean.measure} {mean.mean:.4f} ({mean.low:.4f} to {mean.high:.4f})."
        better = [row for row in self.comparison.rows if row.verdict == "better"]
        if better:
            row = max(better, key=lambda one: abs(one.difference))
            return f"Clicks prefer {row.system} to {row.other}: {_difference(row, self.measure)}."
        worse = [row for row in self.comparison.rows if row.verdict == "worse"]
        if len(worse) == len(self.comparison.rows):
            return f"Clicks prefer {self.baseline} to every other system."
        row = self.comparison.rows[0]
        return f"No significant difference between {row.system} and {row.other}: {_difference(row, self.measure)}."

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain Python values."""
        return {
            "verdict": self.verdict,
            "systems": {mean.system: vars(mean) for mean in _means(self.results)},
            "comparisons": None if self.comparison is None else self.comparison.to_dicts(),
            "propensities": None if self.propensities is None else self.propensities.to_dict(),
        }


def write_click_report(
    path: str | Path,
    log: ClickLog,
    systems: Mapping[str, System],
    measure: str = "dcg@10",
    *,
    propensities: Propensities | None = None,
    estimator: Estimator = "ips",
    baseline: str | None = None,
    title: str = "What the clicks say",
) -> ClickReport:
    """Write a page about a click log: propensities, what the correction changes, systems, and queries that moved most.

    Args:
        path: The HTML file.
        log: The log, with features if a system is a ranker.
        systems: By name, rankers or scores of ``log.documents``.
        measure: As in `marginrank.clicks.evaluate_clicks`.
        propensities: By default those of the rows.
        estimator: ``ips`` or ``snips``.
        baseline: The system that others are compared with; by default the first that was not trained.
        title: Title of the page.
    """
    if not systems:
        raise ParameterError(Parameter("systems"), " is empty; name at least one")
    if baseline is not None and baseline not in systems:
        raise ParameterError(Parameter("baseline"), f" is {baseline!r}; the systems are {', '.join(systems)}")
    scores = {name: np.asarray(score_documents(log.documents, system)) for name, system in systems.items()}
    baseline = baseline or default_baseline(systems)
    unweighted = Propensities.power(0.0, log.depth)

    def estimates(curve: Propensities | None, kind: Estimator) -> dict[str, Evaluation]:
        return {
            name: evaluate_clicks(log, of, measure, propensities=curve, estimator=kind) for name, of in scores.items()
        }

    report = ClickReport(
        log,
        propensities,
        measure,
        estimator,
        estimates(propensities, estimator),
        estimates(unweighted, "snips"),
        estimates(propensities, "snips"),
        compare_clicks(log, scores, measure, propensities=propensities, estimator=estimator, baseline=baseline)
        if len(scores) > 1
        else None,
        baseline,
        {name: _first_documents(log, of) for name, of in scores.items()},
    )
    Path(path).write_text(_page(report, title), encoding="utf-8")
    return report


def _first_documents(log: ClickLog, scores: FloatArray, k: int = 3) -> list[str]:
    pairs = log.documents
    names = pairs.document_names
    return [", ".join(names[rows].tolist()) for rows in orderings(scores, pairs.query_offsets, pairs.order, k, None)]


def _means(results: Mapping[str, Evaluation]) -> list[Mean]:
    means = []
    for name, found in results.items():
        ((measure, mean),) = found.mean.items()
        means.append(Mean(name, measure, mean, *click_interval(found), found.counted(measure)))
    return means


def _difference(row: PairedComparison, measure: str) -> str:
    low, high = row.interval
    return f"{row.difference:+.4f} {measure} ({low:+.4f} to {high:+.4f}), p = {row.p_randomization:.3g}"


def _page(report: ClickReport, title: str) -> str:
    parts = {
        "propensities": ("Propensities", _propensities(report)),
        "correction": ("What the correction changes", _correction(report)),
        "systems": ("Systems", _systems(report)),
        "queries": ("Queries that moved most", _queries(report)),
    }
    shown = {name: (head, content) for name, (head, content) in parts.items() if content}
    links = "".join(f'<li><a href="#{name}">{escape(head)}</a></li>' for name, (head, _) in shown.items())
    log = report.log
    facts = [
        ("log", str(log)),
        ("clicks", f"{log.clicks.sum():,.0f} on {log.shown.sum():,.0f} shown documents"),
        ("correction", "propensities of the rows" if report.propensities is None else report.propensities.assumes),
        ("estimate", f"{report.measure}, {report.estimator}"),
    ]
    intro = (
        f'{paragraph(report.verdict, "lead")}{facts_list(facts)}<nav aria-label="Contents"><ul>{links}</ul></nav>\n'
        '<noscript><p class="note">Charts and sorting need JavaScript; all numbers are in the tables.</p></noscript>'
    )
    footer = (
        f"<p>Generated by marginrank {escape(__version__)}.</p>\n<details><summary>Licenses of the scripts in this page"
        f"</summary><pre>{escape(file_text('licenses.txt'))}</pre></details>"
    )
    sections = [section(name, head, *content) for name, (head, content) in shown.items()]
    return whole_page(title, intro, sections, footer, library=library(), config=charts.CONFIG)


def _propensities(report: ClickReport) -> list[str]:
    log, curve = report.log, report.propensities
    at = log.position - 1
    shown, clicks = (np.bincount(at, column, log.depth) for column in (log.shown, log.clicks))
    if curve is None:
        used = np.bincount(at, log.shown * _of_rows(log), log.depth) / np.maximum(shown, 1e-300)
        values, low, high = used, None, None
    else:
        values, used = curve.values, curve.used
        low, high = (None, None) if curve.interval is None else curve.interval
    columns = ["position", "shown", "clicks", "click rate", "propensity", "interval", "used", "bias by clipping"]
    rows = [
        [
            Cell(str(k + 1), float(k + 1)),
            number(shown[k], ",.0f"),
            number(clicks[k], ",.0f"),
            number(clicks[k] / shown[k] if shown[k] else None, ".4f"),
            number(values[k]),
            Cell("–" if low is None or high is None else f"{low[k]:.4f} to {high[k]:.4f}"),
            number(used[k]),
            number(100 * (values[k] / used[k] - 1), "+.1f"),
        ]
        for k in range(log.depth)
    ]
    heads = [TableColumn(name.replace("clipping", "clipping, %"), number=True) for name in columns]
    rates = clicks / np.maximum(shown, 1e-300)
    picture = charts.positions(
        values[: log.depth].tolist(),
        rates.tolist(),
        None if low is None else low.tolist(),
        None if high is None else high.tolist(),
    )
    note = (
        "The propensity of a position is how often it is examined, relative to the first. Click rates fall faster or "
        "slower, because better documents rank higher. Clipping underweights clicks at low positions."
    )
    names = ["propensity", "click rate, relative to position 1"]
    return [legend(names), chart(picture), table("Positions", heads, rows), paragraph(note, "note")]


def _of_rows(log: ClickLog) -> FloatArray:
    if log.propensity is None:
        raise DataError("the log has no propensities; give ", Parameter("propensities"))
    return log.propensity


def _correction(report: ClickReport) -> list[str]:
    naive, corrected = ({mean.system: mean for mean in _means(found)} for found in (report.naive, report.corrected))
    heads = [TableColumn("system"), *(TableColumn(name, number=True) for name in ("clicks as they are", "corrected"))]
    heads.append(TableColumn("change", number=True))
    rows = [
        [
            Cell(name, look="name"),
            number(naive[name].mean),
            number(corrected[name].mean),
            number(corrected[name].mean - naive[name].mean, "+.4f"),
        ]
        for name in naive
    ]
    note = (
        f"Mean {report.measure} of a clicked document, by clicks as they are and by corrected clicks. The ranker that "
        "made the log does well by clicks as they are: what it puts first is seen and clicked."
    )
    return [table(f"snips {report.measure}", heads, rows), paragraph(note, "note"), _documents(report)]


def _documents(report: ClickReport) -> str:
    """Show the documents of which the share among the clicks of their query changes most."""
    log, pairs = report.log, report.log.documents
    weights = exposure_weights(log, report.propensities)
    clicks = np.bincount(log.pair, log.clicks, pairs.n_documents)
    shown = np.bincount(log.pair, log.shown, pairs.n_documents)
    place = np.bincount(log.pair, log.shown * log.position, pairs.n_documents) / np.maximum(shown, 1e-300)
    query = pairs.query_of_row
    before, after = (
        column / np.maximum(np.bincount(query, column, len(pairs))[query], 1e-300) for column in (clicks, weights)
    )
    moved = np.argsort(-np.abs(after - before), kind="stable")[:_SHOWN]
    names = ["query", "document", "mean position", "clicks", "corrected", "share before", "share after"]
    heads = [TableColumn(name, number=at > 1) for at, name in enumerate(names)]
    texts = as_text(pairs.query_ids)
    rows = [
        [
            Cell(str(texts[query[row]]), look="name"),
            Cell(str(pairs.document_names[row]), look="name"),
            number(place[row], ".1f"),
            number(clicks[row], ",.0f"),
            number(weights[row], ",.1f"),
            number(before[row], ".1%"),
            number(after[row], ".1%"),
        ]
        for row in moved.tolist()
    ]
    return table("Documents whose share of the clicks of their query changes most", heads, rows)


def _systems(report: ClickReport) -> list[str]:
    means, names = _means(report.results), list(report.results)
    heads = [TableColumn("system"), TableColumn(means[0].measure, number=True), TableColumn("95% interval")]
    rows = [
        [Cell(mean.system, look="name"), number(mean.mean), Cell(f"{mean.low:.4f} to {mean.high:.4f}")]
        for mean in means
    ]
    parts = [table(f"Estimates over {count(means[0].queries, 'query', 'queries')}", heads, rows)]
    if report.comparison is None:
        return parts
    parts.append(chart(charts.intervals(means, names, means[0].measure)))
    columns = ["system", "other", "difference", "95% interval", "better", "worse", "tied", "p", "verdict"]
    tested = [
        [
            Cell(row.system, look="name"),
            Cell(row.other, look="name"),
            number(row.difference, "+.4f"),
            Cell(f"{row.interval[0]:+.4f} to {row.interval[1]:+.4f}".replace("-", "−")),
            *(number(n, "d") for n in (row.wins, row.losses, row.ties)),
            number(row.p_randomization, ".4f"),
            Cell(row.verdict),
        ]
        for row in report.comparison.rows
    ]
    numbers = ("difference", "better", "worse", "tied", "p")
    parts.append(table("Differences", [TableColumn(name, number=name in numbers) for name in columns], tested))
    rule = "A lower rank is better. " if report.measure == "rank" else ""
    parts.append(paragraph(f"{rule}Verdicts are those of the randomization test, p < 0.05 after Holm.", "note"))
    return parts


def _queries(report: ClickReport) -> list[str]:
    if report.comparison is None:
        return []
    system, other = report.comparison.rows[0].system, report.comparison.rows[0].other
    values, others = (next(iter(report.results[name].values.values())) for name in (system, other))
    counted = np.flatnonzero(~np.isnan(values) & ~np.isnan(others))
    order = counted[np.argsort(-(values - others)[counted], kind="stable")]
    texts = as_text(report.log.documents.query_ids)
    bars = query_bars((values - others)[order], values[order], others[order], texts[order].tolist(), {})
    moved = counted[np.argsort(-np.abs(values - others)[counted], kind="stable")[:_SHOWN]]
    heads = [
        TableColumn("query"),
        *(TableColumn(name, number=True) for name in ("impressions", system, other, "difference")),
        *(TableColumn(f"first by {name}") for name in (system, other)),
    ]
    rows = [
        [
            Cell(str(texts[at]), look="name"),
            number(report.log.impressions[at], ",.0f"),
            number(values[at]),
            number(others[at]),
            number(values[at] - others[at], "+.4f"),
            *(Cell(report.first_documents[name][at], look="name") for name in (system, other)),
        ]
        for at in moved.tolist()
    ]
    return [
        chart(charts.differences(bars, system, other, report.measure)),
        table(f"Queries with the largest differences, {system} minus {other}", heads, rows),
    ]
