"""Sums over ranks and credits, by dynamic programming over how many documents of each level are placed."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from marginrank.losses.oracles.base import ArgmaxProblem, Ranker, SortedDocuments, Violations
from marginrank.losses.torch.base import TorchLoss
from marginrank.losses.torch.rank_sums import LevelCounts, TorchRankSums
from marginrank.measures import Measure, TwoLevels
from marginrank.runtime.threads import PerThread
from marginrank.runtime.torch_device import Device
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Above this many states, or levels, a query is cheaper to solve as an assignment.
MOST_STATES = 60_000
MOST_LEVELS = 16
#: Above this many numbers the credits of all kinds of query are not tabulated.
MOST_CREDITS = 1 << 27


def n_states(depth: int, n_levels: int) -> int:
    """Count the ways to place up to ``depth`` documents of ``n_levels`` levels: C(depth + n_levels, n_levels).

    >>> n_states(10, 5)
    3003
    """
    return comb(depth + n_levels, n_levels)


class States(NamedTuple):
    """Numbers of placed documents of each level, a table for every number of levels that occurs.

    ``tables[L]`` is the first row for L levels. A row of ``successors`` holds the states with one more
    document of each level, a row of ``predecessors`` those with one fewer, numbered inside their table.
    """

    tables: IntArray
    counts: npt.NDArray[np.int16]
    successors: npt.NDArray[np.int32]
    predecessors: npt.NDArray[np.int32]


class RankSum(NamedTuple):
    """A sum over the first ranks under a feature map.

    ``has_tail`` says whether A is not 0 at the ranks after them, ``slope`` is the fall of a linear A from rank
    to rank, 0 if A is not linear; and ``falls`` are those of `rank_differences`.
    """

    discounts: FloatArray
    gains: FloatArray
    profile: FloatArray
    scales: FloatArray
    has_tail: bool
    slope: float
    falls: FloatArray


class Credits(NamedTuple):
    """Credits [i − 1, j] of all kinds of query, flat, and the start of those of each query."""

    table: FloatArray
    starts: IntArray


class CreditSum(NamedTuple):
    """A sum of tabulated credits under a feature map."""

    table: FloatArray
    starts: IntArray
    profile: FloatArray
    scales: FloatArray


@lru_cache(maxsize=16)
def _states(depth: int, level_counts: tuple[int, ...]) -> States:
    most_levels = max(level_counts)
    parts = [
        _states_of(depth if n_levels in level_counts else -1, n_levels, most_levels)
        for n_levels in range(most_levels + 1)
    ]
    counts, successors, predecessors = (np.concatenate(column) for column in zip(*parts, strict=True))
    tables = np.cumsum([0] + [len(part[0]) for part in parts])
    return States(tables, counts, successors, predecessors)


def _states_of(depth: int, n_levels: int, width: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Number the states of n levels, and find those with one document more and one fewer."""
    states = [
        tuple(chosen.count(level) for level in range(n_levels))
        for size in range(depth + 1)
        for chosen in combinations_with_replacement(range(n_levels), size)
    ]
    number = {state: index for index, state in enumerate(states)}
    counts = np.zeros((len(states), width), dtype=np.int16)
    after, before = np.zeros((2, len(states), width), dtype=np.int32)
    for index, state in enumerate(states):
        counts[index, :n_levels] = state
        for level in range(n_levels):
            more = number.get((*state[:level], state[level] + 1, *state[level + 1 :]))
            if more is not None:
                after[index, level], before[more, level] = more, index
    return counts, after, before


def rank_differences(profile: FloatArray, discounts: FloatArray) -> FloatArray:
    """Return by how much A and D fall: three pairs (A(r) − A(t), D(r) − D(t)) for each rank r.

    The first two have the smallest and the largest ratio D/A, over the ranks t > r that count and the first that does
    not, where D is 0; the last is from the rank before r to r.

    >>> rank_differences(np.array([0.0, -2.0, -4.0, -6.0]), np.array([1.0, 0.75])).tolist()
    [[2.0, 0.25, 4.0, 1.0, 0.0, 0.0], [2.0, 0.75, 2.0, 0.75, 2.0, 0.25]]
    """
    depth = len(discounts)
    ends = np.append(discounts, 0.0)[: len(profile)]
    out = np.zeros((depth, 6))
    for rank in range(depth):
        a, d = profile[rank] - profile[rank + 1 : depth + 1], discounts[rank] - ends[rank + 1 :]
        falling = (a > 0.0) | (d > 0.0)
        if falling.any():
            angle = np.where(falling, np.arctan2(d, a), np.nan)
            smallest, largest = np.nanargmin(angle), np.nanargmax(angle)
            out[rank, :4] = a[smallest], d[smallest], a[largest], d[largest]
        if rank > 0:
            out[rank, 4:] = profile[rank - 1] - profile[rank], discounts[rank - 1] - discounts[rank]
    return out


