"""Rankings of limited topics: documents belong to several topics by weights, and no topic may take too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.systems import best_first
from marginrank.runtime.limited_assignment import assign_within_limits
from marginrank.typing import FloatArray, IntArray

#: Relative excess of a limit that is taken as rounding; the feasibility tolerance of HiGHS.
TOLERANCE: Final = 1e-6


@dataclass(frozen=True)
class DiverseRanking:
    """A ranking with limited topics.

    Args:
        order: The documents, best first.
        value: Σ_r (s − lowest s) / log2(1 + r) over its ranks r.
        bound: No ranking within the limits has a larger value.
        exact: Whether none has a larger value than this one; otherwise it is greedy.
        guarantee: Proven share of the largest value, before anything is solved: 1 if exact.
    """

    order: IntArray
    value: float
    bound: float
    exact: bool
    guarantee: float


@dataclass(frozen=True)
class Diversify:
    """Rank documents so that the topic weights of the first k add up to at most ``limit`` in each topic.

    Le and Smola (2008) §5.1: with π_ij = 1 if document i is at rank j, the largest Σ_ij π_ij D(j)·(s_i − lowest s)
    subject to Σ_ij π_ij w_is ≤ limit for every topic s, at most one document per rank and one rank per document. Topics
    overlap and weights are any numbers from 0 up, so there is no assignment of groups as for `Queries.document_groups`;
    disjoint topics with weights 1 and limit 1 are such groups. D(r) = 1/log2(1 + r), and scores count from the lowest
    of the query, so that adding a constant to all of them changes nothing.

    A document is left out if k others have no lower score and no higher weight in any topic: one of them can take its
    place in any ranking. Up to ``most_variables`` pairs of the documents left and ranks, the ranking is the exact
    solution of this integer program, by HiGHS. Beyond, documents are taken by score as long as they fit. With w_s the
    smallest positive weight in topic s, that has at least 1/q of the largest value, q = max_i Σ_s ⌈w_is/w_s⌉, at least
    1: a document in at most p topics of equal weights gives 1/p. (Taking i forces at most ⌈w_is/w_s⌉ others out of
    topic s, so rankings are a q-extendible system, where by exchange the first r documents of the greedy order have 1/q
    of the best sum; D is a sum of such prefixes.) ``bound`` is from the linear relaxation, and mostly much closer.

    Args:
        limit: Sum of weights that a topic may have in a ranking.
        most_variables: Number of documents × ranks up to which the program is solved exactly.

    >>> topics = [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]      # Σ ≤ 1 in both columns
    >>> ranking = Diversify().order([0.9, 0.8, 0.7, 0.1], topics, k=2)
    >>> ranking.order.tolist(), ranking.exact                           # 0.7 + 0.6/log2 3 > 0.8 + 0/log2 3
    ([1, 2], True)
    """

    limit: float = 1.0
    most_variables: int = 2000

    def __post_init__(self) -> None:
        if not 0 < self.limit < np.inf:
            raise ValueError(f"limit is {self.limit!r}; give a positive number")
        if not self.most_variables >= 0:
            raise ValueError(f"most_variables is {self.most_variables!r}; give a number of at least 0")

    def order(self, scores: npt.ArrayLike, topics: npt.ArrayLike, k: int | None = None) -> DiverseRanking:
        """Rank the documents of one query.

        Args:
            scores: One per document.
            topics: Weights, a row per document and a column per topic. A document with a weight above the limit is
                never ranked.
            k: Number of ranks; fewer are filled if no more documents fit. All by default.
        """
        values, weights = check_topics(scores, topics)
        allowed = np.flatnonzero((weights <= self._most).all(axis=1))
        ranks = check_ranks(k, len(allowed))
        if not ranks:
            return DiverseRanking(np.empty(0, dtype=np.int64), 0.0, 0.0, True, 1.0)
        if len(allowed) * ranks > self.most_variables:
            allowed = allowed[_undominated(values[allowed], weights[allowed], ranks)]
        gains, weights = values[allowed] - values.min(), weights[allowed]
        discounts = 1.0 / np.log2(np.arange(2.0, ranks + 2.0))
        greedy = self._fill(best_first(gains), weights, ranks)
        plain = np.array_equal(greedy, best_first(gains)[:ranks])
        if plain or len(allowed) * ranks <= self.most_variables:
            chosen = greedy if plain else self._solved(gains, weights, discounts, greedy)
            value = float(gains[chosen] @ discounts[: len(chosen)])
            return DiverseRanking(allowed[chosen], value, value, True, 1.0)
        value = float(gains[greedy] @ discounts[: len(greedy)])
        _, relaxed = assign_within_limits(np.outer(gains, discounts), weights, self.limit, whole=False)
        bound = max(relaxed, value)
        return DiverseRanking(allowed[greedy], value, bound, False, 1.0 / _most_forced_out(weights))

    @property
    def _most(self) -> float:
        return self.limit * (1.0 + TOLERANCE)

    def _fill(self, candidates: IntArray, weights: FloatArray, ranks: int) -> IntArray:
        """Take the candidates in turn as long as they fit."""
        load = np.zeros(weights.shape[1])
        taken: list[int] = []
        for document in candidates.tolist():
            if len(taken) < ranks and (load + weights[document] <= self._most).all():
                load += weights[document]
                taken.append(document)
        return np.array(taken, dtype=np.int64)

    def _solved(self, gains: FloatArray, weights: FloatArray, discounts: FloatArray, greedy: IntArray) -> IntArray:
        """Solve the integer program; documents of the lowest score, which add nothing, fill what is left."""
        placed, _ = assign_within_limits(np.outer(gains, discounts), weights, self.limit)
        best = np.flatnonzero(placed.sum(axis=1))
        candidates = np.concatenate([best[best_first(gains[best])], best_first(gains)])
        _, first = np.unique(candidates, return_index=True)
        chosen = self._fill(candidates[np.sort(first)], weights, len(discounts))
        chosen = chosen[best_first(gains[chosen])]
        better = gains[greedy] @ discounts[: len(greedy)] >= gains[chosen] @ discounts[: len(chosen)]
        return greedy if better else chosen


def _undominated(scores: FloatArray, weights: FloatArray, ranks: int) -> IntArray:
    """Return the documents that fewer than ``ranks`` others dominate, in their order.

    >>> _undominated(np.array([0.9, 0.8, 0.7]), np.array([[1.0], [1.0], [0.5]]), 1).tolist()      # 0 dominates 1
    [0, 2]
    """
    order = best_first(scores)
    ordered = weights[order]
    kept = [at for at in range(len(order)) if (ordered[:at] <= ordered[at]).all(axis=1).sum() < ranks]
    return np.sort(order[kept])


def _most_forced_out(weights: FloatArray) -> int:
    """Return q, the most documents that taking one can force out.

    >>> _most_forced_out(np.array([[1.0, 0.5], [0.5, 0.0], [0.0, 0.5]]))       # ⌈1/0.5⌉ + ⌈0.5/0.5⌉
    3
    """
    smallest = np.where(weights > 0, weights, np.inf).min(axis=0, initial=np.inf)
    forced = np.ceil(weights / smallest - 1e-9).sum(axis=1)
    return max(1, int(forced.max(initial=1)))


def check_ranks(k: int | None, n: int) -> int:
    """Return the number of ranks to fill with n documents."""
    if k is not None and (not isinstance(k, int | np.integer) or k < 1):
        raise ParameterError(Parameter("k"), f" is {k}; rank a whole number of documents, at least one")
    return n if k is None else min(int(k), n)


def check_scores(scores: npt.ArrayLike) -> FloatArray:
    """Return the scores of one query, all finite."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"scores have shape {values.shape}; give one per document of a query")
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise DataError(f"score {place} is {values[place]}; every document needs a finite score")
    return values


def check_topics(scores: npt.ArrayLike, topics: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return scores and topic weights of the documents of one query."""
    values, weights = check_scores(scores), np.asarray(topics, dtype=np.float64)
    if weights.ndim != 2 or len(weights) != len(values):
        raise DataError(
            f"topics have shape {weights.shape} for {len(values)} documents; give a row for each, a column per topic"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row, column = (int(at) for at in np.argwhere(bad)[0])
        raise DataError(
            f"document {row} has the weight {weights[row, column]} in topic {column}; give finite numbers of at least 0"
        )
    return values, weights
