"""The additive scorer against the linear one on explicit indicators, and codes against their definition."""

from __future__ import annotations

import gc
import math
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import marginrank.scorers.additive.bin_placement
import marginrank.scorers.additive.form
from marginrank import Queries
from marginrank.errors import DataError
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from marginrank.preparation import ThresholdBins
from marginrank.scorers import Additive
from marginrank.scorers.additive.bin_placement import learn_bins
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.additive.scorer import PreparedAdditive, share_bytes
from marginrank.solvers.bundle import Bundle
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk

LOSSES = [StructuredLoss("auc"), StructuredLoss("ndcg@2", "dorm"), PairwiseHinge(), SoftmaxCrossEntropy()]
spacings = st.sampled_from(["mixed", "quantile", "even"])


@st.composite
def features(draw, max_rows=12):
    """Features with ties, constants and holes, in both types."""
    n, m = draw(st.integers(1, max_rows)), draw(st.integers(1, 5))
    numbers = st.sampled_from([0.0, 1.0, 1.5, -2.0, np.nan]) | st.floats(-1e3, 1e3, width=32)
    X = np.array(draw(st.lists(st.lists(numbers, min_size=m, max_size=m), min_size=n, max_size=n)))
    constant = draw(st.lists(st.booleans(), min_size=m, max_size=m))
    X[:, constant] = X[0, constant]
    return X.astype(draw(st.sampled_from([np.float32, np.float64])))


@st.composite
def judged(draw):
    X = draw(features())
    grades = draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X)))
    qid = draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X)))
    return Queries.from_arrays(X, grades, qid=qid, allow_nan=True).grouped


def explicit(X, n_bins, spacing, training=None):
    """Indicators of the thresholds of each feature, and of NaN after them where training has any."""
    training = X if training is None else training
    columns = [np.empty((len(X), 0))]
    for feature in range(X.shape[1]):
        known, asked = training[:, [feature]], X[:, [feature]]
        columns.append(ThresholdBins(n_bins - 1, spacing=spacing).fit(known).transform(asked))
        if np.isnan(known).any():
            columns.append(np.isnan(asked))
    return np.hstack(columns).astype(np.float64)


def by_indicators(queries, loss, n_bins=16, spacing="mixed", n_jobs=None):
    return empirical_risk(queries.with_features(explicit(queries.X, n_bins, spacing)), loss, n_jobs=n_jobs)


def dyadic(rng, n):
    """Weights whose sums are exact in any order, so that ties are ties for both scorers."""
    return rng.integers(-8, 9, n) / 4.0


def ranking_problem(seed=0, n_queries=40, n_documents=12, n_features=6, holes=0.1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, n_features))
    grades = np.clip(np.rint(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + rng.standard_normal(len(X))), 0, 3)
    X[:, ::2][rng.random((len(X), len(range(0, n_features, 2)))) < holes] = np.nan
    return Queries.from_arrays(X, grades, group=np.full(n_queries, n_documents), allow_nan=True)


@given(features(), st.integers(2, 6), spacings)
def test_thresholds_are_those_of_the_transformer(X, n_bins, spacing):
    bins = learn_bins(X, n_bins, spacing)
    expected = ThresholdBins(n_bins - 1, spacing=spacing).fit(X).thresholds_
    assert [cuts.dtype for cuts in bins.thresholds] == [X.dtype] * X.shape[1]
    assert_array_equal(np.concatenate(bins.thresholds), np.concatenate(expected))
    assert [len(cuts) for cuts in bins.thresholds] == list(map(len, expected))
    assert_array_equal(bins.missing, np.isnan(X).any(axis=0))


