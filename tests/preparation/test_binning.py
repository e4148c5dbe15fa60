"""Thresholds that are learned from partitions are those of all rows, to the last bit."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from marginrank import Additive, Queries
from marginrank.distributed import DistributedQueries
from marginrank.preparation.binning import quantile_ranks, sort_values, values_at
from marginrank.scorers.additive.bin_placement import learn_bins

PLACES = [(spacing, shape) for spacing in ("quantile", "even", "mixed") for shape in ("steps", "lines")]


@given(st.integers(1, 2000), st.integers(1, 254))
def test_ranks_are_those_of_numpy(n, m):
    shares = np.arange(1, m + 1) / (m + 1)
    expected = np.quantile(np.arange(n), shares, method="inverted_cdf")
    np.testing.assert_array_equal(quantile_ranks(n, m), expected)


@given(st.sampled_from([np.float32, np.float64]), st.integers(1, 5), st.data())
def test_values_at_ranks_are_those_of_the_sorted_rows(dtype, n_parts, data):
    width = {np.float32: 32, np.float64: 64}[dtype]
    values = st.floats(allow_nan=False, allow_infinity=False, width=width)
    X = data.draw(arrays(dtype, st.tuples(st.integers(n_parts, 30), st.just(2)), elements=values))
    queries = Queries.from_arrays(X, np.zeros(len(X)), qid=range(len(X)))
    from marginrank.preparation.binning import _sort

    parts = DistributedQueries.from_queries(queries, n_parts).partitions.derive(_sort, 0, 2)
    ranks = [data.draw(arrays(np.int64, 3, elements=st.integers(0, len(X) - 1))) for _ in range(2)]
    rows = np.sort(X + 0.0, axis=0)
    found = values_at(parts, ranks, list(rows.T))
    for column, places, got in zip(rows.T, ranks, found, strict=True):
        np.testing.assert_array_equal(got, column[places])
        assert got.dtype == dtype


@pytest.mark.parametrize(("spacing", "shape"), PLACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_are_those_of_all_rows(spacing, shape, dtype, monkeypatch):
    from marginrank.preparation import binning as order_statistics

    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 8)) * 10.0 ** np.arange(-4, 4)
    X[:, 2], X[:, 3], X[:, 4] = X[:, 2].round(3), 7.0, rng.integers(0, 30, 900)
    X[rng.random(900) < 0.3, 5] = np.nan
    X[:, 6] = np.nan
    X[:, 7] = np.where(rng.random(900) < 0.9, -0.0, X[:, 7])
    queries = Queries.from_arrays(X.astype(dtype), np.zeros(900), qid=np.arange(900) // 9, allow_nan=True)
    monkeypatch.setattr(order_statistics, "_COLUMN_BYTES", 2000)  # two features at a time, or one
    for n_bins in (2, 17, 255):
        expected = learn_bins(queries.X, n_bins, spacing, shape=shape)
        for n_parts in (1, 6):
            cut = DistributedQueries.from_queries(queries, n_parts)
            got = Additive(bins=n_bins, spacing=spacing, shape=shape).learn_partitioned(cut)
            np.testing.assert_array_equal(got.missing, expected.missing)
            assert [cuts.dtype for cuts in got.thresholds] == [cuts.dtype for cuts in expected.thresholds]
            for ours, theirs in zip(got.thresholds, expected.thresholds, strict=True):
                np.testing.assert_array_equal(ours, theirs)
            if shape == "lines":
                np.testing.assert_array_equal(got.starts, expected.starts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_a_radix_sort_is_a_sort(dtype, data):
    width = 8 * np.dtype(dtype).itemsize
    values = data.draw(arrays(dtype, st.integers(0, 40), elements=st.floats(width=width)))
    values = np.concatenate([values, -values])
    with mock.patch("marginrank.preparation.binning._RADIX_ROWS", 0):
        assert_array_equal(sort_values(values.copy()), np.sort(values))


def test_many_values_are_sorted():
    values = np.random.default_rng(0).standard_normal(70_000).astype(np.float32)
    values[::7] = np.nan
    expected = np.sort(values)
    assert_array_equal(sort_values(values), expected)
