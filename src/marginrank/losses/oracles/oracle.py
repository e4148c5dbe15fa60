"""The fastest exact argmax for a measure and a feature map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from marginrank.losses.feature_maps import FeatureMap, FirstRelevant, PartialOrder, Positional, parse_map
from marginrank.losses.oracles.average_precision import (
    interleaving_in_torch,
    pairs_in_torch,
    prepare_interleaving,
    prepare_pairs,
)
from marginrank.losses.oracles.base import ArgmaxProblem, Ranker, SortedDocuments, Violations
from marginrank.losses.oracles.pruned_merge import prepare_pruned_merge
from marginrank.losses.oracles.rank_sums import (
    MOST_LEVELS,
    MOST_STATES,
    merge_in_torch,
    n_states,
    prepare_merge,
    prepare_path,
)
from marginrank.losses.torch.base import TorchLoss
from marginrank.measures import Measure, TwoLevels
from marginrank.measures.base import parse_trainable
from marginrank.measures.ranked_grades import rank_by
from marginrank.runtime.torch_device import Device
from marginrank.typing import FloatArray, IntArray


def prepare_shifted_sort(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
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


@dataclass(frozen=True)
class Oracle:
    """An algorithm that finds the most violated ranking, exactly."""

    name: str
    cost: str
    prepare: Callable[[ArgmaxProblem, SortedDocuments, Violations], Ranker]
    #: Whether it has to know the order of all documents by score, and not only of those of each level.
    all_together: bool = False
    #: Makes the structured hinge for scores on a PyTorch device; None if it is computed with NumPy alone.
    torch_loss: Callable[[ArgmaxProblem, IntArray, Device], TorchLoss] | None = None


def _no_ranking(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:  # noqa: ARG001
    raise TypeError(f"{problem.measure} with {problem.feature_map} is bounded without ranking documents")


PAIRS = Oracle("pairs", "n log n", prepare_pairs, torch_loss=pairs_in_torch)
INTERLEAVING = Oracle("interleaving", "n log n", prepare_interleaving, torch_loss=interleaving_in_torch)
MERGE = Oracle("merge", "n log n + kn + C(k+L, L)·L", prepare_merge, all_together=True, torch_loss=merge_in_torch)
PATH = Oracle("path", "n log n + PN", prepare_path)
SHIFTED_SORT = Oracle("shifted sort", "n log n", prepare_shifted_sort)
PRUNED_MERGE = Oracle("pruned merge", "n log n + L²·states, n³ at worst", prepare_pruned_merge)
PREFIX_SUMS = Oracle("prefix sums", "n log n", _no_ranking)
#: One relevant document (grade 1) and one irrelevant one (grade 0).
_SMALLEST = TwoLevels(np.array([1]), np.array([1]), np.array([1.0]), np.array([0.0]))


def oracle_for(
    measure: str | Measure, feature_map: str | FeatureMap, *, n_levels: int = 2, longest: int = 1000
) -> Oracle:
    """Choose the fastest exact oracle that the measure's declared structure allows.

    Args:
        measure: A measure or its spelling.
        feature_map: A feature map or its spelling.
        n_levels: The most levels that a query has: grades that the measure tells apart.
        longest: The longest list.

    >>> oracle_for("ap", "po").name, oracle_for("ndcg@10", "dorm", n_levels=5).name
    ('interleaving', 'merge')
    >>> oracle_for("ap", "mrr")
    Traceback (most recent call last):
        ...
    ValueError: no exact argmax for ap with mrr; ...
    """
    measure, feature_map = parse_trainable(measure), parse_map(feature_map)
    oracle = None
    if isinstance(feature_map, FirstRelevant):
        oracle = PREFIX_SUMS if measure.first_only and measure.discounts(1) is not None else None
    else:
        if n_levels <= 2:
            oracle = _for_two_levels(measure, feature_map, longest)
        if measure.sums_over_ranks and (oracle is None or oracle is PATH):
            oracle = _for_ranks(measure, feature_map, n_levels, longest) or oracle or PRUNED_MERGE
    if oracle is None:
        raise ValueError(
            f"no exact argmax for {measure} with {feature_map}; there is one for every sum over ranks (ndcg, dcg, p, "
            "recall, wta, eru, rbp) and over relevant documents (ap, auc, rr) with po and dorm, for err there if no "
            "query has more than one grade above 0, and for rr with mrr"
        )
    return oracle


def _for_two_levels(measure: Measure, feature_map: FeatureMap, longest: int) -> Oracle | None:
    if isinstance(feature_map, PartialOrder):
        if measure.sums_over_pairs:
            return PAIRS
        if measure.shares(np.array([1]), _SMALLEST) is not None and _is_convex(measure.discounts(longest + 1)):
            return INTERLEAVING
    return PATH if measure.credits(np.array([1]), np.array([0]), _SMALLEST) is not None else None


def _for_ranks(measure: Measure, feature_map: FeatureMap, n_levels: int, longest: int) -> Oracle | None:
    if isinstance(feature_map, Positional) and feature_map.shape == "discount":
        return SHIFTED_SORT
    depth = None if measure.depth is None else min(measure.depth, longest)
    if depth is not None and n_levels <= MOST_LEVELS and n_states(depth, n_levels) <= MOST_STATES:
        return MERGE
    return None


def _is_convex(discounts: FloatArray | None) -> bool:
    """Return whether each rank further down costs less than the one before."""
    return discounts is not None and bool(np.all(np.diff(discounts, n=2) >= 0.0))
