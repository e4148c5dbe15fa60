"""Ctrl-C and SIGTERM leave a whole model, or none."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from marginrank import load
from marginrank.cli.commands import fuse
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.progress import TrainingProgress
from marginrank.ranker import grid_search
from tests.cli.test_streams import TALKATIVE

#: Lets the training of recommenders go on.
NEVER_SETTLED = "from marginrank.recommend import factorization as f; f.Factorization._settled = lambda *_: False"
ENDLESS = ("--solver", "subgradient", "--tol", "0", "--max-iter", "1000000000")


def send_after(monkeypatch, n_steps, *numbers):
    """Send signals to this process in the iteration of that number, counted over all threads."""
    watch, steps = TrainingProgress.__call__, itertools.count(1)

    def step(self, *arguments):
        if next(steps) == n_steps:
            for number in numbers:
                os.kill(os.getpid(), number)
        return watch(self, *arguments)

    monkeypatch.setattr(TrainingProgress, "__call__", step)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [("-C", "1"), ("--valid", "valid.txt"), ("--folds", "3")], ids=" ".join)
def test_a_signal_keeps_the_best_model_so_far(run, monkeypatch, number, words):
    send_after(monkeypatch, 40, number)
    before = signal.getsignal(number)
    done = run("train", "train.txt", *ENDLESS, *words, "-o", "new.safetensors")
    assert done.code == 130
    assert "by a signal; this is the best model so far" in done.out
    assert done.err.endswith("interrupted; the result is the best so far\n")
    assert load("new.safetensors").coef_.any()
    assert load("new.safetensors").model_.describe()["stopped"] == "interrupted"
    assert "interrupted after" in run("inspect", "new.safetensors").out
    assert signal.getsignal(number) is before
    evaluated = run("evaluate", "test.txt", "new.safetensors", "-m", "ap", "--json").json
    assert evaluated["systems"]["new"]["mean"]["ap"] > 0.6


def test_a_fold_that_began_stands_in_for_what_was_not_trained(run, monkeypatch):
    """Even if it is not the first fold."""
    began, train_path = threading.Event(), grid_search.train_path
    folds = itertools.count()

    def in_turn(*arguments, **options):
        if next(folds) == 0:
            began.wait(60)
        return train_path(*arguments, **options)

    def step(self, *arguments):
        if next(steps) == 20:
            os.kill(os.getpid(), signal.SIGTERM)
            began.set()
        return watch(self, *arguments)

    watch, steps = TrainingProgress.__call__, itertools.count(1)
    monkeypatch.setattr(grid_search, "train_path", in_turn)
    monkeypatch.setattr(TrainingProgress, "__call__", step)
    words = ["--folds", "2", "--n-jobs", "2", "--Cs", "1"]
    done = run("train", "train.txt", *ENDLESS, *words, "-o", "new.safetensors")
    assert done.code == 130
    assert "trained on 15 of 30 queries" in done.out
    assert load("new.safetensors").coef_.any()


def test_a_fold_stands_in_for_what_was_not_trained(run, monkeypatch):
    send_after(monkeypatch, 40, signal.SIGTERM)
    done = run("train", "train.txt", *ENDLESS, "--folds", "3", "-o", "new.safetensors")
    assert "trained on 20 of 30 queries" in done.out
    assert load("new.safetensors").trained_on_["queries"] == 20


@pytest.mark.parametrize("quiet", [(), ("--quiet",)], ids=["", "quiet"])
def test_a_stopped_search_prints_the_partial_table_and_says_so(run, monkeypatch, quiet):
    send_after(monkeypatch, 40, signal.SIGINT)
    words = ["--valid", "valid.txt", "--Cs", "0.1,1,10", "-o", "new.safetensors", *quiet]
    done = run("tune", "train.txt", *ENDLESS, *words)
    assert done.code == 130
    assert "± s.e." in done.out
    assert "chosen" in done.out
    assert "stopped before everything was tried" in done.out
    assert quiet or "by a signal; this is the best model so far" in done.out
    assert load("new.safetensors").model_.selection["complete"] is False


def test_a_stopped_search_keeps_what_was_finished(run, monkeypatch):
    steps = []
    watch = TrainingProgress.__call__

    def step(self, one, theta):
        steps.append(one)
        # The second C has begun, so the first is finished: times begin anew.
        if len(steps) > 1 and one.seconds < steps[-2].seconds and not self.stopping:
            os.kill(os.getpid(), signal.SIGTERM)
            while not self.stopping:  # the signal may take a moment
                time.sleep(0.001)
        return watch(self, one, theta)

    monkeypatch.setattr(TrainingProgress, "__call__", step)
    words = ["--valid", "valid.txt", "--Cs", "0.1,1,10,100,1000", "--n-jobs", "1", "--json"]
    ended = run("tune", "train.txt", *words)
    assert ended.code == 130
    done = ended.json
    assert (done["stopped_early"], done["selection"]["complete"]) == (True, False)
    tried = [one["C"] for one in done["selection"]["candidates"]]
    assert 1 <= len(tried) < 5


@pytest.mark.parametrize("words", [("--valid", "valid.txt"), ("--folds", "2", "--n-jobs", "1")], ids=" ".join)
def test_values_of_C_that_were_not_reached_are_not_listed(run, monkeypatch, words):
    send_after(monkeypatch, 10, signal.SIGINT)  # few, as the first C may reach an exact minimum, by rounding
    done = run("tune", "train.txt", *ENDLESS, *words, "--Cs", "0.1,1,10", "--json")
    assert [one["C"] for one in done.json["selection"]["candidates"]] == [0.1]
    assert done.json["model"]["stopped"] == "interrupted"


@pytest.mark.usefixtures("few_Cs")
def test_an_unfinished_comparison_of_fusions_leaves_nothing(run, folder, monkeypatch):
    send_after(monkeypatch, 3, signal.SIGINT)
    done = run("fuse", "bm25.run", "dense.run", "--qrels", "judged.qrels", "--model", "new.safetensors")
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith("interrupted; nothing was written\n")
    assert not (folder / "new.safetensors").exists()


@pytest.mark.usefixtures("few_Cs")
def test_a_signal_keeps_the_best_fusion_so_far(run, monkeypatch):
    contest = fuse._contest

    def compare_and_send(*arguments):
        compared = contest(*arguments)
        send_after(monkeypatch, 5, signal.SIGTERM)
        return compared

    monkeypatch.setattr(fuse, "_contest", compare_and_send)
    words = ["--qrels", "judged.qrels", "--kinds", "rrf", "--model", "new.safetensors"]
    done = run("fuse", "bm25.run", "dense.run", *words)
    assert done.code == 130
    assert done.err.endswith("interrupted; the fusion is the best so far\n")
    assert "interrupted after" in run("inspect", "new.safetensors").out


def test_weights_of_zero_are_no_model(run, folder, monkeypatch):
    send_after(monkeypatch, 1, signal.SIGINT)
    done = run("train", "train.txt", *ENDLESS, "-C", "1", "-o", "new.safetensors")
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith("interrupted; nothing was written\n")
    assert not (folder / "new.safetensors").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_training_leaves_nothing(run, folder, monkeypatch, number):
    monkeypatch.setattr(ReadingOptions, "read_queries", lambda *_: os.kill(os.getpid(), number))
    before = sorted(folder.iterdir())
    done = run("train", "train.txt", "-o", "new.safetensors")
    assert (done.code, done.out, done.err) == (130, "", "interrupted; nothing was written\n")
    assert sorted(folder.iterdir()) == before


def test_a_signal_while_a_file_is_written_leaves_nothing(run, folder, monkeypatch):
    def half(place, ranked):
        place.write_text("0.5\n")
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("marginrank.cli.ranking_files._WRITERS", {"scores": half})
    before = sorted(folder.iterdir())
    assert run("rank", "model.safetensors", "test.txt", "-o", "new.txt").code == 130
    assert sorted(folder.iterdir()) == before


def test_a_second_signal_ends_at_once(run, folder, monkeypatch):
    send_after(monkeypatch, 40, signal.SIGINT, signal.SIGTERM)
    done = run("train", "train.txt", *ENDLESS, "--valid", "valid.txt", "-o", "new.safetensors")
    assert (done.code, done.out, done.err) == (130, "", "interrupted; nothing was written\n")
    assert not (folder / "new.safetensors").exists()


def begun(words, line):
    """Start a command, and send it SIGINT once it prints such a line; return it when it ended, with its output."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert any(line in printed for printed in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("train", "train.txt", *ENDLESS, "-C", "1", "-o", "new.safetensors"), "passes"),
        (("tune", "train.txt", *ENDLESS, "-o", "new.safetensors"), "passes"),
        (("recommend", "train", "ratings.csv", "--max-iter", "1000000", "-o", "new.safetensors"), "users"),
    ],
    ids=lambda value: value[0],
)
def test_ctrl_c_ends_a_process_with_its_own_code_and_a_model_that_says_so(run, folder, words, line):
    endless = TALKATIVE.replace("; from marginrank.__main__", f"; {NEVER_SETTLED}; from marginrank.__main__")
    code, out, err = begun([sys.executable, "-c", endless, *words], line)
    assert code == 130
    assert err.splitlines()[-1].startswith("interrupted; the ")
    assert out
    assert "interrupted after" in run("inspect", folder / "new.safetensors").out


@pytest.mark.slow
def test_a_process_that_is_told_to_end_writes_its_model(folder):
    words = [sys.executable, "-c", TALKATIVE, "train", "train.txt", *ENDLESS, "-C", "1", "-o", "new.safetensors"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = next(line for line in process.stderr if "passes" in line)
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert line.startswith("C = 1, objective 0.")
    assert process.returncode == 130
    assert "by a signal" in out
    assert np.isfinite(load("new.safetensors").coef_).all()
