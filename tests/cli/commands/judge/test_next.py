"""`marginrank judge next`: documents, verdicts and the stopping rule, for runs, columns and models."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from marginrank import load
from marginrank.data import read_queries
from marginrank.data.formats.trec import read_qrels, read_run
from marginrank.judging import judge_next, learn_next


@pytest.fixture
def half(folder):
    """Judgements of every second document."""
    lines = Path("judged.qrels").read_text().splitlines()
    (folder / "half.qrels").write_text("\n".join(lines[::2]) + "\n")


@pytest.mark.usefixtures("half")
def test_documents_are_those_of_the_library(run):
    runs = {name: read_run(f"{name}.run") for name in ("bm25", "dense")}
    expected = judge_next(read_qrels("half.qrels"), runs, budget=5)
    done = run("judge", "next", "half.qrels", "bm25.run", "dense.run", "--budget", "5", "-o", "next.csv")
    assert done.out == f"{expected}\n\nwrote next.csv: 5 documents\n"
    with Path("next.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["query_id"], row["document_id"]) for row in rows] == [
        (one.query, one.document) for one in expected.documents
    ]
    record = run(
        "judge", "next", "half.qrels", "bm25.run", "dense.run", "--grades", "0,1,2", "-m", "p@5", "--json"
    ).json
    wider = judge_next(read_qrels("half.qrels"), runs, "p@5", grades=[0, 1, 2])
    assert record["verdicts"][0]["lowest"] == wider.verdicts[0].lowest
    assert len(record["documents"]) == 40


def test_all_judged_is_the_end(run):
    done = run("judge", "next", "test.txt", "model.safetensors", "1")
    assert "stop: no grades of the unjudged documents can change a verdict" in done.out
    assert run("judge", "next", "test.txt", "model.safetensors", "1", "--json").json["documents"] == []


def test_a_single_model_is_shown_what_it_would_learn_from(run, fails):
    lines = Path("train.txt").read_text().splitlines()
    hidden = ["-1" + line[line.index(" ") :] if at % 2 else line for at, line in enumerate(lines)]
    Path("half.txt").write_text("\n".join(hidden) + "\n")
    record = run("judge", "next", "half.txt", "model.safetensors", "--budget", "7", "--json").json
    expected = learn_next(load("model.safetensors"), read_queries("half.txt", dtype="float64"), budget=7)
    assert [one["document"] for one in record["documents"]] == [one.document for one in expected.documents]
    assert record["judged"] == 120
    three = run("judge", "next", "half.txt", "model.safetensors", "--committee", "3", "--json").json["documents"]
    fewer = learn_next(load("model.safetensors"), read_queries("half.txt", dtype="float64"), committee=3)
    assert [one["leverage"] for one in three] == [one.leverage for one in fewer.documents]
    said = fails("judge", "next", "half.txt", "model.safetensors", "--committee", "1", code=2)
    assert said == "error: --committee is 1; train two rankers or more\n"
    assert "that training would learn most from" in run("judge", "next", "half.txt", "model.safetensors").out
    said = fails("judge", "next", "train.txt", "model.safetensors", code=1)
    assert said == "error: every document has a grade; there is nothing left to judge\n"


@pytest.mark.usefixtures("half")
def test_what_is_wrong_is_said(fails):
    words = ("judge", "next", "half.qrels", "bm25.run")
    said = "error: a comparison needs two systems; give another one, or a model to train again\n"
    assert fails(*words, code=2) == said
    assert "--measure is ndcg@10, which is not a sum over documents" in fails(
        *words, "dense.run", "-m", "ndcg@10", code=2
    )
    assert "--grades is 'a'; give numbers" in fails(*words, "dense.run", "--grades", "a", code=2)
    assert "--confidence is 2.0; give a number between 0 and 1" in fails(
        *words, "dense.run", "--confidence", "2", code=2
    )
