"""Decimal numbers from bytes, correctly rounded, at the speed of the text.

The method is that of D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience
51(8), 2021: an exact product where both factors are exact doubles (Clinger 1990), else one 128-bit product with
a truncated power of five that is right unless it says otherwise. The few numbers left over are handed back to be
read by Python.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.runtime.kernels import njit

OK: Final = 0
NOT_A_NUMBER: Final = 1
LEFT_OVER: Final = 2
_MIN_POWER: Final = -342
_MAX_POWER: Final = 308
_MAX_DIGITS: Final = 19
_MAX_EXPONENT: Final = 10**17  # more than a file has digits, so that no row of zeros can make up for it
_LOW_32: Final = np.uint64(0xFFFFFFFF)
_EXACT_LIMIT: Final = np.uint64(1 << 53)
_EXACT_POWERS: Final = np.array([10.0**e for e in range(23)])
#: The last bit of doubles by their exponent; the first is not needed.
_POWERS_OF_TWO: Final = np.ldexp(1.0, np.arange(2046) - 1075)


def _power_of_five(q: int) -> tuple[int, int]:
    """Leading 128 bits of 5^q, rounded up for negative q, as two 64-bit halves."""
    if q >= 0:
        power = 5**q
        shift = power.bit_length() - 128
        bits = power >> shift if shift > 0 else power << -shift
    else:
        power = 5**-q
        bits = (1 << (power.bit_length() + 127)) // power + 1
        bits >>= bits.bit_length() - 128
    return bits >> 64, bits & (2**64 - 1)


_POWERS: Final = [_power_of_five(q) for q in range(_MIN_POWER, _MAX_POWER + 1)]
_POWERS_HIGH: Final = np.array([high for high, _ in _POWERS], dtype=np.uint64)
_POWERS_LOW: Final = np.array([low for _, low in _POWERS], dtype=np.uint64)


@njit()
def _wide_product(a, b):  # type: ignore[no-untyped-def]
    """Both halves of the 128-bit product of two unsigned 64-bit numbers."""
    a_low, a_high = a & _LOW_32, a >> np.uint64(32)
    b_low, b_high = b & _LOW_32, b >> np.uint64(32)
    low = a_low * b_low
    middle = a_high * b_low + (low >> np.uint64(32))
    cross = a_low * b_high + (middle & _LOW_32)
    high = a_high * b_high + (middle >> np.uint64(32)) + (cross >> np.uint64(32))
    return high, (cross << np.uint64(32)) | (low & _LOW_32)


@njit()
def _leading_zeros(w):  # type: ignore[no-untyped-def]
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == np.uint64(0):
            w = w << np.uint64(step)
            zeros += step
    return zeros


@njit()
def _bits_of_decimal(w, q):  # type: ignore[no-untyped-def]
    """Bits of the double nearest to w·10^q for w > 0, or 0 where this method cannot tell (Lemire 2021, §5)."""
    if q < _MIN_POWER or q > _MAX_POWER:
        return np.uint64(0)
    zeros = _leading_zeros(w)
    w = w << np.uint64(zeros)
    high, low = _wide_product(w, _POWERS_HIGH[q - _MIN_POWER])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        extra, _ = _wide_product(w, _POWERS_LOW[q - _MIN_POWER])
        carried = low + extra
        if carried < low:
            high += np.uint64(1)
        low = carried
        if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
            return np.uint64(0)
    top = high >> np.uint64(63)
    mantissa = high >> (top + np.uint64(9))
    exponent = ((217706 * q) >> 16) + 1023 + 63 - zeros + np.int64(top)
    if exponent <= 0 or exponent >= 2046:
        return np.uint64(0)
    halfway = low <= np.uint64(1) and high & np.uint64(0x1FF) == np.uint64(0) and mantissa & np.uint64(3) == 1
    if halfway:
        return np.uint64(0)
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >> np.uint64(53) != np.uint64(0):
        mantissa = mantissa >> np.uint64(1)
        exponent += 1
    return (np.uint64(exponent) << np.uint64(52)) | (mantissa & np.uint64((1 << 52) - 1))


@njit()
def _double_of_bits(bits):  # type: ignore[no-untyped-def]
    """Read a normal positive double from its bits."""
    mantissa = (bits & np.uint64((1 << 52) - 1)) | np.uint64(1 << 52)
    return np.float64(mantissa) * _POWERS_OF_TWO[bits >> np.uint64(52)]


@njit()
def _scale(mantissa, power, truncated):  # type: ignore[no-untyped-def]
    """Mantissa times ten to the power, and whether that is known to be the nearest double."""
    if mantissa == np.uint64(0) and not truncated:
        return 0.0, OK
    if mantissa <= _EXACT_LIMIT and -22 <= power <= 22 and not truncated:
        value = np.float64(mantissa)
        return (value * _EXACT_POWERS[power], OK) if power >= 0 else (value / _EXACT_POWERS[-power], OK)
    bits = _bits_of_decimal(mantissa, power)
    if bits == np.uint64(0) or (truncated and bits != _bits_of_decimal(mantissa + np.uint64(1), power)):
        return 0.0, LEFT_OVER
    return _double_of_bits(bits), OK


@njit()
def parse_number(text, at):  # type: ignore[no-untyped-def]
    """Read ``[+-] digits [. digits] [e [+-] digits]`` at a place; the text must end in a byte that ends numbers.

    Returns the value, the place after it, and OK, NOT_A_NUMBER or LEFT_OVER (for Python to read).
    """
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += 1
    mantissa = np.uint64(0)
    digits, dropped, power = 0, 0, 0
    truncated = False
    start = at
    digit = text[at] - np.uint8(48)
    while digit <= 9:
        if digits < _MAX_DIGITS:
            mantissa = mantissa * np.uint64(10) + np.uint64(digit)
            digits += mantissa != np.uint64(0)
        else:
            dropped += 1
            truncated = truncated or digit != 0
        at += 1
        digit = text[at] - np.uint8(48)
    n_digits = at - start
    if text[at] == 46:
        at += 1
        start = at
        digit = text[at] - np.uint8(48)
        while digit <= 9:
            if digits < _MAX_DIGITS:
                mantissa = mantissa * np.uint64(10) + np.uint64(digit)
                digits += mantissa != np.uint64(0)
                power -= 1
            else:
                truncated = truncated or digit != 0
            at += 1
            digit = text[at] - np.uint8(48)
        n_digits += at - start
    if n_digits == 0:
        return 0.0, at, NOT_A_NUMBER
    if text[at] == 101 or text[at] == 69:
        at += 1
        below = text[at] == 45
        if below or text[at] == 43:
            at += 1
        exponent, start = 0, at
        digit = text[at] - np.uint8(48)
        while digit <= 9:
            exponent = min(exponent * 10 + int(digit), _MAX_EXPONENT)
            at += 1
            digit = text[at] - np.uint8(48)
        if at == start:
            return 0.0, at, NOT_A_NUMBER
        power += -exponent if below else exponent
    value, status = _scale(mantissa, power + dropped, truncated)
    return (-value if negative else value), at, status
