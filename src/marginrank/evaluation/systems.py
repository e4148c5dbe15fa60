"""Systems, whatever they are: rankers, scores and runs, measured and read off alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.data.queries import Queries
from marginrank.data.trec import Qrels, Run, trec_order
from marginrank.errors import DataError
from marginrank.evaluation.evaluating import Evaluation, MissingTopics, evaluate
from marginrank.evaluation.orderings import best_first
from marginrank.ranker import Ranker
from marginrank.typing import AnyArray, FloatArray

#: A ranker, one score per document in the order of the queries, or a run.
System: TypeAlias = Ranker | npt.ArrayLike | Run
#: The same once the ranker has scored the documents.
Scored: TypeAlias = FloatArray | Run


@dataclass(frozen=True)
class Document:
    """A document in a ranking; its grade is None where nobody judged it."""

    name: str
    score: float
    grade: float | None


def score_documents(judged: Queries | Qrels, system: System) -> Scored:
    """Let a ranker score the judged documents; scores and runs are what they are."""
    if isinstance(system, Run):
        return system
    if not isinstance(judged, Queries):
        raise DataError("TREC judgements have no features and no rows; they go with TREC runs")
    return system.predict(judged) if isinstance(system, Ranker) else np.asarray(system, dtype=np.float64)


def judge_system(
    judged: Queries | Qrels,
    system: System,
    measures: Iterable[str],
    *,
    missing_topics: MissingTopics = "error",
    **options: Any,
) -> Evaluation:
    """Evaluate a system; a run of judged queries calls documents without a name by their rows.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0], qid=[7, 7, 7])
    >>> run = Run.from_scores(queries, [0.1, 0.2, 0.3])
    >>> judge_system(queries, run, ["rr"])["rr"].tolist()                    # row 2 comes before the relevant row 1
    [0.5]
    """
    scored = score_documents(judged, system)
    if not isinstance(scored, Run):
        return evaluate(judged, scored, measures, **options)
    if not isinstance(judged, Queries):
        return evaluate(judged, scored, measures, missing_topics=missing_topics, **options)
    found = evaluate(_as_qrels(judged), scored, measures, missing_topics=missing_topics, **options)
    return _as_of_queries(found, judged)


def _as_qrels(queries: Queries) -> Qrels:
    return Qrels(queries.query_ids.astype(str), queries.offsets, queries.document_names, queries.grades)


def _as_of_queries(found: Evaluation, queries: Queries) -> Evaluation:
    """Give the values the ids and weights of the queries, so that they compare with those of scores."""
    place = {name: at for at, name in enumerate(queries.query_ids.astype(str).tolist())}
    chosen = [place[name] for name in found.query_ids.tolist()]
    weights = None if queries.query_weights is None else queries.query_weights[chosen]
    return replace(found, query_ids=queries.query_ids[chosen], weights=weights)


class Lists:
    """The ranked documents of a system, query by query.

    Equal scores keep the order of the data, as `marginrank rank` has it; in a run they go by document id, descending.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0], qid=["a", "a", "a"], document_ids=["x", "y", "z"])
    >>> [(one.name, one.grade) for one in Lists(queries, np.array([0.1, 0.2, 0.3])).of("a")]
    [('z', 0.0), ('y', 1.0), ('x', 0.0)]

    Args:
        judged: What is judged.
        scored: One score per document in the order of the queries, or a run.
    """

    def __init__(self, judged: Queries | Qrels, scored: Scored) -> None:
        self._judged = _as_qrels(judged) if isinstance(judged, Queries) else judged
        self._place = _places(self._judged.topics)
        self._run = scored if isinstance(scored, Run) else None
        self._topics = {} if self._run is None else _places(self._run.topics)
        self._scores = np.empty(0) if isinstance(scored, Run) else scored

    def of(self, query: str) -> list[Document]:
        """All that the system ranked for a query, best first."""
        judged, at = self._judged, self._place[query]
        own = slice(int(judged.offsets[at]), int(judged.offsets[at + 1]))
        names, grades = judged.document_ids[own].tolist(), judged.grades[own].tolist()
        if self._run is not None:
            return self._of_run(self._run, query, dict(zip(names, grades, strict=True)))
        scores = self._scores[own]
        return [Document(names[row], float(scores[row]), grades[row]) for row in best_first(scores).tolist()]

    def _of_run(self, run: Run, query: str, grades: dict[str, float]) -> list[Document]:
        topic = self._topics.get(query)
        if topic is None:
            return []
        own = slice(int(run.offsets[topic]), int(run.offsets[topic + 1]))
        names, scores = run.document_ids[own], run.scores[own]
        order = trec_order(np.array([0, len(names)]), scores, names).tolist()
        return [Document(str(names[row]), float(scores[row]), grades.get(str(names[row]))) for row in order]


def _places(names: AnyArray) -> dict[str, int]:
    return {name: at for at, name in enumerate(names.astype(str).tolist())}
