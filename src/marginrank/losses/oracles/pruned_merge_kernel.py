"""Merging sorted levels rank by rank over all ranks, through the states that some best ranking passes through.

A state says how many documents of each level are placed at the first ranks. Let x be the next document of its level,
placed at rank r, and j that of another level, which comes at a rank t > r. Changing places gains

    (D(r) − D(t))·(gain of x − gain of j) − (A(r) − A(t))·(score of x − score of j)

so x does not come at r if that is positive for every t > r: a matter of the smallest ratio of the falls of D and A if x
gains more, and of the largest if it gains less. If x gains more, it does not come at r either if the exchange costs
nothing: of the best rankings, the one with the largest sum of rank times gain is left. Nor does x come right after a
document that it should change places with. Chakrabarti et al. (KDD 2008) Fig. 2 goes through all states of two levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.losses.oracles.base import SortedDocuments, Violations
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.losses.oracles.rank_sums_kernel import ROUNDING
from marginrank.runtime.kernels import njit
from marginrank.typing import AnyArray, FloatArray, IntArray


class LongSum(NamedTuple):
    """A sum over all ranks under a feature map.

    ``falls`` are those of `write_falls`, row after row, and ``falls_of`` the first row of each query.
    """

    discounts: FloatArray
    gains: FloatArray
    profile: FloatArray
    scales: FloatArray
    falls: FloatArray
    falls_of: IntArray


class PrunedStates(NamedTuple):
    """States that were reached, rank after rank: counts as one number, value, state before, level of the last document.

    The ``next_`` arrays hold, by level, the states that those of one rank lead to.
    """

    keys: IntArray
    values: FloatArray
    parents: AnyArray
    came: AnyArray
    next_keys: IntArray
    next_values: FloatArray
    next_parents: AnyArray


@njit()
def write_falls(profile, discounts, falls):  # type: ignore[no-untyped-def]
    """Write by how much A and D fall from each rank of a list: three pairs, for as many ranks as ``falls`` has rows.

    The pairs are those with the smallest and the largest ratio D/A over all later ranks, and the one from the rank
    before. If A and D stay the same at the next rank, the largest ratio counts as infinite.
    """
    n = len(falls)
    for rank in range(n):
        least_a, least_d, most_a, most_d, first = 0.0, 0.0, 0.0, 0.0, True
        for later in range(rank + 1, n):
            a, d = profile[rank] - profile[later], discounts[rank] - discounts[later]
            if a <= 0.0 and d <= 0.0:
                continue
            if first or d * least_a < least_d * a:
                least_a, least_d = a, d
            if first or d * most_a > most_d * a:
                most_a, most_d = a, d
            first = False
        if rank + 1 < n and profile[rank] == profile[rank + 1] and discounts[rank] == discounts[rank + 1]:
            most_a, most_d = 0.0, 1.0
        falls[rank, 0], falls[rank, 1], falls[rank, 2], falls[rank, 3] = least_a, least_d, most_a, most_d
        falls[rank, 4] = profile[rank - 1] - profile[rank] if rank > 0 else 0.0
        falls[rank, 5] = discounts[rank - 1] - discounts[rank] if rank > 0 else 0.0


@njit()
def _follow(start, stop, rank, query, work, fall, states):  # type: ignore[no-untyped-def]
    """Write the states that those of one rank lead to, by level.

    Args:
        start: The first state.
        stop: The state after the last.
        rank: The rank of the next document.
        query: Scores, first place of each level, their gains, the strides of the keys, and A and D at the rank.
        work: Arrays for the number of documents of each level and, written too, that of states by level.
        fall: Falls of A and D at the rank, and their rounding errors.
        states: The states.
    """
    scores, starts, gains, strides, a, d = query
    counts, lengths = work
    least_a, least_d, most_a, most_d, near_a, near_d, most_error, near_error = fall
    keys, values, came, n_levels = states.keys, states.values, states.came, len(starts) - 1
    next_keys, next_values, next_parents = states.next_keys, states.next_values, states.next_parents
    for level in range(n_levels):
        lengths[level] = 0
    for state in range(start, stop):
        key, last = keys[state], came[state]
        rest = key
        for back in range(n_levels):
            level = n_levels - 1 - back
            counts[level] = rest // strides[level]
            rest -= counts[level] * strides[level]
        for level in range(n_levels):
            place = starts[level] + counts[level]
            if place >= starts[level + 1]:
                continue
            score, gain, comes = scores[place], gains[level], True
            for other in range(n_levels):
                head = starts[other] + counts[other]
                if other == level or head >= starts[other + 1]:
                    continue
                lead, more = score - scores[head], gain - gains[other]
                loses = more * least_d - lead * least_a if more > 0.0 else more * most_d - lead * most_a
                comes = loses < 0.0 if more > 0.0 else loses <= most_error
                if not comes:
                    break
            if comes and rank > 0 and last != level:
                before = scores[starts[last] + counts[last] - 1] - score
                comes = near_a * before - near_d * (gains[last] - gain) >= -near_error
            if comes:
                at = lengths[level]
                next_keys[level, at] = key + strides[level]
                next_values[level, at] = values[state] + a * score - d * gain
                next_parents[level, at] = state
                lengths[level] = at + 1


@njit()
def _merge_lists(n_levels, lengths, heads, states, end):  # type: ignore[no-untyped-def]
    """Merge the states of all levels, each sorted by key, and keep the best of equal ones; return their end."""
    keys, values, parents, came = states.keys, states.values, states.parents, states.came
    next_keys, next_values, next_parents = states.next_keys, states.next_values, states.next_parents
    for level in range(n_levels):
        heads[level] = 0
    while True:
        key = np.int64(-1)
        for level in range(n_levels):
            if heads[level] < lengths[level]:
                candidate = next_keys[level, heads[level]]
                if key < 0 or candidate < key:
                    key = candidate
        if key < 0:
            return end
        best = -np.inf
        for level in range(n_levels):
            at = heads[level]
            if at < lengths[level] and next_keys[level, at] == key:
                if next_values[level, at] > best:
                    best, parents[end], came[end] = next_values[level, at], next_parents[level, at], level
                heads[level] += 1
        keys[end], values[end] = key, best
        end += 1


@njit()
def most_violated_long_merge(ordered, layout, total, queries, states, violations, first, end):  # type: ignore[no-untyped-def]
    """Rank the documents of queries ``first`` to ``end``.

    ``queries`` has their weights, and whether they are unsolved: such queries are left out, and those with too many
    states become so.
    """
    weights, unsolved = queries
    ordered, layout, violations = SortedDocuments(*ordered), Layout(*layout), Violations(*violations)
    total, states = LongSum(*total), PrunedStates(*states)
    scores, ranks, discounts, profile = ordered.scores, violations.ranks, total.discounts, total.profile
    keys, parents, came = states.keys, states.parents, states.came
    (most_levels, width), capacity, falls = states.next_keys.shape, len(keys), total.falls
    counts, lengths, heads, strides = (
        np.zeros(most_levels, np.int64),
        np.zeros(most_levels, np.int64),
        np.zeros(most_levels, np.int64),
        np.ones(most_levels, np.int64),
    )
    gains = np.zeros(most_levels)
    for query in range(first, end):
        if unsolved[query] or not layout.active[query]:
            continue
        low, high, begin = layout.of_query[query], layout.of_query[query + 1], layout.queries[query]
        n_levels, n, scale = high - low, layout.queries[query + 1] - begin, total.scales[query]
        starts, row = layout.offsets[low : high + 1], total.falls_of[query]
        largest = 0.0
        for level in range(n_levels):
            gains[level] = weights[query] * total.gains[low + level]
            strides[level] = 1 if level == 0 else strides[level - 1] * (starts[level] - starts[level - 1] + 1)
            largest = max(largest, abs(scores[starts[level]]), abs(scores[starts[level + 1] - 1]))
        most_gain = abs(gains[0])
        keys[0], states.values[0], came[0] = 0, 0.0, -1
        start, stop = 0, 1
        for rank in range(n):
            if stop - start > width or stop + n_levels * (stop - start) > capacity:
                unsolved[query] = True
                break
            fall = (
                scale * falls[row + rank, 0], falls[row + rank, 1],
                scale * falls[row + rank, 2], falls[row + rank, 3],
                scale * falls[row + rank, 4], falls[row + rank, 5],
                ROUNDING * (scale * falls[row + rank, 2] * largest + falls[row + rank, 3] * most_gain),
                ROUNDING * (scale * falls[row + rank, 4] * largest + falls[row + rank, 5] * most_gain),
            )  # fmt: skip
            parts = scores, starts, gains, strides, scale * profile[rank], discounts[rank]
            _follow(start, stop, rank, parts, (counts, lengths), fall, states)
            start, stop = stop, _merge_lists(n_levels, lengths, heads, states, stop)
        if unsolved[query]:
            continue
        for level in range(n_levels):
            counts[level] = starts[level + 1] - starts[level]
        delta, state = 0.0, start
        for back in range(n):
            level, rank = came[state], n - 1 - back
            counts[level] -= 1
            place = starts[level] + counts[level]
            ranks[place] = rank
            delta += gains[level] * (discounts[place - begin] - discounts[rank])
            state = parents[state]
        violations.deltas[query] = delta
