"""The number of cutting planes stays below its bound, and each plane gains what the proof says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.bounds import plane_bound
from marginrank.losses import PairwiseHinge, StructuredLoss
from marginrank.solvers import Bundle, NSlack
from marginrank.training.partitioned_risk import empirical_risk


def drawn(seed, n_queries=6, n=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n, 3))
    grades = np.digitize(X[:, 0] + rng.standard_normal(len(X)), [0.0, 1.0])
    return Queries.from_arrays(X, grades, qid=np.repeat(np.arange(n_queries), n))


@pytest.mark.parametrize("loss", [StructuredLoss("ap"), StructuredLoss("ndcg@3", "dorm"), PairwiseHinge()], ids=str)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_planes_are_within_the_bound_and_raise_the_dual_as_the_proof_says(loss, C):
    for seed in range(4):
        queries = drawn(seed)
        risk = empirical_risk(queries, loss)
        bound = plane_bound(queries, loss, C, epsilon=0.05)
        # A block of the risk is ξ/n, so that ε of a query is ε/n of its block.
        solver = NSlack(tol=1e-14, epsilon=0.05 / bound.n, idle=10_000, max_iter=10_000)
        found = solver.minimize(risk, C)
        assert 0 < found.n_planes <= bound.total
        gains = [after.dual - before.dual for before, after in pairwise(found.trace[:-1])]
        assert min(gains, default=np.inf) >= bound.gain - 1e-9
        optimum = Bundle(tol=1e-7).minimize(risk, C)
        assert found.primal <= optimum.primal + C * 0.05 + 1e-9


def test_it_is_the_formula_of_the_theorem():
    queries, loss = drawn(0), StructuredLoss("ap")
    bound = plane_bound(queries, loss, 2.0, 0.1, radius=3.0, largest_loss=0.5)
    assert bound.total == pytest.approx(max(2 * bound.n * 0.5 / 0.1, 8 * 2.0 * 0.5 * 9.0 / 0.01))
    few = plane_bound(queries, loss, 2.0, 0.1, radius=0.01, largest_loss=0.5)
    assert few.total == pytest.approx(2 * few.n * 0.5 / 0.1)
    assert plane_bound(queries, loss, 2.0, 0.1, shared=True, radius=0.01, largest_loss=0.5).total == pytest.approx(10.0)
    assert plane_bound(queries, loss, 2.0, 0.1, radius=0.0, largest_loss=0.5).total == few.total


def test_solutions_say_how_many_planes_they_took():
    queries = drawn(1)
    for solver in (Bundle(), NSlack()):
        solution = Ranker("svmmap", solver=solver).fit(queries).solution_
        assert solution.n_planes >= solution.n_iter - 1
        text = plane_bound(queries, StructuredLoss("ap"), 1.0, 1e-3).beside(solution)
        assert text.startswith(f"{solution.n_planes:,} planes, of at most ")
    assert Ranker("ranksvm-squared").fit(queries).solution_.n_planes is None


def test_what_has_no_bound_is_refused():
    with pytest.raises(ValueError, match="not convex"):
        plane_bound(drawn(0), StructuredLoss("ap", bound="tight"), 1.0, 0.1)
    with pytest.raises(ValueError, match="give numbers above 0"):
        plane_bound(drawn(0), StructuredLoss("ap"), 1.0, 0.0)
