"""The structured hinge and the tight bound of a measure under a feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from marginrank.errors import ParameterError
from marginrank.losses.assignment_loss import PreparedGroups, takes_groups, why_no_groups
from marginrank.losses.base import Bound, Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap, FirstRelevant
from marginrank.losses.ideal_ranking import TwoBoundLoss
from marginrank.losses.oracles.average_precision import pair_costs
from marginrank.losses.oracles.base import ArgmaxProblem, Coefficients, Sorter, Violations
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.losses.oracles.oracle import PAIRS, Oracle, oracle_for
from marginrank.losses.pair_hinges import NO_WEIGHTS, Hinges, PreparedPairs
from marginrank.losses.torch.base import TorchLoss
from marginrank.measures import Measure
from marginrank.runtime.torch_device import Device
from marginrank.typing import AnyArray, FloatArray, IntArray

#: ``auto`` ranks one document of each group if queries have groups and the argmax is known; ``require`` refuses losses
#: whose argmax is not; ``ignore`` ranks all documents.
Groups: TypeAlias = Literal["auto", "require", "ignore"]


@dataclass(frozen=True, repr=False)
class StructuredLoss(TwoBoundLoss):
    """A bound on the loss Δ of a measure, with a (sub)gradient.

    With s the scores, a(y) the coefficients of the feature map and y* the ideal ranking:

    - ``hinge``: ξ = max_y [Δ(y) + a(y)·s] − a(y*)·s, convex in s; Yue et al. (SIGIR 2007) eq. (4) solved for ξ.
    - ``tight``: ξ = max_y [Δ(y) + a(y)·s] − max_y a(y)·s, not convex, between the hinge and Δ; Chapelle, Le and Smola
      (2007) eq. (14).

    If queries have document groups, the measure is a sum over ranks or reciprocal rank and the map is ``dorm``, each
    group has at most one document in a ranking, as in `GroupedLoss` (Le and Smola 2008, §5.1); ``groups="ignore"``
    ranks every document. Other measures and maps ignore groups in training; ``groups="require"`` refuses them, and says
    why.

    y* does not depend on the scores by default, otherwise the hinge would not be convex; ``ideal`` and ``seed``
    break its ties, see `IdealLoss`.

    >>> xi, gradient = StructuredLoss("auc", "po")([1, 0], [0.25, 0.0])       # max(0, 1 - 2·0.25)
    >>> xi.tolist(), gradient.tolist()
    ([0.5], [-2.0, 2.0])
    """

    measure: str | Measure
    feature_map: str | FeatureMap = "po"
    bound: Bound = "hinge"
    groups: Groups = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        oracle_for(self.parsed_measure, self.parsed_map)
        reason = why_no_groups(self.parsed_measure, self.parsed_map) if self.groups == "require" else None
        if reason is not None:
            raise ParameterError(reason)

    def uses_groups(self, groups: AnyArray | None) -> bool:
        """Return whether rankings are restricted to one document of each of these groups."""
        applies = self.groups != "ignore" and groups is not None
        return applies and takes_groups(self.parsed_measure, self.parsed_map)

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Arrange the documents by level and choose the oracle."""
        measure, feature_map = self.parsed_measure, self.parsed_map
        if self.uses_groups(judged.groups):
            return PreparedGroups(measure, feature_map, self.bound, judged, self._ties(judged), self.ideal)
        problem = ArgmaxProblem(measure, feature_map, by_level(measure, judged.grades, judged.offsets))
        if isinstance(feature_map, FirstRelevant):
            return _PreparedFirstRelevant(problem, self.bound)
        oracle = oracle_for(measure, feature_map, n_levels=problem.levels.most, longest=problem.levels.longest)
        if oracle is PAIRS and self.bound == "hinge":
            return _PreparedPairSums(problem)
        return PreparedStructured(problem, oracle, self.bound, self._ideal_ranks(problem.levels, judged))


