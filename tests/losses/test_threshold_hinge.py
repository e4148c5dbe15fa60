"""The hinge of ordinal regression, against its definition as a convex program."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from marginrank import Recommender
from marginrank.losses import ThresholdHinge

documents = st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5)), min_size=1, max_size=7)


def smooth_hinge(z):
    return np.where(z <= 0, 0.5 - z, np.where(z < 1, 0.5 * (1 - np.clip(z, 0, 1)) ** 2, 0.0))


def by_definition(grades, scores):
    """All thresholds r = 0, 1, 2, ... below the highest grade, each minimized by a search along the line."""
    total = 0.0
    for r in range(int(grades.min()), int(grades.max())):
        sign = np.where(grades <= r, 1.0, -1.0)

        def hinges(theta, sign=sign):
            return float(smooth_hinge(sign * (theta - scores)).sum())

        grid = np.concatenate([scores - 1, scores, scores + 1])
        starts = np.sort(grid)
        inside = [
            minimize_scalar(hinges, bounds=(a, b), method="bounded", options={"xatol": 1e-10}).fun
            for a, b in pairwise(starts)
            if b > a
        ]
        total += min(*(hinges(theta) for theta in grid), *inside)
    return total / len(scores)


@given(documents)
def test_slack_and_gradient_are_those_of_the_definition(rows):
    grades, scores = np.array([g for g, _ in rows], dtype=float), np.array([s for _, s in rows])
    (xi,), gradient = ThresholdHinge()(grades, scores)
    assert xi == pytest.approx(by_definition(grades, scores), abs=1e-8)
    assert gradient.sum() == pytest.approx(0.0, abs=1e-9)
    for at, axis in enumerate(np.eye(len(rows))):
        ahead, behind = (ThresholdHinge()(grades, scores + h * axis)[0][0] for h in (1e-6, -1e-6))
        assert gradient[at] == pytest.approx((ahead - behind) / 2e-6, abs=2e-5)


@given(documents, documents, st.floats(-10, 10))
def test_shifted_scores_and_other_queries_change_nothing(one, two, shift):
    grades = np.array([g for g, _ in one + two], dtype=float)
    scores, n = np.array([s for _, s in one + two]), len(one)
    xi, gradient = ThresholdHinge()(grades, scores, [0, n, len(grades)])
    moved, _ = ThresholdHinge()(grades, scores + shift, [0, n, len(grades)])
    np.testing.assert_allclose(moved, xi, atol=1e-8)
    alone, at_alone = ThresholdHinge()(grades[:n], scores[:n])
    assert xi[0] == alone[0]
    assert np.array_equal(gradient[:n], at_alone)


def test_products_and_diagonal_are_differences_of_gradients():
    rng = np.random.default_rng(0)
    curved = 0
    for _ in range(50):
        grades, scores, offsets = rng.integers(0, 4, 9), rng.standard_normal(9), [0, 4, 4, 9]
        prepared = ThresholdHinge().prepare(grades, offsets)
        hessian, expected = np.zeros((9, 9)), np.zeros((9, 9))
        for at, axis in enumerate(np.eye(9)):
            prepared.curve(scores, axis, hessian[at], 0, 3)
            expected[at] = (prepared(scores + 1e-7 * axis)[1] - prepared(scores - 1e-7 * axis)[1]) / 2e-7
        np.testing.assert_allclose(hessian, expected, atol=1e-6)
        np.testing.assert_allclose(prepared.diagonal(scores), np.diag(hessian), atol=1e-12)
        curved += hessian.any()
    assert curved > 25


def test_a_recommender_without_columns_is_maximum_margin_matrix_factorization():
    """The objective is ½‖U‖² + ½‖V‖² + C·Σ of the hinges of all ratings and thresholds."""
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((30, 12)) < 0.6)
    values = rng.integers(1, 6, len(users)).astype(float)
    trained = Recommender(
        loss=ThresholdHinge(), factors=3, C=0.3, item_bias=False, popularity=False, history=0, n_jobs=1
    ).fit((users, items, values))
    U, V = trained.user_factors_, trained.item_factors_
    hinges = sum(
        by_definition(values[users == u], U[u] @ V[items[users == u]].T) * (users == u).sum() for u in range(30)
    )
    assert trained.objective_ == pytest.approx(0.5 * (U**2).sum() + 0.5 * (V**2).sum() + 0.3 * hinges, rel=1e-6)
    assert (U**2).sum() > 0.1
    assert trained.trace_[-1].gap <= 1e-3 * trained.objective_
