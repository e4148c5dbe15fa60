"""The profile is the discount: sort by score less worth."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.problem import Problem, Ranker, Sorted
from marginrank.measures import PositionMeasure
from marginrank.measures.rankings import rank_by
from marginrank.typing import FloatArray, IntArray


def prepare_shifted_sort(problem: Problem) -> Ranker:
    """Σ A(r)·(scale·s − weight·gain) is largest in descending order of the bracket (Le and Smola 2008, §4.2)."""
    measure, levels = problem.measure, problem.levels
    if not isinstance(measure, PositionMeasure):
        raise TypeError(f"{measure} is not a sum over ranks")
    discounts = problem.profile
    worth = np.repeat(levels.gains, np.diff(levels.offsets))

    def rank(ordered: Sorted, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int) -> None:
        bounds = levels.queries[first : end + 1]
        places = slice(bounds[0], bounds[-1])
        sizes = np.diff(bounds)
        gain = np.repeat(weights[first:end], sizes) * worth[places]
        shifted = np.repeat(problem.scales[first:end], sizes) * ordered.scores[places] - gain
        order, _ = rank_by(shifted, bounds - bounds[0])
        start = np.repeat(bounds[:-1] - bounds[0], sizes)
        own = np.empty(len(order), dtype=np.int64)
        own[order] = np.arange(len(order)) - start
        ranks[places] = own
        ideal = np.arange(len(order)) - start
        lost = np.append(gain * (discounts[ideal] - discounts[own]), 0.0)
        deltas[first:end] = np.where(sizes > 0, np.add.reduceat(lost, bounds[:-1] - bounds[0]), 0.0)

    return rank
