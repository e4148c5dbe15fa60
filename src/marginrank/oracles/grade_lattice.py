"""Sums over ranks and credits, by dynamic programming over how many documents of each level are placed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt

from marginrank.measures import BinaryMeasure, PositionMeasure
from marginrank.oracles.problem import Problem, Ranker
from marginrank.typing import FloatArray, IntArray

#: Above this many states a query is cheaper to solve as an assignment.
MOST_STATES = 60_000
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
    """States for every number of levels from 0 up, one table after the other."""

    tables: IntArray
    counts: npt.NDArray[np.int8]
    successors: npt.NDArray[np.int32]
    layers: IntArray


@lru_cache(maxsize=16)
def _states(depth: int, most_levels: int) -> _States:
    counts, successors = [], []
    layers = np.zeros((most_levels + 1, depth + 2), dtype=np.int64)
    tables = [0]
    for n_levels in range(most_levels + 1):
        states = [
            tuple(chosen.count(level) for level in range(n_levels))
            for size in range(depth + 1)
            for chosen in combinations_with_replacement(range(n_levels), size)
        ]
        number = {state: at for at, state in enumerate(states)}
        padded = np.zeros((len(states), most_levels), dtype=np.int8)
        padded[:, :n_levels] = np.array(states, dtype=np.int8).reshape(len(states), n_levels)
        following = np.full((len(states), most_levels), -1, dtype=np.int32)
        for at, state in enumerate(states):
            if sum(state) < depth:
                for level in range(n_levels):
                    following[at, level] = number[(*state[:level], state[level] + 1, *state[level + 1 :])]
        layers[n_levels] = np.searchsorted(padded.sum(axis=1), np.arange(depth + 2))
        counts.append(padded)
        successors.append(following)
        tables.append(tables[-1] + len(states))
    return _States(np.array(tables), np.concatenate(counts), np.concatenate(successors), layers)


def bind_merge(problem: Problem) -> Ranker:
    """Sums over the first k ranks, any number of levels: O(C(k + L, L)·L + kn) after sorting."""
    from marginrank.oracles.lattice_kernel import most_violated_merge  # noqa: PLC0415

    measure, levels = problem.measure, problem.levels
    if not isinstance(measure, PositionMeasure) or measure.depth is None:
        raise TypeError(f"{measure} is not a sum over a limited number of ranks")
    active, scales, profile = problem.active, problem.scales, problem.profile
    depth = min(measure.depth, len(profile))
    discounts = measure.discounts(depth)
    states = _states(depth, int(levels.counts.max(initial=0)))
    has_tail = bool(np.any(profile[depth:] != 0.0))

    def rank(
        scores: FloatArray, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int
    ) -> None:
        most_violated_merge(
            scores, levels.queries, levels.offsets, levels.of_query, active, scales, weights,
            profile, discounts, levels.gains, has_tail,
            states.tables, states.counts, states.successors, states.layers, ranks, deltas, first, end,
        )  # fmt: skip

    return rank


def bind_path(problem: Problem) -> Ranker:
    """Two levels and any credit of the i-th good with j bads before it: O(PN) after sorting."""
    from marginrank.oracles.lattice_kernel import most_violated_path  # noqa: PLC0415

    levels, active, scales, profile = problem.levels, problem.active, problem.scales, problem.profile
    credit, starts = _tabulate(problem)

    def rank(
        scores: FloatArray, weights: FloatArray, ranks: IntArray, deltas: FloatArray, first: int, end: int
    ) -> None:
        most_violated_path(
            scores, levels.queries, levels.offsets, levels.of_query, active, scales, weights,
            profile, credit, starts, ranks, deltas, first, end,
        )  # fmt: skip

    return rank


def _tabulate(problem: Problem) -> tuple[FloatArray, IntArray]:
    """Credits of every kind of query, and where the table of each query begins."""
    levels = problem.levels
    first = levels.of_query[:-1][problem.active]
    n_rel = levels.offsets[first + 1] - levels.offsets[first]
    n_irr = levels.offsets[first + 2] - levels.offsets[first + 1]
    worth = levels.gains[first] - levels.gains[first + 1]
    kinds, kind_of = np.unique(np.stack([n_rel, n_irr, worth], axis=1), axis=0, return_inverse=True)
    sizes = kinds[:, 0] * (kinds[:, 1] + 1)
    if sizes.sum() > MOST_CREDITS:
        raise MemoryError(
            f"{problem.measure} with {problem.feature_map} needs a table of {sizes.sum():,.0f} credits for these lists; "
            "use a measure with a cutoff, or shorter lists"
        )
    tables = [_credits(problem, int(p), int(n), gain).ravel() for p, n, gain in kinds.tolist()]
    starts = np.zeros(len(levels.counts), dtype=np.int64)
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if len(kinds) else np.zeros(0, np.int64)
    starts[problem.active] = begin[kind_of.ravel()]
    return np.concatenate(tables) if tables else np.zeros(0), starts


def _credits(problem: Problem, n_rel: int, n_irr: int, worth: float) -> FloatArray:
    i, j = np.arange(1, n_rel + 1)[:, None], np.arange(n_irr + 1)[None, :]
    measure = problem.measure
    if isinstance(measure, PositionMeasure):
        return worth * measure.discounts(n_rel + n_irr)[np.minimum(i + j - 1, n_rel + n_irr - 1)]
    if not isinstance(measure, BinaryMeasure):
        raise TypeError(f"{measure} has no credits")
    total = measure.normalizer(np.array([n_rel]), np.array([n_irr]))
    return np.broadcast_to(
        measure.credit(*np.broadcast_arrays(i, j), np.array(n_rel), np.array(n_irr)) / total, (n_rel, n_irr + 1)
    )
