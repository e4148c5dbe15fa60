"""Products with Hessians of losses, against sums over pairs and differences of gradients."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from marginrank import DataError, Queries
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, SquaredError, StructuredLoss, SumLoss
from marginrank.runtime.threads import for_chunks
from marginrank.scorers import Linear
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk

from .every import LOSSES, needs_groups, over

GRADES = [0, 0.5, 1, 2, 3]
WEIGHTS = {(a, b): (a - b) ** 2 for a in GRADES for b in GRADES if a > b}
SQUARED = [
    PairwiseHinge(power=2),
    PairwiseHinge(power=2, normalize="none", margin=0.25),
    PairwiseHinge(power=2, normalize="largest", margin=2.0),
    PairwiseHinge(power=2, rank_weights=WEIGHTS),
    PairwiseHinge(power=2, normalize="none", rank_weights={**WEIGHTS, (2, 1): 0.0}),
]
SMOOTH = [*SQUARED, *(loss for loss in LOSSES if loss.smooth and loss not in SQUARED)]
every_squared, every_smooth = over(SQUARED), over(SMOOTH)

# Quarters make pairs that are tied, and pairs that stand exactly at a margin. All differences are exact, so that
# rounding takes no pair to the other side of its margin.
numbers = st.one_of(st.integers(-8, 8).map(lambda k: k / 4), st.floats(-3, 3, allow_subnormal=False, width=16))


@st.composite
def queries_and_directions(draw, most=12, grades=tuple(GRADES)):
    n = draw(st.integers(1, most))
    kinds = st.sampled_from(grades), numbers, numbers
    return tuple(np.array(draw(st.lists(kind, min_size=n, max_size=n)), dtype=float) for kind in kinds)


def product(loss, grades, scores, direction, offsets=None, n_jobs=1):
    bound = loss.prepare(grades, offsets)
    found = np.full(len(scores), np.nan)
    for_chunks(lambda first, end: bound.curve(scores, direction, found, first, end), bound.offsets, n_jobs)
    return found


def over_pairs(loss, grades, scores, direction):
    pairs = [(i, j) for i in range(len(grades)) for j in range(len(grades)) if grades[i] > grades[j]]
    total = np.zeros(len(grades))
    for i, j in pairs:
        weight = 1.0 if loss.rank_weights is None else loss.rank_weights[grades[i], grades[j]]
        if loss.margin - (scores[i] - scores[j]) > 0:
            total[i] += 2 * weight * (direction[i] - direction[j])
            total[j] -= 2 * weight * (direction[i] - direction[j])
    # Alone in its batch, a query is the one with the most pairs.
    return total / max(len(pairs), 1) if loss.normalize == "pairs" else total


@every_squared
@settings(max_examples=50)
@given(case=queries_and_directions())
def test_squared_hinges_curve_by_their_violated_pairs(loss, case):
    np.testing.assert_allclose(product(loss, *case), over_pairs(loss, *case), rtol=1e-12, atol=1e-12)


@settings(max_examples=50)
@given(case=queries_and_directions(most=40, grades=tuple(range(40))))
def test_many_grades(case):
    loss = PairwiseHinge(power=2, normalize="none")
    np.testing.assert_allclose(product(loss, *case), over_pairs(loss, *case), rtol=1e-12, atol=1e-11)


def test_pairs_at_their_margin_do_not_count():
    at, inside = [1.0, 0.0], [0.75, 0.0]
    assert product(PairwiseHinge(power=2), [1, 0], np.array(at), np.array([1.0, 0.0])).tolist() == [0.0, 0.0]
    assert product(PairwiseHinge(power=2), [1, 0], np.array(inside), np.array([1.0, 0.0])).tolist() == [2.0, -2.0]


def test_largest_scales_by_the_query_with_the_most_pairs():
    grades, offsets = np.array([1.0, 0, 0, 0, 1, 0]), np.array([0, 4, 6])
    found = product(PairwiseHinge(power=2, normalize="largest"), grades, np.zeros(6), np.eye(6)[4], offsets)
    assert found.tolist() == [0, 0, 0, 0, 6.0, -6.0]


@every_smooth
@pytest.mark.parametrize("seed", range(5))
def test_products_are_differences_of_gradients(loss, seed):
    rng = np.random.default_rng(seed)
    grades, (scores, direction), step = rng.choice(GRADES, 9), rng.standard_normal((2, 9)), 1e-5
    gaps = np.abs(scores[:, None] - scores - np.array([0.25, 1.0, 2.0])[:, None, None])
    assert gaps.min() > 2 * step * np.ptp(direction), "a pair crosses its margin: take another seed"
    ahead, behind = loss(grades, scores + step * direction)[1], loss(grades, scores - step * direction)[1]
    found = product(loss, grades, scores, direction)
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)
    assert np.abs(found).max() > 0.01
    assert loss.smooth


@every_smooth
def test_hessians_are_symmetric_and_not_negative(loss):
    rng = np.random.default_rng(0)
    for n in range(1, 12):
        grades, scores = rng.choice(GRADES, n), np.round(2 * rng.standard_normal(n)) / 2
        hessian = np.array([product(loss, grades, scores, axis) for axis in np.eye(n)])
        np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12, atol=1e-15)
        assert np.linalg.eigvalsh(hessian).min() >= -1e-12


@every_smooth
def test_the_diagonal_is_that_of_all_products(loss):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 4, 4, 13, 14, 25])
    grades, scores = rng.choice(GRADES, 25), np.round(2 * rng.standard_normal(25)) / 2
    hessian = np.array([product(loss, grades, scores, axis, offsets) for axis in np.eye(25)])
    found = loss.prepare(grades, offsets).diagonal(scores)
    np.testing.assert_allclose(found, np.diag(hessian), rtol=1e-12, atol=1e-15)
    assert found.max() > 0.01


def test_softmax_is_its_formula():
    rng = np.random.default_rng(0)
    scores, direction = rng.standard_normal((2, 5))
    P = softmax(scores)
    found = product(SoftmaxCrossEntropy(), [2, 0, 1, 0, 1], scores, direction)
    np.testing.assert_allclose(found, (np.diag(P) - np.outer(P, P)) @ direction, rtol=1e-12)


@every_squared
def test_what_all_documents_share_does_not_move_a_pair(loss):
    rng = np.random.default_rng(0)
    grades = rng.choice(GRADES, 60)
    assert not product(loss, grades, rng.standard_normal(60), np.full(60, 0.1)).any()


@every_smooth
def test_queries_without_an_order(loss):
    grades, offsets = np.array([2.0, 2.0, 1.0, 3.0, 0.0]), np.array([0, 2, 2, 3, 5, 5])
    bound = loss.prepare(grades, offsets)
    found = product(loss, grades, np.zeros(5), np.arange(5.0) + 1, offsets)
    ordered = np.repeat(bound.active, np.diff(offsets))
    assert np.isfinite(found).all()
    assert not found[~ordered].any()
    assert found[3:].any()
    assert product(loss, np.zeros(0), np.zeros(0), np.zeros(0), np.array([0, 0])).tolist() == []


@every_smooth
def test_batches_threads_and_history_change_no_bit(loss):
    rng = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum(rng.integers(0, 40, 200)))
    grades = rng.choice(GRADES, offsets[-1])
    scores, direction = np.round(rng.standard_normal(offsets[-1]), 1), rng.standard_normal(offsets[-1])
    bound, found = loss.prepare(grades, offsets), np.empty(offsets[-1])
    bound(rng.standard_normal(offsets[-1]))
    bound.curve(scores, direction, found, 0, 200)
    np.testing.assert_array_equal(product(loss, grades, scores, direction, offsets, n_jobs=5), found)
    if getattr(loss, "normalize", None) != "largest":
        for start, stop in pairwise(offsets):
            rows = slice(start, stop)
            np.testing.assert_array_equal(product(loss, grades[rows], scores[rows], direction[rows]), found[rows])


@over(loss for loss in LOSSES if not loss.smooth)
def test_losses_with_kinks_refuse(loss):
    """A sum names its part."""
    name = type(loss.losses[0] if isinstance(loss, SumLoss) else loss).__name__
    prepared = loss.prepare([1.0, 0.0], groups=np.arange(2) if needs_groups(loss) else None)
    with pytest.raises(TypeError, match=f"^{name} has kinks, and so no Hessian; minimize it with the solver 'bundle'"):
        prepared.curve(np.zeros(2), np.ones(2), np.empty(2), 0, 1)
    with pytest.raises(TypeError, match=f"^{name} has kinks"):
        prepared.diagonal(np.zeros(2))


def test_a_sum_names_the_part_that_refuses():
    with pytest.raises(TypeError, match=r"^StructuredLoss has kinks"):
        product(SumLoss((SquaredError(), StructuredLoss("ap"))), [1, 0], np.zeros(2), np.ones(2))


def some_queries(kind="float64"):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 7)) * (rng.random((900, 7)) < 0.5)
    qid = np.sort(rng.integers(0, 60, 900))
    return Queries.from_arrays(
        sp.csr_array(X) if kind == "sparse" else X.astype(kind),
        rng.choice(GRADES, 900),
        qid=qid,
        query_weights=rng.random(len(np.unique(qid))),
    )


@every_smooth
@pytest.mark.parametrize("kind", ["float32", "float64", "sparse"])
def test_the_hessian_of_the_risk_is_that_of_the_scores_pulled_back(loss, kind):
    queries = some_queries(kind)
    rng = np.random.default_rng(2)
    w, direction = rng.standard_normal((2, 7))
    X, risk = queries.dense().astype(float), RankingRisk(Linear().prepare(queries), loss, 1)
    curved = product(loss, queries.grades, X @ w, X @ direction, queries.offsets)
    weights = np.where(risk.loss.active, queries.query_weights, 0.0)
    pulled = X.T @ (np.repeat(weights / weights.sum(), np.diff(queries.offsets)) * curved)
    found = risk.hessian_product(w, direction)
    np.testing.assert_allclose(found, pulled, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(RankingRisk(Linear().prepare(queries), loss, 3).hessian_product(w, direction), found)


def test_a_product_leaves_the_risk_as_it_was():
    risk = empirical_risk(some_queries(), PairwiseHinge(power=2))
    w, direction = np.random.default_rng(3).standard_normal((2, 7))
    value, gradient = risk(w)
    first = risk.hessian_product(w, direction)
    risk(direction)
    np.testing.assert_array_equal(risk.hessian_product(w, direction), first)
    again, same = risk(w)
    assert again == value
    np.testing.assert_array_equal(same, gradient)


def test_products_of_a_risk_are_refused_with_the_way_out():
    queries, w = some_queries(), np.zeros(7)
    with pytest.raises(TypeError, match=r"^PairwiseHinge has kinks"):
        empirical_risk(queries, PairwiseHinge(), n_jobs=2).hessian_product(w, w)
    with pytest.raises(DataError, match=r"w has shape \(3,\) for 7 features"):
        empirical_risk(queries, SquaredError()).hessian_product(w, np.zeros(3))
