"""The tight bound of a shared slack, against all rankings."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.losses import MaxLoss, StructuredLoss, parse_map
from marginrank.measures import parse_measure
from marginrank.solvers import ConcaveConvex, Descent
from marginrank.training.loss_minimizer import CollapseWarning
from marginrank.training.partitioned_risk import empirical_risk

from .exhaustive import EveryRanking

PARTS = (("ap", "po"), ("ndcg@2", "dorm"), ("rr@3", "mrr"))
TIGHT = MaxLoss(tuple(StructuredLoss(measure, feature_map, "tight") for measure, feature_map in PARTS))


def bounds_of(grades, scores):
    """Hinge and tight bound of each part, from all rankings; y* of φdorm does not matter to the tight bound."""
    parts = [EveryRanking(parse_measure(measure), parse_map(phi), grades).bounds(scores) for measure, phi in PARTS]
    return np.array(parts).T


def drawn(rng):
    n = int(rng.integers(2, 7))
    return rng.integers(0, 2, n).astype(float), rng.normal(0, rng.choice([0.1, 1.0, 3.0]), n).round(2)


def test_it_is_the_largest_of_the_tight_bounds_of_all_rankings():
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(400):
        grades, scores = drawn(rng)
        expected = bounds_of(grades, scores)[1].max()
        worst = max(worst, abs(TIGHT(grades, scores)[0][0] - expected))
    assert worst < 1e-12


def test_the_majorant_is_the_convex_function_of_its_formula():
    """max_l (h_l + Σ_{m≠l} e_m), and its subgradient never lies above it."""
    rng, worst = np.random.default_rng(1), 0.0
    ordered = MaxLoss(tuple(StructuredLoss(m, f, "tight", ideal="rows") for m, f in PARTS))
    for _ in range(400):
        grades, scores = drawn(rng)
        hinges, tights = bounds_of(grades, scores)
        excess = hinges - tights
        expected = (hinges + excess.sum() - excess).max()
        above = ordered.majorant.prepare(grades)
        (value,), gradient = above(scores)
        worst = max(worst, abs(value - expected))
        other = scores + rng.normal(0, 1, len(scores))
        assert above(other)[0][0] >= value + gradient @ (other - scores) - 1e-9
    assert worst < 1e-12


def collapsing(n_queries=30, n=12):
    """Queries with so much noise that the hinge of NDCG@2 is minimal at 0."""
    rng = np.random.default_rng(5)
    qid = np.repeat(np.arange(n_queries), n)
    grades = (np.arange(len(qid)) % n < 3).astype(int)
    X = 0.3 * grades[:, None] + rng.standard_normal((len(qid), 6))
    return Queries.from_arrays(X, grades, qid=qid)


@pytest.mark.parametrize("solver", [ConcaveConvex(), Descent()], ids=str)
def test_training_lowers_the_objective_from_its_start(solver):
    queries = collapsing()
    risk = empirical_risk(queries, TIGHT)
    start = np.full(6, 0.5)
    found = solver.minimize(risk, 10.0, start)
    at_start = 0.5 * start @ start + 10.0 * risk(start)[0]
    assert found.primal < 0.99 * at_start
    assert found.primal == pytest.approx(0.5 * found.theta @ found.theta + 10.0 * risk(found.theta)[0])


def test_the_preset_falls_back_to_it():
    queries = collapsing()
    with pytest.warns(CollapseWarning, match="training the tight bound instead"):
        ranker = Ranker("svmcombo-shared@2", C=100.0).fit(queries)
    assert ranker.model_.method.bound == "tight"
    assert np.linalg.norm(ranker.coef_) > 0.1
    with pytest.warns(CollapseWarning, match="the weights are near 0"):
        Ranker("svmcombo-shared@2", C=100.0, bound="hinge").fit(queries)
