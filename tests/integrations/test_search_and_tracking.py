"""The snippets for Optuna and MLflow in the page on tuning, run as they are printed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from marginrank import Queries, Ranker


@pytest.fixture
def names():
    """What the snippets start from: training and validation queries."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    judged = Queries.from_arrays(X, X[:, 0] + rng.standard_normal(300) > 1, qid=np.arange(300) // 10)
    train, valid = judged.split(0.7, 0.3)
    return {"Ranker": Ranker, "train": train, "valid": valid}


def snippet(pytestconfig, library):
    """Return the block of the page that imports a library."""
    page = (pytestconfig.rootpath / "docs" / "tune.md").read_text(encoding="utf-8")
    (block,) = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if f"import {library}" in block]
    return block


def test_optuna_finds_the_best_of_its_trials(names, pytestconfig):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")
    exec(snippet(pytestconfig, "optuna"), names)
    study = names["study"]
    values = [Ranker("svmmap", **trial.params).fit(names["train"]).score(names["valid"]) for trial in study.trials]
    assert study.best_value == max(values)
    assert names["ranker"].score(names["valid"]) == study.best_value
    assert len(values) == 20


def test_mlflow_has_parameters_values_and_the_model(names, pytestconfig, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install mlflow-skinny")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # files, so that no database is needed
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    exec(snippet(pytestconfig, "mlflow"), names)
    logged = mlflow.get_run(names["active"].info.run_id).data
    assert float(logged.params["C"]) == 1.0
    assert logged.metrics["ndcg_10"] == names["result"].mean["ndcg@10"]
    assert list((tmp_path / "runs").rglob("artifacts/model.safetensors"))
