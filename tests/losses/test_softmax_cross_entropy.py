"""Cross entropy of top-one probabilities."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax

from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy

LOSSES = [
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy("exp2"),
    SoftmaxCrossEntropy("binary", divergence=True),
    SoftmaxCrossEntropy(divergence=True),
]
GAIN = {"linear": lambda g: g, "exp2": lambda g: 2**g - 1, "binary": lambda g: np.where(g >= 1, 1.0, 0.0)}
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
numbers = st.one_of(st.sampled_from([-1.0, 0.0, 0.5]), st.floats(-20, 20, allow_subnormal=False))
documents = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 4.0]), numbers, numbers), min_size=1, max_size=8)


def by_definition(loss, grades, scores):
    gains = GAIN[loss.gain](grades)
    if len(set(gains.tolist())) < 2:
        return 0.0, np.zeros(len(grades))
    target, model = softmax(gains), softmax(scores)
    if loss.divergence:
        return rel_entr(target, model).sum(), model - target
    return -(target * np.log(model)).sum(), model - target


# Parameters of a property test would all draw the same examples, so these go through the losses themselves.


@given(documents)
def test_cross_entropy_is_its_definition(query):
    grades, scores, _ = np.array(query).T
    for loss in LOSSES:
        xi, gradient = loss(grades, scores)
        expected, slopes = by_definition(loss, grades, scores)
        assert xi[0] == pytest.approx(expected, rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-10, atol=1e-14)


@every_loss
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_many_queries_are_prepared_like_each_alone(loss, n_jobs):
    rng = np.random.default_rng(n_jobs)
    offsets = np.append(0, np.cumsum(rng.integers(0, 40, 300)))
    grades, scores = rng.integers(0, 4, offsets[-1]).astype(float), rng.normal(size=offsets[-1])
    xi, gradient = loss.prepare(grades, offsets, n_jobs=n_jobs)(scores)
    for query, (start, stop) in enumerate(pairwise(offsets)):
        expected, slopes = by_definition(loss, grades[start:stop], scores[start:stop])
        assert xi[query] == pytest.approx(expected, rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(gradient[start:stop], slopes, rtol=1e-10, atol=1e-14)


@given(documents)
def test_convex_and_shift_invariant(query):
    grades, here, there = np.array(query).T
    for loss in LOSSES:
        (xi,), gradient = loss(grades, here)
        assert loss(grades, there)[0][0] >= xi + gradient @ (there - here) - 1e-9
        assert gradient.sum() == pytest.approx(0.0, abs=1e-12)
        assert loss(grades, here + 3.0)[0][0] == pytest.approx(xi, rel=1e-10, abs=1e-10)


@every_loss
def test_gradient_is_the_difference_quotient(loss):
    rng = np.random.default_rng(4)
    grades, scores, step = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0]), rng.normal(size=6), 1e-5
    _, gradient = loss(grades, scores)
    quotients = [
        (loss(grades, scores + step * axis)[0][0] - loss(grades, scores - step * axis)[0][0]) / (2 * step)
        for axis in np.eye(6)
    ]
    np.testing.assert_allclose(gradient, quotients, rtol=1e-6, atol=1e-8)
    assert np.abs(gradient).max() > 0.01


def test_divergence_takes_off_the_entropy_of_the_grades():
    grades, scores = np.array([2.0, 0.0, 1.0]), np.array([0.3, -1.0, 2.0])
    entropy, divergence = SoftmaxCrossEntropy()(grades, scores), SoftmaxCrossEntropy(divergence=True)(grades, scores)
    target = softmax(grades)
    assert entropy[0][0] - divergence[0][0] == pytest.approx(-(target * np.log(target)).sum())
    np.testing.assert_array_equal(entropy[1], divergence[1])


@given(documents, numbers)
def test_scores_that_are_gains_up_to_a_constant_have_no_divergence(query, shift):
    grades = np.array(query).T[0]
    xi, gradient = SoftmaxCrossEntropy(divergence=True)(grades, grades + shift)
    assert 0.0 <= xi[0] <= 1e-13
    np.testing.assert_allclose(gradient, 0.0, atol=1e-13)


def test_huge_scores_and_gains_stay_finite():
    xi, gradient = SoftmaxCrossEntropy()([0, 1], [1e4, -1e4])
    assert xi[0] == pytest.approx(2e4 * np.e / (1 + np.e))
    assert gradient[0] == pytest.approx(np.e / (1 + np.e))
    xi, gradient = SoftmaxCrossEntropy("exp2")([900, 0], [0.0, 0.0])
    assert xi[0] == pytest.approx(np.log(2))
    assert gradient.tolist() == [-0.5, 0.5]


@every_loss
def test_queries_without_an_order_are_zero_and_not_active(loss):
    grades, offsets = np.array([2.0, 2.0, 2.0, 0.0, 3.0]), np.array([0, 2, 2, 4, 5, 5])
    bound = loss.prepare(grades, offsets)
    xi, gradient = bound(np.array([3.0, -1.0, 0.0, 0.5, 2.0]))
    assert bound.active.tolist() == [False, False, True, False, False]
    assert (xi > 0).tolist() == [False, False, True, False, False]
    assert (gradient != 0).tolist() == [False, False, True, True, False]
    empty, nothing = loss.prepare(np.zeros(0), np.array([0, 0]))(np.zeros(0))
    assert (empty.tolist(), len(nothing)) == ([0.0], 0)


@every_loss
def test_batches_and_threads_change_no_bit(loss):
    rng = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum(rng.integers(0, 30, 300)))
    grades, scores = rng.integers(0, 5, offsets[-1]).astype(float), rng.normal(size=offsets[-1])
    bound = loss.prepare(grades, offsets)
    xi, gradient = bound(scores, n_jobs=1)
    parallel, parallel_gradient = bound(scores, n_jobs=4)
    np.testing.assert_array_equal(parallel, xi)
    np.testing.assert_array_equal(parallel_gradient, gradient)
    for query, (start, stop) in enumerate(pairwise(offsets)):
        alone, alone_gradient = loss(grades[start:stop], scores[start:stop])
        assert alone[0] == xi[query]
        np.testing.assert_array_equal(alone_gradient, gradient[start:stop])


@given(documents, st.integers(0, 100))
def test_order_of_documents_does_not_matter(query, seed):
    grades, scores, _ = np.array(query).T
    shuffled = np.random.default_rng(seed).permutation(len(grades))
    for loss in LOSSES:
        xi, gradient = loss(grades, scores)
        other, other_gradient = loss(grades[shuffled], scores[shuffled])
        assert other[0] == pytest.approx(xi[0], rel=1e-12, abs=1e-13)
        np.testing.assert_allclose(other_gradient, gradient[shuffled], rtol=1e-12, atol=1e-15)


def test_unknown_gains_are_refused():
    with pytest.raises(ValueError, match="gain is 'square'; choose 'exp2', 'linear', 'binary' or a tuple"):
        SoftmaxCrossEntropy("square")


def test_a_table_of_gains_is_the_function_that_it_tabulates():
    grades, scores = np.array([2.0, 0.0, 1.0]), np.array([0.3, -1.0, 2.0])
    for gain, table in (("exp2", (0, 1, 3)), ("linear", (0, 1, 2)), ("binary", (0, 1, 1))):
        for value, expected in zip(
            SoftmaxCrossEntropy(table)(grades, scores), SoftmaxCrossEntropy(gain)(grades, scores), strict=True
        ):
            np.testing.assert_array_equal(value, expected)


def test_large_scores_do_not_overflow_wherever_they_are():
    for scores in ([0.0, 1000.0, 1000.0], [1000.0, 0.0, 1000.0]):
        xi, gradient = SoftmaxCrossEntropy(target="share")(np.array(scores) > 0, scores)
        assert xi.tolist() == pytest.approx([np.log(2.0)])
        assert gradient.tolist() == pytest.approx([0.0, 0.0, 0.0])


def test_what_was_written_before_does_not_count():
    prepared = SoftmaxCrossEntropy().prepare([1, 1, 1, 0], [0, 2, 4])
    xi, gradient, product = np.full(2, 7.0), np.full(4, 7.0), np.full(4, 7.0)
    prepared.evaluate(np.zeros(4), xi, gradient, 0, 2)
    prepared.curve(np.zeros(4), np.array([1.0, 2.0, 1.0, 3.0]), product, 0, 2)
    assert xi[0] == 0.0
    assert gradient[:2].tolist() == product[:2].tolist() == [0.0, 0.0]
    assert product[2:].tolist() == [-0.5, 0.5]  # ½·(1 − 2) and ½·(3 − 2)


def test_what_all_scores_share_changes_nothing():
    plain, shifted = (SoftmaxCrossEntropy()([2, 0, 1], np.array([0.0, 1.0, 3.0]) + shift) for shift in (0.0, 2.0**40))
    assert shifted[0].tolist() == plain[0].tolist()
    assert shifted[1].tolist() == plain[1].tolist()
