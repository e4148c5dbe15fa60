"""Squared errors of the scores of each query, their gradient, and products with their Hessian."""

from __future__ import annotations

from marginrank.runtime.kernels import njit


@njit()
def squared_loss(lists, wanted, centered, scores, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and derivatives of queries ``first`` to ``end``: Σ ½·share·error², and share·error.

    Args:
        lists: Where queries begin, and the share of each document.
        wanted: What scores should be, by document.
        centered: Whether the mean error of a query does not count.
        scores: By document.
        slacks: Slacks by query and derivatives by document.
        first: First query.
        end: The query after the last.
    """
    (offsets, shares), (xi, gradient) = lists, slacks
    for query in range(first, end):
        start, stop, mean, total = offsets[query], offsets[query + 1], 0.0, 0.0
        if centered:
            for document in range(start, stop):
                mean += scores[document] - wanted[document]
            mean /= max(stop - start, 1)
        for document in range(start, stop):
            error = scores[document] - wanted[document] - mean
            gradient[document] = shares[document] * error
            total += 0.5 * error * gradient[document]
        xi[query] = total


@njit()
def curve_squares(lists, centered, direction, product, first, end):  # type: ignore[no-untyped-def]
    """Write share·direction, of which the mean is taken off if ``centered``."""
    offsets, shares = lists
    for query in range(first, end):
        start, stop, mean = offsets[query], offsets[query + 1], 0.0
        if centered:
            for document in range(start, stop):
                mean += direction[document]
            mean /= max(stop - start, 1)
        for document in range(start, stop):
            product[document] = shares[document] * (direction[document] - mean)
