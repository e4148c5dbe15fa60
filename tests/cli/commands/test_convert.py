"""`marginrank convert`."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import marginrank.data.formats
from marginrank.data import read_queries
from marginrank.data.formats.base import all_formats


@pytest.mark.parametrize("name", ["new.queries", "new.parquet", "new.txt", "new.csv", "new.tsv.gz", "new.jsonl"])
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
    assert found.X.tolist() == [[5.0, 2.0, 0.0], [3.0, 4.0, 0.0], [5.0, 0.0, 0.0]]
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
    assert "new.queries: already exists" in fails("convert", "valid.txt", "new.queries", code=1)
    assert run("convert", "valid.txt", "new.queries", "--force").code == 0
    assert len(read_queries("new.queries")) == 20
    assert run("convert", "train.txt", "test.txt", "--force").code == 0
    assert len(read_queries("test.txt")) == 30


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["train.txt"], "SRC DST", 2),
        (["train.txt", "new.xls"], "error: new.xls: unknown suffix '.xls'", 1),
        (["train.txt", "train.txt", "--force"], "both input and output", 1),
        (["nowhere.txt", "new.queries"], "nowhere.txt: no such file", 1),
        (["train.txt", "nowhere/new.queries"], "nowhere: no such folder", 1),
        (["train.txt", "new.txt", "--grade", "y"], "--grade does not apply", 2),
    ],
)
def test_converting_refuses_what_makes_no_sense(fails, words, said, code):
    assert said in fails("convert", *words, code=code)


def test_errors_name_options_and_not_parameters(fails, folder):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"qid": [1, 1], "grade": [1, 0], "f": [0.5, None], "site": ["x", "y"]}), "t.parquet")
    assert "holds text, not numbers; name the feature columns with --feature f" in fails(
        "convert", "t.parquet", "new.txt", "--feature", "site,f", code=1
    )
    error = fails("convert", "t.parquet", "new.txt", "--feature", "f", code=1)
    assert "--missing nan, zero or min" in error
    (folder / "back.txt").write_text("1 qid:1 1:1\n0 qid:2 1:2\n0 qid:1 1:3\n")
    assert "pass --regroup to put" in fails("convert", "back.txt", "new.queries", code=1)
    (folder / "from0.txt").write_text("1 qid:1 0:1\n")
    assert "pass --first-index 0 if" in fails("convert", "from0.txt", "new.queries", code=1)


FORMAT = """
from marginrank.data.formats.letor import read_letor
from marginrank.data.formats.letor import write_letor
from marginrank.data.formats.base import Format


def read_upside_down(files, *, dtype="float32"):
    for path in files:
        path.with_suffix(".txt").write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    return read_letor([path.with_suffix(".txt") for path in files], dtype=dtype)


def write_upside_down(path, queries):
    write_letor(path, queries)
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