def prepare_merge(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
    """Prepare sums over the first k ranks, any number of levels: O(C(k + L, L)·L + kn) after sorting."""
    from marginrank.losses.oracles.rank_sums_kernel import MergeBuffers, most_violated_merge  # noqa: PLC0415

    levels, profile = problem.levels, problem.profile
    states, depth = _states_for(problem)
    has_tail = bool(np.any(profile[depth:] != 0.0))
    lists, layout, worst = tuple(ordered), tuple(levels.layout), tuple(violations)
    n_states, most_levels = states.counts.shape
    discounts, changes = problem.discounts[:depth], -np.diff(profile)
    slope = float(changes[0]) if len(changes) and not np.ptp(changes) else 0.0
    total = RankSum(
        discounts, levels.gains, profile, problem.scales, has_tail, slope, rank_differences(profile, discounts)
    )
    lattice = tuple(total), tuple(states)

    def make_buffers() -> tuple[AnyArray, ...]:
        buffers = MergeBuffers(
            value=np.empty(n_states),
            came=np.zeros(n_states, dtype=np.int64),
            seen=np.empty(n_states, dtype=np.int64),
            reached=np.empty(n_states, dtype=np.int64),
            following=np.empty(n_states, dtype=np.int64),
            falls=np.empty((depth, 8)),
            heads=np.empty(most_levels),
            free=np.empty(most_levels, dtype=np.bool_),
            positions=np.zeros((most_levels, depth), dtype=np.int64),
            above=np.zeros((most_levels, depth, most_levels), dtype=np.int64),
            passed=np.zeros(most_levels, dtype=np.int64),
            costs=np.zeros((most_levels, depth)),
            sums=np.zeros((most_levels, depth + 1)),
            gains=np.empty(most_levels),
            profile=np.empty(len(profile)),
            tails=np.empty((len(profile) + 1 if has_tail and not slope else 1, depth + 1)),
            order=np.empty(depth, dtype=np.int64),
        )
        return tuple(buffers)

    buffers = PerThread(make_buffers)

    return lambda weights, *bounds: most_violated_merge(lists, layout, lattice, weights, buffers(), worst, *bounds)


def merge_in_torch(problem: ArgmaxProblem, ideal: IntArray, device: Device) -> TorchLoss:
    """Prepare the loss for scores on a PyTorch device."""
    levels, depth = problem.levels, _depth(problem)
    discounts, query = problem.discounts[:depth], np.repeat(np.arange(len(levels.counts)), levels.counts)
    gains = np.zeros((len(levels.counts), levels.most))
    gains[query, np.arange(len(query)) - levels.of_query[query]] = levels.gains / problem.scales[query]
    return TorchRankSums(
        device,
        levels.queries,
        active=problem.active,
        scales=device.tensor(problem.scales),
        gains=device.tensor(gains),
        ideal_gains=device.tensor(_ideal_gains(problem, discounts)),
        levels=device.tensor(levels.of_document),
        ideal=device.tensor(ideal) if len(ideal) else None,
        discounts=device.tensor(discounts),
        profile=device.tensor(problem.profile),
        falls=device.tensor(rank_differences(problem.profile, discounts)),
        states=_states_in_torch(_states(depth, (levels.most,)), depth, device),
    )


def _ideal_gains(problem: ArgmaxProblem, discounts: FloatArray) -> FloatArray:
    """Return the gain of the ideal ranking of each query."""
    levels = problem.levels
    query = np.repeat(np.arange(len(levels.counts)), levels.lengths)
    rank = np.minimum(np.arange(len(query)) - levels.queries[query], len(discounts))
    gains = np.repeat(levels.gains, np.diff(levels.offsets)) * np.append(discounts, 0.0)[rank]
    return np.asarray(np.bincount(query, gains, len(levels.counts)), dtype=np.float64)


def _states_in_torch(states: States, depth: int, device: Device) -> LevelCounts:
    first = np.searchsorted(states.counts.sum(axis=1), np.arange(depth + 2))
    counts, after, before = (device.tensor(table.astype(np.int64)) for table in states[1:])
    return LevelCounts(counts, after, before, first)


def _states_for(problem: ArgmaxProblem) -> tuple[States, int]:
    """Return the states of the numbers of levels that occur, and how many ranks count."""
    depth = _depth(problem)
    return _states(depth, tuple(np.unique(np.append(problem.levels.counts[problem.active], 1)).tolist())), depth


def _depth(problem: ArgmaxProblem) -> int:
    return min(problem.measure.depth or len(problem.profile), len(problem.profile))


def prepare_path(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
    """Prepare any credits of two levels: O(PN) after sorting, for P relevant and N irrelevant documents."""
    from marginrank.losses.oracles.rank_sums_kernel import most_violated_path  # noqa: PLC0415

    scores, layout, buffers = ordered.scores, tuple(problem.levels.layout), tuple(violations)
    total = tuple(CreditSum(*tabulate_credits(problem), problem.profile, problem.scales))

    return lambda weights, *bounds: most_violated_path(scores, layout, total, weights, buffers, *bounds)


def tabulate_credits(problem: ArgmaxProblem) -> Credits:
    """Tabulate the credits of every kind of query."""
    kinds, kind_of = np.unique(np.stack(problem.two_levels(), axis=1), axis=0, return_inverse=True)
    sizes = kinds[:, 0] * (kinds[:, 1] + 1)
    if sizes.sum() > MOST_CREDITS:
        raise MemoryError(
            f"{problem.measure} with {problem.feature_map} needs {sizes.sum():,.0f} tabulated credits for these lists; "
            "use a measure with a cutoff, or shorter lists"
        )
    tables = [_credits(problem.measure, int(p), int(n), better, worse) for p, n, better, worse in kinds.tolist()]
    starts = np.zeros(len(problem.active), dtype=np.int64)
    starts[problem.active] = (np.cumsum(sizes) - sizes).astype(np.int64)[kind_of.ravel()]
    return Credits(np.concatenate([np.zeros(0), *tables]), starts)


def _credits(measure: Measure, n_rel: int, n_irr: int, better: float, worse: float) -> FloatArray:
    i, j = np.broadcast_arrays(np.arange(1, n_rel + 1)[:, None], np.arange(n_irr + 1)[None, :])
    levels = TwoLevels(np.array(n_rel), np.array(n_irr), np.array(better), np.array(worse))
    table = measure.credits(i, j, levels)
    if table is None:
        raise TypeError(f"{measure} declares no credits")
    return table.ravel()
