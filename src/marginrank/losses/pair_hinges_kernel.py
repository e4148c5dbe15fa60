"""Hinges over all pairs of documents of different level, by sweeps over sorted scores."""

from __future__ import annotations

from marginrank.losses.oracles.base import SlackTable, SortedDocuments
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.losses.oracles.sorting_kernel import _sort_level
from marginrank.losses.pair_hinges import Hinges, MergedLevels, PairBuffers
from marginrank.runtime.kernels import njit


@njit()
def _merge(levels, start, middle, end, spare):  # type: ignore[no-untyped-def]
    """Merge two neighboring levels, each in descending order of score, in place."""
    scores, documents = levels.scores, levels.documents
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


@njit()
def _sweep(levels, better_range, worse_range, margin, squared, weight, gradient):  # type: ignore[no-untyped-def]
    """Add the gradient of the pairs of two sorted levels, one better than the other; return their loss.

    The worse documents that violate the margin of a better one are the first of their level, and going down the better
    level their gaps margin − (s_better − s_worse) only grow; going up the worse level so do the gaps of the better
    documents. Sums of gaps and of their squares are updated by increments: nothing is subtracted, so nothing cancels.
    """
    scores, documents = levels.scores, levels.documents
    better, better_end = better_range
    worse, worse_end = worse_range
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


@njit()
def _hessian_row(levels, better_range, worse_range, margin, weight, direction, product):  # type: ignore[no-untyped-def]
    """Add the Hessian of the squared hinges of two levels, times a direction v.

    A document i gets 2·Σ (v_i − v_j) over the documents j that it violates a margin with, which are found as in
    `_sweep`. Only differences of v matter, so v is taken relative to one document: a large number that all share
    would drown them.
    """
    scores, documents = levels.scores, levels.documents
    better, better_end = better_range
    worse, worse_end = worse_range
    origin = direction[documents[better]]
    violators, total = 0, 0.0
    other = worse
    for place in range(better, better_end):
        while other < worse_end and margin - (scores[place] - scores[other]) > 0.0:
            violators += 1
            total += direction[documents[other]] - origin
            other += 1
        document = documents[place]
        product[document] += weight * 2.0 * (violators * (direction[document] - origin) - total)
    if violators == 0:
        return
    violators, total = 0, 0.0
    other = better_end - 1
    for place in range(worse_end - 1, worse - 1, -1):
        while other >= better and margin - (scores[other] - scores[place]) > 0.0:
            violators += 1
            total += direction[documents[other]] - origin
            other -= 1
        document = documents[place]
        product[document] += weight * 2.0 * (violators * (direction[document] - origin) - total)


@njit()
def _add_pairs(levels, better, worse, kind, weight, direction, out):  # type: ignore[no-untyped-def]
    """Add the gradient of the pairs of two levels and return their loss; or, with a direction, the Hessian product."""
    margin, squared = kind
    if direction is None:
        return _sweep(levels, better, worse, margin, squared, weight, out)
    _hessian_row(levels, better, worse, margin, weight, direction, out)
    return 0.0


@njit()
def _all_pairs(levels, offsets, n_levels, kind, direction, out, spare):  # type: ignore[no-untyped-def]
    """Sweep neighboring levels and merge them, until one is left: n log L for L levels of n documents, best first."""
    total = 0.0
    while n_levels > 1:
        for level in range(0, n_levels - 1, 2):
            start, middle, end = offsets[level], offsets[level + 1], offsets[level + 2]
            total += _add_pairs(levels, (start, middle), (middle, end), kind, 1.0, direction, out)
            if n_levels > 2:
                _merge(levels, start, middle, end, spare)
        end = offsets[n_levels]
        n_levels = (n_levels + 1) // 2
        for level in range(n_levels):
            offsets[level] = offsets[2 * level]
        offsets[n_levels] = end
    return total


@njit()
def _weighted_pairs(levels, offsets, kinds, weights, kind, direction, out):  # type: ignore[no-untyped-def]
    """Sweep every pair of levels with its own weight: n·L for L levels of n documents."""
    total = 0.0
    for better in range(len(kinds)):
        for worse in range(better + 1, len(kinds)):
            weight = weights[kinds[better], kinds[worse]]
            if weight > 0.0:
                better_range, worse_range = (offsets[better], offsets[better + 1]), (offsets[worse], offsets[worse + 1])
                total += _add_pairs(levels, better_range, worse_range, kind, weight, direction, out)
    return total


