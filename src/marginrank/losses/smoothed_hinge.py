"""The structured hinge, smoothed by entropy."""

from __future__ import annotations

from dataclasses import dataclass

from marginrank.losses.base import Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap, FirstRelevant
from marginrank.losses.ideal_ranking import IdealLoss
from marginrank.losses.oracles.base import ArgmaxProblem, Coefficients, Sorter
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.losses.oracles.oracle import oracle_for
from marginrank.losses.oracles.rank_sums import tabulate_credits
from marginrank.measures import Measure
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class SmoothedHinge(IdealLoss):
    """ξ = μ log Σ_y exp((Δ(y) + a(y)·s)/μ) − a(y*)·s: the structured hinge with an entropy of weight μ.

    The sum is over the C(n, P) interleavings of relevant and irrelevant documents, each kind in score order, among
    which the hinge has its maximum. It is at least the hinge, so never negative, and tends to it as the temperature μ
    goes to 0: the difference is at most μ log C(n, P). It is smooth but for kinks where documents of one level tie. For
    measures with two levels; useful to see what smoothness is worth. ``ideal`` and ``seed`` are those of `IdealLoss`.

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
        if problem.levels.counts.max(initial=0) > 2:
            raise ValueError(f"{measure} tells more than two levels apart in some query; the smoothed hinge takes two")
        return _PreparedSmoothed(problem, self.temperature, self._ideal_ranks(problem.levels, judged))


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
