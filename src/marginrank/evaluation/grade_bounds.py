"""Bounds on means and differences of additive measures, whatever the grades of unjudged documents are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.queries import Queries
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.evaluation import EMPTY_VALUE, MissingTopics, check_scores, preference, tied_with_previous
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.evaluation.systems import Judged, Scored, System, as_judged, as_qrels, score_documents
from marginrank.measures import Measure, parse_measure
from marginrank.measures.base import PositionMeasure, cut
from marginrank.measures.ranked_grades import RankedGrades, rank_by
from marginrank.runtime.text import ResultTable, count, plain
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: The measure if none is named: that of NDCG, without the division by what unjudged documents change.
DEFAULT_MEASURE: Final = "dcg@10"


class MeanBounds(NamedTuple):
    """Mean of a system if unjudged documents are irrelevant, and its lowest and highest possible values."""

    system: str
    mean: float
    lowest: float
    highest: float


class DifferenceBounds(NamedTuple):
    """Mean of ``system`` minus that of ``other`` if unjudged documents are irrelevant, and its possible range."""

    system: str
    other: str
    difference: float
    lowest: float
    highest: float

    def turned(self) -> DifferenceBounds:
        """Return the bounds of ``other`` minus ``system``."""
        return DifferenceBounds(self.other, self.system, -self.difference, -self.highest, -self.lowest)

    def __str__(self) -> str:
        flips = "could flip" if self.could_flip else "cannot flip"
        between = f"between {self.lowest:+.4f} and {self.highest:+.4f}"
        return f"{self.system} - {self.other} is {between} for all grades of unjudged documents: it {flips}"

    @property
    def could_flip(self) -> bool:
        """Whether grades of the unjudged documents could make the other system the better one."""
        return self.lowest < 0 < self.highest or (self.difference == 0 and self.lowest < self.highest)


@dataclass(frozen=True, repr=False)
class GradeBounds:
    """The result of `grade_bounds`; ``print`` shows a table."""

    measure: str
    means: tuple[MeanBounds, ...]
    differences: tuple[DifferenceBounds, ...]
    #: The lowest and the highest grade that an unjudged document may have.
    grades: tuple[float, float]
    n_unjudged: int
    n_documents: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values."""
        record: dict[str, Any] = plain(
            {
                "measure": self.measure,
                "grades": list(self.grades),
                "unjudged": self.n_unjudged,
                "documents": self.n_documents,
                "means": [one._asdict() for one in self.means],
                "differences": [{**one._asdict(), "could_flip": one.could_flip} for one in self.differences],
            }
        )
        return record

    def __repr__(self) -> str:
        flips = sum(one.could_flip for one in self.differences)
        pairs = f", {flips} of {count(len(self.differences), 'verdict')} could flip" if self.differences else ""
        return f"GradeBounds({self.measure}: {count(self.n_unjudged, 'unjudged document')}{pairs})"

    def _table(self) -> ResultTable:
        rows = [["system", self.measure, "lowest", "highest", ""]]
        rows += [[one.system, *(f"{value:.4f}" for value in one[1:]), ""] for one in self.means]
        for one in self.differences:
            flips = "could flip" if one.could_flip else "cannot flip"
            rows.append([f"{one.system} - {one.other}", *(f"{value:+.4f}" for value in one[2:]), flips])
        grades = "{:g} to {:g}".format(*self.grades)
        note = f"{self.n_unjudged:,} of {count(self.n_documents, 'document')} unjudged; grades from {grades}"
        return ResultTable(rows, right=[1, 2, 3], note=note)

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def is_additive(measure: Measure) -> bool:
    """Return whether a measure is a sum over documents of a discount times a gain, whatever the others are.

    >>> [is_additive(parse_measure(name)) for name in ("dcg@10", "p@5", "rbp", "eru", "ndcg@10", "wta", "ap")]
    [True, True, True, True, False, False, False]
    """
    if not isinstance(measure, PositionMeasure) or not isinstance(measure.normalizer, int | float):
        return False
    one = np.ones(1)
    return np.array_equal(measure.gains(one, one), measure.gains(one, 2 * one))


