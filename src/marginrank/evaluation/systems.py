"""Systems to evaluate: rankers, scores and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

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
    scores: FloatArray, offsets: IntArray, rows: IntArray | None, k: int | None, groups: AnyArray | None
) -> list[IntArray]:
    """Order the documents of every query, as numbers of the rows they came from.

    Args:
        scores: One per document, query after query.
        offsets: Offsets of the queries.
        rows: The row that each document came from; its own number if None.
        k: Number of documents of each query; all by default.
        groups: A label per document, query after query; each label comes at most once in a query.
    """
    if np.isnan(scores).any():
        raise DataError(f"score {int(np.argmax(np.isnan(scores)))} is NaN; every document needs a score")
    ranked = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        order = start + best_first(scores[start:stop], k, None if groups is None else groups[start:stop])
        ranked.append(order if rows is None else rows[order])
    return ranked


@runtime_checkable
class Predictor(Protocol):
    """Anything that scores the documents of queries, in their order: a `Ranker`, a fusion, or your own."""

    def predict(self, queries: Queries, /) -> npt.ArrayLike:
        """Return one score per document, higher is better."""


#: Judgements or scores as ``{query: {document: number}}``.
ByQuery: TypeAlias = Mapping[Any, Mapping[Any, float]]

#: A ranker, one score per document in the order of the queries, a run, or a run as a dict of dicts.
System: TypeAlias = Predictor | npt.ArrayLike | Run | ByQuery | PartitionedScores

#: A system whose documents have scores.
Scored: TypeAlias = FloatArray | Run


@dataclass(frozen=True)
class Document:
    """A document in a ranking; its grade is None if it was not judged."""

    name: str
    score: float
    grade: float | None


def as_judged(judged: Queries | Qrels | ByQuery) -> Queries | Qrels:
    """Make judgements of a dict of dicts; return queries and judgements as they are."""
    return Qrels.from_dict(judged) if isinstance(judged, Mapping) else judged


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
    return np.asarray(system.predict(judged) if isinstance(system, Predictor) else system, dtype=np.float64)


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
    """Say that systems are evaluated on their training queries.

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
    return Qrels(as_text(queries.query_ids), queries.offsets, distinct_names(queries), queries.grades)


class Lists:
    """The ranked documents of a system, query by query.

    Equal scores keep the order of the data, as `marginrank rank` has it; in a run they go by document id, descending.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0], qid=["a", "a", "a"], document_ids=["x", "y", "z"])
    >>> [(document.name, document.grade) for document in Lists(queries, np.array([0.1, 0.2, 0.3])).of("a")]
    [('z', 0.0), ('y', 1.0), ('x', 0.0)]

    Args:
        judged: Judged queries, or judgements.
        scored: One score per document in the order of the queries, or a run.
    """

    def __init__(self, judged: Queries | Qrels, scored: Scored) -> None:
        self._judged = as_qrels(judged) if isinstance(judged, Queries) else judged
        self._place = _places(self._judged.topics)
        self._run = scored if isinstance(scored, Run) else None
        self._topics = {} if self._run is None else _places(self._run.topics)
        self._scores = np.empty(0) if isinstance(scored, Run) else scored

    def of(self, query: str) -> list[Document]:
        """Return all that the system ranked for a query, best first."""
        judged, at = self._judged, self._place[query]
        documents = slice(int(judged.offsets[at]), int(judged.offsets[at + 1]))
        names, grades = judged.document_ids[documents].tolist(), judged.grades[documents].tolist()
        if self._run is not None:
            return self._of_run(self._run, query, dict(zip(names, grades, strict=True)))
        scores = self._scores[documents]
        return [Document(names[row], float(scores[row]), grades[row]) for row in best_first(scores).tolist()]

    def _of_run(self, run: Run, query: str, grades: dict[str, float]) -> list[Document]:
        topic = self._topics.get(query)
        if topic is None:
            return []
        documents = slice(int(run.offsets[topic]), int(run.offsets[topic + 1]))
        names, scores = run.document_ids[documents], run.scores[documents]
        order = trec_order(np.array([0, len(names)]), scores, names).tolist()
        return [Document(str(names[row]), float(scores[row]), grades.get(str(names[row]))) for row in order]


def _places(names: AnyArray) -> dict[str, int]:
    return {name: at for at, name in enumerate(as_text(names).tolist())}
