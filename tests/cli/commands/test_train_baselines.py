"""Baselines on the command line."""

from __future__ import annotations

import pytest

from marginrank import Ranker, load
from marginrank.methods import all_presets
from marginrank.ranker.resolution import resolve

PRESETS = all_presets()

BASELINES = [name for name, preset in PRESETS.items() if preset.kind == "baseline"]


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_trained_inspected_and_ranks(run, name):
    if name == "lambdarank":
        pytest.importorskip("lightgbm", reason="LightGBM is an extra")
    C = ["-C", "1"] if resolve(Ranker(name)).capabilities.takes_C else []
    short = name + "@5" if PRESETS[name].cut else name
    words = ["--preset", short, *C, "--n-jobs", "1"]
    done = run("train", "train.txt", "--valid", "valid.txt", *words, "-o", "b.safetensors", "--json")
    assert done.code == 0, done.err
    assert (done.json["model"]["health"], done.json["model"]["gap"]) == (None, None)
    shown = run("inspect", "b.safetensors").out
    assert "no certificate (baseline)" in shown
    assert "health" not in shown
    assert "bound" not in shown
    assert run("rank", "b.safetensors", "test.txt").code == 0


def test_a_baseline_without_C_is_not_asked_for_one(run, fails):
    fails_with = {
        ("-C", "1"): "-C: --preset rankboost has no C; leave it out",
        ("--Cs", "1,2"): "--Cs: --preset rankboost has no C; leave it out",
    }
    for words, said in fails_with.items():
        assert said in fails("train", "train.txt", "--preset", "rankboost", *words, "-o", "b.safetensors", code=2)
    assert run("train", "train.txt", "--preset", "rankboost@7", "-o", "b.safetensors").code == 0
    assert load("b.safetensors").n_iter_ == 7
    table = run(
        "tune", "train.txt", "--folds", "2", "--preset", "rankboost", "--grid", "method=rankboost@2,rankboost@9"
    )
    assert table.out.count("rankboost@") >= 2
    assert "chosen" in table.out
