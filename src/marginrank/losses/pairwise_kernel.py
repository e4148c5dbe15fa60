"""Hinges over all pairs of documents of different level, by sweeps over sorted scores."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _merge(scores, documents, start, middle, end, spare_scores, spare_documents):  # type: ignore[no-untyped-def]
    """Merge two runs that fall in score, in place."""
    n = middle - start
    for place in range(n):
        spare_scores[place] = scores[start + place]
        spare_documents[place] = documents[start + place]
    left, right = 0, middle
    for place in range(start, end):
        if left == n:
            return
        if right < end and scores[right] > spare_scores[left]:
            scores[place], documents[place] = scores[right], documents[right]
            right += 1
        else:
            scores[place], documents[place] = spare_scores[left], spare_documents[left]
            left += 1


@njit(nogil=True, cache=True)
def _sweep(  # type: ignore[no-untyped-def]
    scores, documents, better, better_end, worse, worse_end, margin, weight, squared, gradient
):
    """Add the derivatives of the pairs of two runs that fall in score, one better than the other; give their loss.

    The worse documents that violate the margin of a better one are the first of their run, and going down the better
    run their gaps margin − (s_better − s_worse) only grow; going up the worse run so do the gaps of the better
    documents. Gaps, and squares of gaps, are summed by what they grow by: nothing is subtracted, so nothing cancels.
    """
    total = 0.0
    violators, gaps, squares = 0, 0.0, 0.0
    other = worse
    for place in range(better, better_end):
        score = scores[place]
        if place > better:
            fall = scores[place - 1] - score
            squares += fall * (2.0 * gaps + violators * fall)
            gaps += violators * fall
        while other < worse_end:
            gap = margin - (score - scores[other])
            if gap <= 0.0:
                break
            violators += 1
            gaps += gap
            squares += gap * gap
            other += 1
        if squared:
            total += squares
            gradient[documents[place]] -= weight * 2.0 * gaps
        else:
            total += gaps
            gradient[documents[place]] -= weight * violators
    if violators == 0:
        return 0.0
    violators, gaps = 0, 0.0
    other = better_end - 1
    for place in range(worse_end - 1, worse - 1, -1):
        score = scores[place]
        if place < worse_end - 1:
            gaps += violators * (score - scores[place + 1])
        while other >= better:
            gap = margin - (scores[other] - score)
            if gap <= 0.0:
                break
            violators += 1
            gaps += gap
            other -= 1
        gradient[documents[place]] += weight * (2.0 * gaps if squared else violators)
    return weight * total


@njit(nogil=True, cache=True)
def _curve(  # type: ignore[no-untyped-def]
    scores, documents, better, better_end, worse, worse_end, margin, weight, direction, product
):
    """Add the second derivatives of the squared hinges of two runs, times a direction v.

    A document i gets 2·Σ (v_i − v_j) over the documents j that it violates a margin with, which are found as in
    `_sweep`. Only differences of v matter, so v is counted from one document on: large numbers that all documents share
    would drown them.
    """
    origin = direction[documents[better]]
    violators, moves = 0, 0.0
    other = worse
    for place in range(better, better_end):
        while other < worse_end and margin - (scores[place] - scores[other]) > 0.0:
            violators += 1
            moves += direction[documents[other]] - origin
            other += 1
        document = documents[place]
        product[document] += weight * 2.0 * (violators * (direction[document] - origin) - moves)
    if violators == 0:
        return
    violators, moves = 0, 0.0
    other = better_end - 1
    for place in range(worse_end - 1, worse - 1, -1):
        while other >= better and margin - (scores[other] - scores[place]) > 0.0:
            violators += 1
            moves += direction[documents[other]] - origin
            other -= 1
        document = documents[place]
        product[document] += weight * 2.0 * (violators * (direction[document] - origin) - moves)


@njit(nogil=True, cache=True)
def _add_pairs(  # type: ignore[no-untyped-def]
    scores, documents, better, better_end, worse, worse_end, margin, weight, squared, direction, out
):
    """Add the derivatives of the pairs of two runs and give their loss; or, with a direction, the second ones."""
    if direction is None:
        return _sweep(scores, documents, better, better_end, worse, worse_end, margin, weight, squared, out)
    _curve(scores, documents, better, better_end, worse, worse_end, margin, weight, direction, out)
    return 0.0


@njit(nogil=True, cache=True)
def _all_pairs(  # type: ignore[no-untyped-def]
    scores, documents, bounds, n_runs, margin, squared, direction, out, spare_scores, spare_documents
):
    """Sweep neighbouring runs and merge them, until one is left: n log L for L levels of n documents, best first."""
    total = 0.0
    while n_runs > 1:
        for run in range(0, n_runs - 1, 2):
            start, middle, end = bounds[run], bounds[run + 1], bounds[run + 2]
            total += _add_pairs(scores, documents, start, middle, middle, end, margin, 1.0, squared, direction, out)
            if n_runs > 2:
                _merge(scores, documents, start, middle, end, spare_scores, spare_documents)
        end = bounds[n_runs]
        n_runs = (n_runs + 1) // 2
        for run in range(n_runs):
            bounds[run] = bounds[2 * run]
        bounds[n_runs] = end
    return total


@njit(nogil=True, cache=True)
def _weighted_pairs(scores, documents, bounds, kinds, weights, margin, squared, direction, out):  # type: ignore[no-untyped-def]
    """Sweep every pair of levels with its own weight: n·L for L levels of n documents."""
    total = 0.0
    for better in range(len(kinds)):
        for worse in range(better + 1, len(kinds)):
            weight = weights[kinds[better], kinds[worse]]
            if weight > 0.0:
                total += _add_pairs(
                    scores, documents, bounds[better], bounds[better + 1], bounds[worse], bounds[worse + 1],
                    margin, weight, squared, direction, out,
                )  # fmt: skip
    return total


@njit(nogil=True, cache=True)
def pairwise_hinges(  # type: ignore[no-untyped-def]
    sorted_scores, documents, heights, queries, level_offsets, of_query, active, kinds, weights, scales, margin,
    squared, keys, order, direction, xi, out, first, end,
):  # fmt: skip
    """Write the slacks and derivatives of queries ``first`` to ``end``; or, with a direction, the second derivatives.

    Without a ``direction`` the derivatives go to ``out``. With one, ``out`` is the generalised Hessian of the squared
    hinges times the direction, which is by document, and the slacks are 0.

    ``sorted_scores`` and ``documents`` are by place, level after level, sorted by score inside levels; ``keys`` and
    ``order`` are room to work in. ``heights`` are added to the margins of pairs of levels as height(better) −
    height(worse), which is the same as taking them off the scores. Without ``weights`` all pairs weigh 1; otherwise
    ``kinds`` says which row or column of ``weights`` a level takes.
    """
    longest, most_levels = 0, 0
    for query in range(first, end):
        longest = max(longest, queries[query + 1] - queries[query])
        most_levels = max(most_levels, of_query[query + 1] - of_query[query])
    spare_scores, spare_documents = np.empty(longest), np.empty(longest, dtype=np.int64)
    bounds = np.empty(most_levels + 1, dtype=np.int64)
    for query in range(first, end):
        start, stop = queries[query], queries[query + 1]
        out[start:stop] = 0.0
        xi[query] = 0.0
        if not active[query]:
            continue
        low, high = of_query[query], of_query[query + 1]
        for level in range(low, high):
            bounds[level - low] = level_offsets[level]
            for place in range(level_offsets[level], level_offsets[level + 1]):
                keys[place] = sorted_scores[place] - heights[level]
        order[start:stop] = documents[start:stop]
        bounds[high - low] = stop
        if len(weights) == 0:
            total = _all_pairs(
                keys, order, bounds, high - low, margin, squared, direction, out, spare_scores, spare_documents
            )
        else:
            total = _weighted_pairs(keys, order, bounds, kinds[low:high], weights, margin, squared, direction, out)
        xi[query] = scales[query] * total
        for document in range(start, stop):
            out[document] *= scales[query]
