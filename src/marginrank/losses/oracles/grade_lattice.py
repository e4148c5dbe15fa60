"""Sums over ranks and credits, by dynamic programming over how many documents of each level are placed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt

from marginrank.losses.oracles.problem import Problem, Ranker, Sorted
from marginrank.measures import BinaryMeasure, PositionMeasure
from marginrank.measures.err import ERR
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Above this many states, or levels, a query is cheaper to solve as an assignment.
MOST_STATES = 60_000
MOST_LEVELS = 16
#: Above this many numbers the credits of all kinds of query are not tabulated.
MOST_CREDITS = 1 << 27


def n_states(depth: int, n_levels: int) -> int:
    """Ways to place up to ``depth`` documents of ``n_levels`` levels: C(depth + n_levels, n_levels).

    >>> n_states(10, 5)
    3003
    """
    return comb(depth + n_levels, n_levels)


@dataclass(frozen=True)
class _States:
    """States for every number of levels that occurs, one table after the other, numbered by how many are placed."""

    tables: IntArray
    counts: npt.NDArray[np.int16]
    successors: npt.NDArray[np.int32]
    predecessors: npt.NDArray[np.int32]


@lru_cache(maxsize=16)
def _states(depth: int, level_counts: tuple[int, ...]) -> _States:
    most_levels = max(level_counts)
    parts = [
        _states_of(depth if n_levels in level_counts else -1, n_levels, most_levels)
        for n_levels in range(most_levels + 1)
    ]
    counts, successors, predecessors = (np.concatenate(column) for column in zip(*parts, strict=True))
    tables = np.cumsum([0] + [len(part[0]) for part in parts])
    return _States(tables, counts, successors, predecessors)


def _states_of(depth: int, n_levels: int, width: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """How many documents of each level are placed, and the numbers of the states with one more and one fewer."""
    states = [
        tuple(chosen.count(level) for level in range(n_levels))
        for size in range(depth + 1)
        for chosen in combinations_with_replacement(range(n_levels), size)
    ]
    number = {state: at for at, state in enumerate(states)}
    counts = np.zeros((len(states), width), dtype=np.int16)
    after, before = np.zeros((2, len(states), width), dtype=np.int32)
    for at, state in enumerate(states):
        counts[at, :n_levels] = state
        for level in range(n_levels):
            more = number.get((*state[:level], state[level] + 1, *state[level + 1 :]))
            if more is not None:
                after[at, level], before[more, level] = more, at
    return counts, after, before


def prepare_merge(problem: Problem) -> Ranker:
    """Sums over the first k ranks, any number of levels: O(C(k + L, L)·L + kn) after sorting."""
    from marginrank.losses.oracles.lattice_kernel import most_violated_merge  # noqa: PLC0415

    measure, levels = problem.measure, problem.levels
    if not isinstance(measure, PositionMeasure) or measure.depth is None:
        raise TypeError(f"{measure} is not a sum over a limited number of ranks")
    active, scales, profile = problem.active, problem.scales, problem.profile
    depth = min(measure.depth, len(profile))
    discounts = measure.discounts(depth)
    states = _states(depth, tuple(np.unique(np.append(levels.counts[active], 1)).tolist()))
    has_tail = bool(np.any(profile[depth:] != 0.0))

    def rank(ordered: Sorted, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int) -> None:
        most_violated_merge(
            ordered.scores, ordered.predicted, ordered.places, levels.queries, levels.offsets, levels.of_query,
            active, scales, weights, profile, discounts, levels.gains, has_tail,
            states.tables, states.counts, states.successors, states.predecessors, ranks, deltas, first, end,
        )  # fmt: skip

    return rank


def prepare_path(problem: Problem) -> Ranker:
    """Two levels and any credit of the i-th good with j bads before it: O(PN) after sorting."""
    from marginrank.losses.oracles.lattice_kernel import most_violated_path  # noqa: PLC0415

    levels, active, scales, profile = problem.levels, problem.active, problem.scales, problem.profile
    credit, starts = tabulate_credits(problem)

    def rank(ordered: Sorted, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int) -> None:
        most_violated_path(
            ordered.scores, levels.queries, levels.offsets, levels.of_query, active, scales, weights,
            profile, credit, starts, ranks, deltas, first, end,
        )  # fmt: skip

    return rank


def tabulate_credits(problem: Problem) -> tuple[FloatArray, IntArray]:
    """Credits of every kind of query, and where the table of each query begins."""
    levels = problem.levels
    first = levels.of_query[:-1][problem.active]
    n_rel = levels.offsets[first + 1] - levels.offsets[first]
    n_irr = levels.offsets[first + 2] - levels.offsets[first + 1]
    if isinstance(problem.measure, ERR) and levels.gains[first + 1].any():
        raise ValueError(f"{problem.measure} is bounded only where the lower of two grades is 0")
    worth = levels.gains[first] - levels.gains[first + 1]
    kinds, kind_of = np.unique(np.stack([n_rel, n_irr, worth], axis=1), axis=0, return_inverse=True)
    sizes = kinds[:, 0] * (kinds[:, 1] + 1)
    if sizes.sum() > MOST_CREDITS:
        raise MemoryError(
            f"{problem.measure} with {problem.feature_map} needs {sizes.sum():,.0f} tabulated credits for these lists; "
            "use a measure with a cutoff, or shorter lists"
        )
    tables = [_credits(problem, int(p), int(n), gain).ravel() for p, n, gain in kinds.tolist()]
    starts = np.zeros(len(levels.counts), dtype=np.int64)
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if len(kinds) else np.zeros(0, np.int64)
    starts[problem.active] = begin[kind_of.ravel()]
    return np.concatenate(tables) if tables else np.zeros(0), starts


def _credits(problem: Problem, n_rel: int, n_irr: int, worth: float) -> FloatArray:
    i, j = np.broadcast_arrays(np.arange(1, n_rel + 1)[:, None], np.arange(n_irr + 1)[None, :])
    measure = problem.measure
    if isinstance(measure, PositionMeasure):
        discounts = measure.discounts(n_rel + n_irr)
        return np.asarray(worth * discounts[np.minimum(i + j - 1, n_rel + n_irr - 1)])
    if isinstance(measure, ERR):
        # With one grade above 0 the user has passed i − 1 documents, each with the same probability.
        stops = worth * (1.0 - worth) ** (i - 1) / (i + j)
        return np.where(i + j <= (measure.k or n_rel + n_irr), stops, 0.0)
    if not isinstance(measure, BinaryMeasure):
        raise TypeError(f"{measure} has no credits")
    total = measure.normalizer(np.array([n_rel]), np.array([n_irr]))
    return np.asarray(measure.credit(i, j, np.array(n_rel), np.array(n_irr)) / total)
