"""Hinges over all pairs of documents of different level, each by itself: for lists too short to be worth sorting."""

from __future__ import annotations

from typing import NamedTuple

from marginrank.kernels import njit
from marginrank.losses.oracles.levels import Layout
from marginrank.losses.oracles.problem import Slacks
from marginrank.losses.pairs import Hinges, Work
from marginrank.typing import FloatArray

# Sums may be taken in any order, which lets them be vectorised; the order is fixed when the code is compiled.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


class Part(NamedTuple):
    """Some documents of a query: their scores, a direction, and the derivatives by their scores."""

    scores: FloatArray
    moves: FloatArray
    slopes: FloatArray


@njit(nogil=True, cache=True, allocates=False, fastmath=_ANY_ORDER)
def _count_violated(part, longer, side, margin, weight):  # type: ignore[no-untyped-def]
    """Add the derivatives of all pairs of documents of two parts; return the weight of those that are violated.

    ``side`` is 1 where the first part is the better one, else −1. The documents of the longer part are gone through
    several at a time, for four of the other part.
    """
    others, slopes, step, total = longer.scores, longer.slopes, side * weight, 0.0
    n = len(part.scores)
    for place in range(0, n - 3, 4):
        # A pair is violated if side·(score − other) < margin.
        bound_a, bound_b = side * part.scores[place] - margin, side * part.scores[place + 1] - margin
        bound_c, bound_d = side * part.scores[place + 2] - margin, side * part.scores[place + 3] - margin
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for other in range(len(others)):
            score = side * others[other]
            own_a = step if score > bound_a else 0.0
            own_b = step if score > bound_b else 0.0
            own_c = step if score > bound_c else 0.0
            own_d = step if score > bound_d else 0.0
            a += own_a
            b += own_b
            c += own_c
            d += own_d
            slopes[other] += (own_a + own_b) + (own_c + own_d)
        part.slopes[place] -= a
        part.slopes[place + 1] -= b
        part.slopes[place + 2] -= c
        part.slopes[place + 3] -= d
        total += side * (a + b + c + d)
    for place in range(n - n % 4, n):
        bound, slope = side * part.scores[place] - margin, 0.0
        for other in range(len(others)):
            own = step if side * others[other] > bound else 0.0
            slope += own
            slopes[other] += own
        part.slopes[place] -= slope
        total += side * slope
    return total


@njit(nogil=True, cache=True, allocates=False, fastmath=_ANY_ORDER)
def _square_each_pair(part, longer, side, margin, weight):  # type: ignore[no-untyped-def]
    """Add the derivatives of the squared hinges of all pairs; return their loss. The arguments are as above."""
    others, other_slopes, total = longer.scores, longer.slopes, 0.0
    for place in range(len(part.scores)):
        score, slope = part.scores[place], 0.0
        for other in range(len(others)):
            gap = margin - side * (score - others[other])
            gap = gap if gap > 0.0 else 0.0
            total += gap * gap
            slope += 2.0 * gap
            other_slopes[other] += side * weight * 2.0 * gap
        part.slopes[place] -= side * weight * slope
    return weight * total


@njit(nogil=True, cache=True, allocates=False, fastmath=_ANY_ORDER)
def _curve_each_pair(part, longer, side, margin, weight):  # type: ignore[no-untyped-def]
    """Add the second derivatives of squared hinges times a direction v: 2·(v_i − v_j) of a pair inside its margin."""
    others, other_moves, other_slopes = longer.scores, longer.moves, longer.slopes
    for place in range(len(part.scores)):
        score, move, total = part.scores[place], part.moves[place], 0.0
        for other in range(len(others)):
            gap = margin - side * (score - others[other])
            apart = 2.0 * weight * (move - other_moves[other]) if gap > 0.0 else 0.0
            total += apart
            other_slopes[other] -= apart
        part.slopes[place] += total


@njit(nogil=True, cache=True, allocates=False)
def _pairs_of(work, better, worse, margin, squared, weight, direction):  # type: ignore[no-untyped-def]
    """Add up the pairs of two parts of a list, given by where they begin and end.

    Returns the loss of squared hinges; of others, the weight of those that are violated.
    """
    own, others = slice(better[0], better[1]), slice(worse[0], worse[1])
    first = Part(work.scores[own], work.moves[own], work.slopes[own])
    second = Part(work.scores[others], work.moves[others], work.slopes[others])
    side = 1.0
    if len(first.scores) > len(second.scores):
        first, second, side = second, first, -1.0
    if direction is None:
        if squared:
            return _square_each_pair(first, second, side, margin, weight)
        return _count_violated(first, second, side, margin, weight)
    _curve_each_pair(first, second, side, margin, weight)
    return 0.0


@njit(nogil=True, cache=True, allocates=False)
def _short_list(query, scores, layout, hinge, work, direction, out):  # type: ignore[no-untyped-def]
    """Go through the pairs of a list one by one: for some hundred documents that is quicker than to sort them."""
    begin, stop = layout.queries[query], layout.queries[query + 1]
    low, high = layout.of_query[query], layout.of_query[query + 1]
    margin, documents = hinge.margins[query], work.documents
    # Only differences of scores matter, and numbers that all of them share would drown these.
    origin, total = scores[documents[begin]], 0.0
    for level in range(low, high):
        for place in range(layout.offsets[level], layout.offsets[level + 1]):
            work.scores[place - begin] = scores[documents[place]] - origin - hinge.heights[level]
            work.slopes[place - begin] = 0.0
            if direction is not None:
                work.moves[place - begin] = direction[documents[place]]
    for level in range(low, high - 1):
        better = layout.offsets[level] - begin, layout.offsets[level + 1] - begin
        if len(hinge.weights) == 0:
            total += _pairs_of(work, better, (better[1], stop - begin), margin, hinge.squared, 1.0, direction)
            continue
        for other in range(level + 1, high):
            weight = hinge.weights[hinge.kinds[level], hinge.kinds[other]]
            worse = layout.offsets[other] - begin, layout.offsets[other + 1] - begin
            if weight > 0.0:
                total += _pairs_of(work, better, worse, margin, hinge.squared, weight, direction)
    for place in range(begin, stop):
        out[documents[place]] = hinge.scales[query] * work.slopes[place - begin]
    if direction is None and not hinge.squared:
        # Σ (margin − s_i + s_j) over the violated pairs, by document.
        total *= margin
        for place in range(stop - begin):
            total += work.slopes[place] * work.scores[place]
        total = max(total, 0.0)
    return hinge.scales[query] * total


@njit(nogil=True, cache=True, allocates=False)
def short_lists(scores, layout, hinge, work, direction, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and derivatives of the short lists among queries ``first`` to ``end``.

    With a ``direction``, the generalised Hessian of the squared hinges times the direction, which is by document, is
    written instead of the derivatives, and the slacks are 0.
    """
    layout, hinge, work, slacks = Layout(*layout), Hinges(*hinge), Work(*work), Slacks(*slacks)
    for query in range(first, end):
        if not layout.active[query]:
            slacks.xi[query] = 0.0
            for document in range(layout.queries[query], layout.queries[query + 1]):
                slacks.gradient[document] = 0.0
        elif work.short[query]:
            slacks.xi[query] = _short_list(query, scores, layout, hinge, work, direction, slacks.gradient)
