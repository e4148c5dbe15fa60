"""The fastest exact argmax for a measure and a feature map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from marginrank.losses.feature_maps import FeatureMap, FirstRelevant, PartialOrder, Positional, parse_map
from marginrank.losses.oracles.assignment import prepare_assignment
from marginrank.losses.oracles.grade_lattice import MOST_LEVELS, MOST_STATES, n_states, prepare_merge, prepare_path
from marginrank.losses.oracles.interleave import prepare_interleaving, prepare_pairs
from marginrank.losses.oracles.problem import Problem, Ranker
from marginrank.losses.oracles.shifted_sort import prepare_shifted_sort
from marginrank.measures import BinaryMeasure, Measure, PositionMeasure, parse_measure
from marginrank.measures.ap import AP
from marginrank.measures.auc import AUC
from marginrank.measures.err import ERR
from marginrank.measures.rr import RR


@dataclass(frozen=True)
class Oracle:
    """An algorithm that finds the most violated ranking, exactly."""

    name: str
    cost: str
    prepare: Callable[[Problem], Ranker]


def _no_ranking(problem: Problem) -> Ranker:
    raise TypeError(f"{problem.measure} with {problem.feature_map} is bounded without ranking documents")


PAIRS = Oracle("pairs", "n log n", prepare_pairs)
INTERLEAVING = Oracle("interleaving", "n log n", prepare_interleaving)
MERGE = Oracle("merge", "n log n + kn + C(k+L, L)·L", prepare_merge)
PATH = Oracle("path", "n log n + PN", prepare_path)
SHIFTED_SORT = Oracle("shifted sort", "n log n", prepare_shifted_sort)
ASSIGNMENT = Oracle("assignment", "n³", prepare_assignment)
PREFIX_SUMS = Oracle("prefix sums", "n log n", _no_ranking)


def oracle_for(
    measure: str | Measure, feature_map: str | FeatureMap, *, n_levels: int = 2, longest: int = 1000
) -> Oracle:
    """Choose the fastest exact oracle.

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
    measure, feature_map = parse_measure(measure), parse_map(feature_map)
    if isinstance(feature_map, FirstRelevant) and isinstance(measure, RR):
        return PREFIX_SUMS
    if isinstance(feature_map, PartialOrder | Positional):
        if isinstance(measure, BinaryMeasure):
            return _for_credits(measure, feature_map)
        if isinstance(measure, PositionMeasure):
            return _for_ranks(measure, feature_map, n_levels, longest)
        if isinstance(measure, ERR) and n_levels <= 2:
            return PATH
    raise ValueError(
        f"no exact argmax for {measure} with {feature_map}; there is one for every sum over ranks (ndcg, dcg, p, "
        "recall, wta, eru, rbp) and over relevant documents (ap, auc, rr) with po and dorm, for err there if no query "
        "has more than one grade above 0, and for rr with mrr"
    )


def _for_credits(measure: BinaryMeasure, feature_map: FeatureMap) -> Oracle:
    if isinstance(feature_map, PartialOrder):
        if isinstance(measure, AUC):
            return PAIRS
        if isinstance(measure, AP) and measure.k is None:
            return INTERLEAVING
    return PATH


def _for_ranks(measure: PositionMeasure, feature_map: FeatureMap, n_levels: int, longest: int) -> Oracle:
    if isinstance(feature_map, Positional) and feature_map.shape == "discount":
        return SHIFTED_SORT
    if n_levels <= 2 and isinstance(feature_map, PartialOrder) and _is_convex(measure, longest):
        return INTERLEAVING
    depth = None if measure.depth is None else min(measure.depth, longest)
    if depth is not None and n_levels <= MOST_LEVELS and n_states(depth, n_levels) <= MOST_STATES:
        return MERGE
    return PATH if n_levels <= 2 else ASSIGNMENT


def _is_convex(measure: PositionMeasure, longest: int) -> bool:
    """Whether each rank further down costs less than the one before."""
    return bool(np.all(np.diff(measure.discounts(longest + 1), n=2) >= 0.0))
