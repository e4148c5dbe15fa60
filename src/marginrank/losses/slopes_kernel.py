"""What happens to scores and slopes between scorer and loss."""

from __future__ import annotations

from marginrank.kernels import njit


@njit(nogil=True, cache=True, allocates=False, fastmath={"reassoc"})
def all_finite(scores, start, stop):  # type: ignore[no-untyped-def]
    """Tell whether no score from ``start`` to ``stop`` is infinite or NaN: then 0 times each of them is 0."""
    own, total = scores[start:stop], 0.0
    for at in range(len(own)):
        total += 0.0 * own[at]
    return total == 0.0


@njit(nogil=True, cache=True, allocates=False)
def weigh_queries(slopes, weights, offsets, first, end):  # type: ignore[no-untyped-def]
    """Multiply the slopes of queries ``first`` to ``end`` with the weights of these."""
    for query in range(first, end):
        own, weight = slopes[offsets[query] : offsets[query + 1]], weights[query]
        for at in range(len(own)):
            own[at] *= weight
