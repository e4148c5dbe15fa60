"""The intercept of losses that change if a constant is added to all scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from marginrank.data.partitions import Arrays
from marginrank.losses.base import PreparedLoss
from marginrank.scorers.base import PreparedScorer
from marginrank.typing import FloatArray, IntArray


class CenteredScorer(PreparedScorer):
    """A scorer whose inputs are centred: scores Zθ − (m·θ)·1, for the mean m of the rows of Z.

    A risk that is quadratic in a constant b added to all scores is minimal at b = β − m·θ, so that minimising over b
    is the same as centring, and b needs no penalty. The weights have one more entry, −m·θ, and their sums the sum of
    the gradient.

    Args:
        scorer: The scorer.
        mean: m, one number per parameter.
    """

    def __init__(self, scorer: PreparedScorer, mean: FloatArray) -> None:
        self._scorer, self._mean = scorer, mean
        self.queries, self.form, self.signs = scorer.queries, scorer.form, scorer.signs
        self.n_parameters, self.n_bytes, self.block_bytes = scorer.n_parameters, scorer.n_bytes, scorer.block_bytes
        self.expensive, self.sparse_table = scorer.expensive, scorer.sparse_table

    @cached_property
    def spread(self) -> float:  # type: ignore[override]
        """That of the scorer: it does not depend on the mean."""
        return self._scorer.spread

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return the weights of the scorer, and −m·θ."""
        return np.concatenate([self._scorer.weights(theta), -(theta @ self._mean)[..., None]], axis=-1)

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the centred scores of the rows from ``start`` to ``stop``."""
        self._scorer.score(weights[:-1], scores, start, stop)
        scores[start:stop] += weights[-1]

    def empty(self, n: int) -> FloatArray:
        """Allocate an array for scores or gradients."""
        return self._scorer.empty(n)

    def pull_back(self, gradient: FloatArray, gradient_sums: FloatArray, start: int, stop: int) -> None:
        """Add the gradient of the rows from ``start`` to ``stop`` to the sum of each weight."""
        self._scorer.pull_back(gradient, gradient_sums[:-1], start, stop)
        gradient_sums[-1] += gradient[start:stop].sum()

    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the gradient with respect to θ."""
        inner = self._scorer.gradient(np.ascontiguousarray(gradient_sums[..., :-1]))
        return np.asarray(inner - gradient_sums[..., -1:] * self._mean)

    def design_matrix(self, documents: IntArray) -> FloatArray:
        """Return what the weights are multiplied by to score some documents, one row for each document."""
        return np.column_stack([self._scorer.design_matrix(documents), np.ones(len(documents))])


def constant_sums(scorer: PreparedScorer, loss: PreparedLoss) -> Arrays | None:
    """Return what the intercept is computed from, to be added over partitions; None for losses that have none.

    Args:
        scorer: A scorer prepared for the queries.
        loss: The loss prepared for them.

    Returns:
        Σ c_i z_i, Σ t_i and Σ c_i over documents, for the c and t of `PreparedLoss.constant_terms` with the weights of
        the queries.
    """
    terms = loss.constant_terms
    if terms is None:
        return None
    counted = np.repeat(loss.counted(scorer.queries.query_weights), scorer.queries.lengths)
    curvature, target = (counted * term for term in terms)
    values = scorer.empty(len(curvature))
    values[:] = curvature
    sums = np.zeros(len(scorer.weights(np.zeros(scorer.n_parameters))))
    scorer.pull_back(values, sums, 0, len(values))
    return scorer.gradient(sums), np.array([target.sum()]), np.array([curvature.sum()])


def center_scorer(scorer: PreparedScorer, sums: Sequence[FloatArray]) -> tuple[PreparedScorer, FloatArray]:
    """Return the centered scorer, and the scores to add to its own: β = Σ t / Σ c.

    >>> from marginrank.data import Queries
    >>> from marginrank.losses import SquaredError
    >>> from marginrank.scorers.linear.scorer import Linear
    >>> queries = Queries.from_arrays([[1.0], [3.0]], [2, 0], group=[2])
    >>> linear = Linear().prepare(queries)
    >>> centered, base = center_scorer(linear, constant_sums(linear, SquaredError().prepare(queries)))
    >>> centered.scores(np.array([1.0])).tolist(), base.tolist()
    ([-1.0, 1.0], [1.0, 1.0])
    """
    rows, target, curvature = sums
    total = float(curvature[0]) or 1.0
    return CenteredScorer(scorer, rows / total), np.full(scorer.queries.n_documents, float(target[0]) / total)
