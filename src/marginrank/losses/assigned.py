"""Losses whose argmax is an assignment: any cost of documents at ranks, and groups that count once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from marginrank.errors import DataError
from marginrank.losses.base import Bound, PreparedLoss, TwoBoundLoss
from marginrank.losses.feature_maps import FeatureMap, Positional, parse_map
from marginrank.measures import Measure, Rankings, parse_measure
from marginrank.measures.thresholds import check_grades
from marginrank.typing import AnyArray, FloatArray, IntArray


class _PreparedAssigned(PreparedLoss):
    """One query at a time: candidates × ranks, of which an assignment takes the largest sum."""

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        for query in range(first, end):
            documents = slice(self.offsets[query], self.offsets[query + 1])
            xi[query], gradient[documents] = 0.0, 0.0
            if self.active[query]:
                xi[query], gradient[documents] = self._loss(query, scores[documents])

    @abstractmethod
    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        """Slack of one query and its gradient."""


@dataclass(frozen=True)
class CostLoss(TwoBoundLoss):
    """A bound of any position-dependent loss Σ_i C(i, rank of i), Le and Smola (2008) eq. (19).

    ``cost`` gives the matrix of documents × ranks for the grades of a query; Δ is what a ranking costs more than the
    cheapest, y*. The feature map is positional.

    >>> inversions = CostLoss(lambda grades: np.outer(grades, np.arange(len(grades))), "dorm(shape=linear)")
    >>> inversions([1, 0], [0.0, 0.0])[0].tolist()                            # rank 1 instead of 0
    [1.0]
    """

    cost: Callable[[FloatArray], npt.ArrayLike]
    feature_map: str | FeatureMap = "dorm"
    bound: Bound = "hinge"

    def _prepare(self, grades: FloatArray, offsets: IntArray) -> PreparedLoss:
        """Find the cheapest ranking of each query."""
        feature_map = parse_map(self.feature_map)
        if not isinstance(feature_map, Positional) or feature_map.shape in ("truncated", "discount"):
            raise ValueError(f"a cost of documents at ranks goes with a positional map of its own, not {feature_map}")
        return _PreparedCost(self.cost, feature_map, self.bound, grades, offsets)


class _PreparedCost(_PreparedAssigned):
    def __init__(
        self,
        cost: Callable[[FloatArray], npt.ArrayLike],
        feature_map: Positional,
        bound: Bound,
        grades: FloatArray,
        offsets: IntArray,
    ) -> None:
        self.offsets = offsets
        lengths = np.diff(offsets)
        self._profile = feature_map.profile(int(lengths.max(initial=1)), None)
        self._scales = feature_map.scales(lengths, lengths)
        self._tight = bound == "tight"
        self._costs, self._ideals, active = [], [], []
        for query, n in enumerate(lengths.tolist()):
            matrix = np.asarray(cost(grades[offsets[query] : offsets[query + 1]]), dtype=np.float64)
            if matrix.shape != (n, n) or not np.isfinite(matrix).all():
                raise DataError(f"the cost of query {query} has shape {matrix.shape}; give {n} × {n} finite numbers")
            ideal, worst = linear_sum_assignment(matrix)[1], linear_sum_assignment(matrix, maximize=True)[1]
            least, most = (float(matrix[np.arange(n), ranks].sum()) for ranks in (ideal, worst))
            self._costs.append(matrix - least / max(n, 1))
            self._ideals.append(ideal)
            active.append(most - least > 1e-12 * max(abs(most), abs(least)))
        self.active = np.array(active, dtype=np.bool_)

    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        n, cost, ideal = len(scores), self._costs[query], self._ideals[query]
        profile = self._scales[query] * self._profile[:n]
        ranks = linear_sum_assignment(cost + np.outer(scores, profile), maximize=True)[1]
        reference = np.argsort(np.argsort(-scores, kind="stable")) if self._tight else ideal
        slopes = profile[ranks] - profile[reference]
        return max(float(cost[np.arange(n), ranks].sum() + slopes @ scores), 0.0), slopes


@dataclass(frozen=True, eq=False)
class GroupedLoss(TwoBoundLoss):
    """A bound of a sum over the first k ranks, where each group of documents may take only one of them.

    The diversity constraint of Le and Smola (2008) §5.1: rankings of the first k ranks with at most one document of a
    group. Each group is worth its best document at each rank, so the argmax is an assignment of groups to ranks. y*
    takes the best document of each group, best first. The profile counts only the first k ranks, too.

    >>> loss = GroupedLoss("p@1", groups=np.array(["a", "a", "b"]), shape="sqrt")
    >>> loss([1, 1, 0], [0.0, 0.0, 0.5])[0].tolist()                          # Δ = 1, and s_b − s_a = 0.5
    [1.5]
    """

    measure: str | Measure
    groups: AnyArray
    shape: str | tuple[float, ...] = "sqrt"
    bound: Bound = "hinge"

    def _prepare(self, grades: FloatArray, offsets: IntArray) -> PreparedLoss:
        """Find the groups and the ideal ranking of each query."""
        measure = parse_measure(self.measure)
        if not measure.sums_over_ranks or measure.depth is None:
            raise ValueError(f"groups need a sum over the first k ranks, such as ndcg@10, not {measure}")
        check_grades([measure], grades)
        if len(self.groups) != len(grades):
            raise DataError(f"{len(self.groups)} groups for {len(grades)} documents; give one per document")
        feature_map = Positional(self.shape)
        if feature_map.profile(measure.depth, measure)[-1] < 0:
            raise ValueError(
                f"the profile {self.shape} falls below 0, the share of what is not ranked; use sqrt or log"
            )
        return _PreparedGroups(measure, np.asarray(self.groups), feature_map, self.bound, grades, offsets)


class _PreparedGroups(_PreparedAssigned):
    def __init__(
        self,
        measure: Measure,
        groups: AnyArray,
        feature_map: Positional,
        bound: Bound,
        grades: FloatArray,
        offsets: IntArray,
    ) -> None:
        self.offsets = offsets
        self._tight = bound == "tight"
        depth = measure.depth or 0
        rankings = Rankings(grades, offsets, grades, offsets)
        self._gains = measure.worth(rankings)
        self._profile, self._discounts = feature_map.profile(depth, measure), np.asarray(measure.discounts(depth))
        self._members = [np.unique(groups[a:b], return_inverse=True)[1] for a, b in pairwise(offsets.tolist())]
        self._ideals: list[IntArray] = []
        self.active = np.zeros(len(offsets) - 1, dtype=np.bool_)
        self._scale = np.ones(len(offsets) - 1)
        for query, members in enumerate(self._members):
            gains = self._gains[offsets[query] : offsets[query + 1]]
            ideal = _first_of_groups(gains, members, depth)
            self._ideals.append(ideal)
            best = float(gains[ideal] @ self._discounts[: len(ideal)])
            self._scale[query] = measure.divisor(ideal=best, total=float(gains.sum())) or 1.0
            self.active[query] = bool(np.ptp(gains) > 0) if len(gains) else False

    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        gains = self._gains[self.offsets[query] : self.offsets[query + 1]] / self._scale[query]
        ideal, members = self._ideals[query], self._members[query]
        k = len(ideal)
        value = np.outer(scores, self._profile[:k]) - np.outer(gains, self._discounts[:k])
        of_group = np.full((members.max() + 1, k), -np.inf)
        np.maximum.at(of_group, members, value)
        chosen_groups, ranks = linear_sum_assignment(of_group, maximize=True)
        slopes = np.zeros(len(scores))
        delta = float(gains[ideal] @ self._discounts[:k])
        for group, rank in zip(chosen_groups.tolist(), ranks.tolist(), strict=True):
            inside = np.flatnonzero(members == group)
            document = inside[np.argmax(value[inside, rank])]
            slopes[document] += self._profile[rank]
            delta -= gains[document] * self._discounts[rank]
        reference = _first_of_groups(scores, members, k) if self._tight else ideal
        slopes[reference] -= self._profile[:k]
        return max(delta + float(slopes @ scores), 0.0), slopes


def _first_of_groups(values: FloatArray, members: IntArray, depth: int) -> IntArray:
    """Take the documents in descending order of value, one of each group, down to a depth.

    >>> _first_of_groups(np.array([3.0, 2.0, 1.0]), np.array([0, 0, 1]), 2).tolist()
    [0, 2]
    """
    order = np.argsort(-values, kind="stable")
    first = np.sort(np.unique(members[order], return_index=True)[1])[:depth]
    return np.asarray(order[first])
