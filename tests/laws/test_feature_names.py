"""One name for a feature, wherever it is printed or asked for: its name, or its number in the file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from marginrank import DataError, Queries, Ranker, load, read
from marginrank.cli.app import app
from marginrank.data import write_binary, write_letor, write_parquet
from marginrank.data.statistics import profile
from marginrank.preparation import QueryMinMax, Standardize
from marginrank.scorers import Additive, Linear

#: How features are called whose source is LETOR text, LETOR text numbered from 0, an array, or a table with names.
SOURCES = {
    "letor": ("1", "2", "3"),
    "from 0": ("0", "1", "2"),
    "array": ("0", "1", "2"),
    "table": ("bm25", "age", "clicks"),
}


def matrix():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)).round(3)
    X[:, 1] = 0.5
    return X, np.digitize(X[:, 0] - X[:, 2], [0.5]), np.repeat(np.arange(10), 6)


def queries_from(source, tmp_path, X=None, missing="error"):
    own, y, qid = matrix()
    X = own if X is None else X
    names = SOURCES["table"] if source == "table" else None
    queries = Queries.from_arrays(X, y, qid=qid, feature_names=names, allow_nan=True)
    path = tmp_path / f"{source}.{'parquet' if source == 'table' else 'txt'}"
    if source == "array":
        return queries
    if source == "table":
        write_parquet(path, queries)
        return read(path, missing=missing)
    write_letor(path, queries)
    if source == "from 0":
        path.write_text(re.sub(r"(?<= )(\d+):", lambda match: f"{int(match[1]) - 1}:", path.read_text()))
        return read(path, first_index=0, missing=missing, n_features=3)
    return read(path, missing=missing)


@pytest.mark.parametrize("source", SOURCES)
def test_a_feature_has_one_name(source, tmp_path):
    queries, names = queries_from(source, tmp_path), SOURCES[source]
    assert queries.feature_labels == names
    assert queries[:3].feature_labels == Queries.concatenate([queries[:3], queries[3:]]).feature_labels == names
    assert profile(queries)["constant_features"] == [names[1]]
    assert np.array_equal(queries.feature(names[2]), queries.feature(2))
    write_binary(tmp_path / "q.queries", queries)
    assert read(tmp_path / "q.queries").feature_labels == names
    write_parquet(tmp_path / "q.parquet", queries)
    assert tuple(parquet.read_table(tmp_path / "q.parquet").column_names[2:]) == names
    for ranker in (Ranker("svmmap"), Ranker("rankboost@3"), Ranker("svmmap", scorer=Additive(bins=4))):
        ranker.fit(queries).save(tmp_path / "m.safetensors")
        assert ranker.model_.names == load(tmp_path / "m.safetensors").model_.names == names
    assert [shape.name for shape in ranker.shapes()] == list(names)


@pytest.mark.parametrize("source", SOURCES)
def test_options_take_the_names_that_are_printed(source, tmp_path):
    queries, names = queries_from(source, tmp_path), SOURCES[source]
    assert Ranker("svmmap").fit(queries).coef_[2] < 0
    assert Ranker("svmmap", scorer=Linear(nonnegative=[names[2]])).fit(queries).coef_[2] >= 0
    curves = Ranker("svmmap", scorer=Additive(bins=8, monotone={names[2]: "increasing"})).fit(queries).shapes()
    assert (np.diff(curves[2].values) >= 0).all()
    with pytest.raises(DataError, match=rf"there is no feature 'nowhere'; known: {', '.join(names)}"):
        Ranker("svmmap", scorer=Linear(nonnegative=["nowhere"])).fit(queries)


def spoiled(value):
    X = matrix()[0]
    X[4, 2] = value
    return X


@pytest.mark.parametrize("source", SOURCES)
def test_errors_use_the_name(source, tmp_path):
    name = SOURCES[source][2]
    called = f"feature {name}" if name.isdecimal() else f"feature '{name}'"
    X = matrix()[0]
    X[:2, 2] = [-1.7e308, 1.7e308]
    far = queries_from("array", tmp_path, X)
    far = Queries(**{**vars(far), "first_feature": 1 if source == "letor" else 0}) if source != "table" else far
    if source == "table":
        far = Queries.from_arrays(X, matrix()[1], qid=matrix()[2], feature_names=SOURCES["table"])
    for scaler in (QueryMinMax(), Standardize()):
        with pytest.raises(DataError, match=f"the values of {called} lie further apart"):
            scaler.fit_transform(far)
    with pytest.raises(DataError, match=rf"^{called} has the value -?1.7e\+308, and without scaling"):
        Ranker("svmmap", scaling=None).fit(far)
    holed = queries_from(source, tmp_path, spoiled(np.nan), missing="nan")
    with pytest.raises(DataError, match=rf"^{called} of document 4 \(query 0\) is NaN; "):
        Ranker("svmmap").fit(holed)


def test_columns_of_arrays_count_from_0():
    X, y, qid = matrix()
    X[:2, 2] = [-1.7e308, 1.7e308]
    with pytest.raises(DataError, match="the values of feature 2 lie further apart"):
        Standardize().fit(X)
    with pytest.raises(DataError, match="there is no column 3 in X; 3 columns, counted from 0"):
        Queries.from_arrays(X, y, qid=qid).feature(3)


def test_the_command_line_prints_and_takes_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queries_from("letor", tmp_path)

    def run(*words):
        done = CliRunner().invoke(app, [*words], catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    assert run("inspect", "letor.txt", "--json")["constant_features"] == ["2"]
    words = ["--nonnegative-feature", "3", "-C", "10", "-o", "m.safetensors", "--json"]
    assert run("train", "letor.txt", *words)["model"]["first_feature"] == 1
    features = {row["feature"]: row["size"] for row in run("inspect", "m.safetensors", "--json")["features"]}
    assert list(features) == ["1", "2", "3"]
    assert features["3"] >= 0
    explained = run("explain", "m.safetensors", "letor.txt", "--query", "0", "--json")
    assert explained["features"] == ["1", "2", "3"]
    words[1] = "0"
    wrong = CliRunner().invoke(app, ["train", "letor.txt", *words, "--force"])
    assert wrong.exit_code == 1
    assert "there is no feature 0; known: 1, 2, 3" in wrong.stderr
