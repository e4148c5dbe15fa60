"""Evaluate scores, rankers and runs, per query and on average."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_grades
from marginrank.data.joining import join
from marginrank.data.partitioned import AnyQueries, PartitionedQueries
from marginrank.data.partitioned_scores import PartitionedScores, ScoredPart
from marginrank.data.queries import Queries
from marginrank.data.trec import Qrels, Run
from marginrank.errors import DataError
from marginrank.evaluation.judging import judge_run, judge_scores
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.evaluation.systems import (
    ByQuery,
    Predictor,
    System,
    as_judged,
    as_qrels,
    score_documents,
    score_partitions,
    warn_if_trained_on,
)
from marginrank.measures import Measure, Rankings, parse_measure
from marginrank.measures.base import respell
from marginrank.measures.thresholds import check_grades
from marginrank.notebooks import ResultTable, data_frame
from marginrank.typing import AnyArray, FloatArray, IntArray
from marginrank.words import count, plain, query_named

#: How to score judged topics missing from the run: an error, left out (trec_eval), or 0 (trec_eval -c).
MissingTopics: TypeAlias = Literal["error", "skip", "zero"]

_EMPTY_VALUE = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Values of measures, per query and on average.

    ``evaluation["ndcg@10"]`` is one value per query, NaN where the policy leaves the query out; ``mean`` is over the
    others, weighted by the query weights where there are any.
    """

    policy: str
    query_ids: AnyArray
    values: Mapping[str, FloatArray]
    weights: FloatArray | None = None

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
        """Values of one measure, per query."""
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
        return record

    def __repr__(self) -> str:
        means = ", ".join(f"{name}={value:.4f}" for name, value in self.mean.items())
        return f"Evaluation({means}; {count(len(self.query_ids), 'query', 'queries')}, policy {self.policy})"

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per query: its id, its weight if there are any, and each measure.

        >>> evaluate([1, 0, 0, 2], [0.1, 0.7, 0.3, 0.9], "rr", qid=["a", "a", "b", "b"]).to_frame()
          query   rr
        0     a  0.5
        1     b  1.0
        """
        weights = {} if self.weights is None else {"weight": self.weights}
        return data_frame({"query": self.query_ids, **weights, **self.values})

    def _table(self) -> ResultTable:
        rows = [[name, f"{self.mean[name]:.4f}", f"{self.counted(name):,}"] for name in self.values]
        empty = "" if any(map(self.counted, self.values)) else "; no query has a relevant document"
        note = f"policy: {self.policy}{empty}"
        return ResultTable([["measure", "mean", "queries"], *rows], right=[1, 2], note=note)

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def evaluate(
    judged: AnyQueries | Qrels | ByQuery | npt.ArrayLike,
    ranked: System,
    measures: str | Measure | Iterable[str | Measure] = ("ndcg@10", "ap"),
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    policy: str | Policy = "standard",
    depth: int | None = None,
    missing_topics: MissingTopics = "error",
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate a ranking of judged documents.

    Args:
        judged: Judged queries, TREC judgements, also as ``{query: {document: grade}}``, or grades, which go with
            ``qid`` or ``group``.
        ranked: For queries, one score per document in their order (higher is better), any object with
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
    """
    rules = parse_policy(policy)
    if missing_topics not in get_args(MissingTopics):
        raise ValueError(f"missing_topics is {missing_topics!r}; choose 'error', 'skip' or 'zero'")
    if depth is not None and (not isinstance(depth, int) or depth < 1):
        raise ValueError(f"depth is {depth}; count a whole number of documents, at least one")
    rows = None
    if isinstance(judged, PartitionedQueries):
        warn_if_trained_on(judged, {f"this {type(ranked).__name__}": ranked})
        parts = score_partitions(judged, ranked).parts
        return _joined(parts.map(_evaluate_part, list(_parse_all(measures, rules)), rules, depth))
    if isinstance(judged, Mapping):
        judged = as_judged(judged)
    if not isinstance(judged, Queries | Qrels):
        judged, ranked, rows = _group(judged, ranked, qid, group)
    elif qid is not None or group is not None:
        raise TypeError("judged documents know their queries; leave out qid and group")
    chosen = _parse_all(measures, rules)
    needed = _deepest([measure.depth for measure in chosen.values()] + [depth])
    warn_if_trained_on(judged, {f"this {type(ranked).__name__}": ranked})
    scored = score_documents(judged, ranked)
    if isinstance(judged, Queries) and not isinstance(scored, Run):
        ids, weights = judged.query_ids, judged.query_weights
        scores = _check_scores(judged, scored, rows)
        rankings = judge_scores(judged, scores, rules.ties, needed, depth, n_jobs)
    else:
        ids, weights, rankings = _judge_run(judged, cast("Run", scored), rules, missing_topics, depth)
    check_grades(chosen.values(), rankings.pool)
    values = {name: _values(measure, rankings, rules) for name, measure in chosen.items()}
    return Evaluation(rules.name, ids, values, weights)


def _evaluate_part(part: ScoredPart, measures: list[str], rules: Policy, depth: int | None) -> Evaluation:
    return evaluate(part.queries, part.scores, measures, policy=rules, depth=depth, n_jobs=1)


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
) -> tuple[AnyArray, FloatArray | None, Rankings]:
    """Ids and weights of the queries that count, and what the run ranks for them."""
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


def _group(
    grades: npt.ArrayLike, ranked: System, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
) -> tuple[Queries, AnyArray, IntArray | None]:
    """Group grades and scores by query; also return the row that each came from, where they moved."""
    if (qid is None and group is None) or isinstance(ranked, Run | Predictor | Mapping | PartitionedScores):
        raise TypeError("evaluate takes (queries, scores), (qrels, run), or (grades, scores) with qid or group")
    y = as_grades(grades)
    queries = Queries.from_arrays(np.empty((len(y), 0)), y, qid=qid, group=group)
    return queries, queries.from_source_rows(ranked, "scores"), queries.rows


def _check_scores(judged: Queries, scores: FloatArray, rows: IntArray | None) -> FloatArray:
    """Refuse scores that are not one number per document; rows that moved are named as they were."""
    if scores.shape != (judged.n_documents,):
        raise DataError(
            f"scores have shape {scores.shape} for {judged.n_documents} documents; give one number for each"
        )
    bad = np.isnan(scores)
    if bad.any():
        at = int(np.argmax(bad))
        query = judged.query_ids[np.searchsorted(judged.offsets, at, side="right") - 1]
        row = at if rows is None else int(rows[at])
        raise DataError(
            f"score {row} ({query_named(query)}) is NaN; every document needs a score, -inf if it is to be last"
        )
    return np.ascontiguousarray(scores)


def _values(measure: Measure, rankings: Rankings, rules: Policy) -> FloatArray:
    values = measure.values(rankings)
    if measure.name in rules.zero_if_short:
        values[np.diff(rankings.pool_offsets) < (measure.depth or 0)] = 0.0
    values[~measure.defined(rankings)] = _EMPTY_VALUE[rules.empty]
    return values
