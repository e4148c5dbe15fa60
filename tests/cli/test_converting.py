"""`marginrank convert`."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.data import read_queries


@pytest.mark.parametrize("name", ["new.queries", "new.parquet", "new.txt"])
def test_data_is_the_same_in_another_form(run, name):
    done = run("convert", "train.txt", "valid.txt", name, "--json")
    wanted, found = read_queries(["train.txt", "valid.txt"]), read_queries(name)
    assert done.json == {"output": name, "queries": 50, "documents": 400, "features": 5}
    assert np.array_equal(found.X.astype(np.float32), wanted.X)
    assert np.array_equal(found.grades, wanted.grades)
    assert found.query_ids.tolist() == wanted.query_ids.tolist()


def test_options_go_to_the_reader(run, folder):
    (folder / "from0.txt").write_text("1 qid:1 0:NULL 1:2\n0 qid:2 0:3 1:4\n0 qid:1 0:5\n")
    words = ["--first-index", "0", "--n-features", "3", "--missing", "min", "--regroup", "--dtype", "float64"]
    assert run("convert", "from0.txt", "new.queries", *words).code == 0
    found = read_queries("new.queries")
    assert found.X.tolist() == [[5.0, 2.0, 0.0], [5.0, 0.0, 0.0], [3.0, 4.0, 0.0]]
    assert found.X.dtype == np.float64


def test_columns_of_a_table_are_named(run, folder):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "q": [1, 1],
        "good": [1, 0],
        "name": ["a", "b"],
        "site": ["x", "y"],
        "bm25": [0.5, 0.1],
        "noise": [9.0, 9.0],
    }
    parquet.write_table(pa.table(columns), "t.parquet")
    words = ["--qid", "q", "--grade", "good", "--document-id", "name", "--document-group", "site", "--feature", "bm25"]
    assert run("convert", "t.parquet", "new.queries", *words).code == 0
    found = read_queries("new.queries")
    assert found.feature_names == ("bm25",)
    assert found.document_ids.tolist() == ["a", "b"]
    assert found.document_groups.tolist() == ["x", "y"]


def test_what_exists_is_replaced_only_by_force(run, fails):
    assert run("convert", "train.txt", "new.queries").code == 0
    assert "new.queries: exists" in fails("convert", "valid.txt", "new.queries", code=1)
    assert run("convert", "valid.txt", "new.queries", "--force").code == 0
    assert len(read_queries("new.queries")) == 20
    assert run("convert", "train.txt", "test.txt", "--force").code == 0
    assert len(read_queries("test.txt")) == 30


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["train.txt"], "SRC DST", 2),
        (["train.txt", "new.xls"], "error: new.xls: unknown suffix '.xls'", 1),
        (["train.txt", "train.txt", "--force"], "input and output at once", 1),
        (["nowhere.txt", "new.queries"], "nowhere.txt: no such file", 1),
        (["train.txt", "nowhere/new.queries"], "nowhere: no such folder", 1),
        (["train.txt", "new.txt", "--grade", "y"], "--grade has no place here", 2),
    ],
)
def test_converting_refuses_what_makes_no_sense(fails, words, said, code):
    assert said in fails("convert", *words, code=code)


def test_a_source_that_is_wrong_leaves_nothing(fails, folder):
    (folder / "bad.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:x\n")
    before = sorted(folder.iterdir())
    for target in ("new.txt", "new.queries", "new.parquet"):
        assert "bad.txt:2:" in fails("convert", "bad.txt", target, code=1)
    assert sorted(folder.iterdir()) == before
