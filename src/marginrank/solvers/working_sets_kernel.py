"""Steps in the dual over the planes that are known of each block; θ is −Σ alpha·slope throughout.

Plain tuples cross into the kernels, which is cheaper than NamedTuples, and are named there: ``Known(*planes)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.runtime.kernels import njit
from marginrank.typing import FloatArray, IntArray

#: Distance, as a share of the terms of a height, below which two heights are the same.
_ROUNDING = 1e-13


class Known(NamedTuple):
    """The planes that are known of each block.

    Those of block i are rows ``places[i, :sizes[i]]`` of ``slopes`` and ``offsets``, with multipliers ``alpha`` that
    add up to at most C in each block; what is missing to C is on the plane 0.
    """

    places: IntArray
    sizes: IntArray
    slopes: FloatArray
    offsets: FloatArray
    alpha: FloatArray


class Touching(NamedTuple):
    """The plane that touches a block at θ: the value there, and the slope."""

    value: float
    slope: FloatArray
    theta: FloatArray


@njit(nogil=True, cache=True)
def _height(plane, planes, theta):  # type: ignore[no-untyped-def]
    total = planes.offsets[plane]
    for column in range(len(theta)):
        total += planes.slopes[plane, column] * theta[column]
    return total


@njit(nogil=True, cache=True)
def take_plane(block, touching, margin, C, spare, planes):  # type: ignore[no-untyped-def]
    """Keep the plane that touches a block if it is more than ``margin`` above the planes known, in row ``spare``.

    Returns the gap of the block at θ, which is not finite where the plane is not, and whether the plane was kept.
    """
    planes, touching = Known(*planes), Touching(*touching)
    value, slope, theta = touching.value, touching.slope, touching.theta
    xi, held = 0.0, 0.0
    for place in range(planes.sizes[block]):
        plane = planes.places[block, place]
        height = _height(plane, planes, theta)
        xi = max(xi, height)
        held += planes.alpha[plane] * height
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
    for column in range(len(theta)):
        planes.slopes[spare, column] = slope[column]
    planes.offsets[spare] = value - along
    planes.alpha[spare] = 0.0
    planes.places[block, planes.sizes[block]] = spare
    planes.sizes[block] += 1
    return gap, True


@njit(nogil=True, cache=True)
def _move(up, down, most, rise, planes, theta):  # type: ignore[no-untyped-def]
    """Move the best amount of multiplier, at most ``most``, from one plane to another; −1 stands for the plane 0."""
    slopes, alpha = planes.slopes, planes.alpha
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
def _lift(block, steps, theta, C, planes):  # type: ignore[no-untyped-def]
    """Move multipliers from the lowest plane that has any to the highest, as often as said; return the first gap."""
    sizes, alpha = planes.sizes, planes.alpha
    first_gap = 0.0
    for step in range(max(1, steps)):
        up, down, high, low = -1, -1, 0.0, np.inf
        used, held = 0.0, 0.0
        for place in range(sizes[block]):
            plane = planes.places[block, place]
            height = _height(plane, planes, theta)
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
        _move(up, down, most, high - low, planes, theta)
    return first_gap


@njit(nogil=True, cache=True)
def lift_block(block, theta, C, planes):  # type: ignore[no-untyped-def]
    """Move multipliers once, from the lowest plane of a block that has any to the highest."""
    _lift(block, 1, theta, C, Known(*planes))


@njit(nogil=True, cache=True)
def ascend(blocks, target, visits, steps, gaps, theta, C, planes):  # type: ignore[no-untyped-def]
    """Lift blocks over and over until their gaps add up to ``target``, or for so many visits; return what is left.

    Most blocks soon hold all they have on one plane; those that do not are visited until they are done, and then all
    once more. ``gaps`` are written for all blocks.
    """
    planes = Known(*planes)
    busy = np.empty(len(blocks), dtype=np.int64)
    spent, total = 0, np.inf
    while True:
        # Gaps at different θ do not add up to one, so all are measured before they are lifted.
        moves = 0 if total <= target or spent >= visits else steps
        total, n_busy = 0.0, 0
        for block in blocks:
            gaps[block] = _lift(block, moves, theta, C, planes)
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
                rest += _lift(busy[number], steps, theta, C, planes)
            spent += n_busy
