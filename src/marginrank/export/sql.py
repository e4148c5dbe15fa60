"""SQL: a statement that scores and ranks the rows of a table."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from marginrank.errors import DataError, Message
from marginrank.export.base import CannotRunError, Target
from marginrank.export.export_files import Check
from marginrank.export.expressions import Syntax, balanced_sum, parts_of, refuse_expression
from marginrank.export.hybrid_search import depth_of
from marginrank.preparation.run_features import EQUAL_SHARE, FIFTH, RRF_K, SMALLEST_DIFFERENCE, TOP
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.typing import FloatArray

#: Columns of one SELECT: what they are called, and their expressions.
Stage: TypeAlias = list[tuple[str, str]]


def input_columns(function: ScoringFunction, table: str, syntax: SqlSyntax) -> list[str]:
    """Return the columns of a table that are scored, as numbers.

    Names of tables stand before those of columns, since SQLite takes a quoted name that no column has for text.
    """
    columns = [(name, f"{table}.{syntax.name(name)}") for name in function.inputs]
    return [syntax.boolean_as_number(x) if function.value_types.get(name) is bool else x for name, x in columns]


def stages_of(function: ScoringFunction, table: str, syntax: SqlSyntax, query: str) -> list[Stage]:
    """Return the stages that make features of runs, or scale features by query; none for other models."""
    if isinstance(function, FusedFunction):
        return fused_stages(function, table, syntax, query)
    return scaling_stages(function, table, syntax, query) if function.needs_queries else []


def scaling_stages(function: ScoringFunction, table: str, syntax: SqlSyntax, query: str) -> list[Stage]:
    """Return the stages of a scaling by query."""
    names, inputs = list(map(syntax.name, function.names)), input_columns(function, table, syntax)
    if function.raw_fill is not None:
        fills = function.raw_fill.tolist()
        inputs = [f"COALESCE({x}, {syntax.number(fill)})" for x, fill in zip(inputs, fills, strict=True)]
    if function.scaling == "query-percentile":
        return [[(name, _percentile(x, query, syntax)) for name, x in zip(names, inputs, strict=True)]]
    unit = [(name, _unit(x, query, syntax)) for name, x in zip(names, inputs, strict=True)]
    if function.scaling == "query-minmax":
        return [unit]
    over = f"OVER (PARTITION BY {query})"
    centered = [(name, f"stage1.{name} - AVG(stage1.{name}) {over}") for name in names]
    spreads = [f"SQRT(AVG(stage2.{name} * stage2.{name}) {over})" for name in names]
    scaled = [
        (name, _over_spread(f"stage2.{name}", spread, syntax)) for name, spread in zip(names, spreads, strict=True)
    ]
    return [unit, centered, scaled]


def _unit(x: str, query: str, syntax: SqlSyntax) -> str:
    low, high = _extremes(x, query)
    return _unit_where(f"{high} > {low}", x, query, syntax)


def _minmax(x: str, query: str, syntax: SqlSyntax) -> str:
    """Scale the scores of a run, where nearly equal ones are equal, as in `RunTable`."""
    low, high = _extremes(x, query)
    share, smallest = syntax.number(EQUAL_SHARE), syntax.number(SMALLEST_DIFFERENCE)
    return _unit_where(f"{high} - {low} > {share} * ABS({high}) + {smallest}", x, query, syntax)


def _unit_where(differ: str, x: str, query: str, syntax: SqlSyntax) -> str:
    low, high = _extremes(x, query)
    # Whole numbers would be divided as such.
    above = f"({syntax.number(1.0)} * ({x} - {low}))"
    inside = syntax.choose(differ, syntax.quotient(above, f"({high} - {low})"), syntax.number(0.0))
    return f"CASE WHEN {x} IS NOT NULL THEN {inside} END"


def _extremes(x: str, query: str) -> tuple[str, str]:
    """Write the minimum and the maximum of the query."""
    over = f"OVER (PARTITION BY {query})"
    return f"MIN({x}) {over}", f"MAX({x}) {over}"


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


def _best(x: str, query: str, syntax: SqlSyntax) -> str:  # noqa: ARG001
    return f"MAX({x}) OVER (PARTITION BY {query})"


def _gap(x: str, query: str, syntax: SqlSyntax) -> str:  # noqa: ARG001
    low, high = _extremes(x, query)
    order = f"ORDER BY {x} IS NULL, {x} DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    return f"{high} - COALESCE(NTH_VALUE({x}, {FIFTH}) OVER (PARTITION BY {query} {order}), {low})"


def _peak(unit: str, query: str, syntax: SqlSyntax) -> str:
    """Standard deviations from the mean to the highest score, of scores scaled to [0, 1] as in `RunTable`."""
    over, below = f"OVER (PARTITION BY {query})", f"({syntax.number(1.0)} - {unit})"
    mean = f"AVG({below}) {over}"
    spread = f"SQRT(AVG({below} * {below}) {over} - {mean} * {mean})"
    return syntax.choose(f"MAX({unit}) {over} > {syntax.number(0.0)}", f"{mean} / {spread}", syntax.number(0.0))


def _in_top(x: str, query: str, syntax: SqlSyntax) -> str:
    """1 for the best documents of a run, else 0."""
    top = f"{x} IS NOT NULL AND {_place(x, query, syntax)} <= {syntax.number(float(TOP))}"
    return syntax.choose(top, syntax.number(1.0), syntax.number(0.0))


def _overlap(run: str, runs: Sequence[str], query: str, syntax: SqlSyntax) -> str:
    """Mean share of the best documents of a run that are among those of another; columns are those of `_in_top`."""
    over, none = f"OVER (PARTITION BY {query})", syntax.number(0.0)
    others = " + ".join(other for other in runs if other != run) or none
    share = f"SUM({run} * ({others})) {over} / NULLIF(SUM({run}) {over}, {none})"
    return f"{share} / {syntax.number(float(max(len(runs) - 1, 1)))}"


def _count(x: str, query: str, syntax: SqlSyntax) -> str:  # noqa: ARG001
    return f"COUNT({x}) OVER (PARTITION BY {query})"


def _score(x: str, query: str, syntax: SqlSyntax) -> str:  # noqa: ARG001
    return x


_KINDS: Final[dict[str, Callable[[str, str, SqlSyntax], str]]] = {
    "score": _score,
    "minmax": _minmax,
    "percentile": _percentile,
    "rrf": _reciprocal,
    "borda": _borda,
    "retrieved": _retrieved,
    "best": _best,
    "gap": _gap,
    "peak": _peak,
    "count": _count,
}
#: What kinds are made of that cannot be computed from the runs in one SELECT.
_MADE_BEFORE: Final[dict[str, Callable[[str, str, SqlSyntax], str]]] = {"peak": _minmax, "overlap": _in_top}


def fused_stages(function: FusedFunction, table: str, syntax: SqlSyntax, query: str) -> list[Stage]:
    """Return the stages that make the features of a fusion from the scores of runs, and the context."""
    inputs, n_runs = input_columns(function, table, syntax), len(function.runs)
    before = [kind for kind in function.kinds if kind in _MADE_BEFORE]
    stages: list[Stage] = []
    made = dict.fromkeys(function.kinds, inputs[:n_runs])
    if before:
        stages.append([(syntax.name(name), x) for name, x in zip(function.inputs, inputs, strict=True)])
        for kind in before:
            names = [syntax.name(f"{kind} of {run}") for run in function.runs]
            stages[0] += [(name, _MADE_BEFORE[kind](x, query, syntax)) for name, x in zip(names, inputs, strict=False)]
            made[kind] = [f"stage1.{name}" for name in names]
        inputs = [f"stage1.{syntax.name(name)}" for name in function.inputs]
        made |= {kind: inputs[:n_runs] for kind in function.kinds if kind not in before}
    features = [
        _overlap(run, made[kind], query, syntax) if kind == "overlap" else _KINDS[kind](run, query, syntax)
        for kind in function.kinds
        for run in made[kind]
    ]
    features += [_best(column, query, syntax) for column in inputs[n_runs:]]
    known = features if function.keep_missing else [f"COALESCE({x}, {syntax.number(0.0)})" for x in features]
    return [*stages, list(zip(map(syntax.name, function.names), known, strict=True))]


def hybrid_statement(function: FusedFunction, syntax: SqlSyntax) -> str:
    """Return a whole hybrid search for PostgreSQL with pgvector: full text and vectors, joined, scaled and scored.

    The first run is the full-text search, the second the nearest vectors; others come from your own tables.
    """
    stages, source, body = fused_stages(function, "candidates", syntax, "query_id"), "candidates", ""
    for number, stage in enumerate(stages, 1):
        columns = ",\n    ".join(f"{expression} AS {column}" for column, expression in stage)
        body += f", stage{number} AS (\n  SELECT query_id, document_id,\n    {columns}\n  FROM {source}\n)"
        source = f"stage{number}"
    score = _expression(function, [f"{source}.{column}" for column, _ in stages[-1]], syntax)
    text, vector, *others = map(syntax.name, [*function.runs, "vector"][: max(2, len(function.runs))])
    joined = "".join(f",\n    TODO.{run} -- the score of this run, from a table of yours" for run in others)
    joined += "".join(f",\n    TODO.{syntax.name(name)} -- a number for the query" for name in function.context)
    depth = depth_of(function)
    return f"""\
