"""Rankings of documents that should, or should not, stand together: quadratic assignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.evaluation.diversity import DiverseRanking, check_ranks, check_scores
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Interactions:
    """Rank documents by score and by what pairs of them are worth in the same ranking.

    The largest Σ_r D(r)·(s_i − lowest s + Σ of a_ij over the documents j before i), with i the document at rank r and
    D(r) = 1/log2(1 + r): a pair counts where its second document stands. This is the interaction of Le and Smola
    (2008) eq. (29), a quadratic assignment, which takes exponential time. If there are at most ``most_lists`` lists of
    k documents, n·(n − 1)⋯(n − k + 1), branch and bound finds the best. Beyond, a greedy ranking is improved by
    exchanging and inserting documents until no single change helps. ``bound`` is then that of branch and bound before
    it branches: half of what a pair adds counts for each of its documents, and k − 1 best pairs for each.

    Args:
        most_lists: Number of lists up to which the best is computed exactly.

    >>> pairs = [[0.0, -0.5, 0.0], [-0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]              # 0 and 1 say the same
    >>> ranking = Interactions().order([0.9, 0.8, 0.5], pairs, k=2)
    >>> ranking.order.tolist(), ranking.exact                                     # (0.8 − 0.5 − 0.5)·D < 0·D
    ([0, 2], True)
    """

    most_lists: int = 10_000_000

    def __post_init__(self) -> None:
        if not self.most_lists >= 0:
            raise ValueError(f"most_lists is {self.most_lists!r}; give a number of at least 0")

    def order(self, scores: npt.ArrayLike, interactions: npt.ArrayLike, k: int | None = None) -> DiverseRanking:
        """Rank the documents of one query.

        Args:
            scores: One per document.
            interactions: What each pair adds, documents × documents and symmetric: above 0 for pairs that should
                stand together, below 0 for those that should not. The diagonal does not count.
            k: Number of ranks; all documents by default.
        """
        from marginrank.evaluation.interactions_kernel import best_list, improve, list_value, upper_bound  # noqa: PLC0415

        values = check_scores(scores)
        pairs = _checked(interactions, len(values))
        ranks = check_ranks(k, len(values))
        if not ranks:
            return DiverseRanking(np.empty(0, dtype=np.int64), 0.0, 0.0, True, 1.0)
        gains, discounts = values - values.min(), 1.0 / np.log2(np.arange(2.0, ranks + 2.0))
        order = np.empty(len(gains), dtype=np.int64)
        improve(gains, pairs, discounts, order)
        value = float(list_value(gains, pairs, discounts, order))
        if _lists(len(gains), ranks) > self.most_lists:
            bound = float(upper_bound(gains, pairs, discounts, np.zeros(len(gains), dtype=np.bool_), 0))
            return DiverseRanking(order[:ranks].copy(), value, max(bound, value), False, 0.0)
        best = order[:ranks].copy()
        value = float(best_list(gains, pairs, discounts, best, value))
        return DiverseRanking(best, value, value, True, 1.0)


def _lists(n: int, ranks: int) -> float:
    """Count the lists of so many of n documents.

    >>> _lists(5, 2)
    20.0
    """
    return float(np.prod(np.arange(n, n - ranks, -1, dtype=np.float64)))


def _checked(interactions: npt.ArrayLike, n: int) -> FloatArray:
    pairs = np.array(interactions, dtype=np.float64)
    if pairs.shape != (n, n):
        raise DataError(f"interactions have shape {pairs.shape} for {n} documents; give {n} × {n} numbers")
    np.fill_diagonal(pairs, 0.0)
    if not np.isfinite(pairs).all():
        raise DataError("an interaction is not finite; give 0 for pairs that do not matter")
    wrong = np.argwhere(pairs != pairs.T)
    if len(wrong):
        one, two = wrong[0].tolist()
        raise DataError(
            f"documents {one} and {two} have the interactions {pairs[one, two]} and {pairs[two, one]}; give the same "
            "number for both orders"
        )
    return pairs
