"""Comparisons of systems by paired significance tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.partitions import PartitionedQueries
from marginrank.data.queries import Queries
from marginrank.data.unjudged import UnjudgedRule
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import Evaluation, evaluate
from marginrank.evaluation.grade_bounds import GradeBounds, grade_bounds, is_additive
from marginrank.evaluation.paired_tests import bca_intervals, holm, p_randomizations, p_t, p_wilcoxon
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.evaluation.segments import By, members, segments_of
from marginrank.evaluation.systems import (
    Judged,
    Predictor,
    System,
    as_judged,
    score_documents,
    score_partitions,
    warn_if_trained_on,
)
from marginrank.measures import parse_measure
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.text import ResultTable, count, data_frame, plain
from marginrank.typing import AnyArray, BoolArray, FloatArray

_TESTS = ("t", "wilcoxon", "randomization")
_MARKED_BELOW = 0.05


@dataclass(frozen=True)
class PairedComparison:
    """The comparison of two systems, query by query: ``system`` minus ``other``."""

    system: str
    other: str
    #: Mean over queries of the value of ``system`` minus that of ``other``, weighted if weights were given.
    difference: float
    #: BCa bootstrap interval of the difference over samples of queries; unbounded for a single query.
    interval: tuple[float, float]
    #: Queries on which ``system`` is better, worse and as good.
    wins: int
    losses: int
    ties: int
    #: Two-sided p-values of Student's paired t, Wilcoxon's signed-rank and the sign-flip randomization test.
    p_t: float
    p_wilcoxon: float
    p_randomization: float
    #: The same, adjusted for the number of rows by `holm`.
    holm_t: float
    holm_wilcoxon: float
    holm_randomization: float

    @property
    def verdict(self) -> Literal["better", "worse", "no significant difference"]:
        """The conclusion of the randomization test about ``system``, after Holm's adjustment, at a level of 5%."""
        if self.holm_randomization >= _MARKED_BELOW:
            return "no significant difference"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`: ``print`` shows a table, `to_frame` and `to_dicts` return one record per pair.

    With segments there is one per pair for all queries and one for each segment.
    """

    rows: tuple[PairedComparison, ...]
    n_queries: int
    confidence: float
    #: By segment, in ascending order, the comparison of its queries, adjusted for the number of rows of all segments.
    by_segment: Mapping[str, Comparison] = field(default_factory=dict)
    #: What the differences could be whatever the unjudged documents are; None if all are judged, or the measure is not
    #: additive.
    bounds: GradeBounds | None = None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one flat record per row, for JSON or a frame; an unbounded interval is None, as is the segment "all".

        >>> record = compare({"a": [0.5, 1.0, 0.2], "b": [0.4, 0.4, 0.2]}).to_dicts()[0]
        >>> record["system"], record["wins"], record["ties"], record["p_randomization"]
        ('a', 2, 1, 0.5)
        """
        records = [asdict(row) for row in self.rows]
        for record in records:
            record["interval_low"], record["interval_high"] = plain(record.pop("interval"))
        if not self.by_segment:
            return records
        whole = [{"segment": None, "queries": self.n_queries, **record} for record in records]
        return whole + [
            {"segment": name, "queries": part.n_queries, **record}
            for name, part in self.by_segment.items()
            for record in part.to_dicts()
        ]

    def to_frame(self) -> Any:
        """Return a pandas frame of the records of `to_dicts`, one row per pair."""
        records = self.to_dicts()
        names = dict.fromkeys(name for record in records for name in record)
        return data_frame({name: [record[name] for record in records] for name in names})

    def turned(self) -> Comparison:
        """Return the same comparisons with ``other`` minus ``system``.

        >>> row = compare({"a": [0.5, 1.0, 0.2], "b": [0.4, 0.4, 0.2]}).turned().rows[0]
        >>> row.system, row.other, round(row.difference, 4), row.wins, row.losses
        ('b', 'a', -0.2333, 0, 2)
        """
        rows = [
            replace(
                row,
                system=row.other,
                other=row.system,
                difference=-row.difference,
                interval=(-row.interval[1], -row.interval[0]),
                wins=row.losses,
                losses=row.wins,
            )
            for row in self.rows
        ]
        by_segment = {name: part.turned() for name, part in self.by_segment.items()}
        bounds = self.bounds
        if bounds is not None:
            bounds = replace(bounds, differences=tuple(one.turned() for one in bounds.differences))
        return replace(self, rows=tuple(rows), by_segment=by_segment, bounds=bounds)

    def __repr__(self) -> str:
        queries = count(self.n_queries, "query", "queries")
        if len(self.rows) != 1:
            return f"Comparison({count(len(self.rows), 'pair')} of systems on {queries})"
        (row,) = self.rows
        low, high = row.interval
        result = f"{row.difference:+.4f} [{low:+.4f}, {high:+.4f}], p = {row.p_randomization:.4f}"
        return f"Comparison({row.system} minus {row.other}: {result}, {queries})"

    def _table(self) -> ResultTable:
        interval = f"{100 * self.confidence:g}% interval"
        tests = ["p t-test ", "p Wilcoxon ", "p randomization "]
        header = ["system", "other", "difference", interval, "W/L/T", *tests]
        queries = count(self.n_queries, "query", "queries")
        pairs = f" over {len(self.rows)} comparisons" if len(self.rows) > 1 else ""
        note = f"{queries}; * Holm-adjusted p < {_MARKED_BELOW:g}{pairs}"
        if not self.by_segment:
            return ResultTable([header, *map(_cells, self.rows)], right=range(2, len(header)), note=note)
        parts = [("all", self), *self.by_segment.items()]
        rows = [[name, f"{part.n_queries:,}", *_cells(row)] for name, part in parts for row in part.rows]
        note += f", for segments over {len(rows) - len(self.rows)} comparisons"
        right = [1, *range(4, 2 + len(header))]
        return ResultTable([["segment", "queries", *header], *rows], right=right, note=note)

    def __str__(self) -> str:
        differences = () if self.bounds is None else self.bounds.differences
        return "\n".join([self._table().text(), *map(str, differences)])

    def _repr_html_(self) -> str:
        return self._table().html() + ("" if self.bounds is None else self.bounds._repr_html_())


def compare(
    systems: Mapping[str, System | Evaluation],
    judged: Judged | PartitionedQueries | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    measure: str | None = None,
    policy: str | Policy = "standard",
    unjudged: UnjudgedRule = "irrelevant",
    baseline: str | None = None,
    weights: npt.ArrayLike | None = None,
    query_ids: Sequence[object] | AnyArray | None = None,
    by: By | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    random_state: int | None = 0,
    tie_tolerance: float = 1e-9,
) -> Comparison:
    """Test the differences between systems that ranked the same queries.

    All numbers refer to the differences ``d_q = value of system on q - value of other on q``. The t-test and the
    randomization test ask whether their mean is zero, Wilcoxon's test whether they are symmetric about zero,
    leaving zeros out; for means, Smucker, Allan and Carterette (CIKM 2007) recommend the first two. The
    randomization test flips signs: in all ``2^n`` ways if there are at most ``resamples``, otherwise in
    ``resamples`` random ways, ``b`` of them at least as extreme as the data: ``p = (b + 1) / (resamples + 1)``.

    >>> row = compare({"new": [0.9, 0.7, 0.8, 0.6], "old": [0.6, 0.5, 0.7, 0.6]}).rows[0]
    >>> round(row.difference, 6), (row.wins, row.losses, row.ties)          # (0.3 + 0.2 + 0.1 + 0.0) / 4
    (0.15, (3, 0, 1))
    >>> row.p_randomization                          # 2 of the 2³ flips of 0.3, 0.2, 0.1 reach a sum of ±0.6
    0.25

    Args:
        systems: By name, the values of each system per query, in the same order for all, or results of
            `evaluate`. NaN marks a query that was skipped; it must be NaN for every system and is left out. With
            ``judged``, what `evaluate` accepts: scores per document, an object with ``predict(queries)``, or a run.
        judged: Judged queries, or TREC judgements, also as ``{query: {document: grade}}``, to evaluate the systems on;
            or grades, which go with ``qid`` or ``group``.
        qid: The query of each grade.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        measure: The measure to compare by; by default that of the evaluations if they have only one, otherwise
            ``ndcg@10``.
        policy: With ``judged``, how ties, short lists and queries without relevant documents are scored.
        unjudged: With ``judged``, what becomes of documents without a grade, as in `evaluate`.
        baseline: Compare every other system with this one; without it, every pair is compared.
        weights: One weight per query, by default those of the evaluations; zero leaves the query out. The tests see
            ``d_q w_q / mean(w)``, whose mean is the weighted mean difference. Wins, losses and ties are counts.
        query_ids: Names of the queries, for error messages; positions otherwise.
        by: Segments of the queries, to compare within each of them: a dict from query id to segment, or an array with
            one entry per query or, with ``judged``, one per row; by default those of the evaluations. The p-values of
            segments are adjusted by `holm` for the number of pairs and segments.
        confidence: Confidence level of the interval.
        resamples: Number of bootstrap samples and of random sign flips, at least 99.
        random_state: Seed of both. Each pair starts from it, so a row does not depend on the other rows.
        tie_tolerance: Differences up to this size are rounding errors and count as zero.

    Warns:
        TrainingDataWarning: The queries are those that a system was trained on.
    """
    settings = _Resampling(confidence, resamples, random_state, tie_tolerance)
    if not isinstance(systems, Mapping):
        raise TypeError("compare takes the systems by name: compare({'bm25': ..., 'mine': ...})")
    bounds = None
    if judged is not None:
        judged = judged if isinstance(judged, PartitionedQueries) else as_judged(judged, qid, group)
        warn_if_trained_on(judged, systems)
        scored = systems
        if not isinstance(judged, PartitionedQueries):
            scored = {name: _scored(judged, system) for name, system in systems.items()}
        systems = _evaluated(scored, judged, measure, policy, unjudged)
        if not isinstance(judged, PartitionedQueries) and unjudged == "irrelevant" and weights is None:
            bounds = _bounds(scored, judged, measure, policy, baseline)
    segments = None
    if any(isinstance(system, Evaluation) for system in systems.values()):
        systems, query_weights, query_ids, segments = _from_evaluations(systems, measure)
        weights = query_weights if weights is None else weights
    values, w, counted = _common_queries(cast("Mapping[str, npt.ArrayLike]", systems), weights, query_ids)
    if by is not None:
        ids = np.arange(len(counted)) if query_ids is None else np.asarray(query_ids)
        segments = segments_of(by, ids, judged if isinstance(judged, Queries | Qrels) else None)
    (comparison,), _ = _compare_pairs([_pairs(values, w, baseline)], settings)
    comparison = replace(comparison, bounds=bounds)
    if segments is None:
        return comparison
    return replace(comparison, by_segment=_in_segments(values, w, segments[counted], baseline, settings))


def _in_segments(
    values: Mapping[str, FloatArray], w: FloatArray, segments: AnyArray, baseline: str | None, settings: _Resampling
) -> dict[str, Comparison]:
    """Compare within each segment, and adjust the p-values of all segments together."""
    families = {
        name: _pairs({system: column[among] for system, column in values.items()}, w[among] / w[among].mean(), baseline)
        for name, among in members(segments).items()
    }
    comparisons, _ = _compare_pairs(list(families.values()), settings)
    rows = iter(_adjusted([row for comparison in comparisons for row in comparison.rows]))
    adjusted = [replace(comparison, rows=tuple(next(rows) for _ in comparison.rows)) for comparison in comparisons]
    return dict(zip(families, adjusted, strict=True))


class Summary(NamedTuple):
    """Result of `summarize`."""

    #: By system and measure, the interval of the mean that `mean_interval` returns.
    intervals: dict[tuple[str, str], tuple[float, float]]
    #: By measure and baseline, what `compare` returns.
    comparisons: dict[tuple[str, str], Comparison]


def summarize(
    evaluations: Mapping[str, Evaluation],
    measures: Sequence[str] = (),
    questions: Sequence[tuple[str, str]] = (),
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    random_state: int | None = 0,
    tie_tolerance: float = 1e-9,
) -> Summary:
    """Compute intervals of many means, and compare by several measures or with several baselines.

    Samples of queries are drawn once for everything, which is most of the work if there are many queries.
    The results are those of `mean_interval` and `compare`.

    >>> worse = evaluate([1, 0, 0, 2], [0.1, 0.7, 0.3, 0.9], ["ndcg@10", "rr"], qid=[1, 1, 2, 2])
    >>> better = evaluate([1, 0, 0, 2], [0.8, 0.7, 0.3, 0.9], ["ndcg@10", "rr"], qid=[1, 1, 2, 2])
    >>> summary = summarize({"a": worse, "b": better}, ["rr"], [("rr", "a")])
    >>> summary.intervals["b", "rr"], summary.comparisons["rr", "a"].rows[0].difference
    ((1.0, 1.0), 0.25)

    Args:
        evaluations: By name of the system, what `evaluate` returned.
        measures: Measures to compute intervals of means for.
        questions: Pairs of a measure and the baseline to compare all other systems with.
        confidence: Probability with which the intervals are to cover means and differences.
        resamples: Samples of queries for the intervals and of sign flips for the tests, at least 99.
        random_state: Seed of both.
        tie_tolerance: Differences up to this size are roundoff: taken as zero everywhere.
    """
    settings = _Resampling(confidence, resamples, random_state, tie_tolerance)
    centered = {(name, measure): _centered(one, measure) for name, one in evaluations.items() for measure in measures}
    families, parts = [], []
    for measure, baseline in questions:
        columns, weights, ids, segments = _from_evaluations(evaluations, measure)
        values, w, counted = _common_queries(columns, weights, ids)
        families.append(_pairs(values, w, baseline))
        parts.append({} if segments is None else _in_segments(values, w, segments[counted], baseline, settings))
    comparisons, intervals = _compare_pairs(families, settings, list(centered.values()))
    comparisons = [replace(whole, by_segment=part) for whole, part in zip(comparisons, parts, strict=True)]
    return Summary(dict(zip(centered, intervals, strict=True)), dict(zip(questions, comparisons, strict=True)))


@dataclass(frozen=True)
class _Resampling:
    """Settings of paired tests; the fields are arguments of `compare`."""

    confidence: float
    resamples: int
    random_state: int | None
    tie_tolerance: float

    def __post_init__(self) -> None:
        if not (0 < self.confidence < 1 and self.resamples >= 99 and 0 <= self.tie_tolerance < np.inf):
            raise ValueError(
                "expected 0 < confidence < 1, resamples >= 99 and a finite tie_tolerance >= 0, "
                f"not confidence={self.confidence}, resamples={self.resamples}, tie_tolerance={self.tie_tolerance}"
            )


class _Pair(NamedTuple):
    """Two systems, what one is better by on each query, and weights of mean 1."""

    system: str
    other: str
    d: FloatArray
    w: FloatArray


def _compare_pairs(
    families: Sequence[Sequence[_Pair]], settings: _Resampling, means: Sequence[FloatArray] = ()
) -> tuple[list[Comparison], list[tuple[float, float]]]:
    """Compare pairs, and find intervals of means, on common samples; each family of p-values is adjusted by itself."""
    pairs = [_without_roundoff(pair, settings.tie_tolerance) for family in families for pair in family]
    differences = [float(np.mean(pair.w * pair.d)) for pair in pairs]
    # Resampling w·d would add the spread of the weights to that of the differences; this has the same
    # mean and moves, as it should, with a constant added to one system.
    centered = [mean + pair.w * (pair.d - mean) for pair, mean in zip(pairs, differences, strict=True)]
    intervals = bca_intervals([*centered, *means], settings.confidence, settings.resamples, settings.random_state)
    flipped = p_randomizations([pair.w * pair.d for pair in pairs], settings.resamples, settings.random_state)
    rows = []
    for (system, other, d, w), mean, interval, p_flips in zip(pairs, differences, intervals, flipped, strict=False):
        counts = (int(np.sum(d > 0)), int(np.sum(d < 0)), int(np.sum(d == 0)))
        p = p_t(w * d), p_wilcoxon(w * d, settings.tie_tolerance), p_flips
        rows.append(PairedComparison(system, other, mean, interval, *counts, *p, *p))
    done = iter(rows)
    comparisons = [
        Comparison(_adjusted([next(done) for _ in family]), len(family[0].w), settings.confidence)
        for family in families
    ]
    return comparisons, intervals[len(pairs) :]


def _without_roundoff(pair: _Pair, tolerance: float) -> _Pair:
    return pair._replace(d=np.where(np.abs(pair.d) <= tolerance, 0.0, pair.d))


def mean_interval(
    evaluation: Evaluation,
    measure: str,
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    random_state: int | None = 0,
) -> tuple[float, float]:
    """Return the BCa bootstrap interval of a mean over samples of queries; unbounded for fewer than two queries.

    It says how far the mean would move on other queries. Two systems on the same queries move together, so whether
    they differ is a question for `compare`.

    >>> alike = Evaluation("standard", np.arange(3), {"ap": np.array([0.5, 0.5, 0.5])})
    >>> mean_interval(alike, "ap")
    (0.5, 0.5)

    Args:
        evaluation: What `marginrank.evaluate` returned.
        measure: Which of its measures.
        confidence: Probability with which the interval is to cover the mean.
        resamples: Samples of queries.
        random_state: Seed of the samples.
    """
    options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "random_state": random_state}
    return summarize({"": evaluation}, [measure], **options).intervals["", measure]


def _centered(evaluation: Evaluation, measure: str) -> FloatArray:
    """Return the values of the queries that count, spread around the weighted mean by their weights."""
    values = evaluation[measure]
    weights = np.ones(len(values)) if evaluation.weights is None else evaluation.weights
    counted = ~np.isnan(values) & (weights > 0)
    if not counted.any():
        return np.empty(0)
    w = weights[counted] / weights[counted].mean()
    mean = float(np.mean(w * values[counted]))
    return np.asarray(mean + w * (values[counted] - mean))


def _evaluated(
    systems: Mapping[str, System | Evaluation],
    judged: Queries | PartitionedQueries | Qrels,
    measure: str | None,
    policy: str | Policy,
    unjudged: UnjudgedRule,
) -> dict[str, Evaluation]:
    """Evaluate the systems that are not yet."""
    score: Any = score_partitions if isinstance(judged, PartitionedQueries) else score_documents
    done = {name: system for name, system in systems.items() if isinstance(system, Evaluation)}
    if measure is None:
        measure = _only_measure(next(iter(done.values()))) if done else DEFAULT_MEASURE
    return {
        name: done[name]
        if name in done
        else evaluate(judged, score(judged, cast("System", system)), measure, policy=policy, unjudged=unjudged)
        for name, system in systems.items()
    }


def _scored(judged: Queries | Qrels, system: System | Evaluation) -> System | Evaluation:
    """Score the documents by a ranker, once."""
    return system if isinstance(system, Evaluation) else score_documents(judged, system)


def _bounds(
    systems: Mapping[str, System | Evaluation],
    judged: Queries | Qrels,
    measure: str | None,
    policy: str | Policy,
    baseline: str | None,
) -> GradeBounds | None:
    """Return what the differences could be, if documents are unjudged and the measure is additive."""
    rules = parse_policy(policy)
    parsed = parse_measure(measure or DEFAULT_MEASURE, rules.parameters)
    if isinstance(judged, Queries) and (judged.has_document_weights or not judged.has_grades):
        return None
    given = {name: system for name, system in systems.items() if not isinstance(system, Evaluation)}
    if not is_additive(parsed) or rules.ties == "worst" or len(given) < len(systems):
        return None
    bounds = grade_bounds(judged, given, parsed, policy=policy, baseline=baseline)
    return bounds if bounds.n_unjudged else None


def _only_measure(evaluation: Evaluation) -> str:
    if len(evaluation.values) > 1:
        raise ValueError(f"name the measure to compare: {' or '.join(evaluation.values)}")
    return next(iter(evaluation.values))


def _from_evaluations(
    systems: Mapping[str, System | Evaluation], measure: str | None
) -> tuple[dict[str, FloatArray], FloatArray | None, AnyArray, AnyArray | None]:
    """Return values of one measure, query weights, ids and segments, of evaluations on the same queries and policy."""
    evaluations = {name: system for name, system in systems.items() if isinstance(system, Evaluation)}
    if len(evaluations) < len(systems):
        raise TypeError("compare takes evaluations or arrays, not some of each; with judged queries it takes both")
    (first, reference), *rest = evaluations.items()
    for name, evaluation in rest:
        if evaluation.policy != reference.policy:
            policies = evaluation.policy, reference.policy
            raise DataError(f"{name!r} was evaluated under policy {policies[0]}, {first!r} under {policies[1]}")
        if not np.array_equal(evaluation.query_ids, reference.query_ids):
            raise DataError(f"{name!r} was evaluated on different queries than {first!r}")
    measure = _only_measure(reference) if measure is None else measure
    values = {name: evaluation[measure] for name, evaluation in evaluations.items()}
    given = [evaluation.segments for evaluation in evaluations.values() if evaluation.segments is not None]
    if any(not np.array_equal(segments, given[0]) for segments in given):
        raise DataError("the evaluations have different segments; evaluate all with the same ones")
    return values, reference.weights, reference.query_ids, given[0] if given else None


def _adjusted(rows: Sequence[PairedComparison]) -> tuple[PairedComparison, ...]:
    by_test = {f"holm_{test}": holm([getattr(row, f"p_{test}") for row in rows]).tolist() for test in _TESTS}
    return tuple(replace(row, **{name: p[at] for name, p in by_test.items()}) for at, row in enumerate(rows))


def _pairs(values: Mapping[str, FloatArray], w: FloatArray, baseline: str | None) -> list[_Pair]:
    if baseline is None:
        chosen = list(combinations(values, 2))
    elif baseline not in values:
        raise ValueError(f"unknown baseline {baseline!r}; known: {', '.join(values)}")
    else:
        chosen = [(name, baseline) for name in values if name != baseline]
    return [_Pair(system, other, values[system] - values[other], w) for system, other in chosen]


def _common_queries(
    systems: Mapping[str, npt.ArrayLike],
    weights: npt.ArrayLike | None,
    query_ids: Sequence[object] | AnyArray | None,
) -> tuple[dict[str, FloatArray], FloatArray, BoolArray]:
    """Return the values of every system, and weights of mean 1, on the queries that count, and which these are."""
    raw = next((name for name, system in systems.items() if isinstance(system, Predictor | Run | Mapping)), None)
    if raw is not None:
        raise TypeError(f"{raw!r} has no values yet; give judged queries: compare(systems, queries)")
    if len(systems) < 2:
        raise ValueError(f"a comparison takes at least two systems; given: {', '.join(systems) or 'none'}")
    values = {name: np.asarray(column, dtype=np.float64) for name, column in systems.items()}
    first, n = next((name, column.size) for name, column in values.items())
    for name, column in values.items():
        _expect_one_per_query(f"system {name!r}", column, n)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    _expect_one_per_query("weights", w, n)
    ids = np.arange(n) if query_ids is None else np.asarray(query_ids)
    _expect_one_per_query("query_ids", ids, n)
    skipped = np.isnan(values[first])
    for name, column in values.items():
        _refuse(np.isinf(column), ids, f"is infinite for {name!r}; values are finite, or NaN where skipped")
        odd = np.isnan(column) != skipped
        _refuse(odd, ids, f"is skipped (NaN) for only one of {first!r} and {name!r}; evaluate both alike")
    _refuse(~(np.isfinite(w) & (w >= 0)), ids, "has a weight that is negative or not finite")
    counted = ~skipped & (w > 0)
    if not counted.any():
        raise DataError("no query is left to compare: each is skipped (NaN) or has weight zero")
    return {name: column[counted] for name, column in values.items()}, w[counted] / w[counted].mean(), counted


def _expect_one_per_query(name: str, array: AnyArray, n: int) -> None:
    if array.shape != (n,):
        raise DataError(f"{name} has shape {array.shape} for {n} queries; give one value per query, in order")


def _refuse(bad: BoolArray, ids: AnyArray, problem: str) -> None:
    if bad.any():
        raise DataError(f"query {ids[np.argmax(bad)]} {problem}")


def _cells(row: PairedComparison) -> list[str]:
    interval = "[{:+.4f}, {:+.4f}]".format(*row.interval)
    counts = f"{row.wins}/{row.losses}/{row.ties}"
    tests = [_p_cell(getattr(row, f"p_{test}"), getattr(row, f"holm_{test}")) for test in _TESTS]
    return [row.system, row.other, f"{row.difference:+.4f}", interval, counts, *tests]


def _p_cell(p: float, adjusted: float) -> str:
    return ("<0.0001" if p < 0.0001 else f"{p:.4f}") + ("*" if adjusted < _MARKED_BELOW else " ")
