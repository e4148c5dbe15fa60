"""Merging sorted levels rank by rank: argmax for sums over ranks and for credits."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _needed_before(scores, starts, sizes, depth, needed):  # type: ignore[no-untyped-def]
    """How many documents of each worse level must come before each of the first documents of a level.

    A document that gains less and scores at least as much comes first in some best ranking, since neither the profile
    nor the discount rises with the rank.
    """
    for level in range(len(starts)):
        for other in range(level + 1, len(starts)):
            count = 0
            for i in range(min(depth, sizes[level])):
                score = scores[starts[level] + i]
                while count <= depth and count < sizes[other] and scores[starts[other] + count] >= score:
                    count += 1
                needed[level, i, other] = count


@njit(nogil=True, cache=True)
def _may_follow(state, level, i, n_levels, counts, needed):  # type: ignore[no-untyped-def]
    """Whether all that must come before the i-th document of a level is placed."""
    for other in range(level + 1, n_levels):
        if counts[state, other] < needed[level, i, other]:
            return False
    return True


@njit(nogil=True, cache=True)
def _tail_sums(scores, by_score, profile, depth, sums):  # type: ignore[no-untyped-def]
    """Value [m, c] of the first m documents in score order, on ranks from ``depth`` on, when c of them are gone."""
    last = len(profile) - 1
    sums[0] = 0.0
    for m in range(sums.shape[0] - 1):
        score = scores[by_score[m]]
        for c in range(depth + 1):
            sums[m + 1, c] = sums[m, c] + profile[min(depth + m - c, last)] * score


@njit(nogil=True, cache=True)
def _best_merge(  # type: ignore[no-untyped-def]
    query, scores, starts, sizes, worth, profile, discounts, depth, needed, positions, sums,
    counts, successors, predecessors, value, tail, came, lowest, seen, reached, following,
):  # fmt: skip
    """Find the state that is best after the last rank that counts; ``came`` tells how it was reached.

    What comes after a state, in score order, is summed along with it, up to a constant. Taken out in score order, the
    c-th document of a state, at position m of the list, changes that by sums[m, c − 1] − sums[m + 1, c]; what it was
    before is the sum of the state without that document.
    """
    n_levels, with_tail = len(sizes), sums.shape[0] > 1
    value[0], reached[0], n_reached = 0.0, 0, 1
    for rank in range(depth):
        a, d, n_following = profile[rank], discounts[rank], 0
        for at in range(n_reached):
            state = reached[at]
            for level in range(n_levels):
                i = counts[state, level]
                if i == sizes[level] or not _may_follow(state, level, i, n_levels, counts, needed):
                    continue
                to = successors[state, level]
                there = value[state] + a * scores[starts[level] + i] - d * worth[level]
                if seen[to] == query:
                    if there > value[to]:
                        value[to], came[to] = there, level
                    continue
                seen[to], value[to], came[to] = query, there, level
                following[n_following] = to
                n_following += 1
                if with_tail:
                    # The last document in score order is the new one, or the last one of the state before.
                    final = lowest[state]
                    m = positions[final, counts[state, final] - 1] if rank > 0 else -1
                    if positions[level, i] > m:
                        final, m = level, positions[level, i]
                    lowest[to] = final
                    tail[to] = tail[predecessors[to, final]] + sums[m, rank] - sums[m + 1, rank + 1]
        reached, following, n_reached = following, reached, n_following
    best = reached[0]
    for at in range(1, n_reached):
        state = reached[at]
        if value[state] + tail[state] > value[best] + tail[best]:
            best = state
    return best


@njit(nogil=True, cache=True)
def most_violated_merge(  # type: ignore[no-untyped-def]
    scores, predicted, by_score, queries, level_offsets, of_query, active, scales, weights, profile, discounts, gains,
    has_tail, tables, counts, successors, predecessors, ranks, deltas, first, end,
):  # fmt: skip
    """Sum over the first ranks: merge the sorted levels by dynamic programming, then the rest in score order.

    A state says how many documents of each level are placed. States of up to ``depth`` documents over L levels are
    numbered; ``tables[L]`` says where the rows of ``counts``, ``successors`` and ``predecessors`` for L levels begin.
    Only states that some best ranking can pass through are looked at.
    """
    n_states, most_levels, most = counts.shape[0], counts.shape[1], len(discounts)
    value, tail = np.empty(n_states), np.zeros(n_states)
    came, lowest = np.empty(n_states, dtype=np.int16), np.zeros(n_states, dtype=np.int16)
    seen = np.full(n_states, -1, dtype=np.int64)
    reached, following = np.empty(n_states, dtype=np.int64), np.empty(n_states, dtype=np.int64)
    needed = np.zeros((most_levels, most, most_levels), dtype=np.int64)
    positions = np.zeros((most_levels, most), dtype=np.int64)
    for query in range(first, end):
        if not active[query]:
            continue
        low, high, begin = of_query[query], of_query[query + 1], queries[query]
        n_levels, n = high - low, queries[query + 1] - begin
        depth = min(most, n)
        starts = level_offsets[low:high]
        sizes = level_offsets[low + 1 : high + 1] - starts
        rows = slice(tables[n_levels], tables[n_levels + 1])
        own_counts, own_predecessors = counts[rows], predecessors[rows]
        scaled, worth = scales[query] * profile[:n], weights[query] * gains[low:high]
        own_places = by_score[begin : begin + n]
        _needed_before(scores, starts, sizes, depth, needed)
        furthest = -1
        if has_tail and depth < n:
            for level in range(n_levels):
                for i in range(min(depth, sizes[level])):
                    positions[level, i] = predicted[starts[level] + i]
                    furthest = max(furthest, positions[level, i])
        elif has_tail:
            tail[:] = 0.0
        sums = np.empty((furthest + 2, depth + 1))
        _tail_sums(scores, own_places, scaled, depth, sums)
        best = _best_merge(
            query, scores, starts, sizes, worth, scaled, discounts, depth, needed, positions, sums,
            own_counts, successors[rows], own_predecessors, value, tail, came, lowest, seen, reached, following,
        )  # fmt: skip
        deltas[query] = _read_off(
            best, depth, begin, starts, sizes, worth, discounts, own_places, own_counts, own_predecessors, came, ranks
        )


@njit(nogil=True, cache=True)
def _read_off(  # type: ignore[no-untyped-def]
    state, depth, begin, starts, sizes, worth, discounts, by_score, counts, predecessors, came, ranks
):
    """Rank the documents of the last state as they were placed and the others by score; gives weight·Δ."""
    ranks[begin : begin + len(by_score)] = -1
    delta, rank = 0.0, 0
    for level in range(len(starts)):
        for _ in range(min(sizes[level], depth - rank)):
            delta += discounts[rank] * worth[level]
            rank += 1
    for rank in range(depth - 1, -1, -1):
        level = came[state]
        ranks[starts[level] + counts[state, level] - 1] = rank
        delta -= discounts[rank] * worth[level]
        state = predecessors[state, level]
    rank = depth
    for place in by_score:
        if ranks[place] < 0:
            ranks[place] = rank
            rank += 1
    return delta


@njit(nogil=True, cache=True)
def most_violated_path(  # type: ignore[no-untyped-def]
    scores,
    queries,
    level_offsets,
    of_query,
    active,
    scales,
    weights,
    profile,
    credit,
    credit_starts,
    ranks,
    deltas,
    first,
    end,
):
    """Two levels, any credit of the i-th good with j bads before it: the best path through the grid of (i, j)."""
    for query in range(first, end):
        if not active[query]:
            continue
        start, end_rel, stop = queries[query], level_offsets[of_query[query] + 1], queries[query + 1]
        n_rel, n_irr = end_rel - start, stop - end_rel
        table = credit[credit_starts[query] : credit_starts[query] + n_rel * (n_irr + 1)].reshape(n_rel, n_irr + 1)
        scale, weight = scales[query], weights[query]
        good_last = np.empty((n_rel + 1, n_irr + 1), dtype=np.bool_)
        row = np.empty(n_irr + 1)
        row[0] = 0.0
        for j in range(1, n_irr + 1):
            row[j] = row[j - 1] + scale * profile[j - 1] * scores[end_rel + j - 1]
            good_last[0, j] = False
        for i in range(1, n_rel + 1):
            for j in range(n_irr + 1):
                a = scale * profile[i + j - 1]
                with_good = row[j] + a * scores[start + i - 1] - weight * table[i - 1, j]
                with_bad = row[j - 1] + a * scores[end_rel + j - 1] if j > 0 else -np.inf
                good_last[i, j] = with_good > with_bad
                row[j] = max(with_good, with_bad)
        i, j = n_rel, n_irr
        delta = 0.0
        for good in range(n_rel):
            delta += table[good, 0]
        while i + j > 0:
            if i > 0 and good_last[i, j]:
                delta -= table[i - 1, j]
                i -= 1
                ranks[start + i] = i + j
            else:
                j -= 1
                ranks[end_rel + j] = i + j
        deltas[query] = weight * delta
