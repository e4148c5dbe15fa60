from __future__ import annotations

import pickle
import statistics
import warnings
from itertools import product
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import marginrank.preparation.cleaning
import marginrank.preparation.standardization
from marginrank.data import read_letor
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.preparation import (
    SCALINGS,
    QueryMinMax,
    QueryPercentile,
    QueryStandardize,
    Standardize,
    ThresholdBins,
    choose_scaling,
    clean,
)
from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.scaling_formulas import standardized
from marginrank.runtime.mapped_arrays import blocks
from marginrank.runtime.threads import default_threads

OHSUMED = Path(__file__).parents[3] / "shared" / "data" / "letor3-ohsumed"


def min_max(values):
    low, high = min(values), max(values)
    return [0.0 if low == high else (x - low) / (high - low) for x in values]


def standard(values):
    mean, std = statistics.fmean(values), statistics.pstdev(values)
    return [0.0 if std == 0 else (x - mean) / std for x in values]


def percentile(values):
    return [(sum(v < x for v in values) + sum(v == x for v in values) / 2) / len(values) for x in values]


PER_QUERY = {QueryMinMax: min_max, QueryStandardize: standard, QueryPercentile: percentile}
LEARNED = [Standardize(), ThresholdBins(3), ThresholdBins(3, spacing="quantile"), ThresholdBins(3, spacing="even")]
ALL = [transformer() for transformer in PER_QUERY] + LEARNED

per_query = pytest.mark.parametrize("transformer", list(PER_QUERY), ids=lambda c: c.__name__)
every = pytest.mark.parametrize("transformer", ALL, ids=repr)


@st.composite
def grouped(draw, missing=True, max_features=3):
    """Features with ties, constants and holes, and query ids in any order."""
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, max_features))
    numbers = st.sampled_from([0.0, 1.0, 1.5, -2.0]) | st.floats(-1e4, 1e4, width=32).map(lambda x: round(x, 2))
    values = numbers | st.just(np.nan) if missing else numbers
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X = np.array(draw(st.lists(st.lists(values, min_size=m, max_size=m), min_size=n, max_size=n)), dtype=dtype)
    qid = np.array(draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n)))
    return X, qid


def by_hand(reference, X, qid):
    out = np.full(X.shape, np.nan)
    for query in set(qid):
        for feature in range(X.shape[1]):
            present = np.flatnonzero((qid == query) & ~np.isnan(X[:, feature]))
            if len(present):
                out[present, feature] = reference(X[present, feature].astype(float).tolist())
    return out


def precision(X):
    return {"rtol": 1e-5, "atol": 1e-6} if X.dtype == np.float32 else {"rtol": 1e-8, "atol": 1e-10}


# Laws of the per-query transformers. Parameters of a property test would all draw the same examples, so these tests go
# through the transformers themselves, and others below through other choices.


@given(grouped())
def test_per_query_is_its_definition(data):
    X, qid = data
    for transformer, reference in PER_QUERY.items():
        result = transformer().fit_transform(X, qid=qid)
        assert result.dtype == X.dtype
        assert_allclose(result, by_hand(reference, X, qid), **precision(X))


@given(grouped(), st.randoms(use_true_random=False))
def test_rows_and_queries_may_come_in_any_order(data, random):
    X, qid = data
    order = random.sample(range(len(X)), len(X))
    for transformer in PER_QUERY:
        result = transformer().fit_transform(X, qid=qid)
        assert_allclose(transformer().fit_transform(X[order], qid=qid[order]), result[order], **precision(X))


@given(grouped())
def test_a_query_is_prepared_as_if_it_were_alone(data):
    X, qid = data
    for transformer in PER_QUERY:
        result = transformer().fit_transform(X, qid=qid)
        for query in set(qid):
            alone = X[qid == query]
            assert_array_equal(transformer().fit_transform(alone, group=[len(alone)]), result[qid == query])


@given(grouped())
def test_min_max_twice_is_min_max(data):
    X, qid = data
    once = QueryMinMax().fit_transform(X, qid=qid)
    assert_array_equal(QueryMinMax().fit_transform(once, qid=qid), once)


@given(grouped())
def test_percentiles_of_the_negated_feature_are_mirrored(data):
    X, qid = data
    upward = QueryPercentile().fit_transform(X, qid=qid)
    assert_allclose(QueryPercentile().fit_transform(-X, qid=qid), 1 - upward, rtol=1e-6)


@pytest.mark.parametrize(
    ("transformer", "value"), [(QueryMinMax, 0.0), (QueryStandardize, 0.0), (QueryPercentile, 0.5)]
)
def test_one_document_and_constant_features_have_a_value(transformer, value):
    X = np.array([[0.1, 7.0], [0.1, np.nan], [0.1, 7.0], [5.0, np.nan]])
    result = transformer().fit_transform(X, group=[3, 1])
    assert_array_equal(result, [[value, value], [value, np.nan], [value, value], [value, np.nan]])