@given(features(), features(), st.integers(2, 20), spacings, st.booleans())
def test_codes_count_the_thresholds_that_are_exceeded(training, later, n_bins, spacing, rows_are_columns):
    bins = learn_bins(training, n_bins, spacing)
    asked = np.resize(later, (len(later), training.shape[1]))
    asked = np.vstack([asked, training, np.full((2, training.shape[1]), [[np.inf], [-np.inf]])])
    codes = bins.encode(np.asfortranarray(asked) if rows_are_columns else asked)
    assert codes.dtype == np.uint8
    assert codes.flags.c_contiguous
    for feature, cuts in enumerate(bins.thresholds):
        column = asked[:, feature]
        for_nan = len(cuts) + 1 if np.isnan(training[:, feature]).any() else 0
        expected = np.where(np.isnan(column), for_nan, np.searchsorted(cuts, column, side="left"))
        assert_array_equal(codes[:, feature], expected)


@given(features(), st.integers(2, 6), spacings, st.integers(0, 99))
def test_new_documents_score_as_their_indicators_do(training, n_bins, spacing, seed):
    bins = learn_bins(training, n_bins, spacing)
    rng = np.random.default_rng(seed)
    later = np.where(rng.random((9, training.shape[1])) < 0.2, np.nan, 2000 * rng.standard_normal(training.shape[1]))
    theta = dyadic(rng, bins.n_parameters)
    indicators = explicit(later.astype(training.dtype), n_bins, spacing, training)
    assert_array_equal(bins.score(theta, later.astype(training.dtype)), indicators @ theta)


@pytest.mark.parametrize("n_bins", [2, 16, 255])
def test_all_bins_of_a_byte_are_used(n_bins):
    X = np.random.default_rng(0).permutation(np.append(np.arange(1000.0), np.nan))[:, None]
    bins = learn_bins(X, n_bins, "quantile")
    codes = bins.encode(X)
    assert_array_equal(np.unique(codes), np.arange(n_bins + 1))
    assert codes[np.isnan(X)].tolist() == [n_bins]
    theta = np.random.default_rng(1).standard_normal(bins.n_parameters)
    queries = Queries.from_arrays(X, np.arange(1001) % 2, group=[1001], allow_nan=True)
    scores = RankingRisk(PreparedAdditive(queries, bins), PairwiseHinge()).scores(theta)
    assert_allclose(scores, explicit(X, n_bins, "quantile") @ theta, rtol=1e-12, atol=1e-12)


def test_values_out_of_the_training_range_fall_in_the_first_and_last_bin():
    bins = learn_bins(np.arange(10.0)[:, None], 4, "even")
    assert bins.encode([[-1e30], [0.0], [9.0], [1e30]]).ravel().tolist() == [0, 0, 3, 3]


