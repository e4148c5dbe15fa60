"""Merging sorted levels rank by rank: argmax for sums over ranks and for credits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.kernels import njit
from marginrank.losses.oracles.grade_lattice import CreditSum, RankSum, States
from marginrank.losses.oracles.levels import Layout
from marginrank.losses.oracles.problem import Sorted, Violations
from marginrank.typing import AnyArray, FloatArray, IntArray


class Table(NamedTuple):
    """The states of as many levels as a query has."""

    counts: AnyArray
    successors: AnyArray
    predecessors: AnyArray


class Room(NamedTuple):
    """Work arrays, which the caller makes, since code that makes arrays is slow to compile.

    Args:
        value: The best sum over the ranks so far, by state.
        tail: The sum over the ranks after a state, up to a constant.
        came: The level of the last document.
        lowest: The level of the document with the lowest score.
        seen: The last query for which a state was reached.
        reached: The states of one rank.
        following: The states of the next.
        needed: The documents of other levels that the documents of a level need before them.
        positions: Ranks by score of the first documents of each level.
        gains: What the levels of the query are worth to the loss.
        profile: A over the ranks of the query.
        sums: Sums over documents in score order.
    """

    value: FloatArray
    tail: FloatArray
    came: IntArray
    lowest: IntArray
    seen: IntArray
    reached: IntArray
    following: IntArray
    needed: IntArray
    positions: IntArray
    gains: FloatArray
    profile: FloatArray
    sums: FloatArray


@njit(nogil=True, cache=True, allocates=False)
def _needed_before(scores, starts, depth, needed):  # type: ignore[no-untyped-def]
    """Count the documents of each worse level that must come before each of the first documents of a level.

    A document that gains less and scores at least as much comes first in some best ranking, since neither the profile
    nor the discount rises with the rank.
    """
    for level in range(len(starts) - 1):
        for other in range(level + 1, len(starts) - 1):
            first, most = starts[other], min(depth + 1, starts[other + 1] - starts[other])
            count = 0
            for i in range(min(depth, starts[level + 1] - starts[level])):
                score = scores[starts[level] + i]
                while count < most and scores[first + count] >= score:
                    count += 1
                needed[level, i, other] = count


@njit(nogil=True, cache=True, allocates=False)
def _may_follow(state, level, i, n_levels, counts, needed):  # type: ignore[no-untyped-def]
    """Tell whether all that must come before the i-th document of a level is placed."""
    for other in range(level + 1, n_levels):
        if counts[state, other] < needed[level, i, other]:
            return False
    return True


@njit(nogil=True, cache=True, allocates=False)
def _tail_sums(scores, by_score, profile, depth, sums):  # type: ignore[no-untyped-def]
    """Sum the values [m, c] of the first m documents by score, at ranks from ``depth`` on, when c of them are gone."""
    last = len(profile) - 1
    for c in range(depth + 1):
        sums[0, c] = 0.0
    for m in range(sums.shape[0] - 1):
        score = scores[by_score[m]]
        for c in range(depth + 1):
            sums[m + 1, c] = sums[m, c] + profile[min(depth + m - c, last)] * score


@njit(nogil=True, cache=True, allocates=False)
def _best_merge(query, scores, starts, discounts, depth, states, room, sums):  # type: ignore[no-untyped-def]
    """Find the state that is best after the last rank that counts; ``room.came`` tells how it was reached.

    What comes after a state, in score order, is summed along with it, up to a constant. Taken out in score order, the
    c-th document of a state, at position m of the list, changes that by sums[m, c − 1] − sums[m + 1, c]; what it was
    before is the sum of the state without that document.
    """
    value, tail, came, lowest, positions = room.value, room.tail, room.came, room.lowest, room.positions
    reached, following = room.reached, room.following
    n_levels, with_tail = len(starts) - 1, sums.shape[0] > 1
    value[0], reached[0], n_reached = 0.0, 0, 1
    for rank in range(depth):
        a, d, n_following = room.profile[rank], discounts[rank], 0
        for at in range(n_reached):
            state = reached[at]
            for level in range(n_levels):
                i = states.counts[state, level]
                place = starts[level] + i
                if place == starts[level + 1]:
                    continue
                if not _may_follow(state, level, i, n_levels, states.counts, room.needed):
                    continue
                to = states.successors[state, level]
                there = value[state] + a * scores[place] - d * room.gains[level]
                if room.seen[to] == query:
                    if there > value[to]:
                        value[to], came[to] = there, level
                    continue
                room.seen[to], value[to], came[to] = query, there, level
                following[n_following] = to
                n_following += 1
                if with_tail:
                    # The last document in score order is the new one, or the last one of the state before.
                    final = lowest[state]
                    m = positions[final, states.counts[state, final] - 1] if rank > 0 else -1
                    if positions[level, i] > m:
                        final, m = level, positions[level, i]
                    lowest[to] = final
                    tail[to] = tail[states.predecessors[to, final]] + sums[m, rank] - sums[m + 1, rank + 1]
        reached, following, n_reached = following, reached, n_following
    best = reached[0]
    for at in range(1, n_reached):
        state = reached[at]
        if value[state] + tail[state] > value[best] + tail[best]:
            best = state
    return best


@njit(nogil=True, cache=True, allocates=False)
def most_violated_merge(ordered, layout, lattice, weights, room, violations, first, end):  # type: ignore[no-untyped-def]
    """Sum over the first ranks: merge the sorted levels by dynamic programming, then the rest in score order.

    A state says how many documents of each level are placed. Only states that some best ranking can pass through are
    looked at. ``lattice`` is what is summed, and the states.
    """
    ordered, layout, room, violations = Sorted(*ordered), Layout(*layout), Room(*room), Violations(*violations)
    total, states = RankSum(*lattice[0]), States(*lattice[1])
    scores, ranks = ordered.scores, violations.ranks
    for state in range(len(room.seen)):
        room.seen[state] = -1
    for query in range(first, end):
        if not layout.active[query]:
            continue
        low, high, begin = layout.of_query[query], layout.of_query[query + 1], layout.queries[query]
        n_levels, n = high - low, layout.queries[query + 1] - begin
        depth = min(len(total.discounts), n)
        starts, by_score = layout.offsets[low : high + 1], ordered.places[begin : begin + n]
        rows = slice(states.tables[n_levels], states.tables[n_levels + 1])
        table = Table(states.counts[rows], states.successors[rows], states.predecessors[rows])
        for level in range(n_levels):
            room.gains[level] = weights[query] * total.gains[low + level]
        for rank in range(n):
            room.profile[rank] = total.scales[query] * total.profile[rank]
            ranks[begin + rank] = -1
        _needed_before(scores, starts, depth, room.needed)
        furthest = -1
        if total.has_tail and depth < n:
            for level in range(n_levels):
                for i in range(min(depth, starts[level + 1] - starts[level])):
                    room.positions[level, i] = ordered.predicted[starts[level] + i]
                    furthest = max(furthest, room.positions[level, i])
        elif total.has_tail:
            for state in range(len(room.tail)):
                room.tail[state] = 0.0
        sums = room.sums[: furthest + 2]
        _tail_sums(scores, by_score, room.profile[:n], depth, sums)
        best = _best_merge(query, scores, starts, total.discounts, depth, table, room, sums)
        violations.deltas[query] = _read_off(best, starts, total.discounts, depth, table, room, by_score, ranks)


@njit(nogil=True, cache=True, allocates=False)
def _read_off(state, starts, discounts, depth, states, room, by_score, ranks):  # type: ignore[no-untyped-def]
    """Rank the documents of the last state as they were placed and the others by score; return weight·Δ."""
    delta, rank = 0.0, 0
    for level in range(len(starts) - 1):
        for _ in range(min(starts[level + 1] - starts[level], depth - rank)):
            delta += discounts[rank] * room.gains[level]
            rank += 1
    for back in range(depth):
        level, rank = room.came[state], depth - 1 - back
        ranks[starts[level] + states.counts[state, level] - 1] = rank
        delta -= discounts[rank] * room.gains[level]
        state = states.predecessors[state, level]
    rank = depth
    for at in range(len(by_score)):
        if ranks[by_score[at]] < 0:
            ranks[by_score[at]] = rank
            rank += 1
    return delta


@njit(nogil=True, cache=True)
def most_violated_path(scores, layout, total, weights, violations, first, end):  # type: ignore[no-untyped-def]
    """Two levels, any credits: the best path through the grid of (i relevant, j irrelevant documents placed)."""
    layout, total, violations = Layout(*layout), CreditSum(*total), Violations(*violations)
    profile, ranks = total.profile, violations.ranks
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, stop = layout.queries[query], layout.queries[query + 1]
        end_rel = layout.offsets[layout.of_query[query] + 1]
        n_rel, n_irr = end_rel - start, stop - end_rel
        begin = total.starts[query]
        table = total.table[begin : begin + n_rel * (n_irr + 1)].reshape(n_rel, n_irr + 1)
        scale, weight = total.scales[query], weights[query]
        relevant_last = np.empty((n_rel + 1, n_irr + 1), dtype=np.bool_)
        row = np.empty(n_irr + 1)
        row[0] = 0.0
        for j in range(1, n_irr + 1):
            row[j] = row[j - 1] + scale * profile[j - 1] * scores[end_rel + j - 1]
            relevant_last[0, j] = False
        for i in range(1, n_rel + 1):
            for j in range(n_irr + 1):
                a = scale * profile[i + j - 1]
                with_relevant = row[j] + a * scores[start + i - 1] - weight * table[i - 1, j]
                with_irrelevant = row[j - 1] + a * scores[end_rel + j - 1] if j > 0 else -np.inf
                relevant_last[i, j] = with_relevant > with_irrelevant
                row[j] = max(with_relevant, with_irrelevant)
        i, j = n_rel, n_irr
        delta = 0.0
        for placed in range(n_rel):
            delta += table[placed, 0]
        while i + j > 0:
            if i > 0 and relevant_last[i, j]:
                delta -= table[i - 1, j]
                i -= 1
                ranks[start + i] = i + j
            else:
                j -= 1
                ranks[end_rel + j] = i + j
        violations.deltas[query] = weight * delta
