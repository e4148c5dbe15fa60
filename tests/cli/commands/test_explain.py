"""`marginrank explain`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from marginrank import Ranker, load
from marginrank.data import read_queries, write_letor, write_parquet
from tests.cli.conftest import judged


def test_a_table_of_the_first_documents(run):
    query, ranker = read_queries("test.txt")[3], load("model.safetensors")
    record = run("explain", "model.safetensors", "test.txt", "--query", "2003", "--k", "2", "--json").json
    scores, parts = ranker.predict(query), ranker.explain(query)
    order = np.argsort(-scores)[:2]
    assert [one["document"] for one in record["documents"]] == query.document_ids[order].tolist()
    assert [one["score"] for one in record["documents"]] == pytest.approx(scores[order])
    assert list(record["documents"][1]["contributions"].values()) == pytest.approx(parts[order[1]])
    assert record["features"] == ["1", "2", "3", "4", "5"]
    for one in record["documents"]:
        assert record["mean_score"] + sum(one["contributions"].values()) == pytest.approx(one["score"])
    text = run("explain", "model.safetensors", "test.txt", "--query", "2003", "--k", "2", "--top", "2").out
    note, head, *rows = [line for line in text.splitlines() if line]
    assert note.startswith("query 2003: the first 2 of 8 documents; score = ")
    assert head.split()[:3] == ["rank", "document", "score"]
    assert (head.split()[-1], len(head.split()), len(rows)) == ("others", 6, 2)


def test_two_documents_and_their_values(run):
    query, ranker = read_queries("test.txt")[0], load("model.safetensors")
    words = ["explain", "model.safetensors", "test.txt", "--query", "2000", "--documents", "d2-4", "d2-1"]
    record = run(*words, "--json").json
    scores = ranker.predict(query)
    assert (record["document"], record["other"]) == ("d2-4", "d2-1")
    assert (record["score"], record["base"]) == pytest.approx((scores[4], scores[1]))
    for reason in record["reasons"]:
        column = int(reason["feature"]) - 1
        assert (reason["value"], reason["other"]) == (query.X[4, column], query.X[1, column])
    total = sum(reason["contribution"] for reason in record["reasons"])
    assert total == pytest.approx(scores[4] - scores[1])
    sizes = [abs(reason["contribution"]) for reason in record["reasons"]]
    assert sizes == sorted(sizes, reverse=True)
    lines = run(*words, "--top", "2").out.splitlines()
    assert lines[0] == f"query 2000: why d2-4 is {'above' if scores[4] > scores[1] else 'below'} d2-1"
    assert [line.split()[0] for line in lines[2:]] == [
        "feature",
        record["reasons"][0]["feature"],
        record["reasons"][1]["feature"],
        "3",
        "score",
    ]


def test_one_document_against_the_mean_of_its_query(run):
    query, ranker = read_queries("test.txt")[0], load("model.safetensors")
    record = run("explain", "model.safetensors", "test.txt", "--query", "2000", "--document", "d2-4", "--json").json
    assert record["other"] is None
    assert record["base"] == pytest.approx(ranker.predict(query).mean())
    by_name = {reason["feature"]: reason["other"] for reason in record["reasons"]}
    assert by_name["2"] == pytest.approx(query.X[:, 1].mean())


def test_trees_and_kernels(run):
    Ranker("mcrank@2").fit(judged(30, 0)).save("trees.safetensors")
    words = ["test.txt", "--query", "2000", "--documents", "d2-4", "d2-1"]
    record = run("explain", "trees.safetensors", *words, "--json").json
    total = sum(reason["contribution"] for reason in record["reasons"])
    assert total == pytest.approx(record["score"] - record["base"])
    Ranker("gp-regression").fit(judged(30, 0)).save("kernel.safetensors")
    refused = run("explain", "kernel.safetensors", *words)
    assert (refused.code, refused.err) == (
        1,
        "error: kernel.safetensors: the scores of a kernel model are not made of features, so they cannot be "
        "explained\n",
    )


def test_documents_without_ids_are_called_as_in_rankings(run):
    write_letor("bare.txt", replace(judged(3, 2), document_ids=None))
    ranked = run("rank", "model.safetensors", "bare.txt", "--k", "2").out.splitlines()[3].split("\t")
    words = ["explain", "model.safetensors", "bare.txt", "--query", ranked[0]]
    record = run(*words, "--document", ranked[2], "--json").json
    assert int(ranked[2]) in range(8, 16)
    assert record["score"] == pytest.approx(float(ranked[3]))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--query", "7"], 1, "test.txt: there is no query '7'; known: 2000, 2001,"),
        (["--query", "2000", "--document", "x"], 1, "query 2000 has no document 'x'; known: d2-0, d2-1"),
        (["--query", "2000", "--document", "x", "--k", "3"], 2, "--k is for the table of documents"),
        (["--query", "2000", "--plot", "a.png"], 2, "--plot requires --document or --documents"),
        ([], 2, "Missing option '--query'"),
        (["--query", "2000", "--document", "x", "--documents", "y", "z"], 2, "not both"),
    ],
)
def test_mistakes(run, words, code, message):
    result = run("explain", "model.safetensors", "test.txt", *words)
    assert result.code == code
    assert message in result.err
    assert result.err.count("\n") == 1


def test_the_waterfall_leads_from_one_score_to_the_other(run, folder):
    pytest.importorskip("matplotlib")
    from marginrank.model.plots import plot_waterfall

    words = ["explain", "model.safetensors", "test.txt", "--query", "2000", "--documents", "d2-4", "d2-1"]
    assert "wrote why.svg" in run(*words, "--plot", "why.svg").out
    assert (folder / "why.svg").read_text().count("<svg") == 1
    figure = plot_waterfall(["a", "b", "c", "d"], [1.0, -3.0, 0.0, 0.5], base=2.0, most=2)
    bars = [(bar.get_x(), bar.get_width()) for bar in figure.axes[0].patches]
    assert bars == [(2.0, -3.0), (-1.0, 1.0), (0.0, 0.5)]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["b", "a", "1 other feature"]


def test_documents_need_no_grades(run, folder):
    frame = pd.DataFrame({"qid": ["a", "a", "b"], **{f"f{k}": [0.1 * k, 1.0, -0.5] for k in range(1, 6)}})
    frame.to_parquet(folder / "new.parquet")
    done = run("explain", "model.safetensors", "new.parquet", "--query", "a", "--json")
    assert (done.code, len(done.json["documents"])) == (0, 2)


def test_ids_that_say_query_are_not_called_so_twice(run, fails, folder):
    queries = read_queries("test.txt")[:2]
    names = ["query 03", "query 04"]
    write_parquet(folder / "named.parquet", replace(queries, query_ids=np.array(names)))
    words = ["explain", "model.safetensors", "named.parquet", "--query", "query 03"]
    assert run(*words).out.startswith("query 03: the first 8 of 8 documents")
    assert run(*words, "--document", "d2-1").out.startswith("query 03: the score of d2-1")
    assert "named.parquet: query 03 has no document 'd7'; known: d2-0" in fails(*words, "--document", "d7", code=1)
