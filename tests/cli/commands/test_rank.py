"""`marginrank rank`."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marginrank import load, read_run
from marginrank.data import Run, read_queries, write_binary, write_letor
from marginrank.evaluation import Diversify
from tests.cli.conftest import judged


def lines_of(text):
    return [line.split("\t") for line in text.splitlines()]


def test_scores_are_those_of_the_model_in_the_order_of_the_file(run, folder):
    wanted = load("model.safetensors").predict(read_queries("test.txt"))
    assert np.array_equal(np.array(run("rank", "model.safetensors", "test.txt").out.split(), dtype=float), wanted)
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.txt").code == 0
    assert np.array_equal(np.loadtxt(folder / "new.txt"), wanted)
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.txt.gz", "--quiet").out == ""
    assert np.array_equal(np.loadtxt(folder / "new.txt.gz"), wanted)
    record = run("rank", "model.safetensors", "test.txt", "--json").json
    assert record["scores"] == wanted.tolist()
    assert (record["queries"], record["documents"], record["format"]) == (20, 160, "scores")


def test_rows_that_grouping_moved_come_back_in_file_order(run, folder):
    lines = (folder / "test.txt").read_text().splitlines(keepends=True)
    order = np.random.default_rng(0).permutation(len(lines))
    (folder / "mixed.txt").write_text("".join(lines[row] for row in order))
    straight = run("rank", "model.safetensors", "test.txt").out.split()
    mixed = run("rank", "model.safetensors", "mixed.txt", "--regroup").out.split()
    assert mixed == [straight[row] for row in order]
    best = lines_of(run("rank", "model.safetensors", "test.txt", "--k", "2").out)
    again = lines_of(run("rank", "model.safetensors", "mixed.txt", "--regroup", "--k", "2").out)
    assert sorted(best) == sorted(again)


def test_the_best_k_of_each_query(run):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    head, *rows = lines_of(run("rank", "model.safetensors", "test.txt", "--k", "3").out)
    assert head == ["query", "rank", "document", "score"]
    scores = model.predict(queries)
    wanted = [
        [str(query), str(rank), queries.document_ids[row], repr(float(scores[row]))]
        for query, order in zip(queries.query_ids, model.rank(queries, k=3), strict=True)
        for rank, row in enumerate(order, 1)
    ]
    assert rows == wanted
    record = run("rank", "model.safetensors", "test.txt", "--k", "3", "--json").json
    assert [list(map(str, row.values())) for row in record["ranking"]] == wanted


def test_a_trec_run_is_read_back(run):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    wanted = Run.from_scores(queries, model.predict(queries)).ranked(4)
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.run", "--k", "4", "--tag", "mine").code == 0
    found = read_run("new.run")
    assert found.tag == "mine"
    assert found.document_ids.tolist() == wanted.document_ids.tolist()
    assert np.array_equal(found.scores, wanted.scores)
    printed = run("rank", "model.safetensors", "test.txt", "--format", "trec", "--k", "4", "--tag", "mine").out
    assert printed == Path("new.run").read_text()


def test_a_table_has_the_same_rows_as_text(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.parquet").code == 0
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.tsv").code == 0
    rows = parquet.read_table("new.parquet").to_pylist()
    _, *wanted = lines_of(Path("new.tsv").read_text())
    assert [list(map(str, row.values())) for row in rows] == wanted
    assert len(wanted) == 160


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "jsonl", "parquet", "run", "txt"])
def test_every_form_of_a_ranking_is_evaluated(run, suffix):
    wanted = run("evaluate", "test.txt", "model.safetensors", "--json").json["systems"]["model"]["mean"]
    assert run("rank", "model.safetensors", "test.txt", "-o", f"new.{suffix}").code == 0
    found = run("evaluate", "test.txt", f"new.{suffix}", "--json").json["systems"]
    assert [one["mean"] for one in found.values()] == [wanted]


def test_a_ranking_as_csv_and_json_lines_has_names_and_quotes(run):
    queries = read_queries("test.txt")
    ids = [f'2" pipe, nr {row}' for row in range(queries.n_documents)]
    write_binary("odd.queries", replace(queries, document_ids=np.array(ids)))
    rows = lines_of(run("rank", "model.safetensors", "odd.queries", "--k", "2").out)
    assert run("rank", "model.safetensors", "odd.queries", "--k", "2", "-o", "new.csv").code == 0
    with Path("new.csv").open(newline="") as file:
        assert list(csv.reader(file)) == rows
    assert run("rank", "model.safetensors", "odd.queries", "--k", "2", "-o", "new.jsonl").code == 0
    records = [json.loads(line) for line in Path("new.jsonl").read_text().splitlines()]
    assert [list(map(str, record.values())) for record in records] == rows[1:]
    assert list(records[0]) == rows[0]


def test_of_a_document_group_only_the_best_is_ranked(run, fails):
    queries = read_queries("test.txt")
    groups = np.tile(["a", "a", "b", "c", "c", "c", "d", "d"], len(queries))
    grouped = replace(queries, document_groups=groups)
    write_binary("grouped.queries", grouped)
    model = load("model.safetensors")
    _, *rows = lines_of(run("rank", "model.safetensors", "grouped.queries", "--group").out)
    wanted = [queries.document_ids[row] for order in model.rank(grouped) for row in order]
    assert [row[2] for row in rows] == wanted
    assert len(rows) == 4 * len(queries)
    assert run("rank", "model.safetensors", "grouped.queries", "--group", "-o", "new.run").code == 0
    assert sorted(read_run("new.run").document_ids.tolist()) == sorted(wanted)
    assert run("rank", "model.safetensors", "grouped.queries", "-o", "all.tsv").code == 0
    assert len(lines_of(Path("all.tsv").read_text())) == 1 + queries.n_documents
    assert "no document groups" in fails("rank", "model.safetensors", "test.txt", "--group", code=1)


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["model.safetensors", "test.txt", "--k", "0"], "--k", 2),
        (["model.safetensors", "test.txt", "--format", "scores", "--k", "2"], "one per document", 2),
        (["model.safetensors", "test.txt", "--format", "parquet"], "give a file with -o", 2),
        (["model.safetensors", "test.txt", "--tag", "mine"], "--format trec", 2),
        (["model.safetensors", "test.txt", "-o", "new.run", "--tag", "a b"], "'a b'", 1),
        (["nowhere.safetensors", "test.txt"], "nowhere.safetensors: no such file", 1),
        (["test.txt", "test.txt"], "test.txt: this is text, not a marginrank model", 1),
        (["model.safetensors", "scores.txt"], "scores.txt:", 1),
        (["model.safetensors", "test.txt", "-o", "scores.txt"], "exists", 1),
        (["model.safetensors", "test.txt", "-o", "model.safetensors", "-f"], "both input and output", 1),
    ],
)
def test_ranking_refuses_what_makes_no_sense(fails, words, said, code):
    assert said in fails("rank", *words, code=code)


def test_ids_that_two_documents_of_a_query_share_are_refused_where_they_are_written(run, folder):
    def refused(*words):
        done = run(*words)
        warning, error = done.err.splitlines()
        assert (done.code, done.out) == (1, "")
        assert warning.startswith("warning: twice.txt: 2 rows with the id of another row of the same query, first 'd0'")
        return error

    lines = [f"{row % 2} qid:{row // 3} 1:{row} 2:1 3:0 4:0 5:2 # d{row % 2}" for row in range(6)]
    (folder / "twice.txt").write_text("\n".join(lines) + "\n")
    said = "twice.txt: two documents of query 0 have the id 'd0'; keep one of them, or give each an id of its own"
    for words in (["--k", "2"], ["--format", "csv"], ["-o", "new.run"], ["-o", "new.jsonl"]):
        assert said in refused("rank", "model.safetensors", "twice.txt", *words)
    assert run("rank", "model.safetensors", "twice.txt", "-o", "scores-of-twice.txt").code == 0
    assert run("evaluate", "twice.txt", "scores-of-twice.txt").code == 0
    (folder / "twice.run").write_text("0 Q0 d0 1 0.5 me\n1 Q0 d0 1 0.5 me\n")
    assert said in refused("evaluate", "twice.txt", "twice.run")
    said = "two documents of query 1 have the id 'd1'"
    assert said in refused("explain", "model.safetensors", "twice.txt", "--query", "1", "--document", "d0")


def test_a_model_is_not_applied_to_other_features(fails):
    write_letor("other.txt", judged(20, 1).with_features(np.ones((160, 3))))
    error = fails("rank", "model.safetensors", "other.txt", "-o", "new.txt", code=1)
    assert error.startswith("error: other.txt: the data has 3 features but the model was trained on 5")


def test_a_damaged_model_is_refused(fails, folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "cut.safetensors: damaged model file" in fails("rank", "cut.safetensors", "test.txt", code=1)


def test_the_wrong_order_is_shown_in_the_right_one(fails):
    right = "test.txt is not a model, and the model comes first: marginrank {} model.safetensors test.txt"
    assert right.format("rank") in fails("rank", "test.txt", "model.safetensors", code=2)
    assert right.format("explain") in fails("explain", "test.txt", "model.safetensors", "--query", "2000", code=2)
    assert "rank takes one model, then data" in fails("rank", "model.safetensors", "model.safetensors", code=2)


def test_missing_values_are_left_to_a_model_that_takes_them(run, fails, folder):
    (folder / "gaps.txt").write_text(re.sub(r" 3:\S+", " 3:NULL", (folder / "test.txt").read_text(), count=1))
    for scorer in ("additive", "linear(missing=mean)"):
        assert run("train", "train.txt", "--scorer", scorer, "-C", "1", "-o", "nan.safetensors", "--force").code == 0
        assert run("rank", "nan.safetensors", "gaps.txt").code == 0
        assert run("explain", "nan.safetensors", "gaps.txt", "--query", "2000").code == 0
        assert run("evaluate", "gaps.txt", "nan.safetensors").code == 0
        assert run("report", "gaps.txt", "nan.safetensors", "--force").code == 0
    assert run("evaluate", "gaps.txt", "scores.txt").code == 0
    message = "missing value 'NULL'; choose what it becomes: --missing nan, zero or min"
    for words in (
        ["rank", "model.safetensors", "gaps.txt"],
        ["explain", "model.safetensors", "gaps.txt", "--query", "2000"],
        ["evaluate", "gaps.txt", "model.safetensors", "nan.safetensors"],
        ["report", "gaps.txt", "model.safetensors", "--force"],
    ):
        assert message in fails(*words, code=1)


@pytest.mark.parametrize("suffix", ["txt", "csv", "jsonl"])
@pytest.mark.parametrize("piped", [True, False], ids=["pipe", "file"])
def test_standard_input_is_ranked(run, folder, suffix, piped):
    run("convert", "test.txt", f"new.{suffix}", "--quiet")
    words = [sys.executable, "-m", "marginrank", "rank", "model.safetensors", "-", "--k", "2"]
    with (folder / f"new.{suffix}").open("rb") as file:
        given = {"input": file.read()} if piped else {"stdin": file}
        done = subprocess.run(words, **given, capture_output=True, check=True)
    assert done.stdout.decode() == run("rank", "model.safetensors", f"new.{suffix}", "--k", "2").out


def test_topics_are_limited(run, fails, folder):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 5, (queries.n_documents, 2)) / 4
    lines = [
        f"{name},{topic},{weight}"
        for name, row in zip(queries.document_ids.tolist(), weights.tolist(), strict=True)
        for topic, weight in zip("st", row, strict=True)
    ]
    (folder / "topics.csv").write_text("\n".join(["id,topic,weight", *rng.permutation(lines).tolist()]) + "\n")
    for option, limit in (((), 1.0), (("--topic-limit", "1.5"), 1.5)):
        _, *rows = lines_of(
            run("rank", "model.safetensors", "test.txt", "--k", "3", "--topics", "topics.csv", *option).out
        )
        orders = model.rank(queries, k=3, topics=weights, diversify=Diversify(limit))
        assert [row[2] for row in rows] == [queries.document_ids[row] for order in orders for row in order]
        assert [row[1] for row in rows] == [str(rank + 1) for order in orders for rank in range(len(order))]
    assert run("rank", "model.safetensors", "test.txt", "--topics", "topics.csv", "-o", "limited.run").code == 0
    orders = model.rank(queries, topics=weights)
    assert len(read_run("limited.run").document_ids) == sum(len(order) for order in orders) < queries.n_documents
    (folder / "none.tsv").write_text("id\ttopic\nx\ts\n")
    wrong = {
        ("--topic-limit", "2"): "--topic-limit requires --topics",
        ("--topics", "topics.csv", "--topic-limit", "0"): "--topic-limit is 0; give a positive number",
        ("--topics", "topics.csv", "--group"): "--group and --topics both limit rankings; give one of them",
        ("--topics", "topics.csv", "--format", "scores"): "scores are one per document",
    }
    for words, message in wrong.items():
        assert message in fails("rank", "model.safetensors", "test.txt", *words, code=2)
    assert "no document has topics" in fails("rank", "model.safetensors", "test.txt", "--topics", "none.tsv", code=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,theme\n", "t.csv:1: the columns are id, theme; name them id, topic and weight"),
        ("id,topic\na,\n", "t.csv:2: every line needs an id and a topic"),
        ("id,topic,weight\na,s,-1\n", "t.csv:2: weight is '-1'; give a number of at least 0"),
        ("id,topic\n", "t.csv: there are no topics in this file"),
    ],
)
def test_bad_topics_get_one_line(fails, folder, text, message):
    (folder / "t.csv").write_text(text)
    assert message in fails("rank", "model.safetensors", "test.txt", "--k", "3", "--topics", "t.csv", code=1)
