"""Nothing that an export leaves to guessing: absent features, names, booleans, placeholders, depths of runs."""

from __future__ import annotations

import json
import runpy
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginrank import Boosted, Fusion, Linear, Queries, Ranker, from_frame
from marginrank.errors import DataError
from marginrank.export import Check, all_targets, export, parse_target, verify
from marginrank.export.sql import SqlSyntax
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import Curve, CurvesTerm
from tests.export.conftest import Postgres
from tests.export.judging import run
from tests.export.test_export_files import PLAIN
from tests.export.test_sql import postgres_scores
from tests.export.trained import trained


@pytest.mark.parametrize("dialect", ["ansi", "sqlite"])
@pytest.mark.parametrize("lacking", ["a", "query_id"])
def test_a_column_that_a_table_lacks_is_an_error(dialect: str, lacking: str, tmp_path: Path) -> None:
    export(PLAIN, f"sql(dialect={dialect})", tmp_path / "m.sql")
    columns = ", ".join(name for name in ("query_id", "document_id", "a", "b") if name != lacking)
    with sqlite3.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE candidates ({columns})")
        with pytest.raises(sqlite3.OperationalError, match=rf"no such column: candidates.{lacking}"):
            connection.execute((tmp_path / "m.sql").read_text())


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"a": 1.0}, "there is no feature 'b'; give None if it is missing"),
        ({"a": 1.0, "b": None}, "feature 'b' is missing; fill it"),
        ([1.0, float("nan")], "feature 'b' is missing; fill it"),
        ([1.0, float("inf")], "feature 'b' is infinite"),
        ([1.0, "2"], "feature 'b' is text; give a number"),
        ([1.0], "has 1 values for 2 features"),
    ],
)
def test_exported_python_refuses_what_the_model_does_not_take(document: object, said: str, tmp_path: Path) -> None:
    export(PLAIN, "python", tmp_path / "m.py")
    module = runpy.run_path(str(tmp_path / "m.py"))
    with pytest.raises(ValueError, match=f"document 1:? {said}"):
        module["rank"]([[0.0, 0.0], document])
    assert module["score"]([{"a": True, "b": False}, [0, 1]]) == [2.0, -1.0]


def test_groups_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for suffix, target in ((".py", "python"), (".js", "javascript")):
        trained("linear-minmax").export(target, tmp_path / f"m{suffix}")
    said = "group has 3 documents for 2; give the number of each query"
    with pytest.raises(ValueError, match=said):
        runpy.run_path(str(tmp_path / "m.py"))["score"]([[0.0] * 5] * 2, [1, 2])
    load = f"const model = require({json.dumps(str(tmp_path / 'm.js'))});"
    assert said in node(f"{load} model.score([[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], [1, 2])").stderr


