"""Steps in the dual over the planes that are known of each block.

The planes of block i are rows ``places[i, :sizes[i]]`` of ``slopes`` and ``offsets``, with multipliers ``alpha`` that
add up to at most C in each block; what is missing to C is on the plane 0. θ is −Σ alpha·slope throughout.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Distance, as a share of the terms of a height, below which two heights are the same.
_ROUNDING = 1e-13


@njit(nogil=True, cache=True)
def _height(plane, slopes, offsets, theta):  # type: ignore[no-untyped-def]
    total = offsets[plane]
    for column in range(len(theta)):
        total += slopes[plane, column] * theta[column]
    return total


@njit(nogil=True, cache=True)
def take_plane(  # type: ignore[no-untyped-def]
    block, value, slope, theta, margin, C, spare, places, sizes, slopes, offsets, alpha
):
    """Keep the plane that touches a block at θ if it is more than ``margin`` above the planes known, in row ``spare``.

    Give the gap of the block at θ, which is not finite where the plane is not, and whether the plane was kept.
    """
    xi, held = 0.0, 0.0
    for place in range(sizes[block]):
        plane = places[block, place]
        height = _height(plane, slopes, offsets, theta)
        xi = max(xi, height)
        held += alpha[plane] * height
    along, terms = 0.0, abs(value)
    for column in range(len(theta)):
        term = slope[column] * theta[column]
        along += term
        terms += abs(term)
    gap = C * value - held
    if not np.isfinite(terms):
        return np.nan, False
    if value - xi <= max(margin, _ROUNDING * terms):
        return gap, False
    slopes[spare] = slope
    offsets[spare] = value - along
    alpha[spare] = 0.0
    places[block, sizes[block]] = spare
    sizes[block] += 1
    return gap, True


@njit(nogil=True, cache=True)
def _move(up, down, most, rise, slopes, alpha, theta):  # type: ignore[no-untyped-def]
    """Move the best amount of multiplier, at most ``most``, from one plane to another; −1 stands for the plane 0."""
    square = 0.0
    for column in range(len(theta)):
        difference = (slopes[up, column] if up >= 0 else 0.0) - (slopes[down, column] if down >= 0 else 0.0)
        square += difference * difference
    amount = most if rise >= most * square else rise / square
    if up >= 0:
        alpha[up] += amount
    if down >= 0:
        alpha[down] = 0.0 if amount == most else alpha[down] - amount
    for column in range(len(theta)):
        difference = (slopes[up, column] if up >= 0 else 0.0) - (slopes[down, column] if down >= 0 else 0.0)
        theta[column] -= amount * difference


@njit(nogil=True, cache=True)
def lift_block(block, steps, theta, C, places, sizes, slopes, offsets, alpha):  # type: ignore[no-untyped-def]
    """Move multipliers from the lowest plane that has any to the highest, as often as said; give the gap there was."""
    first_gap = 0.0
    for step in range(max(1, steps)):
        up, down, high, low = -1, -1, 0.0, np.inf
        used, held = 0.0, 0.0
        for place in range(sizes[block]):
            plane = places[block, place]
            height = _height(plane, slopes, offsets, theta)
            used += alpha[plane]
            held += alpha[plane] * height
            if height > high:
                up, high = plane, height
            if alpha[plane] > 0.0 and height < low:
                down, low = plane, height
        most = alpha[down] if down >= 0 else 0.0
        if C - used > _ROUNDING * C and low > 0.0:
            down, low, most = -1, 0.0, C - used
        if step == 0:
            first_gap = max(0.0, C * high - held)
        if steps == 0 or not high > low:
            break
        _move(up, down, most, high - low, slopes, alpha, theta)
    return first_gap


@njit(nogil=True, cache=True)
def ascend(  # type: ignore[no-untyped-def]
    blocks, target, visits, steps, gaps, theta, C, places, sizes, slopes, offsets, alpha
):
    """Lift blocks over and over until their gaps add up to ``target``, or for so many visits; give what is left.

    Most blocks soon hold all they have on one plane; those that do not are visited until they are done, and then all
    once more. ``gaps`` are written for all blocks.
    """
    busy = np.empty(len(blocks), dtype=np.int64)
    spent, total = 0, np.inf
    while True:
        # Gaps at different θ do not add up to one, so all are measured before they are lifted.
        moves = 0 if total <= target or spent >= visits else steps
        total, n_busy = 0.0, 0
        for block in blocks:
            gaps[block] = lift_block(block, moves, theta, C, places, sizes, slopes, offsets, alpha)
            total += gaps[block]
            if gaps[block] * len(blocks) > 0.1 * target:
                busy[n_busy] = block
                n_busy += 1
        spent += len(blocks)
        if moves == 0 and (total <= target or spent >= visits):
            return total
        rest = total
        while rest > 0.5 * target and spent < visits:
            rest = 0.0
            for number in range(n_busy):
                rest += lift_block(busy[number], steps, theta, C, places, sizes, slopes, offsets, alpha)
            spent += n_busy
