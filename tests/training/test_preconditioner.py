"""Preconditioners from a sample of the documents, against Hessians that are added up from products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from marginrank import Queries
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, SquaredError, SumLoss
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.linear.scorer import Linear
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.newton import Newton
from marginrank.training import preconditioner as curvature
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.preconditioner import HessianByDocuments, HessianByParameters, draw, sampled_hessian
from marginrank.training.risk import RankingRisk

LOSSES = [
    PairwiseHinge(power=2),
    SoftmaxCrossEntropy(),
    SquaredError(),
    SumLoss((PairwiseHinge(power=2), SoftmaxCrossEntropy()), (2.0, 0.5)),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def some_queries(n_queries=30, length=6, d=5, seed=0):
    rng = np.random.default_rng(seed)
    grades = np.concatenate([rng.permutation(np.arange(length) % 3) for _ in range(n_queries)])
    X = rng.standard_normal((n_queries * length, d)) @ rng.standard_normal((d, d))
    weights = rng.random(n_queries) + 0.5
    return Queries.from_arrays(X, grades, group=[length] * n_queries, query_weights=weights)


def hessian_of(risk, theta):
    return np.array([risk.hessian_product(theta, unit) for unit in np.eye(len(theta))])


@every_loss
@pytest.mark.parametrize("sparse", [False, True])
def test_with_all_documents_in_the_sample_it_is_the_inverse(loss, sparse):
    queries = some_queries()
    if sparse:
        queries = queries.with_features(scipy.sparse.csr_array(queries.X))
    risk, C = empirical_risk(queries, loss), 7.0
    assert risk.preconditioner_passes(C) == 1.0
    theta, vector = np.linspace(-1.0, 1.0, 5), np.arange(5.0) - 1.0
    expected = np.linalg.solve(np.eye(5) + C * hessian_of(risk, theta), vector)
    np.testing.assert_allclose(risk.preconditioner(theta, C)(vector), expected, rtol=1e-9)


@every_loss
def test_by_documents_it_is_the_inverse_with_more_than_the_identity(loss):
    queries, C = some_queries(6, 5, 8), 50.0
    scorer = Additive(bins=64).prepare(queries)
    risk = RankingRisk(scorer, loss)
    sample = draw(scorer, risk.weights, C)
    assert len(sample.documents) == 30 < scorer.n_parameters
    theta = np.random.default_rng(1).standard_normal(scorer.n_parameters)
    vector = np.cos(np.arange(scorer.n_parameters))
    expected = np.linalg.solve(8.0 * np.eye(len(theta)) + C * hessian_of(risk, theta), vector)
    sampled = sampled_hessian(scorer, loss, risk.weights, sample)
    assert isinstance(sampled, HessianByDocuments)
    # Products of rows are kept in single precision.
    np.testing.assert_allclose(sampled.inverse(theta, C)(vector), expected, atol=2e-4)


@pytest.mark.parametrize("few", [0, 32, 10**9])
@pytest.mark.parametrize("shape", ["steps", "lines"])
def test_products_of_rows_are_those_of_the_columns_of_parameters(shape, few, monkeypatch):
    queries, numbers = some_queries(20, 5, 4), np.arange(0, 100, 3)
    X = np.array(queries.X)
    X[::7, 2] = np.nan
    gaps = Queries.from_arrays(X, queries.grades, group=queries.lengths, allow_nan=True)
    scorer = Additive(bins=200, shape=shape).prepare(gaps)
    rows = scorer.bins.columns(X[numbers]).toarray()
    monkeypatch.setattr(curvature, "_DENSE_SPEEDUP", few)
    products = curvature._products(scorer, curvature._coefficients(scorer, numbers))
    np.testing.assert_allclose(products, rows @ rows.T, rtol=1e-5, atol=1e-5 * np.abs(rows @ rows.T).max())


def test_products_of_sparse_features_with_more_rows_than_are_taken_together():
    rng = np.random.default_rng(3)
    X = scipy.sparse.random_array((90, 400), density=0.02, rng=rng, format="csr")
    queries = Queries.from_arrays(X, np.tile([1, 0, 2], 30), group=[3] * 30)
    numbers = np.arange(1, 90)
    scorer = Linear().prepare(queries)
    products = curvature._products(scorer, curvature._coefficients(scorer, numbers))
    expected = X[numbers].toarray() @ X[numbers].toarray().T
    np.testing.assert_allclose(products, expected, rtol=1e-5, atol=1e-6)


def test_scores_from_before_count():
    queries, loss = some_queries(), SoftmaxCrossEntropy()
    base = np.random.default_rng(2).standard_normal(queries.n_documents)
    risk = RankingRisk(Linear().prepare(queries), loss, base=base)
    theta = np.ones(5)
    expected = np.linalg.solve(np.eye(5) + 3.0 * hessian_of(risk, theta), theta)
    np.testing.assert_allclose(risk.preconditioner(theta, 3.0)(theta), expected, rtol=1e-9)


def test_long_lists_are_thinned_out_before_queries_are_left_out():
    queries = some_queries(100, 40, 5)
    sample = draw(Linear().prepare(queries), np.where(np.arange(100) < 50, 0.02, 0.0), 1.0)
    # 50 documents for each of 5 parameters, at most 8 of a list and so every fifth; queries without weight have none.
    assert sample.queries.tolist() == list(range(0, 50, 2))
    assert sample.documents[:9].tolist() == [0, 5, 10, 15, 20, 25, 30, 35, 80]
    assert sample.offsets.tolist() == list(range(0, 201, 8))


def test_with_few_parameters_a_sample_asks_nothing_of_all_features():
    scorer = Linear().prepare(some_queries())
    draw(scorer, np.ones(30), 1.0)
    assert "spread" not in vars(scorer)


def test_the_weights_of_a_sample_add_up_to_those_of_all():
    queries = some_queries(200, 40, 3)
    risk = empirical_risk(queries, SquaredError())
    sample = draw(risk.scorer, risk.weights, 1.0)
    sampled = sampled_hessian(risk.scorer, SquaredError(), risk.weights, sample)
    assert isinstance(sampled, HessianByParameters)
    X, shares = queries.X[sample.documents] - np.repeat(risk.weights / 40, 40) @ queries.X, risk.weights[sample.queries]
    expected = X.T @ (np.repeat(shares / shares.sum() / 8, 8)[:, None] * X)
    np.testing.assert_allclose(sampled.hessian(np.zeros(3)), expected, rtol=1e-12)


@pytest.mark.parametrize("scorer", [Linear(), Additive(bins=16)], ids=str)
@every_loss
def test_the_optimum_is_that_of_the_bundle_solver_for_fewer_passes(loss, scorer):
    risk = RankingRisk(scorer.prepare(some_queries(40, 8, 6), 1), loss, 1)
    found, other = Newton(tol=1e-7).minimize(risk, 1e4), Bundle(tol=1e-4).minimize(risk, 1e4)
    assert found.converged
    assert other.dual <= found.primal * (1 + 1e-9)
    assert found.dual <= other.primal * (1 + 1e-9)


def test_a_preconditioner_saves_passes_where_features_are_alike():
    rng = np.random.default_rng(3)
    common = rng.standard_normal((600, 1))
    X = common + 0.01 * rng.standard_normal((600, 30)) * np.geomspace(0.1, 10.0, 30)
    grades = np.digitize(X @ rng.standard_normal(30), [0.0, 1.0])
    queries = Queries.from_arrays(X, grades, group=[10] * 60)

    class Plain(RankingRisk):
        def preconditioner_passes(self, C):  # noqa: ARG002
            return np.inf

    prepared, loss = Linear().prepare(queries), SquaredError()
    helped, plain = (Newton(tol=1e-6).minimize(kind(prepared, loss, 1), 1e4) for kind in (RankingRisk, Plain))
    assert helped.primal == pytest.approx(plain.primal, rel=2e-6)
    assert 2 * helped.passes < plain.passes


def test_features_whose_products_overflow_get_none():
    queries = some_queries(60, 10, 12)
    huge = queries.with_features(1e30 * queries.X)
    scorer = Additive(bins=16).prepare(huge)
    sampled = HessianByDocuments(
        Linear().prepare(huge), SquaredError(), np.full(60, 1 / 60), draw(scorer, np.full(60, 1 / 60), 1.0)
    )
    vector = np.ones(12)
    np.testing.assert_array_equal(sampled.inverse(np.zeros(12), 1.0)(vector), vector)


def test_with_too_many_parameters_there_is_none():
    X = scipy.sparse.random_array((60, 200_000), density=1e-3, format="csr", rng=np.random.default_rng(4))
    queries = Queries.from_arrays(X, np.arange(60) % 3, group=[10] * 6)
    risk = empirical_risk(queries, SquaredError())
    assert risk.preconditioner_passes(1.0) == np.inf
    vector = np.ones(200_000)
    np.testing.assert_array_equal(risk.preconditioner(vector, 1.0)(vector), vector)


def test_products_after_another_point_are_those_of_a_new_risk():
    """Scores are kept from one product to the next, and must not be those of another θ."""
    queries, loss = some_queries(), SoftmaxCrossEntropy()
    risk, direction = empirical_risk(queries, loss), np.arange(5.0)
    for theta in (np.ones(5), np.full(5, -0.5)):
        risk(2.0 * theta)
        risk.block(3, 3.0 * theta)
        found = [risk.hessian_product(theta, direction) for _ in range(2)]
        risk.block(3, 3.0 * theta)
        found.append(risk.hessian_product(theta, direction))
        for product in found:
            np.testing.assert_array_equal(product, empirical_risk(queries, loss).hessian_product(theta, direction))