@njit()
def _long_list(query, scores, layout, hinge, work, direction, out):  # type: ignore[no-untyped-def]
    """Sort the levels of a list and sweep them."""
    low, high = layout.of_query[query], layout.of_query[query + 1]
    sorted_scores, documents, merged_scores, merged_documents = (
        work.sorted_scores, work.documents, work.merged_scores, work.merged_documents,
    )  # fmt: skip
    heights = hinge.heights
    ordered = SortedDocuments(sorted_scores, documents, documents, documents)
    buffers = work.scores, work.spare_scores, work.spare_documents, work.spare_documents
    levels, offsets = MergedLevels(merged_scores, merged_documents), work.level_offsets
    spare = MergedLevels(work.spare_scores, work.spare_documents)
    for level in range(low, high):
        start, stop = layout.offsets[level], layout.offsets[level + 1]
        _sort_level(scores, start, stop, work.levels, buffers, ordered)
        offsets[level - low] = start
        for place in range(start, stop):
            merged_scores[place] = sorted_scores[place] - heights[level]
            merged_documents[place] = documents[place]
            out[documents[place]] = 0.0
    offsets[high - low] = layout.queries[query + 1]
    kind = hinge.margins[query], hinge.squared
    if len(hinge.weights) == 0:
        total = _all_pairs(levels, offsets, high - low, kind, direction, out, spare)
    else:
        total = _weighted_pairs(levels, offsets, hinge.kinds[low:high], hinge.weights, kind, direction, out)
    for document in range(layout.queries[query], layout.queries[query + 1]):
        out[document] *= hinge.scales[query]
    return hinge.scales[query] * total


