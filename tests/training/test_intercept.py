"""The intercept of regression on grades, against scikit-learn's ridge regression."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from marginrank import Queries, Ranker
from marginrank.distributed import DistributedQueries
from marginrank.losses import MaxLoss, PairwiseHinge, SquaredDifferences, SquaredError, StructuredLoss, SumLoss
from marginrank.scorers import Additive, Kernel
from marginrank.solvers import Bundle, FrankWolfe, Newton, NSlack
from marginrank.training.partitioned_risk import empirical_risk, ranking_risk
from marginrank.training.tight_bound import Tight

C = 20.0


def off_center(seed=0, n_queries=12):
    """Queries of different lengths and weights, whose features and grades are far from 0, rows of all mixed."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(n_queries), rng.integers(1, 9, n_queries)))
    X = rng.standard_normal((len(qid), 4)) + np.array([5.0, -3.0, 0.0, 1.0])
    grades = np.digitize(X @ [1.0, 2.0, -1.0, 0.5], [-2.0, 0.0, 2.0])
    weights = rng.random(n_queries) + 0.2
    return Queries.from_arrays(X, grades, qid=qid, query_weights=weights)


def ridge(X, queries):
    """Minimize ½‖w‖² + C·Σ share·mean ½(x·w + b − g)² over w and b, by scikit-learn."""
    grouped = queries.grouped
    shares = grouped.query_weights / grouped.query_weights.sum()
    weights = C * np.repeat(shares / grouped.lengths, grouped.lengths)
    return Ridge(alpha=1.0).fit(X, grouped.grades, sample_weight=weights).coef_


@pytest.mark.parametrize(
    "solver", [Newton(tol=1e-12), Bundle(tol=1e-8), FrankWolfe(tol=1e-6), NSlack(tol=1e-6)], ids=str
)
def test_every_solver_finds_the_ridge_regression_with_an_intercept(solver):
    queries = off_center()
    trained = Ranker("regression", C=C, scaling=None, solver=solver).fit(queries)
    np.testing.assert_allclose(trained.coef_, ridge(queries.grouped.X, queries), atol=2e-3)


def test_features_that_are_all_moved_change_nothing():
    queries = off_center()
    moved = queries.with_features(queries.X + np.array([100.0, -50.0, 7.0, 0.0]))
    first, other = (Ranker("regression", C=C, scaling=None).fit(part) for part in (queries, moved))
    np.testing.assert_allclose(first.coef_, other.coef_, atol=1e-4)
    assert other.objective_ == pytest.approx(first.objective_, rel=1e-4)


def test_the_risk_is_minimal_over_the_intercept():
    queries, w = off_center(), np.array([0.3, -0.2, 0.1, 0.5])
    grouped = queries.grouped
    without = SquaredError(intercept=False).prepare(grouped)
    shares, scores = without.shares(grouped.query_weights), grouped.X @ w
    values = [shares @ without(scores + b)[0] for b in np.linspace(-5, 5, 2001)]
    value, gradient = empirical_risk(grouped, SquaredError())(w)
    assert min(values) - 1e-5 <= value <= min(values) + 1e-12
    for at, unit in enumerate(1e-6 * np.eye(4)):
        rise = (
            empirical_risk(grouped, SquaredError())(w + unit)[0] - empirical_risk(grouped, SquaredError())(w - unit)[0]
        )
        assert gradient[at] == pytest.approx(rise / 2e-6, abs=1e-7)


@pytest.mark.parametrize("scorer", [Additive(bins=8), Additive(bins=8, shape="steps"), Kernel(rank=6)], ids=str)
def test_parts_blocks_and_products_of_other_scorers(scorer):
    grouped = off_center().grouped
    risk = empirical_risk(grouped, SquaredError(), scorer)
    rng = np.random.default_rng(1)
    theta, direction = rng.standard_normal((2, risk.n_parameters))
    value, gradient = risk(theta)
    values, gradients = risk.parts(theta)
    assert values.sum() == pytest.approx(value)
    np.testing.assert_allclose(gradients.sum(axis=0), gradient, atol=1e-10)
    blocks = [risk.block(number, theta) for number in range(len(grouped))]
    assert sum(part for part, _ in blocks) == pytest.approx(value)
    np.testing.assert_allclose(sum(part for _, part in blocks), gradient, atol=1e-10)
    difference = risk(theta + 1e-5 * direction)[1] - risk(theta - 1e-5 * direction)[1]
    np.testing.assert_allclose(risk.hessian_product(theta, direction), difference / 2e-5, atol=1e-6)


def test_sparse_features_and_partitions_are_the_same():
    queries = off_center()
    exact = ridge(queries.grouped.X, queries)
    sparse = queries.with_features(sp.csr_array(queries.X))
    for other in (sparse, *(DistributedQueries.from_queries(queries, n) for n in (1, 3))):
        ranker = Ranker("regression", C=C, scaling=None, solver=Newton(tol=1e-12)).fit(other)
        np.testing.assert_allclose(ranker.coef_, exact, atol=1e-4)


def test_a_sum_has_the_intercept_of_its_squared_errors():
    grouped, w = off_center().grouped, np.array([0.3, -0.2, 0.1, 0.5])
    pairs, squares = PairwiseHinge(power=2), SquaredError()
    both = empirical_risk(grouped, SumLoss((pairs, squares, squares), (2.0, 0.5, 1.0)))
    counted = grouped.query_weights / grouped.query_weights.sum()
    expected = 2.0 * counted @ pairs.prepare(grouped)(grouped.X @ w)[0] + 1.5 * empirical_risk(grouped, squares)(w)[0]
    assert both(w)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    "loss", [SquaredDifferences(), StructuredLoss("ap"), MaxLoss((SquaredError(),)), SquaredError(intercept=False)]
)
def test_other_losses_have_no_intercept(loss):
    assert loss.prepare(off_center().grouped).constant_terms is None


def test_the_start_of_chapelle_has_it_too():
    grouped = off_center().grouped
    prepared = empirical_risk(grouped, SquaredError()).scorer._scorer
    w0 = Tight(start="regression", start_C=C).center(prepared, Newton())
    np.testing.assert_allclose(w0, ridge(grouped.X, grouped), atol=0.05)
    assert (
        ranking_risk(prepared, SquaredError()).risk_at_center
        < ranking_risk(prepared, SquaredError(intercept=False)).risk_at_center
    )
