"""Every number is Python's `float` of it, bit for bit, or is handed to Python to read."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from marginrank.data.formats.number_kernel import LEFT_OVER, NOT_A_NUMBER, OK, parse_number

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=5e-324, max_value=1.7e308)


def parse(word: str, tail: str = " ") -> tuple[float, int, int]:
    return parse_number(np.frombuffer((word + tail).encode(), dtype=np.uint8), 0)


def bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def assert_python_agrees(word: str) -> None:
    value, end, status = parse(word)
    assert end == len(word)
    assert status in (OK, LEFT_OVER)
    if status == OK:
        assert bits(value) == bits(float(word)), f"{word[:60]}: {value!r} is not {float(word)!r}"


@settings(max_examples=300)
@given(finite)
def test_the_shortest_form_of_a_double_is_read_without_python(value: float) -> None:
    word = repr(value)
    assert_python_agrees(word)
    # Only subnormals, the uppermost binade and exact halfway cases are left over.
    if 1e-300 < abs(value) < 1e300:
        assert parse(word)[2] == OK


@settings(max_examples=300)
@given(finite, st.integers(0, 40), st.sampled_from("efg"))
def test_any_number_of_digits(value: float, digits: int, form: str) -> None:
    assert_python_agrees(f"{value:.{digits}{form}}")


@settings(max_examples=300)
@given(st.integers(0, 10**30), st.integers(0, 10**30), st.integers(-400, 400), st.sampled_from(["", "+", "-"]))
def test_digits_point_digits_exponent(whole: int, fraction: int, exponent: int, sign: str) -> None:
    assert_python_agrees(f"{sign}{whole}.{fraction}e{exponent}")
    assert_python_agrees(f"{sign}{whole}.{fraction}")
    assert_python_agrees(f"{sign}0000{whole}E{exponent:+05d}")
    assert_python_agrees(f"{sign}.000{fraction}")


def middle(value: float) -> tuple[int, int]:
    """Integers m and p with m·10^-p exactly between a double and the next one."""
    a, b = value.as_integer_ratio()
    c, d = float(np.nextafter(value, np.inf)).as_integer_ratio()
    power = (2 * b * d).bit_length() - 1
    return (a * d + c * b) * 5**power, power


@settings(max_examples=300)
@given(positive)
def test_halfway_between_two_doubles(value: float) -> None:
    digits, power = middle(value)
    for near in (digits - 1, digits, digits + 1):
        assert_python_agrees(f"{near}e-{power}")
        assert_python_agrees(f"{near}0000e-{power + 4}")
    assert_python_agrees(f"{digits}{'0' * 20}1e-{power + 21}")


def test_doubles_of_any_bits() -> None:
    """Many more of them than a property test draws in the same time."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**64, 4000, dtype=np.uint64).view(np.float64)
    for place, value in enumerate(values[np.isfinite(values)].tolist()):
        assert_python_agrees(repr(value))
        assert_python_agrees(f"{value:.{place % 41}{'efg'[place % 3]}}")
        digits, power = middle(abs(value))
        assert_python_agrees(f"{digits + place % 3 - 1}e-{power}")


@given(st.integers(2**53, 2**64 + 10))
@example(2**53 + 1)
@example(2**64 - 1)
@example(2**64)
@example(10**19 - 1)
@example(10**19)
def test_whole_numbers_beyond_exact_doubles(number: int) -> None:
    assert_python_agrees(str(number))
    assert_python_agrees(f"{number}e-10")


@pytest.mark.parametrize(
    "word",
    [
        "0", "-0", "+0", "0.0", "-0.0e5", "00", "0e0", "0e999999999999", ".5", "5.", "+.5", "-5.", "1e5", "1E+5",
        "4.9406564584124654e-324", "2.2250738585072011e-308", "2.2250738585072012e-308", "2.2250738585072014e-308",
        "1.7976931348623157e308", "1.7976931348623158e308", "1e-400", "1e400", "-1e400", "8.98846567431158e307",
        "6.631236846766476e-316", "3.2378839133029012895883524125015321748630094e-319",
        "7.2057594037927933e16", "9007199254740993", "9007199254740993.0000000000000000000001",
        "0." + "0" * 500 + "1e500", "1" + "0" * 500 + "e-500", "1e" + "0" * 100 + "5",
    ],
)  # fmt: skip
def test_known_hard_numbers(word: str) -> None:
    assert_python_agrees(word)


@pytest.mark.parametrize(
    "word",
    ["1" + "0" * 100_000 + "e-200000", "0." + "0" * 100_000 + "1e200000", "0." + "0" * 150_000 + "1e150001"],
    ids=["long and tiny", "small and huge", "one"],
)
def test_an_exponent_as_long_as_the_digits(word: str) -> None:
    assert_python_agrees(word)


@pytest.mark.parametrize("tail", [" ", "\n", "\t", "\r", "#", ":", "x", "\0", "."])
def test_a_number_ends_at_the_first_byte_that_is_no_part_of_it(tail: str) -> None:
    value, end, status = parse("12e3", tail)
    assert (value, end, status) == (12000.0, 4, OK)


@pytest.mark.parametrize(
    "word",
    ["", "+", "-", ".", "+.", "-.e5", "e5", ".e5", "1e", "1e+", "1.5e-", "--1", "+-1", "nan", "inf", "x", ":", "é"],
)
def test_what_is_no_number_is_called_so(word: str) -> None:
    assert parse(word)[2] == NOT_A_NUMBER


@settings(max_examples=300)
@given(st.text("0123456789+-.eE", max_size=12))
def test_any_arrangement_of_number_signs(word: str) -> None:
    """The longest beginning that Python calls a number is read, or nothing is, if an exponent is begun in vain."""
    _, end, status = parse(word)
    if status == NOT_A_NUMBER:
        assert not is_python_number(word[:end])
        return
    assert_python_agrees(word[:end])
    assert end == len(word) or not is_python_number(word[: end + 1])


def is_python_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