@per_query
def test_a_query_without_documents_changes_nothing(transformer):
    X = np.array([[1.0], [3.0], [4.0], [8.0]])
    full = transformer().fit_transform(X, group=[2, 2])
    assert_array_equal(transformer().fit_transform(X, group=[0, 2, 0, 0, 2, 0]), full)


@per_query
def test_many_queries_in_many_chunks(transformer):
    rng = np.random.default_rng(3)
    qid = rng.integers(0, 700, 3000)
    X = rng.integers(0, 5, (3000, 2)).astype(float)
    assert_allclose(
        transformer().fit_transform(X, qid=qid), by_hand(PER_QUERY[transformer], X, qid), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e150, 1e300])
def test_extreme_scales_do_not_matter(scale):
    X = np.array([[1.0], [2.0], [4.0]])
    for transformer in (QueryMinMax, QueryStandardize):
        expected = transformer().fit_transform(X, group=[3])
        assert_allclose(transformer().fit_transform(X * scale, group=[3]), expected, rtol=1e-12)
    assert_allclose(Standardize().fit_transform(X * scale), Standardize().fit_transform(X), rtol=1e-12)


@pytest.mark.parametrize("transformer", [QueryMinMax(), QueryStandardize(), Standardize()], ids=repr)
def test_a_spread_beyond_float64_is_refused(transformer):
    with pytest.raises(DataError, match="1 lie further apart than float64 holds; scale it down"):
        transformer.fit_transform([[0.0, -1.5e308], [0.0, 1.5e308]], group=[2])


# Standardize


@given(grouped())
def test_standardize_is_its_definition(data):
    X, _ = data
    result = Standardize().fit_transform(X)
    assert result.dtype == X.dtype
    assert_allclose(result, by_hand(standard, X, np.array(["all"] * len(X))), **precision(X))


