"""A pass in compiled code, beside the same kernels called from Python."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries
from marginrank.losses import (
    ModifiedWTA,
    PairwiseHinge,
    SoftmaxCrossEntropy,
    SquaredDifferences,
    SquaredError,
    StructuredLoss,
)
from marginrank.runtime import kernels
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.linear.scorer import Linear
from marginrank.training import risk as risk_pass
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
    "regression": (SquaredError(), Linear(), _queries(weights=False)),
    "differences": (SquaredDifferences(), Linear(), _queries()),
    "steps": (StructuredLoss("auc"), Additive(bins=4, shape="steps"), _queries()),
    "lines": (StructuredLoss("auc"), Additive(bins=4, shape="lines"), _queries()),
}


@pytest.mark.parametrize("case", CASES)
def test_it_computes_what_the_kernels_do_that_python_calls(case, monkeypatch):
    loss, scorer, queries = CASES[case]
    plain = empirical_risk(queries, loss, scorer, n_jobs=1)
    rng = np.random.default_rng(7)
    points = rng.standard_normal((3, plain.n_parameters))
    expected = [(*plain(theta), *plain.parts(theta)) for theta in points]
    products = [plain.hessian_product(points[0], theta) for theta in points] if loss.smooth else []
    assert plain._compiled is plain._compiled_curve is None
    monkeypatch.setattr(risk_pass, "LEAST_TASKS", 1)
    monkeypatch.setattr(risk_pass, "_SHARES", 3)  # 32 runs: calls of 11, 11 and 10, or of 4
    for n_jobs in (1, 3):
        risk = empirical_risk(queries, loss, scorer, n_jobs=n_jobs)
        assert risk._compiled is not None
        for theta, (value, gradient, values, gradients) in zip(points, expected, strict=True):
            assert risk(theta)[0] == value
            np.testing.assert_array_equal(risk(theta)[1], gradient)
            np.testing.assert_array_equal(risk.parts(theta)[0], values)
            np.testing.assert_array_equal(risk.parts(theta)[1], gradients)
        for theta, product in zip(points, products, strict=False):
            assert risk._compiled_curve is not None
            np.testing.assert_array_equal(risk.hessian_product(points[0], theta), product)


def test_weights_of_a_part_of_more_queries_count(monkeypatch):
    monkeypatch.setattr(risk_pass, "LEAST_TASKS", 1)
    risk = empirical_risk(_queries(), StructuredLoss("ap"), n_jobs=2)
    theta = np.arange(11.0) / 10.0
    value, gradient = risk(theta)
    halved, slope = risk.take_part(2.0 * risk.weight)(theta)
    assert halved == pytest.approx(value / 2.0, rel=1e-12)
    np.testing.assert_allclose(slope, gradient / 2.0, rtol=1e-12)


def test_a_score_that_is_not_finite_is_named(monkeypatch):
    loss, theta = StructuredLoss("ap"), np.ones(11)
    queries = _queries()
    X = queries.X.copy()
    X[[100, 300], 4] = np.inf
    broken = queries.with_features(X)
    for least in (1, 1000):
        monkeypatch.setattr(risk_pass, "LEAST_TASKS", least)
        risk = empirical_risk(broken, loss, n_jobs=1)
        assert (risk._compiled is None) == (least == 1000)
        with pytest.raises(DataError, match="document 100 has score inf"):
            risk(theta)


def test_hinges_have_no_hessian_there_either(monkeypatch):
    monkeypatch.setattr(risk_pass, "LEAST_TASKS", 1)
    risk = empirical_risk(_queries(), PairwiseHinge())
    with pytest.raises(TypeError, match="PairwiseHinge has kinks, and so no Hessian"):
        risk.hessian_product(np.ones(11), np.ones(11))


def test_what_is_not_a_kernel_is_called_from_python(monkeypatch):
    monkeypatch.setattr(risk_pass, "LEAST_TASKS", 1)
    queries = _queries()
    for loss in (ModifiedWTA(), StructuredLoss("ndcg", "dorm")):
        assert empirical_risk(queries, loss)._compiled is None
    monkeypatch.setattr(kernels, "is_jitted", lambda _: False)  # as with NUMBA_DISABLE_JIT
    assert empirical_risk(queries, StructuredLoss("ap"))._compiled is None


def test_it_lets_go_of_the_features(monkeypatch):
    monkeypatch.setattr(risk_pass, "LEAST_TASKS", 1)
    risk = empirical_risk(_queries(), StructuredLoss("ap"), n_jobs=2)
    risk(np.ones(11))
    features = weakref.ref(risk.queries.X)
    gc.disable()  # a cycle would keep them for a while
    try:
        del risk
        assert features() is None
    finally:
        gc.enable()
