"""Radix sort of the bits of numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.runtime.kernels import njit

_DIGIT_BITS: Final = 11
_DIGITS: Final = 1 << _DIGIT_BITS
_LOW: Final = np.uint64(_DIGITS - 1)


@njit()
def sort_bits(bits, room, sign, infinity):  # type: ignore[no-untyped-def]
    """Sort the bits of floating-point numbers in place, by number, NaN last.

    Args:
        bits: Unsigned integers.
        room: Space for as many.
        sign: The integer with the sign bit alone.
        infinity: The bits of infinity.
    """
    n = len(bits)
    n_passes = (8 * bits.itemsize + _DIGIT_BITS - 1) // _DIGIT_BITS
    starts = np.zeros((n_passes, _DIGITS), dtype=np.int64)
    for at in range(n):
        # Keys have the order of the numbers; that of NaN, whatever its sign, is the largest.
        if (bits[at] & ~sign) > infinity:
            bits[at] = ~sign
        bits[at] = ~bits[at] if bits[at] & sign else bits[at] | sign
        # Read anew, since the compiler may widen integers.
        key = bits[at]
        for number in range(n_passes):
            starts[number, (np.uint64(key) >> np.uint64(_DIGIT_BITS * number)) & _LOW] += 1
    source, target = bits, room
    for number in range(n_passes):
        shift, start, varies = np.uint64(_DIGIT_BITS * number), 0, True
        for value in range(_DIGITS):
            count = starts[number, value]
            varies = varies and count < n
            starts[number, value] = start
            start += count
        if varies:
            for at in range(n):
                key = source[at]
                digit = (np.uint64(key) >> shift) & _LOW
                target[starts[number, digit]] = key
                starts[number, digit] += 1
            source, target = target, source
    for at in range(n):
        key = source[at]
        bits[at] = key ^ sign if key & sign else ~key
