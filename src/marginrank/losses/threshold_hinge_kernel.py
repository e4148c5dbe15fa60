"""Thresholds between grades that minimize a smooth hinge, its slacks, gradient and Hessian."""

from __future__ import annotations

from marginrank.runtime.kernels import njit

#: Sums of slopes below this share of the documents are rounding errors.
_ROUNDING = 1e-13
_MOST_STEPS = 200


@njit()
def _slope(scores, order, start, split, stop, threshold):  # type: ignore[no-untyped-def]
    """Return derivative and second derivative of the sum of hinges with respect to the threshold."""
    total, curvature = 0.0, 0
    for place in range(start, stop):
        below = place < split
        z = threshold - scores[order[place]] if below else scores[order[place]] - threshold
        if z < 1.0:
            slope = 1.0 if z <= 0.0 else 1.0 - z
            total += -slope if below else slope
            curvature += z >= 0.0
    return total, curvature


@njit()
def _best_threshold(scores, order, start, split, stop):  # type: ignore[no-untyped-def]
    """Minimize over the threshold by Newton's method inside a shrinking bracket; the derivative is piecewise linear."""
    low = high = scores[order[start]]
    for place in range(start, stop):
        low, high = min(low, scores[order[place]]), max(high, scores[order[place]])
    low, high = low - 1.0, high + 1.0
    threshold = 0.5 * (low + high)
    for _ in range(_MOST_STEPS):
        total, curvature = _slope(scores, order, start, split, stop, threshold)
        if abs(total) <= _ROUNDING * (stop - start):
            break
        if total < 0.0:
            low = threshold
        else:
            high = threshold
        step = threshold - total / curvature if curvature > 0 else low
        if not low < step < high:
            step = 0.5 * (low + high)
            if not low < step < high:
                break
        threshold = step
    return threshold


@njit()
def _solve(lists, state, scores, query):  # type: ignore[no-untyped-def]
    """Write the thresholds of a query, unless they were computed for the same scores."""
    (offsets, order, of_query, splits, _), (thresholds, solved_at) = lists, state
    start, stop = offsets[query], offsets[query + 1]
    same = True
    for document in range(start, stop):
        same = same and solved_at[document] == scores[document]
        solved_at[document] = scores[document]
    if not same:
        for at in range(of_query[query], of_query[query + 1]):
            thresholds[at] = _best_threshold(scores, order, start, splits[at], stop)


@njit()
def threshold_loss(lists, state, scores, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and gradient of queries ``first`` to ``end``.

    Args:
        lists: Offsets of queries, their documents by ascending grade, offsets of their thresholds, the first document
            above each threshold, and its weight.
        state: Thresholds, and the scores that they were computed for.
        scores: By document.
        slacks: Slacks by query and gradient by document.
        first: First query.
        end: The query after the last.
    """
    (offsets, order, of_query, splits, weights), (xi, gradient) = lists, slacks
    for query in range(first, end):
        start, stop = offsets[query], offsets[query + 1]
        xi[query] = 0.0
        for document in range(start, stop):
            gradient[document] = 0.0
        _solve(lists, state, scores, query)
        for at in range(of_query[query], of_query[query + 1]):
            threshold, weight, total = state[0][at], weights[at] / (stop - start), 0.0
            for place in range(start, stop):
                document = order[place]
                sign = 1.0 if place < splits[at] else -1.0
                z = sign * (threshold - scores[document])
                if z < 1.0:
                    slope = 1.0 if z <= 0.0 else 1.0 - z
                    total += 0.5 - z if z <= 0.0 else 0.5 * slope * slope
                    gradient[document] += weight * sign * slope
            xi[query] += weight * total


@njit()
def _curved(lists, state, scores, at, place):  # type: ignore[no-untyped-def]
    """Return whether the hinge of a document is curved at a threshold."""
    document = lists[1][place]
    z = state[0][at] - scores[document]
    if place >= lists[3][at]:
        z = -z
    return 0.0 <= z < 1.0


@njit()
def curve_thresholds(lists, state, scores, direction, product, first, end):  # type: ignore[no-untyped-def]
    """Write the Hessian times the direction: for each threshold, the direction less its mean over curved documents."""
    offsets, order, of_query, _, weights = lists
    for query in range(first, end):
        start, stop = offsets[query], offsets[query + 1]
        for document in range(start, stop):
            product[document] = 0.0
        _solve(lists, state, scores, query)
        for at in range(of_query[query], of_query[query + 1]):
            total, curved = 0.0, 0
            for place in range(start, stop):
                if _curved(lists, state, scores, at, place):
                    total += direction[order[place]]
                    curved += 1
            for place in range(start, stop):
                if _curved(lists, state, scores, at, place):
                    document = order[place]
                    product[document] += weights[at] / (stop - start) * (direction[document] - total / curved)


@njit()
def diagonal_thresholds(lists, state, scores, diagonal, first, end):  # type: ignore[no-untyped-def]
    """Write the diagonal of the Hessian."""
    offsets, order, of_query, _, weights = lists
    for query in range(first, end):
        start, stop = offsets[query], offsets[query + 1]
        _solve(lists, state, scores, query)
        for at in range(of_query[query], of_query[query + 1]):
            curved = 0
            for place in range(start, stop):
                curved += _curved(lists, state, scores, at, place)
            for place in range(start, stop):
                if _curved(lists, state, scores, at, place):
                    diagonal[order[place]] += weights[at] / (stop - start) * (1.0 - 1.0 / curved)
