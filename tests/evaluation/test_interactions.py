"""Rankings with interactions of pairs, against all rankings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from marginrank.evaluation import Interactions
from marginrank.evaluation.systems import best_first


def value_of(order, scores, pairs):
    return sum(
        (scores[i] - scores.min() + sum(pairs[j, i] for j in order[:rank])) / np.log2(2 + rank)
        for rank, i in enumerate(order)
    )


def random_query(rng):
    n = int(rng.integers(1, 7))
    upper = np.triu(np.round(rng.normal(0.0, rng.choice([0.2, 1.0]), (n, n)), 1), 1)
    return np.round(rng.standard_normal(n), 1), upper + upper.T, int(rng.integers(1, n + 1))


def test_short_lists_have_the_largest_value_and_long_ones_a_bound():
    rng = np.random.default_rng(0)
    worse = not_by_score = 0
    for _ in range(400):
        scores, pairs, k = random_query(rng)
        largest = max(value_of(order, scores, pairs) for order in permutations(range(len(scores)), k))
        exact = Interactions().order(scores, pairs, k)
        local = Interactions(most_lists=0).order(scores, pairs, k)
        for ranking in (exact, local):
            assert len(set(ranking.order.tolist())) == k
            assert ranking.value == pytest.approx(value_of(ranking.order.tolist(), scores, pairs), abs=1e-12)
            assert ranking.bound >= largest - 1e-9
        assert exact.exact
        assert not local.exact
        assert exact.value == pytest.approx(largest, abs=1e-9)
        worse += local.value < largest - 1e-9
        not_by_score += exact.order.tolist() != best_first(scores, k).tolist()
    assert worse > 0
    assert not_by_score > 50


def test_without_interactions_documents_are_sorted():
    scores = np.random.default_rng(1).standard_normal(40)
    for most in (0, 10_000_000):
        ranking = Interactions(most).order(scores, np.zeros((40, 40)), k=4)
        assert ranking.order.tolist() == best_first(scores, 4).tolist()
        assert ranking.value == pytest.approx(ranking.bound)


def test_constants_change_nothing_and_the_diagonal_does_not_count():
    scores, pairs = np.array([0.9, 0.8, 0.5]), np.array([[7.0, -0.5, 0.0], [-0.5, -7.0, 0.0], [0.0, 0.0, 3.0]])
    for constant in (-5.0, 0.0, 5.0):
        assert Interactions().order(scores + constant, pairs, k=2).order.tolist() == [0, 2]
    assert pairs[0, 0] == 7.0


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (np.zeros((2, 3)), r"interactions have shape \(2, 3\) for 2 documents; give 2 × 2 numbers"),
        ([[0.0, 1.0], [2.0, 0.0]], "documents 0 and 1 have the interactions 1.0 and 2.0; give the same"),
        ([[0.0, np.nan], [np.nan, 0.0]], "an interaction is not finite"),
    ],
)
def test_bad_interactions_are_refused_with_their_place(pairs, message):
    with pytest.raises(ValueError, match=message):
        Interactions().order([1.0, 2.0], pairs)