class PreparedStructured(PreparedLoss):
    """The structured loss of given queries, under φpo or φdorm."""

    def __init__(self, problem: ArgmaxProblem, oracle: Oracle, bound: Bound, ideal: IntArray) -> None:
        from marginrank.losses.oracles.sorting_kernel import losses_and_gradients  # noqa: PLC0415

        levels = problem.levels
        self._finish = losses_and_gradients
        self.problem = problem
        self.bound = bound
        self.offsets = levels.queries
        self.active = problem.active
        self.oracle = oracle
        self._sorter = Sorter(levels, all_together=self.oracle.all_together or bound == "tight")
        violations = Violations.empty(levels)
        self._rank = self.oracle.prepare(problem, self._sorter.sorted, violations)
        self._ideal = ideal
        self._ranks = violations.ranks
        self._layout, self._ordered, self._violations = map(tuple, (levels.layout, self._sorter.sorted, violations))
        self._coefficients = tuple(Coefficients(problem.profile, problem.scales, self._ideal))
        self._weights = np.ones(len(self.active))

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Write the slacks of queries ``first`` to ``end`` and their gradient with respect to the scores."""
        self._sorter.sort(scores, first, end)
        self._rank(self._weights, first, end)
        tight, slacks = self.bound == "tight", (xi, gradient)
        self._finish(self._ordered, self._layout, self._coefficients, self._violations, tight, slacks, first, end)

    def torch_loss(self, device: Device) -> TorchLoss | None:
        """Return the same loss for scores on a PyTorch device; None if it is computed with NumPy alone."""
        if self.bound == "tight" or self.oracle.torch_loss is None:
            return None
        return self.oracle.torch_loss(self.problem, self._ideal, device)

    def profile_gradient(self, weights: FloatArray) -> FloatArray:
        """Return the derivative of Σ weight·ξ with respect to A at each rank, for the scores of the last evaluation.

        >>> loss = StructuredLoss("p@1", "dorm").prepare([1, 0])
        >>> loss([0.0, 0.5])[0].round(4).tolist()                        # 1 + (A(0) − A(1))·(0.5 − 0)
        [1.1464]
        >>> loss.profile_gradient(np.ones(1)).tolist()
        [0.5, -0.5]
        """
        ordered, levels = self._sorter.sorted, self.problem.levels
        query = np.repeat(np.arange(len(levels.lengths)), levels.lengths)
        if self.bound == "tight":
            reference = ordered.predicted
        elif len(self._ideal):
            reference = self._ideal[ordered.documents]
        else:
            reference = np.arange(len(query)) - levels.queries[query]
        scored = np.where(self.active, weights * self.problem.scales, 0.0)[query] * ordered.scores
        n = len(self.problem.profile)
        ranks = np.where(self.active[query], self._ranks, 0)
        return np.asarray(np.bincount(ranks, scored, n) - np.bincount(reference, scored, n), dtype=np.float64)


class _PreparedPairSums(PreparedPairs):
    """Sums over pairs under φpo: cost − 2·scale·(s_i − s_j) of a pair is a hinge of margin cost / (2·scale)."""

    oracle = PAIRS

    def __init__(self, problem: ArgmaxProblem) -> None:
        n, twice = len(problem.levels.gains), 2.0 * problem.scales
        margins = pair_costs(problem) / twice
        super().__init__(problem.levels, Hinges(np.zeros(n), np.zeros(n, np.int64), NO_WEIGHTS, twice, margins, False))


class _PreparedFirstRelevant(PreparedLoss):
    """Reciprocal rank under φmrr: Chakrabarti et al. (KDD 2008) Fig. 3, by prefix sums."""

    def __init__(self, problem: ArgmaxProblem, bound: Bound) -> None:
        self.problem = problem
        self.bound = bound
        self.offsets = problem.levels.queries
        self.active = problem.active
        self._sorter = Sorter(problem.levels, all_together=False)
        self._layout, self._ordered = tuple(problem.levels.layout), tuple(self._sorter.sorted)

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.oracles.first_relevant_kernel import first_relevant_loss  # noqa: PLC0415

        tight, discounts = self.bound == "tight", self.problem.discounts
        self._sorter.sort(scores, first, end)
        first_relevant_loss(self._ordered, self._layout, discounts, tight, (xi, gradient), first, end)
