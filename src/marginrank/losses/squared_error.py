"""Squared errors of scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.losses.base import Judgements, PreparedLoss, SmoothLoss
from marginrank.losses.softmax_cross_entropy import varied
from marginrank.measures.gains import Gain, check_gain, gains_of
from marginrank.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class SquaredError(SmoothLoss):
    """Regression on the grades: ξ = the mean over the documents of a query of ½(s_i − g_i)².

    The regression baseline of Chapelle, Le and Smola (2007) §5.1. Every query counts, also if all its documents have
    the same grade: scores should equal the grades, and not only be in the same order.

    Args:
        intercept: Whether training adds a constant to all scores, the one with the lowest risk, without a penalty. It
            is no part of the model, since it changes no ranking.

    >>> xi, gradient = SquaredError()([2, 0], [1.0, 0.5])       # (½·1² + ½·0.5²) / 2
    >>> xi.tolist(), gradient.tolist()
    ([0.3125], [-0.5, 0.25])
    """

    intercept: bool = True

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Keep the grades."""
        target = np.array(judged.grades, dtype=np.float64)
        active = np.diff(judged.offsets) > 0
        return PreparedSquares(target, judged.offsets, active, centered=False, intercept=self.intercept)


class PreparedSquares(PreparedLoss):
    """Squared errors of the documents of given queries.

    Args:
        target: Target score, by document.
        offsets: Start of each query, and end of the last.
        active: Queries that count.
        centered: Whether the mean error of a query does not count.
        intercept: Whether training adds an intercept.
    """

    def __init__(
        self,
        target: FloatArray,
        offsets: IntArray,
        active: BoolArray,
        *,
        centered: bool,
        intercept: bool = False,
    ) -> None:
        lengths = np.diff(offsets)
        self._intercept = intercept
        self.offsets, self.active = offsets, active
        self._target, self._centered = target, centered
        self._weights = np.repeat(np.where(active, 1.0 / np.maximum(lengths, 1), 0.0), lengths)
        self._lists = offsets, self._weights

    @property
    def constant_terms(self) -> tuple[FloatArray, FloatArray] | None:
        """The weights, and weights times targets, if training adds an intercept."""
        return (self._weights, self._weights * self._target) if self._intercept else None

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Write the slacks of queries ``first`` to ``end`` and their gradient with respect to the scores."""
        from marginrank.losses.squared_error_kernel import squared_loss  # noqa: PLC0415

        squared_loss(self._lists, self._target, self._centered, scores, (xi, gradient), first, end)

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:  # noqa: ARG002
        """Write the Hessian of queries ``first`` to ``end``, times the direction."""
        from marginrank.losses.squared_error_kernel import curve_squares  # noqa: PLC0415

        curve_squares(self._lists, self._centered, direction, product, first, end)

    def diagonal(self, scores: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the diagonal of the Hessian."""
        return np.asarray(self._weights * (1.0 - self._weights)) if self._centered else self._weights


@dataclass(frozen=True, repr=False)
class SquaredDifferences(SmoothLoss):
    """Regression on differences of gains: ξ = the mean over ordered pairs of ¼((s_i − s_j) − (g_i − g_j))².

    This is half the variance of the errors s_i − g_i inside a query, so it costs no more than `SquaredError`, which
    also asks for the mean gain of the query. Documents sorted by their expected gains have the largest expected DCG:
    Cossock and Zhang (2006), who regress on gains for that reason. Queries whose gains are all the same have ξ = 0.

    Args:
        gain: Gains of grades: ``linear`` (the grades), ``exp2`` (2^g − 1), ``binary`` (g ≥ 1), or a tuple with
            those of grades 0, 1, 2, ...
        unit: Number that the gains are divided by.

    >>> xi, gradient = SquaredDifferences()([2, 0], [1.0, 0.5])       # errors −1 and 0.5: ½·0.75²
    >>> xi.tolist(), gradient.tolist()
    ([0.28125], [-0.375, 0.375])
    >>> SquaredDifferences("exp2", unit=3.0)([2, 0], [8.0, 7.0])[0].tolist()
    [0.0]
    """

    gain: Gain = "linear"
    unit: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.unit < np.inf:
            raise ValueError(f"unit is {self.unit}; give a positive number")
        check_gain(self.gain)

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Compute the gains."""
        gains = gains_of(self.gain, judged.grades) / self.unit
        return PreparedSquares(gains, judged.offsets, varied(gains, judged.offsets), centered=True)