def test_standardize_agrees_with_scikit_learn(monkeypatch):
    monkeypatch.setattr(marginrank.preparation.standardization, "_BLOCK_VALUES", 35)
    monkeypatch.setattr(marginrank.preparation.standardization, "_MIN_ROWS", 7)
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(100, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    judge, ours = StandardScaler().fit(X), Standardize().fit(X)
    assert_allclose(ours.mean_, judge.mean_)
    assert_allclose(ours.scale_, judge.scale_)
    later = rng.normal(size=(20, 5))
    assert_allclose(ours.transform(later), judge.transform(later))


COLUMNS = {
    "offset": 1e8 + np.random.default_rng(0).standard_normal(500),
    "outlier first": np.r_[1e9, np.random.default_rng(1).standard_normal(499)],
    "late": np.r_[np.full(400, np.nan), 1e8 + np.random.default_rng(2).standard_normal(100)],
    "huge": 1e200 * np.random.default_rng(3).standard_normal(500),
    "tiny": 1e-200 * np.random.default_rng(4).standard_normal(500),
    "constant": np.full(500, 0.1),
    "huge and constant": np.full(500, 1e200),
    "empty": np.full(500, np.nan),
}


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sp.csr_array], ids=["C", "F", "CSR"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_and_deviations_are_precise_whatever_the_offset_and_the_layout(layout, dtype):
    columns = {
        name: column for name, column in COLUMNS.items() if dtype == np.float64 or not name.startswith(("huge", "tiny"))
    }
    X = np.column_stack([*columns.values()]).astype(dtype)
    present = [column[~np.isnan(column)].tolist() or [0.0] for column in X.T]
    scaler = Standardize().fit(layout(X))
    assert_allclose(scaler.scale_, [*map(statistics.pstdev, present)], rtol=1e-9)
    if layout is not sp.csr_array:
        assert_allclose(scaler.mean_, [*map(statistics.mean, present)], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", [np.ascontiguousarray, sp.csr_array], ids=["dense", "CSR"])
def test_deviations_are_precise_if_the_first_value_is_far_from_all_others(layout):
    X = np.full((1_000_000, 2), 0.1)
    X[0], X[:, 1] = 1000.0, 1000.0
    scaler = Standardize().fit(layout(X))
    assert_allclose(scaler.scale_, [999.9 * np.sqrt(999_999) / 1e6, 0.0], rtol=1e-9)


def test_a_column_without_values_is_searched_in_large_blocks(monkeypatch):
    n_rows = []

    def counted(array, *arguments):
        for rows, block in blocks(array, *arguments):
            n_rows.append(len(block))
            yield rows, block

    monkeypatch.setattr(marginrank.preparation.standardization, "blocks", counted)
    X = np.random.default_rng(0).standard_normal((30_000, 3))
    X[:, 1], X[:29_990, 2] = np.nan, np.nan
    scaler = Standardize().fit(X)
    assert len(n_rows) <= 3
    assert_allclose(scaler.mean_, [X[:, 0].mean(), 0.0, X[29_990:, 2].mean()], rtol=1e-9, atol=1e-12)
    assert_allclose(scaler.scale_, [X[:, 0].std(), 0.0, X[29_990:, 2].std()], rtol=1e-9)


@pytest.mark.parametrize(("size", "dtype"), [(1e306, np.float64), (3e38, np.float32)])
def test_values_whose_sum_overflows_do_not_warn(size, dtype):
    X = (size * np.tile([1.0, -1.0], 5_000)[:, None]).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = Standardize().fit(X)
        assert_allclose(scaler.transform(X), np.sign(X), rtol=1e-6)
    assert_allclose(scaler.scale_, [size], rtol=1e-6)


def test_blocks_whose_sum_overflows_do_not_warn(monkeypatch):
    monkeypatch.setattr(marginrank.preparation.standardization, "_BLOCK_VALUES", 256)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = Standardize().fit(5e152 * np.tile([1.0, -1.0], 400)[:, None])
    assert_allclose(scaler.scale_, [5e152], rtol=1e-9)


def test_means_and_deviations_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(marginrank.preparation.standardization, "_BLOCK_VALUES", 300)
    X = np.random.default_rng(0).standard_normal((2000, 7))
    scalers = []
    for n_threads in (1, 2):
        with default_threads(n_threads):
            scalers.append(Standardize().fit(X))
    assert scalers[0].mean_.tobytes() == scalers[1].mean_.tobytes()
    assert scalers[0].scale_.tobytes() == scalers[1].scale_.tobytes()


def test_a_scaled_array_has_the_bits_of_its_definition():
    X = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    X[:, 1], X[3, 1:3] = 2.0, np.nan
    scaler = Standardize().fit(X)
    expected = standardized(X, scaler.mean_, scaler.scale_).astype(np.float32)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        assert_array_equal(scaler.transform(layout(X)), expected)


@given(grouped(), st.integers(0, 99))
def test_sparse_columns_are_divided_as_dense_ones_and_not_centered(data, seed):
    X, _ = data
    X = np.where(np.random.default_rng(seed).random(X.shape) < 0.4, 0, X).astype(X.dtype)
    dense, sparse = Standardize().fit(X), Standardize().fit(sp.csr_array(X))
    assert_allclose(sparse.scale_, dense.scale_, rtol=1e-6 if X.dtype == np.float32 else 1e-9)
    assert_array_equal(sparse.scale_ == 0, dense.scale_ == 0)
    result = sparse.transform(sp.csr_array(X))
    assert isinstance(result, sp.csr_array)
    assert result.dtype == X.dtype
    varies = sparse.scale_ > 0
    expected = np.where(varies | np.isnan(X), X / np.where(varies, sparse.scale_, 1), 0)
    assert_allclose(result.toarray(), expected, **precision(X))
    assert_allclose(sparse.transform(X), result.toarray(), **precision(X))


def test_a_sparse_matrix_is_scaled_as_scikit_learn_scales_it():
    X = sp.random_array((200, 6), density=0.2, format="csr", rng=np.random.default_rng(0))
    judge = StandardScaler(with_mean=False).fit(X)
    scaler = Standardize().fit(X)
    assert_allclose(scaler.scale_, judge.scale_)
    assert_allclose(scaler.transform(X).toarray(), judge.transform(X).toarray())
    queries = Queries.from_arrays(X, np.arange(200) % 2, group=[200])
    scaled = scaler.transform(queries)
    assert sp.issparse(scaled.X)
    assert_array_equal(scaled.X.toarray(), scaler.transform(X).toarray())


def test_sparse_columns_that_are_constant_become_zero():
    X = sp.csr_array(np.array([[2.0, 0.0, np.nan, 0.1], [2.0, 0.0, np.nan, 0.1], [2.0, 0.0, np.nan, 0.1]]))
    scaler = Standardize().fit(X)
    assert scaler.scale_.tolist() == [0.0] * 4
    assert_array_equal(scaler.transform(X).toarray(), [[0.0, 0.0, np.nan, 0.0]] * 3)


def test_centering_a_sparse_matrix_is_refused():
    scaler = Standardize().fit([[1.0], [3.0]])
    with pytest.raises(DataError, match=r"fitted on dense features, .* pass X.toarray\(\), or fit on a sparse X"):
        scaler.transform(sp.csr_array([[1.0], [0.0]]))


SPREADS = {  # standard deviations of ±s are s
    "as wide as C expects": ([1.0, 0.5, 2.0], None),
    "with constants": ([1.0, 0.0, 0.0], None),
    "all constant": ([0.0, 0.0, 0.0], None),
    "one narrow": ([1.0, 0.49, 1.0], "standard"),
    "one wide": ([1.0, 1.0, 2.01], "standard"),
    "BM25, cosine and clicks": ([4.0, 0.1, 200.0], "standard"),
    "all narrow": ([0.25, 0.25, 0.25], "standard"),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("spreads", "expected"), SPREADS.values(), ids=SPREADS)
def test_linear_weights_are_standardized_unless_spreads_are_usual(spreads, expected, sparse):
    X = np.outer([1.0, -1.0, 1.0, -1.0], spreads)
    queries = Queries.from_arrays(sp.csr_array(X) if sparse else X, [1, 0, 2, 0], group=[4])
    assert choose_scaling(queries, "linear") == expected


def test_missing_values_do_not_count_as_spread():
    X = [[1.0, np.nan], [-1.0, 1.0], [np.nan, -1.0], [1.0, np.nan], [-1.0, np.nan]]
    assert choose_scaling(Queries.from_arrays(X, [1, 0, 1, 0, 0], group=[5], allow_nan=True), "linear") is None


@pytest.mark.parametrize("kind", ["additive", "trees", "expansion"])
def test_other_scorers_are_not_scaled(kind):
    queries = Queries.from_arrays([[1e9], [1e-9]], [1, 0], group=[2])
    assert choose_scaling(queries, kind) is None


def test_scalings_can_be_chosen_by_name():
    assert all(issubclass(scaling, FeatureTransformer) for scaling in SCALINGS.values())
    assert set(SCALINGS) == {"standard", "query-minmax", "query-standard", "query-percentile"}


def test_a_column_without_information_is_zero_for_later_values_too():
    scaler = Standardize().fit([[0.1, np.nan, 1.0], [0.1, np.nan, 3.0], [0.1, np.nan, np.nan]])
    assert scaler.mean_.tolist() == [0.1, 0.0, 2.0]
    assert scaler.scale_.tolist() == [0.0, 0.0, 1.0]
    assert_array_equal(scaler.transform([[9.0, 9.0, 9.0], [np.nan] * 3]), [[0.0, 0.0, 7.0], [np.nan] * 3])


# ThresholdBins


SPACINGS = ("mixed", "quantile", "even")


@given(grouped(), grouped(max_features=1), st.integers(1, 6))
def test_indicators_say_which_thresholds_a_value_exceeds(training, later, n_thresholds):
    X = training[0]
    for spacing in SPACINGS:
        bins = ThresholdBins(n_thresholds, spacing=spacing).fit(X)
        for data in (X, np.repeat(later[0], X.shape[1], axis=1)):
            expected = [[float(x > k) for x, ks in zip(row, bins.thresholds_, strict=True) for k in ks] for row in data]
            result = bins.transform(data)
            assert result.dtype == data.dtype
            assert_array_equal(result, np.array(expected).reshape(len(data), -1))
            below = [sum((ks < x).sum() for x, ks in zip(row, bins.thresholds_, strict=True)) for row in data]
            assert_array_equal(result.sum(axis=1), below)
            sparse = clone(bins).set_params(sparse_output=True).fit(X).transform(data)
            assert isinstance(sparse, sp.csr_array)
            assert sparse.has_sorted_indices
            assert sparse.dtype == data.dtype
            assert_array_equal(sparse.toarray(), result)


@given(grouped(), st.integers(1, 6))
def test_thresholds_increase_and_each_divides_the_training_values(data, n_thresholds):
    X, _ = data
    for spacing in SPACINGS:
        bins = ThresholdBins(n_thresholds, spacing=spacing).fit(X)
        for values, thresholds in zip(X.T, bins.thresholds_, strict=True):
            present = values[~np.isnan(values)]
            varies = len(set(present)) > 1
            assert thresholds.dtype == X.dtype
            assert int(varies) <= len(thresholds) <= (n_thresholds if varies else 0)
            assert (np.diff(thresholds) > 0).all()
            assert all((present <= k).any() and (present > k).any() for k in thresholds)


@given(grouped(missing=False), st.integers(1, 6))
def test_quantile_thresholds_are_the_smallest_values_that_cover_their_share(data, n_thresholds):
    X, _ = data
    bins = ThresholdBins(n_thresholds, spacing="quantile").fit(X)
    for values, thresholds in zip(X.T, bins.thresholds_, strict=True):
        distinct = sorted(set(values.tolist()))
        chosen = set()
        for k in range(1, n_thresholds + 1):
            covers = [v for v in distinct if (values <= v).sum() * (n_thresholds + 1) >= k * len(values)]
            chosen.add(covers[0] if covers[0] < distinct[-1] else distinct[-2:][0])
        assert thresholds.tolist() == (distinct[:-1] if len(distinct) <= n_thresholds + 1 else sorted(chosen))


def test_even_thresholds_cut_the_training_range_into_equal_parts():
    bins = ThresholdBins(spacing="even").fit([[2.0], [53.0], [3.0]])
    assert_allclose(bins.thresholds_[0], np.arange(3.0, 53.0), rtol=1e-14)


def test_even_thresholds_between_neighboring_floats_stay_in_the_range():
    low = np.random.default_rng(0).uniform(0, 10, 200)
    bins = ThresholdBins(spacing="even").fit(np.array([low, np.nextafter(low, 99)]))
    assert_array_equal(np.array(bins.thresholds_), low[:, None])


def test_values_outside_the_training_range_fall_in_the_end_bins():
    bins = ThresholdBins(4, spacing="quantile").fit(np.arange(10.0)[:, None])
    assert_array_equal(bins.transform([[-1e9], [1e9]]), bins.transform([[0.0], [9.0]]))
    assert bins.transform([[-1e9], [1e9]]).sum(axis=1).tolist() == [0, 4]


def test_columns_without_information_yield_no_bins_and_missing_values_exceed_none():
    X = np.array([[1.0, np.nan, 0.0], [1.0, np.nan, 2.0], [1.0, np.nan, np.nan]])
    bins = ThresholdBins(1, spacing="even").fit(X)
    assert [len(thresholds) for thresholds in bins.thresholds_] == [0, 0, 1]
    assert bins.transform(X).tolist() == [[0.0], [1.0], [0.0]]
    assert ThresholdBins(sparse_output=True).fit_transform(X[:, :2]).shape == (3, 0)


def test_a_feature_that_rarely_leaves_its_maximum_keeps_a_threshold():
    X = np.r_[np.ones(1000), 0.25, 0.5][:, None]
    assert ThresholdBins(1, spacing="quantile").fit(X).thresholds_[0].tolist() == [0.5]
    assert ThresholdBins(1, spacing="mixed").fit(X).thresholds_[0].tolist() == [0.5]
    assert ThresholdBins(50, spacing="quantile").fit(X).thresholds_[0].tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    ("column", "n_thresholds", "expected"),
    [
        # Quantiles 1/3 and 2/3 of 0..11, and the third of the range: 3.67 and 7.33.
        (np.arange(12), 4, [3, 11 / 3, 7, 22 / 3]),
        # Quantiles 1/3 and 2/3 of eight values, and half of the range.
        ([0, 1, 2, 3, 4, 5, 6, 96], 3, [2, 5, 48]),
        # An odd threshold goes to the quantiles: here the median, 2.
        ([0, 1, 2, 3, 9], 1, [2]),
        # Nine in ten values are 0: both quantiles are, and count once.
        ([0] * 90 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 30], 4, [0, 10, 20]),
        # Few distinct values: one threshold between every two neighbors, however rare.
        ([5] * 1000 + [1, 7, 7, 100], 3, [1, 5, 7]),
        ([5] * 1000 + [1, 7, 7, 100], 254, [1, 5, 7]),
        ([0, 1], 1, [0]),
        ([-1e308, 0, 1e308, 1.5e308], 2, [0, 0.25e308]),
        ([-1.7e308, 1.7e308, 1e308], 1, [1e308]),
        ([3, 3, 3], 9, []),
        ([np.nan, np.nan], 9, []),
        ([np.nan, 1, np.nan, 2, 2], 9, [1]),
        ([-0.0, 0.0, 1.0], 9, [0.0]),
    ],
)
def test_mixed_thresholds_by_hand(column, n_thresholds, expected):
    values = np.array(column, dtype=np.float64)[:, None]
    bins = ThresholdBins(n_thresholds, spacing="mixed").fit(np.random.default_rng(0).permutation(values))
    assert_allclose(bins.thresholds_[0], np.sort(expected), rtol=1e-15)
    assert not np.signbit(bins.thresholds_[0][bins.thresholds_[0] == 0]).any()