def node(script: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed here")
    return subprocess.run([program, "-e", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{a: 1}", "feature 'b' is absent; give null if it is missing"),
        ("{a: 1, b: null}", "feature 'b' is missing; fill it"),
        ("[1, NaN]", "feature 'b' is missing; fill it"),
        ("[1, 1e999]", "feature 'b' is infinite"),
        ("[1, '']", "feature 'b' is no number"),
        ("[1]", "has 1 values for 2 features"),
    ],
)
def test_exported_javascript_refuses_what_the_model_does_not_take(document: str, said: str, tmp_path: Path) -> None:
    export(PLAIN, "javascript", tmp_path / "m.js")
    load = f"const model = require({json.dumps(str(tmp_path / 'm.js'))});"
    assert f"document 1: {said}".replace(": has", " has") in node(f"{load} model.rank([[0, 0], {document}])").stderr
    scores = node(f"{load} console.log(JSON.stringify(model.score([{{a: true, b: false}}, [0, 1]])))").stdout
    assert json.loads(scores) == [2, -1]


def test_documents_without_a_score_are_last_in_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    export(PLAIN, "sql(dialect=postgresql)", tmp_path / "m.sql")
    table = "CREATE TEMP TABLE candidates (query_id text, document_id text, a float8, b float8);"
    rows = "INSERT INTO candidates VALUES ('q', 'low', 1, 1), ('q', 'gap', NULL, 1), ('q', 'high', 5, 1);"
    ranked = postgres.run(f"{table}{rows}{(tmp_path / 'm.sql').read_text()};")
    assert [row[1] for row in ranked] == ["high", "low", "gap"]


def shop(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"query": np.arange(n) // 20, "bm25": rng.gamma(2.0, size=n), "sale": rng.random(n) < 0.4})
    frame["price"] = rng.integers(1, 9, n)
    frame["grade"] = (frame["bm25"] + 2 * frame["sale"] + rng.standard_normal(n) > 3).astype(int)
    return frame


@pytest.mark.parametrize("scaling", ["standard", "query-minmax"])
def test_boolean_columns_are_numbers_everywhere(scaling: str, postgres: Postgres, tmp_path: Path) -> None:
    frame = shop()
    judged = from_frame(frame, qid="query", grade="grade", missing="nan")
    model = Ranker("svmmap", scaling=scaling).fit(judged).model_
    assert model.function.value_types == {"sale": bool, "price": int}
    scores = model.score(judged)
    for dialect in ("duckdb", "sqlite", "ansi"):
        target = parse_target(f"sql(dialect={dialect})")
        model.export(target, tmp_path / "m.sql")
        check = verify(target, tmp_path / "m.sql")
        assert check.value_types == {"bm25": float, "sale": bool, "price": int}
        assert {type(x) for row in check.rows for x in row[1:]} == {bool, int}
    duckdb = pytest.importorskip("duckdb")
    candidates = frame.rename(columns={"query": "query_id"}).assign(document_id=np.arange(len(frame)))  # noqa: F841
    model.export("sql(dialect=duckdb)", tmp_path / "d.sql")
    rows = duckdb.sql((tmp_path / "d.sql").read_text()).fetchall()
    np.testing.assert_allclose([score for *_, score in sorted(rows, key=lambda row: row[1])], scores, rtol=1e-9)
    model.export("sql(dialect=postgresql)", tmp_path / "p.sql")
    for kind in (bool, int, float):  # columns of 0 and 1 are taken too
        check = replace(Check.read(tmp_path / "p.check.json"), value_types={"sale": kind})
        assert check.compare(postgres_scores(postgres, (tmp_path / "p.sql").read_text(), check)) is None


@pytest.mark.parametrize("scaling", ["standard", "query-minmax", "query-standard", "query-percentile"])
def test_whole_numbers_are_not_divided_as_such(scaling: str, postgres: Postgres, tmp_path: Path) -> None:
    X = np.random.default_rng(0).integers(0, 30, (200, 2)).astype(np.float64)
    group = [10] * 20
    model = Ranker("svmmap", scaling=scaling).fit(X, X[:, 0] > 15 + X[:, 1] / 3, group=group).model_
    check = Check(model.names, X, tuple(group), model.score(X, group=group))
    rows = ", ".join(
        f"('{query}', '{document}', {int(a)}, {int(b)})"
        for query, document, (a, b) in zip(check.queries, check.documents, X.tolist(), strict=True)
    )
    columns = ", ".join(f'"{name}" INTEGER' for name in check.features)
    table = f"CREATE TEMP TABLE candidates (query_id VARCHAR(9), document_id VARCHAR(9), {columns});"
    fill = f"INSERT INTO candidates VALUES {rows};"
    for dialect in ("sqlite", "ansi", "postgresql"):
        model.export(f"sql(dialect={dialect})", tmp_path / "m.sql")
        statement = (tmp_path / "m.sql").read_text()
        if dialect == "postgresql":
            ranked = [tuple(row) for row in postgres.run(f"{table}{fill}{statement};")]
        else:
            with sqlite3.connect(":memory:") as connection:
                connection.executescript(table + fill)
                ranked = connection.execute(statement).fetchall()
        scores = {document: float(score) for _, document, score in ranked}
        assert check.compare([scores[document] for document in check.documents]) is None


@pytest.mark.parametrize("scorer", ["linear(missing=mean)", "linear(missing=indicator)"])
@pytest.mark.parametrize("spec", ["elasticsearch-ltr", "solr"])
def test_fills_that_an_engine_does_not_know_are_refused(scorer: str, spec: str, tmp_path: Path) -> None:
    frame = shop()
    frame.loc[::3, "price"] = np.nan
    ranker = Ranker("svmmap", scorer=scorer).fit(from_frame(frame, qid="query", grade="grade", missing="nan"))
    with pytest.raises(DataError, match=rf"missing values are 0 there.*; train on data with 0.*{spec}\(missing=zero\)"):
        ranker.export(spec, tmp_path / "m.json")
    assert ranker.export(f"{spec}(missing=zero)", tmp_path / "m.json").files
    zero = Ranker("svmmap", scorer="linear(missing=zero)").fit(
        from_frame(frame, qid="query", grade="grade", missing="nan")
    )
    assert zero.export(spec, tmp_path / "z.json").files


@pytest.mark.parametrize("spec", ["elasticsearch-ltr", "solr"])
@pytest.mark.parametrize("scorer", ["additive(shape=steps)", "boosted(trees=5)"])
def test_trees_of_complete_data_need_no_consent(scorer: str, spec: str, tmp_path: Path) -> None:
    frame = shop()
    frame["bm25"] -= 2.0  # so that 0 is not the smallest value
    ranker = Ranker("svmmap", scorer=scorer).fit(from_frame(frame, qid="query", grade="grade", missing="nan"))
    ranker.export(spec, tmp_path / "m.json")
    assert np.isnan(Check.read(tmp_path / "m.check.json").X).any()


def fused(depth: int, **options: object) -> Fusion:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 40, 3))
    X[:, depth:, 0], X[:, : 40 - depth + 2, 1], X[:, 3:, 2] = np.nan, np.nan, np.nan
    y = np.nan_to_num(X).sum(axis=2) + rng.standard_normal((20, 40)) > 1.0
    runs = Queries.from_arrays(
        X.reshape(-1, 3), y.ravel(), group=[40] * 20, feature_names=["bm25", "dense", "recent"], allow_nan=True
    )
    return Fusion("minmax", Cs=[1.0], nonnegative=True, **options).fit(runs)  # type: ignore[arg-type]


