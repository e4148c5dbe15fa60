"""Evaluation of scores, rankers and runs, per query and on average."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.grouping import join, offsets_from_sizes
from marginrank.data.partitions import AnyQueries, PartitionedQueries, PartitionedScores, ScoredPart
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.data.unjudged import UnjudgedRule, check_unjudged
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.policies import Policy, Ties, parse_policy
from marginrank.evaluation.segments import By, members, segments_of
from marginrank.evaluation.systems import (
    ByQuery,
    Predictor,
    Scored,
    System,
    as_judged,
    as_qrels,
    score_documents,
    score_partitions,
    warn_if_trained_on,
)
from marginrank.evaluation.weighted_documents import (
    mean_over_relevant,
    refuse_other_measures,
    relevant_totals,
    with_weights_as_grades,
)
from marginrank.measures import Measure, parse_measure
from marginrank.measures.base import respell
from marginrank.measures.gains import check_grades
from marginrank.measures.ranked_grades import RankedGrades, rank_by
from marginrank.runtime.default_measures import DEFAULT_MEASURES
from marginrank.runtime.text import ResultTable, count, data_frame, plain, query_named
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


def judge_scores(
    queries: Queries, scores: FloatArray, ties: Ties, needed: int | None, depth: int | None, n_jobs: int | None
) -> RankedGrades:
    """Rank judged documents by score, one for each row, no deeper than needed; the grade of unjudged ones is NaN."""
    grades, offsets = queries.to_grouped(queries.grades), queries.query_offsets
    names = None if queries.document_ids is None else queries.to_grouped(queries.document_ids)
    scores, prefer = queries.to_grouped(scores), preference(ties, grades, names)
    # One rank more than counts shows whether a tie continues beyond the last rank that counts.
    look = None if needed is None else needed + (ties == "average")
    order, ranked_offsets = rank_by(scores, offsets, depth=look, prefer=prefer, n_jobs=n_jobs)
    tied = tied_with_previous(scores[order], ranked_offsets) if ties == "average" else None
    if tied is not None and not tied.any():
        tied = None
    elif tied is not None and look is not None:
        order, ranked_offsets = rank_by(scores, offsets, n_jobs=n_jobs)
        tied = tied_with_previous(scores[order], ranked_offsets)
    rankings = RankedGrades(grades[order], ranked_offsets, grades, offsets, tied)
    return rankings if depth is None else _cut(rankings, depth)


def judge_run(
    qrels: Qrels, run: Run, ties: Ties, missing_topics: str, depth: int | None
) -> tuple[IntArray, RankedGrades]:
    """Look up the judgements of retrieved documents, topic by topic; the grade of unjudged ones is NaN.

    Returns:
        Numbers of the topics that count, and what the run ranks for them.
    """
    place = {topic: t for t, topic in enumerate(run.topics.tolist())}
    topics = _topics_to_judge(qrels, run, missing_topics, place)
    lists = [place.get(topic, -1) for topic in qrels.topics[topics].tolist()]
    scores, documents, grades, in_pool, pools = [], [], [], [], []
    for topic, place_in_run in zip(topics.tolist(), lists, strict=True):
        judged = slice(qrels.offsets[topic], qrels.offsets[topic + 1])
        retrieved = (
            slice(run.offsets[place_in_run], run.offsets[place_in_run + 1]) if place_in_run >= 0 else slice(0, 0)
        )
        names = run.document_ids[retrieved]
        retrieved_grades, is_pooled, other_grades = _look_up(names, qrels.document_ids[judged], qrels.grades[judged])
        scores.append(run.scores[retrieved])
        documents.append(names)
        grades.append(retrieved_grades)
        in_pool.append(is_pooled)
        pools.append(np.concatenate([retrieved_grades, other_grades]))
    offsets = offsets_from_sizes([len(part) for part in grades])
    flat_scores, flat_grades = np.concatenate(scores), np.concatenate(grades)
    prefer = preference(ties, flat_grades, np.concatenate(documents))
    order, _ = rank_by(flat_scores, offsets, prefer=prefer)
    tied = tied_with_previous(flat_scores[order], offsets) if ties == "average" else None
    pool_offsets = offsets_from_sizes([len(part) for part in pools])
    pooled = np.concatenate(in_pool)[order]
    rankings = RankedGrades(flat_grades[order], offsets, np.concatenate(pools), pool_offsets, tied, pooled=pooled)
    return topics, rankings if depth is None else _cut(rankings, depth)


def _topics_to_judge(qrels: Qrels, run: Run, missing_topics: str, place: dict[str, int]) -> IntArray:
    present = np.array([topic in place for topic in qrels.topics.tolist()])
    if not present.any():
        raise DataError(
            f"no topic of run {run.tag!r} ({', '.join(map(str, run.topics[:3]))}, ...) has judgements "
            f"({', '.join(map(str, qrels.topics[:3]))}, ...); do the files belong together?"
        )
    if missing_topics == "error" and not present.all():
        raise DataError(
            f"topic {qrels.topics[~present][0]} and {np.count_nonzero(~present) - 1} others have judgements but no "
            f"documents in run {run.tag!r}; pass ".replace(" and 0 others have", " has", 1),
            Parameter("missing_topics", "skip"),
            " to leave them out (trec_eval's habit) or ",
            Parameter("missing_topics", "zero"),
            " to count them as 0 (trec_eval -c)",
        )
    return np.arange(len(qrels)) if missing_topics == "zero" else np.flatnonzero(present)


def _look_up(names: AnyArray, judged: AnyArray, grades: FloatArray) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return the grades of documents, NaN if unjudged; whether each was in the pool; the grades of others in it."""
    grade_of = dict(zip(judged.tolist(), grades.tolist(), strict=True))
    listed = names.tolist()
    pooled = np.array([name in grade_of for name in listed], dtype=np.bool_)
    looked_up = np.array([grade_of.pop(name, np.nan) for name in listed], dtype=np.float64)
    return looked_up, pooled, np.array(list(grade_of.values()), dtype=np.float64)


