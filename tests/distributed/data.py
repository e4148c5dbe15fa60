"""Small judged data, and what is trained on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginrank import Additive, Queries, Ranker

#: Methods with each kind of solver and scorer.
METHODS: dict[str, dict[str, Any]] = {
    "svmmap": {"method": "svmmap"},
    "svmndcg": {"method": "ndcg@5"},
    "ranksvm": {"method": "ranksvm"},
    "newton": {"method": "regression"},
    "query-scaled": {"method": "svmmap", "scaling": "query-minmax", "weighting": "pairs"},
    "additive": {"method": "svmmap", "scorer": Additive(bins=8)},
}


def ranker(name: str, **parameters: Any) -> Ranker:
    """Return an untrained ranker."""
    return Ranker(**METHODS[name], **parameters)


def judged(n_queries: int = 60, seed: int = 0, *, shuffled: bool = True) -> Queries:
    """Make judged queries with ids that are text and rows in any order; features differ in scale and have ties."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, n_queries)
    qid = np.repeat([f"q{number:03}" for number in range(n_queries)], lengths)
    X = rng.standard_normal((len(qid), 5)) * [1.0, 30.0, 0.01, 5.0, 1.0]
    X[:, 4] = X[:, 4].round()
    noise = rng.standard_normal(len(qid))
    y = np.clip((X @ [1.0, 0.03, 50.0, 0.0, 0.5] + noise).round(), 0, 3) + 0.0
    order = rng.permutation(len(qid)) if shuffled else np.arange(len(qid))
    return Queries.from_arrays(X[order].astype(np.float32), y[order], qid=qid[order])
