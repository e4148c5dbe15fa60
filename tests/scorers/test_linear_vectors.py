"""Vector code of the linear scorer against sums that are rounded once."""

from math import fsum

import numpy as np
import pytest

from marginrank.scorers import linear_vectors
from marginrank.scorers.linear import linear_scores
from marginrank.scorers.linear_kernel import add_rows, score_rows

WIDTHS = [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 31, 46, 136, 137]


def _drawn(n_rows, width, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n_rows, width)) * 10.0 ** rng.integers(-3, 4, (n_rows, width))).astype(dtype)
    return X, rng.standard_normal(width), rng.standard_normal(n_rows)


def _as_kernels_take_it(X):
    return X.view(np.uint16) if X.dtype == np.float16 else X


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_products_of_rows_of_any_width(dtype):
    for width in WIDTHS:
        X, w, _ = _drawn(5, width, dtype)
        scores = np.full(7, np.nan)
        score_rows(_as_kernels_take_it(X), w, scores, 1, 4)
        assert np.isnan(scores[[0, 4, 5, 6]]).all()
        for row in range(1, 4):
            products = X[row].astype(np.float64) * w
            assert scores[row] == pytest.approx(fsum(products), rel=0, abs=1e-15 * width * np.abs(products).sum())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sums_of_any_number_of_rows(dtype):
    for n_rows, width in [(1, 9), (3, 8), (4, 1), (5, 17), (11, 46), (16, 136)]:
        X, _, slopes = _drawn(n_rows + 2, width, dtype)
        slopes[3:5] = 0.0
        out = np.ones(width + 1)
        add_rows(_as_kernels_take_it(X), slopes, out[:width], 1, n_rows + 1)
        assert out[width] == 1.0
        for column in range(width):
            products = X[1 : n_rows + 1, column].astype(np.float64) * slopes[1 : n_rows + 1]
            total = fsum([1.0, *products])
            assert out[column] == pytest.approx(total, rel=0, abs=1e-15 * n_rows * (1.0 + np.abs(products).sum()))


def test_equal_rows_have_equal_products_wherever_they_stand():
    X, w, _ = _drawn(1, 46, np.float32)
    many = np.ascontiguousarray(np.broadcast_to(X, (1001, 46)))
    assert len(set(linear_scores(many, w, n_jobs=2).tolist())) == 1


def test_features_in_another_order_in_memory_are_scored_too():
    X, w, _ = _drawn(40, 12, np.float32)
    expected = linear_scores(X, w)
    assert np.array_equal(linear_scores(np.asfortranarray(X), w), expected)
    assert np.array_equal(linear_scores(np.repeat(X, 2, axis=1)[:, ::2], w), expected)
    frozen = X.copy()
    frozen.flags.writeable = False
    assert np.array_equal(linear_scores(frozen, w), expected)


def test_there_is_a_twin_for_debugging_in_python():
    X, w, slopes = _drawn(8, 5, np.float64)
    assert linear_vectors._product_in_python(X, 2, w) == pytest.approx(float(X[2] @ w))
    for n_rows in (1, 4):
        out = np.zeros(5)
        linear_vectors._adding_in_python(n_rows)(X, 0, slopes, out)
        assert out == pytest.approx(slopes[:n_rows] @ X[:n_rows])