@given(grouped(), st.integers(1, 6))
def test_thresholds_part_all_neighbors_where_they_can(data, n_thresholds):
    X, _ = data
    for spacing in ("mixed", "quantile"):
        bins = ThresholdBins(n_thresholds, spacing=spacing).fit(X)
        for values, thresholds in zip(X.T, bins.thresholds_, strict=True):
            distinct = np.unique(values[~np.isnan(values)])
            if len(distinct) <= n_thresholds + 1:
                assert_array_equal(np.searchsorted(thresholds, distinct), np.arange(len(distinct)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bin_names_are_short_and_distinct(dtype):
    frame = pd.DataFrame({"bm25": [0.1, 0.2, 0.3], "constant": 1.0, "pagerank": [3.0, 4.0, 3.0]}, dtype=dtype)
    bins = ThresholdBins().fit(frame)
    assert bins.get_feature_names_out().tolist() == ["bm25>0.1", "bm25>0.2", "pagerank>3.0"]
    close = np.nextafter(np.arange(1, 40, dtype=dtype)[:, None], np.array([0, 99], dtype=dtype)).reshape(-1, 1)
    names = ThresholdBins(200).fit(close).get_feature_names_out()
    assert len(set(names)) == len(names) > 70


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        (ThresholdBins(0), "n_thresholds is 0; give a whole number of at least 1"),
        (ThresholdBins(2.5), "n_thresholds is 2.5"),
        (ThresholdBins(spacing="log"), "unknown spacing 'log'; known: mixed, quantile, even"),
    ],
    ids=str,
)
def test_bad_options_are_refused(bins, message):
    with pytest.raises(ValueError, match=message):
        bins.fit([[1.0], [2.0]])


