"""SQL: a statement that scores and ranks the rows of a table."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np

from marginrank.errors import DataError
from marginrank.export.base import CannotRunError, Target
from marginrank.export.checks import Check
from marginrank.export.expressions import Syntax, balanced_sum, parts_of, refuse_expression
from marginrank.export.sql_stages import Stage, fused_stages, hybrid_statement, scaling_stages
from marginrank.scoring import Function, FusedFunction
from marginrank.typing import FloatArray

Dialect = Literal["ansi", "sqlite", "postgresql", "duckdb", "bigquery"]
#: Rows that are inserted together.
_ROWS: Final = 400
_TITLES: Final[Mapping[str, str]] = {
    "ansi": "standard SQL",
    "sqlite": "SQLite 3.28 or newer",
    "postgresql": "PostgreSQL 11 or newer",
    "duckdb": "DuckDB 1 or newer",
    "bigquery": "BigQuery",
}


@dataclass(frozen=True)
class SqlSyntax(Syntax):
    """How a dialect writes numbers and names."""

    dialect: str = "ansi"

    def number(self, value: float) -> str:
        """Write a number that the dialect takes for a double."""
        text = repr(float(value))
        if self.dialect == "postgresql":
            return f"'{text}'::float8" if value < 0 else f"{text}::float8"
        if "e" not in text and self.dialect in ("ansi", "duckdb"):
            text += "e0"  # otherwise it is a decimal
        return f"({text})" if value < 0 else text

    def choose(self, condition: str, yes: str, no: str) -> str:
        """Write a CASE."""
        return f"CASE WHEN {condition} THEN {yes} ELSE {no} END"

    def is_missing(self, x: str) -> str:
        """Write a test for NULL."""
        return f"{x} IS NULL"

    def at_most(self, x: str, threshold: float, *, or_missing: bool) -> str:
        """Write a comparison, which is not true for NULL."""
        compared = f"{x} <= {self.number(threshold)}"
        return f"({compared} OR {x} IS NULL)" if or_missing else compared

    def name(self, name: str) -> str:
        """Quote a name.

        >>> SqlSyntax("bigquery").name("price"), SqlSyntax("sqlite").name('a"b')
        ('`price`', '"a""b"')
        """
        return f"`{name.replace('`', '')}`" if self.dialect == "bigquery" else '"' + name.replace('"', '""') + '"'

    def path(self, name: str) -> str:
        """Quote the name of a table, with its schema if it has one.

        >>> SqlSyntax("postgresql").path("shop.hits"), SqlSyntax("bigquery").path("shop.hits")
        ('"shop"."hits"', '`shop.hits`')
        """
        return self.name(name) if self.dialect == "bigquery" else ".".join(map(self.name, name.split(".")))


@dataclass(frozen=True)
class Sql(Target):
    """Write a SELECT that scores the rows of a table, with the best of each query first.

    The table has a row for each document of a query, and a column for each feature, or for the score of each run of a
    fusion. NULL is a missing value; store infinite values as NULL.

    Args:
        dialect: ``ansi``, ``sqlite``, ``postgresql``, ``duckdb`` or ``bigquery``.
        table: Name of the table.
        query: Its column with the query.
        document: Its column with the document.
    """

    name = "sql"
    takes: ClassVar[str] = "linear, additive and tree models, and fusions"
    suffix: ClassVar[str] = ".sql"
    takes_fusions: ClassVar[bool] = True
    dialect: Dialect = "ansi"
    table: str = "candidates"
    query: str = "query_id"
    document: str = "document_id"

    def __post_init__(self) -> None:
        if self.dialect not in get_args(Dialect):
            raise ValueError(f"dialect is {self.dialect!r}; choose one of {', '.join(get_args(Dialect))}")

    def refusal(self, function: Function) -> str | None:
        """Say why a function is not taken, or return None."""
        return refuse_expression(function)

    def write(self, function: Function) -> Mapping[str, str | bytes]:
        """Return the statement; where no other row matters, the expression alone too; for pgvector, a whole search."""
        self._check_columns(function.runs if isinstance(function, FusedFunction) else function.names)
        files = {"": self._statement(function)}
        syntax = SqlSyntax(self.dialect)
        if not function.needs_queries and not isinstance(function, FusedFunction):
            files[".expression.sql"] = _expression(function, list(map(syntax.name, function.names)), syntax) + "\n"
        if isinstance(function, FusedFunction) and self.dialect == "postgresql":
            stages = fused_stages(function, syntax, "query_id")
            score = _expression(function, [column for column, _ in stages[-1]], syntax)
            files[".hybrid.sql"] = hybrid_statement(function.runs, stages, score, syntax)
        return files

    def _check_columns(self, features: Sequence[str]) -> None:
        """Refuse columns that a database takes for one; only PostgreSQL tells "Age" from "age"."""
        columns = [self.query, self.document, *features]
        plain = columns if self.dialect == "postgresql" else [name.casefold() for name in columns]
        for name, one in zip(columns, plain, strict=True):
            if plain.count(one) > 1:
                raise DataError(f"two columns are called {name!r}; rename a feature, or give another query or document")

    def _scored(self, function: Function) -> tuple[str, list[Stage]]:
        """Return the expression of the score, and the stages that make the columns it is made of."""
        syntax = SqlSyntax(self.dialect)
        if isinstance(function, FusedFunction):
            stages = fused_stages(function, syntax, syntax.name(self.query))
        else:
            stages = scaling_stages(function, syntax, syntax.name(self.query))
        columns = [column for column, _ in stages[-1]] if stages else list(map(syntax.name, function.names))
        return _expression(function, columns, syntax), stages

    def _statement(self, function: Function) -> str:
        syntax = SqlSyntax(self.dialect)
        score, stages = self._scored(function)
        keys = [syntax.name(self.query), syntax.name(self.document)]
        source, body = syntax.path(self.table), []
        for number, stage in enumerate(stages):
            columns = ",\n    ".join(f"{expression} AS {column}" for column, expression in stage)
            body.append(f"stage{number + 1} AS (\n  SELECT {', '.join(keys)},\n    {columns}\n  FROM {source}\n)")
            source = f"stage{number + 1}"
        head = f"-- Scores of a marginrank model, for {_TITLES[self.dialect]}.\n"
        head += f"WITH {', '.join(body)}\n" if body else ""
        select = f"SELECT {', '.join(keys)},\n  {score} AS score\nFROM {source}\n"
        return f"{head}{select}ORDER BY {keys[0]}, score DESC\n"

    def next_steps(self, path: Path) -> str:
        """Say what to do with the file."""
        return (
            f"fill the table {self.table} ({self.query}, {self.document}, one column per feature) with the candidates "
            f"of each query, and run {path.name}"
        )

    def run(self, path: Path, check: Check) -> FloatArray:
        """Run the statement in SQLite or DuckDB, on a table in memory."""
        statement = path.read_text("utf-8")
        if self.dialect in ("ansi", "sqlite"):
            with contextlib.closing(sqlite3.connect(":memory:")) as connection:
                return self.fill_and_score(connection, statement, check, "REAL")
        if self.dialect == "duckdb":
            try:
                duckdb = importlib.import_module("duckdb")
            except ImportError:
                raise CannotRunError("duckdb is not installed here: pip install duckdb") from None
            with duckdb.connect(":memory:") as connection:
                return self.fill_and_score(connection, statement, check, "DOUBLE")
        raise CannotRunError(f"{_TITLES[self.dialect]} does not run here; load the check file into a table there")

    def fill_and_score(self, connection: Any, statement: str, check: Check, kind: str) -> FloatArray:
        """Make a table of the documents of a check, and return their scores by the statement."""
        syntax = SqlSyntax(self.dialect)
        columns = ", ".join(f"{syntax.name(feature)} {kind}" for feature in check.features)
        keys = f"{syntax.name(self.query)} VARCHAR(99), {syntax.name(self.document)} VARCHAR(99)"
        table = syntax.path(self.table)
        connection.execute(f"CREATE TABLE {table} ({keys}, {columns})")
        rows = [
            f"('{query}', '{document}', {', '.join('NULL' if np.isnan(x) else syntax.number(x) for x in values)})"
            for query, document, values in zip(check.queries, check.documents, check.X.tolist(), strict=True)
        ]
        for start in range(0, len(rows), _ROWS):
            connection.execute(f"INSERT INTO {table} VALUES {', '.join(rows[start : start + _ROWS])}")
        scores = {document: score for _, document, score in connection.execute(statement).fetchall()}
        return np.array([scores[document] for document in check.documents], dtype=np.float64)


def _expression(function: Function, columns: Sequence[str], syntax: SqlSyntax) -> str:
    if function.raw_fill is not None:
        columns = [
            f"COALESCE({column}, {syntax.number(fill)})"
            for column, fill in zip(columns, function.raw_fill.tolist(), strict=True)
        ]
    return balanced_sum(parts_of(function, columns, syntax), "\n  + ")
