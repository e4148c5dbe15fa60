"""Candidates that the retrievers of a search engine return, with the score of each retriever."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from marginrank.data.formats.trec import Qrels
from marginrank.data.queries import Queries
from marginrank.errors import DataError, warn
from marginrank.evaluation.systems import ByQuery
from marginrank.fusion.fusion import Fusion
from marginrank.fusion.run_pool import pool_runs
from marginrank.runtime.text import listed

#: Judgements of queries, also as ``{query: {document: grade}}``; None if there are none.
Judgements: TypeAlias = Qrels | ByQuery | None
#: Pairs of a document id and a score, higher for better documents.
Hits: TypeAlias = Iterable[tuple[Any, Any]]
Key = TypeVar("Key", bound=Hashable)


def pool(found: Mapping[str, Mapping[Any, Hits]], judgements: Judgements = None) -> Queries:
    """Pool the hits of each retriever and query: a column per retriever, NaN where it did not return the document.

    >>> pool({"bm25": {"q": [("a", 7.0)]}, "vector": {"q": [("b", 0.9), ("a", 0.8)]}}).X.tolist()
    [[7.0, 0.8], [nan, 0.9]]

    Ids are text, whatever their type in the engine. Queries without any hit are left out, with a warning if they are
    judged.
    """
    if not found or not all(found.values()):
        raise DataError("there is nothing to collect; give at least one query and one retriever")
    runs = {
        name: {
            str(query): scores_by_id(hits, f"retriever {name!r}, query {query!r}") for query, hits in queries.items()
        }
        for name, queries in found.items()
    }
    candidates = pool_runs(runs, judgements)
    if judgements is not None:
        _warn_of_queries_without_hits(candidates, judgements, next(iter(runs.values())))
    return candidates


def _warn_of_queries_without_hits(candidates: Queries, judgements: Qrels | ByQuery, searched: Iterable[str]) -> None:
    judged = judgements.topics.tolist() if isinstance(judgements, Qrels) else judgements
    asked = set(searched).intersection(map(str, judged))
    absent = sorted(asked.difference(candidates.query_ids.tolist()))
    if absent:
        warn(
            f"no retriever returned a document for {len(absent)} of {len(asked)} judged queries, such as "
            f"{absent[0]!r}; they are left out, and evaluate(judgements, run, missing_topics='zero') counts them"
        )


def scores_by_id(hits: Hits, where: str) -> dict[str, float]:
    """Return the scores of hits by document id, as text."""
    pairs = list(hits)
    if any(document is None for document, _ in pairs):
        raise DataError(f"{where}: a document has no id; leave it out")
    return scores_of(((str(document), score) for document, score in pairs), where)


def scores_of(hits: Iterable[tuple[Key, float | None]], where: str) -> dict[Key, float]:
    """Return the scores by document, and refuse hits without a score and repeated documents."""
    scores: dict[Key, float] = {}
    for document, score in hits:
        if score is None or score != score:  # noqa: PLR0124
            raise DataError(f"{where}: document {document!r} has no score; let it return scored documents alone")
        if document in scores:
            raise DataError(f"{where}: document {document!r} appears twice; let it return each document once")
        try:
            scores[document] = float(score)
        except (TypeError, ValueError):
            raise DataError(f"{where}: the score of document {document!r} is {score!r}; return a number") from None
    return scores


def in_order(scores: Iterable[float]) -> list[float]:
    """Lower equal scores by the least amount of a float64, so that each is below the one before.

    Engines rank equal scores in some order, which their reciprocal ranks depend on; min-max takes them for equal.

    >>> in_order([2.0, 1.0, 1.0, 0.5])
    [2.0, 1.0, 0.9999999999999999, 0.5]
    """
    lowered: list[float] = []
    for score in scores:
        lowered.append(min(score, float(np.nextafter(lowered[-1], -np.inf))) if lowered else score)
    return lowered


def exported(fusion: Fusion, target: str) -> list[str]:
    """Return the texts of the files of an export, without the check file."""
    with tempfile.TemporaryDirectory() as folder:
        written = fusion.export(target, Path(folder) / "fusion")
        return [path.read_text("utf-8") for path in written.files if not path.name.endswith(".check.json")]


def runs_of(fusion: Fusion) -> list[str]:
    """Return the names of the runs that a fusion was trained on."""
    names = fusion.run_names
    if names is None:
        raise DataError("the fusion was trained on runs without names; train it on what collect returns")
    if fusion.context_:
        raise DataError(
            f"the weights of this fusion depend on {listed(fusion.context_, 5)}, which retrievers do not return; score "
            "candidates by fusion.predict, or train without these columns"
        )
    return names


def check_runs(fusion: Fusion, retrievers: Iterable[str]) -> None:
    """Refuse retrievers other than those that a fusion was trained on."""
    known, given = runs_of(fusion), list(retrievers)
    if sorted(known) != sorted(given):
        raise DataError(
            f"this fusion combines {', '.join(known)}, and the retrievers are {', '.join(given)}; give the same ones"
        )
