"""Queries that baselines learn from."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries


@pytest.fixture(scope="session")
def judged():
    """Make queries whose grades 0, 1 and 2 follow the first two features; the third is noise, the fourth constant."""

    def make(n_queries=30, n_documents=8, seed=0, **columns):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n_queries * n_documents, 4))
        X[:, -1] = 1.0
        hidden = X[:, 0] - 0.5 * X[:, 1] + 0.7 * rng.standard_normal(len(X))
        qid = np.repeat(np.arange(n_queries), n_documents)
        return Queries.from_arrays(X, np.digitize(hidden, [0.5, 1.5]), qid=qid, **columns)

    return make
