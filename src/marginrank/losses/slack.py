"""Slack rescaling: a violation counts in proportion to its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.losses.base import Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap, FirstRelevant, parse_map
from marginrank.losses.ideal import IdealLoss
from marginrank.losses.oracles.choice import oracle_for
from marginrank.losses.oracles.levels import arrange
from marginrank.losses.oracles.problem import Clusters, Coefficients, Problem, Violations
from marginrank.losses.oracles.sorting import Sorter
from marginrank.measures import Measure, parse_measure
from marginrank.typing import FloatArray, IntArray

#: Logarithms of the smallest and largest weight of the loss that the search tries, and how often it halves them.
SMALLEST: Final = -14.0
LARGEST: Final = 14.0
ROUNDS: Final = 22


@dataclass(frozen=True, repr=False)
class SlackLoss(IdealLoss):
    """ξ = max_y Δ(y)·(1 + (a(y) − a(y*))·s), the slack rescaling of Chapelle, Le and Smola (2007) §6.

    It is exact, and then convex and a bound of Δ, for losses with few values (reciprocal rank, precision and recall at
    k, winner takes all): the best ranking of each value. Elsewhere the product is searched along the rankings that are
    best for some weight λ of the loss, argmax λΔ + a·s. Along these it has one peak, on the side of larger λ while
    1 + (a − a*)·s > λΔ, so halving finds it. Rankings inside the hull of (Δ, a·s) are not seen: the result is a lower
    bound of ξ, equal to it for 98 % of small random queries.

    >>> SlackLoss("wta", "po")([1, 0], [0.25, 0.0])[0].tolist()               # 1·(1 − 2·0.25)
    [0.5]
    """

    measure: str | Measure
    feature_map: str | FeatureMap = "po"

    def __post_init__(self) -> None:
        super().__post_init__()
        oracle_for(self.measure, self.feature_map)
        if isinstance(parse_map(self.feature_map), FirstRelevant):
            raise ValueError("slack rescaling is there for the feature maps po and dorm, not for mrr")
        if not self.convex:
            raise ValueError("slack rescaling with ideal='scores' has no known majorant; choose 'random' or 'rows'")

    def _map(self) -> FeatureMap:
        return parse_map(self.feature_map)

    @property
    def exact(self) -> bool:
        """For reciprocal rank; for other measures it depends on the queries, and `PreparedLoss.exact` tells."""
        return parse_measure(self.measure).first_only

    @property
    def criterion(self) -> str:
        """The measure of Δ."""
        return str(parse_measure(self.measure))

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Arrange the documents by level and choose between exact clusters and the search."""
        measure, feature_map = parse_measure(self.measure), parse_map(self.feature_map)
        problem = Problem(measure, feature_map, arrange(measure, judged.grades, judged.offsets))
        kind = _PreparedClusters if _has_few_values(problem) else _PreparedSearch
        return kind(problem, self._ideal_ranks(problem.levels, judged))


def _has_few_values(problem: Problem) -> bool:
    measure = problem.measure
    if measure.first_only:
        return measure.discounts(1) is not None
    if not measure.sums_over_ranks or measure.depth is None:
        return False
    flat = bool(np.all(problem.discounts[: measure.depth] == 1.0))
    return flat and int(problem.levels.counts.max(initial=0)) <= 2


class _PreparedRescaled(PreparedLoss):
    def __init__(self, problem: Problem, ideal: IntArray) -> None:
        self.problem = problem
        self.offsets = problem.levels.queries
        self.active = problem.active
        self._sorter = Sorter(problem.levels)
        self._ideal = ideal
        self._violations = Violations.empty(problem.levels)


class _PreparedClusters(_PreparedRescaled):
    def __init__(self, problem: Problem, ideal: IntArray) -> None:
        super().__init__(problem, ideal)
        levels = problem.levels
        first = levels.of_query[:-1][self.active]
        worth = np.zeros(len(self.active))
        worth[self.active] = levels.gains[first] - levels.gains[first + 1]
        cutoff = problem.measure.depth or levels.longest + 1
        self._layout, self._ordered = tuple(levels.layout), tuple(self._sorter.sorted)
        self._clusters = tuple(Clusters(worth, problem.discounts, cutoff, problem.measure.first_only))
        self._coefficients = tuple(Coefficients(problem.profile, problem.scales, self._ideal))

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.first_relevant_kernel import rescaled_clusters  # noqa: PLC0415

        ranks = self._violations.ranks
        self._sorter.sort(scores, first, end)
        rescaled_clusters(
            self._ordered, self._layout, self._coefficients, self._clusters, ranks, (xi, gradient), first, end
        )


class _PreparedSearch(_PreparedRescaled):
    def __init__(self, problem: Problem, ideal: IntArray) -> None:
        super().__init__(problem, ideal)
        self.exact = False
        levels = problem.levels
        most_levels, longest = int(levels.counts.max(initial=1)), int(levels.lengths.max(initial=1))
        oracle = oracle_for(problem.measure, problem.feature_map, n_levels=most_levels, longest=longest)
        self._rank = oracle.prepare(problem, self._sorter.sorted, self._violations)
        self._weights = np.ones(len(self.active))

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        queries, places = slice(first, end), slice(self.offsets[first], self.offsets[end])
        xi[queries], gradient[places] = 0.0, 0.0
        if not self.active[queries].any():
            return
        ordered = self._sorter.sort(scores, first, end)
        ideal = self._ideal_places(first, end)
        query = np.repeat(np.arange(end - first), np.diff(self.offsets[first : end + 1]))
        documents, scale = self._sorter.documents[places], self.problem.scales[queries][query]
        reach = np.bincount(query, scale * np.abs(ordered.scores[places]), minlength=end - first)
        low = np.full(end - first, SMALLEST)
        high = LARGEST + np.log1p(reach * np.abs(self.problem.profile).max(initial=0.0))
        for _ in range(ROUNDS):
            weights = np.exp((low + high) / 2.0)
            self._weights[queries] = weights
            self._rank(self._weights, first, end)
            ranks = np.where(self.active[queries][query], self._violations.ranks[places], ideal)
            slopes = scale * (self.problem.profile[ranks] - self.problem.profile[ideal])
            slack = 1.0 + np.bincount(query, slopes * ordered.scores[places], minlength=end - first)
            delta = np.where(self.active[queries], self._violations.deltas[queries] / weights, 0.0)
            better = delta * slack > xi[queries]
            xi[queries][better] = (delta * slack)[better]
            changed = better[query]
            gradient[documents[changed]] = (delta[query] * slopes)[changed]
            middle, more_loss_pays = (low + high) / 2.0, slack > weights * delta
            low, high = np.where(more_loss_pays, middle, low), np.where(more_loss_pays, high, middle)

    def _ideal_places(self, first: int, end: int) -> IntArray:
        """Rank in y* of the document at each place."""
        places = slice(self.offsets[first], self.offsets[end])
        if len(self._ideal):
            return self._ideal[self._sorter.documents[places]]
        starts = np.repeat(self.offsets[first:end], np.diff(self.offsets[first : end + 1]))
        return np.asarray(np.arange(places.start, places.stop) - starts)
