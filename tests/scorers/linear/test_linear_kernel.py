"""Products of the linear scorer against sums that are rounded once."""

from math import fsum

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.scorers import Linear
from marginrank.scorers.linear.linear_kernel import add_rows, score_rows
from marginrank.scorers.linear.scorer import linear_scores

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
        score_rows(_as_kernels_take_it(X)[1:4], w, scores[1:4])
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
        add_rows(_as_kernels_take_it(X)[1 : n_rows + 1], slopes[1 : n_rows + 1], out[:width])
        assert out[width] == 1.0
        for column in range(width):
            products = X[1 : n_rows + 1, column].astype(np.float64) * slopes[1 : n_rows + 1]
            total = fsum([1.0, *products])
            assert out[column] == pytest.approx(total, rel=0, abs=1e-15 * n_rows * (1.0 + np.abs(products).sum()))


def test_every_finite_float16_is_read_as_it_is():
    bits = np.arange(1 << 16, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(np.float16))]
    scores = np.empty(len(bits))
    score_rows(bits[:, None], np.ones(1), scores)
    assert np.array_equal(scores, bits.view(np.float16).astype(np.float64))
    score_rows.py_func(bits[:9, None], np.ones(1), scores)
    assert np.array_equal(scores[:9], bits[:9].view(np.float16).astype(np.float64))


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


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.int64, np.bool_, ">f8", ">f4"])
def test_features_of_other_types_are_numbers(dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype == np.bool_ else 50, (60, 4))
    w = np.array([0.5, -1.0, 2.0, 0.25])
    assert linear_scores(X.astype(dtype), w).tolist() == (X @ w).tolist()
    grades, qid = (X[:, 0] > X[:, 1]).astype(int), np.repeat(np.arange(6), 10)
    for scaling in (None, "standard"):
        model = Ranker("svmmap", scaling=scaling).fit(X, grades, qid=qid).model_
        assert model.score(X.astype(dtype)) == pytest.approx(model.score(X.astype(float)), rel=1e-12)


def test_weights_of_other_types_and_strides_are_numbers():
    X, _, _ = _drawn(6, 4, np.float32)
    w = np.array([1.0, -2.0, 3.0, 4.0])
    queries = Queries.from_arrays(X, [1, 0] * 3, group=[6])
    expected = linear_scores(X, w)
    for same in (w.astype(int), w.astype(np.float32), np.repeat(w, 3)[::3], w[::-1].copy()[::-1]):
        assert np.array_equal(linear_scores(X, same), expected)
        assert np.array_equal(Linear().prepare(queries).scores(same), expected)
