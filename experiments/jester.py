"""Jester's ratings of jokes as queries: a query is a user, and what other users say about jokes are the features."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from marginrank.data.queries import Queries
from marginrank.typing import FloatArray, IntArray

#: Features of a document: ``joint`` and ``separate`` are of the joint kernel, ``pair`` has user and item together.
View: TypeAlias = Literal["joint", "separate", "pair"]
LEVELS: Final = 6
_NOT_RATED: Final = 99.0


def levels(ratings: FloatArray) -> FloatArray:
    """Ratings from −10 to 10 as six grades of equal width.

    >>> levels(np.array([-10.0, -0.1, 0.0, 10.0])).tolist()
    [0.0, 2.0, 3.0, 5.0]
    """
    return np.minimum(np.floor((ratings + 10.0) * LEVELS / 20.0), LEVELS - 1.0)


def item_features(ratings: FloatArray, rank: int) -> FloatArray:
    """Describe each item by a constant, its mean rating, and factors of the correlations between items.

    Ratings lose the mean of their user, and those that are missing count as that mean. The mean of an item is in
    standard deviations of all ratings. With the eigenvalues λ_1 ≥ λ_2 ≥ ... and eigenvectors v_k of the correlation
    matrix of items, factor k of item i is √λ_k·v_ki, so that products of factors are the best approximation of the
    correlations by a matrix of that rank: the item kernel of Basilico and Hofmann (2004) without its small parts.

    Args:
        ratings: One row per user, NaN where an item was not rated.
        rank: How many factors.

    >>> F = item_features(np.array([[1.0, -1.0], [2.0, -2.0], [-1.0, 1.0]]), rank=1)    # correlation −1: λ = 2
    >>> np.abs(F[:, 2]).round(6).tolist(), bool(F[0, 2] * F[1, 2] < 0)
    ([1.0, 1.0], True)
    """
    centered = np.nan_to_num(ratings - np.nanmean(ratings, axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(np.corrcoef(centered.T))
    factors = vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0.0))
    means = centered.mean(axis=0) / centered.std()
    return np.column_stack([np.ones(len(means)), means, factors])


@dataclass(frozen=True, eq=False)
class Panel:
    """Users to test on, users to choose parameters by, and features of items that come from others."""

    test: FloatArray
    valid: FloatArray
    others: FloatArray
    items: FloatArray


@cache
def table(data: Path, most: int | None = None) -> FloatArray:
    """Read ratings, users by jokes, NaN where a joke was not rated; those of the first users only if asked for."""
    text = lzma.decompress((data / "jester-1" / "jester-data-1.csv.xz").read_bytes()).decode()
    ratings = np.loadtxt(text.splitlines()[:most], delimiter=",")[:, 1:]
    return np.where(ratings == _NOT_RATED, np.nan, ratings)


@cache
def panel(data: Path, n_users: int, n_input: int, rank: int, least: int) -> Panel:
    """Draw users that rated at least so many items: ``n_users`` to test, as many to choose, the next describe items."""
    ratings = table(data)
    busy = np.flatnonzero((~np.isnan(ratings)).sum(axis=1) >= least)
    drawn = np.random.default_rng(2008).permutation(busy)
    others = ratings[drawn[2 * n_users : 2 * n_users + n_input]]
    test, valid = ratings[drawn[:n_users]], ratings[drawn[n_users : 2 * n_users]]
    return Panel(test, valid, others, item_features(others, rank))


def split(ratings: FloatArray, n: int, seed: int) -> tuple[list[IntArray], list[IntArray]]:
    """Deal the rated items of each user at random: n to train on, the rest to test on."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(np.flatnonzero(~np.isnan(row))) for row in ratings]
    return [order[:n] for order in orders], [order[n:] for order in orders]


def queries(
    ratings: FloatArray, chosen: list[IntArray], features: FloatArray, view: View, known: list[IntArray]
) -> Queries:
    """Make a query of the chosen items of each user.

    With φ the features of an item, ``separate`` has a block of columns for each user, with φ in that of the user, and
    ``joint`` puts φ itself before them. Products of such rows are (1 + [same user])·φ·φ' for ``joint`` and
    [same user]·φ·φ' for ``separate``. ``pair`` is φ beside the ridge regression of the user's known ratings on φ.
    """
    rows = features[np.concatenate(chosen)]
    user = np.repeat(np.arange(len(chosen)), [len(items) for items in chosen])
    grades = levels(np.concatenate([row[items] for row, items in zip(ratings, chosen, strict=True)]))
    X = np.hstack([rows, _tastes(ratings, known, features)[user]]) if view == "pair" else _blocks(rows, user, view)
    return Queries.from_arrays(X, grades, group=np.bincount(user))


def _blocks(rows: FloatArray, user: IntArray, view: View) -> sp.csr_array:
    n, width = rows.shape
    columns = user[:, None] * width + np.arange(width)
    places = np.repeat(np.arange(n), width), columns.ravel()
    separate = sp.csr_array((rows.ravel(), places), shape=(n, width * (int(user.max()) + 1)))
    return separate if view == "separate" else sp.csr_array(sp.hstack([sp.csr_array(rows), separate], format="csr"))


def _tastes(ratings: FloatArray, known: list[IntArray], features: FloatArray) -> FloatArray:
    tastes = []
    for row, items in zip(ratings, known, strict=True):
        X, y = features[items], levels(row[items])
        tastes.append(np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ (y - y.mean())))
    return np.array(tastes)