# What all of them share


@given(data=grouped())
def test_queries_come_back_as_queries_with_the_same_numbers(data):
    X, qid = data
    grades = np.arange(len(X))
    named = [f"f{feature}" for feature in range(X.shape[1])]
    queries = Queries.from_arrays(X, grades, qid=qid, feature_names=named, allow_nan=True)
    for transformer in ALL:
        prepared = clone(transformer).fit_transform(queries)
        by_array = clone(transformer).fit(X, qid=qid)
        assert_allclose(prepared.X, by_array.transform(X, qid=qid), **precision(X))
        assert_array_equal(prepared.grades, grades)
        assert prepared.feature_names == tuple(by_array.get_feature_names_out(named))


@every
def test_the_input_is_left_as_it_was(transformer):
    X = np.random.default_rng(0).random((40, 3))
    before = X.copy()
    transformer = clone(transformer).fit(X, group=[40])
    for layout in (X, np.asfortranarray(X), X[::-1][::-1]):
        transformer.transform(layout, qid=np.arange(40) % 7)
    assert_array_equal(X, before)


@every
def test_memory_layout_makes_no_difference(transformer):
    X = np.random.default_rng(0).random((40, 3))
    qid = np.arange(40) % 7
    expected = clone(transformer).fit_transform(X, qid=qid)
    for layout in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.tolist()):
        assert_allclose(clone(transformer).fit_transform(layout, qid=qid), expected, rtol=1e-12)


