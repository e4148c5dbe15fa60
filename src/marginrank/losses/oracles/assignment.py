"""Sums over ranks with many levels and no cutoff: linear assignment of documents to ranks."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.base import ArgmaxProblem, Ranker, SortedDocuments, Violations
from marginrank.typing import FloatArray, IntArray

#: Longest list whose n × n values are laid out.
LONGEST = 10_000


def prepare_assignment(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
    """Prepare any sum over ranks, as the assignment of Le and Smola (2008) eq. (24): O(n³), O(n k²) for k ranks."""
    levels, discounts, profile = problem.levels, problem.discounts, problem.profile
    if len(profile) > LONGEST:
        raise MemoryError(
            f"{problem.measure} with {problem.feature_map} and so many grades is an assignment of documents to ranks, "
            f"too large for a list of {len(profile):,}; use a cutoff, fewer grades, or lists of at most {LONGEST:,}"
        )
    gains, ranks = np.repeat(levels.gains, np.diff(levels.offsets)), violations.ranks

    def rank(weights: FloatArray, first: int, end: int) -> None:
        for query in np.flatnonzero(problem.active[first:end]) + first:
            places = slice(levels.queries[query], levels.queries[query + 1])
            n = places.stop - places.start
            weighted = weights[query] * gains[places]
            scores = ordered.scores[places]
            value = np.outer(problem.scales[query] * scores, profile[:n]) - np.outer(weighted, discounts[:n])
            ranks[places] = assign(value, scores)
            for level in range(levels.of_query[query], levels.of_query[query + 1]):
                # Inside a level every order has the same value, but φpo relies on the order by score.
                ranks[levels.offsets[level] : levels.offsets[level + 1]].sort()
            violations.deltas[query] = weighted @ (discounts[:n] - discounts[ranks[places]])

    return rank


def best_matching(value: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the rows and columns that are matched for the largest sum of values, in the order of rows."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    return linear_sum_assignment(value, maximize=True)


def assign(value: FloatArray, scores: FloatArray) -> IntArray:
    """Return the rank of each document in the assignment of largest value; documents at ranks of no value go by score.

    >>> assign(np.array([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.array([1.0, 3.0, 2.0])).tolist()
    [2, 0, 1]
    """
    n = len(value)
    counting = np.flatnonzero((value != 0.0).any(axis=0))
    k = int(counting[-1]) + 1 if len(counting) else 0
    rows, columns = best_matching(value[:, :k])
    ranks = np.full(n, -1, dtype=np.int64)
    ranks[rows] = columns
    rest = np.flatnonzero(ranks < 0)
    ranks[rest[np.argsort(-scores[rest], kind="stable")]] = np.arange(k, n)
    return ranks
