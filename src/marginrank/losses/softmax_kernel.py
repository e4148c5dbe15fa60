"""Cross entropy of the softmax of the scores of each query, its gradient, and products with its Hessian."""

from __future__ import annotations

from math import exp, log

from marginrank.runtime.kernels import njit


@njit()
def _write_softmax(scores, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the softmax of the scores from ``start`` to ``stop``; return the maximum, and the logarithm of the sum.

    The maximum is subtracted first, so that nothing overflows.
    """
    largest = scores[start]
    for document in range(start, stop):
        largest = max(largest, scores[document])
    total = 0.0
    for document in range(start, stop):
        out[document] = exp(scores[document] - largest)
        total += out[document]
    for document in range(start, stop):
        out[document] /= total
    return largest, log(total)


@njit()
def softmax_loss(lists, target, constant, scores, slacks, first, end):  # type: ignore[no-untyped-def]
    """Write the slacks and gradient of queries ``first`` to ``end``: Σ P_g·(constant − log P_s), and P_s − P_g.

    Args:
        lists: Offsets of the queries, and which count.
        target: P_g of each document.
        constant: Added to −log P_s of each document: log P_g for the divergence.
        scores: By document.
        slacks: Slacks by query and gradient by document.
        first: First query.
        end: The query after the last.
    """
    (offsets, active), (xi, gradient) = lists, slacks
    for query in range(first, end):
        start, stop, total = offsets[query], offsets[query + 1], 0.0
        if active[query]:
            largest, rest = _write_softmax(scores, start, stop, gradient)
            for document in range(start, stop):
                total += target[document] * (constant[document] - (scores[document] - largest - rest))
                gradient[document] -= target[document]
        else:
            for document in range(start, stop):
                gradient[document] = 0.0
        xi[query] = max(total, 0.0)


@njit()
def curve_softmax(lists, scores, direction, product, first, end):  # type: ignore[no-untyped-def]
    """Write (diag P − P Pᵀ)·v = P∘(v − P·v), for the direction v."""
    offsets, active = lists
    for query in range(first, end):
        start, stop, mean = offsets[query], offsets[query + 1], 0.0
        if active[query]:
            _write_softmax(scores, start, stop, product)
            for document in range(start, stop):
                mean += product[document] * direction[document]
            for document in range(start, stop):
                product[document] *= direction[document] - mean
        else:
            for document in range(start, stop):
                product[document] = 0.0