@every
def test_frames_keep_their_column_names_and_index(transformer):
    frame = pd.DataFrame({"bm25": [1.0, 2.0, 4.0], "pagerank": [3.0, 1.0, 1.5]}, index=[7, 5, 6])
    transformer = clone(transformer).set_output(transform="pandas")
    result = transformer.fit_transform(frame, group=[3])
    assert transformer.feature_names_in_.tolist() == ["bm25", "pagerank"]
    assert result.index.tolist() == [7, 5, 6]
    assert result.columns.tolist() == transformer.get_feature_names_out().tolist()
    assert_array_equal(result, clone(transformer).fit_transform(frame.to_numpy(), group=[3]))


@every
def test_set_output_leaves_queries_alone(transformer):
    queries = Queries.from_arrays([[1.0], [2.0], [4.0]], [0, 1, 0], qid=[1, 1, 2])
    prepared = clone(transformer).set_output(transform="pandas").fit_transform(queries)
    assert isinstance(prepared, Queries)
    assert isinstance(prepared.X, np.ndarray)
    assert prepared.feature_names is None


@every
def test_errors_say_what_to_do(transformer):
    name = type(transformer).__name__
    fitted = clone(transformer).fit([[1.0, 2.0], [3.0, 4.0]])
    queries = Queries.from_arrays([[1.0, 2.0]], [0], qid=[1], feature_names=["a", "b"])
    with pytest.raises(NotFittedError):
        clone(transformer).transform([[1.0, 2.0]], group=[1])
    if not transformer.takes_sparse:
        with pytest.raises(DataError, match=rf"{name} takes no sparse X; pass X.toarray\(\), or use Standardize"):
            fitted.transform(sp.csr_array(np.eye(2)), group=[2])
        with pytest.raises(DataError, match="takes no sparse X"):
            clone(transformer).fit(queries.with_features(sp.csr_array(np.eye(2))[[0]]))
    with pytest.raises(DataError, match="pass it without qid and group"):
        fitted.transform(queries, qid=[1])
    with pytest.raises(DataError, match="qid has shape"):
        clone(transformer).fit([[1.0], [2.0]], qid=[5])
    with pytest.raises(DataError, match=f"X has 1 features but {name} was fitted on 2"):
        fitted.transform(queries.with_features(np.ones((1, 1))))
    with pytest.raises(DataError, match="in another order; give a, b"):
        clone(transformer).fit(queries).transform(queries.with_features(queries.X, ["b", "a"]))
    with pytest.raises(DataError, match="no document to learn from"):
        clone(transformer).fit(queries[:0])
    with pytest.raises(ValueError, match="infinity"):
        fitted.transform([[np.inf, 1.0]], group=[1])


@every
def test_no_queries_come_back_as_no_queries(transformer):
    queries = Queries.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, 1])
    prepared = clone(transformer).fit(queries).transform(queries[:0])
    assert len(prepared) == 0
    assert prepared.X.shape[0] == 0


@every
def test_names_are_forgotten_when_fitted_again_without_names(transformer):
    queries = Queries.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, 1], feature_names=["bm25"])
    transformer = clone(transformer).fit(queries)
    assert transformer.feature_names_in_.tolist() == ["bm25"]
    assert not hasattr(transformer.fit(queries.with_features(queries.X)), "feature_names_in_")


