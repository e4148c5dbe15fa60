"""Regression on grades."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank.losses.squared_error import SquaredError

numbers = st.floats(-10, 10, allow_subnormal=False)
documents = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 4.0]), numbers, numbers), min_size=1, max_size=8)


@given(documents)
def test_mean_of_half_the_squared_errors(query):
    grades, scores, _ = np.array(query).T
    xi, gradient = SquaredError()(grades, scores)
    assert xi[0] == pytest.approx(np.mean([(s - g) ** 2 / 2 for g, s in zip(grades, scores, strict=True)]), rel=1e-12)
    np.testing.assert_allclose(gradient, (scores - grades) / len(grades), rtol=1e-12)


@given(documents)
def test_gradient_is_the_difference_quotient_and_a_subgradient(query):
    grades, here, there = np.array(query).T
    (xi,), gradient = SquaredError()(grades, here)
    assert SquaredError()(grades, there)[0][0] >= xi + gradient @ (there - here) - 1e-10
    for axis, slope in zip(np.eye(len(grades)), gradient, strict=True):
        rise = SquaredError()(grades, here + 0.5 * axis)[0][0] - SquaredError()(grades, here - 0.5 * axis)[0][0]
        assert rise == pytest.approx(slope, abs=1e-10)


def test_every_query_with_a_document_is_active():
    bound = SquaredError().prepare(np.array([1.0, 1.0, 3.0]), np.array([0, 2, 2, 3]))
    xi, gradient = bound(np.array([1.0, 2.0, 1.0]))
    assert bound.active.tolist() == [True, False, True]
    assert xi.tolist() == [0.25, 0.0, 2.0]
    assert gradient.tolist() == [0.0, 0.5, -2.0]


def test_batches_and_threads_change_no_bit():
    rng = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum(rng.integers(0, 30, 300)))
    grades, scores = rng.integers(0, 5, offsets[-1]).astype(float), rng.normal(size=offsets[-1])
    bound = SquaredError().prepare(grades, offsets)
    xi, gradient = bound(scores, n_jobs=1)
    parallel, parallel_gradient = bound(scores, n_jobs=4)
    np.testing.assert_array_equal(parallel, xi)
    np.testing.assert_array_equal(parallel_gradient, gradient)
    for query, (start, stop) in enumerate(pairwise(offsets)):
        alone, alone_gradient = SquaredError()(grades[start:stop], scores[start:stop])
        assert alone[0] == xi[query]
        np.testing.assert_array_equal(alone_gradient, gradient[start:stop])