def test_a_memory_mapped_matrix_is_read_in_blocks(tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((1000, 7)).astype(np.float32)
    X[::9, 2] = np.nan
    whole = learn_bins(X)
    codes = whole.encode(X)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr(marginrank.scorers.additive.form, "_BLOCK_VALUES", 500)
    monkeypatch.setattr(marginrank.scorers.additive.bin_placement, "_COLUMN_BYTES", 10_000)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    bins = learn_bins(mapped)
    assert_array_equal(np.concatenate(bins.thresholds), np.concatenate(whole.thresholds))
    assert_array_equal(bins.encode(mapped, n_jobs=3), codes)
    theta = np.random.default_rng(1).standard_normal(bins.n_parameters)
    assert_array_equal(bins.score(theta, mapped, n_jobs=3), whole.score(theta, X, n_jobs=1))


@settings(max_examples=40)
@given(queries=judged(), n_bins=st.integers(2, 6), spacing=spacings, seed=st.integers(0, 99))
def test_risk_and_gradient_are_those_of_the_indicators(queries, n_bins, spacing, seed):
    for loss in LOSSES:
        additive = RankingRisk(PreparedAdditive(queries, learn_bins(queries.X, n_bins, spacing)), loss)
        linear = by_indicators(queries, loss, n_bins, spacing)
        assert additive.n_parameters == linear.n_parameters
        theta = dyadic(np.random.default_rng(seed), linear.n_parameters)
        assert_array_equal(additive.scores(theta), linear.scores(theta))
        for ours, theirs in [(additive, linear), (additive.parts, linear.parts)]:
            value, gradient = ours(theta)
            expected_value, expected_gradient = theirs(theta)
            assert_allclose(np.sum(value), np.sum(expected_value), rtol=1e-12, atol=1e-12)
            assert_allclose(
                np.atleast_2d(gradient).sum(0), np.atleast_2d(expected_gradient).sum(0), rtol=1e-12, atol=1e-12
            )
        for query in range(len(queries)):
            value, gradient = additive.block(query, theta)
            expected_value, expected_gradient = linear.block(query, theta)
            assert value == pytest.approx(expected_value, rel=1e-12, abs=1e-12)
            assert_allclose(gradient, expected_gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_bins", [3, 16, 40])
def test_risk_and_gradient_of_many_documents(n_bins):
    """Odd queries, several runs of them, and features that share bytes or do not."""
    queries = ranking_problem(n_queries=301, n_documents=15, n_features=13)
    loss = PairwiseHinge(power=2)
    additive = RankingRisk(PreparedAdditive(queries, learn_bins(queries.X, n_bins)), loss)
    linear = by_indicators(queries, loss, n_bins)
    rng = np.random.default_rng(0)
    theta, direction = rng.standard_normal((2, linear.n_parameters))
    value, gradient = additive(theta)
    expected_value, expected_gradient = linear(theta)
    assert value == pytest.approx(expected_value, rel=1e-12)
    assert_allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-13 * np.abs(expected_gradient).max())
    curved, expected = additive.hessian_product(theta, direction), linear.hessian_product(theta, direction)
    assert_allclose(curved, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


def test_slopes_of_very_different_size_are_added_up_exactly():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (5001, 9)).astype(np.float64)
    queries = Queries.from_arrays(X, rng.integers(0, 2, len(X)), group=[len(X)])
    scorer = PreparedAdditive(queries, learn_bins(X))
    slopes = rng.standard_normal(len(X)) * 10.0 ** rng.integers(-9, 1, len(X))
    table = scorer.weights(np.zeros(scorer.n_parameters))
    cells = np.zeros_like(table)
    scorer.pull_back(slopes, cells, 3, len(X))
    exact = [math.fsum(slopes[3:][X[3:, f] > k]) for f in range(9) for k in (0.0, 1.0)]
    assert_allclose(scorer.gradient(cells), exact, rtol=1e-9)
    assert_allclose(scorer.gradient(np.stack([cells, 2 * cells])), [exact, np.multiply(2, exact)], rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda loss: type(loss).__name__)
def test_the_optimum_is_that_of_the_indicators(loss):
    queries = ranking_problem(n_queries=15, n_documents=8, n_features=4)
    bins = learn_bins(queries.X, 5)
    solver = Bundle(tol=1e-11)
    additive, linear = RankingRisk(PreparedAdditive(queries, bins), loss), by_indicators(queries, loss, 5)
    ours, theirs = solver.minimize(additive, 2.0), solver.minimize(linear, 2.0)
    assert ours.primal == pytest.approx(theirs.primal, rel=1e-9)
    assert_allclose(ours.theta, theirs.theta, atol=1e-6)


def test_signs_make_shapes_monotone_and_cost_what_they_cost_the_indicators():
    names = [f"f{number}" for number in range(6)]
    queries = ranking_problem(n_queries=15)
    queries = queries.with_features(queries.X, names)
    bins = learn_bins(queries.X, 5, "quantile")
    directions = {0: "increasing", "f2": "decreasing", 5: "decreasing"}
    signs, solver = bins.signs(directions, names), Bundle(tol=1e-11)
    loss = StructuredLoss("ap")
    scorer = Additive(5, "quantile", "steps")
    free = solver.minimize(empirical_risk(queries, loss, scorer), 2.0)
    ours = solver.minimize(empirical_risk(queries, loss, scorer.with_params(monotone=directions)), 2.0)
    linear = by_indicators(queries, loss, 5, "quantile")
    linear.signs = signs
    theirs = solver.minimize(linear, 2.0)
    assert ours.primal == pytest.approx(theirs.primal, rel=1e-9)
    assert_allclose(ours.theta, theirs.theta, atol=1e-6)
    assert ours.primal > free.primal * 1.001
    before, after = bins.shapes(free.theta, names), bins.shapes(ours.theta, names)
    for name, sign in [("f0", 1), ("f2", -1), ("f5", -1)]:
        number = names.index(name)
        assert (sign * np.diff(before[number].values)).min() < 0
        assert (sign * np.diff(after[number].values)).min() >= 0
    # The second is held at 0 all the way.
    assert [np.ptp(after[number].values) > 0.05 for number in (0, 2, 5)] == [True, False, True]


def test_one_direction_goes_for_all_features_but_not_for_nan():
    bins = AdditiveForm((np.array([1.0, 2.0]), np.array([]), np.array([0.5])), np.array([False, True, True]))
    assert bins.signs("increasing").tolist() == [1, 1, 0, 1, 0]
    assert bins.signs("decreasing").tolist() == [-1, -1, 0, -1, 0]
    assert bins.signs({}).tolist() == [0] * 5
    assert bins.signs("increasing").dtype == np.int64


@given(features(), st.integers(2, 6), st.integers(0, 99))
def test_shapes_add_up_to_the_score(X, n_bins, seed):
    bins = learn_bins(X, n_bins)
    theta = dyadic(np.random.default_rng(seed), bins.n_parameters)
    shapes = bins.shapes(theta)
    total = np.zeros(len(X))
    for feature, shape in enumerate(shapes):
        values = shape.values[np.searchsorted(shape.thresholds, np.nan_to_num(X[:, feature]), side="left")]
        total += np.where(np.isnan(X[:, feature]), shape.missing, values).astype(np.float64)
    assert [shape.name for shape in shapes] == [f"{number}" for number in range(X.shape[1])]
    assert_array_equal(total, bins.score(theta, X))


@given(st.lists(st.sampled_from([1, 2, 3, 16, 17, 255, 256]) | st.integers(1, 256), max_size=40))
def test_features_share_a_byte_only_if_their_codes_fit(n_codes):
    groups = share_bytes(n_codes)
    assert sorted(feature for group in groups for feature in group) == [f for f, n in enumerate(n_codes) if n > 1]
    assert all(math.prod(n_codes[feature] for feature in group) <= 256 for group in groups)


def test_sixteen_bins_take_half_a_byte():
    assert len(share_bytes([16] * 136)) == 68
    assert len(share_bytes([17] * 10 + [15] * 10)) == 10
    assert len(share_bytes([2] * 64)) == 8


@pytest.mark.parametrize("n_bins", [5, 16, 100])
def test_results_do_not_depend_on_the_number_of_threads(n_bins, monkeypatch):
    monkeypatch.setattr(marginrank.scorers.additive.form, "_BLOCK_VALUES", 1000)
    queries = ranking_problem(n_queries=100)
    found = []
    for n_jobs in (1, 2, 5):
        bins = learn_bins(queries.X, n_bins, n_jobs=n_jobs)
        risk = RankingRisk(PreparedAdditive(queries, bins, n_jobs), PairwiseHinge(), n_jobs)
        assert len(risk._chunks) > 3
        theta = np.random.default_rng(0).standard_normal(bins.n_parameters)
        value, gradient = risk(theta)
        scores = bins.score(theta, queries.X, n_jobs)
        found.append(pickle.dumps([value, gradient, scores, bins.encode(queries.X, n_jobs), bins.thresholds]))
    assert found[0] == found[1] == found[2]


def test_only_the_codes_are_kept():
    X = np.random.default_rng(0).random((200, 136)).astype(np.float32)
    gone = weakref.ref(X)
    queries = Queries.from_arrays(X, np.arange(200) % 3, qid=np.sort(np.arange(200) % 7))
    risk = RankingRisk(PreparedAdditive(queries, learn_bins(X)), PairwiseHinge())
    assert risk.scorer.n_bytes * 4 <= X.nbytes
    features = weakref.ref(queries.X)
    del X, queries
    gc.collect()
    assert gone() is None
    assert features() is None
    value, _ = risk(np.zeros(risk.n_parameters))
    assert value == pytest.approx(1.0)


def test_constant_features_have_no_parameters():
    queries = Queries.from_arrays(np.ones((4, 3)), [1, 0, 2, 0], group=[4])
    risk = RankingRisk(PreparedAdditive(queries, learn_bins(queries.X)), StructuredLoss("auc"))
    value, gradient = risk(np.zeros(0))
    assert risk.n_parameters == 0
    assert gradient.shape == (0,)
    assert value == empirical_risk(queries, StructuredLoss("auc"))(np.zeros(3))[0]


def test_bins_can_be_pickled():
    bins = learn_bins([[0.0, 1.0], [1.0, np.nan], [2.0, 3.0]], 3)
    copy = pickle.loads(pickle.dumps(bins))
    assert_array_equal(np.concatenate(copy.thresholds), np.concatenate(bins.thresholds))
    assert copy.missing.tolist() == [False, True]


TWO = AdditiveForm((np.array([1.0]), np.array([2.0, 3.0])), np.array([False, False]))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: learn_bins([[1.0]], 1), "n_bins is 1; give a whole number from 2 to 255"),
        (lambda: learn_bins([[1.0]], 256), "n_bins is 256; give a whole number from 2 to 255"),
        (lambda: learn_bins([[1.0]], 2.5), "n_bins is 2.5; give a whole number"),
        (lambda: learn_bins([[1.0]], spacing="log"), "unknown spacing 'log'; known: mixed, quantile, even"),
        (lambda: learn_bins([[1.0, 1.0], [np.nan, -np.inf]]), "feature 1 has an infinite value; replace it"),
        (lambda: learn_bins([[np.inf], [np.nan]]), "feature 0 has an infinite value; replace it"),
        (lambda: learn_bins(np.empty((0, 2))), "there is no document to learn from"),
        (lambda: learn_bins([1.0, 2.0]), "X has 1 dimensions, not 2"),
        (lambda: learn_bins([["a"]]), "X holds 'a', which is not a number; encode it as numbers"),
        (
            lambda: learn_bins(sp.csr_array(np.eye(2))),
            r"the additive scorer takes no sparse X; pass X.toarray\(\)",
        ),
        (lambda: TWO.encode(sp.csr_array(np.eye(2))), r"the additive scorer takes no sparse X; pass X.toarray\(\)"),
        (lambda: TWO.encode(np.ones((3, 4))), "X has 4 features, these bins have 2; give the same columns"),
        (lambda: TWO.score(np.ones(2), np.ones((3, 2))), r"theta has shape \(2,\); these bins have 3 parameters"),
        (lambda: TWO.shapes(np.ones(3), ["a"]), "1 feature names for 2 features"),
        (lambda: TWO.signs("up"), "unknown direction 'up'; known: increasing, decreasing"),
        (lambda: TWO.signs({0: "up"}), "unknown direction 'up'; known: increasing, decreasing"),
        (lambda: TWO.signs({2: "increasing"}), "there is no column 2 in X; 2 columns, counted from 0"),
        (lambda: TWO.signs({-1: "increasing"}), "there is no column -1 in X; 2 columns, counted from 0"),
        (lambda: TWO.signs({"a": "increasing"}), "there is no feature 'a'; known: 0, 1"),
        (lambda: TWO.signs({"a": "increasing"}, ["b", "c"]), "there is no feature 'a'; known: b, c"),
        (lambda: AdditiveForm((np.array([1.0]),), np.array([True, False])), r"missing has shape \(2,\) for 1 features"),
        (
            lambda: AdditiveForm((np.array([2.0, 1.0]),), np.array([True])),
            "thresholds of feature 0 are not finite and increasing",
        ),
        (lambda: AdditiveForm((np.arange(255.0),), np.array([True])), "feature 0 has 255 thresholds; 254 are the most"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_out(attempt, message):
    with pytest.raises(ValueError, match=message) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_sparse_queries_are_refused():
    queries = Queries.from_arrays(sp.csr_array(np.eye(2)), [0, 1], group=[2])
    with pytest.raises(DataError, match="takes no sparse X"):
        PreparedAdditive(queries, TWO)