def grade_bounds(
    judged: Judged,
    systems: Mapping[str, System],
    measure: str | Measure = DEFAULT_MEASURE,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    grades: Sequence[float] | None = None,
    baseline: str | None = None,
    policy: str | Policy = "standard",
    depth: int | None = None,
    missing_topics: MissingTopics = "error",
) -> GradeBounds:
    """Compute the best and the worst mean, and difference of means, that missing grades allow.

    The value of a query is Σ c_d·G(g_d) over its documents, with c_d the discount of the rank of document d over the
    normalizer; of a difference, c_d is the difference of both. It is highest if every unjudged document with c_d > 0
    has the highest possible grade and every other the lowest. If the policy leaves out queries without relevant
    documents, those that unjudged documents could make count are counted if that makes the mean more extreme.
    Documents that no system returns and no judgement lists are taken to be irrelevant.

    >>> judged = {"q": {"x": 1, "z": 0}}
    >>> runs = {"a": {"q": {"x": 3, "y": 2, "z": 1}}, "b": {"q": {"y": 3, "z": 2, "x": 1}}}
    >>> print(grade_bounds(judged, runs, "p@1"))
    system      p@1   lowest  highest
    a        1.0000   1.0000   1.0000
    b        0.0000   0.0000   1.0000
    a - b   +1.0000  +0.0000  +1.0000  cannot flip
    1 of 3 documents unjudged; grades from 0 to 1

    Args:
        judged: Judged queries, TREC judgements, also as ``{query: {document: grade}}``, or grades with ``qid`` or
            ``group``.
        systems: By name, what `evaluate` accepts: rankers, scores, runs.
        measure: An additive one: ``dcg@k``, ``p@k``, ``rbp`` or ``eru``.
        qid: The query of each grade.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        grades: The grades that an unjudged document may have; by default 0, 1 and those that were given.
        baseline: Compare every other system with this one; without it, every pair is compared.
        policy: How ties, short lists and queries without relevant documents are scored.
        depth: Count only the first documents of each list.
        missing_topics: How to score judged topics missing from a run, as in `evaluate`.
    """
    rules = parse_policy(policy)
    parsed = parse_measure(measure, rules.parameters)
    if not is_additive(parsed):
        raise ParameterError(
            Parameter("measure"),
            f" is {parsed}, which is not a sum over documents, so that grades of one change what others count; choose "
            "dcg@10, p@10, rbp or eru",
        )
    if rules.ties == "worst":
        raise DataError("this policy orders tied documents by their grades, which are not known; choose another")
    if baseline is not None and baseline not in systems:
        raise ValueError(f"there is no system {baseline!r}; known: {', '.join(systems)}")
    truth = as_judged(judged, qid, group)
    scored = {name: score_documents(truth, system) for name, system in systems.items()}
    weigh = _Weigher(cast("PositionMeasure", parsed), rules, depth)
    if isinstance(truth, Queries) and not any(isinstance(one, Run) for one in scored.values()):
        pool = _pool_of_rows(truth, cast("Mapping[str, FloatArray]", scored), weigh)
    else:
        pool = _pool_of_runs(truth, scored, weigh, missing_topics)
    scale = _possible_grades(pool.grades, grades)
    extremes = _Extremes(pool, cast("PositionMeasure", parsed), scale, rules)
    names = list(systems)
    pairs = [(a, b) for a, b in combinations(names, 2) if baseline is None]
    pairs += [(name, baseline) for name in names if baseline is not None and name != baseline]
    return GradeBounds(
        str(parsed),
        tuple(MeanBounds(name, *extremes.of(pool.weights[name], EMPTY_VALUE[rules.empty])) for name in names),
        tuple(DifferenceBounds(a, b, *extremes.of(pool.weights[a] - pool.weights[b], 0.0)) for a, b in pairs),
        (float(scale[0]), float(scale[-1])),
        int(np.isnan(pool.grades).sum()),
        len(pool.grades),
    )


def _possible_grades(known: FloatArray, grades: Sequence[float] | None) -> FloatArray:
    """Return the grades that a document may have, in ascending order."""
    if grades is None:
        return np.unique(np.append(known[~np.isnan(known)], [0.0, 1.0]))
    given = np.unique(np.asarray(grades, dtype=np.float64))
    if not len(given) or not np.isfinite(given).all() or given[0] < 0:
        raise ParameterError(Parameter("grades"), f" is {grades}; give the grades that a document may have, from 0 on")
    return given


