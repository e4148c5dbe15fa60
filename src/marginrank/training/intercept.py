"""The intercept of losses that change if a constant is added to all scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marginrank.data.partitions import Arrays
from marginrank.losses.base import PreparedLoss
from marginrank.scorers.base import PreparedScorer
from marginrank.training.standardized_scorer import StandardizedScorer
from marginrank.typing import FloatArray


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
    sums = np.zeros(len(scorer.weights(np.zeros(scorer.n_parameters))))
    scorer.pull_back(curvature, sums, 0, len(curvature))
    return scorer.gradient(sums), np.array([target.sum()]), np.array([curvature.sum()])


def center_scorer(scorer: PreparedScorer, sums: Sequence[FloatArray]) -> tuple[PreparedScorer, FloatArray]:
    """Return the centered scorer, and the scores to add to its own: β = Σ t / Σ c.

    A risk that is quadratic in a constant b added to all scores is minimal at b = β − m·θ, for the mean m of inputs,
    so that minimizing over b is the same as centering, and b needs no penalty.

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
    return StandardizedScorer(scorer, rows / total), np.full(scorer.queries.n_documents, float(target[0]) / total)
