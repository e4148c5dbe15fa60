"""`marginrank compare`."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import pytest

from marginrank import compare, evaluate, load
from marginrank.data import read_queries


@pytest.fixture
def other(folder):
    """Scores of another system: the first feature."""
    scores = read_queries("test.txt").X[:, 0].astype(float)
    (folder / "first.txt").write_text("\n".join(map(repr, scores.tolist())))
    return scores


def test_comparisons_are_those_of_the_library(run, other):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    found = {"model": evaluate(queries, model.predict(queries)), "first": evaluate(queries, other)}
    measures = ("ndcg@10", "ap")
    done = run("compare", "test.txt", "model.safetensors", "first.txt", "-m", "ndcg@10", "-m", "ap")
    for measure in measures:
        assert f"{measure}\n{compare(found, measure=measure, baseline='first')}\n" in done.out
    words = ("compare", "test.txt", "model.safetensors", "first.txt", "--baseline", "model", "--json")
    record = run(*words).json
    assert list(record["comparisons"]) == ["ndcg@10"]
    assert record["comparisons"]["ndcg@10"] == compare(found, measure="ndcg@10", baseline="model").to_dicts()


def test_a_model_is_compared_with_what_is_none(run, other):
    """In whatever order they are given; of models alone, the first is the baseline."""
    copyfile("model.safetensors", "again.safetensors")
    for names, baseline in ((["model", "again", "first"], "first"), (["model", "again"], "model")):
        paths = [f"{name}.txt" if name == "first" else f"{name}.safetensors" for name in names]
        rows = run("compare", "test.txt", *paths, "-m", "ap", "--json").json["comparisons"]["ap"]
        assert {row["other"] for row in rows} == {baseline}
        assert {row["system"] for row in rows} == {*names} - {baseline}
        report = run("report", "test.txt", *paths, "-o", "page.html", "--force", "--json").json
        assert report["settings"]["baseline"] == baseline


def test_a_column_without_a_name_is_a_system_by_its_number(run, other):
    columns = run("compare", "test.txt", "model.safetensors", "--baseline", "1", "--json").json
    scores = run("compare", "test.txt", "model.safetensors", "--baseline", "first.txt", "--json").json
    assert list(columns["systems"]) == ["1", "model"]
    assert columns["systems"]["1"]["mean"] == scores["systems"]["first"]["mean"]
    pairs = (columns["comparisons"]["ndcg@10"][0], scores["comparisons"]["ndcg@10"][0])
    assert pairs[0]["difference"] == pairs[1]["difference"]
    assert (pairs[0]["system"], pairs[0]["other"]) == ("model", "1")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "queries"])
def test_a_column_of_a_table_is_a_system(run, folder, suffix):
    (folder / "shop.csv").write_text(
        "query_id,sku,relevance,bm25.title,price,name\n"
        "a,1,1,3.5,10,red\na,2,0,2.5,30,blue\nb,1,0,1.5,20,red\nb,3,2,4.5,5,green\n"
    )
    if suffix != "csv":
        assert run("convert", "shop.csv", f"shop.{suffix}", "--quiet").code == 0
    done = run("compare", f"shop.{suffix}", "bm25.title", "price", "--json")
    assert {name: one["mean"]["ndcg@10"] for name, one in done.json["systems"].items()} == {
        "bm25.title": 1.0,
        "price": pytest.approx(0.6309, abs=1e-4),
    }
    alone = run("evaluate", f"shop.{suffix}", "bm25.title", "-m", "ap", "--json")
    assert alone.json["systems"]["bm25.title"]["mean"] == {"ap": 1.0}
    report = run("report", f"shop.{suffix}", "bm25.title", "price", "-o", "page.html", "--json")
    assert [system["name"] for system in report.json["systems"]] == ["bm25.title", "price"]


def test_a_model_and_a_column_need_not_share_features(run, folder):
    """A model is given its own features, and no others."""
    lines = [f"{query},{(query + row) % 2},{row}.5,{-row}.25,{row % 3}" for query in range(8) for row in range(4)]
    (folder / "shop.csv").write_text("\n".join(["qid,grade,bm25,dense,age", *lines]) + "\n")
    assert run("train", "shop.csv", "-C", "1", "--feature", "bm25,dense", "-o", "two.safetensors").code == 0
    done = run("compare", "shop.csv", "two.safetensors", "--baseline", "age", "--json")
    assert list(done.json["systems"]) == ["age", "two"]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["test.txt", "model.safetensors"], "a comparison needs two systems; give another one, or --baseline", 2),
        (["test.txt", "1", "--baseline", "1"], "a comparison needs two systems", 2),
        (["test.txt", "1", "--baseline", "bm25"], "bm25: no such file, and no column 'bm25'; the columns are '1'", 1),
        (["test.txt", "1", "--baseline", "modl.safetensors"], "no such file; did you mean 'model.safetensors'?", 1),
        (["model.safetensors", "test.txt", "1"], "the judged data comes first: marginrank compare test.txt", 2),
        (["judged.qrels", "bm25.run", "--baseline", "1"], "1: no such file, and judged.qrels has no columns", 1),
        (["test.txt", "x.model", "--baseline", "1"], "x.model: no such file, and no column 'x.model'", 1),
    ],
)
def test_comparisons_refuse_what_makes_no_sense(fails, words, said, code):
    assert said in fails("compare", *words, code=code)


def test_missing_values_of_a_column_are_refused_or_filled(run, fails):
    Path("shop.csv").write_text("qid,grade,bm25,age\n1,1,3,\n1,0,2,5\n")
    said = fails("compare", "shop.csv", "bm25", "age", "--quiet", code=1)
    assert "column 'age' has no value; choose what it becomes: --missing nan, zero or min" in said
    assert run("compare", "shop.csv", "bm25", "age", "--missing", "zero").code == 0
    # Without an age, the relevant document is last.
    result = run("evaluate", "shop.csv", "bm25", "age", "--missing", "nan", "--measure", "rr", "--json").json
    assert {name: one["mean"]["rr"] for name, one in result["systems"].items()} == {"bm25": 1.0, "age": 0.5}


def test_missing_grades_are_counted_left_out_and_bounded(run, fails, folder):
    """DCG@1 by hand: bm25 has grades 2 and none, clicks none and 1; an unjudged document may have grade 2, gain 3."""
    (folder / "holes.csv").write_text(
        "qid,grade,docid,bm25,clicks\na,2,x,3,1\na,,y,2,5\na,0,z,1,2\nb,1,u,1,4\nb,-1,v,3,0\nb,0,w,2,1\n"
    )
    done = run("compare", "holes.csv", "bm25", "clicks", "-m", "dcg@1", "--bounds", "--json").json
    assert done["systems"]["bm25"]["unjudged"] == {"k": 10, "documents": 2, "out_of": 6}
    (bounds,) = done["bounds"]
    means = {row["system"]: (row["mean"], row["lowest"], row["highest"]) for row in bounds["means"]}
    assert means == {"bm25": (1.5, 1.5, 3.0), "clicks": (0.5, 0.5, 2.0)}
    (row,) = bounds["differences"]
    assert (row["lowest"], row["highest"], row["could_flip"]) == (-2.5, 0.5, True)
    shown = run("compare", "holes.csv", "bm25", "clicks", "-m", "dcg@1", "--bounds").out
    assert "clicks - bm25  -1.0000  -2.5000  +0.5000  could flip\n" in shown
    skipped = run("evaluate", "holes.csv", "bm25", "-m", "rr", "--unjudged", "skip").out
    assert "rr       0.7500        2" in skipped  # w before u once v is gone
    assert "unjudged, and left out: 33.3% of the first 10 documents of bm25" in skipped
    assert "-m dcg@10" in fails("evaluate", "holes.csv", "bm25", "-m", "ap", "--bounds", code=2)
    words = ("evaluate", "holes.csv", "bm25", "-m", "dcg@1", "--bounds", "--unjudged", "skip")
    assert "--unjudged skip leaves them out" in fails(*words, code=2)
