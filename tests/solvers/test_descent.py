"""Descent on risks that are not convex: never up, to points that are minima, and no worse than the other solver."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.data import read_letor
from marginrank.losses import StructuredLoss
from marginrank.preparation import Standardize
from marginrank.scorers import Linear
from marginrank.solvers import Auto, Bundle, ConcaveConvex, Descent, FunctionProblem
from marginrank.training import Tight
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk

#: How much higher than that of the concave-convex procedure the objective may be on average: both end at some local
#: minimum, and in which one is a matter of rounding.
MARGIN = 0.01


def judged(n_queries=30, n_documents=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 5))
    y = np.digitize(X @ [1.0, -0.5, 0.3, 0.0, 0.0] + 1.5 * rng.standard_normal(len(X)), [1.0, 2.2])
    return Queries.from_arrays(X, y, group=[n_documents] * n_queries)


def tight(queries, feature_map="dorm", start="ranksvm"):
    """The risk of the tight bound near where its training begins."""
    prepared = Linear().prepare(queries)
    center = Tight(start=start).center(prepared, Auto())
    return RankingRisk(prepared, StructuredLoss("ndcg@5", feature_map, "tight"), center=center)


def descend(problem, C, start, **options):
    """Minimize, and see to it that the objective at the points on the way never rises."""
    seen = []

    def callback(step, theta):
        seen.append(problem.objective(theta, problem(theta)[0], C))
        assert seen[-1] == pytest.approx(step.primal, rel=1e-12)

    found = Descent(**options, callback=callback).minimize(problem, C, start)
    assert len(seen) == found.n_iter
    assert all(before >= after for before, after in pairwise(seen))
    assert seen[0] == pytest.approx(problem.objective(problem.inside(start), problem(problem.inside(start))[0], C))
    return found


@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("feature_map", ["dorm", "po"])
def test_it_is_no_worse_than_the_concave_convex_procedure(feature_map, C):
    ratios, passes = [], []
    for seed in range(5):
        risk = tight(judged(seed=seed), feature_map)
        first, found = ConcaveConvex().minimize(risk, C, risk.origin), descend(risk, C, risk.origin)
        assert found.reason == "stationary"
        assert found.gap == np.inf
        assert found.primal == pytest.approx(risk.objective(found.theta, risk(found.theta)[0], C), rel=1e-12)
        if C > 1:
            assert found.primal < 0.97 * found.trace[0].primal
        ratios.append(found.primal / first.primal)
        passes.append(found.passes / first.passes)
    # Which local minimum one of them ends in, and how soon, is a matter of rounding.
    assert np.mean(ratios) <= 1 + MARGIN
    assert max(ratios) <= 1 + 4 * MARGIN
    assert np.mean(passes) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("start", "C"), [("regression", 1.0), ("ranksvm", 10.0)])
def test_ohsumed(start, C, shared_data):
    queries = read_letor(shared_data("letor3-ohsumed") / "QueryLevelNorm" / "S1.txt.xz")
    risk = tight(Standardize().fit_transform(queries), start=start)
    first, found = ConcaveConvex().minimize(risk, C, risk.origin), descend(risk, C, risk.origin)
    # Both end in some local minimum, and in which one is a matter of rounding.
    assert found.primal <= first.primal * 1.05


def valley(theta):
    """Four hills and valleys along each axis, by pieces of lines: |θ|/4 and a zigzag of period 2 and height 1."""
    place = np.mod(theta, 2.0)
    zigzag, slope = np.where(place < 1, place, 2 - place), np.where(place < 1, 1.0, -1.0)
    return np.abs(theta) / 4 + zigzag, np.diag(np.sign(theta) / 4 + slope)


@pytest.mark.parametrize("start", [(0.7, -0.4), (3.3, 1.4), (-2.7, 5.2), (1.0, 1.0), (6.0, -6.0)])
@pytest.mark.parametrize("C", [0.5, 5.0, 100.0])
def test_the_end_is_a_local_minimum(start, C):
    majorant = FunctionProblem(lambda theta: (np.abs(theta).sum() * 2, 2 * np.sign(theta)), 2)
    problem = FunctionProblem(valley, 2, convex=False, majorant=majorant)
    found = descend(problem, C, np.array(start), tol=1e-10)
    assert found.reason == "stationary"
    around = found.theta + 1e-3 * np.random.default_rng(0).standard_normal((500, 2))
    lowest = min(0.5 * theta @ theta + C * valley(theta)[0].sum() for theta in around)
    assert found.primal <= lowest + 1e-6


def test_a_convex_risk_has_its_certificate():
    risk = empirical_risk(judged(), StructuredLoss("ap"))
    best = Bundle(tol=1e-9).minimize(risk, 5.0)
    found = Descent(tol=1e-6).minimize(risk, 5.0)
    assert found.converged
    assert found.dual - 1e-12 <= best.primal <= found.primal + best.gap + 1e-12
    assert found.primal <= best.primal * (1 + 1e-6)


def test_signs_are_kept_to():
    risk = tight(judged())
    risk.signs = np.array([1, 1, 0, -1, 0])
    found = descend(risk, 10.0, risk.origin)
    assert (risk.signs * found.theta >= 0).all()
    free = Descent().minimize(tight(judged()), 10.0, risk.origin)
    assert found.primal >= free.primal * 0.99


def test_rankers_take_it_by_name():
    queries = judged()
    ranker = Ranker("chapelle-ndcg@5", solver="descent(tol=1e-3)", C=10.0).fit(queries)
    assert (ranker.model_.method.solver, ranker.model_.method.bound) == ("descent", "tight")
    path = Ranker("chapelle-ndcg@5", solver="descent").fit_path(queries, Cs=[10.0, 1.0])
    assert [one.solution_.C for one in path] == [10.0, 1.0]
    with pytest.raises(ValueError, match="anneal is for the solver 'cccp', and this one is 'descent'; leave it out"):
        Ranker(measure="ndcg@5", bound=Tight(anneal=3), solver="descent").fit(queries)


def test_limits_and_interrupts_leave_the_best_point(monkeypatch):
    risk = tight(judged(60, 20))
    short = Descent(max_iter=3).minimize(risk, 100.0, risk.origin)
    assert (short.n_iter, short.reason) == (3, "max_iter")
    timed = Descent(time_limit=1e-9).minimize(risk, 100.0, risk.origin)
    assert timed.reason == "time_limit"
    assert np.isfinite(timed.primal)
    calls, evaluate = [], type(risk).parts

    def interrupted(self, theta):
        calls.append(theta)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return evaluate(self, theta)

    monkeypatch.setattr(type(risk), "parts", interrupted)
    found = Descent().minimize(risk, 100.0, risk.origin)
    assert found.reason == "interrupted"
    assert found.primal < found.trace[0].primal
