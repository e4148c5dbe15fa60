"""SQL statements give the scores of the model, in SQLite, DuckDB and PostgreSQL."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from marginrank.errors import DataError
from marginrank.export import Check, parse_target
from marginrank.export.sql import SqlSyntax
from tests.export.conftest import Postgres
from tests.export.judging import SIZE, judge, takes
from tests.export.test_engines import GROUP, fused, retrieved
from tests.export.trained import TRAINERS, hard_documents, trained
from tests.fusion.test_context import ALL, fitted

POSTGRES_TYPES = {bool: "boolean", int: "bigint", float: "float8"}
REFUSED = {"expected-grades", "kernel", "kernel-poly", "gaussian-process"}
TAKEN = [name for name in TRAINERS if name not in REFUSED and not name.startswith("network")]


def limit(name: str) -> float:
    """Lines are rounded to 2⁻²⁴ of the way between two knots here, and nowhere else."""
    return 1e-7 if "lines" in name else 1e-12


def test_sql_takes_what_is_arithmetic() -> None:
    assert [name for name in TRAINERS if takes(name, "sql")] == TAKEN


@pytest.mark.parametrize("spec", ["python", "sql(dialect=sqlite)", "lightgbm"])
def test_rounding_to_float32_is_part_of_the_thresholds(spec: str, tmp_path: Path) -> None:
    target, model = parse_target(spec), trained("trees-single")
    model.export(target, tmp_path / f"m{target.suffix}")
    cuts = model.form.threshold[model.form.feature == 0]
    near = np.concatenate([np.nextafter(np.float32(cuts), np.float32(way)) for way in (-np.inf, np.inf)])
    X = np.tile(hard_documents("trees-single", 1), (400, 1))
    X[:, 0] = np.random.default_rng(0).choice(np.concatenate([cuts, near.astype(np.float64)]), 400)
    X[:, 0] += np.random.default_rng(1).uniform(-1, 1, 400) * np.spacing(X[:, 0].astype(np.float32)).astype(np.float64)
    check = Check(model.names, X, (SIZE,) * 20, model.score(X))
    assert check.compare(target.run(tmp_path / f"m{target.suffix}", check)) is None


@pytest.mark.parametrize("dialect", ["ansi", "sqlite", "duckdb"])
@pytest.mark.parametrize("name", TAKEN)
def test_databases_in_this_process(name: str, dialect: str, tmp_path: Path) -> None:
    assert judge(name, f"sql(dialect={dialect})", tmp_path) < limit(name)


def test_names_of_tables_and_columns_keep_their_case(tmp_path: Path) -> None:
    model = trained("linear")
    model.export("SQL(dialect=postgresql, table=Shop.Hits, query=QueryId)", tmp_path / "m.sql")
    statement = (tmp_path / "m.sql").read_text()
    assert 'FROM "Shop"."Hits"' in statement
    assert 'ORDER BY "QueryId", score DESC' in statement


@pytest.mark.parametrize(
    ("spec", "twice"),
    [
        ("sql(query=age)", "age"),
        ("sql(dialect=sqlite, document=Clicks)", "Clicks"),
        ("sql(query=document_id)", "document_id"),
    ],
)
def test_two_columns_of_one_name_are_refused(spec: str, twice: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f'^two columns are called "{twice}"; rename a feature, or give another'):
        trained("linear").export(spec, tmp_path / "m.sql")
    assert list(tmp_path.iterdir()) == []


def test_postgresql_tells_capitals_apart(tmp_path: Path) -> None:
    assert trained("linear").export("sql(dialect=postgresql, query=Age)", tmp_path / "m.sql").files


def postgres_scores(server: Postgres, statement: str, check: Check) -> np.ndarray:
    """Load the documents of a check into a table, and score them there."""
    name = SqlSyntax("postgresql").name
    columns = ", ".join(
        f"{name(feature)} {POSTGRES_TYPES[check.value_types.get(feature, float)]}" for feature in check.features
    )
    rows = "\n".join(
        "\t".join([query, document, *("\\N" if x is None else repr(x) for x in values)])
        for query, document, values in zip(check.queries, check.documents, check.rows, strict=True)
    )
    script = (
        f"CREATE TEMP TABLE candidates (query_id text, document_id text, {columns});\n"
        f"COPY candidates FROM STDIN;\n{rows}\n\\.\n{statement};\n"
    )
    scores = {document: float(score) for _, document, score in server.run(script)}
    return np.array([scores[document] for document in check.documents])


@pytest.mark.parametrize("name", TAKEN)
def test_postgresql(name: str, postgres: Postgres, tmp_path: Path) -> None:
    model = trained(name)
    model.export("sql(dialect=postgresql)", tmp_path / "m.sql")
    X = hard_documents(name)
    check = Check(model.names, X, tuple(GROUP), model.score(X, group=GROUP))
    scores = postgres_scores(postgres, (tmp_path / "m.sql").read_text(), check)
    assert check.compare(scores) is None
    assert np.abs(scores - check.scores).max() < limit(name) * np.abs(check.scores).max()


@pytest.mark.parametrize("features", ["minmax", "percentile", "rrf", "borda", "retrieved+minmax"])
def test_postgresql_makes_the_features_of_fusions(features: str, postgres: Postgres, tmp_path: Path) -> None:
    from marginrank import Queries

    fusion = fused(features)
    fusion.export("sql(dialect=postgresql)", tmp_path / "m.sql")
    X = np.round(retrieved(2, missing=True), -1)
    queries = Queries.from_arrays(X, group=GROUP, feature_names=["bm25", "dense"], allow_nan=True)
    check = Check(("bm25", "dense"), X, tuple(GROUP), fusion.predict(queries))
    assert check.compare(postgres_scores(postgres, (tmp_path / "m.sql").read_text(), check)) is None


@pytest.mark.parametrize("context", [("has_code",), ALL])
def test_postgresql_makes_the_contexts_of_fusions(context: tuple[str, ...], postgres: Postgres, tmp_path: Path) -> None:
    fitted(context).export("sql(dialect=postgresql)", tmp_path / "m.sql")
    check = Check.read(tmp_path / "m.check.json")
    assert check.compare(postgres_scores(postgres, (tmp_path / "m.sql").read_text(), check)) is None


@pytest.mark.parametrize("name", ["linear-flags", "steps", "trees"])
def test_infinite_values_are_missing_ones(name: str, tmp_path: Path) -> None:
    X = hard_documents(name, 200)
    X[3, 0], X[5, 1] = np.inf, -np.inf
    stored = np.where(np.isinf(X), np.nan, X)
    target = parse_target("sql(dialect=sqlite)")
    trained(name).export(target, tmp_path / "m.sql")
    check = Check(trained(name).names, stored, (SIZE,) * 10, trained(name).score(stored, group=[SIZE] * 10))
    assert check.compare(target.run(tmp_path / "m.sql", check)) is None


def test_an_expression_stands_alone_where_no_other_row_matters(tmp_path: Path) -> None:
    model = trained("steps-standard")
    model.export("sql(dialect=sqlite, table=t)", tmp_path / "m.sql")
    expression = (tmp_path / "m.expression.sql").read_text()
    X = hard_documents("steps-standard", 100)
    connection = sqlite3.connect(":memory:")
    columns = ", ".join(f'"{name}" REAL' for name in model.names)
    connection.execute(f"CREATE TABLE t ({columns})")
    connection.executemany(
        "INSERT INTO t VALUES (?, ?, ?, ?, ?)", [[None if np.isnan(x) else x for x in row] for row in X.tolist()]
    )
    scores = [score for (score,) in connection.execute(f"SELECT {expression} FROM t ORDER BY rowid")]
    np.testing.assert_allclose(scores, model.score(X), rtol=1e-12)
    trained("linear-minmax").export("sql", tmp_path / "q.sql")
    assert not (tmp_path / "q.expression.sql").exists()


def test_names_are_quoted_and_tables_can_be_named(tmp_path: Path) -> None:
    trained("linear").export("sql(dialect=bigquery, table=shop.hits, query=q, document=d)", tmp_path / "m.sql")
    text = (tmp_path / "m.sql").read_text()
    assert "FROM `shop.hits`" in text
    assert "ORDER BY `q`, score DESC" in text
    assert "`price in €`" in text


def test_the_hybrid_search_of_pgvector_runs(postgres: Postgres, tmp_path: Path) -> None:
    """With an operator of our own in place of pgvector's, on arrays."""
    fusion = fused("minmax")
    fusion.export("sql(dialect=postgresql)", tmp_path / "m.sql")
    search = (tmp_path / "m.hybrid.sql").read_text()
    script = f"""
CREATE SCHEMA hybrid;
SET search_path TO hybrid, public;
CREATE FUNCTION distance(a float8[], b float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS
  'SELECT 1 - sum(x * y) / sqrt(sum(x * x) * sum(y * y)) FROM unnest(a, b) AS t(x, y)';
CREATE OPERATOR <=> (LEFTARG = float8[], RIGHTARG = float8[], FUNCTION = distance);
CREATE TABLE documents (id text, body text, embedding float8[]);
INSERT INTO documents VALUES
  ('a', 'red shoes for running in the park', ARRAY[1, 0]),
  ('b', 'running running running', ARRAY[0.9, 0.1]),
  ('c', 'blue hats', ARRAY[0.8, 0.6]),
  ('d', 'green socks', ARRAY[-1, 0.2]);
PREPARE search(text, float8[]) AS {search};
EXECUTE search('running', ARRAY[1, 0]);
"""
    ranked = postgres.run(script)
    bm25, dense = fusion.ranker_.coef_
    text = dict(postgres.run(
        "SET search_path TO hybrid; SELECT id, ts_rank_cd(to_tsvector('english', body), "
        "websearch_to_tsquery('english', 'running')) FROM documents WHERE id IN ('a', 'b');"
    ))  # fmt: skip
    cosines = {"a": 1.0, "b": 0.9 / np.hypot(0.9, 0.1), "c": 0.8, "d": -1 / np.hypot(1, 0.2)}
    low, high = sorted(float(score) for score in text.values())
    expected = {
        name: bm25 * ((float(text[name]) - low) / (high - low) if name in text else 0.0)
        + dense * (cosine - cosines["d"]) / (1.0 - cosines["d"])
        for name, cosine in cosines.items()
    }
    assert [name for name, _ in ranked] == sorted(expected, key=lambda name: -expected[name])
    np.testing.assert_allclose(
        [float(score) for _, score in ranked], sorted(expected.values(), reverse=True), rtol=1e-6
    )
