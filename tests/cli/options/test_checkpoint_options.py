"""``--checkpoint`` and ``--resume``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginrank import load


def test_a_checkpoint_is_gone_once_the_model_is_written(folder, run):
    words = ("train", "train.txt", "-C", "1", "--checkpoint", "run.checkpoint")
    assert run(*words, "-o", "one.safetensors").code == 0
    assert not Path("run.checkpoint").exists()
    stopped = run(*words, "-o", "two.safetensors", "--time-limit", "1e-6", "--quiet")
    assert stopped.code == 0
    assert "kept run.checkpoint; run the same command with --resume" in stopped.err
    assert Path("run.checkpoint").exists()
    again = run(*words, "-o", "three.safetensors")
    assert (again.code, "give --resume" in again.err) == (2, True)
    other = run(*words, "-C", "2", "-o", "three.safetensors", "--resume")
    assert (other.code, "C was 1.0 and is 2.0" in other.err) == (1, True)
    assert run(*words, "-o", "three.safetensors", "--resume").code == 0
    assert not Path("run.checkpoint").exists()
    assert np.array_equal(load("one.safetensors").coef_, load("three.safetensors").coef_)


def test_a_search_and_a_start_have_checkpoints_too(folder, run):
    for words in (
        ("tune", "train.txt", "--folds", "2", "--Cs", "0.1,1", "-o", "tuned.safetensors"),
        ("train", "train.txt", "--start-from", "model.safetensors", "-o", "started.safetensors"),
    ):
        done = run(*words, "--checkpoint", "run.checkpoint", "--resume")
        assert done.code == 0, done.err
        assert not Path("run.checkpoint").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--resume"], "--resume requires --checkpoint"),
        (["--checkpoint", "train.txt", "--resume"], "both input and output"),
        (["--checkpoint", "new.safetensors", "--resume"], "name of another file"),
        (["--checkpoint", "missing/run"], "no such folder"),
        (["--checkpoint", "run", "--preset", "rankboost@5"], "no solver that could resume from a checkpoint"),
        (["--checkpoint", "run", "--update", "model.safetensors"], "--update takes one step"),
    ],
)
def test_what_cannot_be_a_checkpoint_is_refused(folder, run, words, says):
    done = run("train", "train.txt", "-o", "new.safetensors", *words)
    assert done.code != 0
    assert says in done.err
    assert not Path("run").exists()
