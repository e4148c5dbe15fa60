"""Systems to evaluate: rankers, scores and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_grades, as_numbers, common_index
from marginrank.data.fingerprint import fingerprint
from marginrank.data.formats.trec import Qrels, Run, trec_order
from marginrank.data.partitions import AnyQueries, PartitionedQueries, PartitionedScores
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.data.validation import distinct_names
from marginrank.errors import DataError, Parameter, ParameterError, TrainingDataWarning, warn
from marginrank.typing import AnyArray, FloatArray, IntArray


def best_first(scores: FloatArray, k: int | None = None, groups: AnyArray | None = None) -> IntArray:
    """Order the documents of one query by descending score, ties in the order given.

    With ``k`` only the first k are sorted, O(n + k log k), Le and Smola (2008) §4.1. With ``groups`` only the best
    document of each group takes part, which is the best ranking with every group at most once, §5.1 there.

    >>> best_first(np.array([0.1, 0.9, 0.5, 0.9])).tolist()
    [1, 3, 2, 0]
    >>> best_first(np.array([0.1, 0.9, 0.5, 0.9]), k=2, groups=np.array(["a", "b", "a", "b"])).tolist()
    [1, 2]
    """
    if k is not None and (not isinstance(k, int | np.integer) or k < 1):
        raise ParameterError(Parameter("k"), f" is {k}; rank a whole number of documents, at least one")
    if groups is not None:
        order = np.argsort(-scores, kind="stable")
        _, first = np.unique(groups[order], return_index=True)
        return np.asarray(order[np.sort(first)][:k])
    if k is None or k >= len(scores):
        return np.argsort(-scores, kind="stable")
    worst = -np.partition(-scores, k - 1)[k - 1]
    better = np.flatnonzero(scores > worst)
    tied = np.flatnonzero(scores == worst)[: k - len(better)]
    chosen = np.concatenate([better, tied])
    return np.asarray(chosen[np.argsort(-scores[chosen], kind="stable")])


def orderings(
    scores: FloatArray, offsets: IntArray, order: IntArray | None, k: int | None, groups: AnyArray | None
) -> list[IntArray]:
    """Order the documents of every query, as row numbers.

    Args:
        scores: One per row.
        offsets: Offsets of the queries among the rows grouped by query.
        order: The rows grouped by query; None if they are.
        k: Number of documents of each query; all by default.
        groups: A label per row; each label comes at most once in a query.
    """
    if np.isnan(scores).any():
        raise DataError(f"score {int(np.argmax(np.isnan(scores)))} is NaN; every document needs a score")
    ranked = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        rows = np.arange(start, stop) if order is None else order[start:stop]
        ranked.append(rows[best_first(scores[rows], k, None if groups is None else groups[rows])])
    return ranked


@runtime_checkable
class Predictor(Protocol):
    """Anything that scores the rows of queries: a `Ranker`, a fusion, or your own."""

    def predict(self, queries: Queries, /) -> npt.ArrayLike:
        """Return one score per row, higher is better."""


#: Judgements or scores as ``{query: {document: number}}``.
ByQuery: TypeAlias = Mapping[Any, Mapping[Any, float]]

#: A ranker, one score per row of the queries, a run, or a run as a dict of dicts.
System: TypeAlias = Predictor | npt.ArrayLike | Run | ByQuery | PartitionedScores

#: A system whose documents have scores.
Scored: TypeAlias = FloatArray | Run


@dataclass(frozen=True)
class Document:
    """A document in a ranking; its grade is None if it was not judged."""

    name: str
    score: float
    grade: float | None


#: Judged documents: queries, judgements, also as a dict of dicts, or grades, which go with the query of each.
Judged: TypeAlias = Queries | Qrels | ByQuery | npt.ArrayLike


def as_judged(judged: Judged, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None) -> Queries | Qrels:
    """Make judgements of a dict of dicts, and queries of grades; return queries and judgements as they are."""
    if isinstance(judged, Queries | Qrels | Mapping):
        if qid is not None or group is not None:
            raise TypeError("judged documents include their queries; leave out qid and group")
        return Qrels.from_dict(judged) if isinstance(judged, Mapping) else judged
    if qid is None and group is None:
        raise TypeError(
            "judged documents are Queries, TREC judgements, or grades with qid or group, the query of each or the "
            "number of rows of each query"
        )
    index, grades = common_index(grades=judged, qid=qid), as_grades(judged)
    queries = Queries.from_arrays(np.empty((len(grades), 0)), grades, qid=qid, group=group)
    return replace(queries, index=index)


def as_system(system: System) -> Predictor | npt.ArrayLike | Run:
    """Make a run of a dict of dicts; return other systems as they are."""
    if isinstance(system, PartitionedScores):
        raise TypeError("these scores are of queries in partitions; give these queries, or scores.gather()")
    return Run.from_dict(system) if isinstance(system, Mapping) else system


def score_documents(judged: Queries | Qrels, system: System) -> Scored:
    """Score the judged documents by a ranker; return scores and runs as they are."""
    system = as_system(system)
    if isinstance(system, Run):
        return system
    if not isinstance(judged, Queries):
        raise DataError("TREC judgements have no features; evaluate a run, or give judged data with features")
    if isinstance(system, Predictor):
        if judged.n_features == 0:
            raise TypeError("grades without features are evaluated with a score for each, or with a run")
        return np.asarray(system.predict(judged), dtype=np.float64)
    common_index(judged=judged, scores=system)
    return as_scores(system)


def as_scores(scores: npt.ArrayLike) -> FloatArray:
    """Return scores as float64; whole numbers that float64 would merge become ranks in the same order.

    >>> as_scores([2**60 + 1, 2**60, 7]).tolist()
    [2.0, 1.0, 0.0]
    """
    array = np.asarray(scores)
    if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > 2**53:
        return np.unique(array, return_inverse=True)[1].astype(np.float64)
    return as_numbers("scores", scores, "give one number for each document")


def score_partitions(judged: PartitionedQueries, system: System) -> PartitionedScores:
    """Score documents in partitions by a ranker, on their workers; return scores as they are."""
    if isinstance(system, PartitionedScores):
        return system
    if isinstance(system, Run | Mapping) or not isinstance(system, Predictor):
        raise DataError(
            "queries in partitions are evaluated with a ranker or with what its predict returned; for a run or an "
            "array of scores give queries in the memory of this process"
        )
    return PartitionedScores(judged, _predicted, system)


def _predicted(queries: Queries, system: Predictor) -> npt.ArrayLike:
    return system.predict(queries)


def warn_if_trained_on(judged: AnyQueries | Qrels, systems: Mapping[str, object]) -> list[str]:
    """Warn about systems that were trained on the queries they are evaluated on, and return their names.

    A system tells by ``trained_on_``, a record with the `fingerprint` of its training queries.
    """
    records = {name: getattr(system, "trained_on_", None) for name, system in systems.items()}
    digests = {name: record.get("fingerprint") for name, record in records.items() if isinstance(record, Mapping)}
    if not digests or isinstance(judged, Qrels):
        return []
    digest = judged.fingerprint if isinstance(judged, PartitionedQueries) else fingerprint(judged)
    names = [name for name, trained_on in digests.items() if trained_on == digest]
    if names:
        warn(training_note(names), TrainingDataWarning)
    return names


def default_baseline(systems: Mapping[str, object]) -> str:
    """Name the system to compare the others with: the first that was not trained, or the first of all.

    >>> default_baseline({"bm25": [0.3, 0.1], "dense": [0.2, 0.4]})
    'bm25'
    """
    untrained = [name for name, system in systems.items() if not hasattr(system, "trained_on_")]
    return next(iter(untrained or systems))


def training_note(names: Sequence[str]) -> str:
    """Return the note that systems are evaluated on their training queries.

    >>> training_note(["learned"])
    'these are the queries that learned was trained on; its values say nothing about new queries'
    """
    single = len(names) == 1
    return (
        f"these are the queries that {' and '.join(names)} {'was' if single else 'were'} trained on; "
        f"{'its' if single else 'their'} values say nothing about new queries"
    )


def as_qrels(queries: Queries) -> Qrels:
    """Return the judgements without the features; documents without an id are called by their rows."""
    names, grades = queries.to_grouped(distinct_names(queries)), queries.to_grouped(queries.grades)
    return Qrels(as_text(queries.query_ids), queries.query_offsets, names, grades)


class Lists:
    """The ranked documents of a system, query by query.

    Equal scores keep the order of the data, as `marginrank rank` has it; in a run they go by document id, descending.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0], qid=["a", "a", "a"], document_ids=["x", "y", "z"])
    >>> [(document.name, document.grade) for document in Lists(queries, np.array([0.1, 0.2, 0.3])).of("a")]
    [('z', 0.0), ('y', 1.0), ('x', 0.0)]

    Args:
        judged: Judged queries, or judgements.
        scored: One score per row of the queries, or a run.
    """

    def __init__(self, judged: Queries | Qrels, scored: Scored) -> None:
        self._judged = as_qrels(judged) if isinstance(judged, Queries) else judged
        self._place = _places(self._judged.topics)
        self._run = scored if isinstance(scored, Run) else None
        self._topics = {} if self._run is None else _places(self._run.topics)
        self._scores = np.empty(0) if isinstance(scored, Run) else scored
        if isinstance(judged, Queries) and self._run is None:
            self._scores = judged.to_grouped(self._scores)

    def of(self, query: str) -> list[Document]:
        """Return all that the system ranked for a query, best first."""
        judged, at = self._judged, self._place[query]
        documents = slice(int(judged.offsets[at]), int(judged.offsets[at + 1]))
        names, grades = judged.document_ids[documents].tolist(), judged.grades[documents].tolist()
        if self._run is not None:
            return self._of_run(self._run, query, dict(zip(names, grades, strict=True)))
        scores = self._scores[documents]
        return [Document(names[row], float(scores[row]), _known(grades[row])) for row in best_first(scores).tolist()]

    def _of_run(self, run: Run, query: str, grades: dict[str, float]) -> list[Document]:
        topic = self._topics.get(query)
        if topic is None:
            return []
        documents = slice(int(run.offsets[topic]), int(run.offsets[topic + 1]))
        names, scores = run.document_ids[documents], run.scores[documents]
        order = trec_order(np.array([0, len(names)]), scores, names).tolist()
        return [Document(str(names[row]), float(scores[row]), _known(grades.get(str(names[row])))) for row in order]


def _known(grade: float | None) -> float | None:
    """Return the grade, None if it is unjudged."""
    return None if grade is None or np.isnan(grade) else grade


def _places(names: AnyArray) -> dict[str, int]:
    return {name: at for at, name in enumerate(as_text(names).tolist())}
