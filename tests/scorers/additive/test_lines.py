"""Piecewise linear curves against np.interp, and their risk against the linear scorer on explicit columns."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from marginrank import Queries, Ranker, load
from marginrank.errors import DataError
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from marginrank.model.plots import plot_shapes
from marginrank.scorers.additive.bin_placement import learn_bins
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.additive.scorer import Additive, PreparedAdditive
from marginrank.solvers.bundle import Bundle
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk
from tests.scorers.additive.test_additive import features, ranking_problem, spacings

LOSSES = [StructuredLoss("auc"), PairwiseHinge(power=2), SoftmaxCrossEntropy()]


def curves(bins, theta, X):
    """Sum of np.interp through the knots of each feature, of slopes, and of the weights of NaN."""
    total, at = np.zeros(len(X)), 0
    slopes = iter(theta[len(theta) - sum(len(cuts) > 0 for cuts in bins.thresholds) :])
    for column, start, cuts, own in zip(X.T, bins.starts, bins.thresholds, bins.missing, strict=True):
        knots = np.r_[start, cuts].astype(np.float64)
        heights = np.r_[0.0, np.cumsum(theta[at : at + len(cuts)])] / 10
        at += len(cuts)
        values = np.interp(column.astype(np.float64), knots, heights)
        if len(cuts):
            values = values + next(slopes) * (
                np.clip(column.astype(np.float64), knots[0], knots[-1]) - knots[0]
            ) / np.std(knots)
        total += np.where(np.isnan(column), theta[at] if own else 0.0, values)
        at += int(own)
    return total


def columns(bins, X):
    """What each parameter is multiplied with: the curves of unit vectors."""
    return np.array([curves(bins, unit, X) for unit in np.eye(bins.n_parameters)]).reshape(-1, len(X)).T


@pytest.mark.parametrize(
    ("column", "n_bins", "spacing", "knots"),
    [
        ([0, 1, 4], 255, "mixed", [0, 1, 4]),
        ([0, 1], 2, "mixed", [0, 1]),
        ([0, 1, 5, 9], 2, "even", [0, 9]),
        ([0, 1, 8, 12], 5, "even", [0, 3, 6, 9, 12]),
        (np.arange(13), 5, "quantile", [0, 3, 6, 9, 12]),
        # Two thresholds by quantile, two by equal steps, between the smallest and the largest value.
        (np.arange(12), 6, "mixed", [0, 3, 11 / 3, 7, 22 / 3, 11]),
        ([7, np.nan, 9], 255, "mixed", [7, 9]),
        ([3, 3], 255, "mixed", [3]),
        ([np.nan], 255, "mixed", [0]),
    ],
)
def test_knots_by_hand(column, n_bins, spacing, knots):
    bins = learn_bins(np.array(column, dtype=np.float64)[:, None], n_bins, spacing, shape="lines")
    shape = bins.shapes(np.zeros(bins.n_parameters))[0]
    assert_allclose(shape.knots, knots, rtol=1e-15)
    assert len(shape.values) == len(knots)
    assert bins.shape == "lines"


def test_values_by_hand():
    bins = AdditiveForm((np.array([2.0, 3.0]), np.array([10.0])), np.array([True, False]), np.array([1.0, -10.0]))
    theta = np.array([40.0, -20.0, 0.5, 80.0, 0.0, 0.0])
    X = np.array([[0.0, -99.0], [1.25, -5.0], [2.0, 0.0], [2.5, 10.0], [9.0, 99.0], [np.nan, np.nan]])
    assert_allclose(bins.score(theta, X), [0.0, 1.0 + 2.0, 4.0 + 4.0, 3.0 + 8.0, 2.0 + 8.0, 0.5], rtol=1e-15)
    first, second = bins.shapes(theta)
    assert_allclose(first.values, [0.0, 4.0, 2.0])
    assert_allclose(second.values, [0.0, 8.0])
    assert (first.missing, second.missing) == (0.5, None)
    # The knots 1, 2, 3 have variance 2/3; -10 and 10 have standard deviation 10.
    first, second = bins.shapes(np.array([0.0, 0.0, 0.0, 0.0, 2.0, -3.0]))
    assert_allclose(first.values, np.array([0.0, 2.0, 4.0]) / np.sqrt(2 / 3))
    assert_allclose(second.values, [0.0, -6.0])
    assert bins.signs({0: "increasing"}).tolist() == [1, 1, 0, 0, 1, 0]


@given(features(), features(), st.integers(2, 20), spacings, st.integers(0, 99))
def test_scores_are_interpolated_between_knots(training, later, n_bins, spacing, seed):
    bins = learn_bins(training, n_bins, spacing, shape="lines")
    theta = np.random.default_rng(seed).standard_normal(bins.n_parameters)
    asked = np.vstack([np.resize(later, (len(later), training.shape[1])), training])
    expected = curves(bins, theta, asked)
    # The way between two knots is kept in units of 2^-24.
    assert_allclose(bins.score(theta, asked), expected, rtol=1e-6, atol=1e-6)
    assert_allclose(bins.columns(asked).toarray(), columns(bins, asked), rtol=1e-6, atol=1e-6)
    queries = Queries.from_arrays(asked, np.zeros(len(asked)), group=[len(asked)], allow_nan=True)
    assert_allclose(PreparedAdditive(queries, bins).scores(theta), bins.score(theta, asked), rtol=1e-13, atol=1e-13)


def test_few_distinct_values_have_the_curves_of_steps():
    X = np.random.default_rng(0).integers(0, 5, (200, 3)).astype(np.float32)
    steps, lines = learn_bins(X), learn_bins(X, shape="lines")
    theta = np.random.default_rng(1).standard_normal(steps.n_parameters)
    assert_allclose(lines.score(np.r_[10 * theta, np.zeros(3)], X), steps.score(theta, X), rtol=1e-13, atol=1e-13)


def test_slopes_alone_are_a_linear_ranker_inside_the_training_range():
    X = np.random.default_rng(0).lognormal(size=(500, 3))
    bins = learn_bins(X, shape="lines")
    theta = np.zeros(bins.n_parameters)
    theta[-3:] = [1.0, -2.0, 0.5]
    spreads = [np.std(shape.knots) for shape in bins.shapes(theta)]
    linear = (X - X.min(axis=0)) @ (theta[-3:] / spreads)
    assert_allclose(bins.score(theta, X), linear, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-30, 1e30, 1.7e308])
def test_extreme_ranges_do_not_matter(scale):
    X = scale * np.array([[-1.0], [-0.5], [0.0], [0.25], [1.0]])
    bins = AdditiveForm((X[-1:, 0],), np.array([False]), X[0])
    # The knots lie two standard deviations apart.
    for theta in ([40.0, 0.0], [0.0, 2.0]):
        assert_allclose(bins.score(np.array(theta), X), [0.0, 1.0, 2.0, 2.5, 4.0], rtol=1e-6)
        assert_allclose(bins.score(np.array(theta), [[-np.inf], [np.inf]]), [0.0, 4.0])


@cache
def problem_in_columns(n_bins):
    """Queries, bins, and the queries with a column for each parameter."""
    queries = ranking_problem(n_queries=61, n_documents=15, n_features=5)
    bins = learn_bins(queries.X, n_bins, shape="lines")
    return queries, bins, queries.with_features(columns(bins, queries.X))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("n_bins", [3, 40, 255])
def test_risk_gradient_and_curvature_are_those_of_explicit_columns(loss, n_bins):
    queries, bins, explicit = problem_in_columns(n_bins)
    ours, theirs = RankingRisk(PreparedAdditive(queries, bins), loss), empirical_risk(explicit, loss)
    theta, direction = np.random.default_rng(0).standard_normal((2, bins.n_parameters))
    value, gradient = ours(theta)
    expected_value, expected_gradient = theirs(theta)
    assert value == pytest.approx(expected_value, rel=1e-6)
    assert_allclose(gradient, expected_gradient, atol=1e-6 * np.abs(expected_gradient).max())
    if loss.smooth:
        curved, expected = ours.hessian_product(theta, direction), theirs.hessian_product(theta, direction)
        assert_allclose(curved, expected, atol=1e-6 * np.abs(expected).max())


@settings(max_examples=25)
@given(features(), st.integers(2, 9), st.integers(0, 99))
def test_slopes_go_back_where_scores_come_from(X, n_bins, seed):
    """⟨score(θ), slopes⟩ = ⟨θ, gradient(pull_back(slopes))⟩, for any rows."""
    rng = np.random.default_rng(seed)
    bins = learn_bins(X, n_bins, shape="lines")
    scorer = PreparedAdditive(Queries.from_arrays(X, np.zeros(len(X)), group=[len(X)], allow_nan=True), bins)
    theta, slopes = rng.standard_normal(bins.n_parameters), rng.standard_normal(len(X))
    start = int(rng.integers(0, len(X)))
    scores, table = np.zeros(len(X)), scorer.weights(theta)
    scorer.score(table, scores, start, len(X))
    cells = np.zeros_like(table)
    scorer.pull_back(slopes, cells, start, len(X))
    assert scores[start:] @ slopes[start:] == pytest.approx(theta @ scorer.gradient(cells), rel=1e-9, abs=1e-9)


def test_signs_make_lines_monotone():
    queries = ranking_problem(n_queries=15)
    bins = learn_bins(queries.X, 6, "quantile", shape="lines")
    risk, solver = RankingRisk(PreparedAdditive(queries, bins), StructuredLoss("ap")), Bundle(tol=1e-9)
    free = solver.minimize(risk, 2.0)
    risk.signs = bins.signs({0: "decreasing", 1: "increasing"})
    kept = solver.minimize(risk, 2.0)
    assert np.diff(bins.shapes(free.theta)[0].values).max() > 0
    assert np.diff(bins.shapes(kept.theta)[0].values).max() <= 0
    assert np.diff(bins.shapes(kept.theta)[1].values).min() >= 0
    assert np.ptp(bins.shapes(kept.theta)[1].values) > 0
    assert kept.primal > free.primal


def test_a_model_of_lines_can_be_saved_read_and_drawn(tmp_path):
    queries = ranking_problem(n_queries=20)
    ranker = Ranker("ranksvm-squared", scorer=Additive(bins=20, shape="lines")).fit(queries)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.bins_.shape == "lines"
    assert_array_equal(again.predict(queries), ranker.predict(queries))
    assert_allclose(ranker.predict(queries), curves(ranker.bins_, ranker.coef_, queries.X), atol=1e-6)
    drawn = plot_shapes(ranker.shapes()[1:2]).axes[0].lines[0]
    shape = ranker.shapes()[1]
    assert_array_equal(drawn.get_xdata(), shape.knots)
    assert_array_equal(drawn.get_ydata(), shape.values)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: learn_bins([[1.0]], shape="splines"), "unknown shape 'splines'; known: steps, lines"),
        (lambda: AdditiveForm((np.ones(1),), np.ones(1, bool), np.zeros(2)), r"starts has shape \(2,\) for 1 features"),
        (
            lambda: AdditiveForm((np.ones(1),), np.ones(1, bool), np.ones(1)),
            "the lines of feature 0 start at 1.0; start below",
        ),
        (
            lambda: AdditiveForm((np.ones(0),), np.ones(1, bool), np.full(1, np.nan)),
            "the lines of feature 0 start at nan",
        ),
    ],
)
def test_what_is_wrong_is_named(attempt, message):
    with pytest.raises(ValueError, match=message) as caught:
        attempt()
    assert isinstance(caught.value, DataError) or "unknown shape" in message
