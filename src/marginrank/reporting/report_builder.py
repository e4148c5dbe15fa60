"""The builder of reports: it evaluates systems and collects the facts that the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.queries import Queries
from marginrank.data.statistics import histogram, list_lengths, profile
from marginrank.data.text_arrays import as_text
from marginrank.data.unjudged import UnjudgedRule
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.comparison import Summary, summarize
from marginrank.evaluation.evaluation import Evaluation, MissingTopics, count_unjudged, evaluate
from marginrank.evaluation.grade_bounds import GradeBounds, grade_bounds, is_additive
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.evaluation.segments import By
from marginrank.evaluation.systems import (
    Document,
    Judged,
    Lists,
    Scored,
    System,
    as_judged,
    as_system,
    default_baseline,
    score_documents,
    warn_if_trained_on,
)
from marginrank.judging.agreement import RaterAgreement, agreement
from marginrank.judging.judgements import Judgements
from marginrank.judging.raters import RaterReport, describe_raters
from marginrank.measures import parse_measure
from marginrank.ranker.ranker import Ranker
from marginrank.reporting.explanation import (
    Explanation,
    explain_document,
    feature_records,
    first_difference,
    one_query,
    takes_C,
    trace_records,
)
from marginrank.reporting.page import library, render
from marginrank.reporting.recompute_commands import Commands, Sources
from marginrank.reporting.report_facts import (
    Bar,
    Contest,
    CurvePoint,
    Duel,
    Leader,
    Mean,
    ModelFacts,
    Place,
    QueryRow,
    QueryTable,
    ReportFacts,
    Settings,
    SystemFacts,
)
from marginrank.runtime.default_measures import DEFAULT_MEASURES
from marginrank.typing import FloatArray

CONFIDENCE: Final = 0.95
#: Most queries in the table of queries.
MOST_ROWS: Final = 1000
#: Most bars in a chart of differences; more queries than that share bars.
MOST_BARS: Final = 500
#: Most iterations in a chart of the gap.
MOST_STEPS: Final = 400
#: Queries won, and lost, that are shown with their documents.
MOST_DUELS: Final = 10
#: Most segments of queries.
MOST_SEGMENTS: Final = 200
#: Differences up to this size are roundoff, as in `compare`.
_TIE: Final = 1e-9


def gather_facts(
    judged: Queries | Qrels,
    systems: Mapping[str, System],
    measures: Iterable[str] = DEFAULT_MEASURES,
    *,
    policy: str | Policy = "standard",
    depth: int | None = None,
    missing_topics: MissingTopics = "error",
    unjudged: UnjudgedRule = "irrelevant",
    k: int = 10,
    baseline: str | None = None,
    title: str | None = None,
    sources: Sources | None = None,
    query_text: Mapping[Any, str] | None = None,
    by: By | None = None,
    raters: Judgements | None = None,
) -> ReportFacts:
    """Find all that a report says; the parameters are those of `marginrank.write_report`."""
    settings = _settings(systems, measures, parse_policy(policy), depth, missing_topics, unjudged, k, baseline)
    cutoffs = [f"ndcg@{cutoff}" for cutoff in range(1, k + 1)]
    needed = list(dict.fromkeys([*settings.measures, *cutoffs]))
    options: dict[str, Any] = {
        "policy": policy,
        "depth": depth,
        "missing_topics": missing_topics,
        "unjudged": unjudged,
        "by": by,
    }
    scored, results = {}, {}
    for name, system in systems.items():
        with _errors_of(name, sources):
            scored[name] = score_documents(judged, system)
            results[name] = evaluate(judged, scored[name], needed, **options)
    _check_queries(results, settings)
    _check_segments(results)
    summary = _summary(results, settings)
    several = len(results) > 1
    texts = _texts(judged, query_text)
    unjudged_first = {name: count_unjudged(judged, one, k) for name, one in scored.items()}
    bounds = (
        _bounds(judged, scored, settings, policy) if any(one.documents for one in unjudged_first.values()) else None
    )
    return ReportFacts(
        title=title or f"{', '.join(systems)}: {', '.join(settings.measures)}",
        data="judged queries" if sources is None else sources.judged,
        settings=settings,
        systems=tuple(SystemFacts(name, _kind(system)) for name, system in systems.items()),
        trained_on_these=tuple(warn_if_trained_on(judged, systems)),
        means=_means(results, settings, summary),
        comparisons={name: summary.comparisons[name, settings.baseline] for name in settings.measures if several},
        leaders=_leaders(results, settings, summary) if several else {},
        segments=_segments(results, settings),
        curve=tuple(
            CurvePoint(name, at, result.mean[f"ndcg@{at}"]) for name, result in results.items() for at in _upto(k)
        ),
        queries=_query_table(judged, results, settings.measures[0], texts),
        contests=_contests(judged, systems, scored, results, settings, texts),
        models=tuple(_model(name, system) for name, system in systems.items() if isinstance(system, Ranker)),
        profile=profile(judged) if isinstance(judged, Queries) else _profile_of_qrels(judged),
        commands=None if sources is None else _commands(sources, settings, bounds),
        unjudged=unjudged_first,
        bounds=bounds,
        raters=None if raters is None else _raters(raters),
    )


def _bounds(
    judged: Queries | Qrels, scored: Mapping[str, Scored], settings: Settings, policy: str | Policy
) -> GradeBounds | None:
    """Return what means could be whatever the unjudged documents are, by the first additive measure or by DCG@k."""
    rules = parse_policy(policy)
    weighted = isinstance(judged, Queries) and judged.has_document_weights
    if settings.unjudged == "skip" or settings.missing_topics == "skip" or weighted or rules.ties == "worst":
        return None
    additive = (name for name in settings.measures if is_additive(parse_measure(name, rules.parameters)))
    return grade_bounds(
        judged,
        scored,
        next(additive, f"dcg@{settings.k}"),
        baseline=settings.baseline,
        policy=policy,
        depth=settings.depth,
        missing_topics=settings.missing_topics,
    )


def _raters(judgements: Judgements) -> tuple[RaterAgreement | None, RaterReport]:
    common = (judgements.judged.sum(axis=1) > 1).any()
    rater_agreement = agreement(judgements, confidence=CONFIDENCE) if common else None
    return rater_agreement, describe_raters(judgements, confidence=CONFIDENCE)


def _settings(
    systems: Mapping[str, System],
    measures: Iterable[str],
    policy: Policy,
    depth: int | None,
    missing_topics: MissingTopics,
    unjudged: UnjudgedRule,
    k: int,
    baseline: str | None,
) -> Settings:
    chosen = tuple(dict.fromkeys(str(measure).strip() for measure in measures))
    if not systems:
        raise ValueError("no system given; name at least one")
    if not chosen:
        raise ValueError("no measure given; name at least one, for example 'ndcg@10'")
    if k < 1:
        raise ParameterError(Parameter("k"), f" is {k}; show at least one document")
    if baseline is not None and baseline not in systems:
        raise ValueError(f"there is no system {baseline!r}; known: {', '.join(systems)}")
    return Settings(
        chosen,
        policy.name,
        policy.summary,
        depth,
        missing_topics,
        unjudged,
        k,
        default_baseline(systems) if baseline is None else baseline,
        CONFIDENCE,
    )


def _commands(sources: Sources, settings: Settings, bounds: GradeBounds | None) -> Commands:
    return Commands(
        sources,
        settings.measures,
        settings.policy,
        settings.depth,
        settings.missing_topics,
        settings.unjudged,
        settings.k,
        settings.baseline,
        None if bounds is None else bounds.measure,
    )


@contextmanager
def _errors_of(name: str, sources: Sources | None) -> Iterator[None]:
    """Name the system in errors about it."""
    try:
        yield
    except DataError as error:
        if sources is None:
            raise DataError(f"system {name!r}: ", error.message) from error
        raise error.at(sources.systems[name]) from error


def _check_queries(results: Mapping[str, Evaluation], settings: Settings) -> None:
    (first, reference), *rest = results.items()
    for name, result in rest:
        if not np.array_equal(reference.query_ids, result.query_ids):
            raise DataError(
                f"{name!r} ranks different queries than {first!r}; pass ", Parameter("missing_topics", "zero")
            )
    for measure in settings.measures:
        if not reference.counted(measure):
            raise DataError(f"policy {settings.policy} leaves every query out of {measure}; there is nothing to report")


def _check_segments(results: Mapping[str, Evaluation]) -> None:
    n = len(next(iter(results.values())).by_segment)
    if n > MOST_SEGMENTS:
        raise DataError(f"the queries have {n:,} segments, and a report shows {MOST_SEGMENTS}; merge the small ones")


def _kind(system: System) -> Any:
    return "model" if isinstance(system, Ranker) else "run" if isinstance(system, Run) else "scores"


def _upto(k: int) -> range:
    return range(1, k + 1)


def _summary(results: Mapping[str, Evaluation], settings: Settings) -> Summary:
    """Compare all systems with the baseline and with the best system, by every measure."""
    questions = []
    if len(results) > 1:
        baselines = [
            (settings.baseline, _highest(results, measure, settings.baseline)) for measure in settings.measures
        ]
        pairs = zip(settings.measures, baselines, strict=True)
        questions = list(dict.fromkeys((measure, name) for measure, names in pairs for name in names))
    return summarize(results, settings.measures, questions, confidence=CONFIDENCE)


def _means(results: Mapping[str, Evaluation], settings: Settings, summary: Summary) -> tuple[Mean, ...]:
    return tuple(
        Mean(name, measure, result.mean[measure], *summary.intervals[name, measure], result.counted(measure))
        for measure in settings.measures
        for name, result in results.items()
    )


def _segments(results: Mapping[str, Evaluation], settings: Settings) -> dict[str, tuple[Mean, ...]]:
    names = list(next(iter(results.values())).by_segment)
    parts = {name: {system: result.by_segment[name] for system, result in results.items()} for name in names}
    return {
        name: _means(part, settings, summarize(part, settings.measures, confidence=CONFIDENCE))
        for name, part in parts.items()
    }


def _leaders(results: Mapping[str, Evaluation], settings: Settings, summary: Summary) -> dict[str, Leader]:
    leaders = {}
    for measure in settings.measures:
        name = _highest(results, measure, settings.baseline)
        rows = summary.comparisons[measure, name].rows
        leaders[measure] = Leader(name, tuple(row.system for row in rows if row.verdict != "worse"))
    return leaders


def _highest(results: Mapping[str, Evaluation], measure: str, baseline: str) -> str:
    """Name the system with the highest mean; of equal ones the baseline, or the first."""
    return max(results, key=lambda name: (results[name].mean[measure], name == baseline))


def _texts(judged: Queries | Qrels, query_text: Mapping[Any, str] | None) -> dict[str, str]:
    """Return the texts by query id, spelled as in the report."""
    if query_text is None:
        return {}
    texts = {str(query): str(text) for query, text in query_text.items()}
    ids = as_text(judged.query_ids if isinstance(judged, Queries) else judged.topics).tolist()
    if not any(query in texts for query in ids):
        given = next(iter(texts), None)
        such = "it is empty" if given is None else f"ids there are such as {given!r}"
        raise DataError(f"none of the queries has a text: ids of the queries are such as {ids[0]!r}, {such}")
    return texts


def _query_table(
    judged: Queries | Qrels, results: Mapping[str, Evaluation], measure: str, texts: Mapping[str, str]
) -> QueryTable:
    """Return the queries in the order of the file; of too many, those that matter most."""
    first = next(iter(results.values()))
    values = np.stack([result[measure] for result in results.values()], axis=1)
    counted = np.flatnonzero(~np.isnan(values).any(axis=1))
    # The largest differences; for a single system, the lowest values.
    urgency = np.ptp(values, axis=1) if len(results) > 1 else -values[:, 0]
    chosen = np.sort(counted[np.argsort(-urgency[counted], kind="stable")][:MOST_ROWS])
    sizes = _sizes(judged)
    rows = [
        QueryRow(query, *sizes[query], tuple(row), texts.get(query))
        for query, row in zip(as_text(first.query_ids[chosen]).tolist(), values[chosen].tolist(), strict=True)
    ]
    return QueryTable(measure, tuple(rows), len(counted), len(values) - len(counted))


def _sizes(judged: Queries | Qrels) -> dict[str, tuple[int, int]]:
    """Count the documents of each query, and those above grade 0."""
    if isinstance(judged, Queries):
        ids, lengths, query = judged.query_ids, judged.lengths, judged.query_of_row
    else:
        ids, lengths = judged.topics, np.diff(judged.offsets)
        query = np.repeat(np.arange(len(ids)), lengths)
    relevant = np.bincount(query, judged.grades > 0, minlength=len(ids)).astype(np.int64)
    return dict(zip(as_text(ids).tolist(), zip(lengths.tolist(), relevant.tolist(), strict=True), strict=True))


def _contests(
    judged: Queries | Qrels,
    systems: Mapping[str, System],
    scored: Mapping[str, Scored],
    results: Mapping[str, Evaluation],
    settings: Settings,
    texts: Mapping[str, str],
) -> tuple[Contest, ...]:
    others = [name for name in results if name != settings.baseline]
    if not others:
        return ()
    lists = {name: Lists(judged, scores) for name, scores in scored.items()}
    explainer = _Explainer(judged, systems)
    return tuple(_contest(name, settings.baseline, results, lists, explainer, settings, texts) for name in others)


class _Explainer:
    """Explains, for systems that are models, the first rank where their list differs from another."""

    def __init__(self, judged: Queries | Qrels, systems: Mapping[str, System]) -> None:
        self._judged = judged
        self._models = {name: system.model_ for name, system in systems.items() if isinstance(system, Ranker)}
        ids = as_text(judged.query_ids).tolist() if isinstance(judged, Queries) else []
        self._place = {query: at for at, query in enumerate(ids)}

    def of(self, query: str, lists: Mapping[str, Sequence[Document]]) -> dict[str, Explanation]:
        """Return an explanation for each model of two systems."""
        explanations: dict[str, Explanation] = {}
        for name, other in ((name, other) for name in lists for other in lists if name != other):
            if name in self._models and isinstance(self._judged, Queries):
                orders = ([document.name for document in lists[system]] for system in (name, other))
                pair = first_difference(*orders)
                if pair is not None:
                    explanations |= self._explain(name, one_query(self._judged, self._place[query]), *pair)
        return explanations

    def _explain(self, name: str, query: Queries, document: str, other: str) -> dict[str, Explanation]:
        rows = {str(document): row for row, document in enumerate(query.document_names.tolist())}
        try:
            return {name: explain_document(self._models[name], query, rows[document], rows.get(other))}
        except TypeError:  # a kernel
            return {}


def _contest(
    system: str,
    other: str,
    results: Mapping[str, Evaluation],
    lists: Mapping[str, Lists],
    explainer: _Explainer,
    settings: Settings,
    texts: Mapping[str, str],
) -> Contest:
    measure, k = settings.measures[0], settings.k
    result = results[system]
    values, other_values = result[measure], results[other][measure]
    d = values - other_values
    d[np.abs(d) <= _TIE] = 0.0
    order = np.argsort(-d, kind="stable")
    order = order[~np.isnan(d[order])]
    names = as_text(result.query_ids).tolist()

    def duel(at: int) -> Duel:
        query = names[at]
        documents, other_documents = lists[system].of(query), lists[other].of(query)
        shown = _places(documents, other_documents, k), _places(other_documents, documents, k)
        reasons = explainer.of(query, {system: documents, other: other_documents})
        return Duel(query, float(values[at]), float(other_values[at]), *shown, reasons, texts.get(query))

    won = [at for at in order[:MOST_DUELS].tolist() if d[at] > 0]
    lost = [at for at in order[::-1][:MOST_DUELS].tolist() if d[at] < 0]
    bars = query_bars(d[order], values[order], other_values[order], [names[at] for at in order.tolist()], texts)
    return Contest(system, other, measure, bars, tuple(map(duel, won)), tuple(map(duel, lost)))


def _places(documents: Sequence[Document], others: Sequence[Document], k: int) -> tuple[Place, ...]:
    """Return the first k documents, each with its rank in another list."""
    rank_of: dict[str, int] = {}
    for rank, document in enumerate(others, 1):
        rank_of.setdefault(document.name, rank)
    return tuple(
        Place(rank, document.name, document.grade, document.score, rank_of.get(document.name))
        for rank, document in enumerate(documents[:k], 1)
    )


def query_bars(
    d: FloatArray, values: FloatArray, others: FloatArray, names: Sequence[str], texts: Mapping[str, str]
) -> tuple[Bar, ...]:
    """Return a bar for each query; if there are many, for groups of neighboring queries.

    >>> few = query_bars(np.array([0.5, 0.0]), np.array([0.75, 0.5]), np.array([0.25, 0.5]), ["a", "b"], {"a": "x"})
    >>> few[0]
    Bar(first=1, last=1, difference=0.5, query='a', value=0.75, other=0.25, text='x')
    >>> many = query_bars(np.linspace(1.0, -1.0, 2001), np.ones(2001), np.zeros(2001), [""] * 2001, {})
    >>> len(many) <= MOST_BARS, many[0].first, many[-1].last, many[0].query
    (True, 1, 2001, None)
    """
    if len(d) <= MOST_BARS:
        rows = zip(d.tolist(), names, values.tolist(), others.tolist(), map(texts.get, names), strict=True)
        return tuple(Bar(at, at, *row) for at, row in enumerate(rows, 1))
    edges = np.linspace(0, len(d), MOST_BARS + 1).astype(int).tolist()
    return tuple(Bar(start + 1, stop, float(d[start:stop].mean())) for start, stop in pairwise(edges))


def _model(name: str, ranker: Ranker) -> ModelFacts:
    model = ranker.model_
    steps = trace_records(model)
    shown = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_STEPS)).astype(int)).tolist()
    return ModelFacts(
        name,
        {**model.describe(), **({} if takes_C(model) else {"C": None})},
        tuple(feature_records(model)),
        model.form.sized_by,
        tuple(steps[at] for at in shown),
        len(steps),
        None if model.selection is None else dict(model.selection),
    )


def _profile_of_qrels(judged: Qrels) -> dict[str, Any]:
    return {
        "queries": len(judged),
        "documents": len(judged.grades),
        "grades": histogram(judged.grades),
        "unjudged": int(np.isnan(judged.grades).sum()),
        "list_lengths": list_lengths(np.diff(judged.offsets)),
    }


def write_report(
    path: str | Path,
    judged: Judged,
    systems: Mapping[str, System],
    measures: Iterable[str] = DEFAULT_MEASURES,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    policy: str | Policy = "standard",
    depth: int | None = None,
    missing_topics: MissingTopics = "error",
    unjudged: UnjudgedRule = "irrelevant",
    k: int = 10,
    baseline: str | None = None,
    title: str | None = None,
    sources: Sources | None = None,
    query_text: Mapping[Any, str] | None = None,
    by: By | None = None,
    raters: Judgements | None = None,
) -> ReportFacts:
    """Write an HTML report about one or several systems, as one self-contained file.

    It opens with a verdict in two sentences: which system is best by the first measure, by how much, and whether that
    is significant. It has the means with intervals, paired differences from the baseline, NDCG by cutoff, the largest
    wins and losses with their documents, the weights or curves, the gap and the choice of C of models, and a profile of
    the data. Needs ``pip install 'marginrank[report]'``.

    Args:
        path: File to write.
        judged: Judged queries; TREC judgements, which go with runs, also as ``{query: {document: grade}}``; or grades,
            which go with ``qid`` or ``group``.
        systems: By name, a `Ranker`, one score per row of the queries, or a `Run`, also as
            ``{query: {document: score}}``.
        measures: Spellings such as ``ndcg@10``; queries are compared by the first.
        qid: The query of each grade.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        policy: How to score ties, and queries without relevant documents.
        depth: Evaluate only the first documents of each ranking.
        missing_topics: How to score judged topics missing from the run: ``error``, ``skip`` or ``zero``.
        unjudged: What becomes of documents without a grade: ``irrelevant``, or ``skip``, which leaves them out.
        k: Number of documents shown per query, and last cutoff of NDCG.
        baseline: The system that the others are compared with; by default the first that was not trained, such as
            scores or a run, or the first.
        title: Title of the page.
        sources: The files of data and systems; with them the page has the command that recomputes each number.
        query_text: The text of each query, by query id, to show beside the id. Queries may be left out.
        by: Segments of the queries, for a section with the values in each: a dict from query id to segment, or an
            array with one entry per query or one per row.
        raters: Judgements by rater, for a section on how far they agree and what each is like.

    Returns:
        Everything that the page shows.
    """
    library()  # what is missing is said before any work is done
    facts = gather_facts(
        as_judged(judged, qid, group),
        {name: as_system(system) for name, system in systems.items()},
        measures,
        policy=policy,
        depth=depth,
        missing_topics=missing_topics,
        unjudged=unjudged,
        k=k,
        baseline=baseline,
        title=title,
        sources=sources,
        query_text=query_text,
        by=by,
        raters=raters,
    )
    # Paths need not be UTF-8.
    Path(path).write_text(render(facts), encoding="utf-8", errors="backslashreplace")
    return facts
