"""Features that are scaled by dividing weights, beside scaled copies of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import Queries, Ranker
from marginrank.losses import StructuredLoss
from marginrank.preparation import Standardize
from marginrank.preparation.scaling import scale, scale_as
from marginrank.scorers import Linear
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.standardized_scorer import StandardizedScorer

LAYOUTS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "Fortran": np.asfortranarray,
    "CSR": sp.csr_array,
}


def queries_of(layout="float64", seed=0, n_queries=25):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12 * n_queries, 6)) * [1e-3, 1.0, 30.0, 1e4, 1.0, 1.0] + [0.5, -7.0, 2000.0, 0.0, 3.0, 0.0]
    X[:, 4], X[:, 5] = 3.0, rng.random(len(X)) < 0.1
    hidden = X[:, 0] / 1e-3 + X[:, 1] + X[:, 2] / 30 + rng.standard_normal(len(X))
    grades = np.digitize(hidden, np.quantile(hidden, [0.5, 0.8, 0.95]))
    if layout == "CSR":
        X[:, :3] *= rng.random((len(X), 3)) < 0.5
    return Queries.from_arrays(LAYOUTS[layout](X), grades, group=np.full(n_queries, 12))


@pytest.fixture
def fit(monkeypatch):
    """Train on features that are left as they are, or copied."""

    def trained(queries, left, preset="svmmap", start=None, **options):
        monkeypatch.setattr("marginrank.preparation.scaling._COPIED_BYTES", 0 if left else 1 << 60)
        assert (scale(queries, "standard", may_defer=True).deferred is not None) == left
        return Ranker(preset, C=10.0, scaling="standard", **options).fit(queries, start=start)

    return trained


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_and_gradients_are_those_of_standardized_features(layout):
    queries = queries_of(layout)
    rng = np.random.default_rng(1)
    theta, gradient = rng.standard_normal(6), rng.standard_normal(queries.n_documents)
    scaler = Standardize().fit(queries)
    scale_ = np.where(scaler.scale_ > 0, scaler.scale_, np.inf)
    Z = (queries.dense().astype(np.float64) - scaler.mean_) / scale_
    scorer = StandardizedScorer(Linear().prepare(queries), scaler.mean_, scaler.scale_)
    np.testing.assert_allclose(scorer.scores(theta), Z @ theta, atol=1e-11)
    sums = np.zeros(7)
    for start, stop in [(0, 100), (100, 101), (101, len(Z))]:
        scorer.pull_back(gradient, sums, start, stop)
    np.testing.assert_allclose(scorer.gradient(sums), Z.T @ gradient, atol=1e-10)
    rows = scorer.gradient(scorer.design_matrix(np.array([3, 0])))
    np.testing.assert_allclose(rows, Z[[3, 0]], atol=1e-11)
    assert scorer.spread == pytest.approx(np.linalg.norm(Z.std(axis=0)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("preset", ["svmmap", "softmax", "regression", "ranksvm-squared"])
def test_the_optimum_is_that_of_scaled_features(preset, layout, fit):
    queries = queries_of(layout)
    left, copied = (fit(queries, choice, preset) for choice in (True, False))
    assert left.solution_.reason == copied.solution_.reason == "converged"
    # Both objectives are within their gap of the same optimum.
    rounding = 1e-5 * copied.objective_ if layout == "float32" else 1e-12 * copied.objective_
    assert abs(left.objective_ - copied.objective_) <= max(left.gap_, copied.gap_) + rounding
    np.testing.assert_allclose(left.predict(queries), copied.predict(queries), atol=0.1)


def test_the_objective_is_that_of_scaled_features(fit):
    queries = queries_of()
    ranker = fit(queries, left=True)
    risk, _ = empirical_risk(Standardize().fit_transform(queries), StructuredLoss("ap"))(ranker.coef_)
    assert ranker.objective_ == pytest.approx(0.5 * ranker.coef_ @ ranker.coef_ + 10.0 * risk, rel=1e-12)


def test_the_number_of_threads_does_not_matter(fit):
    queries = queries_of("float32", n_queries=300)
    one, two = (fit(queries, left=True, n_jobs=n) for n in (1, 2))
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_training_goes_on_with_the_scaling_of_the_model(fit):
    queries = queries_of()
    ranker = fit(queries, left=True)
    scaling = ranker.model_.scaler
    ranker.partial_fit(queries_of(seed=3))
    assert ranker.model_.scaler.mean_.tolist() == scaling.mean_.tolist()
    unchanged = scale_as(queries, "standard", scaling, lambda X: X, may_defer=True)
    assert unchanged.deferred is scaling
    assert unchanged.queries is queries


@pytest.mark.parametrize("layout", ["float64", "CSR"])
@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_features_that_the_model_fills_after_scaling_are_copied(missing, layout, fit):
    queries = queries_of()
    X = queries.X.copy()
    X[:, 1] += 5.0
    X[::7, 1] = np.nan
    gaps = Queries.from_arrays(LAYOUTS[layout](X), queries.grades, group=queries.lengths, allow_nan=True)
    model = fit(gaps, left=False, scorer=Linear(missing=missing))
    left, copied = (fit(gaps, choice, scorer=Linear(missing="zero"), start=model) for choice in (True, False))
    assert left.coef_.tolist() == copied.coef_.tolist()


COPIED = {
    "large offset": 1e8 + np.array([[0.0], [1.0], [3.0]]),
    "huge": 1e200 * np.array([[0.0], [1.0], [3.0]]),
    "tiny": 1e-200 * np.array([[0.0], [1.0], [3.0]]),
}


@pytest.mark.parametrize("X", COPIED.values(), ids=COPIED)
def test_features_are_copied_if_dividing_weights_would_cost_precision(X, monkeypatch):
    monkeypatch.setattr("marginrank.preparation.scaling._COPIED_BYTES", 0)
    scaled = scale(Queries.from_arrays(X, [0, 1, 2], group=[3]), "standard", may_defer=True)
    assert scaled.deferred is None
    expected = (np.array([0.0, 1.0, 3.0]) - 4 / 3) / np.sqrt(14 / 9)
    np.testing.assert_allclose(scaled.queries.X[:, 0], expected, rtol=1e-7)


@pytest.mark.parametrize("preset", ["regression", "ranksvm-squared"])
def test_huge_constant_features_are_copied(preset, monkeypatch):
    monkeypatch.setattr("marginrank.preparation.scaling._COPIED_BYTES", 0)
    queries = queries_of()
    huge = queries.X.copy()
    huge[:, 4] = np.finfo(np.float64).max
    expected = Ranker(preset, C=100.0, scaling="standard").fit(queries)
    ranker = Ranker(preset, C=100.0, scaling="standard").fit(queries.with_features(huge))
    assert ranker.objective_ == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.parametrize("size", [1e60, 1e-60])
def test_sparse_features_are_copied_if_single_precision_does_not_hold_them(size, monkeypatch):
    X = size * sp.random(500, 1000, 0.02, format="csr", random_state=0)
    grades = (np.random.default_rng(0).random(500) > 0.6).astype(float)
    passes = []
    for copied in (0, 1 << 60):
        monkeypatch.setattr("marginrank.preparation.scaling._COPIED_BYTES", copied)
        ranker = Ranker("softmax", C=100.0, scaling="standard").fit(X, grades, group=np.full(50, 10))
        passes.append(ranker.solution_.passes)
    assert passes[0] == passes[1]


def test_little_data_is_copied():
    queries = queries_of()
    assert scale(queries, "standard", may_defer=True).deferred is None
    assert scale(queries, None, may_defer=True).queries is queries