def preference(ties: Ties, grades: FloatArray, document_ids: AnyArray | None) -> FloatArray | None:
    """Return the number by which documents with equal scores are ordered, descending; None for input order."""
    match ties:
        case "worst":
            return -np.nan_to_num(grades)
        case "document_id":
            if document_ids is None:
                raise DataError(
                    "this policy breaks ties by document id, but the documents have none; give document ids"
                )
            rank = np.empty(len(document_ids))
            rank[np.argsort(as_text(document_ids), kind="stable")] = np.arange(len(document_ids))
            return rank
        case _:
            return None


def tied_with_previous(scores: FloatArray, offsets: IntArray) -> BoolArray:
    """Return whether each ranked document has the same score as the one before it in its list."""
    tied = np.zeros(len(scores), dtype=np.bool_)
    tied[1:] = scores[1:] == scores[:-1]
    tied[offsets[:-1][np.diff(offsets) > 0]] = False
    return tied


def _cut(rankings: RankedGrades, depth: int) -> RankedGrades:
    """Keep the first documents of each list; what comes after is judged but not retrieved."""
    if rankings.tied is not None:
        return replace(rankings, depth=depth)
    sizes = np.diff(rankings.offsets)
    rank = np.arange(len(rankings.grades)) - np.repeat(rankings.offsets[:-1], sizes)
    kept = rank < depth
    return replace(
        rankings,
        grades=rankings.grades[kept],
        offsets=offsets_from_sizes(np.minimum(sizes, depth)),
        pooled=None if rankings.pooled is None else rankings.pooled[kept],
    )


#: How to score judged topics missing from the run: an error, left out (trec_eval), or 0 (trec_eval -c).
MissingTopics: TypeAlias = Literal["error", "skip", "zero"]

