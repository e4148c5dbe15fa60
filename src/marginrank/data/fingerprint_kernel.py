"""Digests of blocks of numbers."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

# The primes, the rotation and the round of XXH64 (Collet, 2014), which reads memory at its full speed.
_FIRST, _SECOND = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_LEFT, _RIGHT = np.uint64(31), np.uint64(33)


@njit()
def _round(lane, word):  # type: ignore[no-untyped-def]
    """Mix a word into a lane; for a given word one to one in the lane, and for a given lane in the word."""
    mixed = lane + word * _SECOND
    return ((mixed << _LEFT) | (mixed >> _RIGHT)) * _FIRST


@njit()
def update_lanes(lanes, words):  # type: ignore[no-untyped-def]
    """Mix words into four lanes, in turns; their number is a multiple of four."""
    a, b, c, d = lanes
    for at in range(0, len(words), 4):
        a, b = _round(a, words[at]), _round(b, words[at + 1])
        c, d = _round(c, words[at + 2]), _round(d, words[at + 3])
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
