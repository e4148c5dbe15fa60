"""Ratings dealt to train and test, and recommenders that regress on ratings or on who rated what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from experiments.jester import levels, split
from marginrank.losses import StructuredLoss, ThresholdHinge
from marginrank.recommend import Ratings, Recommender
from marginrank.recommend.factors_kernel import add_factors, add_products
from marginrank.recommend.ratings import locate
from marginrank.typing import FloatArray, IntArray

#: Scores of pairs of users and items, all of which were trained on.
Scorer: TypeAlias = Callable[[Ratings], FloatArray]
#: Le and Smola (2008) have c_i = (i + 1)^−0.25 for collaborative filtering.
DORM_LOSS: Final = StructuredLoss("ndcg@10", "dorm(shape=power,d=0.25)")
MMMF: Final = "MMMF"
DORM_FACTORS: Final = "factorization by DORM's loss"
#: Parameters of `Recommender`, and the numbers of ratings that have the weight 1 together, to choose C from.
FACTORIZATIONS: Final[Mapping[str, tuple[Mapping[str, Any], Sequence[float]]]] = {
    MMMF: (
        {"loss": ThresholdHinge(), "item_bias": False, "popularity": False, "history": 0},
        (6.0, 12.0, 24.0, 48.0, 96.0),
    ),
    DORM_FACTORS: ({"loss": DORM_LOSS}, (100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0)),
}


def factorized(method: str, ratings_per_C: float) -> Callable[[Ratings], Scorer]:
    """Return the training of a method of `FACTORIZATIONS`."""
    parameters = FACTORIZATIONS[method][0]
    return lambda train: Recommender(**parameters, C=1.0 / ratings_per_C, n_jobs=1).fit(train).predict


def rated(table: FloatArray, chosen: list[IntArray], first_user: int) -> Ratings:
    """Take the chosen items of each user, a row of the table, as ratings on the levels of Jester's scale."""
    users = np.repeat(np.arange(len(chosen)), [len(items) for items in chosen])
    items = np.concatenate(chosen)
    return Ratings.of((users + first_user, items, levels(table[users, items])))


def rated_by_others(others: FloatArray, method: str, n: int, first_user: int) -> Ratings:
    """All ratings of other users; for DORM's loss n of each, as many as the users to test have.

    The hinge of NDCG@10 is nearly flat on long lists, where its minimum is at scores that hardly differ.
    """
    every = [np.flatnonzero(~np.isnan(row)) for row in others]
    return rated(others, split(others, n, seed=2000)[0] if method == DORM_FACTORS else every, first_user)


def deal(ratings: Ratings, n: int, more: int, seed: int) -> tuple[Ratings, Ratings]:
    """Deal the ratings of users with at least n + more: n of each to train on, all others to test on.

    >>> mine = Ratings.of(([1, 1, 1, 2], [1, 2, 3, 1], [5, 3, 4, 1]))
    >>> deal(mine, 1, 2, seed=0)
    (Ratings(1 rating of 3 items by 1 user, 4..4), Ratings(2 ratings of 3 items by 1 user, 3..5))
    """
    order = np.lexsort((np.random.default_rng(seed).random(ratings.n_ratings), ratings.user))
    places = np.empty(ratings.n_ratings, dtype=np.int64)
    places[order] = np.arange(ratings.n_ratings) - ratings.offsets[ratings.user]
    busy, first = (np.diff(ratings.offsets) >= n + more)[ratings.user], places < n
    return ratings.select(busy & first), ratings.select(busy & ~first)


def item_mean(train: Ratings, damping: float = 5.0) -> Scorer:
    """Score items by their mean rating, with so many more ratings at the mean of all.

    >>> mine = Ratings.of(([1, 2, 1], [7, 7, 8], [5, 3, 1]))       # mean 3: (5 + 3 + 1·3) / 3 and (1 + 1·3) / 2
    >>> item_mean(mine, 1.0)(mine).round(3).tolist()
    [3.667, 2.0, 3.667]
    """
    sums = np.bincount(train.item, train.values, minlength=len(train.items))
    means = (sums + damping * train.values.mean()) / (train.item_counts + damping)
    return lambda test: means[test.item]


def biased_als(train: Ratings, rank: int, regularization: float, damping: float = 5.0, rounds: int = 15) -> Scorer:
    """Regress on ratings: biases first, and factors of what is left by alternating least squares."""
    user, item, left = train.user, train.item, train.values - train.values.mean()
    items, users = np.zeros(len(train.items)), np.zeros(len(train.users))
    for _ in range(10):
        items = np.bincount(item, left - users[user], minlength=len(items)) / (train.item_counts + damping)
        users = np.bincount(user, left - items[item]) / (np.diff(train.offsets) + damping)
    left = left - users[user] - items[item]
    rows, V = np.arange(train.n_ratings), 0.1 * np.random.default_rng(0).standard_normal((len(items), rank))
    U = np.zeros((len(users), rank))
    for _ in range(rounds):
        U = _ridges(V, item, left, rows, train.offsets, regularization)
        V = _ridges(U, user, left, train.by_item, train.item_offsets, regularization)
    return _product(train, U, V, items)


def _product(train: Ratings, U: FloatArray, V: FloatArray, biases: FloatArray) -> Scorer:
    def score(test: Ratings) -> FloatArray:
        user = locate(train.users, test.users, "user")[test.user]
        return np.asarray(biases[test.item] + np.einsum("rk,rk->r", U[user], V[test.item]))

    return score


def _ridges(
    factors: FloatArray, other: IntArray, left: FloatArray, order: IntArray, offsets: IntArray, regularization: float
) -> FloatArray:
    """Solve the ridge regression of each user, or of each item."""
    n, rank = len(offsets) - 1, factors.shape[1]
    grams, sums = np.zeros((n, rank, rank)), np.zeros((n, rank))
    add_products(np.ones(len(left)), order, other, factors, offsets, np.arange(n), grams, 0, n)
    add_factors(left, order, other, factors, offsets, sums, 0, n)
    return np.asarray(np.linalg.solve(grams + regularization * np.eye(rank), sums[:, :, None])[:, :, 0])