#: The value of a query without relevant documents, by policy.
EMPTY_VALUE = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Values of measures, per query and on average.

    ``evaluation["ndcg@10"]`` is one value per query, NaN if the policy leaves the query out; ``mean`` is over the
    others, weighted by the query weights if there are any. With ``segments``, one label per query, `by_segment` has
    the same of the queries of each segment.
    """

    policy: str
    query_ids: AnyArray
    values: Mapping[str, FloatArray]
    weights: FloatArray | None = None
    segments: AnyArray | None = None

    @cached_property
    def by_segment(self) -> Mapping[str, Evaluation]:
        """The evaluation of the queries of each segment, in ascending order; empty without segments."""
        return (
            {} if self.segments is None else {name: self._of(among) for name, among in members(self.segments).items()}
        )

    def _of(self, among: BoolArray) -> Evaluation:
        values = {name: column[among] for name, column in self.values.items()}
        return Evaluation(
            self.policy, self.query_ids[among], values, None if self.weights is None else self.weights[among]
        )

    @cached_property
    def mean(self) -> Mapping[str, float]:
        """Mean of each measure."""
        return {name: self._mean(column) for name, column in self.values.items()}

    def _mean(self, column: FloatArray) -> float:
        counted = ~np.isnan(column)
        weights = (np.ones(len(column)) if self.weights is None else self.weights)[counted]
        # Summed one after the other, as the evaluation scripts do, so that the last printed digit is theirs.
        total = sum((weights * column[counted]).tolist())
        return total / sum(weights.tolist()) if weights.any() else float("nan")

    def __getitem__(self, measure: str) -> FloatArray:
        """Return the values of one measure, per query."""
        measure = measure if measure in self.values else respell(measure)
        if measure not in self.values:
            raise KeyError(f"{measure!r} was not evaluated; there are {', '.join(self.values)}")
        return self.values[measure]

    def counted(self, measure: str) -> int:
        """Return the number of queries in the mean of a measure."""
        return int((~np.isnan(self[measure])).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, NaN as None."""
        ids = self.query_ids.tolist()
        record: dict[str, Any] = plain(
            {
                "policy": self.policy,
                "mean": self.mean,
                "queries": {name: self.counted(name) for name in self.values},
                "per_query": {
                    name: dict(zip(ids, values.tolist(), strict=True)) for name, values in self.values.items()
                },
            }
        )
        if self.by_segment:
            segments = {name: segment.to_dict() for name, segment in self.by_segment.items()}
            record["segments"] = {
                name: {key: one[key] for key in ("mean", "queries")} for name, one in segments.items()
            }
        return record

    def __repr__(self) -> str:
        means = ", ".join(f"{name}={value:.4f}" for name, value in self.mean.items())
        return f"Evaluation({means}; {count(len(self.query_ids), 'query', 'queries')}, policy {self.policy})"

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per query: its id, its segment and weight if there are any, each measure.

        >>> evaluate([1, 0, 0, 2], [0.1, 0.7, 0.3, 0.9], "rr", qid=["a", "a", "b", "b"]).to_frame()
          query   rr
        0     a  0.5
        1     b  1.0
        """
        weights = {} if self.weights is None else {"weight": self.weights}
        segments = {} if self.segments is None else {"segment": self.segments}
        return data_frame({"query": self.query_ids, **segments, **weights, **self.values})

    def _rows(self) -> list[list[str]]:
        return [[name, f"{self.mean[name]:.4f}", f"{self.counted(name):,}"] for name in self.values]

    def _table(self) -> ResultTable:
        empty = "" if any(map(self.counted, self.values)) else "; no query has a relevant document"
        note = f"policy: {self.policy}{empty}"
        header = ["measure", "mean", "queries"]
        if not self.by_segment:
            return ResultTable([header, *self._rows()], right=[1, 2], note=note)
        parts = [("all", self), *self.by_segment.items()]
        rows = [[name, *row] for name, part in parts for row in part._rows()]
        return ResultTable([["segment", *header], *rows], right=[2, 3], note=note)

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def evaluate(
    judged: AnyQueries | Qrels | ByQuery | npt.ArrayLike,
    ranked: System,
    measures: str | Measure | Iterable[str | Measure] = DEFAULT_MEASURES,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    policy: str | Policy = "standard",
    depth: int | None = None,
    missing_topics: MissingTopics = "error",
    unjudged: UnjudgedRule = "irrelevant",
    by: By | None = None,
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate a ranking of judged documents.

    Queries with document weights, such as those of a click log, have the mean over their relevant documents, each
    alone and by its weight, for measures that are sums over relevant documents (``dcg@10``, ``p@10``); other measures
    are refused. Queries then count by the weight of their relevant documents.

    Args:
        judged: Judged queries, TREC judgements, also as ``{query: {document: grade}}``, or grades, which go with
            ``qid`` or ``group``.
        ranked: For queries, one score per row (higher is better), any object with
            ``predict(queries)``, or a run, also as ``{query: {document: score}}``. For grades, one score each. For
            judgements, a run.
        measures: Spellings such as ``ndcg@10``, ``ap``, ``rr@10``; `marginrank.all_measures` lists them.
        qid: The query of each grade, in any order; results come by first appearance.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        policy: How ties, short lists and queries without relevant documents are scored: ``standard``, ``letor3``,
            ``letor4``, ``mslr``, ``trec``, ``lightgbm``, or a `Policy`.
        depth: Count only the first documents of each list (trec_eval -M).
        missing_topics: How to score judged topics missing from the run: ``"error"``, ``"skip"`` (as trec_eval does)
            or ``"zero"`` (trec_eval -c). Topics of the run that nobody judged are never counted.
        unjudged: What becomes of documents without a grade: ``"irrelevant"``, as in trec_eval, or ``"skip"``, which
            leaves them out, so that the documents after them move up (condensed lists, trec_eval -J). Some measures,
            such as ``bpref``, have a rule of their own.
        by: Segments of the queries, to break the values down by: a dict from query id to segment, or an array with
            one entry per query, in the order of ``queries.query_ids``, or one per row, such as ``frame["language"]``.
        n_jobs: Threads; all cores by default.

    Warns:
        TrainingDataWarning: The queries are those that the ranker was trained on.

    >>> queries = Queries.from_arrays([[0.0]] * 4, [1, 0, 0, 2], qid=[1, 1, 2, 2])
    >>> print(evaluate(queries, [0.1, 0.7, 0.3, 0.9], ["ndcg@10", "rr"]))
    measure    mean  queries
    ndcg@10  0.8155        2
    rr       0.7500        2
    policy: standard
    >>> evaluate([1, 0, 0, 2], [0.1, 0.3, 0.7, 0.9], "rr", qid=["a", "b", "a", "b"])["rr"].tolist()
    [0.5, 1.0]
    >>> evaluate({"a": {"d1": 1, "d2": 0}}, {"a": {"d2": 7.5, "d1": 6.0}}, "rr").mean["rr"]
    0.5
    >>> print(evaluate([1, 0, 0, 2], [0.1, 0.7, 0.3, 0.9], "rr", qid=[1, 1, 2, 2], by={1: "tail", 2: "head"}))
    segment  measure    mean  queries
    all      rr       0.7500        2
    head     rr       1.0000        1
    tail     rr       0.5000        1
    policy: standard
    """
    rules = parse_policy(policy)
    if missing_topics not in get_args(MissingTopics):
        raise ParameterError(Parameter("missing_topics"), f" is {missing_topics!r}; choose 'error', 'skip' or 'zero'")
    if depth is not None and (not isinstance(depth, int) or depth < 1):
        raise ParameterError(Parameter("depth"), f" is {depth}; count a whole number of documents, at least one")
    check_unjudged(unjudged)
    if isinstance(judged, PartitionedQueries):
        warn_if_trained_on(judged, {f"this {type(ranked).__name__}": ranked})
        parts = score_partitions(judged, ranked).parts
        joined = _joined(parts.map(_evaluate_part, list(_parse_all(measures, rules)), rules, depth, unjudged))
        return joined if by is None else replace(joined, segments=segments_of(by, joined.query_ids))
    if not isinstance(judged, Queries | Qrels | Mapping) and (
        (qid is None and group is None) or isinstance(ranked, Run | Predictor | Mapping | PartitionedScores)
    ):
        raise TypeError("evaluate takes (queries, scores), (qrels, run), or (grades, scores) with qid or group")
    judged = as_judged(judged, qid, group)
    chosen = _parse_all(measures, rules)
    needed = _deepest([measure.depth for measure in chosen.values()] + [depth])
    if unjudged == "skip" and isinstance(judged, Queries) and judged.n_unjudged:
        needed = depth  # documents of any rank may move up
    warn_if_trained_on(judged, {f"this {type(ranked).__name__}": ranked})
    scored = score_documents(judged, ranked)
    if isinstance(judged, Queries) and judged.has_document_weights:
        result = _of_weighted_documents(judged, scored, chosen, rules, depth, unjudged, n_jobs)
        return result if by is None else replace(result, segments=segments_of(by, result.query_ids, judged))
    if isinstance(judged, Queries) and not isinstance(scored, Run):
        ids, weights = judged.query_ids, judged.query_weights
        scores = check_scores(judged, scored)
        rankings = judge_scores(judged, scores, rules.ties, needed, depth, n_jobs)
    else:
        ids, weights, rankings = _judge_run(judged, cast("Run", scored), rules, missing_topics, depth)
    resolved = rankings.resolved(unjudged)
    check_grades(chosen.values(), resolved.pool)
    values = {
        name: _values(measure, rankings if measure.sees_unjudged else resolved, rules)
        for name, measure in chosen.items()
    }
    return Evaluation(rules.name, ids, values, weights, None if by is None else segments_of(by, ids, judged))


