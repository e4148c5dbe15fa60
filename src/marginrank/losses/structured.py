"""The structured hinge and the tight bound of a measure under a feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from marginrank.feature_maps import FeatureMap, FirstRelevant, parse_map
from marginrank.losses.base import BoundLoss, Loss
from marginrank.measures import Measure, parse_measure
from marginrank.oracles.choice import oracle_for
from marginrank.oracles.levels import arrange
from marginrank.oracles.problem import Problem
from marginrank.typing import FloatArray, IntArray

Bound: TypeAlias = Literal["hinge", "tight"]
_NO_REFERENCE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class StructuredLoss(Loss):
    """A bound on the loss Δ of a measure that has a (sub)gradient.

    With s the scores, a(y) the coefficients of the feature map and y* the ideal ranking:

    - ``hinge``: ξ = max_y [Δ(y) + a(y)·s] − a(y*)·s, convex in s; Yue et al. (SIGIR 2007) eq. (4) solved for ξ.
    - ``tight``: ξ = max_y [Δ(y) + a(y)·s] − max_y a(y)·s, not convex, between the hinge and Δ; Chapelle, Le and Smola
      (2007) eq. (14).

    y* does not depend on the scores: its ties are broken by the order of the documents, or the hinge would not be convex.

    >>> xi, gradient = StructuredLoss("auc", "po")([1, 0], [0.25, 0.0])       # max(0, 1 - 2·0.25)
    >>> xi.tolist(), gradient.tolist()
    ([0.5], [-2.0, 2.0])
    """

    measure: str | Measure
    feature_map: str | FeatureMap = "po"
    bound: Bound = "hinge"

    def __post_init__(self) -> None:
        if self.bound not in ("hinge", "tight"):
            raise ValueError(f"bound is {self.bound!r}; choose 'hinge' or 'tight'")
        oracle_for(self.measure, self.feature_map)

    def bind(self, grades: FloatArray, offsets: IntArray) -> BoundLoss:
        """Arrange the documents by level and choose the oracle."""
        measure, feature_map = parse_measure(self.measure), parse_map(self.feature_map)
        return _BoundStructured(Problem(measure, feature_map, arrange(measure, grades, offsets)), self.bound)


class _BoundStructured(BoundLoss):
    def __init__(self, problem: Problem, bound: Bound) -> None:
        levels = problem.levels
        self.problem = problem
        self.bound = bound
        self.offsets = levels.queries
        self.active = problem.active
        most_levels, longest = int(levels.counts.max(initial=1)), int(levels.lengths.max(initial=1))
        self.oracle = oracle_for(problem.measure, problem.feature_map, n_levels=most_levels, longest=longest)
        self._rank = self.oracle.bind(problem)
        self._weights = np.ones(len(self.offsets) - 1)
        # Sorted in place at every evaluation: orders change little from one to the next, and sorting finds that.
        self._documents = levels.documents.copy()
        self._ideal = _NO_REFERENCE
        if problem.feature_map.fixed_ideal:
            self._ideal = np.empty(len(levels.documents), dtype=np.int64)
            start = np.repeat(self.offsets[:-1], levels.lengths)
            self._ideal[levels.documents] = np.arange(len(levels.documents)) - start

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.oracles.sorting_kernel import finish, rank_by_score, sort_levels  # noqa: PLC0415

        levels, problem = self.problem.levels, self.problem
        n = len(scores)
        sorted_scores, ranks, deltas = np.empty(n), np.empty(n, dtype=np.int64), np.zeros(len(xi))
        sort_levels(
            scores, self._documents, sorted_scores, levels.offsets, levels.of_query[first], levels.of_query[end]
        )
        self._rank(sorted_scores, self._weights, ranks, deltas, first, end)
        fixed, predicted = self._ideal, _NO_REFERENCE
        if self.bound == "tight":
            fixed, predicted = _NO_REFERENCE, np.empty(n, dtype=np.int64)
            rank_by_score(sorted_scores, levels.offsets, levels.of_query, predicted, first, end)
        finish(
            self._documents, sorted_scores, self.offsets, self.active, problem.profile, problem.scales, ranks,
            predicted, fixed, deltas, xi, gradient, first, end,
        )  # fmt: skip
