"""Slack rescaling: a violation counts in proportion to its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.errors import Parameter, ParameterError
from marginrank.losses.base import Bound, Judgements, Loss, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap, FirstRelevant
from marginrank.losses.ideal_ranking import TwoBoundLoss
from marginrank.losses.oracles.base import ArgmaxProblem, Coefficients, FirstRelevantTable, Sorter, Violations
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.losses.oracles.oracle import oracle_for
from marginrank.losses.oracles.rank_sums import Credits, tabulate_credits
from marginrank.losses.oracles.slack_frontier_kernel import FrontierTask
from marginrank.losses.prepared_per_query import PreparedPerQuery
from marginrank.measures import Measure
from marginrank.typing import FloatArray, IntArray

#: Logarithms of the smallest and largest weight of the loss in the search, and its number of bisections.
MIN_LOG_WEIGHT: Final = -14.0
MAX_LOG_WEIGHT: Final = 14.0
BISECTIONS: Final = 22


@dataclass(frozen=True, repr=False)
class SlackLoss(TwoBoundLoss):
    """ξ = max_y Δ(y)·(1 + (a(y) − a(y*))·s), the slack rescaling of Chapelle, Le and Smola (2007) §6.

    It is convex in s and bounds Δ. The largest product is found exactly

    - for losses with few values (reciprocal rank, precision and recall at k, winner takes all): the best ranking of
      each value;
    - for lists with up to ``most_states`` ways to place some documents of each level: by dynamic programming over these
      states that keeps all ways to reach one that no other beats in both Δ and margin (see ``frontier_kernel``).

    Longer lists are searched along the rankings that are best for some weight λ of the loss, argmax λΔ + a·s. Along
    these the product has one peak, on the side of larger λ while 1 + (a − a*)·s > λΔ, so bisection finds it. Rankings
    inside the hull of (Δ, a·s) are not seen: the result is a lower bound of ξ, and `PreparedLoss.exact` says so. The
    table in ``docs/losses.md`` has how often it is ξ itself.

    Under φmrr the best ranking with r irrelevant documents first is known, so ξ is exact there, and so is the tight
    bound max_y Δ(y)·(1 + a(y)·s − P) with P = max_y a(y)·s: it lies between the hinge and Δ of the ranking that attains
    P. It is the difference of two convex functions, max_y Δ(y)·(1 + a(y)·s) + (Δ_max − Δ(y))·P and Δ_max·P.

    Args:
        measure: The measure of Δ.
        feature_map: ``po``, a positional map, or for reciprocal rank ``mrr``. ``ideal`` and ``seed`` are those of
            `IdealLoss`.
        bound: ``hinge``, or under φmrr ``tight``.
        most_states: Maximum number of states to visit: the product over levels of 1 + the number of documents, or
            1 + k for a sum over the first k ranks: 5,000 allow two levels in lists of 139 documents, three in 48. A
            query of that size takes about 2 ms. 0 always searches.

    >>> SlackLoss("wta", "po")([1, 0], [0.25, 0.0])[0].tolist()               # 1·(1 − 2·0.25)
    [0.5]
    >>> SlackLoss("rr", "mrr")([1, 0], [0.0, 0.5])[0].tolist()                # ½·(1 + 0.5)
    [0.75]
    """

    measure: str | Measure
    feature_map: str | FeatureMap = "po"
    most_states: int = 5000
    bound: Bound = "hinge"

    def __post_init__(self) -> None:
        super().__post_init__()
        oracle_for(self.parsed_measure, self.parsed_map)
        if self.bound not in self.bounds:
            raise ParameterError(
                f"slack rescaling has a tight bound under the feature map mrr, not {self.parsed_map}; use ",
                Parameter("bound", "hinge"),
            )
        if not self.convex and self.bound == "hinge":
            raise ValueError("slack rescaling with ideal='scores' has no known majorant; choose 'random' or 'rows'")

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Both under φmrr, else the hinge."""
        return ("hinge", "tight") if isinstance(self.parsed_map, FirstRelevant) else ("hinge",)

    @property
    def majorant(self) -> Loss | None:
        """The tight bound plus Δ_max·P."""
        return None if self.convex else _SlackMajorant(self.measure, self.feature_map)

    @property
    def exact(self) -> bool:
        """Whether the measure is reciprocal rank; for others it depends on the queries, see `PreparedLoss.exact`."""
        return self.parsed_measure.first_only

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Choose for each query between enumeration of values, dynamic programming and the search."""
        problem = self._problem(judged)
        if isinstance(self.parsed_map, FirstRelevant):
            return _PreparedFirstRelevant(problem, self._form)
        if _has_few_values(problem):
            return _PreparedClusters(problem, self._ideal_ranks(problem.levels, judged))
        short = (_count_states(problem) <= self.most_states) | ~problem.active
        ways = ((short, self._prepare_frontier), (~short, self._prepare_search))
        kinds = [(np.flatnonzero(chosen), prepare) for chosen, prepare in ways if chosen.any()]
        if len(kinds) == 1:
            kind = _PreparedFrontier if short.all() else _PreparedSearch
            return kind(problem, self._ideal_ranks(problem.levels, judged))
        return PreparedPerQuery(kinds, judged)

    @property
    def _form(self) -> int:
        """Return the result of `rescaled_first_relevant`."""
        return 0 if self.bound == "hinge" else 1

    def _problem(self, judged: Judgements) -> ArgmaxProblem:
        levels = by_level(self.parsed_measure, judged.grades, judged.offsets)
        return ArgmaxProblem(self.parsed_measure, self.parsed_map, levels)

    def _prepare_frontier(self, judged: Judgements) -> PreparedLoss:
        problem = self._problem(judged)
        return _PreparedFrontier(problem, self._ideal_ranks(problem.levels, judged))

    def _prepare_search(self, judged: Judgements) -> PreparedLoss:
        problem = self._problem(judged)
        return _PreparedSearch(problem, self._ideal_ranks(problem.levels, judged))


@dataclass(frozen=True, repr=False)
class _SlackMajorant(SlackLoss):
    """The convex majorant of the tight bound under φmrr."""

    @property
    def _form(self) -> int:
        return 2


def _count_states(problem: ArgmaxProblem) -> FloatArray:
    """Return the number of ways to place some documents of each level, for each query."""
    levels = problem.levels
    sizes = np.diff(levels.offsets).astype(np.float64)
    if problem.measure.sums_over_ranks and problem.measure.depth is not None:
        sizes = np.minimum(sizes, problem.measure.depth)
    states = np.ones(len(levels.counts))
    np.multiply.at(states, np.repeat(np.arange(len(states)), levels.counts), sizes + 1.0)
    return states


def _has_few_values(problem: ArgmaxProblem) -> bool:
    measure = problem.measure
    if measure.first_only:
        return measure.discounts(1) is not None
    if not measure.sums_over_ranks or measure.depth is None:
        return False
    flat = bool(np.all(problem.discounts[: measure.depth] == 1.0))
    return flat and int(problem.levels.counts.max(initial=0)) <= 2


class _PreparedRescaled(PreparedLoss):
    def __init__(self, problem: ArgmaxProblem, ideal: IntArray) -> None:
        self.problem = problem
        self.offsets = problem.levels.queries
        self.active = problem.active
        self._sorter = Sorter(problem.levels)
        self._ideal = ideal
        self._violations = Violations.empty(problem.levels)


class _PreparedFirstRelevant(PreparedLoss):
    def __init__(self, problem: ArgmaxProblem, form: int) -> None:
        self.problem, self._form = problem, form
        self.offsets, self.active = problem.levels.queries, problem.active
        self._sorter = Sorter(problem.levels, all_together=False)
        self._layout, self._ordered = tuple(problem.levels.layout), tuple(self._sorter.sorted)

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.first_relevant_kernel import rescaled_first_relevant  # noqa: PLC0415

        self._sorter.sort(scores, first, end)
        discounts = self.problem.discounts
        rescaled_first_relevant(self._ordered, self._layout, discounts, self._form, (xi, gradient), first, end)


class _PreparedClusters(_PreparedRescaled):
    def __init__(self, problem: ArgmaxProblem, ideal: IntArray) -> None:
        super().__init__(problem, ideal)
        levels = problem.levels
        first = levels.of_query[:-1][self.active]
        worth = np.zeros(len(self.active))
        worth[self.active] = levels.gains[first] - levels.gains[first + 1]
        cutoff = problem.measure.depth or levels.longest + 1
        self._layout, self._ordered = tuple(levels.layout), tuple(self._sorter.sorted)
        self._clusters = tuple(FirstRelevantTable(worth, problem.discounts, cutoff, problem.measure.first_only))
        self._coefficients = tuple(Coefficients(problem.profile, problem.scales, self._ideal))

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.first_relevant_kernel import rescaled_clusters  # noqa: PLC0415

        ranks = self._violations.ranks
        self._sorter.sort(scores, first, end)
        rescaled_clusters(
            self._ordered, self._layout, self._coefficients, self._clusters, ranks, (xi, gradient), first, end
        )


class _PreparedFrontier(_PreparedRescaled):
    def __init__(self, problem: ArgmaxProblem, ideal: IntArray) -> None:
        super().__init__(problem, ideal)
        measure, levels = problem.measure, problem.levels
        oracle_for(measure, problem.feature_map, n_levels=int(levels.counts.max(initial=1)))
        discounts, credit = np.zeros(0), Credits(np.zeros(0), np.zeros(len(self.active), dtype=np.int64))
        if measure.sums_over_ranks:
            longest = len(problem.profile)
            discounts = problem.discounts[: longest if measure.depth is None else min(measure.depth, longest)]
        else:
            credit = tabulate_credits(problem)
        self._task = FrontierTask(problem.profile, problem.scales, ideal, levels.gains, discounts, *credit)
        self._complete = np.ones(len(self.active), dtype=np.bool_)

    @property
    def exact(self) -> bool:
        """Whether no evaluation ran out of labels, which takes adversarial scores."""
        return bool(self._complete.all())

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.slack_frontier_kernel import rescaled_frontier  # noqa: PLC0415

        ordered = self._sorter.sort(scores, first, end)
        layout = self.problem.levels.layout
        rescaled_frontier(layout, self._task, ordered, xi, gradient, self._complete, first, end)


class _PreparedSearch(_PreparedRescaled):
    def __init__(self, problem: ArgmaxProblem, ideal: IntArray) -> None:
        super().__init__(problem, ideal)
        levels = problem.levels
        most_levels, longest = int(levels.counts.max(initial=1)), int(levels.lengths.max(initial=1))
        oracle = oracle_for(problem.measure, problem.feature_map, n_levels=most_levels, longest=longest)
        self._rank = oracle.prepare(problem, self._sorter.sorted, self._violations)
        self._weights = np.ones(len(self.active))

    @property
    def exact(self) -> bool:
        """A search proves nothing."""
        return False

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
        low = np.full(end - first, MIN_LOG_WEIGHT)
        high = MAX_LOG_WEIGHT + np.log1p(reach * np.abs(self.problem.profile).max(initial=0.0))
        for _ in range(BISECTIONS):
            weights = np.exp((low + high) / 2.0)
            self._weights[queries] = weights
            self._rank(self._weights, first, end)
            ranks = np.where(self.active[queries][query], self._violations.ranks[places], ideal)
            difference = scale * (self.problem.profile[ranks] - self.problem.profile[ideal])
            slack = 1.0 + np.bincount(query, difference * ordered.scores[places], minlength=end - first)
            delta = np.where(self.active[queries], self._violations.deltas[queries] / weights, 0.0)
            better = delta * slack > xi[queries]
            xi[queries][better] = (delta * slack)[better]
            changed = better[query]
            gradient[documents[changed]] = (delta[query] * difference)[changed]
            middle, more_loss_pays = (low + high) / 2.0, slack > weights * delta
            low, high = np.where(more_loss_pays, middle, low), np.where(more_loss_pays, high, middle)

    def _ideal_places(self, first: int, end: int) -> IntArray:
        """Return the rank in y* of the document at each place."""
        places = slice(self.offsets[first], self.offsets[end])
        if len(self._ideal):
            return self._ideal[self._sorter.documents[places]]
        starts = np.repeat(self.offsets[first:end], np.diff(self.offsets[first : end + 1]))
        return np.asarray(np.arange(places.start, places.stop) - starts)
