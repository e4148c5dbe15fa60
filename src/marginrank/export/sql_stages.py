"""Stages of a statement: columns made by window functions over the rows of each query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from marginrank.preparation.run_features import RRF_K
from marginrank.scoring import Function, FusedFunction

if TYPE_CHECKING:
    from marginrank.export.sql import SqlSyntax

#: Columns of one SELECT: what they are called, and their expressions.
Stage: TypeAlias = list[tuple[str, str]]


def scaling_stages(function: Function, syntax: SqlSyntax, query: str) -> list[Stage]:
    """Return the stages of a scaling by query; none for other scalings, which the expression of the score has."""
    if not function.needs_queries:
        return []
    names = list(map(syntax.name, function.names))
    inputs = names
    if function.raw_fill is not None:
        fills = function.raw_fill.tolist()
        inputs = [f"COALESCE({name}, {syntax.number(fill)})" for name, fill in zip(names, fills, strict=True)]
    if function.scaling == "query-percentile":
        return [[(name, _percentile(x, query, syntax)) for name, x in zip(names, inputs, strict=True)]]
    unit = [(name, _unit(x, query, syntax)) for name, x in zip(names, inputs, strict=True)]
    if function.scaling == "query-minmax":
        return [unit]
    over = f"OVER (PARTITION BY {query})"
    centred = [(name, f"{name} - AVG({name}) {over}") for name in names]
    scaled = [(name, _over_spread(name, f"SQRT(AVG({name} * {name}) {over})", syntax)) for name in names]
    return [unit, centred, scaled]


def _unit(x: str, query: str, syntax: SqlSyntax) -> str:
    over = f"OVER (PARTITION BY {query})"
    low, high = f"MIN({x}) {over}", f"MAX({x}) {over}"
    inside = syntax.choose(f"{high} > {low}", f"({x} - {low}) / ({high} - {low})", syntax.number(0.0))
    return f"CASE WHEN {x} IS NOT NULL THEN {inside} END"


def _over_spread(x: str, spread: str, syntax: SqlSyntax) -> str:
    inside = syntax.choose(f"{spread} > {syntax.number(0.0)}", f"{x} / {spread}", syntax.number(0.0))
    return f"CASE WHEN {x} IS NOT NULL THEN {inside} END"


def _rank(x: str, query: str, order: str) -> str:
    """Rank the values of the query from the smallest or the largest; NULL is a group of its own."""
    return f"RANK() OVER (PARTITION BY {query}, {x} IS NULL ORDER BY {x} {order})"


def _percentile(x: str, query: str, syntax: SqlSyntax) -> str:
    # Of n values, n − #smaller − #larger are equal; BigQuery does not partition by numbers.
    known = f"COUNT({x}) OVER (PARTITION BY {query})"
    smaller_less_larger = f"{_rank(x, query, 'ASC')} - {_rank(x, query, 'DESC')}"
    share = f"{syntax.number(0.5)} * ({known} + {smaller_less_larger}) / {known}"
    return f"CASE WHEN {x} IS NOT NULL THEN {share} END"


def _place(x: str, query: str, syntax: SqlSyntax) -> str:
    """Rank of a document in its run, 1 is best; equal scores share the mean."""
    known = f"COUNT({x}) OVER (PARTITION BY {query})"
    larger_less_smaller = f"{_rank(x, query, 'DESC')} - {_rank(x, query, 'ASC')}"
    return f"{syntax.number(0.5)} * ({known} + {larger_less_smaller} + 1)"


def _reciprocal(x: str, query: str, syntax: SqlSyntax) -> str:
    top, k = syntax.number(RRF_K + 1.0), syntax.number(float(RRF_K))
    return f"CASE WHEN {x} IS NOT NULL THEN {top} / ({k} + {_place(x, query, syntax)}) END"


def _borda(x: str, query: str, syntax: SqlSyntax) -> str:
    size = f"COUNT(*) OVER (PARTITION BY {query})"
    points = f"({size} - {_place(x, query, syntax)} + {syntax.number(1.0)}) / {size}"
    return f"CASE WHEN {x} IS NOT NULL THEN {points} END"


def _retrieved(x: str, query: str, syntax: SqlSyntax) -> str:  # noqa: ARG001
    return syntax.choose(f"{x} IS NULL", syntax.number(0.0), syntax.number(1.0))


def _score(x: str, query: str, syntax: SqlSyntax) -> str:  # noqa: ARG001
    return x


_KINDS: Final[dict[str, Callable[[str, str, SqlSyntax], str]]] = {
    "score": _score,
    "minmax": _unit,
    "percentile": _percentile,
    "rrf": _reciprocal,
    "borda": _borda,
    "retrieved": _retrieved,
}


def fused_stages(function: FusedFunction, syntax: SqlSyntax, query: str) -> list[Stage]:
    """Return the stage that makes the features of a fusion from the scores of runs."""
    columns = iter(function.names)
    stage = []
    for kind in function.kinds:
        for run in map(syntax.name, function.runs):
            made = _KINDS[kind](run, query, syntax)
            known = made if function.keep_missing else f"COALESCE({made}, {syntax.number(0.0)})"
            stage.append((syntax.name(next(columns)), known))
    return [stage]


def hybrid_statement(runs: Sequence[str], stages: list[Stage], score: str, syntax: SqlSyntax) -> str:
    """Return a whole hybrid search for PostgreSQL with pgvector: full text and vectors, joined, scaled and scored.

    The first run is the full-text search, the second the nearest vectors; others come from your own tables.
    """
    text, vector = syntax.name(runs[0]), syntax.name(runs[1] if len(runs) > 1 else "vector")
    joined = "".join(f",\n    NULL::float8 AS {syntax.name(run)} -- put the score of this run here" for run in runs[2:])
    body = "".join(
        f", stage{number + 1} AS (\n  SELECT query_id, document_id,\n    "
        + ",\n    ".join(f"{expression} AS {column}" for column, expression in stage)
        + f"\n  FROM {'candidates' if number == 0 else f'stage{number}'}\n)"
        for number, stage in enumerate(stages)
    )
    return f"""\
-- Hybrid search by full text and vectors, for PostgreSQL 11 or newer with pgvector 0.5 or newer.
-- Parameters: $1 the words of the query, $2 its vector. Adapt the table documents (id, body, embedding) to yours.
WITH text_hits AS (
  SELECT id, ts_rank_cd(to_tsvector('english', body), websearch_to_tsquery('english', $1))::float8 AS {text}
  FROM documents
  WHERE to_tsvector('english', body) @@ websearch_to_tsquery('english', $1)
  ORDER BY {text} DESC LIMIT 100
), vector_hits AS (
  SELECT id, (1 - (embedding <=> $2))::float8 AS {vector}
  FROM documents
  ORDER BY embedding <=> $2 LIMIT 100
), candidates AS (
  SELECT 1 AS query_id, COALESCE(text_hits.id, vector_hits.id) AS document_id,
    {text}, {vector}{joined}
  FROM text_hits FULL OUTER JOIN vector_hits ON text_hits.id = vector_hits.id
){body}
SELECT document_id,
  {score} AS score
FROM stage{len(stages)}
ORDER BY score DESC LIMIT 10
"""
