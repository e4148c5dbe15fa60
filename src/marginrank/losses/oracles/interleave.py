"""AUC, average precision and two-level sums with a convex discount, under φpo."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.problem import Problem, Ranker, Sorted
from marginrank.measures import PositionMeasure
from marginrank.typing import FloatArray, IntArray


def prepare_pairs(problem: Problem) -> Ranker:
    """AUC: every pair on its own, in O(n) after sorting."""
    from marginrank.losses.oracles.interleave_kernel import most_violated_pairs  # noqa: PLC0415

    levels, active, scales = problem.levels, problem.active, problem.scales

    def rank(ordered: Sorted, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int) -> None:
        most_violated_pairs(
            ordered.scores,
            levels.queries,
            levels.offsets,
            levels.of_query,
            active,
            scales,
            weights,
            ranks,
            deltas,
            first,
            end,
        )

    return rank


def prepare_interleaving(problem: Problem) -> Ranker:
    """Average precision, or two levels and a convex discount: every bad on its own, in O(n log n)."""
    from marginrank.losses.oracles.interleave_kernel import most_violated_interleaving  # noqa: PLC0415

    levels, active, scales = problem.levels, problem.active, problem.scales
    discounts = np.zeros(0)
    if isinstance(problem.measure, PositionMeasure):
        discounts = problem.measure.discounts(len(problem.profile))

    def rank(ordered: Sorted, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int) -> None:
        most_violated_interleaving(
            ordered.scores, levels.queries, levels.offsets, levels.of_query, active, scales, weights,
            discounts, levels.gains, ranks, deltas, first, end,
        )  # fmt: skip

    return rank
