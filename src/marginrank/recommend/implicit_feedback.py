"""Implicit feedback: relevant items that users chose, and irrelevant ones that they did not."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Literal

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.recommend.ratings import Ratings, locate
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.typing import IntArray


def with_negatives(ratings: Ratings, negatives: int | Literal["all"], seed: int | None) -> Ratings:
    """Add items that users did not choose, with rating 0; chosen items get rating 1.

    Args:
        ratings: What users chose.
        negatives: Number of items to draw for each chosen one, or ``all``.
        seed: Seed of the draws.

    >>> both = with_negatives(Ratings.of((["ann", "bob"], ["x", "y"], [1, 1])), "all", seed=0)
    >>> both.item.tolist(), both.values.tolist()
    ([0, 1, 0, 1], [1.0, 0.0, 0.0, 1.0])
    """
    if np.ptp(ratings.values):
        warnings.warn(
            "with negatives, ratings are ignored and every pair counts as relevant; leave out pairs that users did not "
            "like",
            UserWarning,
            stacklevel=4,
        )
    n_users, n_items = len(ratings.users), len(ratings.items)
    sizes = np.diff(ratings.offsets)
    whole = isinstance(negatives, int | np.integer) and not isinstance(negatives, bool)
    if negatives != "all" and not (whole and negatives >= 1):
        raise ParameterError(
            Parameter("negatives"), f" is {negatives!r}; give a number of items for each that was chosen, or 'all'"
        )
    n_negatives = n_items - sizes if negatives == "all" else np.minimum(negatives * sizes, n_items - sizes)
    if not n_negatives.any():
        raise DataError("every user chose every item, so there are no negatives; give ratings instead")
    needed = 40 * int(sizes.sum() + n_negatives.sum())
    check_memory(needed, f"{n_users:,} users with {int(n_negatives.mean()):,} negatives each", max_memory())
    rng = np.random.default_rng(seed)
    items = []
    for user in range(n_users):
        chosen = ratings.item[ratings.offsets[user] : ratings.offsets[user + 1]]
        items.append(np.sort(np.concatenate([chosen, _unchosen(chosen, n_items, int(n_negatives[user]), rng)])))
    offsets = offsets_from_sizes(sizes + n_negatives)
    both = replace(ratings, item=np.concatenate(items), offsets=offsets, values=np.zeros(int(offsets[-1])))
    keys = ratings.user * n_items + ratings.item
    both.values[np.searchsorted(both.user * n_items + both.item, keys)] = 1.0
    return both


def among_unseen(held_out: Ratings, seen: Ratings) -> Ratings:
    """Return all items that users did not rate in training, with rating 0 if they are not held out.

    >>> seen = Ratings.of((["ann", "bob"], ["x", "y"], [1, 1])).widened(np.array(["ann"]), np.array(["z"]))
    >>> both = among_unseen(Ratings.of((["ann"], ["z"], [1])), seen)
    >>> both.items[both.item].tolist(), both.values.tolist()
    (['y', 'z'], [0.0, 1.0])
    """
    wide = held_out.widened(held_out.users[:0], seen.items)
    users, places = locate(seen.users, wide.users, "user"), np.searchsorted(wide.items, seen.items)
    # A table of ratings and marks, and then values, items and what evaluation keeps of them.
    n_users, n_items = len(wide.users), len(wide.items)
    what = f"rankings of {n_items:,} items for {n_users:,} users"
    check_memory(50 * n_users * n_items, what, max_memory(), remedy="evaluate fewer users at a time")
    chosen = np.zeros((n_users, n_items))
    ranked = np.ones(chosen.shape, dtype=np.bool_)
    for user, known in enumerate(users.tolist()):
        if known >= 0:
            ranked[user, places[seen.item[seen.offsets[known] : seen.offsets[known + 1]]]] = False
    chosen[wide.user, wide.item], ranked[wide.user, wide.item] = wide.values, True
    _, item = np.nonzero(ranked)
    offsets = offsets_from_sizes(ranked.sum(axis=1))
    return replace(wide, item=item.astype(np.int64), offsets=offsets, values=chosen[ranked])


def _unchosen(chosen: IntArray, n_items: int, n: int, rng: np.random.Generator) -> IntArray:
    """Draw items that are not among the chosen, which are sorted, without repetition."""
    left = n_items - len(chosen)
    drawn = np.arange(left) if n == left else rng.choice(left, n, replace=False)
    # The d-th item that was not chosen has d plus as many before it as were chosen up to there.
    return np.asarray(drawn + np.searchsorted(chosen - np.arange(len(chosen)), drawn, side="right"))
