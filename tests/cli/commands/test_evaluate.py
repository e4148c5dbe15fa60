"""`marginrank evaluate`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginrank import compare, evaluate, load
from marginrank.data import read_queries, write_run
from marginrank.evaluation.comparison import mean_interval
from tests.reporting.pages import commands_of, tables_of


@pytest.fixture
def other(folder):
    """Scores of another system: the first feature."""
    scores = read_queries("test.txt").X[:, 0].astype(float)
    (folder / "first.txt").write_text("\n".join(map(repr, scores.tolist())))
    return scores


def test_values_are_those_of_the_library(run):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    wanted = evaluate(queries, model.predict(queries))
    assert run("evaluate", "test.txt", "model.safetensors").out == f"{wanted}\n"
    found = run(
        "evaluate", "test.txt", "model.safetensors", "-m", "rr@5", "-m", "ap(rel=2)", "--policy", "letor4", "--json"
    )
    own = evaluate(queries, model.predict(queries), ["rr@5", "ap(rel=2)"], policy="letor4").to_dict()
    del own["per_query"]
    assert found.json["systems"] == {"model": own}


def test_models_scores_and_runs_of_the_same_ranking_agree(run):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    write_run("ranked.run", queries, model.predict(queries))
    found = run("evaluate", "test.txt", "model.safetensors", "scores.txt", "ranked.run", "--depth", "5", "--json").json
    means = [one["mean"] for one in found["systems"].values()]
    assert list(found["systems"]) == ["model", "scores", "ranked"]
    assert means[0] == means[1] == pytest.approx(means[2])


def test_trec_judgements_go_with_runs(run, fails):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    write_run("ranked.run", queries, model.predict(queries))
    lines = [
        f"{query} 0 {document} {int(grade)}\n"
        for query, document, grade in zip(
            np.repeat(queries.query_ids, queries.lengths), queries.document_ids, queries.grades, strict=True
        )
    ]
    Path("qrels.txt").write_text("".join(lines))
    with_qrels = run("evaluate", "qrels.txt", "ranked.run", "--json").json["systems"]["ranked"]
    with_queries = run("evaluate", "test.txt", "ranked.run", "--json").json["systems"]["ranked"]
    assert with_qrels == with_queries
    assert "TREC judgements have no features" in fails("evaluate", "qrels.txt", "model.safetensors", code=1)
    assert "not judgements" in fails("evaluate", "ranked.run", "ranked.run", code=1)
    Path("qrels.txt").write_text("".join([*lines, "more 0 d 1\n"]))
    assert "--missing-topics skip" in fails("evaluate", "qrels.txt", "ranked.run", code=1)
    zero = run("evaluate", "qrels.txt", "ranked.run", "--missing-topics", "zero", "--json").json["systems"]["ranked"]
    assert zero["queries"]["ap"] == with_qrels["queries"]["ap"] + 1


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_runs_are_judged_by_tables_without_features(run, folder, suffix):
    """Columns of text are no obstacle, nor are there any others."""
    queries = read_queries("test.txt")
    columns = {
        "query": np.repeat(queries.query_ids, queries.lengths).tolist(),
        "document": queries.document_ids.tolist(),
        "grade": queries.grades.tolist(),
    }
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.run").code == 0
    wanted = run("evaluate", "test.txt", "new.run", "--json").json["systems"]["new"]["mean"]
    for more in ({}, {"title": ["a text"] * queries.n_documents}):
        frame = pd.DataFrame(columns | more)
        if suffix == "csv":
            frame.to_csv("judged.csv", index=False)
        elif suffix == "jsonl":
            frame.to_json("judged.jsonl", orient="records", lines=True)
        else:
            frame.to_parquet("judged.parquet")
        done = run("evaluate", f"judged.{suffix}", "new.run", "--json")
        assert done.code == 0, done.err
        assert done.json["systems"]["new"]["mean"] == wanted
        done = run("report", f"judged.{suffix}", "new.run", "--force")
        assert done.code == 0, done.err


def test_intervals_are_those_of_the_library(run, other):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    found = {"model": evaluate(queries, model.predict(queries)), "first": evaluate(queries, other)}
    words = ["evaluate", "test.txt", "model.safetensors", "first.txt", "--intervals"]
    record, text = run(*words, "--json").json["systems"], run(*words).out
    for name, one in found.items():
        for measure in ("ndcg@10", "ap"):
            low, high = mean_interval(one, measure)
            assert record[name]["interval"][measure] == [low, high]
            assert re.search(
                rf"^{name} +{measure} +{one.mean[measure]:.4f} +\[{low:.4f}, {high:.4f}\]", text, re.MULTILINE
            )
    assert text.endswith("policy: standard\n")


def test_values_of_each_query_are_printed_or_written(run, other):
    queries, model = read_queries("test.txt"), load("model.safetensors")
    wanted = evaluate(queries, model.predict(queries))
    record = run("evaluate", "test.txt", "model.safetensors", "--per-query", "--json").json
    assert record["systems"]["model"] == wanted.to_dict()
    done = run("evaluate", "test.txt", "model.safetensors", "first.txt", "--per-query", "-o", "each.tsv")
    assert done.code == 0
    head, *rows = (line.split("\t") for line in Path("each.tsv").read_text().splitlines())
    assert head == ["query", "system", "ndcg@10", "ap"]
    assert [row[1] for row in rows] == ["model"] * 20 + ["first"] * 20
    values = np.array([[float(cell or "nan") for cell in row[2:]] for row in rows])
    assert np.array_equal(values[:20, 1], wanted["ap"], equal_nan=True)
    assert np.array_equal(values[20:, 0], evaluate(queries, other)["ndcg@10"], equal_nan=True)
    shown = run("evaluate", "test.txt", "model.safetensors", "--per-query").out.splitlines()
    assert [line.split()[0] for line in shown[-20:]] == [str(query) for query in queries.query_ids]
    assert np.isnan(wanted["ap"]).any()
    assert any(line.split()[-1] == "-" for line in shown[-20:])


def test_systems_of_the_same_name_are_called_by_their_paths(run, folder):
    (folder / "old").mkdir()
    (folder / "old" / "scores.txt").write_text((folder / "scores.txt").read_text())
    found = run("evaluate", "test.txt", "scores.txt", "old/scores.txt", "--json").json
    assert list(found["systems"]) == ["scores.txt", "old/scores.txt"]


def write_table(folder, suffix="csv"):
    """The test queries as a shuffled table with the language of each query, and two files of scores for its rows."""
    queries = read_queries("test.txt")
    frame = pd.DataFrame(queries.X.astype(float), columns=[f"f{number}" for number in range(5)])
    frame["qid"], frame["grade"] = np.repeat(queries.query_ids, queries.lengths), queries.grades
    frame["language"] = np.where(frame["qid"] % 3 == 0, "de", "en")
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    frame.to_csv(folder / "judged.csv", index=False)
    frame.to_parquet(folder / "judged.parquet")
    frame.to_json(folder / "judged.jsonl", orient="records", lines=True)
    for name in ("f0", "f1"):
        (folder / f"{name}.txt").write_text("\n".join(map(repr, frame[name].tolist())))
    return frame


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_segments_are_those_of_the_library(run, folder, suffix):
    frame = write_table(folder)
    wanted = {
        name: evaluate(frame["grade"], frame[name], qid=frame["qid"], by=frame["language"]) for name in ("f0", "f1")
    }
    judged = f"judged.{suffix}"
    assert run("evaluate", judged, "f0.txt", "--by", "language").out == f"{wanted['f0']}\n"
    options = ["--by", "language", "--intervals", "-m", "ndcg@10", "-m", "ap"]
    found = run("compare", judged, "f0.txt", "f1.txt", *options, "--json").json
    systems = run("evaluate", judged, "f0.txt", "f1.txt", *options, "--json").json["systems"]
    assert systems == found["systems"]
    compared = compare(wanted, measure="ap", baseline="f0").to_dicts()
    assert found["comparisons"]["ap"] == compared
    for name, one in wanted.items():
        for language, part in one.by_segment.items():
            record = found["systems"][name]["segments"][language]
            assert record["mean"] == part.mean
            assert record["interval"]["ap"] == list(mean_interval(part, "ap"))
    lines = run("evaluate", judged, "f0.txt", "f1.txt", "--by", "language").out.splitlines()
    assert [line.split()[:2] for line in lines[1:7]] == [
        [segment, name] for segment in ("all", "de", "en") for name in ("f0", "f1")
    ]


def test_segments_need_a_column_with_one_value_per_query(run, folder, fails):
    write_table(folder)
    assert "no column 'langage'; did you mean 'language'?" in fails(
        "evaluate", "judged.csv", "f0.txt", "--by", "langage", code=1
    )
    message = fails("evaluate", "judged.csv", "f0.txt", "--by", "f1", code=1)
    assert re.search(r"judged\.csv: query \d+ has the segments .* all rows of a query need the same one", message)
    assert "--by needs a table with that column, and test.txt is" in fails(
        "evaluate", "test.txt", "scores.txt", "--by", "language", code=2
    )


def test_the_segments_of_a_report_are_those_of_its_command(run, folder):
    write_table(folder)
    done = run("report", "judged.csv", "f0.txt", "f1.txt", "--by", "language", "--json")
    page = Path("report.html").read_text(encoding="utf-8")
    line = next(line for line in commands_of(page) if "--by" in line)
    assert line == done.json["commands"]["segments"]
    found = run(*shlex.split(line)[1:], "--json").json
    tables = tables_of(page)
    for row in tables["ap in each segment"][1]:
        assert row[2][1] == found["systems"]["f0"]["segments"][row[0][0]]["mean"]["ap"]
        assert row[4][1] == found["systems"]["f1"]["segments"][row[0][0]]["mean"]["ap"]
    heads, rows = tables["ap: difference from f0 in each segment"]
    records = [record for record in found["comparisons"]["ap"] if record["segment"] is not None]
    for row, record in zip(rows, records, strict=True):
        cells = dict(zip(heads, row, strict=True))
        assert (cells["segment"][0], cells["queries"][1]) == (record["segment"], record["queries"])
        assert cells["p randomization"][1] == record["p_randomization"]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["test.txt", "model.safetensors", "-m", "ndgc@5"], "did you mean 'ndcg@5'?", 2),
        (["test.txt", "model.safetensors", "--policy", "lettor"], "unknown policy", 2),
        (["test.txt", "6"], "6: no such file, and no column '6'; the columns are '1', '2', '3', '4', '5'", 1),
        (["test.txt", "model.safetensors", "-o", "new.tsv"], "--per-query", 2),
        (["test.txt", "model.safetensors", "model.safetensors"], "given twice", 1),
        (["test.txt", "valid.txt"], "valid.txt: this is not a system", 1),
        (["valid.txt", "scores.txt", "--depth", "0"], "--depth", 2),
        (["train.txt", "scores.txt"], "scores.txt: scores", 1),
        (["nowhere.txt", "scores.txt"], "nowhere.txt: no such file", 1),
        (["test.txt", "nowhere.run"], "nowhere.run: no such file", 1),
    ],
)
def test_evaluation_refuses_what_makes_no_sense(fails, words, said, code):
    assert said in fails("evaluate", *words, code=code)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no data in this file; it is empty"),
        ("0.5\nx\n", "bad.txt:2: 'x' is not a score"),
        ("0.5\n\n0.1\n", "bad.txt:2: '' is not a score"),
        ("0.5\nnan\n", "bad.txt:2: 'nan' is not a score"),
    ],
)
def test_wrong_scores_are_named_by_line(fails, folder, text, said):
    (folder / "bad.txt").write_text(text)
    assert said in fails("evaluate", "test.txt", "bad.txt", code=1)


def test_training_data_is_recognized(run):
    done = run("evaluate", "train.txt", "model.safetensors", "--dtype", "float64", "--json")
    assert done.err == (
        "warning: these are the queries that model was trained on; its values say nothing about new queries\n"
    )
    assert done.json["trained_on_these"] == ["model"]
    done = run("evaluate", "test.txt", "model.safetensors", "scores.txt", "--json")
    assert (done.err, done.json["trained_on_these"]) == ("", [])


def test_a_report_on_training_data_says_so(run, folder):
    done = run("report", "train.txt", "model.safetensors", "--dtype", "float64", "--json")
    assert done.json["trained_on_these"] == ["model"]
    assert done.err.startswith("warning: these are the queries that model was trained on")
    assert "These are the queries that model was trained on" in (folder / "report.html").read_text(encoding="utf-8")


def test_unjudged_documents_are_counted(run, folder):
    lines = (folder / "judged.qrels").read_text().splitlines()
    (folder / "some.qrels").write_text("\n".join(line for line in lines if not line.endswith("7 0")) + "\n")
    kept = {tuple(line.split()[::2]) for line in (folder / "some.qrels").read_text().splitlines()}
    ranked = {}
    for line in (folder / "bm25.run").read_text().splitlines():
        topic, _, document, _, score, _ = line.split()
        ranked.setdefault(topic, []).append((-float(score), document))
    first = [(topic, document) for topic, own in ranked.items() for _, document in sorted(own)[:10]]
    missing = sum(pair not in kept for pair in first)
    assert missing
    found = run("evaluate", "some.qrels", "bm25.run", "--json").json["systems"]["bm25"]["unjudged"]
    assert found == {"k": 10, "documents": missing, "out_of": len(first)}
    share = f"{100 * missing / len(first):.1f}% of the first 10 documents of bm25"
    assert f"unjudged, and counted as not relevant: {share}" in run("evaluate", "some.qrels", "bm25.run").out
    assert "unjudged" not in run("evaluate", "judged.qrels", "bm25.run").out


def test_options_for_runs_need_one(fails):
    words = ["test.txt", "model.safetensors", "--missing-topics", "zero"]
    for command in ("evaluate", "report"):
        assert "--missing-topics is for TREC runs, and no system is one" in fails(command, *words, code=2)
    assert "--baseline is for comparing" in fails(
        "report", "test.txt", "model.safetensors", "--baseline", "model", code=2
    )


def test_a_segment_or_time_that_is_missing_is_named(fails, folder):
    (folder / "shop.csv").write_text("qid,grade,bm25,language\na,1,2,en\na,0,1,en\nb,1,2,\nb,0,1,\n")
    said = "shop.csv:4: column 'language' has no value; every row needs one"
    assert said in fails("evaluate", "shop.csv", "bm25", "--by", "language", code=1)
    assert said in fails("split", "shop.csv", "--time", "language", code=1)


def test_the_columns_of_a_table_are_named_once(run, folder):
    """The table is read for the model's features, for a column and for the segments."""
    rows = [f"{row // 4},{row % 3},s{row},{row % 5},{row // 4 % 2}\n" for row in range(24)]
    (folder / "shop.csv").write_text("query_id,Relevance,sku,bm25,category\n" + "".join(rows))
    done = run("evaluate", "shop.csv", "bm25", "--by", "category")
    assert done.code == 0, done.err
    assert done.err.count("columns  query: query_id, grade: Relevance") == 1
