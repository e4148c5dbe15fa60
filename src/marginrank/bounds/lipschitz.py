"""Lipschitz constants of losses with respect to the weights, for each query."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from marginrank.bounds.population import by_grade, pair_distances, sums_from_relevant, widths
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.losses.combination import MaxLoss, SumLoss
from marginrank.losses.feature_maps import FeatureMap, FirstRelevant, PartialOrder, Positional, parse_map
from marginrank.losses.oracles.base import ArgmaxProblem
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.losses.pairwise import Normalize, PairwiseHinge, PositionHinge
from marginrank.losses.smoothed_hinge import SmoothedHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import parse_measure
from marginrank.typing import FloatArray, IntArray


@singledispatch
def lipschitz_constants(loss: Loss, queries: Queries) -> FloatArray:
    """Return the Lipschitz constant G of each query, ξ(w) − ξ(v) ≤ G·‖w − v‖; 0 for queries with a single grade.

    A structured hinge is a maximum over rankings of functions with slope Ψ(y) − Ψ(y*), so G = max_y ‖Ψ(y*) − Ψ(y)‖.
    Each of these is bounded by the triangle inequality over pairs of documents:

    - φpo: 2/#pairs · Σ over the pairs in the wrong order of x_better − x_worse, at most twice the mean of
      ‖x_better − x_worse‖ over all pairs. However long the list, that is at most twice the largest.
    - φdorm: at most half of Σ_r abs(A(r) − A(n − 1 − r)), what the reversed ranking changes, times the largest distance
      of two documents. This grows with the length of the list.
    - φmrr: at most the sum of ‖x_b − x_g‖ over all irrelevant b, for the worst relevant g. This grows as well.

    A smoothed hinge has the same constants: its slope is a mean of these slopes, with weights that add up to 1.

    The mean of pairwise hinges has at most the mean of ‖x_better − x_worse‖, sums and maxima have the sums and maxima.

    Args:
        loss: A `StructuredLoss` with the bound ``hinge``, a `SmoothedHinge`, a `PairwiseHinge` or `PositionHinge`, or a
            sum or maximum of such losses.
        queries: Queries; the largest constant of all that can be drawn is what `stability_bound` needs.

    >>> queries = Queries.from_arrays([[3.0, 4.0], [0.0, 0.0]], [1, 0], group=[2])
    >>> lipschitz_constants(StructuredLoss("ap"), queries).tolist()            # 2 · 5
    [10.0]
    """
    raise TypeError(
        f"no Lipschitz constant is known for {type(loss).__name__} of {len(queries)} queries; use a StructuredLoss, "
        "SmoothedHinge, PairwiseHinge, PositionHinge, or a sum or maximum of them"
    )


@lipschitz_constants.register
def _structured(loss: StructuredLoss, queries: Queries) -> FloatArray:
    if not loss.convex:
        raise ValueError(f"{loss} is not convex, and has another Lipschitz constant; use bound='hinge'")
    if loss.uses_groups(queries.document_groups):
        raise ValueError(f"no Lipschitz constant is known for {loss} of documents in groups; use groups='ignore'")
    return _farthest(loss, queries)


@lipschitz_constants.register
def _smoothed(loss: SmoothedHinge, queries: Queries) -> FloatArray:
    if not loss.convex:
        raise ValueError(f"{loss} is not convex, and has another Lipschitz constant; use another ideal")
    return _farthest(loss, queries)


def _farthest(loss: StructuredLoss | SmoothedHinge, queries: Queries) -> FloatArray:
    """Return max_y ‖Ψ(y*) − Ψ(y)‖ of each query, or a number above it."""
    measure, feature_map = parse_measure(loss.measure), parse_map(loss.feature_map)
    problem = ArgmaxProblem(measure, feature_map, by_level(measure, queries.grades, queries.offsets))
    return _of_map(feature_map, problem, queries)


@singledispatch
def _of_map(feature_map: FeatureMap, problem: ArgmaxProblem, queries: Queries) -> FloatArray:  # noqa: ARG001
    raise TypeError(f"no Lipschitz constant is known for the feature map {feature_map}")


@_of_map.register
def _partial_order(feature_map: PartialOrder, problem: ArgmaxProblem, queries: Queries) -> FloatArray:  # noqa: ARG001
    levels = problem.levels
    return 2.0 * problem.scales * levels.pairs * pair_distances(queries, levels).mean


@_of_map.register
def _positional(feature_map: Positional, problem: ArgmaxProblem, queries: Queries) -> FloatArray:  # noqa: ARG001
    change = np.array([_reversal(problem.profile[:n]) for n in range(len(problem.profile) + 1)])
    return np.asarray(0.5 * problem.scales * change[queries.lengths] * widths(queries, problem.levels))


@_of_map.register
def _first_relevant(feature_map: FirstRelevant, problem: ArgmaxProblem, queries: Queries) -> FloatArray:  # noqa: ARG001
    return sums_from_relevant(queries, problem.levels)


def _reversal(profile: FloatArray) -> float:
    """Return Σ_r |A(r) − A(n − 1 − r)|; no ranking changes more.

    >>> _reversal(np.array([3.0, 1.0, 0.0]))
    6.0
    """
    return float(np.abs(profile - profile[::-1]).sum())


@lipschitz_constants.register
def _pairwise(loss: PairwiseHinge, queries: Queries) -> FloatArray:
    if loss.power != 1:
        raise ValueError("the squared hinge has no Lipschitz constant; use PairwiseHinge(power=1)")
    heaviest = 1.0 if loss.rank_weights is None else max(loss.rank_weights.values())
    return heaviest * _hinges(loss.normalize, queries)


@lipschitz_constants.register
def _position(loss: PositionHinge, queries: Queries) -> FloatArray:
    return _hinges(loss.normalize, queries)


@lipschitz_constants.register
def _sum(loss: SumLoss, queries: Queries) -> FloatArray:
    weights = np.ones(len(loss.losses)) if loss.weights is None else np.asarray(loss.weights, dtype=np.float64)
    return np.asarray(weights @ np.array([lipschitz_constants(part, queries) for part in loss.losses]))


@lipschitz_constants.register
def _max(loss: MaxLoss, queries: Queries) -> FloatArray:
    return np.asarray(np.max([lipschitz_constants(part, queries) for part in loss.losses], axis=0))


def _hinges(normalize: Normalize, queries: Queries) -> FloatArray:
    levels = by_grade(queries)
    counts: dict[Normalize, IntArray | float] = {
        "pairs": 1.0,
        "none": levels.pairs,
        "largest": float(levels.pairs.max(initial=0)),
    }
    return np.asarray(counts[normalize] * pair_distances(queries, levels).mean)


def norm_bound(C: float, at_zero: float, lipschitz: float) -> float:
    """Return a norm that the minimizer of ½‖w‖² + C·risk(w) never exceeds, whatever the queries: B of the bounds.

    At the minimum the objective is no larger than at 0, so ½‖w‖² ≤ C·at_zero; and w is −C times a slope of the risk, so
    ‖w‖ ≤ C·lipschitz.

    Args:
        C: Weight of the risk.
        at_zero: The largest ξ at w = 0 of a query; for a structured hinge the largest loss of the measure.
        lipschitz: The largest of `lipschitz_constants`.

    >>> norm_bound(2.0, 1.0, 10.0), norm_bound(0.125, 1.0, 2.0)
    (2.0, 0.25)
    """
    if not (C > 0 and at_zero >= 0 and lipschitz >= 0):
        raise ValueError(f"C is {C}, at_zero {at_zero}, lipschitz {lipschitz}; C is above 0, the others not below")
    return float(min(np.sqrt(2.0 * C * at_zero), C * lipschitz))
