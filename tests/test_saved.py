"""Rankers to files and back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker, load, model_file, tune
from marginrank.losses import PairwiseHinge
from marginrank.model_file import read_model, write_model


def judged(nan=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] + rng.standard_normal(200) > 0.5).astype(float)
    if nan:
        X[::9, 1] = np.nan
    return Queries.from_arrays(
        X, y, qid=np.repeat(np.arange(20), 10), feature_names=["bm25", "age", "häufig"], allow_nan=nan
    )


RANKERS = {
    "linear": Ranker("svmmap", C=3.0),
    "mix": Ranker(measure="ndcg@5 + 0.5*ap", bound="hinge", nonnegative=True),
    "additive": Ranker("ranksvm", scorer="additive", bins=6, monotone={"bm25": "increasing", 2: "decreasing"}),
    "scaled": Ranker("svmauc", scaling="standard"),
    "by query": Ranker("svmauc", scaling="query-percentile", n_jobs=1),
    "tight": Ranker(measure="ndcg@3", bound="tight", start=np.array([1.0, 0.0, 0.0])),
    "own loss": Ranker(loss=PairwiseHinge(margin=2.0)),
}


@pytest.mark.parametrize("name", RANKERS)
def test_a_loaded_ranker_is_the_saved_one(name, tmp_path):
    queries = judged(nan=name == "additive")
    ranker = RANKERS[name].fit(queries)
    ranker.save(tmp_path / "model.marginrank")
    again = load(tmp_path / "model.marginrank")
    assert np.array_equal(again.predict(queries), ranker.predict(queries))
    assert again.feature_names_in_.tolist() == ["bm25", "age", "häufig"]
    for attribute in ("gap_", "objective_", "n_iter_", "bound_", "solver_", "measure_", "loss_", "health_"):
        assert getattr(again, attribute) == getattr(ranker, attribute), attribute
    assert again.trained_on_ == ranker.trained_on_
    assert again.solution_.trace == ranker.solution_.trace
    assert again.score(queries) == ranker.score(queries)
    if name != "own loss":
        assert again.fit(queries).objective_ == pytest.approx(ranker.objective_, rel=1e-4)
    else:
        with pytest.raises(TypeError, match="give a Loss"):
            again.fit(queries)
    with pytest.raises(DataError, match="feature_names differ"):
        again.predict(queries.with_features(queries.X, ["a", "b", "c"]))


def test_the_header_can_be_read_by_anyone(tmp_path):
    path = tmp_path / "model.marginrank"
    chosen = tune(Ranker("svmmap"), judged(), folds=2, Cs=[0.1, 1.0])
    chosen.ranker.save(path)
    with zipfile.ZipFile(path) as file:
        header = json.loads(file.read("header.json"))
    assert header["measure"] == "ap"
    assert header["feature_names"] == ["bm25", "age", "häufig"]
    assert header["gap"] <= 1e-4 * header["objective"]
    assert header["trained_on"]["queries"] == 20
    assert len(header["trained_on"]["fingerprint"]) >= 16
    assert header["package_version"]
    assert len(load(path).selection_["candidates"]) == 2


def test_files_that_contradict_themselves_are_refused(tmp_path):
    path = tmp_path / "model.marginrank"
    Ranker("svmmap").fit(judged()).save(path)
    written, arrays = read_model(path)
    header = {name: value for name, value in written.items() if name not in model_file._OWN_FIELDS}
    for change, message in (
        ({"n_features": 4}, "3 feature names for 4 features"),
        ({"kind": "forest"}, "it holds a forest, not a ranker"),
        ({"stopped": "bored"}, "unknown reason to stop"),
        ({"parameters": {"colour": "red"}}, "colour"),
        ({"trained_on": {}}, "what it was trained on is not said"),
    ):
        write_model(path, {**header, **change}, arrays)
        with pytest.raises(DataError, match=message):
            load(path)
    write_model(path, header, {**arrays, "coef": np.zeros(2)})
    with pytest.raises(DataError, match="weights for 3 parameters"):
        load(path)
    write_model(path, header, {name: array for name, array in arrays.items() if name != "coef"})
    with pytest.raises(DataError, match="coef"):
        load(path)


def test_a_scaling_of_another_width_is_refused(tmp_path):
    path = tmp_path / "model.marginrank"
    Ranker("svmmap", scaling="standard").fit(judged()).save(path)
    written, arrays = read_model(path)
    header = {name: value for name, value in written.items() if name not in model_file._OWN_FIELDS}
    write_model(path, header, {**arrays, "scaler_scale_": np.ones(1)})
    with pytest.raises(DataError, match="numbers of the scaling for 3 features"):
        load(path)


def test_existing_files_can_be_kept(tmp_path):
    ranker = Ranker("svmmap").fit(judged())
    ranker.save(tmp_path / "model")
    with pytest.raises(FileExistsError, match="model"):
        ranker.save(tmp_path / "model", overwrite=False)


SCRIPT = """
import sys, numpy as np
from marginrank import Queries, Ranker
rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 20))
queries = Queries.from_arrays(X, (X[:, 0] + rng.standard_normal(4000) > 1).astype(float), qid=np.arange(4000) // 20)
print("ready", flush=True)
for C in range(1, 10_000):
    Ranker("svmmap", C=float(C), tol=1e-3).fit(queries).save(sys.argv[1])
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killing_training_leaves_a_whole_model_or_none(how, tmp_path):
    delay = float(np.random.default_rng(int(how)).uniform(0.0, 0.6))
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path / "model")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(delay)
    child.send_signal(how)
    time.sleep(0.05)
    child.kill()
    child.wait()
    child.stdout.close()
    files = [file.name for file in tmp_path.iterdir()]
    assert set(files) <= {"model"}
    if files:
        assert load(tmp_path / "model").coef_.shape == (20,)
