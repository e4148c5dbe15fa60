"""A scorer of standardized inputs, which leaves the inputs as they are."""

from __future__ import annotations

import numpy as np

from marginrank.scorers.base import PreparedScorer
from marginrank.typing import FloatArray, IntArray


class StandardizedScorer(PreparedScorer):
    """Scores ((Z − 1·mᵀ)/s)·θ of inputs Z, computed as Z·(θ/s) − m·(θ/s), without a copy of Z.

    The weights have one more entry, −m·(θ/s), and their sums the sum of the gradient. Both terms are in float64: they
    lose the digits of m/s, so that m should be few standard deviations s.

    Args:
        scorer: The scorer of Z.
        mean: m, one number per parameter.
        scale: s, 0 for inputs that are constant, which become 0; 1 by default.
    """

    def __init__(self, scorer: PreparedScorer, mean: FloatArray, scale: FloatArray | None = None) -> None:
        self._scorer, self._mean = scorer, mean
        self._factor = (
            np.ones(len(mean)) if scale is None else np.divide(1.0, scale, np.zeros(len(mean)), where=scale > 0)
        )
        self.queries, self.form, self.signs = scorer.queries, scorer.form, scorer.signs
        self.n_parameters, self.n_bytes, self.block_bytes = scorer.n_parameters, scorer.n_bytes, scorer.block_bytes
        self.expensive, self.sparse_table = scorer.expensive, scorer.sparse_table
        self._scaled = scale is not None

    @property
    def spread(self) -> float:  # type: ignore[override]
        """The spread of the scorer, which does not depend on the mean; of scaled inputs, 1 for each that varies."""
        return float(np.sqrt(np.count_nonzero(self._factor))) if self._scaled else self._scorer.spread

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return the weights of the scorer, and −m·(θ/s)."""
        unscaled = theta * self._factor
        return np.concatenate([self._scorer.weights(unscaled), -(unscaled @ self._mean)[..., None]], axis=-1)

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the scores of the rows from ``start`` to ``stop``."""
        self._scorer.score(weights[:-1], scores, start, stop)
        scores[start:stop] += weights[-1]

    def pull_back(self, gradient: FloatArray, gradient_sums: FloatArray, start: int, stop: int) -> None:
        """Add the gradient of the rows from ``start`` to ``stop`` to the sum of each weight."""
        self._scorer.pull_back(gradient, gradient_sums[:-1], start, stop)
        gradient_sums[-1] += gradient[start:stop].sum()

    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the gradient with respect to θ."""
        inner = self._scorer.gradient(np.ascontiguousarray(gradient_sums[..., :-1]))
        return np.asarray((inner - gradient_sums[..., -1:] * self._mean) * self._factor)

    def design_matrix(self, documents: IntArray) -> FloatArray:
        """Return what the weights are multiplied by to score some documents, one row for each document."""
        return np.column_stack([self._scorer.design_matrix(documents), np.ones(len(documents))])
