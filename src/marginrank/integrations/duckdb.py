"""Hybrid search in DuckDB: candidates with the score of each retriever, and learned weights as one statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from marginrank.data.queries import Queries
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Judgements
from marginrank.integrations.sql_retrievers import collect_rows, hybrid_statement

_PARAMETER: Final = re.compile(r"\$(\w+)")


def collect(
    connection: Any,
    queries: Mapping[Any, Mapping[str, Any]],
    retrievers: Mapping[str, str],
    judgements: Judgements = None,
) -> Queries:
    """Run every retriever for every query, and return a column of scores per retriever, NaN where it found nothing.

    Args:
        connection: An open connection of `duckdb`.
        queries: The values of the parameters of the statements, by query id.
        retrievers: SELECT statements by name, each of which returns the id and the score of documents, higher for
            better ones, with ``$name`` for parameters.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``. Queries without
            judgements are left out, and unjudged documents have grade 0.
    """

    def execute(select: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        # DuckDB refuses parameters that a statement does not have.
        named = {name: values[name] for name in _PARAMETER.findall(select) if name in values}
        rows: list[tuple[Any, ...]] = connection.execute(select, named).fetchall()
        return rows

    return collect_rows(execute, queries, retrievers, judgements)


def statement(fusion: Fusion, retrievers: Mapping[str, str]) -> str:
    """Return a statement that searches for one query: it runs the retrievers, and scores and sorts all they return.

    It takes the parameters of the retrievers and returns id and score of each document; append ``LIMIT 10`` for a page
    of results. Names and statements are those that `collect` was given.
    """
    return hybrid_statement(fusion, retrievers, "duckdb")
