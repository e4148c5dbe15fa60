"""``train --start-from`` and ``--update``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginrank import Ranker, load, read
from marginrank.data import write_letor
from tests.ranker.test_partial_fit import judged


@pytest.fixture
def data(folder):
    queries = judged(40)
    write_letor("yesterday.txt", queries[:20])
    write_letor("today.txt", queries[20:])
    Ranker("ranksvm", C=7.0).fit(read("yesterday.txt")).save("yesterday.safetensors")
    return folder


def test_a_model_is_trained_on_with_its_own_method_and_C(data, run):
    before = load("yesterday.safetensors")
    done = run("train", "today.txt", "--start-from", "yesterday.safetensors", "-o", "today.safetensors")
    assert done.code == 0, done.err
    started = load("today.safetensors")
    assert (started.C, started.method, started.model_.solution.C) == (7.0, "ranksvm", 7.0)
    assert np.array_equal(started.model_.scaler.scale_, before.model_.scaler.scale_)
    expected = Ranker("ranksvm", C=7.0).fit(read("today.txt"), start=before)
    assert np.array_equal(started.coef_, expected.coef_)
    words = ("--keep-near", "-C", "2", "--tol", "1e-6")
    done = run("train", "today.txt", "--start-from", "yesterday.safetensors", *words, "-o", "near.safetensors")
    assert done.code == 0, done.err
    near = load("near.safetensors")
    assert near.model_.solution.C == 2.0
    away = near.coef_ - before.coef_
    assert near.objective_ == pytest.approx(0.5 * away @ away + 2.0 * near.solution_.risk)


def test_a_stream_is_updated_from_file_to_file(data, run):
    words = ("train", "today.txt", "--update", "yesterday.safetensors", "-o", "yesterday.safetensors")
    assert "already exists; choose another name, or give --force" in run(*words).err
    done = run(*words, "-f", "--json")
    assert done.code == 0, done.err
    described = done.json["model"]
    expected = Ranker("ranksvm", C=7.0).fit(read("yesterday.txt")).partial_fit(read("today.txt"))
    assert described["trained_on"]["queries"] == 40
    assert described["gap"] is None
    assert np.array_equal(load("yesterday.safetensors").coef_, expected.coef_)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--start-from", "yesterday.safetensors", "--update", "yesterday.safetensors"], "--start-from or --update"),
        (["--keep-near"], "--keep-near requires --start-from"),
        (["--start-from", "yesterday.safetensors", "--preset", "svmmap"], "--preset: --start-from takes it from the"),
        (["--update", "yesterday.safetensors", "--Cs", "1,2"], "--Cs: --update takes it from the model; leave it out"),
        (["--update", "yesterday.safetensors", "--scorer", "additive"], "--scorer: --update takes it from the model"),
        (["--update", "yesterday.safetensors", "--valid", "yesterday.txt"], "--valid is for --start-from"),
        (["--start-from", "yesterday.safetensors", "--patience", "3"], "--patience is for validation queries"),
    ],
)
def test_options_that_mean_nothing_are_refused(data, fails, words, message):
    assert message in fails("train", "today.txt", *words, "-o", "new.safetensors", code=2)


def test_a_batch_without_an_order_leaves_the_model_as_it_was(data, run):
    Path("alike.txt").write_text("".join(f"1 qid:{query} 1:0.5 2:{row}\n" for query in (1, 2) for row in (1, 2)))
    Ranker("svmmap").fit([[1.0, 0.0], [0.0, 1.0]], [1, 0], qid=[1, 1]).save("two.safetensors")
    done = run("train", "alike.txt", "--update", "two.safetensors", "-o", "same.safetensors")
    assert done.code == 0, done.err
    assert "warning: no query has documents of different grades, so the model stays as it was" in done.err
    assert np.array_equal(load("same.safetensors").coef_, load("two.safetensors").coef_)


def test_a_model_that_cannot_go_on_says_so(data, fails):
    Ranker("rankboost@3").fit(read("yesterday.txt")).save("stumps.safetensors")
    for option in ("--start-from", "--update"):
        shown = fails("train", "today.txt", option, "stumps.safetensors", "-o", "new.safetensors", code=2)
        assert "rankboost@3 cannot be trained further; retrain it" in shown
    assert "no such file" in fails("train", "today.txt", "--update", "none.safetensors", "-o", "a", code=1)
