"""Steps of the dual ascent that move multiplier between two planes of a part."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Share of C below which a multiplier is rounding error.
_ROUNDING = 1e-15


@njit()
def ascend_dual(gram, members, starts, C, target, max_steps, alpha, values):  # type: ignore[no-untyped-def]
    """Increase values·Δ − ½ΔᵀKΔ, with Δ the change of α, until the gap is at most ``target``; return the gap.

    The planes of part p are ``members[starts[p]:starts[p + 1]]``, and ``values`` are kept at the gradient of the dual,
    which falls by K·Δ. A step moves multiplier to the largest plane of a part from the one that gains most by it.
    """
    n_parts = len(starts) - 1
    gaps = np.empty(n_parts)
    n_steps = 0
    while True:
        total = 0.0
        for part in range(n_parts):
            gaps[part] = _gap(part, members, starts, C, alpha, values)
            total += gaps[part]
        if total <= target or n_steps >= max_steps:
            return total
        before = n_steps
        for part in range(n_parts):
            if gaps[part] * n_parts <= 0.1 * target:
                continue
            # Leave a part when most of its gap is closed: steps in the other parts change it again.
            first, size = 0.0, starts[part + 1] - starts[part]
            for step in range(2 * size):
                gap = _pair_step(part, gram, members, starts, C, alpha, values)
                if gap < 0.0:
                    break
                n_steps += 1
                if step == 0:
                    first = gap
                elif gap <= 0.3 * first:
                    break
        if n_steps == before:
            return total


@njit()
def _gap(part, members, starts, C, alpha, values):  # type: ignore[no-untyped-def]
    maximum, weighted = -np.inf, 0.0
    for place in range(starts[part], starts[part + 1]):
        plane = members[place]
        maximum = max(maximum, values[plane])
        weighted += alpha[plane] * values[plane]
    return max(0.0, C * maximum - weighted)


@njit()
def _pair_step(part, gram, members, starts, C, alpha, values):  # type: ignore[no-untyped-def]
    """Move multiplier to the largest plane of a part; return the gap before, or −1 if nothing moves."""
    up, maximum, weighted = members[starts[part]], -np.inf, 0.0
    for place in range(starts[part], starts[part + 1]):
        plane = members[place]
        if values[plane] > maximum:
            up, maximum = plane, values[plane]
        weighted += alpha[plane] * values[plane]
    down, best_gain, amount = -1, 0.0, 0.0
    for place in range(starts[part], starts[part + 1]):
        plane = members[place]
        rise = maximum - values[plane]
        if alpha[plane] <= 0.0 or rise <= 0.0:
            continue
        square = gram[up, up] + gram[plane, plane] - 2.0 * gram[up, plane]
        move = alpha[plane] if rise >= alpha[plane] * square else rise / square
        gain = move * (rise - 0.5 * move * max(square, 0.0))
        if gain > best_gain:
            down, best_gain, amount = plane, gain, move
    if down < 0:
        return -1.0
    alpha[up] += amount
    alpha[down] = 0.0 if alpha[down] - amount <= _ROUNDING * C else alpha[down] - amount
    for plane in range(len(values)):
        values[plane] -= amount * (gram[up, plane] - gram[down, plane])
    return max(0.0, C * maximum - weighted)
