"""Hinges over all pairs of documents of different level, by sweeps over sorted scores."""

from __future__ import annotations

from marginrank.kernels import njit
from marginrank.losses.oracles.levels import Layout
from marginrank.losses.oracles.problem import Slacks, Sorted
from marginrank.losses.oracles.sorting_kernel import _sort_level
from marginrank.losses.pairs import Hinges, Runs, Work


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
def _sweep(runs, better_run, worse_run, margin, squared, weight, gradient):  # type: ignore[no-untyped-def]
    """Add the derivatives of the pairs of two runs that fall in score, one better than the other; return their loss.

    The worse documents that violate the margin of a better one are the first of their run, and going down the better
    run their gaps margin − (s_better − s_worse) only grow; going up the worse run so do the gaps of the better
    documents. Gaps, and squares of gaps, are summed by what they grow by: nothing is subtracted, so nothing cancels.
    """
    scores, documents = runs.scores, runs.documents
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
def _add_pairs(runs, better, worse, kind, weight, direction, out):  # type: ignore[no-untyped-def]
    """Add the derivatives of the pairs of two runs and return their loss; or, with a direction, the second ones."""
    margin, squared = kind
    if direction is None:
        return _sweep(runs, better, worse, margin, squared, weight, out)
    _curve(runs, better, worse, margin, weight, direction, out)
    return 0.0


@njit(nogil=True, cache=True, allocates=False)
def _all_pairs(runs, offsets, n_runs, kind, direction, out, spare):  # type: ignore[no-untyped-def]
    """Sweep neighbouring runs and merge them, until one is left: n log L for L levels of n documents, best first."""
    total = 0.0
    while n_runs > 1:
        for run in range(0, n_runs - 1, 2):
            start, middle, end = offsets[run], offsets[run + 1], offsets[run + 2]
            total += _add_pairs(runs, (start, middle), (middle, end), kind, 1.0, direction, out)
            if n_runs > 2:
                _merge(runs, start, middle, end, spare)
        end = offsets[n_runs]
        n_runs = (n_runs + 1) // 2
        for run in range(n_runs):
            offsets[run] = offsets[2 * run]
        offsets[n_runs] = end
    return total


@njit(nogil=True, cache=True, allocates=False)
def _weighted_pairs(runs, offsets, kinds, weights, kind, direction, out):  # type: ignore[no-untyped-def]
    """Sweep every pair of levels with its own weight: n·L for L levels of n documents."""
    total = 0.0
    for better in range(len(kinds)):
        for worse in range(better + 1, len(kinds)):
            weight = weights[kinds[better], kinds[worse]]
            if weight > 0.0:
                better_run, worse_run = (offsets[better], offsets[better + 1]), (offsets[worse], offsets[worse + 1])
                total += _add_pairs(runs, better_run, worse_run, kind, weight, direction, out)
    return total


@njit(nogil=True, cache=True, allocates=False)
def _long_list(query, scores, layout, hinge, work, direction, out):  # type: ignore[no-untyped-def]
    """Sort the levels of a list and sweep them."""
    low, high = layout.of_query[query], layout.of_query[query + 1]
    ordered = Sorted(work.sorted_scores, work.documents, work.documents, work.documents)
    room = work.scores, work.spare_scores, work.spare_documents, work.spare_documents
    runs, offsets = Runs(work.run_scores, work.run_documents), work.level_offsets
    spare = Runs(work.spare_scores, work.spare_documents)
    for level in range(low, high):
        start, stop = layout.offsets[level], layout.offsets[level + 1]
        _sort_level(scores, start, stop, work.levels, room, ordered)
        offsets[level - low] = start
        for place in range(start, stop):
            runs.scores[place] = ordered.scores[place] - hinge.heights[level]
            runs.documents[place] = ordered.documents[place]
            out[ordered.documents[place]] = 0.0
    offsets[high - low] = layout.queries[query + 1]
    kind = hinge.margins[query], hinge.squared
    if len(hinge.weights) == 0:
        total = _all_pairs(runs, offsets, high - low, kind, direction, out, spare)
    else:
        total = _weighted_pairs(runs, offsets, hinge.kinds[low:high], hinge.weights, kind, direction, out)
    for document in range(layout.queries[query], layout.queries[query + 1]):
        out[document] *= hinge.scales[query]
    return hinge.scales[query] * total


@njit(nogil=True, cache=True, allocates=False)
def long_lists(scores, layout, hinge, work, direction, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and derivatives of the long lists among queries ``first`` to ``end``, as `short_lists` does."""
    layout, hinge, work, slacks = Layout(*layout), Hinges(*hinge), Work(*work), Slacks(*slacks)
    for query in range(first, end):
        if layout.active[query] and not work.short[query]:
            slacks.xi[query] = _long_list(query, scores, layout, hinge, work, direction, slacks.gradient)
