"""A model with names, a fusion, and services that rank with them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'marginrank[serve]'")

from marginrank import Queries, Ranker
from marginrank.fusion import Fusion
from marginrank.serving import ServiceLimits, create_app
from tests.serving.client import InProcess
from tests.serving.malformed import NAMES

LIMITS = ServiceLimits(max_documents=50, max_bytes=20_000, timeout=5.0)


def judged(seed=0, names=NAMES):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, len(names))) * [1.0, 10.0, 0.1]
    y = X @ [1.0, 0.1, 5.0] + rng.standard_normal(200) > 1
    return Queries.from_arrays(X, y, qid=np.arange(200) // 10, feature_names=list(names))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Model files by name."""
    folder = tmp_path_factory.mktemp("models")
    Ranker("svmmap").fit(judged()).save(folder / "linear.safetensors")
    Ranker("svmmap", scorer="additive(bins=8)").fit(judged()).save(folder / "additive.safetensors")
    Ranker("svmmap", scaling="query-minmax").fit(judged()).save(folder / "by-query.safetensors")
    Ranker("svmmap", scorer="kernel(rank=20)").fit(judged()).save(folder / "kernel.safetensors")
    runs = judged(1).with_features(judged(1).X[:, :2], ["bm25", "dense"])
    Fusion("minmax", Cs=[1.0]).fit(runs, folds=2).save(folder / "fusion.safetensors")
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture(scope="session")
def clients(models):
    """A client of a service of each model, in this process."""
    return {name: InProcess(create_app(path, LIMITS, reload_every=0)) for name, path in models.items()}
