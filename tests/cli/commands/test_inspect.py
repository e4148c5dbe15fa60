"""`marginrank inspect`, and the profile of data in one pass."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import Queries, load
from marginrank.data import read_queries, write_binary, write_run
from marginrank.data import statistics as profiling
from marginrank.data.fingerprint import fingerprint
from marginrank.data.statistics import profile


def by_definition(queries):
    """The same counts from the whole matrix at once."""
    X = queries.dense()
    n, width = X.shape
    missing = np.isnan(X).sum(axis=0)
    varied = [len(np.unique(query.grades)) > 1 for query in queries]
    constant = [k for k in range(width) if missing[k] == n or (missing[k] == 0 and len(np.unique(X[:, k])) == 1)]
    groups: dict[int, list[int]] = {}
    for k in set(range(width)) - set(constant):
        first = next(j for j in range(width) if np.array_equal(X[:, j], X[:, k], equal_nan=True))
        groups.setdefault(first, []).append(k)
    return {
        "queries_of_one_grade": len(queries) - sum(varied),
        "constant_features": [str(k) for k in constant],
        "duplicated_features": sorted([str(k) for k in sorted(g)] for g in groups.values() if len(g) > 1),
        "zero_documents": int((X == 0).all(axis=1).sum()),
        "missing_values": {str(k): int(missing[k]) for k in np.flatnonzero(missing)},
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_profile_agrees_with_the_definitions(seed, dtype, sparse, monkeypatch):
    monkeypatch.setattr(profiling, "_BLOCK_BYTES", 256)
    monkeypatch.setattr(profiling, "_ROWS", 7)
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (60, 12)).astype(dtype)
    X[:, 3], X[:, 4], X[:, 5], X[:, 6] = X[:, 0], 2.0, 0.0, X[:, 0]
    X[:, 7] = np.where(X[:, 1] == 0, -0.0, X[:, 1])  # the same as the feature 1
    X[rng.random(60) < 0.2, 8] = np.nan
    X[:, 9] = X[:, 8]
    X[:, 10] = np.nan
    X[rng.choice(60, 5)] = 0.0
    X[:, 11] = X[:, 2]
    X[17, 11] += 1  # differs in one row
    matrix = sp.csr_array(X) if sparse else X
    queries = Queries.from_arrays(matrix, rng.integers(0, 2, 60), qid=np.sort(rng.integers(0, 15, 60)), allow_nan=True)
    wanted = by_definition(queries)
    assert ["1", "7"] in wanted["duplicated_features"]
    for n_jobs in (1, 3):
        found = profile(queries, n_jobs=n_jobs)
        assert {name: found[name] for name in wanted} == wanted


def test_columns_that_only_look_alike_are_told_apart(monkeypatch):
    queries = Queries.from_arrays([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], [0, 1], group=[2])
    columns = profiling._dense_columns(queries.X, 1)
    collided = profiling.FeatureStatistics(columns.least, columns.greatest, columns.missing, columns.alike * 0, 0)
    assert profiling.duplicates(queries.X, collided) == [[0, 2]]


def test_a_profile_of_nothing(run):
    write_binary("empty.queries", Queries.from_arrays(np.empty((0, 2)), [], qid=[]))
    found = run("inspect", "empty.queries", "--json").json
    assert (found["queries"], found["documents"], found["grades"]) == (0, 0, {})
    assert "0 to 0 documents" in run("inspect", "empty.queries").out


def test_grades_that_are_no_whole_numbers_are_counted_too():
    assert profiling.histogram(np.array([0.5, 0.5, 2.0])) == {"0.5": 2, "2": 1}
    assert profiling.histogram(np.array([1e6, 0.0])) == {"0": 1, "1e+06": 1}
    assert profiling.histogram(np.linspace(0, 1, 2000)) is None


def test_data_is_described(run):
    queries = read_queries("train.txt")
    record = run("inspect", "train.txt", "--json", "--fingerprint").json
    assert record.pop("fingerprint") == fingerprint(queries)
    assert record == {"kind": "queries", "path": "train.txt", **profile(queries)}
    text = run("inspect", "train.txt").out
    assert "documents       240 (0 have only zero features)" in text
    assert "per query       8 to 8 documents, median 8" in text
    write_binary("train.queries", queries)
    assert run("inspect", "train.queries", "--json").json["grades"] == record["grades"]


def test_missing_values_are_counted_not_refused(run, folder):
    (folder / "gaps.txt").write_text("1 qid:1 1:NULL 2:2\n0 qid:1 1:3 2:4\n")
    record = run("inspect", "gaps.txt", "--json").json
    assert record["missing_values"] == {"1": 1}
    assert "missing         1 feature: 1 (1 value)" in run("inspect", "gaps.txt").out


def test_a_model_is_described(run):
    model = load("model.safetensors")
    record = run("inspect", "model.safetensors", "--json").json
    assert record["kind"] == "model"
    assert {**record, **model.model_.describe()} == record
    assert (record["preset"], record["measure"], record["C"]) == ("svmmap", "ap", 10.0)
    assert record["objective"] == model.objective_
    assert record["trained_on"] == model.trained_on_
    assert [feature["size"] for feature in record["features"]] == model.coef_.tolist()
    text = run("inspect", "model.safetensors", "--top", "2").out
    largest = np.argsort(-np.abs(model.coef_))[:2]
    assert [line.split()[0] for line in text.splitlines()[-2:]] == [f"{number + 1}" for number in largest]
    assert model.trained_on_["fingerprint"] in text


def test_a_model_remembers_how_it_was_chosen(run):
    trained = run(
        "train",
        "train.txt",
        "--valid",
        "valid.txt",
        "--Cs",
        "0.1,1",
        "--scorer",
        "additive",
        "-o",
        "a.safetensors",
        "--details",
    )
    shown = run("inspect", "a.safetensors").out
    table = [line for line in trained.out.splitlines() if "chosen" in line or "validation" in line]
    assert len(table) == 2
    assert all(line in shown for line in table)
    record = run("inspect", "a.safetensors", "--json").json
    assert [len(f["values"]) - len(f["thresholds"]) for f in record["features"]] == [1] * 5
    assert record["selection"]["criterion"] == "ndcg@10"


def test_trec_files_are_described(run, folder):
    queries = read_queries("test.txt")
    write_run("ranked.run", queries, np.arange(160.0), tag="mine")
    record = run("inspect", "ranked.run", "--json").json
    assert (record["kind"], record["topics"], record["documents"], record["tag"]) == ("run", 20, 160, "mine")
    (folder / "qrels.txt").write_text("1 0 a 2\n1 0 b 0\n2 0 a 1\n")
    record = run("inspect", "qrels.txt", "--json").json
    assert (record["kind"], record["topics"], record["grades"]) == ("qrels", 2, {"0": 1, "1": 1, "2": 1})
    assert "1 to 2 documents, median 1.5" in run("inspect", "qrels.txt").out


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["nowhere"], "nowhere: no such file", 1),
        (["."], "this is a folder", 1),
        (["empty.txt"], "empty.txt: no data in this file", 1),
        (["train.txt", "--top", "-1"], "--top", 2),
        (["train.txt", "--top", "3"], "--top is for models", 2),
        (["model.safetensors", "--fingerprint"], "--fingerprint is for data", 2),
        (["model.safetensors", "--missing", "nan"], "model.safetensors is a model", 2),
        (["judged.qrels", "--fingerprint"], "only judged data with features has a fingerprint", 1),
        (["scores.txt"], "scores.txt:", 1),
    ],
)
def test_inspecting_refuses_what_makes_no_sense(fails, folder, words, said, code):
    (folder / "empty.txt").touch()
    assert said in fails("inspect", *words, code=code)
