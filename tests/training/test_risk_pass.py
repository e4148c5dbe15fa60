"""A pass over the queries, a few at a time on several threads, beside the loss and the scorer on all of them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries
from marginrank.losses import (
    PairwiseHinge,
    SoftmaxCrossEntropy,
    SquaredDifferences,
    SquaredError,
    StructuredLoss,
)
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.base import PreparedScorer
from marginrank.scorers.linear.scorer import Linear
from marginrank.training.partitioned_risk import empirical_risk

LENGTHS = [7, 1, 12, 3, 30, 2, 9, 5, 6, 4] * 8


def _queries(kind=np.float32, *, sparse=False, weights=True):
    rng = np.random.default_rng(5)
    n = sum(LENGTHS)
    X = rng.standard_normal((n, 11)).astype(kind)
    grades = rng.integers(0, 3, n)
    grades[sum(LENGTHS[:4]) : sum(LENGTHS[:5])] = 1  # a query with one grade
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0.0
        X = sp.csr_array(X)
    own = rng.integers(1, 4, len(LENGTHS)) if weights else None
    return Queries.from_arrays(X, grades, group=LENGTHS, query_weights=own)


CASES = {
    "ap": (StructuredLoss("ap"), Linear(), _queries()),
    "ndcg": (StructuredLoss("ndcg@3", "dorm"), Linear(), _queries(np.float64)),
    "rr": (StructuredLoss("rr", "mrr"), Linear(), _queries(sparse=True)),
    "ranksvm": (PairwiseHinge(), Linear(missing="zero"), _queries(weights=False)),
    "squared": (PairwiseHinge(power=2), Linear(), _queries()),
    "softmax": (SoftmaxCrossEntropy(), Linear(), _queries()),
    "regression": (SquaredError(intercept=False), Linear(), _queries(weights=False)),
    "differences": (SquaredDifferences(), Linear(), _queries()),
    "steps": (StructuredLoss("auc"), Additive(bins=4, shape="steps"), _queries()),
    "lines": (StructuredLoss("auc"), Additive(bins=4, shape="lines"), _queries()),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Cut these few queries into many tasks."""
    monkeypatch.setattr(PreparedScorer, "block_bytes", 1 << 10)


def _pulled_back(scorer, weights, slopes):
    cells = np.zeros(len(scorer.weights(np.zeros(scorer.n_parameters))))
    scorer.pull_back(np.repeat(weights, LENGTHS) * slopes, cells, 0, len(slopes))
    return scorer.gradient(cells)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_loss_of_all_scores_whatever_the_number_of_threads(case):
    loss, scorer, queries = CASES[case]
    first, other = (empirical_risk(queries, loss, scorer, n_jobs=n_jobs) for n_jobs in (1, 3))
    assert len(first._tasks) > 2
    rng = np.random.default_rng(7)
    for theta in rng.standard_normal((3, first.n_parameters)):
        xi, slopes = first.loss(first.scorer.scores(theta))
        value, gradient = first(theta)
        assert value == pytest.approx(first.weights @ xi, rel=1e-12)
        np.testing.assert_allclose(gradient, _pulled_back(first.scorer, first.weights, slopes), rtol=1e-9, atol=1e-12)
        assert other(theta)[0] == value
        np.testing.assert_array_equal(other(theta)[1], gradient)
        for ours, theirs in zip(first.parts(theta), other.parts(theta), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][0].smooth])
def test_so_are_products_with_the_hessian(case):
    loss, scorer, queries = CASES[case]
    first, other = (empirical_risk(queries, loss, scorer, n_jobs=n_jobs) for n_jobs in (1, 3))
    theta, direction = np.random.default_rng(7).standard_normal((2, first.n_parameters))
    moved = np.empty(queries.n_documents)
    scores, moves = (first.scorer.scores(at) for at in (theta, direction))
    first.loss.curve(scores, moves, moved, 0, len(queries))
    product = first.hessian_product(theta, direction)
    np.testing.assert_allclose(product, _pulled_back(first.scorer, first.weights, moved), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(other.hessian_product(theta, direction), product)


def test_weights_of_a_part_of_more_queries_count():
    risk = empirical_risk(_queries(), StructuredLoss("ap"), n_jobs=2)
    theta = np.arange(11.0) / 10.0
    value, gradient = risk(theta)
    halved, slope = risk.take_part(2.0 * risk.weight)(theta)
    assert halved == pytest.approx(value / 2.0, rel=1e-12)
    np.testing.assert_allclose(slope, gradient / 2.0, rtol=1e-12)


def test_a_score_that_is_not_finite_is_named():
    queries = _queries()
    X = queries.X.copy()
    X[[100, 300], 4] = np.inf
    for n_jobs in (1, 2):
        risk = empirical_risk(queries.with_features(X), StructuredLoss("ap"), n_jobs=n_jobs)
        with pytest.raises(DataError, match="document 100 has score inf"):
            risk(np.ones(11))


def test_hinges_have_no_hessian():
    risk = empirical_risk(_queries(), PairwiseHinge())
    with pytest.raises(TypeError, match="PairwiseHinge has kinks, and so no Hessian"):
        risk.hessian_product(np.ones(11), np.ones(11))


def test_it_lets_go_of_the_features():
    risk = empirical_risk(_queries(), StructuredLoss("ap"), n_jobs=2)
    risk(np.ones(11))
    features = weakref.ref(risk.queries.X)
    gc.disable()  # a cycle would keep them for a while
    try:
        del risk
        assert features() is None
    finally:
        gc.enable()
