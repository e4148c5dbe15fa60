"""The structured hinge, smoothed by entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.losses.base import Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap, FirstRelevant
from marginrank.losses.ideal_ranking import IdealLoss
from marginrank.losses.oracles.base import ArgmaxProblem, Coefficients, Sorter
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.losses.oracles.oracle import oracle_for
from marginrank.losses.oracles.rank_sums import tabulate_credits
from marginrank.measures import Measure
from marginrank.typing import FloatArray, IntArray

#: Maximum number of states of a query with more than two levels: about .3 s and 64 MB.
MAX_STATES: Final = 1 << 22


@dataclass(frozen=True, repr=False)
class SmoothedHinge(IdealLoss):
    """ξ = μ log Σ_y exp((Δ(y) + a(y)·s)/μ) − a(y*)·s: the structured hinge with an entropy of weight μ.

    The sum is over the n! / Π n_l! interleavings of the levels, with n_l documents each in score order, among which the
    hinge has its maximum; C(n, P) for P relevant documents and two levels. It is at least the hinge, so never negative,
    and tends to it as the temperature μ goes to 0: the difference is at most μ times the logarithm of that number. It
    is smooth but for kinks where documents of one level tie. It takes time and memory in proportion to Π (n_l + 1):
    useful to see what smoothness is worth. Measures that are no sum over ranks, such as ``ap``, have two levels.
    ``ideal`` and ``seed`` are those of `IdealLoss`.

    >>> loss = SmoothedHinge("auc", temperature=0.5)
    >>> loss([1, 0], [0.25, 0.0])[0].round(4).tolist()                        # ½·log(e¹ + e⁰); the hinge is 0.5
    [0.6566]
    """

    measure: str | Measure
    feature_map: str | FeatureMap = "po"
    temperature: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        oracle_for(self.parsed_measure, self.parsed_map)
        if not self.temperature > 0:
            raise ValueError(f"the temperature is {self.temperature}; it must be above 0")
        if isinstance(self.parsed_map, FirstRelevant):
            raise ValueError("the smoothed hinge is there for the feature maps po and dorm, not for mrr")

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Arrange the documents by level and tabulate the credits."""
        measure = self.parsed_measure
        problem = ArgmaxProblem(measure, self.parsed_map, by_level(measure, judged.grades, judged.offsets))
        ideal = self._ideal_ranks(problem.levels, judged)
        if problem.levels.counts.max(initial=0) <= 2:
            return _PreparedSmoothed(problem, self.temperature, ideal)
        if not measure.sums_over_ranks:
            raise ValueError(f"{measure} tells more than two levels apart in some query; the smoothed hinge takes two")
        _check_states(problem)
        return _PreparedLevels(problem, self.temperature, ideal)


def _check_states(problem: ArgmaxProblem) -> None:
    """Refuse queries with too many ways to place some documents of each level."""
    levels = problem.levels
    states = np.ones(len(levels.counts))
    np.multiply.at(states, np.repeat(np.arange(len(states)), levels.counts), np.diff(levels.offsets) + 1.0)
    if states.max(initial=0.0) > MAX_STATES:
        raise ValueError(
            f"query {int(states.argmax())} has {states.max():,.0f} ways to place some documents of each grade, and the "
            f"smoothed hinge sums over at most {MAX_STATES:,}; use fewer grades, shorter lists, or a StructuredLoss"
        )


class _PreparedLevels(PreparedLoss):
    """A sum over ranks with any number of levels."""

    def __init__(self, problem: ArgmaxProblem, temperature: float, ideal: IntArray) -> None:
        levels = problem.levels
        self.problem, self.temperature = problem, temperature
        self.offsets, self.active = levels.queries, problem.active
        self._sorter = Sorter(levels, all_together=False)
        self._layout, self._ordered = tuple(levels.layout), tuple(self._sorter.sorted)
        self._coefficients = tuple(Coefficients(problem.profile, problem.scales, ideal))
        self._total = problem.discounts, levels.gains

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.smoothed_paths_kernel import smoothed_merges  # noqa: PLC0415

        self._sorter.sort(scores, first, end)
        smoothed_merges(
            self._ordered, self._layout, self._coefficients, self._total, self.temperature, (xi, gradient), first, end
        )


class _PreparedSmoothed(PreparedLoss):
    def __init__(self, problem: ArgmaxProblem, temperature: float, ideal: IntArray) -> None:
        self.problem = problem
        self.temperature = temperature
        self.offsets = problem.levels.queries
        self.active = problem.active
        self._sorter = Sorter(problem.levels, all_together=False)
        self._layout, self._ordered = tuple(problem.levels.layout), tuple(self._sorter.sorted)
        self._coefficients = tuple(Coefficients(problem.profile, problem.scales, ideal))
        self._credits = tuple(tabulate_credits(problem))

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.smoothed_paths_kernel import smoothed_paths  # noqa: PLC0415

        self._sorter.sort(scores, first, end)
        smoothed_paths(
            self._ordered, self._layout, self._coefficients, self._credits, self.temperature, (xi, gradient), first, end
        )
