"""Choice of documents to judge for training: those that rankers trained on samples of the queries disagree about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.data.validation import distinct_names
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.judging.next_judgements import NextDocument, write_documents
from marginrank.ranker.ranker import Ranker
from marginrank.runtime.text import ResultTable, count
from marginrank.typing import FloatArray, IntArray

#: Fewer judged queries than this are no sample to draw samples from.
_FEWEST_QUERIES: Final = 5


@dataclass(frozen=True, repr=False)
class LearnNext:
    """The result of `learn_next`; ``print`` shows the first documents."""

    documents: tuple[NextDocument, ...]
    #: Number of documents, and of judged ones.
    n_documents: int
    n_judged: int

    def __repr__(self) -> str:
        return f"LearnNext({count(len(self.documents), 'document')} to judge)"

    def __str__(self) -> str:
        lines = [[one.query, one.document, f"{one.leverage:.4f}"] for one in self.documents[:10]]
        note = f"{self.n_judged:,} of {count(self.n_documents, 'document')} judged"
        table = ResultTable([["query", "document", "disagreement"], *lines], right=[2], note=note).text().rstrip()
        return f"judge {count(len(self.documents), 'document')} that training would learn most from, first:\n{table}"

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return {
            "judged": self.n_judged,
            "documents_in_all": self.n_documents,
            "documents": [one._asdict() for one in self.documents],
        }

    def write(self, path: str | Path) -> None:
        """Write the documents as a CSV file with the columns query_id, document_id and leverage."""
        write_documents(path, self.documents)


def learn_next(
    ranker: Ranker, queries: Queries, *, budget: int = 40, committee: int = 8, random_state: int | None = 0
) -> LearnNext:
    """Choose the unjudged documents that training would learn most from.

    A committee of rankers with the parameters of ``ranker`` is trained on bootstrap samples of the judged queries. The
    documents whose places they disagree about are those that the judgements so far settle least: query by committee,
    Seung, Opper and Sompolinsky (COLT 1992). Disagreement is the standard deviation of ``1 / log2(1 + rank)`` over the
    committee, so that places at the top count most.

    >>> rng = np.random.default_rng(0)
    >>> X, grades = rng.random((60, 2)), rng.integers(0, 2, 60).astype(float)
    >>> grades[::2] = np.nan
    >>> learn_next(Ranker("ranksvm"), Queries.from_arrays(X, grades, qid=np.arange(60) // 6), budget=5)
    LearnNext(5 documents to judge)

    Args:
        ranker: What is to be trained; it need not be fitted.
        queries: Queries, some of whose grades are NaN.
        budget: Number of documents to choose.
        committee: Number of rankers.
        random_state: Seed of the samples.

    Raises:
        DataError: Too few queries are judged, or all documents are.
    """
    if not isinstance(budget, int) or budget < 1:
        raise ParameterError(Parameter("budget"), f" is {budget}; choose a whole number of documents, at least one")
    if not isinstance(committee, int) or committee < 2:
        raise ParameterError(Parameter("committee"), f" is {committee}; train two rankers or more")
    unjudged = queries.unjudged if queries.has_grades else None
    if queries.has_grades and unjudged is None:
        raise DataError("every document has a grade; there is nothing left to judge")
    judged = queries.with_unjudged("skip") if queries.has_grades else None
    n_queries = 0 if judged is None else len(judged)
    if judged is None or unjudged is None or n_queries < _FEWEST_QUERIES:
        raise DataError(
            f"{count(n_queries, 'query has', 'queries have')} judged documents; what training would learn most from "
            f"shows from {_FEWEST_QUERIES} queries on: judge the first documents of some queries"
        )
    rng = np.random.default_rng(random_state)
    places = np.stack([_places(queries, _member(ranker, judged, rng)) for _ in range(committee)])
    disagreement = np.where(unjudged, places.std(axis=0), -1.0)
    order = np.argsort(-disagreement, kind="stable")[: min(budget, int(unjudged.sum()))]
    query_ids, names = as_text(queries.query_ids)[queries.query_of_row], as_text(distinct_names(queries))
    documents = tuple(
        NextDocument(str(query_ids[at]), str(names[at]), float(disagreement[at])) for at in order.tolist()
    )
    return LearnNext(documents, queries.n_documents, int((~unjudged).sum()))


def _member(ranker: Ranker, judged: Queries, rng: np.random.Generator) -> Ranker:
    """Train a ranker on a sample of the queries, each as often as it was drawn."""
    drawn = np.bincount(rng.integers(0, len(judged), len(judged)), minlength=len(judged))
    chosen = np.flatnonzero(drawn)
    sample = judged[chosen]
    weights = drawn[chosen].astype(np.float64)
    if sample.query_weights is not None:
        weights = weights * sample.query_weights
    member: Ranker = clone(ranker)
    return member.fit(replace(sample, query_weights=weights))


def _places(queries: Queries, ranker: Ranker) -> FloatArray:
    """Return 1 / log2(1 + rank) of each document, ranks from 1 on."""
    scores = np.asarray(ranker.predict(queries))
    order: IntArray = np.lexsort((-scores, queries.query_of_row))
    query = queries.query_of_row[order]
    first = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
    rank = np.arange(len(order)) - np.repeat(first, np.diff([*first, len(order)]))
    places = np.empty(len(order))
    places[order] = 1 / np.log2(2.0 + rank)
    return places


__all__ = ["LearnNext", "learn_next"]
