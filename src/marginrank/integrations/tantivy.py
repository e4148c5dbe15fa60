"""Hybrid search with tantivy: candidates with the score of each retriever, and its hits rescored by a fusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Hits, Judgements, check_runs, pool, scores_by_id
from marginrank.integrations.words import words_of

#: A function that returns the hits of a query, such as nearest vectors, which tantivy does not have.
Retriever: TypeAlias = Callable[[Any], Hits]


def field_retriever(index: Any, field: str, *, k: int = 100, document: str = "id") -> Retriever:
    """Return a retriever of the documents whose field has any word of a text, with the BM25 score of that field.

    Args:
        index: An index of tantivy.
        field: The field to search.
        k: Number of documents to return.
        document: The stored field of document ids.
    """

    def retrieve(text: str) -> Hits:
        words = " ".join(words_of(text))
        if not words:
            return []
        searcher = index.searcher()
        hits = searcher.search(index.parse_query(words, [field]), k).hits
        return [(searcher.doc(address)[document][0], score) for score, address in hits]

    return retrieve


def collect(
    queries: Mapping[Any, Mapping[str, Any]], retrievers: Mapping[str, Retriever], judgements: Judgements = None
) -> Queries:
    """Run every retriever for every query, and return a column of scores per retriever, NaN where it found nothing.

    Args:
        queries: By query id, what each retriever takes: a text for `field_retriever`.
        retrievers: Retrievers by name.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``. Queries without
            judgements are left out, and unjudged documents have grade 0.
    """
    return pool(
        {
            name: {query: _hits(retrieve, name, asked, f"query {query!r}") for query, asked in queries.items()}
            for name, retrieve in retrievers.items()
        },
        judgements,
    )


def _hits(retrieve: Retriever, name: str, asked: Mapping[str, Any], place: str) -> Hits:
    if name not in asked:
        raise DataError(f"{place} has nothing for retriever {name!r}, only for {', '.join(asked) or 'none'}; add it")
    return retrieve(asked[name])


def search(fusion: Fusion, query: Mapping[str, Any], retrievers: Mapping[str, Retriever]) -> list[tuple[str, float]]:
    """Run the retrievers for one query, and return all documents with the score of the fusion, best first."""
    check_runs(fusion, retrievers)
    scores = {
        name: scores_by_id(_hits(retrieve, name, query, "the query"), f"retriever {name!r}")
        for name, retrieve in retrievers.items()
    }
    documents = sorted(set().union(*scores.values()))
    if not documents:
        return []
    X = np.array([[hits.get(one, np.nan) for hits in scores.values()] for one in documents])
    rows = Queries.from_arrays(X, group=[len(X)], feature_names=list(scores), allow_nan=True)
    return sorted(zip(documents, fusion.predict(rows).tolist(), strict=True), key=lambda hit: (-hit[1], hit[0]))
