"""MovieLens-100K: ratings dealt to train and test, and factorisations that regress on ratings."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import numpy as np

from marginrank.recommend import Ratings
from marginrank.typing import FloatArray, IntArray


@cache
def ratings(data: Path) -> Ratings:
    """Read all ratings."""
    text = lzma.decompress((data / "movielens-100k" / "ratings.tsv.xz").read_bytes()).decode()
    table = np.loadtxt(text.splitlines()[1:], delimiter="\t", usecols=(0, 1, 2))
    return Ratings.of((table[:, 0], table[:, 1], table[:, 2]))


def deal(all_ratings: Ratings, n: int, more: int, seed: int) -> tuple[Ratings, Ratings]:
    """Deal the ratings of users with at least n + more: n of each to train on, all others to test on.

    >>> mine = Ratings.of(([1, 1, 1, 2], [1, 2, 3, 1], [5, 3, 4, 1]))
    >>> deal(mine, 1, 2, seed=0)
    (Ratings(1 rating of 3 items by 1 user, 4..4), Ratings(2 ratings of 3 items by 1 user, 3..5))
    """
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(all_ratings.n_ratings), all_ratings.user))
    places = np.empty(all_ratings.n_ratings, dtype=np.int64)
    places[order] = np.arange(all_ratings.n_ratings) - all_ratings.offsets[all_ratings.user]
    busy = (np.diff(all_ratings.offsets) >= n + more)[all_ratings.user]
    return all_ratings.select(busy & (places < n)), all_ratings.select(busy & (places >= n))


def item_means(train: Ratings, damping: float = 5.0) -> FloatArray:
    """Mean rating of each item, with so many more ratings at the mean of all."""
    sums = np.bincount(train.item, train.values, minlength=len(train.items))
    return np.asarray((sums + damping * train.values.mean()) / (train.item_counts + damping))


def biased_als(
    train: Ratings, rank: int, regularisation: float, damping: float = 5.0, rounds: int = 15
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Regress on ratings: biases first, and factors of what is left by alternating least squares.

    Returns item biases, user factors and item factors; biases of users do not change rankings.
    """
    user, item, left = train.user, train.item, train.values - train.values.mean()
    items, users = np.zeros(len(train.items)), np.zeros(len(train.users))
    for _ in range(10):
        items = np.bincount(item, left - users[user], minlength=len(items)) / (train.item_counts + damping)
        users = np.bincount(user, left - items[item]) / (np.diff(train.offsets) + damping)
    left = left - users[user] - items[item]
    rng = np.random.default_rng(0)
    U, V = np.zeros((len(users), rank)), 0.1 * rng.standard_normal((len(items), rank))
    for _ in range(rounds):
        U = _ridges(V, item, left, np.arange(train.n_ratings), train.offsets, regularisation)
        V = _ridges(U, user, left, train.by_item, train.item_offsets, regularisation)
    return items, U, V


def _ridges(
    factors: FloatArray, other: IntArray, left: FloatArray, order: IntArray, offsets: IntArray, regularisation: float
) -> FloatArray:
    """Solve the ridge regression of each user, or of each item."""
    rank = factors.shape[1]
    solved = np.zeros((len(offsets) - 1, rank))
    for one, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        if start < stop:
            X, y = factors[other[order[start:stop]]], left[order[start:stop]]
            solved[one] = np.linalg.solve(X.T @ X + regularisation * np.eye(rank), X.T @ y)
    return solved
