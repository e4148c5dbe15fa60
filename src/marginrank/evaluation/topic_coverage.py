"""Rankings that cover many topics: a submodular objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from marginrank.evaluation.diversity import DiverseRanking, check_ranks, check_topics
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.limited_assignment import solve_program
from marginrank.typing import FloatArray, IntArray

#: Share of the largest value that greedy sets of k documents have at least, for any monotone submodular function:
#: Nemhauser, Wolsey and Fisher (1978).
GREEDY_SHARE: Final = 1.0 - 1.0 / np.e


@dataclass(frozen=True)
class Cover:
    """Choose k documents by score and by the topics that they cover together.

    The value of a set is Σ_i (s_i − lowest s) + strength·Σ_t min(1, Σ_i w_it), with w_it the weight of document i in
    topic t: once a topic is covered, more documents of it add only their scores. It is monotone and submodular, so
    taking the document that adds most, k times, has at least 1 − 1/e of the largest value. Up to ``most_documents``
    documents, the set is the exact solution of an integer program, by HiGHS; beyond, it is greedy. Documents are
    ranked by what they add to those before them.

    Args:
        strength: Value of a covered topic, in the unit of the scores.
        most_documents: Number of documents up to which the best set is computed exactly.

    >>> topics = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> Cover(strength=1.0).order([0.9, 0.8, 0.1], topics, k=2).order.tolist()     # 0.8 + 1, then 0 + 1 against 0.7
    [0, 2]
    """

    strength: float = 1.0
    most_documents: int = 200

    def __post_init__(self) -> None:
        if not 0 <= self.strength < np.inf:
            raise ValueError(f"strength is {self.strength!r}; give a number of at least 0")
        if not self.most_documents >= 0:
            raise ValueError(f"most_documents is {self.most_documents!r}; give a number of at least 0")

    def order(self, scores: npt.ArrayLike, topics: npt.ArrayLike, k: int | None = None) -> DiverseRanking:
        """Rank the documents of one query.

        Args:
            scores: One per document.
            topics: Weights, a row per document and a column per topic.
            k: Number of ranks; all documents by default.
        """
        values, weights = check_topics(scores, topics)
        ranks = check_ranks(k, len(values))
        if not ranks:
            return DiverseRanking(np.empty(0, dtype=np.int64), 0.0, 0.0, True, 1.0)
        gains = values - values.min()
        greedy = self._greedy(gains, weights, ranks)
        value = self._value(gains, weights, greedy)
        if ranks == len(values):
            return DiverseRanking(greedy, value, value, True, 1.0)
        if len(values) > self.most_documents:
            bound = max(self._program(gains, weights, ranks, whole=False)[1], value)
            return DiverseRanking(greedy, value, bound, False, GREEDY_SHARE)
        chosen, _ = self._program(gains, weights, ranks, whole=True)
        best = chosen[self._greedy(gains[chosen], weights[chosen], ranks)]
        largest = self._value(gains, weights, best)
        return (
            DiverseRanking(best, largest, largest, True, 1.0)
            if largest > value
            else DiverseRanking(greedy, value, value, True, 1.0)
        )

    def _value(self, gains: FloatArray, weights: FloatArray, chosen: IntArray) -> float:
        covered = np.minimum(weights[chosen].sum(axis=0), 1.0)
        return float(gains[chosen].sum() + self.strength * covered.sum())

    def _greedy(self, gains: FloatArray, weights: FloatArray, ranks: int) -> IntArray:
        """Take the document that adds most, again and again; the first of equal ones."""
        left, room = np.ones(len(gains), dtype=np.bool_), np.ones(weights.shape[1])
        taken: list[int] = []
        for _ in range(ranks):
            added = gains + self.strength * np.minimum(weights, room).sum(axis=1)
            best = int(np.argmax(np.where(left, added, -np.inf)))
            taken.append(best)
            left[best] = False
            room = np.maximum(room - weights[best], 0.0)
        return np.array(taken, dtype=np.int64)

    def _program(self, gains: FloatArray, weights: FloatArray, ranks: int, *, whole: bool) -> tuple[IntArray, float]:
        """Solve the program, or its linear relaxation; return the chosen documents and the largest value."""
        n, n_topics = weights.shape
        covered = sp.hstack([sp.csr_array(-weights.T), sp.eye_array(n_topics)])
        size = sp.hstack([sp.csr_array(np.ones((1, n))), sp.csr_array((1, n_topics))])
        values = np.concatenate([gains, np.full(n_topics, self.strength)])
        x, value = solve_program(
            values,
            np.repeat([whole, False], [n, n_topics]),
            sp.vstack([covered, size]),
            -np.inf,
            np.append(np.zeros(n_topics), ranks),
        )
        chosen = np.argsort(-x[:n], kind="stable")[:ranks]
        return np.sort(chosen), value
