"""The profile is the discount: sort by score less worth."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.problem import Problem, Ranker, Sorted, Violations
from marginrank.measures.rankings import rank_by
from marginrank.typing import FloatArray


def prepare_shifted_sort(problem: Problem, ordered: Sorted, violations: Violations) -> Ranker:
    """Prepare Σ A(r)·(scale·s − weight·gain), largest in descending order of the bracket (Le and Smola 2008, §4.2)."""
    levels, discounts = problem.levels, problem.profile
    gains = np.repeat(levels.gains, np.diff(levels.offsets))

    def rank(weights: FloatArray, first: int, end: int) -> None:
        offsets = levels.queries[first : end + 1]
        places = slice(offsets[0], offsets[-1])
        offsets = offsets - offsets[0]
        sizes = np.diff(offsets)
        weighted = np.repeat(weights[first:end], sizes) * gains[places]
        shifted = np.repeat(problem.scales[first:end], sizes) * ordered.scores[places] - weighted
        order, _ = rank_by(shifted, offsets)
        ideal = np.arange(len(order)) - np.repeat(offsets[:-1], sizes)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = ideal
        violations.ranks[places] = ranks
        lost = np.append(weighted * (discounts[ideal] - discounts[ranks]), 0.0)
        violations.deltas[first:end] = np.where(sizes > 0, np.add.reduceat(lost, offsets[:-1]), 0.0)

    return rank