-- Hybrid search by full text and vectors, for PostgreSQL 11 or newer with pgvector 0.5 or newer.
-- Parameters: $1 the words of the query, $2 its vector. Adapt the table documents (id, body, embedding) to yours.
WITH text_hits AS (
  SELECT id, ts_rank_cd(to_tsvector('english', body), websearch_to_tsquery('english', $1))::float8 AS {text}
  FROM documents
  WHERE to_tsvector('english', body) @@ websearch_to_tsquery('english', $1)
  ORDER BY {text} DESC LIMIT {depth}
), vector_hits AS (
  SELECT id, (1 - (embedding <=> $2))::float8 AS {vector}
  FROM documents
  ORDER BY embedding <=> $2 LIMIT {depth}
), candidates AS (
  SELECT 1 AS query_id, COALESCE(text_hits.id, vector_hits.id) AS document_id,
    {text}, {vector}{joined}
  FROM text_hits FULL OUTER JOIN vector_hits ON text_hits.id = vector_hits.id
){body}
SELECT document_id,
  {score} AS score
FROM {source}
ORDER BY score DESC LIMIT 10
"""


Dialect = Literal["ansi", "sqlite", "postgresql", "duckdb", "bigquery"]

#: Bytes of a name that PostgreSQL reads.
_NAME_BYTES: Final = 63
#: Rows that are inserted together.
_ROWS: Final = 400
_TITLES: Final[Mapping[str, str]] = {
    "ansi": "standard SQL",
    "sqlite": "SQLite 3.28 or newer",
    "postgresql": "PostgreSQL 11 or newer",
    "duckdb": "DuckDB 1 or newer",
    "bigquery": "BigQuery",
}
#: Types of text and of numbers in double precision, for dialects that have no cast from true and false to numbers.
_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "ansi": ("VARCHAR(40)", "DOUBLE PRECISION"),
    "postgresql": ("text", "float8"),
    "bigquery": ("STRING", "FLOAT64"),
}
#: How BigQuery writes the characters that end a name or begin an escape.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "`": "\\`", "\n": "\\n", "\r": "\\r"})
#: The smallest number that has all its digits.
_SMALLEST: Final = float(np.finfo(np.float64).tiny)
#: Ratios below this are 0 where numbers may not underflow.
_NEGLIGIBLE: Final = 1e-290


@dataclass(frozen=True)
class SqlSyntax(Syntax):
    """Syntax of a dialect: numbers and names."""

    dialect: str = "ansi"

    def number(self, value: float) -> str:
        """Write a number that the dialect takes for a double."""
        text = repr(float(value))
        if self.dialect == "postgresql":
            return f"'{text}'::float8" if value < 0 else f"{text}::float8"
        if "e" not in text and self.dialect in ("ansi", "duckdb"):
            text += "e0"  # otherwise it is a decimal
        return f"({text})" if value < 0 else text

    def value(self, value: float | bool | None) -> str:
        """Write a value of a table.

        >>> list(map(SqlSyntax("sqlite").value, [None, True, 3, 1.5]))
        ['NULL', 'TRUE', '3', '1.5']
        """
        if value is None:
            return "NULL"
        return self.number(value) if isinstance(value, float) else str(value).upper()

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

    def product(self, weight: float, x: str, origin: float) -> str:
        """Write ``weight * (x - origin)``; in PostgreSQL, where underflow is an error, 0 if it is very small."""
        product = super().product(weight, x, origin)
        # The smallest difference of two numbers, other than 0, is half the spacing of the numbers at one of them.
        if self.dialect != "postgresql" or not 0.0 < abs(weight) < 2 * _SMALLEST / np.spacing(abs(origin)):
            return product
        least = self.number(min(_SMALLEST / abs(weight), 1.0 / _SMALLEST))
        return self.choose(f"ABS({self.minus(x, origin)}) < {least}", self.number(0.0), product)

    def quotient(self, dividend: str, divisor: str) -> str:
        """Write a quotient of numbers that are not negative; in PostgreSQL, 0 if it is very small."""
        quotient = f"{dividend} / {divisor}"
        if self.dialect != "postgresql":
            return quotient
        small = f"WHEN {dividend} < {divisor} * {self.number(_NEGLIGIBLE)} THEN {self.number(0.0)}"
        return f"CASE WHEN {divisor} < {self.number(1.0)} THEN {quotient} {small} ELSE {quotient} END"

    def boolean_as_number(self, x: str) -> str:
        """Write 1 for true and 0 for false, and a number as it is."""
        if self.dialect == "sqlite":  # which has no type for them
            return x
        if self.dialect == "duckdb":
            return f"CAST({x} AS DOUBLE)"
        text, double = _TYPES[self.dialect]
        return f"CAST(REPLACE(REPLACE(LOWER(CAST({x} AS {text})), 'true', '1'), 'false', '0') AS {double})"

    def name(self, name: str) -> str:
        r"""Quote a name.

        >>> print(SqlSyntax("bigquery").name("a`b"), SqlSyntax("sqlite").name('a"b'))
        `a\`b` "a""b"
        """
        return f"`{name.translate(_ESCAPES)}`" if self.dialect == "bigquery" else '"' + name.replace('"', '""') + '"'

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
    takes: ClassVar[str] = "linear, adaptive, additive and tree models, and fusions"
    suffix: ClassVar[str] = ".sql"
    takes_fusions: ClassVar[bool] = True
    dialect: Dialect = "ansi"
    table: str = "candidates"
    query: str = "query_id"
    document: str = "document_id"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return refuse_expression(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the statement; if no other row matters, the expression alone too; for pgvector, a whole search."""
        syntax = SqlSyntax(self.dialect)
        self._check_columns(list(map(syntax.name, function.inputs)))
        for stage in stages_of(function, self._alias, syntax, syntax.name(self.query)):
            self._check_columns([column for column, _ in stage])
        files = {"": self._statement(function)}
        if not function.needs_queries and not isinstance(function, FusedFunction):
            columns = input_columns(function, self._alias, syntax)
            files[".expression.sql"] = _expression(function, columns, syntax) + "\n"
        if isinstance(function, FusedFunction) and self.dialect == "postgresql":
            files[".hybrid.sql"] = hybrid_statement(function, syntax)
        return files

    def _check_columns(self, features: Sequence[str]) -> None:
        """Refuse columns that a database takes for one; only PostgreSQL tells "Age" from "age", if they are short."""
        syntax = SqlSyntax(self.dialect)
        columns = [syntax.name(self.query), syntax.name(self.document), *features]
        if self.dialect == "postgresql":
            plain = [name[1:-1].replace('""', '"').encode()[:_NAME_BYTES] for name in columns]
        else:
            plain = [name.casefold().encode() for name in columns]
        for name, one in zip(columns, plain, strict=True):
            if plain.count(one) > 1:
                raise DataError(f"two columns are called {name}; rename a feature, or give another query or document")

    @property
    def _alias(self) -> str:
        """The name of the table without its schema, which stands before the names of columns."""
        return SqlSyntax(self.dialect).name(self.table.rpartition(".")[2])

    def _statement(self, function: ScoringFunction) -> str:
        syntax, alias = SqlSyntax(self.dialect), self._alias
        query, document = syntax.name(self.query), syntax.name(self.document)
        source = syntax.path(self.table) + (f" AS {alias}" if "." in self.table else "")
        columns, body = input_columns(function, alias, syntax), []
        for number, stage in enumerate(stages_of(function, alias, syntax, query), 1):
            made = ",\n    ".join(f"{x} AS {column}" for column, x in stage)
            keys = f"{alias}.{query}, {alias}.{document}"
            body.append(f"stage{number} AS (\n  SELECT {keys},\n    {made}\n  FROM {source}\n)")
            source = alias = f"stage{number}"
            columns = [f"{alias}.{column}" for column, _ in stage]
        head = f"-- Scores of a marginrank model, for {_TITLES[self.dialect]}.\n"
        head += f"WITH {', '.join(body)}\n" if body else ""
        score = _expression(function, columns, syntax)
        select = f"SELECT {alias}.{query}, {alias}.{document},\n  {score} AS score\nFROM {source}\n"
        # PostgreSQL sorts NULL before all scores.
        nulls = " NULLS LAST" if self.dialect == "postgresql" else ""
        return f"{head}{select}ORDER BY {query}, score DESC{nulls}\n"

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
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
        types = {bool: "BOOLEAN", int: "BIGINT", float: kind}
        columns = ", ".join(
            f"{syntax.name(feature)} {types[check.value_types.get(feature, float)]}" for feature in check.features
        )
        keys = f"{syntax.name(self.query)} VARCHAR(99), {syntax.name(self.document)} VARCHAR(99)"
        table = syntax.path(self.table)
        connection.execute(f"CREATE TABLE {table} ({keys}, {columns})")
        rows = [
            f"('{query}', '{document}', {', '.join(map(syntax.value, values))})"
            for query, document, values in zip(check.queries, check.documents, check.rows, strict=True)
        ]
        for start in range(0, len(rows), _ROWS):
            connection.execute(f"INSERT INTO {table} VALUES {', '.join(rows[start : start + _ROWS])}")
        scores = {document: score for _, document, score in connection.execute(statement).fetchall()}
        return np.array([scores[document] for document in check.documents], dtype=np.float64)


def _expression(function: ScoringFunction, columns: Sequence[str], syntax: SqlSyntax) -> str:
    if function.raw_fill is not None:
        columns = [
            f"COALESCE({column}, {syntax.number(fill)})"
            for column, fill in zip(columns, function.raw_fill.tolist(), strict=True)
        ]
    return balanced_sum(parts_of(function, columns, syntax), "\n  + ")