@dataclass(frozen=True, eq=False)
class _Pool:
    """The documents of each query, and what each counts in the mean of a system if its gain is 1."""

    offsets: IntArray
    #: NaN if unjudged.
    grades: FloatArray
    query_weights: FloatArray
    #: By system, one per document.
    weights: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class _Weigher:
    """Computes how much documents count by their ranks."""

    measure: PositionMeasure
    rules: Policy
    depth: int | None

    def __call__(self, scores: FloatArray, offsets: IntArray, names: AnyArray | None, sizes: IntArray) -> FloatArray:
        """Return the discount of each document over the normalizer; ``sizes`` are those of the pools."""
        order, _ = rank_by(scores, offsets, prefer=preference(self.rules.ties, np.zeros(len(scores)), names))
        lengths = np.diff(offsets)
        rank = np.arange(len(scores)) - np.repeat(offsets[:-1], lengths)
        ranked = cut(self.measure.discounts(int(lengths.max(initial=0))), self.depth)[rank]
        if self.rules.ties == "average":
            tied = tied_with_previous(scores[order], offsets)
            ranked = RankedGrades(ranked, offsets, ranked, offsets, tied).mean_over_ties(ranked)
        weights = np.empty(len(scores))
        weights[order] = ranked / float(self.measure.normalizer)
        if self.measure.name in self.rules.zero_if_short:
            weights[np.repeat(sizes < (self.measure.depth or 0), lengths)] = 0.0
        return weights


def _pool_of_rows(queries: Queries, scored: Mapping[str, FloatArray], weigh: _Weigher) -> _Pool:
    offsets, names = queries.query_offsets, queries.document_ids
    names = None if names is None else queries.to_grouped(names)
    weights = {
        name: weigh(queries.to_grouped(check_scores(queries, scores)), offsets, names, queries.lengths)
        for name, scores in scored.items()
    }
    counted = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
    return _Pool(offsets, queries.to_grouped(queries.grades), counted, weights)


def _pool_of_runs(
    judged: Queries | Qrels, scored: Mapping[str, Scored], weigh: _Weigher, missing_topics: MissingTopics
) -> _Pool:
    """Pool what is judged and what the runs return; scores of queries become runs."""
    runs = {
        name: one if isinstance(one, Run) else Run.from_scores(cast("Queries", judged), one)
        for name, one in scored.items()
    }
    qrels = as_qrels(judged) if isinstance(judged, Queries) else judged
    topics = _topics(qrels, runs, missing_topics)
    listed = [dict(_rows(qrels, qrels.grades, int(topic))) for topic in topics]
    retrieved = {name: _lists(run, qrels.topics[topics].tolist()) for name, run in runs.items()}
    pools = [
        dict.fromkeys((document for documents in of_topic for document in documents), np.nan) | known
        for known, *of_topic in zip(listed, *retrieved.values(), strict=True)
    ]
    offsets = offsets_from_sizes([len(pool) for pool in pools])
    places = [
        dict(zip(pool, range(start, end), strict=True))
        for pool, (start, end) in zip(pools, pairwise(offsets.tolist()), strict=True)
    ]
    weights = {}
    for name, lists in retrieved.items():
        rows = np.array([place[d] for place, some in zip(places, lists, strict=True) for d in some], dtype=np.int64)
        names = np.array([document for some in lists for document in some])
        scores = np.array([score for some in lists for score in some.values()])
        sizes = np.array([len(known.keys() | some.keys()) for known, some in zip(listed, lists, strict=True)])
        weights[name] = np.zeros(int(offsets[-1]))
        weights[name][rows] = weigh(scores, offsets_from_sizes([len(some) for some in lists]), names, sizes)
    counted = np.ones(len(topics))
    if isinstance(judged, Queries) and judged.query_weights is not None:
        counted = judged.query_weights[topics]
    return _Pool(offsets, np.array([grade for pool in pools for grade in pool.values()]), counted, weights)


def _topics(qrels: Qrels, runs: Mapping[str, Run], missing_topics: MissingTopics) -> IntArray:
    """Return the numbers of the topics that count, the same for all runs."""
    present = {name: np.isin(qrels.topics, run.topics) for name, run in runs.items()}
    if missing_topics == "zero":
        return np.arange(len(qrels))
    first, *others = present.values()
    same = all(np.array_equal(first, other) for other in others)
    if not same or (missing_topics == "error" and not first.all()):
        raise DataError(
            "a judged topic is missing from a run, so that means are not of the same topics; pass ",
            Parameter("missing_topics", "zero"),
            " to count it as 0",
        )
    return np.flatnonzero(first)


def _lists(run: Run, topics: Sequence[str]) -> list[dict[str, float]]:
    """Return what a run retrieves for each topic, with scores; nothing for topics that it lacks."""
    place = {topic: at for at, topic in enumerate(run.topics.tolist())}
    return [dict(_rows(run, run.scores, place[topic])) if topic in place else {} for topic in topics]


