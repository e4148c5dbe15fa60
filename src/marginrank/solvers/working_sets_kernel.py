"""Pair steps in the dual over the known planes of each block, with θ = −Σ alpha·gradient.

Plain tuples cross into the kernels, which is cheaper than NamedTuples, and are named there: ``Known(*planes)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.runtime.kernels import njit
from marginrank.typing import FloatArray, IntArray

#: Distance, as a share of the terms of a value, below which two values are the same.
_ROUNDING = 1e-13


class Known(NamedTuple):
    """The known planes of each block.

    Those of block i are rows ``places[i, :sizes[i]]`` of ``gradients`` and ``offsets``, with multipliers ``alpha`` that
    add up to at most C in each block; the rest is the multiplier of the plane 0.
    """

    places: IntArray
    sizes: IntArray
    gradients: FloatArray
    offsets: FloatArray
    alpha: FloatArray


class Tangent(NamedTuple):
    """The tangent plane of a block at θ: its value there, and its gradient."""

    value: float
    gradient: FloatArray
    theta: FloatArray


@njit()
def _value(plane, planes, theta):  # type: ignore[no-untyped-def]
    total = planes.offsets[plane]
    for column in range(len(theta)):
        total += planes.gradients[plane, column] * theta[column]
    return total


@njit()
def take_plane(block, tangent, margin, C, spare, planes):  # type: ignore[no-untyped-def]
    """Keep the tangent plane of a block if it is more than ``margin`` above the known planes, in row ``spare``.

    Returns the gap of the block at θ, which is not finite if the plane is not, and whether the plane was kept.
    """
    planes, tangent = Known(*planes), Tangent(*tangent)
    value, gradient, theta = tangent.value, tangent.gradient, tangent.theta
    xi, weighted = 0.0, 0.0
    for place in range(planes.sizes[block]):
        plane = planes.places[block, place]
        known = _value(plane, planes, theta)
        xi = max(xi, known)
        weighted += planes.alpha[plane] * known
    along, terms = 0.0, abs(value)
    for column in range(len(theta)):
        term = gradient[column] * theta[column]
        along += term
        terms += abs(term)
    gap = C * value - weighted
    if not np.isfinite(terms):
        return np.nan, False
    if value - xi <= max(margin, _ROUNDING * terms):
        return gap, False
    for column in range(len(theta)):
        planes.gradients[spare, column] = gradient[column]
    planes.offsets[spare] = value - along
    planes.alpha[spare] = 0.0
    planes.places[block, planes.sizes[block]] = spare
    planes.sizes[block] += 1
    return gap, True


@njit()
def _move(up, down, most, rise, planes, theta):  # type: ignore[no-untyped-def]
    """Move the best amount of multiplier, at most ``most``, from one plane to another; −1 stands for the plane 0."""
    gradients, alpha = planes.gradients, planes.alpha
    square = 0.0
    for column in range(len(theta)):
        difference = (gradients[up, column] if up >= 0 else 0.0) - (gradients[down, column] if down >= 0 else 0.0)
        square += difference * difference
    amount = most if rise >= most * square else rise / square
    if up >= 0:
        alpha[up] += amount
    if down >= 0:
        alpha[down] = 0.0 if amount == most else alpha[down] - amount
    for column in range(len(theta)):
        difference = (gradients[up, column] if up >= 0 else 0.0) - (gradients[down, column] if down >= 0 else 0.0)
        theta[column] -= amount * difference


@njit()
def _pair_steps(block, steps, theta, C, planes):  # type: ignore[no-untyped-def]
    """Move multiplier from the smallest plane that has any to the largest, ``steps`` times; return the first gap."""
    sizes, alpha = planes.sizes, planes.alpha
    first_gap = 0.0
    for step in range(max(1, steps)):
        up, down, high, low = -1, -1, 0.0, np.inf
        used, weighted = 0.0, 0.0
        for place in range(sizes[block]):
            plane = planes.places[block, place]
            value = _value(plane, planes, theta)
            used += alpha[plane]
            weighted += alpha[plane] * value
            if value > high:
                up, high = plane, value
            if alpha[plane] > 0.0 and value < low:
                down, low = plane, value
        most = alpha[down] if down >= 0 else 0.0
        if C - used > _ROUNDING * C and low > 0.0:
            down, low, most = -1, 0.0, C - used
        if step == 0:
            first_gap = max(0.0, C * high - weighted)
        if steps == 0 or not high > low:
            break
        _move(up, down, most, high - low, planes, theta)
    return first_gap


@njit()
def step_block(block, theta, C, planes):  # type: ignore[no-untyped-def]
    """Move multiplier once, from the smallest plane of a block that has any to the largest."""
    _pair_steps(block, 1, theta, C, Known(*planes))


@njit()
def ascend(blocks, target, visits, steps, gaps, theta, C, planes):  # type: ignore[no-untyped-def]
    """Step in all blocks until their gaps add up to at most ``target``, or for ``visits``; return the sum.

    Most blocks soon have a single active plane; the others are visited until they are done, and then all once more.
    ``gaps`` are written for all blocks.
    """
    planes = Known(*planes)
    busy = np.empty(len(blocks), dtype=np.int64)
    spent, total = 0, np.inf
    while True:
        # Gaps at different θ do not add up to a gap, so all are measured before the steps.
        moves = 0 if total <= target or spent >= visits else steps
        total, n_busy = 0.0, 0
        for block in blocks:
            gaps[block] = _pair_steps(block, moves, theta, C, planes)
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
                rest += _pair_steps(busy[number], steps, theta, C, planes)
            spent += n_busy
