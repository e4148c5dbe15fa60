"""Moves of multiplier between two planes of a part, with the products of all slopes at hand."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Share of the multipliers of a part below which what is left on a plane is rounding error.
_NOTHING = 1e-15


@njit(nogil=True, cache=True)
def ascend_dual(gram, members, starts, C, target, most_moves, alpha, heights):  # type: ignore[no-untyped-def]
    """Raise heights·α − ½ΔᵀKΔ, with Δ the change of α, until the gap is at most ``target``; return the gap.

    The planes of part p are ``members[starts[p]:starts[p + 1]]``, and ``heights`` are kept at the slope of the dual,
    which falls by K·Δ. A move takes multiplier to the highest plane of a part from the one that gains most by it.
    """
    n_parts = len(starts) - 1
    gaps = np.empty(n_parts)
    moves = 0
    while True:
        total = 0.0
        for part in range(n_parts):
            gaps[part] = _gap(part, members, starts, C, alpha, heights)
            total += gaps[part]
        if total <= target or moves >= most_moves:
            return total
        before = moves
        for part in range(n_parts):
            if gaps[part] * n_parts <= 0.1 * target:
                continue
            # A part is worked on until little of its gap is left, since what the others do to it is not known yet.
            first, size = 0.0, starts[part + 1] - starts[part]
            for step in range(2 * size):
                gap = _move(part, gram, members, starts, C, alpha, heights)
                if gap < 0.0:
                    break
                moves += 1
                if step == 0:
                    first = gap
                elif gap <= 0.3 * first:
                    break
        if moves == before:
            return total


@njit(nogil=True, cache=True)
def _gap(part, members, starts, C, alpha, heights):  # type: ignore[no-untyped-def]
    top, held = -np.inf, 0.0
    for place in range(starts[part], starts[part + 1]):
        plane = members[place]
        top = max(top, heights[plane])
        held += alpha[plane] * heights[plane]
    return max(0.0, C * top - held)


@njit(nogil=True, cache=True)
def _move(part, gram, members, starts, C, alpha, heights):  # type: ignore[no-untyped-def]
    """Move multiplier to the highest plane of a part; return the gap before, or −1 where nothing moves."""
    up, top, held = members[starts[part]], -np.inf, 0.0
    for place in range(starts[part], starts[part + 1]):
        plane = members[place]
        if heights[plane] > top:
            up, top = plane, heights[plane]
        held += alpha[plane] * heights[plane]
    down, best, amount = -1, 0.0, 0.0
    for place in range(starts[part], starts[part + 1]):
        plane = members[place]
        rise = top - heights[plane]
        if alpha[plane] <= 0.0 or rise <= 0.0:
            continue
        square = gram[up, up] + gram[plane, plane] - 2.0 * gram[up, plane]
        most = alpha[plane] if rise >= alpha[plane] * square else rise / square
        gain = most * (rise - 0.5 * most * max(square, 0.0))
        if gain > best:
            down, best, amount = plane, gain, most
    if down < 0:
        return -1.0
    alpha[up] += amount
    alpha[down] = 0.0 if alpha[down] - amount <= _NOTHING * C else alpha[down] - amount
    for plane in range(len(heights)):
        heights[plane] -= amount * (gram[up, plane] - gram[down, plane])
    return max(0.0, C * top - held)
