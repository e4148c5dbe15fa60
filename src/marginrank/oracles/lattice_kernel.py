"""Merging sorted levels rank by rank: argmax for sums over ranks and for credits."""

from __future__ import annotations

import numpy as np
from numba import njit

from marginrank.oracles.sorting_kernel import merge_levels


@njit(nogil=True, cache=True)
def _head_values(
    scores, starts, sizes, profile, discounts, gains, depth, counts, successors, layers, value, came, before
):  # type: ignore[no-untyped-def]
    """Best value of placing t_ℓ documents of each level on the first ranks, for every state t."""
    n_levels = len(sizes)
    value[: layers[depth + 1]] = -np.inf
    value[0] = 0.0
    for rank in range(depth):
        a, d = profile[rank], discounts[rank]
        for state in range(layers[rank], layers[rank + 1]):
            here = value[state]
            if here == -np.inf:
                continue
            for level in range(n_levels):
                taken = counts[state, level]
                if taken < sizes[level]:
                    there = here + a * scores[starts[level] + taken] - d * gains[level]
                    to = successors[state, level]
                    if there > value[to]:
                        value[to] = there
                        came[to] = level
                        before[to] = state


@njit(nogil=True, cache=True)
def _tail_sums(scores, by_score, profile, depth):  # type: ignore[no-untyped-def]
    """Sums of profile × score down the score-sorted list, when c of the first ``depth`` documents stood before.

    Row c, column m is the sum over the first m documents with A taken ``depth − c`` ranks further down.
    """
    n = len(by_score)
    sums = np.zeros((depth + 1, n + 1))
    for c in range(depth + 1):
        total = 0.0
        for m in range(n):
            total += profile[min(depth + m - c, n - 1)] * scores[by_score[m]]
            sums[c, m + 1] = total
    return sums


@njit(nogil=True, cache=True)
def _best_end(scores, starts, sizes, ranks, profile, depth, counts, layers, value):  # type: ignore[no-untyped-def]
    """Best state at the last rank that counts, with the rest in score order behind it.

    A document taken out of the score-sorted list at position m, as the c-th of those taken, changes the tail by
    sums[c − 1, m] − sums[c, m + 1]; its largest change bounds that, so that most states need no closer look.
    """
    n, n_levels = starts[-1] + sizes[-1] - starts[0], len(sizes)
    first = starts[0]
    by_score = np.empty(n, dtype=np.int64)
    for place in range(first, first + n):
        by_score[ranks[place]] = place
    sums = _tail_sums(scores, by_score, profile, depth)
    bound = np.zeros((n_levels, depth + 1))
    above = np.zeros((n_levels, depth, n_levels), dtype=np.int64)
    for level in range(n_levels):
        for i in range(min(depth, sizes[level])):
            m = ranks[starts[level] + i]
            largest = -np.inf
            for c in range(i + 1, min(depth, m + 1) + 1):
                largest = max(largest, sums[c - 1, m] - sums[c, m + 1])
            bound[level, i + 1] = bound[level, i] + largest
            for other in range(n_levels):
                count = above[level, i - 1, other] if i > 0 else 0
                while count < min(depth, sizes[other]) and ranks[starts[other] + count] < m:
                    count += 1
                above[level, i, other] = count
    best, best_value = -1, -np.inf
    for look_closer in range(2):
        # The first time round only the most promising state is looked at, which lets the second skip nearly all.
        promising, most = -1, -np.inf
        for state in range(layers[depth], layers[depth + 1]):
            if value[state] == -np.inf:
                continue
            optimist = value[state]
            for level in range(n_levels):
                optimist += bound[level, counts[state, level]]
            if look_closer == 0:
                if optimist > most:
                    promising, most = state, optimist
                continue
            if optimist <= best_value:
                continue
            exact = _with_tail(value[state], counts[state], starts, ranks, above, sums)
            if exact > best_value:
                best, best_value = state, exact
        if look_closer == 0:
            best = promising
            best_value = _with_tail(value[best], counts[best], starts, ranks, above, sums)
    return best


@njit(nogil=True, cache=True)
def _with_tail(value, taken, starts, ranks, above, sums):  # type: ignore[no-untyped-def]
    for level in range(len(starts)):
        for i in range(taken[level]):
            m = ranks[starts[level] + i]
            c = 1
            for other in range(len(starts)):
                c += i if other == level else min(taken[other], above[level, i, other])
            value += sums[c - 1, m] - sums[c, m + 1]
    return value


@njit(nogil=True, cache=True)
def most_violated_merge(  # type: ignore[no-untyped-def]
    scores, queries, level_offsets, of_query, active, scales, weights,
    profile, discounts, gains, has_tail, tables, counts, successors, layers, ranks, deltas, first, end,
):  # fmt: skip
    """Sum over the first ranks: merge the sorted levels by dynamic programming, then the rest in score order.

    States of up to ``depth`` documents over L levels are numbered layer by layer; ``tables[L]`` says where the rows of
    ``counts`` and ``successors`` for L levels begin, and row L of ``layers`` where each layer begins among them.
    """
    value = np.empty(counts.shape[0])
    came = np.empty(counts.shape[0], dtype=np.int8)
    before = np.empty(counts.shape[0], dtype=np.int32)
    for query in range(first, end):
        if not active[query]:
            continue
        low, high = of_query[query], of_query[query + 1]
        n_levels, n = high - low, queries[query + 1] - queries[query]
        depth = min(len(discounts), n)
        starts = level_offsets[low:high]
        sizes = level_offsets[low + 1 : high + 1] - starts
        rows = slice(tables[n_levels], tables[n_levels + 1])
        own_counts, own_successors, own_layers = counts[rows], successors[rows], layers[n_levels]
        scaled = scales[query] * profile[:n]
        worth = weights[query] * gains[low:high]
        _head_values(
            scores,
            starts,
            sizes,
            scaled,
            discounts,
            worth,
            depth,
            own_counts,
            own_successors,
            own_layers,
            value,
            came,
            before,
        )
        heads = np.empty(n_levels, dtype=np.int64)
        skip = np.zeros(n_levels, dtype=np.int64)
        if has_tail and depth < n:
            merge_levels(scores, level_offsets, low, high, heads, skip, 0, ranks)
            state = _best_end(scores, starts, sizes, ranks, scaled, depth, own_counts, own_layers, value)
        else:
            state = own_layers[depth] + np.argmax(value[own_layers[depth] : own_layers[depth + 1]])
        skip[:] = own_counts[state, :n_levels]
        merge_levels(scores, level_offsets, low, high, heads, skip, depth, ranks)
        lost = 0.0
        for rank in range(depth - 1, -1, -1):
            level = came[state]
            taken = own_counts[state, level] - 1
            ranks[starts[level] + taken] = rank
            lost -= discounts[rank] * worth[level]
            state = before[state]
        ideal, rank = 0.0, 0
        for level in range(n_levels):
            for _ in range(sizes[level]):
                if rank < depth:
                    ideal += discounts[rank] * worth[level]
                    rank += 1
        deltas[query] = ideal + lost


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
    credits,
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
        table = credits[credit_starts[query] : credit_starts[query] + n_rel * (n_irr + 1)].reshape(n_rel, n_irr + 1)
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
