"""Rankings that cover topics, against all sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from marginrank.evaluation import Cover
from marginrank.evaluation.topic_coverage import GREEDY_SHARE


def value_of(chosen, scores, topics, strength):
    rows = list(chosen)
    return sum(scores[rows] - scores.min()) + strength * np.minimum(topics[rows].sum(axis=0), 1.0).sum()


def random_query(rng):
    n, n_topics = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    topics = rng.integers(0, 11, (n, n_topics)) / 10 * (rng.random((n, n_topics)) < 0.6)
    return np.round(rng.standard_normal(n), 1), topics, int(rng.integers(1, n + 1)), float(rng.choice([0.0, 0.5, 2.0]))


def largest_value(scores, topics, k, strength):
    return max(value_of(chosen, scores, topics, strength) for chosen in combinations(range(len(scores)), k))


def test_short_lists_have_the_largest_value_and_greedy_ones_their_share():
    rng = np.random.default_rng(0)
    worse, lowest = 0, 1.0
    for _ in range(400):
        scores, topics, k, strength = random_query(rng)
        exact = Cover(strength).order(scores, topics, k)
        greedy = Cover(strength, most_documents=0).order(scores, topics, k)
        largest = largest_value(scores, topics, k, strength)
        for ranking in (exact, greedy):
            assert len(set(ranking.order.tolist())) == k
            assert ranking.value == pytest.approx(value_of(ranking.order, scores, topics, strength), abs=1e-12)
        assert exact.exact
        assert exact.value == pytest.approx(largest, abs=1e-9)
        assert greedy.bound >= largest - 1e-7
        assert greedy.value >= greedy.guarantee * largest - 1e-9
        assert greedy.guarantee == (1.0 if k == len(scores) else GREEDY_SHARE)
        worse += greedy.value < largest - 1e-9
        lowest = min(lowest, greedy.value / largest if largest else 1.0)
    assert worse > 0
    assert GREEDY_SHARE < lowest < 1


@pytest.mark.parametrize("unit", [1e-9, 1e-7, 1e9])
def test_short_lists_have_the_largest_value_in_any_unit(unit):
    rng = np.random.default_rng(5)
    for _ in range(40):
        scores, topics = rng.standard_normal(8) * unit, rng.random((8, 3)) * 0.7
        largest = largest_value(scores, topics, 4, unit)
        assert Cover(unit).order(scores, topics, 4).value == pytest.approx(largest, rel=1e-9)
        assert Cover(unit, most_documents=0).order(scores, topics, 4).bound >= largest * (1 - 1e-7)


def test_documents_are_ranked_by_what_they_add():
    topics, scores = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0.9, 0.8, 0.1])
    for most in (0, 200):
        assert Cover(1.0, most).order(scores, topics).order.tolist() == [0, 2, 1]
        assert Cover(0.0, most).order(scores, topics).order.tolist() == [0, 1, 2]
    assert Cover().order([], np.empty((0, 2))).order.tolist() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Cover(-1.0), "strength is -1.0; give a number of at least 0"),
        (lambda: Cover(most_documents=-1), "most_documents is -1"),
        (lambda: Cover().order([1.0], [[1.0]], k=0), "k is 0; rank a whole number"),
        (lambda: Cover().order([1.0], [1.0]), "topics have shape"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
