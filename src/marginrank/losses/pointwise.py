"""Losses of documents on their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.losses.base import Judgements, Loss, PreparedLoss
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class SquaredError(Loss):
    """Regression on the grades: ξ = the mean over the documents of a query of ½(s_i − g_i)².

    The regression baseline of Chapelle, Le and Smola (2007) §5.1. Every query counts, also if all its documents have
    the same grade: scores should equal the grades, and not only be in the same order.

    >>> xi, gradient = SquaredError()([2, 0], [1.0, 0.5])       # (½·1² + ½·0.5²) / 2
    >>> xi.tolist(), gradient.tolist()
    ([0.3125], [-0.5, 0.25])
    """

    @property
    def smooth(self) -> bool:
        """True."""
        return True

    @property
    def criterion(self) -> str:
        """NDCG, which uses graded relevance."""
        return "ndcg"

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Keep the grades."""
        return _PreparedSquares(judged.grades, judged.offsets)


class _PreparedSquares(PreparedLoss):
    def __init__(self, grades: FloatArray, offsets: IntArray) -> None:
        lengths = np.diff(offsets)
        self.offsets = offsets
        self.active = lengths > 0
        self._grades = grades
        self._query = np.repeat(np.arange(len(lengths)), lengths)
        self._share = np.repeat(1.0 / np.maximum(lengths, 1), lengths)

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        documents = slice(self.offsets[first], self.offsets[end])
        errors, share = scores[documents] - self._grades[documents], self._share[documents]
        gradient[documents] = errors * share
        # A sum that overflows is infinite, which solvers refuse.
        with np.errstate(over="ignore"):
            squares = 0.5 * errors * gradient[documents]
        xi[first:end] = np.bincount(self._query[documents] - first, squares, minlength=end - first)

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:  # noqa: ARG002
        documents = slice(self.offsets[first], self.offsets[end])
        product[documents] = direction[documents] * self._share[documents]

    def diagonal(self, scores: FloatArray) -> FloatArray:  # noqa: ARG002
        return self._share
