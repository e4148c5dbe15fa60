"""Hinges over all pairs of documents of different level, by sweeps over sorted scores."""

from __future__ import annotations

import numpy as np

from marginrank.kernels import njit
from marginrank.losses.oracles.levels import Layout
from marginrank.losses.oracles.problem import Slacks, Sorted
from marginrank.losses.pairwise import Hinges, Runs


@njit(nogil=True, cache=True, allocates=False)
def _merge(runs, start, middle, end, spare):  # type: ignore[no-untyped-def]
    """Merge two runs that fall in score, in place."""
    scores, documents = runs.scores, runs.documents
    n = middle - start
    for place in range(n):
        spare.scores[place] = scores[start + place]
        spare.documents[place] = documents[start + place]
    left, right = 0, middle
    for place in range(start, end):
        if left == n:
            return
        if right < end and scores[right] > spare.scores[left]:
            scores[place], documents[place] = scores[right], documents[right]
            right += 1
        else:
            scores[place], documents[place] = spare.scores[left], spare.documents[left]
            left += 1


@njit(nogil=True, cache=True, allocates=False)
def _sweep(runs, better_run, worse_run, hinge, weight, gradient):  # type: ignore[no-untyped-def]
    """Add the derivatives of the pairs of two runs that fall in score, one better than the other; return their loss.

    The worse documents that violate the margin of a better one are the first of their run, and going down the better
    run their gaps margin − (s_better − s_worse) only grow; going up the worse run so do the gaps of the better
    documents. Gaps, and squares of gaps, are summed by what they grow by: nothing is subtracted, so nothing cancels.
    """
    scores, documents, margin, squared = runs.scores, runs.documents, hinge.margin, hinge.squared
    better, better_end = better_run
    worse, worse_end = worse_run
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


@njit(nogil=True, cache=True, allocates=False)
def _curve(runs, better_run, worse_run, margin, weight, direction, product):  # type: ignore[no-untyped-def]
    """Add the second derivatives of the squared hinges of two runs, times a direction v.

    A document i gets 2·Σ (v_i − v_j) over the documents j that it violates a margin with, which are found as in
    `_sweep`. Only differences of v matter, so v is counted from one document on: large numbers that all documents share
    would drown them.
    """
    scores, documents = runs.scores, runs.documents
    better, better_end = better_run
    worse, worse_end = worse_run
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


@njit(nogil=True, cache=True, allocates=False)
def _add_pairs(runs, better, worse, hinge, weight, direction, out):  # type: ignore[no-untyped-def]
    """Add the derivatives of the pairs of two runs and return their loss; or, with a direction, the second ones."""
    if direction is None:
        return _sweep(runs, better, worse, hinge, weight, out)
    _curve(runs, better, worse, hinge.margin, weight, direction, out)
    return 0.0


@njit(nogil=True, cache=True, allocates=False)
def _all_pairs(runs, offsets, n_runs, hinge, direction, out, spare):  # type: ignore[no-untyped-def]
    """Sweep neighbouring runs and merge them, until one is left: n log L for L levels of n documents, best first."""
    total = 0.0
    while n_runs > 1:
        for run in range(0, n_runs - 1, 2):
            start, middle, end = offsets[run], offsets[run + 1], offsets[run + 2]
            total += _add_pairs(runs, (start, middle), (middle, end), hinge, 1.0, direction, out)
            if n_runs > 2:
                _merge(runs, start, middle, end, spare)
        end = offsets[n_runs]
        n_runs = (n_runs + 1) // 2
        for run in range(n_runs):
            offsets[run] = offsets[2 * run]
        offsets[n_runs] = end
    return total


@njit(nogil=True, cache=True, allocates=False)
def _weighted_pairs(runs, offsets, kinds, hinge, direction, out):  # type: ignore[no-untyped-def]
    """Sweep every pair of levels with its own weight: n·L for L levels of n documents."""
    total = 0.0
    for better in range(len(kinds)):
        for worse in range(better + 1, len(kinds)):
            weight = hinge.weights[kinds[better], kinds[worse]]
            if weight > 0.0:
                better_run, worse_run = (offsets[better], offsets[better + 1]), (offsets[worse], offsets[worse + 1])
                total += _add_pairs(runs, better_run, worse_run, hinge, weight, direction, out)
    return total


@njit(nogil=True, cache=True)
def pairwise_hinges(ordered, layout, hinge, runs, direction, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and derivatives of queries ``first`` to ``end``; or, with a direction, the second derivatives.

    Without a ``direction`` the derivatives go to ``slacks.gradient``. With one, that is the generalised Hessian of the
    squared hinges times the direction, which is by document, and the slacks are 0. ``runs`` is room to work in.
    """
    ordered, layout, hinge = Sorted(*ordered), Layout(*layout), Hinges(*hinge)
    runs, slacks = Runs(*runs), Slacks(*slacks)
    queries, of_query, out = layout.queries, layout.of_query, slacks.gradient
    longest, most_levels = 0, 0
    for query in range(first, end):
        longest = max(longest, queries[query + 1] - queries[query])
        most_levels = max(most_levels, of_query[query + 1] - of_query[query])
    spare = Runs(np.empty(longest), np.empty(longest, dtype=np.int64))
    offsets = np.empty(most_levels + 1, dtype=np.int64)
    for query in range(first, end):
        start, stop = queries[query], queries[query + 1]
        for document in range(start, stop):
            out[document] = 0.0
        slacks.xi[query] = 0.0
        if not layout.active[query]:
            continue
        low, high = of_query[query], of_query[query + 1]
        for level in range(low, high):
            offsets[level - low] = layout.offsets[level]
            for place in range(layout.offsets[level], layout.offsets[level + 1]):
                runs.scores[place] = ordered.scores[place] - hinge.heights[level]
                runs.documents[place] = ordered.documents[place]
        offsets[high - low] = stop
        if len(hinge.weights) == 0:
            total = _all_pairs(runs, offsets, high - low, hinge, direction, out, spare)
        else:
            total = _weighted_pairs(runs, offsets, hinge.kinds[low:high], hinge, direction, out)
        slacks.xi[query] = hinge.scales[query] * total
        for document in range(start, stop):
            out[document] *= hinge.scales[query]
