"""Hybrid search in SQLite: candidates with the score of each retriever, and learned weights as one statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from marginrank.data.queries import Queries
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Judgements
from marginrank.integrations.sql_retrievers import collect_rows, hybrid_statement
from marginrank.integrations.words import words_of


def match_any(text: str) -> str:
    """Return the expression of FTS5 that matches documents with any word of a text.

    >>> match_any('C++ or "NOT" c?')
    '"c" OR "or" OR "not"'

    A text without words matches nothing.
    """
    return " OR ".join(f'"{word}"' for word in words_of(text)) or '""'


def collect(
    connection: sqlite3.Connection,
    queries: Mapping[Any, Mapping[str, Any]],
    retrievers: Mapping[str, str],
    judgements: Judgements = None,
) -> Queries:
    """Run every retriever for every query, and return a column of scores per retriever, NaN where it found nothing.

    >>> db = sqlite3.connect(":memory:")
    >>> _ = db.execute("CREATE VIRTUAL TABLE pages USING fts5(id UNINDEXED, body)")
    >>> _ = db.execute("INSERT INTO pages VALUES ('a', 'red wine'), ('b', 'white bread')")
    >>> words = "SELECT id, -bm25(pages) FROM pages WHERE pages MATCH :words ORDER BY rank LIMIT 30"
    >>> queries = {"q1": {"words": match_any("red bread?")}}
    >>> found = collect(db, queries, {"words": words}, {"q1": {"a": 1}})
    >>> found.document_ids.tolist(), found.grades.tolist()
    (['a', 'b'], [1.0, 0.0])

    Args:
        connection: An open database.
        queries: The values of the parameters of the statements, by query id.
        retrievers: SELECT statements by name, each of which returns the id and the score of documents, higher for
            better ones, with ``:name`` for parameters.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``. Queries without
            judgements are left out, and unjudged documents have grade 0.
    """
    return collect_rows(
        lambda select, values: connection.execute(select, dict(values)), queries, retrievers, judgements
    )


def statement(fusion: Fusion, retrievers: Mapping[str, str]) -> str:
    """Return a statement that searches for one query: it runs the retrievers, and scores and sorts all they return.

    It takes the parameters of the retrievers and returns id and score of each document; append ``LIMIT 10`` for a page
    of results. Names and statements are those that `collect` was given.
    """
    return hybrid_statement(fusion, retrievers, "sqlite")
