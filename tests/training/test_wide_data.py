"""Training on data with more features than documents."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import Ranker, tune
from marginrank.data.queries import Queries
from marginrank.losses import StructuredLoss
from marginrank.solvers.auto import Auto
from marginrank.solvers.bundle import Bundle
from marginrank.training import empirical_risk, risk


def wide(*, sparse: bool = False, n: int = 200, d: int = 600) -> tuple[object, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    y = np.clip(np.round(X @ rng.standard_normal(d) / d**0.5 + rng.standard_normal(n)), 0, 3).astype(int)
    return (sp.csr_array(np.where(np.abs(X) > 1.5, X, 0.0)) if sparse else X), y, np.arange(n) // 10


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_few_parts_and_many_have_the_same_optimum(sparse, C, monkeypatch):
    X, y, qid = wide(sparse=sparse)
    queries = Queries.from_arrays(X, y, qid=qid)
    loss = StructuredLoss("ndcg@10", "dorm")
    few = Auto(tol=1e-5).minimize(empirical_risk(queries, loss), C)
    monkeypatch.setattr(risk, "count_parts", lambda _: 20)
    many = Bundle(tol=1e-5).minimize(empirical_risk(queries, loss), C)
    assert few.converged
    assert many.converged
    assert few.primal == pytest.approx(many.primal, rel=2e-5)


def test_wide_data_has_few_parts():
    def n_parts(n, d):
        X, y, qid = wide(n=n, d=d)
        return len(empirical_risk(Queries.from_arrays(X, y, qid=qid), StructuredLoss("ap", "po")).parts(np.zeros(d))[0])

    assert n_parts(400, 600) == 8
    assert n_parts(400, 9000) == 1
    assert n_parts(800, 600) == 32


def test_a_large_C_converges_on_wide_data():
    """All multipliers are a small share of C here, as the risk is 0: planes with them are active nonetheless."""
    X, y, qid = wide(n=400, d=600)
    solution = Ranker("ndcg@10", bound="hinge", C=1e4).fit(X, y, qid=qid).solution_
    assert solution.converged
    assert solution.n_iter < 500


def test_a_time_limit_ends_within_a_program():
    X, y, qid = wide(n=400, d=600)
    solution = Ranker("ndcg@10", bound="hinge", C=1e4, time_limit=1e-3).fit(X, y, qid=qid).solution_
    assert solution.reason == "time_limit"
    assert solution.primal >= solution.dual


def test_ctrl_c_ends_a_search_in_other_threads(monkeypatch):
    """Only the main thread is interrupted; the iterations of others end as soon as they look."""
    X, y, qid = wide()
    begun = threading.Event()
    seen: list[float] = []

    def callback(*_):
        seen.append(time.perf_counter())
        begun.set()
        time.sleep(0.001)

    def interrupted(self, work, numbers):
        futures = [self.submit(work, number) for number in numbers]
        begun.wait()
        del futures
        raise KeyboardInterrupt

    monkeypatch.setattr("marginrank.ranker.grid_search.ThreadPoolExecutor.map", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(Ranker("ndcg@10", solver="auto(tol=1e-9)"), X, y, qid=qid, folds=2, n_jobs=1, callback=callback)
    assert len(seen) < 50
