"""Catalog coverage and popularity bias of recommendations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginrank.recommend.ratings import locate
from marginrank.recommend.recommender import Recommender
from marginrank.runtime.text import count, facts
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Coverage:
    """Figures about the first k recommendations of many users.

    Args:
        k: Length of the lists.
        users: Number of users with a list.
        items: Number of items in the catalog.
        coverage: Share of the items that are in at least one list.
        gini: Gini coefficient of the number of lists per item: 0 if all are equal, near 1 if few items are in all.
        popularity: Mean number of ratings of the items in the lists.
        rated: Mean number of ratings of the items that the same users rated.
    """

    k: int
    users: int
    items: int
    coverage: float
    gini: float
    popularity: float
    rated: float

    @property
    def popularity_bias(self) -> float:
        """Popularity of recommended items relative to that of the items that the users rated; 1 for no bias."""
        return self.popularity / self.rated if self.rated else float("nan")

    def __str__(self) -> str:
        lists = f"first {self.k} items of {count(self.users, 'user')}"
        return facts(
            [
                ("lists", lists),
                ("coverage", f"{self.coverage:.1%} of {count(self.items, 'item')}"),
                ("gini", f"{self.gini:.3f}"),
                ("popularity", f"{self.popularity:.1f} ratings per recommended item, {self.rated:.1f} per rated item"),
                ("popularity bias", f"{self.popularity_bias:.2f}"),
            ]
        )


def item_coverage(recommender: Recommender, k: int = 10, users: Iterable[Any] | None = None) -> Coverage:
    """Measure the coverage of what is recommended to users, by default to all known users; rated items are left out."""
    seen = recommender.model_.seen
    ids = seen.users if users is None else np.asarray(list(users))
    lists = recommender.recommend_to(ids.tolist(), k)
    items = [entry.item for recommended in lists for entry in recommended]
    at = locate(seen.items, np.array(items, dtype=seen.items.dtype), "item")
    times, ratings = np.bincount(at, minlength=len(seen.items)), seen.item_counts
    known = np.concatenate([seen.item[:0], *recommender.model_.seen_by(ids)])
    return Coverage(
        k,
        len(lists),
        len(seen.items),
        float((times > 0).mean()),
        gini(times.astype(np.float64)),
        float(ratings[at].mean()) if len(at) else 0.0,
        float(ratings[known].mean()) if len(known) else 0.0,
    )


def gini(amounts: FloatArray) -> float:
    """Return the Gini coefficient: half the mean absolute difference of two amounts, over their mean.

    >>> gini(np.array([1.0, 1.0, 1.0])), gini(np.array([0.0, 0.0, 3.0]))        # 0; (4·3 / 9) / (2·1)
    (0.0, 0.666...)
    """
    n, total = len(amounts), float(amounts.sum())
    if not total:
        return 0.0
    places = np.arange(1, n + 1)
    return float((2 * places - n - 1) @ np.sort(amounts) / (n * total))