def _rows(source: Run | Qrels, values: FloatArray, topic: int) -> list[tuple[str, float]]:
    rows = slice(int(source.offsets[topic]), int(source.offsets[topic + 1]))
    return list(zip(source.document_ids[rows].tolist(), values[rows].tolist(), strict=True))


class _Extremes:
    """The lowest and the highest mean of Σ c_d·G(g_d) over the grades of unjudged documents.

    Args:
        pool: The documents.
        measure: The measure, for its gains.
        scale: The grades that an unjudged document may have.
        rules: The policy.
    """

    def __init__(self, pool: _Pool, measure: PositionMeasure, scale: FloatArray, rules: Policy) -> None:
        self._pool, self._skips = pool, rules.empty == "skip"
        self._unjudged = np.isnan(pool.grades)
        known = np.nan_to_num(pool.grades)
        self._gains = np.where(self._unjudged, 0.0, measure.gains(known, known))
        gains = measure.gains(scale, scale)
        self._low, self._high = float(gains.min()), float(gains.max())
        self._least = float(gains[gains > 0].min(initial=np.inf))
        n = len(pool.offsets) - 1
        self._query = np.repeat(np.arange(n), np.diff(pool.offsets))
        #: Queries that count if unjudged documents are irrelevant, for all grades, and for some.
        self._counted, has_unjudged = self._any(self._gains > 0), self._any(self._unjudged)
        self._certain = self._counted | (has_unjudged & (self._low > 0))
        self._optional = ~self._certain & has_unjudged & (self._high > 0)

    def of(self, c: FloatArray, empty: float) -> tuple[float, float, float]:
        """Return the mean if unjudged documents are irrelevant, the lowest and the highest.

        Args:
            c: What each document counts if its gain is 1.
            empty: The value of a query without relevant documents, unless it is left out.
        """
        known = self._sums(c * self._gains)
        open_c = np.where(self._unjudged, c, 0.0)
        up, down = self._sums(np.maximum(open_c, 0.0)), self._sums(np.minimum(open_c, 0.0))
        lowest, highest = known + self._low * up + self._high * down, known + self._high * up + self._low * down
        # A query counts with at least one relevant document, even if that makes the sum less extreme.
        for bound, ends, better in ((lowest, down, np.minimum), (highest, up, np.maximum)):
            forced = self._optional & (ends == 0)
            bound[forced] = (self._least * self._most(c, better))[forced]
        weights = self._pool.query_weights
        if self._skips:
            mean = _mean(known[self._counted], weights[self._counted])
            return mean, 0.0 - self._highest_mean(-lowest), self._highest_mean(highest)
        known = np.where(self._counted, known, empty)
        lowest = np.where(self._certain, lowest, np.where(self._optional, np.minimum(lowest, empty), empty))
        highest = np.where(self._certain, highest, np.where(self._optional, np.maximum(highest, empty), empty))
        return _mean(known, weights), _mean(lowest, weights), _mean(highest, weights)

    def _highest_mean(self, values: FloatArray) -> float:
        """Return the highest mean over the certain queries and any of the optional ones."""
        weights = self._pool.query_weights
        total, sum_of_weights = (
            float(weights[self._certain] @ values[self._certain]),
            float(weights[self._certain].sum()),
        )
        optional = np.flatnonzero(self._optional & (weights > 0))
        for query in optional[np.argsort(-values[optional], kind="stable")].tolist():
            if sum_of_weights > 0 and values[query] * sum_of_weights <= total:
                break
            total, sum_of_weights = total + weights[query] * values[query], sum_of_weights + weights[query]
        return total / sum_of_weights if sum_of_weights > 0 else float("nan")

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.bincount(self._query, values, minlength=len(self._pool.offsets) - 1).astype(np.float64)

    def _any(self, mask: BoolArray) -> BoolArray:
        return np.asarray(self._sums(mask.astype(np.float64)) > 0)

    def _most(self, c: FloatArray, better: Any) -> FloatArray:
        """Return the least or the greatest c of the unjudged documents of each query."""
        out = np.full(len(self._pool.offsets) - 1, np.nan)
        ends = np.append(0, np.cumsum(self._unjudged))[self._pool.offsets]
        some = c[self._unjudged]
        for query, (start, end) in enumerate(pairwise(ends.tolist())):
            if end > start:
                out[query] = better.reduce(some[start:end])
        return out


def _mean(values: FloatArray, weights: FloatArray) -> float:
    return float(weights @ values / weights.sum()) if weights.any() else float("nan")