FORMATS = (
    Format(
        "upside-down",
        "text from below",
        read_upside_down,
        ("dtype",),
        (".down",),
        write=write_upside_down,
        writes=(".down",),
    ),
)
"""


@pytest.fixture
def upside_down(folder, monkeypatch):
    """A file format, dropped into the package."""
    (folder / "more").mkdir()
    (folder / "more" / "upside_down.py").write_text(FORMAT)
    monkeypatch.setattr(marginrank.data.formats, "__path__", [*marginrank.data.formats.__path__, str(folder / "more")])
    all_formats.cache_clear()
    yield
    monkeypatch.delitem(sys.modules, "marginrank.data.formats.upside_down", raising=False)
    all_formats.cache_clear()


def test_a_new_file_format_is_one_new_file(run, fails, folder, upside_down):
    assert run("convert", "train.txt", "turned.down").code == 0
    lines = (folder / "turned.down").read_text().splitlines()
    assert lines[::-1][0].startswith((folder / "train.txt").read_text().split(" 1:")[0])
    assert np.array_equal(read_queries("turned.down").X, read_queries("train.txt").X)
    assert run("inspect", "turned.down", "--dtype", "float64", "--json").json["feature_type"] == "float64"
    assert run("train", "turned.down", "-C", "1", "-o", "new.safetensors").code == 0
    error = fails("inspect", "turned.down", "--qid", "q", code=2)
    assert "--qid does not apply: turned.down is text from below" in error
    assert ".down" in fails("convert", "train.txt", "new.xls", code=1)


def test_a_source_that_is_wrong_leaves_nothing(fails, folder):
    (folder / "bad.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:x\n")
    before = sorted(folder.iterdir())
    for target in ("new.txt", "new.queries", "new.parquet"):
        assert "bad.txt:2:" in fails("convert", "bad.txt", target, code=1)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", ["data.csv", "data.tsv.gz", "data.jsonl"])
def test_every_command_reads_columns_by_name(run, folder, name):
    for part in ("train", "valid", "test"):
        assert run("convert", f"{part}.txt", f"{part}-{name}").code == 0
    train, valid, test = (f"{part}-{name}" for part in ("train", "valid", "test"))
    assert run("train", train, "-C", "10", "-o", "by-name.safetensors").code == 0
    assert run("tune", train, "--valid", valid, "--Cs", "0.1,1", "-o", "tuned.safetensors").code == 0
    assert run("inspect", test, "--json").json["documents"] == 160
    ranked = run("rank", "by-name.safetensors", test).out
    assert ranked == run("rank", "model.safetensors", "test.txt", "--dtype", "float64").out
    (folder / "own.txt").write_text(ranked)
    found = run("evaluate", test, "by-name.safetensors", "own.txt", "--json").json["systems"]
    assert found["by-name"]["mean"] == found["own"]["mean"]
    assert run("explain", "by-name.safetensors", test, "--query", "2000").code == 0
    assert run("report", test, "by-name.safetensors", "-o", "page.html").code == 0


def test_a_model_reads_its_own_columns_of_a_table(run, fails, folder):
    rows = [(q, f"d{d}", "some text", d % 2, d % 2 + 0.1 * q, d) for q in range(4) for d in range(4)]
    lines = [",".join(map(str, row)) for row in rows]
    (folder / "all.csv").write_text("query,doc,title,label,bm25,age\n" + "\n".join(lines) + "\n")
    words = ["--feature", "bm25", "--feature", "age"]
    assert run("train", "all.csv", *words, "-C", "1", "-o", "own.safetensors").code == 0
    # The text is left alone, and the order of the columns does not matter.
    (folder / "new.csv").write_text(
        "title,age,bm25,doc,query\n" + "\n".join(f"{t},{a},{b},{d},{q}" for q, d, t, _, b, a in rows) + "\n"
    )
    ranked = run("rank", "own.safetensors", "new.csv", "--k", "1").out.split("\n")[1:-1]
    # bm25 alone tells the labels apart, so age has weight 0, and d1 and d3 tie; by age d3 would be first.
    assert [line.split("\t")[:3] for line in ranked] == [[str(q), "1", "d1"] for q in range(4)]
    assert run("rank", "own.safetensors", "all.csv").out == run("rank", "own.safetensors", "all.csv", *words).out
    assert run("evaluate", "all.csv", "own.safetensors", "--json").json["systems"]["own"]["mean"]["ap"] == 1
    assert run("explain", "own.safetensors", "all.csv", "--query", "2").code == 0
    (folder / "narrow.csv").write_text("query,doc,bm25\n1,a,2\n")
    assert "no column 'age'" in fails("rank", "own.safetensors", "narrow.csv", code=1)


def test_columns_of_text_are_named_by_options(run, fails, folder):
    (folder / "t.csv").write_text("who,good,name,title,bm25\nb,1,x,Red,0.5\na,0,y,Blue,0.25\nb,0,z,Green,\n")
    said = fails("convert", "t.csv", "new.queries", code=1)
    assert said.startswith(
        "error: t.csv: no column of query ids among 'who', 'good', 'name', 'title', 'bm25'; name it with --qid"
    )
    words = ["--qid", "who", "--grade", "good", "--document-id", "name"]
    said = fails("convert", "t.csv", "new.queries", *words, "--feature", "title,bm25", code=1)
    assert said == (
        "error: t.csv:2: column 'title' holds 'Red', not a number; name the feature columns with --feature bm25\n"
    )
    said = fails("convert", "t.csv", "new.queries", *words, code=1)
    assert said == "error: t.csv:4: column 'bm25' has no value; choose what it becomes: --missing nan, zero or min\n"
    done = run("convert", "t.csv", "new.queries", *words, "--missing", "zero")
    assert done.code == 0
    assert done.err == (
        "columns  query: who, grade: good, document: name, 1 feature: bm25\n"
        "warning: columns left out because they hold text or ids: 'title'\n"
    )
    found = read_queries("new.queries")
    assert (found.query_ids.tolist(), found.document_ids.tolist()) == (["b", "a"], ["x", "y", "z"])
    assert (found.X.ravel().tolist(), found.grades.tolist()) == ([0.5, 0.25, 0.0], [1, 0, 0])
