"""Regression on differences of gains, by its definition over pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank.losses import SquaredDifferences

documents = st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5)), min_size=1, max_size=7)


@given(documents, st.sampled_from(["linear", "exp2", "binary"]), st.floats(0.5, 4))
def test_it_is_the_mean_over_ordered_pairs(rows, gain, unit):
    grades, scores = np.array([g for g, _ in rows], dtype=float), np.array([s for _, s in rows])
    gains = {"linear": grades, "exp2": 2.0**grades - 1, "binary": (grades >= 1).astype(float)}[gain] / unit
    errors = scores - gains
    (xi,), gradient = SquaredDifferences(gain, unit)(grades, scores)
    by_pairs = 0.25 * np.mean((errors[:, None] - errors[None, :]) ** 2) if len(set(gains)) > 1 else 0.0
    assert xi == pytest.approx(by_pairs, abs=1e-9)
    for at, axis in enumerate(np.eye(len(rows))):
        ahead, behind = (SquaredDifferences(gain, unit)(grades, scores + h * axis)[0][0] for h in (0.5, -0.5))
        assert gradient[at] == pytest.approx(ahead - behind, abs=1e-9)


@given(documents, documents, st.floats(-10, 10))
def test_shifted_scores_and_other_queries_change_nothing(one, two, shift):
    grades = np.array([g for g, _ in one + two], dtype=float)
    scores, n = np.array([s for _, s in one + two]), len(one)
    xi, gradient = SquaredDifferences()(grades, scores, [0, n, len(grades)])
    moved, _ = SquaredDifferences()(grades, scores + shift, [0, n, len(grades)])
    np.testing.assert_allclose(moved, xi, atol=1e-8)
    alone, slope = SquaredDifferences()(grades[:n], scores[:n])
    assert xi[0] == alone[0]
    assert np.array_equal(gradient[:n], slope)


def test_products_and_diagonal_are_those_of_the_hessian():
    rng = np.random.default_rng(0)
    prepared = SquaredDifferences().prepare([1, 0, 2, 1, 1, 3], [0, 3, 3, 5, 6])
    scores, hessian = rng.standard_normal(6), np.zeros((6, 6))
    for at, axis in enumerate(np.eye(6)):
        prepared.curve(scores, axis, hessian[at], 0, 4)
    expected = np.zeros((6, 6))
    expected[:3, :3] = np.eye(3) / 3 - 1 / 9
    np.testing.assert_allclose(hessian, expected, atol=1e-15)
    np.testing.assert_allclose(prepared.diagonal(scores), np.diag(expected))
    assert prepared.active.tolist() == [True, False, False, False]


@pytest.mark.parametrize(("options", "message"), [({"gain": "cubic"}, "gain is 'cubic'"), ({"unit": 0.0}, "unit is")])
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SquaredDifferences(**options)