@njit()
def long_lists(scores, layout, hinge, work, direction, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and gradient of the long lists among queries ``first`` to ``end``, as `short_lists` does."""
    layout, hinge, work, slacks = Layout(*layout), Hinges(*hinge), PairBuffers(*work), SlackTable(*slacks)
    for query in range(first, end):
        if layout.active[query] and not work.short[query]:
            slacks.xi[query] = _long_list(query, scores, layout, hinge, work, direction, slacks.gradient)


# Sums may be taken in any order, which lets them be vectorized; the order is fixed when the code is compiled.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


@njit(fastmath=_ANY_ORDER)
def _count_violated(scores, gradient, others, other_gradient, side, margin, weight):  # type: ignore[no-untyped-def]
    """Add the gradient of all pairs of documents of two levels; return the weight of those that are violated.

    ``side`` is 1 if the first level is the better one, else −1. The loop over the documents of the other level, which
    is no shorter, serves four documents of the first at a time.
    """
    n, step, total = len(scores), side * weight, 0.0
    for place in range(0, n - 3, 4):
        # A pair is violated if side·(score − other) < margin.
        bound_a, bound_b = side * scores[place] - margin, side * scores[place + 1] - margin
        bound_c, bound_d = side * scores[place + 2] - margin, side * scores[place + 3] - margin
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for other in range(len(others)):
            score = side * others[other]
            step_a = step if score > bound_a else 0.0
            step_b = step if score > bound_b else 0.0
            step_c = step if score > bound_c else 0.0
            step_d = step if score > bound_d else 0.0
            a += step_a
            b += step_b
            c += step_c
            d += step_d
            other_gradient[other] += (step_a + step_b) + (step_c + step_d)
        gradient[place] -= a
        gradient[place + 1] -= b
        gradient[place + 2] -= c
        gradient[place + 3] -= d
        total += side * (a + b + c + d)
    for place in range(n - n % 4, n):
        bound, derivative = side * scores[place] - margin, 0.0
        for other in range(len(others)):
            change = step if side * others[other] > bound else 0.0
            derivative += change
            other_gradient[other] += change
        gradient[place] -= derivative
        total += side * derivative
    return total


@njit(fastmath=_ANY_ORDER)
def _square_each_pair(scores, gradient, others, other_gradient, side, margin, weight):  # type: ignore[no-untyped-def]
    """Add the gradient of the squared hinges of all pairs; return their loss. The arguments are as above."""
    total = 0.0
    for place in range(len(scores)):
        score, derivative = scores[place], 0.0
        for other in range(len(others)):
            gap = margin - side * (score - others[other])
            gap = gap if gap > 0.0 else 0.0
            total += gap * gap
            derivative += 2.0 * gap
            other_gradient[other] += side * weight * 2.0 * gap
        gradient[place] -= side * weight * derivative
    return weight * total


@njit(fastmath=_ANY_ORDER)
def _curve_each_pair(shorter, longer, side, margin, weight):  # type: ignore[no-untyped-def]
    """Add the Hessian of squared hinges times a direction v: 2·(v_i − v_j) of a pair inside its margin."""
    (scores, direction, gradient), (others, other_direction, other_gradient) = shorter, longer
    for place in range(len(scores)):
        score, move, total = scores[place], direction[place], 0.0
        for other in range(len(others)):
            gap = margin - side * (score - others[other])
            apart = 2.0 * weight * (move - other_direction[other]) if gap > 0.0 else 0.0
            total += apart
            other_gradient[other] -= apart
        gradient[place] += total


@njit()
def _add_short_pairs(lists, better, worse, margin, squared, weight, direction):  # type: ignore[no-untyped-def]
    """Add up the pairs of two levels of a list, given by their start and end.

    Returns the loss of squared hinges; of others, the weight of those that are violated.
    """
    scores, local_direction, gradient = lists
    shorter, longer, side = better, worse, 1.0
    if better[1] - better[0] > worse[1] - worse[0]:
        shorter, longer, side = worse, better, -1.0
    short, long = slice(shorter[0], shorter[1]), slice(longer[0], longer[1])
    if direction is not None:
        first = scores[short], local_direction[short], gradient[short]
        second = scores[long], local_direction[long], gradient[long]
        _curve_each_pair(first, second, side, margin, weight)
        return 0.0
    if squared:
        return _square_each_pair(scores[short], gradient[short], scores[long], gradient[long], side, margin, weight)
    return _count_violated(scores[short], gradient[short], scores[long], gradient[long], side, margin, weight)


@njit()
def _short_list(query, scores, layout, hinge, work, direction, out):  # type: ignore[no-untyped-def]
    """Loop over the pairs of a list: for some hundred documents that is faster than sorting them."""
    begin, stop = layout.queries[query], layout.queries[query + 1]
    low, high = layout.of_query[query], layout.of_query[query + 1]
    margin, documents = hinge.margins[query], work.documents
    local_scores, local_direction, gradient = local = work.scores, work.direction, work.gradient
    offsets, heights, squared = layout.offsets, hinge.heights, hinge.squared
    # Only differences of scores matter, and a large number that all share would drown them.
    origin, total = scores[documents[begin]], 0.0
    for level in range(low, high):
        for place in range(offsets[level], offsets[level + 1]):
            local_scores[place - begin] = scores[documents[place]] - origin - heights[level]
            gradient[place - begin] = 0.0
            if direction is not None:
                local_direction[place - begin] = direction[documents[place]]
    for level in range(low, high - 1):
        better = offsets[level] - begin, offsets[level + 1] - begin
        if len(hinge.weights) == 0:
            total += _add_short_pairs(local, better, (better[1], stop - begin), margin, squared, 1.0, direction)
            continue
        for other in range(level + 1, high):
            weight = hinge.weights[hinge.kinds[level], hinge.kinds[other]]
            worse = offsets[other] - begin, offsets[other + 1] - begin
            if weight > 0.0:
                total += _add_short_pairs(local, better, worse, margin, squared, weight, direction)
    scale = hinge.scales[query]
    for place in range(begin, stop):
        out[documents[place]] = scale * gradient[place - begin]
    if direction is None and not squared:
        # Σ (margin − s_i + s_j) over the violated pairs, by document.
        total *= margin
        for place in range(stop - begin):
            total += gradient[place] * local_scores[place]
        total = max(total, 0.0)
    return scale * total


@njit()
def short_lists(scores, layout, hinge, work, direction, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and gradient of the short lists among queries ``first`` to ``end``.

    With a ``direction``, which is by document, the generalized Hessian of the squared hinges times the direction is
    written instead of the gradient, and the slacks are 0.
    """
    layout, hinge, work, slacks = Layout(*layout), Hinges(*hinge), PairBuffers(*work), SlackTable(*slacks)
    for query in range(first, end):
        if not layout.active[query]:
            slacks.xi[query] = 0.0
            for document in range(layout.queries[query], layout.queries[query + 1]):
                slacks.gradient[document] = 0.0
        elif work.short[query]:
            slacks.xi[query] = _short_list(query, scores, layout, hinge, work, direction, slacks.gradient)