def test_engines_combine_as_many_documents_as_the_runs_had(tmp_path: Path) -> None:
    fused(23).save(tmp_path / "fusion")
    fusion = Fusion.load(tmp_path / "fusion")
    fusion.export("elasticsearch-retriever", tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text())["retriever"]["linear"]["rank_window_size"] == 23
    fusion.export("elasticsearch-retriever(window=50)", tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text())["retriever"]["linear"]["rank_window_size"] == 50
    fusion.export("opensearch-hybrid", tmp_path / "o.json")
    assert json.loads((tmp_path / "o.query.json").read_text())["size"] == 23
    fusion.export("vespa", tmp_path / "v.profile")
    assert "rerank-count: 23\n" in (tmp_path / "v.profile").read_text()
    fusion.export("sql(dialect=postgresql)", tmp_path / "s.sql")
    assert (tmp_path / "s.hybrid.sql").read_text().count("LIMIT 23") == 2


def test_a_run_without_a_table_stops_the_hybrid_search(postgres: Postgres, tmp_path: Path) -> None:
    fused(20).export("sql(dialect=postgresql)", tmp_path / "s.sql")
    with pytest.raises(AssertionError, match='missing FROM-clause entry for table "todo"'):
        postgres.run(
            "CREATE TEMP TABLE documents (id text, body text, embedding float8);"
            f"PREPARE search(text, float8) AS {(tmp_path / 's.hybrid.sql').read_text().replace('<=>', '-')};"
        )


