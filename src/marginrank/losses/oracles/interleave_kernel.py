"""Two sorted lists, one above the other as far as it pays: argmax for φpo.

Every kernel here and beside it ranks the documents of queries ``first`` to ``end``, by place, so that
``weight·Δ + a(y)·s`` is largest, and gives ``weight·Δ`` of that ranking.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _rank_interleaved(places, n_rel, n_irr, start, ranks):  # type: ignore[no-untyped-def]
    """Ranks of two sorted lists when bad j has ``places[j]`` goods before it, not falling in j."""
    bad = 0
    for good in range(n_rel):
        while bad < n_irr and places[bad] <= good:
            ranks[start + n_rel + bad] = good + bad
            bad += 1
        ranks[start + good] = good + bad
    while bad < n_irr:
        ranks[start + n_rel + bad] = n_rel + bad
        bad += 1


@njit(nogil=True, cache=True)
def most_violated_pairs(  # type: ignore[no-untyped-def]
    scores, queries, level_offsets, of_query, active, scales, weights, ranks, deltas, first, end
):
    """AUC: a pair is turned where that gains more than it costs, weight/#pairs > 2·scale·(s_good − s_bad).

    Chakrabarti et al. (KDD 2008) eq. (8): shift the goods down by a half and sort.
    """
    for query in range(first, end):
        if not active[query]:
            continue
        start, end_rel = queries[query], level_offsets[of_query[query] + 1]
        n_rel, n_irr = end_rel - start, queries[query + 1] - end_rel
        pair = weights[query] / (n_rel * n_irr)
        margin = pair / (2.0 * scales[query])
        places = np.empty(n_irr, dtype=np.int64)
        good, turned = 0, 0
        for bad in range(n_irr):
            while good < n_rel and scores[start + good] - scores[end_rel + bad] >= margin:
                good += 1
            places[bad] = good
            turned += n_rel - good
        _rank_interleaved(places, n_rel, n_irr, start, ranks)
        deltas[query] = pair * turned


@njit(nogil=True, cache=True)
def _drop(i, j, n_rel, discounts, gain):  # type: ignore[no-untyped-def]
    """What the i-th good (from 1) loses when the j-th bad (from 1) comes to stand before it."""
    if len(discounts) > 0:
        return gain * (discounts[i + j - 2] - discounts[i + j - 1])
    return (i / (i + j - 1.0) - i / (i + j)) / n_rel


@njit(nogil=True, cache=True)
def _place_bads(goods, bads, pair, weight, discounts, gain, places):  # type: ignore[no-untyped-def]
    """Place each bad where it pays most, by divide and conquer: the best place does not fall as the score falls.

    Yue et al. (SIGIR 2007) Algorithm 2 finds the places one by one; halving the list of bads bounds the places left to
    look at, so that the work is O(n log n) (Mohapatra et al., 2018).
    """
    n_rel, n_irr = len(goods), len(bads)
    stack = np.empty((64, 4), dtype=np.int64)
    stack[0] = (0, n_irr - 1, 0, n_rel)
    depth = 1
    while depth > 0:
        depth -= 1
        low, high, fewest, most = stack[depth]
        if low > high:
            continue
        middle = (low + high) // 2
        best, value, best_value = most, 0.0, 0.0
        for i in range(most, fewest, -1):
            value += weight * _drop(i, middle + 1, n_rel, discounts, gain) - pair * (goods[i - 1] - bads[middle])
            if value > best_value:
                best, best_value = i - 1, value
        places[middle] = best
        stack[depth] = (low, middle - 1, fewest, best)
        stack[depth + 1] = (middle + 1, high, best, most)
        depth += 2


@njit(nogil=True, cache=True)
def most_violated_interleaving(  # type: ignore[no-untyped-def]
    scores, queries, level_offsets, of_query, active, scales, weights, discounts, gains, ranks, deltas, first, end
):
    """Average precision, or, with discounts that are convex in the rank, a two-level sum over ranks."""
    for query in range(first, end):
        if not active[query]:
            continue
        start, end_rel, stop = queries[query], level_offsets[of_query[query] + 1], queries[query + 1]
        n_rel, n_irr = end_rel - start, stop - end_rel
        gain = gains[of_query[query]] - gains[of_query[query] + 1]
        places = np.empty(n_irr, dtype=np.int64)
        _place_bads(
            scores[start:end_rel], scores[end_rel:stop], 2.0 * scales[query], weights[query], discounts, gain, places
        )
        _rank_interleaved(places, n_rel, n_irr, start, ranks)
        delta = 0.0
        for good in range(n_rel):
            rank = ranks[start + good]
            if len(discounts) > 0:
                delta += gain * (discounts[good] - discounts[rank])
            else:
                delta += (1.0 - (good + 1.0) / (rank + 1.0)) / n_rel
        deltas[query] = weights[query] * delta