@per_query
def test_per_query_needs_to_know_the_queries(transformer):
    with pytest.raises(DataError, match=f"{transformer.__name__} works query by query: pass qid .* group .* Queries"):
        transformer().fit_transform([[1.0], [2.0]])


def test_memory_mapped_features(tmp_path):
    mapped = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(4, 1))
    mapped[:] = [[1], [3], [2], [2]]
    mapped.flush()
    read_only = np.memmap(tmp_path / "X", dtype=np.float32, mode="r", shape=(4, 1))
    queries = Queries.from_arrays(read_only, [0, 1, 0, 1], qid=[1, 1, 2, 2])
    prepared = QueryMinMax().fit_transform(queries)
    assert type(prepared.X) is np.ndarray
    assert prepared.X.tolist() == [[0.0], [1.0], [0.0], [0.0]]


# scikit-learn


def as_one_query(transformer):
    """scikit-learn's checks know no qid: let all rows be one query."""

    class OneQuery(transformer):
        def transform(self, X, *, qid=None, group=None):  # noqa: ARG002
            return super().transform(X, group=[X.shape[0] if sp.issparse(X) else len(np.asarray(X))])

    OneQuery.__name__ = OneQuery.__qualname__ = f"OneQuery{transformer.__name__}"
    globals()[OneQuery.__name__] = OneQuery  # pickle looks it up
    return OneQuery()


def relative_to_the_other_rows(estimator):
    if not type(estimator).__name__.startswith("OneQuery"):
        return {}
    return {"check_methods_subset_invariance": "a value depends on the other documents of the query"}


@parametrize_with_checks(
    [
        Standardize(),
        ThresholdBins(),
        ThresholdBins(spacing="even", sparse_output=True),
        *map(as_one_query, PER_QUERY),
    ],
    expected_failed_checks=relative_to_the_other_rows,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def judged(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 3)), rng.integers(0, 3, n).astype(float), rng.integers(0, 6, n)


@pytest.mark.usefixtures("routing")
@per_query
def test_pipeline_routes_the_query_ids(transformer):
    X, y, qid = judged()
    pipeline = make_pipeline(Standardize(), transformer(), ThresholdBins(5), LinearRegression())
    scores = pipeline.fit(X, y, qid=qid).predict(X, qid=qid)
    by_hand = ThresholdBins(5).fit_transform(transformer().fit_transform(Standardize().fit_transform(X), qid=qid))
    assert_allclose(scores, LinearRegression().fit(by_hand, y).predict(by_hand))


@pytest.mark.usefixtures("routing")
def test_requests_can_be_set():
    X, y, _ = judged()
    scaler = QueryMinMax().set_fit_request(qid=False, group=True).set_transform_request(qid=False, group=True)
    pipeline = make_pipeline(scaler, LinearRegression()).fit(X, y, group=[20, 40])
    expected = QueryMinMax().fit_transform(X, group=[20, 40])
    assert_allclose(pipeline[:-1].transform(X, group=[20, 40]), expected)


def test_a_pipeline_without_routing_takes_queries():
    X, y, qid = judged()
    queries = Queries.from_arrays(X, y, qid=qid)
    pipeline = Pipeline([("minmax", QueryMinMax()), ("bins", ThresholdBins(5))])
    prepared = pipeline.fit_transform(queries)
    by_array = ThresholdBins(5).fit_transform(QueryMinMax().fit_transform(X, qid=qid))
    assert_array_equal(prepared.X, by_array)


@every
def test_a_pickled_transformer_gives_the_same(transformer):
    X, _, qid = judged()
    transformer = clone(transformer).fit(X)
    again = pickle.loads(pickle.dumps(transformer))
    assert again.get_params() == transformer.get_params()
    assert_array_equal(again.transform(X, qid=qid), transformer.transform(X, qid=qid))


# clean


def cosine_of(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def clean_by_hand(X, grades, qid, rel, cosine):
    """Rows that stay, from the definition."""
    zero = {i for i in range(len(X)) if not X[i].any()}
    rest = [i for i in range(len(X)) if i not in zero]
    pairs = [(i, j) for i in rest for j in rest if qid[i] == qid[j] and grades[i] >= rel > grades[j]]
    alike = {i for pair in pairs if cosine_of(*X[list(pair)]) > cosine for i in pair}
    left = [i for i in rest if i not in alike]
    both = [q for q in set(qid) if len({grades[i] >= rel for i in left if qid[i] == q}) == 2]
    return zero, alike, [i for i in left if qid[i] in both]


@st.composite
def judged_queries(draw):
    n = draw(st.integers(1, 12))
    X = np.array(draw(st.lists(st.lists(st.integers(-1, 3), min_size=2, max_size=2), min_size=n, max_size=n)), float)
    grades = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    return X, grades, np.array(draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n)))


