"""Candidates that the retrievers of a search engine return, with the score of each retriever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from marginrank.data.formats.trec import Qrels
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.systems import ByQuery
from marginrank.fusion.fusion import Fusion
from marginrank.fusion.run_pool import pool_runs
from marginrank.preparation.run_features import parse_features, run_names

#: Judgements of queries, also as ``{query: {document: grade}}``; None if there are none.
Judgements: TypeAlias = Qrels | ByQuery | None
#: Pairs of a document id and a score, higher for better documents.
Hits: TypeAlias = Iterable[tuple[Any, Any]]


def pool(found: Mapping[str, Mapping[Any, Hits]], judgements: Judgements = None) -> Queries:
    """Pool the hits of each retriever and query: a column per retriever, NaN where it did not return the document.

    >>> pool({"bm25": {"q": [("a", 7.0)]}, "vector": {"q": [("b", 0.9), ("a", 0.8)]}}).X.tolist()
    [[7.0, 0.8], [nan, 0.9]]

    Ids are text, whatever their type in the engine.
    """
    if not found or not all(found.values()):
        raise DataError("there is nothing to collect; give at least one query and one retriever")
    runs = {
        name: {str(query): scores_of(hits, f"retriever {name!r}, query {query!r}") for query, hits in queries.items()}
        for name, queries in found.items()
    }
    return pool_runs(runs, judgements)


def scores_of(hits: Hits, where: str) -> dict[str, float]:
    """Return the scores by document, and refuse hits without a score and documents that come twice."""
    scores: dict[str, float] = {}
    for document, score in hits:
        if score is None or score != score:  # noqa: PLR0124
            raise DataError(f"{where}: document {document!r} has no score; let it return scored documents alone")
        if str(document) in scores:
            raise DataError(f"{where}: document {document!r} comes twice; let it return each document once")
        scores[str(document)] = float(score)
    return scores


def runs_of(fusion: Fusion) -> list[str]:
    """Return the names of the runs that a fusion was trained on."""
    names = fusion.ranker_.model_.feature_names
    if names is None:
        raise DataError("the fusion was trained on runs without names; train it on what collect returns")
    return list(run_names(parse_features(fusion.kinds_), names, len(names)))


def check_runs(fusion: Fusion, retrievers: Iterable[str]) -> None:
    """Refuse retrievers other than those that a fusion was trained on."""
    known, given = runs_of(fusion), list(retrievers)
    if sorted(known) != sorted(given):
        raise DataError(
            f"this fusion combines {', '.join(known)}, and the retrievers are {', '.join(given)}; give the same ones"
        )