@pytest.mark.parametrize("target", ["elasticsearch-retriever", "opensearch-hybrid", "vespa"])
def test_fusions_that_fill_otherwise_than_with_zero_are_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing values are 0 there, and this model scores them otherwise"):
        fused(20, scorer=Linear(missing="mean")).export(target, tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "spec", "file"),
    [
        ("linear", "elasticsearch-ltr", "m.featureset.json"),
        ("linear", "solr", "m.features.json"),
        ("steps", "eland", "m.upload.py"),
    ],
)
def test_queries_to_write_look_like_none(name: str, spec: str, file: str, tmp_path: Path) -> None:
    written = trained(name).export(spec, tmp_path / "m.json")
    assert "in place of TODO" in written.next_steps
    text = (tmp_path / file).read_text()
    assert text.count('"TODO": "write the query whose score is ') == 5
    assert "price in" in text
    assert '"match"' not in text.replace("such as", "").replace('{"match": {"title"', "")


def test_the_script_of_eland_stops_at_placeholders(tmp_path: Path) -> None:
    trained("steps").export("eland", tmp_path / "m.json")
    lines = (tmp_path / "m.upload.py").read_text().splitlines()
    script = "\n".join(line for line in lines if not line.startswith(("import xgb", "from eland", "from elastic")))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == "write the query of each feature in place of TODO into FEATURES\n"


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize(("name", "said"), [("a\0b", "a NUL"), ("a\ud800", "a lone surrogate")])
def test_names_that_are_no_text_are_refused(target: type, name: str, said: str, tmp_path: Path) -> None:
    flat = CurvesTerm((Curve(np.array([1.0]), np.array([0.0, 1.0]), 0.0, None),))
    with pytest.raises(DataError, match=f"^feature '.*' has {said} in its name"):
        export(ScoringFunction((name,), (flat,), takes_nan=True), target(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_names_in_bigquery_end_where_they_end() -> None:
    syntax = SqlSyntax("bigquery")
    assert syntax.name("x\\") == "`x\\\\`"
    assert syntax.name("a`b") == "`a\\`b`"
    assert syntax.name("a\nb") == "`a\\nb`"
    assert syntax.path("shop.x\\") == "`shop.x\\\\`"


@pytest.mark.parametrize("spec", ["xgboost", "lightgbm", "eland", "vespa", "solr", "elasticsearch-ltr"])
def test_names_that_become_one_are_told_apart(spec: str, tmp_path: Path) -> None:
    names = ("a[", "a(", "a-b", "a b", "a_b", "a_b_1")
    curves = tuple(Curve(np.array([float(at)]), np.array([0.0, 1.0 + at]), 0.0, None) for at in range(len(names)))
    target = parse_target(spec)
    path = tmp_path / f"m{target.suffix}"
    export(ScoringFunction(names, (CurvesTerm(curves),), takes_nan=True), target, path)
    text = path.read_text()
    if spec in ("xgboost", "lightgbm", "eland"):
        check = Check.read(tmp_path / "m.check.json")
        assert check.compare(run(target, path, check)) is None
    elif spec == "vespa":
        attributes = [line for line in text.splitlines() if "expression: attribute(" in line]
        assert len(set(attributes)) == len(attributes) == len(names)
    else:
        features = json.loads(next(tmp_path.glob("m.feature*.json")).read_text())
        features = features["featureset"]["features"] if spec == "elasticsearch-ltr" else features
        assert len({feature["name"] for feature in features}) == len(names)
        assert features[4]["name"] == "a_b"


@pytest.mark.parametrize("spec", ["python", "javascript", "onnx", "sql", "sql(dialect=duckdb)", "xgboost", "lightgbm"])
def test_a_feature_that_is_constant_where_known_is_exported(spec: str, tmp_path: Path) -> None:
    frame = shop(2000)
    frame["stock"] = np.where(np.arange(2000) % 3 == 0, np.nan, 4.0)
    frame["grade"] = (frame["bm25"] + 4 * frame["stock"].isna() > 4).astype(int)
    ranker = Ranker("svmmap", scorer=Boosted(trees=10, leaves=5)).fit(
        from_frame(frame, qid="query", grade="grade", missing="nan")
    )
    assert ranker.model_.form.threshold.max() > 1e38
    target = parse_target(spec)
    path = tmp_path / f"m{target.suffix}"
    ranker.export(target, path)
    check = Check.read(tmp_path / "m.check.json")
    assert check.compare(run(target, path, check)) is None