FORMS = {"dense": np.asarray, "csr": sp.csr_array, "32": lambda X: X.astype(np.float32)}


@given(data=judged_queries(), rel=st.integers(1, 2), cosine=st.sampled_from([0.99, 0.9, 0.5, 0.0]))
def test_clean_is_its_definition(data, rel, cosine):
    X, grades, qid = data
    zero, alike, kept = clean_by_hand(X, grades, qid, rel, cosine)
    for form, block in product(FORMS, (1, 5, 1 << 22)):
        queries = Queries.from_arrays(FORMS[form](X), grades, qid=qid, document_ids=np.arange(len(X)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(marginrank.preparation.cleaning, "BLOCK", block)
            cleaned, report = clean(queries, rel=rel, cosine=cosine)
        assert sorted(cleaned.document_ids) == kept, (form, block)
        assert report.zero_documents == len(zero)
        assert report.alike_good == sum(grades[i] >= rel for i in alike)
        assert report.alike_bad == sum(grades[i] < rel for i in alike)
        assert report.kept_documents == len(kept) == cleaned.n_documents
        assert report.n_queries - report.dropped_queries == len(cleaned) == len({qid[i] for i in kept})
        assert type(cleaned.X) is type(queries.X)
        assert cleaned.X.dtype == queries.X.dtype


def test_clean_keeps_everything_that_belongs_to_a_document_or_query():
    X = [[1, 0], [0, 1], [0, 0], [1, 1], [2, 2], [0, 0], [1, 0], [0, 2]]
    queries = Queries.from_arrays(
        X,
        [1, 0, 0, 1, 0, 1, 0, 2],
        qid=[7, 7, 7, 8, 8, 8, 9, 9],
        document_ids=list("abcdefgh"),
        document_groups=list("ABCDEFGH"),
        query_weights=[1.0, 2.0, 3.0],
        feature_names=["p", "q"],
    )
    cleaned, report = clean(queries)
    assert cleaned.query_ids.tolist() == [7, 9]
    assert cleaned.document_ids.tolist() == ["a", "b", "g", "h"]
    assert cleaned.document_groups.tolist() == ["A", "B", "G", "H"]
    assert cleaned.query_weights.tolist() == [1.0, 3.0]
    assert cleaned.feature_names == ("p", "q")
    assert cleaned.grades.tolist() == [1, 0, 0, 2]
    assert (
        str(report) == "4 of 8 documents kept, 2 of 3 queries; dropped: 2 all-zero, 1 good and 1 bad alike, 0 stranded"
    )


def test_clean_twice_is_clean():
    X, y, qid = judged(200)
    once, first = clean(Queries.from_arrays(X, y, qid=qid), cosine=0.999)
    twice, second = clean(once, cosine=0.999)
    assert first.kept_documents < 200
    assert second.kept_documents == second.n_documents
    assert_array_equal(twice.X, once.X)


def test_clean_refuses_what_it_cannot_judge():
    queries = Queries.from_arrays([[1.0], [np.nan]], [0, 1], qid=["q7", "q7"], allow_nan=True)
    with pytest.raises(DataError, match="query q7 has NaN features; fill them"):
        clean(queries)
    with pytest.raises(ValueError, match=r"cosine is 1\.0; give a similarity from 0 up to, but not including, 1"):
        clean(queries, cosine=1.0)


# LETOR


def read_ohsumed(variant):
    parts = [read_letor(part, dtype=np.float64, sparse=False) for part in sorted((OHSUMED / variant).glob("S*.txt.xz"))]
    queries = np.concatenate([np.repeat(part.query_ids, part.lengths) for part in parts])
    return np.concatenate([part.X for part in parts]), np.concatenate([part.grades for part in parts]), queries


@pytest.mark.skipif(not OHSUMED.exists(), reason=f"LETOR 3.0 OHSUMED is not at {OHSUMED}")
def test_min_max_is_the_query_level_norm_of_letor():
    X, grades, qid = read_ohsumed("Feature-min")
    published, _, published_qid = read_ohsumed("QueryLevelNorm")
    assert_array_equal(qid, published_qid)
    assert X.shape == (16140, 45)
    # Both files print 6 digits, so half a unit of the sixth is all they can differ by.
    assert_allclose(QueryMinMax().fit_transform(X, qid=qid), published, rtol=0, atol=0.5e-6 + 1e-12)
    _, report = clean(Queries.from_arrays(published, grades, qid=qid))
    assert (report.n_queries, report.n_documents) == (106, 16140)


def test_cleaned_documents_keep_the_keys_of_the_features_they_had():
    queries = Queries.from_arrays([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [1.0, 3.0]], [0, 0, 1, 0], group=[2, 2])
    scaled = Standardize().fit_transform(queries)
    cleaned, _ = clean(scaled)
    assert len(cleaned) == 1
    assert np.array_equal(cleaned.document_keys, queries.document_keys[2:])
