"""Retrievers that are SELECT statements: their candidates, and one statement that runs them and ranks by a fusion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.export.sql import SqlSyntax
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Judgements, check_runs, exported, pool
from marginrank.runtime.text import count

#: Runs a statement with the parameters of a query, and returns its rows.
Execute = Callable[[str, Mapping[str, Any]], Iterable[tuple[Any, ...]]]


def collect_rows(
    execute: Execute,
    queries: Mapping[Any, Mapping[str, Any]],
    retrievers: Mapping[str, str],
    judgements: Judgements,
) -> Queries:
    """Run every retriever for every query, and pool what they return."""
    return pool(
        {
            name: {query: _pairs(execute(select, values), name, query) for query, values in queries.items()}
            for name, select in retrievers.items()
        },
        judgements,
    )


def _pairs(rows: Iterable[tuple[Any, ...]], name: str, query: Any) -> list[tuple[Any, Any]]:
    """Return the id and the score of each row, and refuse rows of another form."""
    hits = [tuple(row) for row in rows]
    if any(len(row) != 2 for row in hits):
        columns = count(len(hits[0]), "column")
        raise DataError(f"retriever {name!r}, query {query!r}: a row has {columns}; select id and score, no other")
    return hits


def hybrid_statement(fusion: Fusion, retrievers: Mapping[str, str], dialect: str, percent: str = "%") -> str:
    """Return a statement that runs the retrievers for one query and ranks their documents by a fusion.

    Args:
        fusion: The fusion.
        retrievers: SELECT statements by name.
        dialect: The dialect of the database.
        percent: How the client writes a percent sign in a statement with parameters.
    """
    check_runs(fusion, retrievers)
    syntax = SqlSyntax(dialect)
    finds, rows, columns = [], [], []
    for number, (name, select) in enumerate(retrievers.items(), 1):
        finds.append(f"run{number}(document_id, score) AS (\n{select.strip().rstrip(';')}\n)")
        scores = ("CAST(score AS FLOAT8)" if one == name else "NULL" for one in retrievers)
        rows.append(
            f"SELECT document_id, {', '.join(f'{x} AS x{at}' for at, x in enumerate(scores, 1))} FROM run{number}"
        )
        columns.append(f"MAX(x{number}) AS {syntax.name(name)}")
    union = "\n  UNION ALL ".join(rows)
    ranked, *_ = exported(fusion, f"sql(dialect={dialect})")
    pooled = f"SELECT 'query' AS query_id, document_id, {', '.join(columns)}"
    pooled, ranked = (text.replace("%", percent) for text in (pooled, ranked.strip()))
    return (
        f"WITH {', '.join(finds)}, candidates AS (\n{pooled}\n"
        f"FROM (\n  {union}\n) AS found\nGROUP BY document_id\n)\n"
        f"SELECT document_id, score FROM (\n{ranked}\n) AS ranked\nORDER BY score DESC, document_id"
    )
