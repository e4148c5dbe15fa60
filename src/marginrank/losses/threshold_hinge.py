"""The hinge of ordinal regression, with thresholds of each query between its grades."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.losses.base import Judgements, PreparedLoss, SmoothLoss
from marginrank.losses.softmax_cross_entropy import varied
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class ThresholdHinge(SmoothLoss):
    """Smooth hinge of scores on the wrong side of thresholds between grades: maximum-margin matrix factorization.

    The loss of Rennie and Srebro (ICML 2005): thresholds θ_r of the query lie between its grades, documents with a
    grade up to r belong below θ_r − 1 and the others above θ_r + 1. Each pays h(z) for its distance z from each
    threshold, with h(z) = ½ − z for z ≤ 0, ½(1 − z)² for 0 < z < 1, and 0 beyond. Thresholds are not regularized, so
    they are minimized away: ξ = Σ_r min over θ_r of the mean of h over the documents of the query, which is convex in
    the scores and unchanged by adding a constant to them. Two grades of a query with no other between them have one
    threshold, weighted by their difference: for whole numbers as many as the levels that they are apart.

    `Recommender` with this loss, no biases and no fixed columns is maximum-margin matrix factorization:
    ``Recommender(loss=ThresholdHinge(), item_bias=False, popularity=False, history=0)``.

    >>> xi, gradient = ThresholdHinge()([1, 0], [0.0, 0.0])          # θ = 0: h(0) = ½ of both
    >>> xi.tolist(), gradient.tolist()
    ([0.5], [-0.5, 0.5])
    >>> ThresholdHinge()([3, 1], [2.0, 0.0])[0].tolist()             # θ = 1 has both at distance 1
    [0.0]
    """

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Sort the documents of each query by grade, and find its thresholds."""
        return _PreparedThresholds(judged)


class _PreparedThresholds(PreparedLoss):
    def __init__(self, judged: Judgements) -> None:
        grades, offsets = judged.grades, judged.offsets
        self.offsets, self.active = offsets, varied(grades, offsets)
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((grades, query))
        rise = np.diff(grades[order])
        splits = np.flatnonzero((rise > 0) & (np.diff(query) == 0)) + 1
        of_query = offsets_from_sizes(np.bincount(query[splits], minlength=len(offsets) - 1))
        self._lists = offsets, order, of_query, splits, rise[splits - 1]
        self._thresholds, self._solved_at = np.zeros(len(splits)), np.full(len(grades), np.nan)

    @property
    def _state(self) -> tuple[FloatArray, FloatArray]:
        """Thresholds, and the scores that they were computed for."""
        return self._thresholds, self._solved_at

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.threshold_hinge_kernel import threshold_loss  # noqa: PLC0415

        threshold_loss(self._lists, self._state, scores, (xi, gradient), first, end)

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.threshold_hinge_kernel import curve_thresholds  # noqa: PLC0415

        curve_thresholds(self._lists, self._state, scores, direction, product, first, end)

    def diagonal(self, scores: FloatArray) -> FloatArray:
        """Return the diagonal of the generalized Hessian at the scores."""
        from marginrank.losses.threshold_hinge_kernel import diagonal_thresholds  # noqa: PLC0415

        diagonal = np.zeros(len(scores))
        diagonal_thresholds(self._lists, self._state, scores, diagonal, 0, len(self.offsets) - 1)
        return diagonal
