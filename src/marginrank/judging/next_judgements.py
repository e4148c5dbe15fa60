"""Choice of documents to judge next: the unjudged documents that decide which system is better, and when to stop."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy  # its parts load on first use

from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.systems import ByQuery, System, as_judged, as_qrels, score_documents
from marginrank.judging.grade_model import ExpectedGains, expected_gains
from marginrank.judging.intervals import check_confidence
from marginrank.measures import Measure, parse_measure
from marginrank.measures.base import PositionMeasure
from marginrank.runtime.files import atomic_path
from marginrank.runtime.text import ResultTable, count
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: The measure of `judge_next`: that of NDCG, without the division by what unjudged documents change.
DEFAULT_MEASURE: Final = "dcg@10"


@dataclass(frozen=True, eq=False)
class JudgingPool:
    """The documents that count for some system, and how much: the mean of a system is ``weights @ gains``.

    A document at a rank with discount ``D`` has weight ``D / (normalizer · number of queries)``; documents with equal
    scores share the discounts of their ranks.
    """

    systems: tuple[str, ...]
    query_ids: AnyArray
    document_ids: AnyArray
    #: The number of the query of each document.
    query: IntArray
    #: Systems × documents.
    weights: FloatArray
    #: Systems × documents: 1 / log2(1 + rank) for ranks from 1 on, 0 for documents that are not retrieved.
    ranks: FloatArray
    grades: FloatArray
    gains: FloatArray
    #: The lowest and the highest gain that a document may have.
    range: tuple[float, float]

    @property
    def judged(self) -> BoolArray:
        """Whether each document has a grade."""
        return ~np.isnan(self.grades)

    def difference(self, a: int, b: int) -> FloatArray:
        """Return the weight of each document in the mean of one system minus that of another."""
        return np.asarray(self.weights[a] - self.weights[b])


class PairVerdict(NamedTuple):
    """Which of two systems is better, as far as judgements tell: the mean of ``system`` minus that of ``other``."""

    system: str
    other: str
    #: The difference of the judged documents and the expected one of the others.
    difference: float
    #: The lowest and the highest difference that grades of the unjudged documents could lead to.
    lowest: float
    highest: float
    #: Probability that the system with the higher mean now has the higher one when all is judged.
    probability: float

    @property
    def final(self) -> bool:
        """Whether no grades of the unjudged documents could change which system is better."""
        return self.lowest > 0 or self.highest < 0 or self.lowest == self.highest

    def decided(self, confidence: float) -> bool:
        """Tell whether to stop judging, so that the verdict is right with this confidence.

        Who looks after every few judgements, and stops when a probability is high, is wrong more often than it says:
        the probability has to leave half the error. ``benchmarks/judge_next.py`` measures how often that is right.
        """
        return self.final or self.probability >= (1 + confidence) / 2


class NextDocument(NamedTuple):
    """A document to judge."""

    query: str
    document: str
    #: Share of the variance of the differences that judging it removes, summed over undecided pairs of systems.
    leverage: float


@dataclass(frozen=True, repr=False)
class NextJudgements:
    """The result of `judge_next`; ``print`` shows the verdicts and the first documents."""

    documents: tuple[NextDocument, ...]
    verdicts: tuple[PairVerdict, ...]
    measure: str
    #: How often verdicts are right if judging stops when all pairs are decided.
    confidence: float
    #: Number of documents that count for a system, and of those that are judged.
    n_documents: int
    n_judged: int
    #: The grades that unjudged documents are taken to have: the lowest and the highest.
    grades: tuple[float, float]

    @property
    def final(self) -> bool:
        """Whether no verdict can change any more, whatever the unjudged documents are."""
        return all(verdict.final for verdict in self.verdicts)

    @property
    def decided(self) -> bool:
        """Whether every verdict is unlikely to change: with half the error that ``confidence`` leaves, or less."""
        return all(verdict.decided(self.confidence) for verdict in self.verdicts)

    def __repr__(self) -> str:
        state = "final" if self.final else "decided" if self.decided else "open"
        return f"NextJudgements({count(len(self.documents), 'document')} to judge, verdict {state})"

    def __str__(self) -> str:
        header = ["system", "other", self.measure, "worst case", "stays"]
        rows = [
            [
                one.system,
                one.other,
                f"{one.difference:+.4f}",
                f"[{one.lowest:+.4f}, {one.highest:+.4f}]",
                "for certain" if one.final else _percent(one.probability),
            ]
            for one in self.verdicts
        ]
        grades = "{:g} to {:g}".format(*self.grades)
        note = f"{self.n_judged:,} of {count(self.n_documents, 'document')} judged; grades from {grades}"
        parts = [ResultTable([header, *rows], right=[2, 3, 4], note=note).text().rstrip(), self.advice()]
        if self.documents:
            lines = [[one.query, one.document, f"{one.leverage:.4f}"] for one in self.documents[:10]]
            parts.append(ResultTable([["query", "document", "leverage"], *lines], right=[2]).text().rstrip())
        return "\n\n".join(parts)

    def advice(self) -> str:
        """Return whether to continue judging."""
        if self.final:
            return "stop: no grades of the unjudged documents can change a verdict"
        if self.decided:
            return f"stop: every verdict is decided with a confidence of {100 * self.confidence:g}%"
        return f"judge on: {count(len(self.documents), 'document')} that matter most"

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return {
            "measure": self.measure,
            "final": self.final,
            "decided": self.decided,
            "judged": self.n_judged,
            "documents_in_all": self.n_documents,
            "verdicts": [{**one._asdict(), "final": one.final} for one in self.verdicts],
            "documents": [one._asdict() for one in self.documents],
        }

    def write(self, path: str | Path) -> None:
        """Write the documents as a CSV file with the columns query_id, document_id and leverage."""
        write_documents(path, self.documents)


def _percent(probability: float) -> str:
    """Write a probability, never as certainty.

    >>> _percent(0.9512), _percent(0.99999)
    ('95.1%', '> 99.9%')
    """
    return "> 99.9%" if probability > 0.999 else f"{100 * probability:.1f}%"


def write_documents(path: str | Path, documents: Sequence[NextDocument]) -> None:
    """Write documents to judge as CSV."""
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["query_id", "document_id", "leverage"])
        rows.writerows([one.query, one.document, f"{one.leverage:.6g}"] for one in documents)


def judge_next(
    judged: Queries | Qrels | ByQuery,
    systems: Mapping[str, System],
    measure: str | Measure = DEFAULT_MEASURE,
    *,
    budget: int = 40,
    grades: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> NextJudgements:
    """Choose the documents whose judgement tells most about which system is better.

    The mean difference of two systems by an additive measure is ``Σ c_d G(g_d)`` over documents, with ``c_d`` the
    difference of their discounts for document ``d`` and ``G`` the gain of its grade. Its worst case over the grades of
    unjudged documents is a sum of the worst cases of each. A document's leverage is its share ``c_d² var G_d`` of the
    variance of the difference, whose moments are those of `expected_gains`; documents come in descending order of it.
    To choose documents by their effect on the difference of measures, and to stop at a level of confidence, follows
    Carterette, Allan and Sitaraman, "Minimal test collections for retrieval evaluation" (SIGIR 2006).

    >>> runs = {"a": {"q": {"x": 3, "y": 2, "z": 1}}, "b": {"q": {"y": 3, "x": 2, "z": 1}}}
    >>> result = judge_next({"q": {"x": 1}}, runs, "dcg@2")
    >>> [(one.document, one.query) for one in result.documents]      # z is at the same rank in both
    [('y', 'q')]
    >>> result.verdicts[0].lowest, round(result.verdicts[0].highest, 4)       # y as good as x, or irrelevant
    (0.0, 0.3691)

    Args:
        judged: What is judged so far: queries, some of whose grades are NaN, or TREC judgements, also as
            ``{query: {document: grade}}``.
        systems: Two or more: rankers, scores, runs.
        measure: An additive one: ``dcg@k``, ``p@k`` or ``rbp``.
        budget: Number of documents to choose.
        grades: The grades a document may have; those given so far, 0 and 1 by default.
        confidence: How often verdicts are to be right where judging stops.

    Raises:
        DataError: No system retrieves anything, or the measure is not additive.
    """
    check_confidence(confidence)
    if not isinstance(budget, int) or budget < 1:
        raise ParameterError(Parameter("budget"), f" is {budget}; choose a whole number of documents, at least one")
    if len(systems) < 2:
        raise DataError("a comparison needs two systems; give another one")
    chosen = additive_measure(measure)
    pool = judging_pool(judged, systems, chosen, grades)
    expected = expected_gains(pool.ranks, pool.query, pool.gains, pool.judged, pool.range[1])
    verdicts = pair_verdicts(pool, expected)
    leverage = leverages(pool, expected, verdicts, confidence)
    order = np.argsort(-leverage, kind="stable")[:budget]
    documents = tuple(
        NextDocument(str(pool.query_ids[at]), str(pool.document_ids[at]), float(leverage[at]))
        for at in order
        if leverage[at] > 0
    )
    scale = _possible_grades(pool.grades, grades)
    n_judged = int(pool.judged.sum())
    counted = (float(scale[0]), float(scale[-1]))
    return NextJudgements(documents, verdicts, str(chosen), confidence, len(pool.grades), n_judged, counted)


def additive_measure(measure: str | Measure) -> PositionMeasure:
    """Read a measure; refuse one that is not a sum over documents of a discount times a gain."""
    parsed = parse_measure(measure)
    if isinstance(parsed, PositionMeasure) and isinstance(parsed.normalizer, int | float):
        one = np.ones(1)
        if np.array_equal(parsed.gains(one, one), parsed.gains(one, 2 * one)):
            return parsed
    raise ParameterError(
        Parameter("measure"),
        f" is {parsed}, which is not a sum over documents, so that one document's effect depends on the others; choose "
        "dcg@10, p@10 or rbp",
    )


def gains_of(measure: PositionMeasure, grades: FloatArray) -> FloatArray:
    """Return the gains of grades by an additive measure, whatever the other documents of the query are."""
    return measure.gains(grades, grades)


def judging_pool(
    judged: Queries | Qrels | ByQuery,
    systems: Mapping[str, System],
    measure: PositionMeasure,
    grades: Sequence[float] | None = None,
) -> JudgingPool:
    """Gather the documents that count for some system, with their weights, ranks and grades."""
    truth = as_judged(judged)
    if isinstance(truth, Queries) and not truth.has_grades:
        truth = replace(truth, judgements=np.full(truth.n_documents, np.nan))
    runs = [_as_run(truth, system) for system in systems.values()]
    qrels = as_qrels(truth) if isinstance(truth, Queries) else truth
    n_queries = len(np.unique(np.concatenate([run.topics for run in runs])))
    columns = [_weigh(run, measure, n_queries) for run in runs]
    sizes = [len(run.scores) for run in runs]
    query = np.concatenate([np.repeat(as_text(run.topics), np.diff(run.offsets)) for run in runs])
    document = np.concatenate([as_text(run.document_ids) for run in runs])
    if not len(query):
        raise DataError("no system retrieves a document; give rankings")
    names, row = _number_pairs(query, document)
    system = np.repeat(np.arange(len(runs)), sizes)
    weights, ranks = np.zeros((2, len(runs), len(names)))
    weights[system, row] = np.concatenate([one[0] for one in columns])
    ranks[system, row] = np.concatenate([one[1] for one in columns])
    counted = np.flatnonzero((weights != 0).any(axis=0))
    query_ids, document_ids = (np.array([name[part] for name in names])[counted] for part in (0, 1))
    known = _look_up(qrels, query_ids, document_ids)
    possible = _possible_grades(known, grades)
    values = measure.gains(
        np.concatenate([possible, np.nan_to_num(known)]), np.full(len(possible) + len(known), np.nan)
    )
    gains = values[: len(possible)]
    return JudgingPool(
        tuple(systems),
        query_ids,
        document_ids,
        np.unique(query_ids, return_inverse=True)[1],
        weights[:, counted],
        ranks[:, counted],
        known,
        np.where(np.isnan(known), np.nan, values[len(possible) :]),
        (float(gains.min()), float(gains.max())),
    )


def pair_verdicts(pool: JudgingPool, expected: ExpectedGains) -> tuple[PairVerdict, ...]:
    """Return the verdict of each pair of systems."""
    verdicts = []
    for a, b in combinations(range(len(pool.systems)), 2):
        weights = pool.difference(a, b)
        left = np.where(pool.judged, 0.0, weights)
        known = float(weights[pool.judged] @ pool.gains[pool.judged])
        low, high = pool.range
        bounds = np.where(left > 0, left, 0.0).sum(), np.where(left < 0, left, 0.0).sum()
        lowest, highest = known + bounds[0] * low + bounds[1] * high, known + bounds[0] * high + bounds[1] * low
        difference = known + float(left @ expected.means)
        deviation = np.sqrt(expected.sum_variance(left))
        # Few judgements say little about how gains vary, so that tails are those of Student's t.
        probability = float(scipy.stats.t.cdf(abs(difference) / deviation, expected.freedom)) if deviation > 0 else 1.0
        verdicts.append(
            PairVerdict(pool.systems[a], pool.systems[b], difference, float(lowest), float(highest), probability)
        )
    return tuple(verdicts)


def leverages(
    pool: JudgingPool, expected: ExpectedGains, verdicts: Sequence[PairVerdict], confidence: float
) -> FloatArray:
    """Return the leverage of each document: over the undecided pairs or, if there are none, those that may still flip.

    Judged documents, and those that count the same for both systems, have none.
    """
    numbers = {name: at for at, name in enumerate(pool.systems)}
    open_pairs = [one for one in verdicts if not one.final]
    undecided = [one for one in open_pairs if not one.decided(confidence)] or open_pairs
    leverage = np.zeros(len(pool.grades))
    for one in undecided:
        left = np.where(pool.judged, 0.0, pool.difference(numbers[one.system], numbers[one.other]))
        leverage += left**2 * expected.variances / expected.sum_variance(left)
    return leverage


def _as_run(judged: Queries | Qrels, system: System) -> Run:
    scored = score_documents(judged, system)
    return scored if isinstance(scored, Run) else Run.from_scores(_queries(judged), scored)


def _queries(judged: Queries | Qrels) -> Queries:
    if isinstance(judged, Queries):
        return judged
    raise DataError("TREC judgements have no rows to be scored; give runs")


def _weigh(run: Run, measure: PositionMeasure, n_queries: int) -> tuple[FloatArray, FloatArray]:
    """Return the weight of each document of a run, and the reciprocal logarithm of its rank, averaged over ties."""
    topic = np.repeat(np.arange(len(run)), np.diff(run.offsets))
    order = np.lexsort((-run.scores, topic))
    rank = np.arange(len(order)) - run.offsets[topic]
    discounts = measure.discounts(int(rank.max(initial=0)) + 1)
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (run.scores[order][1:] != run.scores[order][:-1]) | (topic[1:] != topic[:-1])
    tie = np.cumsum(new) - 1
    weights, ranks = np.empty((2, len(order)))
    for values, out in ((discounts[rank], weights), (1 / np.log2(2.0 + rank), ranks)):
        out[order] = (np.bincount(tie, values) / np.bincount(tie))[tie]
    scale = float(measure.normalizer) * n_queries
    return weights / scale, ranks


def _number_pairs(query: AnyArray, document: AnyArray) -> tuple[list[tuple[str, str]], IntArray]:
    """Return the distinct pairs in the order in which they come, and which of them each row has."""
    pairs = list(zip(query.tolist(), document.tolist(), strict=True))
    numbers: dict[tuple[str, str], int] = {}
    row = [numbers.setdefault(pair, len(numbers)) for pair in pairs]
    return list(numbers), np.array(row, dtype=np.intp)


def _look_up(qrels: Qrels, query_ids: AnyArray, document_ids: AnyArray) -> FloatArray:
    """Return the grade of each document; NaN if it is not judged."""
    topics = np.repeat(as_text(qrels.topics), np.diff(qrels.offsets)).tolist()
    pairs = zip(topics, as_text(qrels.document_ids).tolist(), strict=True)
    grade_of = dict(zip(pairs, qrels.grades.tolist(), strict=True))
    requested = zip(query_ids.tolist(), document_ids.tolist(), strict=True)
    return np.array([grade_of.get(pair, np.nan) for pair in requested], dtype=np.float64)


def _possible_grades(known: FloatArray, grades: Sequence[float] | None) -> FloatArray:
    if grades is None:
        return np.unique(np.concatenate([known[~np.isnan(known)], [0.0, 1.0]]))
    possible = np.unique(np.asarray(grades, dtype=np.float64))
    if len(possible) < 2 or not np.isfinite(possible).all() or possible[0] < 0:
        raise ParameterError(Parameter("grades"), f" are {list(grades)}; give two or more numbers of at least 0")
    outside = known[~np.isnan(known) & ((known > possible[-1]) | (known < possible[0]))]
    if len(outside):
        raise ParameterError(
            Parameter("grades"),
            f" are {possible[0]:g} to {possible[-1]:g}, and a document has grade {outside[0]:g}; give all grades",
        )
    return possible


__all__ = ["NextDocument", "NextJudgements", "PairVerdict", "judge_next"]
