"""Hybrid search in PostgreSQL: candidates with the score of each retriever, and learned weights as one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marginrank.data.queries import Queries
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Judgements
from marginrank.integrations.sql_retrievers import collect_rows, hybrid_statement
from marginrank.integrations.words import words_of


def match_any(text: str) -> str:
    """Return the argument of ``to_tsquery`` that matches documents with any word of a text.

    >>> match_any("C++ or 'NOT' c?")
    "'c' | 'or' | 'not'"

    A text without words matches nothing.
    """
    return " | ".join(f"'{word}'" for word in words_of(text))


def collect(
    connection: Any,
    queries: Mapping[Any, Mapping[str, Any]],
    retrievers: Mapping[str, str],
    judgements: Judgements = None,
) -> Queries:
    """Run every retriever for every query, and return a column of scores per retriever, NaN where it found nothing.

    Args:
        connection: An open connection of psycopg 3.
        queries: The values of the parameters of the statements, by query id.
        retrievers: SELECT statements by name, each of which returns the id and the score of documents, higher for
            better ones, with ``%(name)s`` for parameters.
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
    return hybrid_statement(fusion, retrievers, "postgresql", percent="%%")
