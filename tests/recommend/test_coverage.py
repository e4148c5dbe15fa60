"""Coverage, popularity and drawn negatives, by counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank.errors import DataError
from marginrank.recommend import Ratings, Recommender, item_coverage
from marginrank.recommend.coverage import gini
from marginrank.recommend.implicit_feedback import among_unseen, with_negatives
from marginrank.recommend.ratings import id_column, locate


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((30, 12)) < np.linspace(0.9, 0.2, 12))
    return Recommender(factors=2, history=2).fit((pairs[:, 0], pairs[:, 1], rng.integers(1, 6, len(pairs))))


@pytest.mark.parametrize("k", [1, 3, 12])
def test_figures_of_the_catalog_are_counted(fitted, k):
    found = item_coverage(fitted, k)
    lists = [[one.item for one in fitted.recommend(user, k)] for user in range(30)]
    shown = [item for items in lists for item in items]
    popular = fitted.model_.seen.item_counts
    assert found.coverage == len(set(shown)) / 12
    assert found.popularity == pytest.approx(np.mean([popular[item] for item in shown]))
    assert found.rated == pytest.approx(np.mean(popular[fitted.model_.seen.item]))
    assert found.popularity_bias == pytest.approx(found.popularity / found.rated)
    times = np.array([shown.count(item) for item in range(12)])
    assert found.gini == pytest.approx(np.abs(times[:, None] - times[None, :]).mean() / 2 / times.mean())


def test_some_users_have_a_catalog_of_their_own(fitted):
    found = item_coverage(fitted, 2, users=[3, 4])
    assert found.users == 2
    seen = fitted.model_.seen
    rated = np.concatenate([seen.item[seen.offsets[user] : seen.offsets[user + 1]] for user in (3, 4)])
    assert found.rated == pytest.approx(seen.item_counts[rated].mean())


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_gini_is_half_the_relative_mean_difference(amounts):
    values = np.array(amounts, dtype=float)
    expected = np.abs(values[:, None] - values[None, :]).mean() / 2 / values.mean() if values.any() else 0.0
    assert gini(values) == pytest.approx(expected)


pairs = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=2, max_size=20)


@given(pairs, st.one_of(st.just("all"), st.integers(1, 3)), st.integers(0, 5))
def test_negatives_are_items_that_users_did_not_choose(chosen, negatives, seed):
    users, items = zip(*sorted(chosen), strict=True)
    ratings = Ratings.of((users, items, np.ones(len(users))))
    if len(chosen) == len(ratings.users) * len(ratings.items):
        return
    both = with_negatives(ratings, negatives, seed)
    named = list(zip(both.users[both.user].tolist(), both.items[both.item].tolist(), strict=True))
    assert named == sorted(set(named))
    assert {pair for pair, value in zip(named, both.values, strict=True) if value} == chosen
    for user in both.users.tolist():
        n = sum(who == user for who, _ in chosen)
        drawn = sum(who == user for who, _ in named) - n
        left = len(ratings.items) - n
        assert drawn == (left if negatives == "all" else min(left, negatives * n))


@given(pairs, pairs)
def test_unseen_items_are_all_that_were_not_rated_in_training(trained, held_out):
    seen, test = (Ratings.of((*zip(*sorted(one), strict=True), np.ones(len(one)))) for one in (trained, held_out))
    found = among_unseen(test, seen)
    named = set(zip(found.users[found.user].tolist(), found.items[found.item].tolist(), strict=True))
    known = {item for _, item in trained | held_out}
    users = {user for user, _ in held_out}
    assert named == {(user, item) for user in users for item in known if (user, item) not in trained} | held_out
    relevant = found.values > 0
    assert relevant.sum() == len(held_out)


def test_rankings_of_unseen_items_that_need_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setenv("MARGINRANK_MAX_MEMORY", "1000")
    few = Ratings.of(([1, 1, 2], [1, 2, 3], [1, 1, 1]))
    among_unseen(few, few)
    many = Ratings.of((np.arange(10), np.arange(10), np.ones(10)))
    with pytest.raises(DataError, match=r"rankings of 10 items for 10 users need .*; evaluate fewer users"):
        among_unseen(many, many)


def test_ids_of_every_kind():
    assert id_column(np.array([3, 1], dtype=np.uint8), "user").tolist() == [3, 1]
    assert id_column(np.array(["a", "b"], dtype=object), "user").tolist() == ["a", "b"]
    assert id_column(np.array([7, 8], dtype=object), "user").tolist() == [7, 8]
    assert locate(np.array(["a", "c"]), np.array(["c", "b", "a"]), "item").tolist() == [1, -1, 0]
    for bad in ([True, False], [b"a", b"b"], np.array(["2020-01-01"], dtype="datetime64[D]"), [(1,), (2,)]):
        with pytest.raises(ValueError, match="ids"):
            id_column(bad, "user")
