"""Rankings with limited topics, against all rankings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from marginrank.errors import DataError
from marginrank.evaluation import Diversify
from marginrank.evaluation.diversity import _undominated
from marginrank.evaluation.systems import best_first


def value_of(order, scores):
    return sum((scores[d] - scores.min()) / np.log2(2 + r) for r, d in enumerate(order))


def fits(order, topics, limit):
    return bool((topics[list(order)].sum(axis=0) <= limit + 1e-9).all())


def largest_value(scores, topics, k, limit):
    """Go through all rankings of up to k documents."""
    return max(
        value_of(order, scores)
        for size in range(k + 1)
        for order in permutations(range(len(scores)), size)
        if fits(order, topics, limit)
    )


def random_query(rng):
    n, n_topics = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    topics = rng.integers(0, 11, (n, n_topics)) / 10 * (rng.random((n, n_topics)) < 0.7)
    return np.round(rng.standard_normal(n), 1), topics, int(rng.integers(1, 5)), float(rng.choice([0.5, 1.0, 1.5]))


def test_short_lists_are_ranked_as_well_as_possible():
    rng = np.random.default_rng(0)
    not_by_score = 0
    for _ in range(500):
        scores, topics, k, limit = random_query(rng)
        ranking = Diversify(limit).order(scores, topics, k)
        assert ranking.exact
        assert fits(ranking.order, topics, limit)
        assert len(set(ranking.order.tolist())) == len(ranking.order) <= k
        assert ranking.value == pytest.approx(value_of(ranking.order, scores), abs=1e-12)
        assert ranking.value == pytest.approx(largest_value(scores, topics, k, limit), abs=1e-9)
        greedy = Diversify(limit, most_variables=0).order(scores, topics, k)
        not_by_score += greedy.value < ranking.value - 1e-9
    assert not_by_score > 5


@pytest.mark.parametrize(("unit", "unit_of_weights"), [(1e-9, 1.0), (1e-5, 1.0), (1.0, 1e-8), (1e9, 1e8)])
def test_short_lists_are_exact_in_any_unit(unit, unit_of_weights):
    rng = np.random.default_rng(5)
    for _ in range(20):
        scores, topics = rng.standard_normal(7), rng.random((7, 3)) * 0.7
        largest = unit * largest_value(scores, topics, 3, 1.0)
        ranking = Diversify(unit_of_weights).order(scores * unit, topics * unit_of_weights, 3)
        assert ranking.value == pytest.approx(largest, rel=1e-9)
        greedy = Diversify(unit_of_weights, most_variables=0).order(scores * unit, topics * unit_of_weights, 3)
        assert greedy.bound >= largest * (1 - 1e-7)


def test_greedy_rankings_keep_their_guarantee_and_bound():
    rng = np.random.default_rng(1)
    greedy = 0
    for _ in range(500):
        scores, topics, k, limit = random_query(rng)
        ranking = Diversify(limit, most_variables=0).order(scores, topics, k)
        largest = largest_value(scores, topics, k, limit)
        assert fits(ranking.order, topics, limit)
        assert ranking.value >= ranking.guarantee * largest - 1e-9
        assert ranking.bound >= largest - 1e-7
        greedy += not ranking.exact
    assert greedy > 50


def test_documents_that_others_dominate_are_left_out_without_loss():
    rng = np.random.default_rng(3)
    fewer = 0
    for _ in range(300):
        scores, topics, k, limit = random_query(rng)
        n = len(scores)
        kept = _undominated(scores, topics, k)
        assert np.array_equal(kept, np.unique(kept))
        largest = largest_value(scores, topics, k, limit)
        values = [
            value_of(order, scores)
            for size in range(k + 1)
            for order in permutations(kept.tolist(), size)
            if fits(order, topics, limit)
        ]
        assert max(values) == pytest.approx(largest, abs=1e-12)
        fewer += len(kept) < n
    assert fewer > 50
    # 300 items of four kinds: the ten best of each kind are left, and the program is small enough.
    kinds, scores = np.eye(4)[rng.integers(0, 4, 300)], rng.standard_normal(300)
    ranking = Diversify(2.0).order(scores, kinds, k=10)
    assert ranking.exact
    assert ranking.order.tolist() == [d for d in best_first(scores) if d in set(ranking.order.tolist())]
    assert kinds[ranking.order].sum(axis=0).tolist() == [2.0] * 4


def test_disjoint_topics_of_weight_one_are_groups():
    rng = np.random.default_rng(2)
    for _ in range(30):
        groups, scores = rng.integers(0, 4, 9), rng.standard_normal(9)
        for most in (0, 2000):
            ranking = Diversify(most_variables=most).order(scores, np.eye(4)[groups], k=3)
            assert ranking.order.tolist() == best_first(scores, 3, groups).tolist()
            assert ranking.guarantee == 1


def test_a_constant_added_to_the_scores_changes_nothing_and_ranks_are_filled():
    topics, scores = np.array([[1.0], [1.0], [0.0], [0.0], [2.0]]), np.array([0.3, 0.2, 0.1, 0.0, 9.0])
    for constant in (0.0, -5.0, 5.0):
        assert Diversify().order(scores + constant, topics).order.tolist() == [0, 2, 3]
    assert Diversify(0.5).order([1.0], [[1.0]]).order.tolist() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Diversify(0.0), "limit is 0.0; give a positive number"),
        (lambda: Diversify(most_variables=-1), "most_variables is -1; give a number of at least 0"),
        (lambda: Diversify().order([1.0], [[1.0]], k=0), "k is 0; rank a whole number of documents, at least one"),
    ],
)
def test_parameters_that_make_no_sense(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("scores", "topics", "message"),
    [
        ([[1.0]], [[1.0]], r"scores have shape \(1, 1\); give one per document"),
        ([1.0, 2.0], [[1.0]], r"topics have shape \(1, 1\) for 2 documents; give a row for each"),
        ([1.0, np.nan], [[1.0], [0.0]], "score 1 is nan; every document needs a finite score"),
        ([1.0, 2.0], [[1.0], [-0.5]], "document 1 has the weight -0.5 in topic 0; give finite numbers of at least 0"),
    ],
)
def test_bad_input_is_refused_with_its_place(scores, topics, message):
    with pytest.raises(DataError, match=message):
        Diversify().order(scores, topics)
