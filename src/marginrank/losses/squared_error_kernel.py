"""Squared errors of the scores of each query, their gradient, and products with their Hessian."""

from __future__ import annotations

from marginrank.runtime.kernels import njit


@njit()
def squared_loss(lists, target, centered, scores, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and gradient of queries ``first`` to ``end``: Σ ½·weight·error², and weight·error.

    Args:
        lists: Offsets of the queries, and the weight of each document.
        target: Target score, by document.
        centered: Whether the mean error of a query does not count.
        scores: By document.
        slacks: Slacks by query and gradient by document.
        first: First query.
        end: The query after the last.
    """
    (offsets, weights), (xi, gradient) = lists, slacks
    for query in range(first, end):
        start, stop, mean, total = offsets[query], offsets[query + 1], 0.0, 0.0
        if centered:
            for document in range(start, stop):
                mean += scores[document] - target[document]
            mean /= max(stop - start, 1)
        for document in range(start, stop):
            error = scores[document] - target[document] - mean
            gradient[document] = weights[document] * error
            total += 0.5 * error * gradient[document]
        xi[query] = total


@njit()
def curve_squares(lists, centered, direction, product, first, end):  # type: ignore[no-untyped-def]
    """Write weight·direction, less its mean if ``centered``."""
    offsets, weights = lists
    for query in range(first, end):
        start, stop, mean = offsets[query], offsets[query + 1], 0.0
        if centered:
            for document in range(start, stop):
                mean += direction[document]
            mean /= max(stop - start, 1)
        for document in range(start, stop):
            product[document] = weights[document] * (direction[document] - mean)