def _of_weighted_documents(
    judged: Queries,
    scored: Scored,
    measures: Mapping[str, Measure],
    rules: Policy,
    depth: int | None,
    unjudged: UnjudgedRule,
    n_jobs: int | None,
) -> Evaluation:
    """Evaluate scores of weighted documents; queries count by the weight of their relevant documents."""
    refuse_other_measures(measures.values())
    if isinstance(scored, Run):
        raise DataError("documents of a run have no weights; give one score for each row of the queries, or a ranker")
    scores, totals = check_scores(judged, scored), relevant_totals(judged)
    rankings = judge_scores(with_weights_as_grades(judged), scores, rules.ties, None, depth, n_jobs)
    values = mean_over_relevant(measures, rankings.resolved(unjudged))
    return Evaluation(rules.name, judged.query_ids, values, totals)


def _evaluate_part(
    part: ScoredPart, measures: list[str], rules: Policy, depth: int | None, unjudged: UnjudgedRule
) -> Evaluation:
    return evaluate(part.queries, part.scores, measures, policy=rules, depth=depth, unjudged=unjudged, n_jobs=1)


def _joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Put the queries of evaluations one after the other."""
    weights = [part.weights for part in parts]
    given = [weight for weight in weights if weight is not None]
    return Evaluation(
        parts[0].policy,
        join([part.query_ids for part in parts]),
        {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
        np.concatenate(given) if len(given) == len(parts) else None,
    )


def _judge_run(
    judged: Queries | Qrels, run: Run, rules: Policy, missing_topics: MissingTopics, depth: int | None
) -> tuple[AnyArray, FloatArray | None, RankedGrades]:
    """Return the ids and weights of the queries that count, and what the run ranks for them."""
    if isinstance(judged, Qrels):
        topics, rankings = judge_run(judged, run, rules.ties, missing_topics, depth)
        return judged.topics[topics], None, rankings
    # A run knows queries and documents by name only; the values are of the queries all the same.
    topics, rankings = judge_run(as_qrels(judged), run, rules.ties, missing_topics, depth)
    return judged.query_ids[topics], None if judged.query_weights is None else judged.query_weights[topics], rankings


def _parse_all(measures: str | Measure | Iterable[str | Measure], rules: Policy) -> dict[str, Measure]:
    specs = [measures] if isinstance(measures, str | Measure) else list(measures or [])
    if not specs:
        raise ValueError("no measure given; name at least one, for example 'ndcg@10'")
    return {respell(str(spec)).strip(): parse_measure(spec, rules.parameters) for spec in specs}


def _deepest(depths: list[int | None]) -> int | None:
    *of_measures, limit = depths
    deepest = None if None in of_measures else max(cast("list[int]", of_measures))
    return deepest if limit is None else limit if deepest is None else min(deepest, limit)


def check_scores(judged: Queries, scores: FloatArray) -> FloatArray:
    """Refuse scores that are not one number per row."""
    if scores.shape != (judged.n_documents,):
        raise DataError(
            f"scores have shape {scores.shape} for {judged.n_documents} documents; give one number for each"
        )
    bad = np.isnan(scores)
    if bad.any():
        at = int(np.argmax(bad))
        query = judged.query_ids[judged.query_of_row[at]]
        raise DataError(
            f"score {at} ({query_named(query)}) is NaN; every document needs a score; use -inf to rank it last"
        )
    return np.ascontiguousarray(scores)


def _values(measure: Measure, rankings: RankedGrades, rules: Policy) -> FloatArray:
    values = measure.values(rankings)
    if measure.name in rules.zero_if_short:
        values[np.diff(rankings.pool_offsets) < (measure.depth or 0)] = 0.0
    values[~measure.defined(rankings)] = EMPTY_VALUE[rules.empty]
    return values


@dataclass(frozen=True)
class Unjudged:
    """Number of unjudged documents among the first documents of a system.

    Args:
        k: Number of documents of each topic that were looked at.
        documents: Number of documents without a judgement.
        out_of: Number of documents that were looked at.
    """

    k: int
    documents: int
    out_of: int

    @property
    def share(self) -> float:
        """The share of the documents without a judgement."""
        return self.documents / self.out_of if self.out_of else 0.0


def count_unjudged(judged: Queries | Qrels, scored: Scored, k: int = 10) -> Unjudged:
    """Count the documents without a judgement among the first k of each judged topic, by a run or by scores of rows.

    Rows with a score of -inf, which a retriever did not return, are not counted.

    >>> import numpy as np
    >>> run = Run(np.array(["1"]), np.array([0, 3]), np.array(["a", "b", "c"]), np.array([3.0, 2.0, 1.0]))
    >>> qrels = Qrels(np.array(["1"]), np.array([0, 2]), np.array(["b", "z"]), np.array([2.0, 1.0]))
    >>> count_unjudged(qrels, run, k=2)
    Unjudged(k=2, documents=1, out_of=2)
    """
    if isinstance(judged, Queries) and not isinstance(scored, Run):
        scores = judged.to_grouped(scored)
        order, _ = rank_by(scores, judged.query_offsets, depth=k)
        order = order[scores[order] > -np.inf]
        return Unjudged(k, int(np.isnan(judged.to_grouped(judged.grades)[order]).sum()), len(order))
    run = cast("Run", scored)
    qrels = as_qrels(judged) if isinstance(judged, Queries) else judged
    parts = zip(qrels.topics.tolist(), pairwise(qrels.offsets.tolist()), strict=True)
    has_grade, names = ~np.isnan(qrels.grades), qrels.document_ids
    known = {topic: set(names[start:stop][has_grade[start:stop]].tolist()) for topic, (start, stop) in parts}
    order, offsets = rank_by(run.scores, run.offsets, depth=k)
    first, missing, seen = run.document_ids[order].tolist(), 0, 0
    for topic, (start, stop) in zip(run.topics.tolist(), pairwise(offsets.tolist()), strict=True):
        if topic in known:
            seen += stop - start
            missing += sum(name not in known[topic] for name in first[start:stop])
    return Unjudged(k, missing, seen)
