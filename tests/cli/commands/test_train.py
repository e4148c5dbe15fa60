"""`marginrank train` and `marginrank tune`."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from marginrank import Boosted, Queries, Ranker, load, read, tune
from marginrank.cli.commands.tune import parse_grid
from marginrank.cli.options.method_options import MethodOptions
from marginrank.data import read_queries, write_binary, write_letor, write_parquet
from marginrank.data.fingerprint import fingerprint
from marginrank.losses import StructuredLoss
from marginrank.ranker.resolution import resolve
from marginrank.ranker.selection import selection_table
from marginrank.runtime.option_objects import registered
from marginrank.scorers import Linear
from marginrank.scorers.base import Scorer
from marginrank.solvers import Auto, Bundle
from marginrank.training import Tight
from tests.cli.conftest import judged


def test_train_chooses_C_as_tune_does(run):
    done = run("train", "train.txt", "--valid", "valid.txt", "--preset", "svmauc", "-o", "new.safetensors", "--json")
    train, valid = read_queries("train.txt"), read_queries("valid.txt")
    chosen = tune(Ranker("svmauc"), train, valid=valid)
    assert done.code == 0
    assert done.json["selection"] == chosen.to_dict()
    assert done.json["model"]["C"] == chosen.ranker.C
    assert done.json["output"] == "new.safetensors"
    model = load("new.safetensors")
    assert np.array_equal(model.coef_, chosen.ranker.coef_)
    assert done.json["model"] == model.model_.describe()
    assert model.trained_on_["fingerprint"] == fingerprint(train)


def test_the_scorer_is_chosen_as_tune_does(run, fails):
    words = ["train", "train.txt", "--valid", "valid.txt", "--scorer", "auto", "-o", "new.safetensors"]
    done = run(*words, "--Cs", "0.1,1", "--json")
    chosen = tune(Ranker(scorer="auto"), read_queries("train.txt"), valid=read_queries("valid.txt"), Cs=[0.1, 1.0])
    assert done.code == 0
    assert done.json["selection"] == chosen.to_dict()
    steps = "additive(bins=32, shape=steps)"
    assert [one["scorer"] for one in done.json["selection"]["candidates"]] == ["linear"] * 2 + [steps] * 2
    assert load("new.safetensors").form_.kind == chosen.ranker.form_.kind
    assert "ndcg@10 by scorer: " in run("inspect", "new.safetensors").out
    assert "give --Cs 1 instead of -C 1" in fails(*words, "--force", "-C", "1", code=2)
    assert "name it instead of --scorer auto" in fails(*words, "--force", "--bins", "8", code=2)


def test_train_with_one_C_is_one_fit_with_all_its_options(run):
    words = ["--measure", "ndcg@5", "--feature-map", "dorm", "-C", "3", "--scaling", "standard", "--tol", "1e-6"]
    done = run("train", "train.txt", "valid.txt", *words, "--weighting", "pairs", "-o", "new.safetensors", "--json")
    own = Ranker(StructuredLoss("ndcg@5", "dorm"), C=3.0, scaling="standard", solver=Auto(tol=1e-6), weighting="pairs")
    own.fit(read_queries(["train.txt", "valid.txt"]))
    assert np.array_equal(load("new.safetensors").coef_, own.coef_)
    assert done.json["model"]["objective"] == own.objective_
    assert done.json["model"]["gap"] == own.gap_
    assert done.json["selection"] is None
    assert done.json["data"].startswith("train.txt, valid.txt: 50 queries, 400 documents, 5 features, grades 0 to 2")


def test_validation_queries_decide_when_one_fit_stops(run):
    words = ["--valid", "valid.txt", "--preset", "svmmap", "-C", "1000", "--patience", "2"]
    assert run("train", "train.txt", *words, "-o", "new.safetensors").code == 0
    own = Ranker("svmmap", C=1000.0, patience=2).fit(read_queries("train.txt"), validation=read_queries("valid.txt"))
    assert np.array_equal(load("new.safetensors").coef_, own.coef_)


def test_the_summary_says_what_was_done(run):
    words = ["train", "train.txt", "--folds", "2", "--Cs", "0.1,10", "-o", "new.safetensors"]
    done = run(*words)
    own = tune(Ranker(), read_queries("train.txt"), folds=2, Cs=[0.1, 10.0])
    means = [f"{one.mean:.4f}  {one.standard_error:.4f}" for one in own.candidates]
    means[own.chosen] += "  chosen"
    assert done.out == (
        "data     train.txt: 30 queries, 240 documents, 5 features, grades 0 to 2\n"
        "choice     C  ndcg@10  ± s.e.\n"
        f"         0.1   {means[0]}\n"
        f"          10   {means[1]}\n"
        "         30 queries in 2 folds, policy standard, rule best\n"
        "method   svmmap\n"
        "measure  ndcg@10\n"
        "scorer   linear\n"
        f"C        {own.best.parameters['C']:g}\n"
        f"{done.out.splitlines()[-1]}\n"
    )
    assert done.out.splitlines()[-1].startswith("wrote    new.safetensors, after ")
    done = run(*words, "--details", "--force")
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
    assert "wrote      new.safetensors" in done.out
    assert done.err == ""


def test_a_tight_bound_has_no_certificate(run):
    done = run("train", "train.txt", "-C", "10", "--bound", "tight", "-o", "new.safetensors", "--details")
    assert "no certificate (tight bound)" in done.out
    model = run("inspect", "new.safetensors", "--json").json
    assert model["gap"] is None


def test_a_collapsed_hinge_is_a_line_of_warning(run):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    queries = Queries.from_arrays(X, (rng.random(400) < 0.1).astype(int), group=[40] * 10)
    write_letor("random.txt", queries)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run(
            "train", "random.txt", "--preset", "dorm-mrr", "--bound", "hinge", "-C", "1", "-o", "new.safetensors"
        )
    assert done.code == 0
    # On a busy machine there are lines of progress as well.
    (line,) = (line for line in done.err.splitlines() if not line.startswith("objective "))
    assert line.startswith("warning: the hinge of StructuredLoss")


def test_step_functions_rise_where_they_are_told_to(run):
    words = [
        "--scorer",
        "additive",
        "--shape",
        "steps",
        "--bins",
        "8",
        "--monotone",
        "1=increasing",
        "--monotone",
        "2=decreasing",
        "-C",
        "3",
    ]
    assert run("train", "train.txt", *words, "-o", "new.safetensors").code == 0
    rising, falling, *others = (np.diff(shape.values) for shape in load("new.safetensors").shapes())
    assert (rising >= 0).all()
    assert (falling <= 0).all()
    assert any((steps > 0).any() and (steps < 0).any() for steps in others)


def test_weights_are_kept_from_being_negative_by_name_or_number(run):
    train = judged(30, 0, feature_names=["bm25", "age", "2", "length", "clicks"])
    write_parquet("train.parquet", train)
    free = Ranker("svmmap", C=10.0).fit(train).coef_
    assert free[1] < 0
    words = ["-C", "10", "--nonnegative-feature", "age", "--nonnegative-feature", "2"]
    assert run("train", "train.parquet", *words, "-o", "new.safetensors").code == 0
    own = Ranker("svmmap", C=10.0, scorer=Linear(nonnegative=["age", "2"])).fit(train)
    assert np.array_equal(load("new.safetensors").coef_, own.coef_)
    assert run("train", "train.txt", "-C", "10", "--nonnegative", "-o", "all.safetensors").code == 0
    assert (load("all.safetensors").coef_ >= 0).all()
    assert run("train", "train.txt", "-C", "10", "--nonnegative-feature", "2", "-o", "one.safetensors").code == 0
    assert load("one.safetensors").coef_[1] >= 0


def test_quiet_prints_nothing_and_json_nothing_else(run):
    assert run("train", "train.txt", "-C", "1", "-o", "a.safetensors", "--quiet").out == ""
    done = run("train", "train.txt", "-C", "1", "-o", "b.safetensors", "--quiet", "--json")
    assert done.json["model"]["C"] == 1.0
    assert done.err == ""


def test_missing_values_are_read_as_told(run, fails):
    first, *lines = Path("train.txt").read_text().splitlines(keepends=True)
    grade, query, _, *values = first.split()
    Path("gaps.txt").write_text("".join([f"{grade} {query} 1:NULL {' '.join(values)}\n", *lines]))
    error = fails("train", "gaps.txt", "-C", "1", "-o", "new.safetensors", code=1)
    assert error.startswith("error: gaps.txt:1:")
    assert run("train", "gaps.txt", "-C", "1", "--missing", "zero", "-o", "new.safetensors").code == 0
    assert (
        run("train", "gaps.txt", "-C", "1", "--missing", "nan", "--scorer", "additive", "-o", "b.safetensors").code == 0
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "svmmpa"], "did you mean 'svmmap'?"),
        (["--measure", "ndgc"], "did you mean 'ndcg'?"),
        (["--preset", "svmmap", "--measure", "ap"], "give --preset or --measure"),
        (["--feature-map", "po"], "--feature-map requires --measure"),
        (["--criterion", "mapp"], "unknown measure 'mapp'"),
        (["--policy", "letor5"], "unknown policy 'letor5'"),
        (["--valid", "valid.txt", "--folds", "3"], "--valid or --folds"),
        (["-C", "1", "--folds", "3"], "--folds is for choosing C, and -C fixes it"),
        (["-C", "1", "--Cs", "1,2"], "--Cs is for choosing C"),
        (["-C", "1", "--criterion", "ap"], "--criterion is for choosing C"),
        (["-C", "1", "--policy", "letor4"], "--policy is for choosing C"),
        (["-C", "1", "--rule", "one-se"], "--rule is for choosing C"),
        (["-C", "0"], "C is 0.0; it must be a positive number"),
        (["-C", "1e400"], "-C is inf; it must be a positive number"),
        (["-C", "nan"], "C is nan; it must be a positive number"),
        (["-C", "1e200"], "it must lie between 1e-100 and 1e+100"),
        (["--Cs", "1,1e400"], "--Cs is inf; it must be a positive number"),
        (["--Cs", "1,x"], "separated by commas"),
        (["--Cs", "1,-1"], "--Cs is -1.0; it must be a positive number"),
        (["--patience", "3"], "--patience is for one fit"),
        (["-C", "1", "--patience", "3"], "--patience is for one fit"),
        (["--valid", "valid.txt", "--patience", "3"], "--patience is for one fit"),
        (["--bins", "8"], "--bins requires --scorer additive"),
        (["--spacing", "even"], "--spacing requires --scorer additive"),
        (["--shape", "lines"], "--shape requires --scorer additive"),
        (["--monotone", "increasing"], "--monotone requires --scorer additive"),
        (["--bound", "hinge", "--start", "ranksvm"], "--start requires --bound tight"),
        (["--bound", "hinge", "--start-C", "1"], "--start-C requires --bound tight"),
        (["--bound", "auto", "--anneal", "0"], "--anneal requires --bound tight"),
        (["--nonnegative", "--nonnegative-feature", "1"], "leave out --nonnegative-feature"),
        (["--scorer", "additive", "--nonnegative-feature", "1"], "--nonnegative-feature is for linear weights"),
        (["--groups", "ignore"], "--groups ignore is for sums over ranks and rr with the dorm map"),
        (["--preset", "svmmrr", "--groups", "ignore"], "--groups ignore is for sums over ranks"),
        (["--preset", "rankboost", "--groups", "ignore"], "--groups ignore is for sums over ranks"),
        (["--preset", "rankboost", "--bound", "hinge"], "--bound is for methods with a loss, and rankboost is a"),
        (["--preset", "rankboost", "--start", "ranksvm"], "--start is for methods with a loss"),
        (["--preset", "rankboost", "--solver", "auto"], "--solver is for methods with a loss"),
        (["--preset", "rankboost", "--tol", "0.1"], "--tol is for methods with a loss"),
        (["--preset", "rankboost", "--max-iter", "3"], "--max-iter is for methods with a loss"),
        (["--preset", "rankboost", "--scorer", "additive"], "--scorer is for methods with a loss"),
        (["--preset", "rankboost", "--scorer", "additive", "--bins", "8"], "--scorer is for methods with a loss"),
        (["--preset", "rankboost", "--nonnegative"], "--nonnegative is for methods with a loss"),
        (["--preset", "rankboost", "-C", "1"], "-C: --preset rankboost has no C; leave it out"),
        (["--preset", "rankboost", "--Cs", "1,2"], "--Cs: --preset rankboost has no C; leave it out"),
        (["--preset", "rankboost", "--rule", "one-se"], "--rule is for choosing C, and --preset rankboost has none"),
        (["--preset", "rankboost", "--criterion", "ap"], "--criterion is for choosing C, and --preset rankboost"),
        (["--preset", "rankboost", "--random-state", "3"], "--random-state: nothing is random here; leave it out"),
        (["-C", "1", "--random-state", "0"], "--random-state: nothing is random here; leave it out"),
        (["--valid", "valid.txt", "--random-state", "3"], "--random-state: nothing is random here; leave it out"),
        (["--solver", "bundle(tol=0.1)", "--tol", "0.2"], "--tol is given twice; leave it out, or in --solver"),
        (["--scorer", "additive(bins=8)", "--bins", "9"], "--bins is given twice; leave it out, or in --scorer"),
        (["--scorer", "linear(missing=mean)", "--bins", "9"], "--bins requires --scorer additive"),
        (["--scorer", "boosted", "-C", "1"], "-C: --scorer boosted has no C; leave it out"),
        (["--scorer", "neural", "--Cs", "1,2"], "--Cs: --scorer neural has no C; leave it out"),
        (["--scorer", "boosted", "--tol", "0.1"], "--tol is for scorers that a solver trains, and boosted is not"),
        (["--scorer", "neural", "--solver", "auto"], "--solver is for scorers that a solver trains"),
        (["--scorer", "boosted(start=linear)", "--max-iter", "3"], "--max-iter is for scorers that a solver trains"),
        (["--scorer", "neural", "--start", "ranksvm"], "--start is for scorers that a solver trains"),
        (["--scorer", "boosted", "--patience", "3"], "give --valid, or leave it out"),
        (["--scorer", "boosted", "--criterion", "ap"], "--criterion is for choosing C, and --scorer boosted has none"),
        (
            ["--scorer", "boosted(backend=xgboost)", "--random-state", "3"],
            "--random-state: nothing is random here; leave it out",
        ),
        (["--solver", "bundel"], "did you mean 'bundle'?"),
        (["--solver", "bundle(toll=1)"], "bundle has no parameter 'toll'"),
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
    assert said in fails("train", "train.txt", *words, "-o", "new.safetensors", code=1 if said == "folds is 1" else 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.txt", "-o", "new.safetensors"], "nowhere.txt: no such file"),
        (["train.txt", "--valid", "nowhere.txt", "-o", "new.safetensors"], "nowhere.txt: no such file"),
        (
            ["train.txt", "-o", "model.safetensors"],
            "model.safetensors: already exists; choose another name, or give --force",
        ),
        (["train.txt", "-o", "nowhere/new.safetensors"], "nowhere: no such folder"),
        (["train.txt", "-o", "train.txt", "--force"], "both input and output"),
        (["train.txt", "-o", ".", "--force"], "folder"),
        (["model.safetensors", "-o", "new.safetensors"], "model.safetensors"),
        (["scores.txt", "-o", "new.safetensors"], "scores.txt:"),
    ],
)
def test_wrong_files_are_refused_by_name(fails, words, said):
    assert said in fails("train", *words, code=1)


def test_outputs_are_refused_before_any_work(run, fails, monkeypatch):
    monkeypatch.setattr(
        "marginrank.cli.options.reading_options.ReadingOptions.read", lambda *_, **__: pytest.fail("data was read")
    )
    assert "exists" in fails("train", "train.txt", "-o", "model.safetensors", code=1)
    assert "exists" in fails("tune", "train.txt", "--plot", "scores.txt", code=1)
    assert "exists" in fails("rank", "model.safetensors", "test.txt", "-o", "scores.txt", code=1)
    assert "exists" in fails("evaluate", "test.txt", "scores.txt", "--per-query", "-o", "train.txt", code=1)
    assert "exists" in fails("convert", "train.txt", "valid.txt", "test.txt", code=1)


def test_force_replaces_a_file(run, folder):
    before = (folder / "model.safetensors").read_bytes()
    assert run("train", "train.txt", "-C", "2", "-o", "model.safetensors", "--force").code == 0
    assert (folder / "model.safetensors").read_bytes() != before


def test_validation_data_has_the_features_of_the_training_data(fails):
    write_letor("other.txt", judged(20, 1).with_features(np.ones((160, 3))))
    assert "other.txt: 3 features, but the training data has 5" in fails(
        "train", "train.txt", "--valid", "other.txt", "-o", "new.safetensors", code=1
    )


def test_training_reads_all_forms_of_data(run):
    train = read_queries("train.txt")
    write_binary("train.queries", train)
    np.savez("train.npz", X=train.X, y=train.grades, group=train.lengths)
    for name in ("train.txt", "train.queries", "train.npz"):
        assert run("train", name, "-C", "1", "-o", f"{name}.safetensors").code == 0
    first, *others = (load(f"{name}.safetensors").coef_ for name in ("train.txt", "train.queries", "train.npz"))
    assert all(np.array_equal(first, other) for other in others)


def test_tune_tries_a_grid_and_says_all(run, folder):
    words = ["--valid", "valid.txt", "--Cs", "0.1,1", "--grid", "scaling=none,standard", "--rule", "one-se"]
    done = run(
        "tune",
        "train.txt",
        *words,
        "--criterion",
        "ndcg@3",
        "--plot",
        "choice.svg",
        "-o",
        "new.safetensors",
        "--details",
    )
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
    assert np.array_equal(load("new.safetensors").coef_, own.ranker.coef_)
    assert (folder / "choice.svg").read_text().startswith("<?xml")
    quiet = run("tune", "train.txt", *words, "--criterion", "ndcg@3", "--quiet")
    assert quiet.out == f"{selection_table(own.to_dict(), details=False)}\n"
    assert "slack" not in quiet.out
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
        (["scaling=standart"], "unknown scaling 'standart'; did you mean 'standard'?"),
    ],
)
def test_tune_refuses_a_wrong_grid(fails, grid, said):
    words = [word for one in grid for word in ("--grid", one)]
    assert said in fails("tune", "train.txt", *words, "--folds", "2", code=2)


def test_one_query_cannot_choose(fails, folder):
    lines = (folder / "train.txt").read_text().splitlines(keepends=True)[:8]
    (folder / "one.txt").write_text("".join(lines))
    assert "one query cannot be split into folds" in fails("train", "one.txt", "-o", "new.safetensors", code=1)


def test_a_picture_of_no_known_kind_is_refused_at_once(fails, folder):
    said = fails("tune", "train.txt", "--plot", "a.foo", "-o", "new.safetensors", code=2)
    assert "--plot a.foo: unknown suffix; plots can be" in said
    assert not (folder / "new.safetensors").exists()


def test_options_of_a_spelled_solver_are_kept(run):
    words = ["train", "train.txt", "-C", "10"]
    assert run(*words, "--solver", "bundle(tol=1e-9)", "-o", "a.safetensors").code == 0
    assert run(*words, "--solver", "bundle", "--tol", "1e-9", "-o", "b.safetensors").code == 0
    assert run(*words, "--solver", "bundle", "--tol", "0.1", "-o", "c.safetensors").code == 0
    own = Ranker("svmmap", C=10.0, solver=Bundle(tol=1e-9)).fit(read_queries("train.txt"))
    exact, too, rough = (load(f"{name}.safetensors") for name in "abc")
    assert np.array_equal(exact.coef_, own.coef_)
    assert np.array_equal(too.coef_, own.coef_)
    assert exact.gap_ <= 1e-9 * exact.objective_ < rough.gap_


def test_a_preset_keeps_its_own_start_of_the_tight_bound(run):
    words = ["train", "train.txt", "--preset", "chapelle-ndcg@5", "-C", "1"]
    wanted = {
        (): Tight(start="regression"),
        ("--bound", "tight"): Tight(start="regression"),
        ("--anneal", "2"): Tight(start="regression", anneal=2),
        ("--start", "ranksvm"): Tight(start="ranksvm"),
        ("--groups", "ignore"): Tight(start="regression"),
    }
    for number, (more, bound) in enumerate(wanted.items()):
        assert run(*words, *more, "-o", f"{number}.safetensors").code == 0
        own = Ranker("chapelle-ndcg@5", bound=bound, C=1.0).fit(read_queries("train.txt"))
        assert np.array_equal(load(f"{number}.safetensors").coef_, own.coef_), more
    assert not np.array_equal(load("0.safetensors").coef_, load("3.safetensors").coef_)


def test_document_groups_of_a_table_are_trained_with_unless_ignored(run, folder):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    train = judged(30, 0)
    order = np.random.default_rng(0).permutation(train.n_documents)
    columns = {f"f{k}": train.X[order, k] for k in range(5)}
    columns |= {
        "grade": train.grades[order],
        "topic": [f"q{query}" for query in np.repeat(train.query_ids, train.lengths)[order]],
        "site": [f"s{row % 3}" for row in order],
    }
    parquet.write_table(pa.table(columns), "grouped.parquet")
    words = ["--preset", "dorm-ndcg@3", "--bound", "tight", "-C", "10", "--qid", "topic", "--grade", "grade"]
    features = [word for k in range(5) for word in ("--feature", f"f{k}")]
    grouped = [*words, *features, "--document-group", "site"]
    assert run("train", "grouped.parquet", *grouped, "-o", "with.safetensors").code == 0
    assert run("train", "grouped.parquet", *grouped, "--groups", "ignore", "-o", "ignored.safetensors").code == 0
    assert run("train", "grouped.parquet", *words, *features, "-o", "without.safetensors").code == 0
    found, ignored, without = (load(f"{name}.safetensors").coef_ for name in ("with", "ignored", "without"))
    assert np.array_equal(ignored, without)
    assert not np.allclose(found, without, rtol=0.01)
    queries = read("grouped.parquet", qid="topic", document_group="site")
    own = Ranker("dorm-ndcg@3", bound="tight", C=10.0).fit(queries)
    assert np.array_equal(found, own.coef_)


def test_a_time_limit_ends_the_choice_and_is_named(run):
    words = ["--solver", "subgradient", "--tol", "0", "--max-iter", "1000000000", "--time-limit", "0.5"]
    done = run("train", "train.txt", "--folds", "2", *words, "-o", "new.safetensors")
    assert done.code == 0
    assert "by the time limit; this is the best model so far, trained on 15 of 30 queries" in done.out
    assert load("new.safetensors").model_.selection["complete"] is False
    once = run("train", "train.txt", "-C", "1", *words, "-o", "once.safetensors")
    assert "stopped at the time limit after" in once.out


def test_the_loss_is_named_with_the_bound_that_was_trained(run):
    done = run("train", "train.txt", "--bound", "tight", "-C", "1", "-o", "new.safetensors", "--json")
    assert done.json["model"]["bound"] == "tight"
    assert "bound='tight'" in done.json["model"]["trained"]


@pytest.mark.parametrize(
    "words",
    [
        ["--preset", "prank@2", "--random-state", "3"],
        ["--solver", "frank-wolfe", "-C", "1", "--random-state", "3"],
        ["--scorer", "additive(bins=8)", "--shape", "steps", "-C", "1"],
        ["--scorer", "linear(missing=mean)", "--nonnegative", "-C", "1"],
    ],
)
def test_options_that_mean_something_together_are_taken(run, words):
    assert run("train", "train.txt", *words, "-o", "new.safetensors").code == 0


@pytest.mark.parametrize("part", ["preset best-feature", "scorer boosted", "scorer neural"])
def test_there_is_something_to_choose(fails, part):
    said = fails("tune", "train.txt", *f"--{part}".split(), code=2)
    assert f"--{part} has no C, so there is nothing to choose" in said


def test_trees_are_trained_once_until_validation_queries_stop_them(run):
    pytest.importorskip("lightgbm", reason="LightGBM is an extra")
    words = ["--scorer", "boosted(trees=5,leaves=4)", "--valid", "valid.txt", "--patience", "2"]
    done = run("train", "train.txt", *words, "-o", "new.safetensors", "--json")
    assert done.code == 0, done.err
    assert done.json["selection"] is None
    shown = run("inspect", "new.safetensors").out
    assert not re.search(r"^C ", shown, re.MULTILINE)
    assert re.search(r"^C +10$", run("inspect", "model.safetensors").out, re.MULTILINE)
    assert (
        run("report", "test.txt", "new.safetensors", "model.safetensors", "--json").json["models"][0]["record"]["C"]
        is None
    )
    own = Ranker(scorer=Boosted(trees=5, leaves=4), patience=2)
    own.fit(read_queries("train.txt"), validation=read_queries("valid.txt"))
    assert np.array_equal(load("new.safetensors").coef_, own.coef_)


def test_a_grid_names_the_parameters_of_every_scorer():
    for kind in registered(Scorer).values():
        for field in fields(kind):
            assert parse_grid([f"{field.name}=1"]), (kind, field.name)
            assert parse_grid([f"scorer__{field.name}=1"]) == {f"scorer__{field.name}": [1]}


@pytest.mark.parametrize("scorer", registered(Scorer))
def test_where_C_has_no_effect_it_is_not_taken(scorer):
    """What the command line says of a scorer is what the estimator does."""
    if scorer in ("boosted", "neural"):
        pytest.importorskip({"boosted": "lightgbm", "neural": "torch"}[scorer])
    scorer = "adaptive(context=0)" if scorer == "adaptive" else scorer
    method = MethodOptions(scorer=scorer)
    queries = judged(10, 0)
    expected = nullcontext() if method.has_C else pytest.warns(UserWarning, match="has no C")
    with expected:
        weak, strong = (Ranker(scorer=scorer, C=C).fit(queries).predict(queries) for C in (0.001, 1000.0))
    assert method.has_C == (not np.array_equal(weak, strong)) == resolve(Ranker(scorer=scorer)).capabilities.takes_C


def test_sparse_text_is_read_for_methods_that_need_dense_features(run, folder):
    rows = [f"{row % 2} qid:{row // 4} {1 + row % 2}:1 {3 + row}:0.5" for row in range(40)]
    (folder / "sparse.txt").write_text("\n".join(rows) + "\n")
    words = [["--preset", "rankboost@3"], ["--scorer", "additive", "-C", "1"], ["--scaling", "query-minmax", "-C", "1"]]
    for number, options in enumerate(words):
        model = f"m{number}.safetensors"
        assert run("train", "sparse.txt", *options, "-o", model).code == 0
        for reader in (["rank", model, "sparse.txt"], ["evaluate", "sparse.txt", model]):
            assert run(*reader).code == 0
        assert run("explain", model, "sparse.txt", "--query", "0").code == 0
