"""`marginrank clicks`: the commands give what the library gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginrank import Ranker, from_frame, load
from marginrank.clicks import (
    ClickLog,
    Propensities,
    compare_interleaved,
    estimate_propensities,
    evaluate_clicks,
    interleave,
    read_clicks,
    tune_with_judgements,
    write_clicks,
)
from marginrank.data import read_run

JOINED = ("--table", "products.csv")


def test_propensities_are_those_of_the_library_and_are_read_back(run):
    done = run("clicks", "propensities", "clicks.csv", "--clip", "0.3", "--depth", "4", "-o", "curve.json", "--json")
    log = read_clicks("clicks.csv")
    expected = estimate_propensities(log, clip=0.3, depth=4)
    assert done.json["propensities"] == pytest.approx(expected.values.tolist())
    assert done.json["intervals"][1] == pytest.approx([expected.interval[0][1], expected.interval[1][1]])
    found = Propensities.read("curve.json")
    assert found.values.tolist() == expected.values.tolist()
    assert found.used.tolist() == expected.used.tolist()
    assert found.interval[1].tolist() == expected.interval[1].tolist()
    assert found.assumes == expected.assumes
    plotted = run("clicks", "propensities", "clicks.csv", "--method", "em", "--resamples", "2", "--plot", "curve.png")
    assert "assumes: the position-based model" in plotted.out
    assert Path("curve.png").stat().st_size > 5000


def test_a_model_is_trained_as_by_the_library(run):
    words = ("clicks", "train", "clicks.csv", *JOINED, "--propensities", "eta=1", "-C", "1", "-o", "new.safetensors")
    assert run(*words).code == 0
    log = read_clicks("clicks.csv").with_features("products.csv").with_propensities(Propensities.power(1.0, 6))
    assert load("new.safetensors").coef_ == pytest.approx(Ranker("ranksvm", C=1.0).fit(log).coef_)
    done = run(*words[:7], "--folds", "2", "--Cs", "0.1,1", "-o", "tuned.safetensors", "--json")
    assert done.json["selection"]["criterion"] == "dcg@10"
    naive = run(*words[:6], "none", *words[7:9], "-o", "naive.safetensors")
    assert naive.code == 0
    assert load("naive.safetensors").coef_ != pytest.approx(load("new.safetensors").coef_)


def judged_products():
    frame = pd.read_csv("products.csv")
    frame["qid"] = [f"q{row // 10}" for row in range(len(frame))]
    frame["grade"] = (frame.stars > 0.6).astype(int)
    frame[:120].to_csv("judged.csv", index=False)
    return from_frame(frame[:120])


def test_clicks_and_judgements_are_trained_together(run, fails):
    judged = judged_products()
    words = ("clicks", "train", "clicks.csv", *JOINED, "--propensities", "eta=1", "--with-judged", "judged.csv")
    done = run(*words, "--Cs", "0.1,1", "--folds", "2", "-o", "both.safetensors", "--json").json
    log = read_clicks("clicks.csv").with_features("products.csv").with_propensities(Propensities.power(1.0, 6))
    found = tune_with_judgements(Ranker("ranksvm"), log, judged, Cs=[0.1, 1.0], folds=2)
    assert (done["share"], done["C"]) == (found.share, found.C)
    assert load("both.safetensors").coef_ == pytest.approx(found.ranker.coef_)
    assert "-C cannot be combined with --with-judged" in fails(*words, "-C", "1", "-o", "m", code=2)


def test_features_of_the_log_itself(run):
    pd.read_csv("clicks.csv").merge(pd.read_csv("products.csv"), left_on="doc_id", right_on="document_id").drop(
        columns="document_id"
    ).to_csv("wide.csv", index=False)
    shared = ("--propensities", "1,0.5,0.33,0.25,0.2,0.16", "-C", "1", "-o")
    assert run("clicks", "train", "wide.csv", "--feature", "price,stars", *shared, "a.safetensors").code == 0
    assert run("clicks", "train", "clicks.csv", *JOINED, *shared, "b.safetensors").code == 0
    assert load("a.safetensors").coef_ == pytest.approx(load("b.safetensors").coef_)


def test_systems_are_evaluated_and_compared(run):
    run("clicks", "train", "clicks.csv", *JOINED, "--propensities", "eta=1", "-C", "1", "-o", "new.safetensors")
    words = ("clicks", "evaluate", "clicks.csv", "new.safetensors", "price", *JOINED, "--propensities", "eta=1")
    done = run(*words, "--baseline", "price", "--json").json
    log = read_clicks("clicks.csv").with_features("products.csv")
    curve = Propensities.power(1.0, 6)
    assert done["systems"]["price"]["mean"] == pytest.approx(
        evaluate_clicks(log, log.documents.feature("price"), propensities=curve).mean["ips dcg@10"]
    )
    assert done["systems"]["new"]["mean"] == pytest.approx(
        evaluate_clicks(log, load("new.safetensors"), propensities=curve).mean["ips dcg@10"]
    )
    (row,) = done["comparisons"]
    assert (row["system"], row["other"], row["verdict"]) == ("new", "price", "better")
    by_rank = run(*words, "-m", "rank", "--estimator", "snips", "--json").json["comparisons"][0]
    assert by_rank["difference"] < 0
    assert by_rank["verdict"] == "better"


def test_the_baseline_may_be_another_column_and_is_no_model_by_default(run):
    pytest.importorskip("vl_convert", reason="reports need vl-convert-python")
    log = ("clicks.csv", *JOINED, "--propensities", "eta=1")
    run("clicks", "train", *log, "-C", "1", "-o", "new.safetensors")
    evaluated = run("clicks", "evaluate", log[0], "new.safetensors", *log[1:], "--baseline", "price", "--json").json
    assert [(row["system"], row["other"]) for row in evaluated["comparisons"]] == [("new", "price")]
    words = ("clicks", "report", log[0], "price", "new.safetensors", *log[1:], "-o", "clicks.html", "--json")
    assert " new to price: " in run(*words).json["verdict"]


def test_documents_without_a_value_of_a_column_are_ranked_last(run, folder):
    lines = (folder / "products.csv").read_text().splitlines()
    means = []
    for value in ("", "-1000"):
        emptied = [line.rpartition(",")[0] + f",{value}" if row % 5 == 1 else line for row, line in enumerate(lines)]
        (folder / "products.csv").write_text("\n".join(emptied) + "\n")
        words = ("clicks", "evaluate", "clicks.csv", "stars", *JOINED, "--propensities", "eta=1", "--json")
        means.append(run(*words).json["systems"]["stars"]["mean"])
    assert means[0] == means[1]


def test_a_page_is_written(run):
    pytest.importorskip("vl_convert", reason="reports need vl-convert-python")
    words = ("clicks", "report", "clicks.csv", "stars", "price", *JOINED, "--propensities", "harvest")
    done = run(*words, "-o", "clicks.html", "--json").json
    assert done["systems"]["price"]["mean"] > 0
    assert done["verdict"] in Path("clicks.html").read_text()
    assert len(done["propensities"]["intervals"]) == 6


def test_clicks_are_compared_with_judges(run):
    lines = [f"{qid},{name},{grade}" for qid, name, grade in (("q0", "p000", 1), ("q0", "p001", 0), ("q0", "p002", 2))]
    Path("judged.csv").write_text("\n".join(["qid,doc_id,grade,bm25", *(f"{line},1" for line in lines)]) + "\n")
    words = ("clicks", "evaluate", "clicks.csv", "price", *JOINED, "--propensities", "eta=1", "--judged", "judged.csv")
    assert run(*words, "--json").json["agreement"]["n_pairs"] >= 1


def test_lists_are_interleaved_and_judged(run):
    assert run("clicks", "interleave", "bm25.run", "dense.run", "--k", "4", "-o", "lists.csv").code == 0
    rows = pd.read_csv("lists.csv").to_dict("records")
    a, b = (read_run(f"{name}.run") for name in ("bm25", "dense"))
    first = [run_.document_ids[np.argsort(-run_.scores[: run_.offsets[1]], kind="stable")].tolist() for run_ in (a, b)]
    expected = interleave(*first, 4, random_state=np.random.default_rng(0))
    assert [row["document"] for row in rows[:4]] == list(expected.documents)
    assert [row["team"] for row in rows[:4]] == list(expected.teams)
    done = run("clicks", "preference", "interleaved.csv", "--planned", "5000", "--true-share", "0.5", "--json").json
    found = compare_interleaved(read_clicks("interleaved.csv"))
    assert (tuple(done["wins"]), done["p"]) == (found.wins, found.p)
    assert done["power"] == pytest.approx(found.power(5000, share=0.5))


def test_balanced_lists_are_judged_by_their_rankings(run):
    Path("a.run").write_text("q Q0 x 1 2 a\nq Q0 y 2 1 a\n")
    Path("b.run").write_text("q Q0 y 1 2 b\nq Q0 x 2 1 b\n")
    rows = ["query,doc_id,position,clicked,impression_id", "q,x,1,1,0", "q,y,2,0,0", "q,y,1,0,1", "q,x,2,1,1"]
    Path("log.csv").write_text("\n".join(rows) + "\n")
    done = run("clicks", "preference", "log.csv", "--rankings", "a.run", "--rankings", "b.run", "--json").json
    assert done["wins"] == [2, 0]


def test_simulated_logs_are_read_back(run):
    done = run("clicks", "simulate", "test.txt", "1", "model.safetensors", "--sessions", "50", "-o", "new.parquet")
    assert done.code == 0
    log = read_clicks("new.parquet")
    assert log.impressions.sum() == 50
    assert set(log.system_names) == {"1", "model"}
    write_clicks("new.csv", log)
    assert read_clicks("new.csv").clicks.tolist() == log.clicks.tolist()
    assert (
        run(
            "clicks",
            "simulate",
            "test.txt",
            "1",
            "--users",
            "cascade",
            "--shares",
            "1",
            "--sessions",
            "9",
            "-o",
            "b.csv",
        ).code
        == 0
    )


def test_user_behavior_insights(run):
    attributes = {"object": {"object_id": "x"}, "position": {"ordinal": 0}}
    event = {"action_name": "impression", "query_id": "1", "user_query": "tv", "event_attributes": attributes}
    Path("ubi.ndjson").write_text(json.dumps(event) + "\n")
    said = run("clicks", "propensities", "ubi.ndjson", "--ubi", "--positions-from", "0").err
    assert "position 1 only" in said
    assert "--positions-from 0" in run("clicks", "propensities", "ubi.ndjson", "--ubi").err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("propensities", "clicks.csv", "--position-column", "nope"), 1, "no column 'nope'"),
        (("train", "clicks.csv", *JOINED, "-C", "1", "-o", "m"), 2, "the log has no propensities; give --propensities"),
        (("train", "clicks.csv", "--propensities", "eta=1", "-C", "1", "-o", "m"), 2, "--table FILE, or --feature"),
        (
            ("train", "clicks.csv", *JOINED, "--propensities", "etta=1", "-C", "1", "-o", "m"),
            2,
            "--propensities etta=1",
        ),
        (("train", "clicks.csv", *JOINED, "--propensities", "1,2", "-C", "1", "-o", "m"), 1, "is 2; a propensity is"),
        (("train", "clicks.csv", *JOINED, "--propensities", "1,0.5", "-C", "1", "-o", "m"), 2, "give --depth 2"),
        (
            ("train", "clicks.csv", *JOINED, "--propensities", "eta=1", "--preset", "svmmap", "-C", "1", "-o", "m"),
            1,
            "weights",
        ),
        (("evaluate", "clicks.csv", "price", *JOINED, "--propensities", "eta=1", "-m", "ndcg@10"), 2, "need grades"),
        (("evaluate", "clicks.csv", "size", *JOINED, "--propensities", "eta=1"), 1, "'size'"),
        (("evaluate", "clicks.csv", "price", *JOINED, "--propensities", "products.csv"), 1, "this has no propensities"),
        (("preference", "clicks.csv", "--true-share", "0.5"), 2, "--true-share requires --planned"),
        (("interleave", "bm25.run", "scores.txt", "-o", "l.csv"), 1, "these are scores"),
        (("simulate", "judged.qrels", "bm25.run", "-o", "l.csv"), 1, "TREC judgements have no documents"),
        (("simulate", "test.txt", "1", "-o", "l.txt"), 1, ".csv, .tsv or .parquet"),
    ],
)
def test_mistakes_are_named(fails, words, code, said):
    assert said in fails("clicks", *words, code=code)


def test_logs_that_cannot_identify_propensities_are_refused_with_options(fails, run):
    frame = pd.read_csv("clicks.csv")
    frame[frame.system == "price"].to_csv("one.csv", index=False)
    assert "use --method swap" in fails("clicks", "propensities", "one.csv", code=1)
    frame.drop(columns="system").to_csv("none.csv", index=False)
    said = fails("clicks", "propensities", "none.csv", code=1)
    assert "give the column with --system-column" in said
    assert run("clicks", "propensities", "none.csv", "--method", "swap", "--resamples", "0").code == 0
    assert "--no-merge" in fails("clicks", "train", "none.csv", "--feature", "position", "-C", "1", "-o", "m", code=1)


def test_added_up_logs_are_not_written(tmp_path):
    log = ClickLog.from_counts(["a"], ["x"], [1], shown=[10], clicks=[3])
    with pytest.raises(ValueError, match="aggregated"):
        write_clicks(tmp_path / "log.csv", log)
