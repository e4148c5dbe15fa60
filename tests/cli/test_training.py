"""`marginrank train` and `marginrank tune`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from marginrank import Queries, Ranker, load, tune
from marginrank.data import read_queries, write_binary, write_letor, write_parquet
from marginrank.data.fingerprint import fingerprint

from .conftest import judged


def test_train_chooses_C_as_tune_does(run):
    done = run("train", "train.txt", "--valid", "valid.txt", "--preset", "svmauc", "-o", "new.marginrank", "--json")
    train, valid = read_queries("train.txt"), read_queries("valid.txt")
    chosen = tune(Ranker("svmauc"), train, valid=valid)
    assert done.code == 0
    assert done.json["selection"] == chosen.to_dict()
    assert done.json["model"]["C"] == chosen.ranker.C
    assert done.json["output"] == "new.marginrank"
    model = load("new.marginrank")
    assert np.array_equal(model.coef_, chosen.ranker.coef_)
    assert model.trained_on_["fingerprint"] == fingerprint(train)


def test_train_with_one_C_is_one_fit_with_all_its_options(run):
    words = ["--measure", "ndcg@5", "--feature-map", "dorm", "-C", "3", "--scaling", "standard", "--tol", "1e-6"]
    done = run("train", "train.txt", "valid.txt", *words, "--weighting", "pairs", "-o", "new.marginrank", "--json")
    own = Ranker(measure="ndcg@5", feature_map="dorm", C=3.0, scaling="standard", tol=1e-6, weighting="pairs")
    own.fit(read_queries(["train.txt", "valid.txt"]))
    assert np.array_equal(load("new.marginrank").coef_, own.coef_)
    assert done.json["model"]["objective"] == own.objective_
    assert done.json["model"]["gap"] == own.gap_
    assert done.json["selection"] is None
    assert done.json["data"].startswith("train.txt, valid.txt: 50 queries, 400 documents, 5 features, grades 0 to 2")


def test_validation_queries_decide_when_one_fit_stops(run):
    words = ["--valid", "valid.txt", "--preset", "svmmap", "-C", "1000", "--patience", "2"]
    assert run("train", "train.txt", *words, "-o", "new.marginrank").code == 0
    own = Ranker("svmmap", C=1000.0, patience=2).fit(read_queries("train.txt"), validation=read_queries("valid.txt"))
    assert np.array_equal(load("new.marginrank").coef_, own.coef_)


def test_the_summary_says_what_was_done(run):
    done = run("train", "train.txt", "--folds", "2", "--Cs", "0.1,10", "-o", "new.marginrank")
    for words in (
        "30 queries, 240 documents",
        "svmmap: linear",
        "2 folds",
        "chosen",
        "converged",
        "gap",
        "average slack",
    ):
        assert words in done.out
    assert "wrote      new.marginrank" in done.out
    assert done.err == ""


def test_a_tight_bound_has_no_certificate(run):
    done = run("train", "train.txt", "-C", "10", "--bound", "tight", "-o", "new.marginrank")
    assert "no certificate (tight bound)" in done.out
    model = run("inspect", "new.marginrank", "--json").json
    assert model["gap"] is None
    assert model["certificate"] is False


def test_a_collapsed_hinge_is_a_line_of_warning(run):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    queries = Queries.from_arrays(X, (rng.random(400) < 0.1).astype(int), group=[40] * 10)
    write_letor("random.txt", queries)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run("train", "random.txt", "--preset", "dorm-mrr", "--bound", "hinge", "-C", "1", "-o", "new.marginrank")
    assert done.code == 0
    assert done.err.startswith("warning: the hinge of StructuredLoss")
    assert done.err.count("\n") == 1


def test_step_functions_rise_where_they_are_told_to(run):
    words = [
        "--scorer",
        "additive",
        "--shape",
        "steps",
        "--bins",
        "8",
        "--monotone",
        "0=increasing",
        "--monotone",
        "1=decreasing",
        "-C",
        "3",
    ]
    assert run("train", "train.txt", *words, "-o", "new.marginrank").code == 0
    rising, falling, *others = (np.diff(shape.values) for shape in load("new.marginrank").shapes())
    assert (rising >= 0).all()
    assert (falling <= 0).all()
    assert any((steps > 0).any() and (steps < 0).any() for steps in others)


def test_weights_are_kept_from_being_negative_by_name_or_number(run):
    train = judged(30, 0, feature_names=["bm25", "age", "2", "length", "clicks"])
    write_parquet("train.parquet", train)
    free = Ranker("svmmap", C=10.0).fit(train).coef_
    assert free[1] < 0
    words = ["-C", "10", "--nonnegative-feature", "age", "--nonnegative-feature", "2"]
    assert run("train", "train.parquet", *words, "-o", "new.marginrank").code == 0
    own = Ranker("svmmap", C=10.0, nonnegative=["age", "2"]).fit(train)
    assert np.array_equal(load("new.marginrank").coef_, own.coef_)
    assert run("train", "train.txt", "-C", "10", "--nonnegative", "-o", "all.marginrank").code == 0
    assert (load("all.marginrank").coef_ >= 0).all()
    assert run("train", "train.txt", "-C", "10", "--nonnegative-feature", "1", "-o", "one.marginrank").code == 0
    assert load("one.marginrank").coef_[1] >= 0


def test_quiet_prints_nothing_and_json_nothing_else(run):
    assert run("train", "train.txt", "-C", "1", "-o", "a.marginrank", "--quiet").out == ""
    done = run("train", "train.txt", "-C", "1", "-o", "b.marginrank", "--quiet", "--json")
    assert done.json["model"]["C"] == 1.0
    assert done.err == ""


def test_missing_values_are_read_as_told(run, fails):
    first, *lines = Path("train.txt").read_text().splitlines(keepends=True)
    grade, query, _, *values = first.split()
    Path("gaps.txt").write_text("".join([f"{grade} {query} 1:NULL {' '.join(values)}\n", *lines]))
    error = fails("train", "gaps.txt", "-C", "1", "-o", "new.marginrank", code=1)
    assert error.startswith("error: gaps.txt:1:")
    assert run("train", "gaps.txt", "-C", "1", "--missing", "zero", "-o", "new.marginrank").code == 0
    assert (
        run("train", "gaps.txt", "-C", "1", "--missing", "nan", "--scorer", "additive", "-o", "b.marginrank").code == 0
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "svmmpa"], "did you mean 'svmmap'?"),
        (["--measure", "ndgc"], "did you mean 'ndcg'?"),
        (["--preset", "svmmap", "--measure", "ap"], "give --preset or --measure"),
        (["--feature-map", "po"], "--feature-map goes with --measure"),
        (["--criterion", "mapp"], "unknown measure 'mapp'"),
        (["--policy", "letor5"], "unknown policy 'letor5'"),
        (["--valid", "valid.txt", "--folds", "3"], "--valid or --folds"),
        (["-C", "1", "--folds", "3"], "-C is one value"),
        (["-C", "1", "--Cs", "1,2"], "-C is one value"),
        (["-C", "0"], "above 0"),
        (["--Cs", "1,x"], "commas between them"),
        (["--Cs", "1,-1"], "above 0"),
        (["--monotone", "increasing"], "--scorer additive"),
        (["--scorer", "additive", "--monotone", "0=up"], "FEATURE=increasing"),
        (["--scorer", "additive", "--monotone", "increasing", "--monotone", "0=increasing"], "give it alone"),
        (["--scorer", "additive", "--nonnegative"], "--monotone increasing"),
        (["--solver", "newton", "-C", "1"], "newton"),
        (["--qid", "query"], "train.txt is text"),
        (["--tol", "-1", "-C", "1"], "tol"),
        (["--folds", "1"], "folds is 1"),
    ],
)
def test_training_refuses_what_makes_no_sense(fails, words, said):
    assert said in fails("train", "train.txt", *words, "-o", "new.marginrank", code=1 if "folds is" in said else 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.txt", "-o", "new.marginrank"], "nowhere.txt: no such file"),
        (["train.txt", "--valid", "nowhere.txt", "-o", "new.marginrank"], "nowhere.txt: no such file"),
        (["train.txt", "-o", "model.marginrank"], "model.marginrank: exists; choose another name, or give --force"),
        (["train.txt", "-o", "nowhere/new.marginrank"], "nowhere: no such folder"),
        (["train.txt", "-o", "train.txt", "--force"], "input and output at once"),
        (["train.txt", "-o", ".", "--force"], "folder"),
        (["model.marginrank", "-o", "new.marginrank"], "model.marginrank"),
        (["scores.txt", "-o", "new.marginrank"], "scores.txt:"),
    ],
)
def test_wrong_files_are_refused_by_name(fails, words, said):
    assert said in fails("train", *words, code=1)


def test_outputs_are_refused_before_any_work(run, fails, monkeypatch):
    monkeypatch.setattr("marginrank.cli.reading.Reading.read", lambda *_, **__: pytest.fail("data was read"))
    assert "exists" in fails("train", "train.txt", "-o", "model.marginrank", code=1)
    assert "exists" in fails("tune", "train.txt", "--plot", "scores.txt", code=1)
    assert "exists" in fails("rank", "model.marginrank", "test.txt", "-o", "scores.txt", code=1)
    assert "exists" in fails("evaluate", "test.txt", "scores.txt", "--per-query", "-o", "train.txt", code=1)
    assert "exists" in fails("convert", "train.txt", "valid.txt", "test.txt", code=1)


def test_force_replaces_a_file(run, folder):
    before = (folder / "model.marginrank").read_bytes()
    assert run("train", "train.txt", "-C", "2", "-o", "model.marginrank", "--force").code == 0
    assert (folder / "model.marginrank").read_bytes() != before


def test_validation_data_has_the_features_of_the_training_data(fails):
    write_letor("other.txt", judged(20, 1).with_features(np.ones((160, 3))))
    assert "other.txt: 3 features, but the training data has 5" in fails(
        "train", "train.txt", "--valid", "other.txt", "-o", "new.marginrank", code=1
    )


def test_training_reads_all_forms_of_data(run):
    train = read_queries("train.txt")
    write_binary("train.queries", train)
    np.savez("train.npz", X=train.X, y=train.grades, group=train.lengths)
    for name in ("train.txt", "train.queries", "train.npz"):
        assert run("train", name, "-C", "1", "-o", f"{name}.marginrank").code == 0
    first, *others = (load(f"{name}.marginrank").coef_ for name in ("train.txt", "train.queries", "train.npz"))
    assert all(np.array_equal(first, other) for other in others)


def test_tune_tries_a_grid_and_says_all(run, folder):
    words = ["--valid", "valid.txt", "--Cs", "0.1,1", "--grid", "scaling=none,standard", "--rule", "one-se"]
    done = run("tune", "train.txt", *words, "--criterion", "ndcg@3", "--plot", "choice.svg", "-o", "new.marginrank")
    own = tune(
        Ranker(),
        read_queries("train.txt"),
        valid=read_queries("valid.txt"),
        Cs=[0.1, 1.0],
        grid={"scaling": [None, "standard"]},
        criterion="ndcg@3",
        rule="one-se",
    )
    assert all(line in done.out for line in str(own).splitlines())
    assert np.array_equal(load("new.marginrank").coef_, own.ranker.coef_)
    assert (folder / "choice.svg").read_text().startswith("<?xml")
    quiet = run("tune", "train.txt", *words, "--criterion", "ndcg@3", "--quiet")
    assert quiet.out == f"{own}\n"
    record = run("tune", "train.txt", *words, "--criterion", "ndcg@3", "--json").json
    assert record["selection"] == own.to_dict()
    assert record["output"] is None


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        (["scalling=standard"], "did you mean 'scaling'?"),
        (["scaling"], "NAME=A,B"),
        (["C=1,2"], "--Cs"),
        (["bins=4", "bins=8"], "twice"),
        (["scaling=standart"], "scaling is 'standart'"),
    ],
)
def test_tune_refuses_a_wrong_grid(fails, grid, said):
    words = [word for one in grid for word in ("--grid", one)]
    assert said in fails("tune", "train.txt", *words, "--folds", "2", code=2)


def test_one_query_cannot_choose(fails, folder):
    lines = (folder / "train.txt").read_text().splitlines(keepends=True)[:8]
    (folder / "one.txt").write_text("".join(lines))
    assert "one query cannot be cut into folds" in fails("train", "one.txt", "-o", "new.marginrank", code=1)


def test_a_picture_of_no_known_kind_is_refused_at_once(fails, folder):
    said = fails("tune", "train.txt", "--plot", "a.foo", "-o", "new.marginrank", code=2)
    assert "--plot a.foo: pictures are" in said
    assert not (folder / "new.marginrank").exists()


def test_the_loss_is_named_with_the_bound_that_was_trained(run):
    done = run("train", "train.txt", "--bound", "tight", "-C", "1", "-o", "new.marginrank", "--json")
    assert "bound='tight'" in done.json["model"]["loss"]
