"""Any bytes at all: the reader agrees with the slow reference bit for bit, or both refuse.

``HYPOTHESIS_PROFILE=fuzz`` runs forty times as many examples, drawn anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from marginrank.data.formats import letor
from marginrank.data.formats.letor import read_letor
from marginrank.data.formats.text_files import line_blocks
from marginrank.data.queries import Queries
from marginrank.errors import DataError

from .reference_letor import LINE_END, Judged, RefusedError, parse

#: Drawn ids repeat.
pytestmark = pytest.mark.filterwarnings("ignore::marginrank.errors.RepeatedDocumentsWarning")

EFFORT = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 1


def fuzz(max_examples: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=max_examples * EFFORT,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "judged.txt"


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """Let the reader cut text into blocks of whatever size `agree` asks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "line_blocks", lambda path, **options: line_blocks(path, BLOCK["size"], **options))
        yield


BLOCK = {"size": 4 << 20}

OPTIONS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([np.float64, np.float32]),
        "missing": st.sampled_from(["error", "nan", "zero"]),
        "first_index": st.sampled_from([1, 0]),
        "regroup": st.booleans(),
    }
)
SIZES = st.sampled_from([4 << 20, 4, 16, 64])
DEFAULTS: dict[str, Any] = {"dtype": np.float64, "missing": "error", "first_index": 1, "regroup": False}


def agree(path: Path, data: bytes, options: dict[str, Any], block: int) -> None:
    """Hold the reader to the reference on one file."""
    path.write_bytes(data)
    try:
        expected = parse(data, **options)
    except RefusedError as refusal:
        expected, reason = None, str(refusal)
    contents = [line.split(b"#")[0].strip(b" \t") for line in LINE_END.split(data.removeprefix(b"\xef\xbb\xbf"))]
    # Sizes for text without query ids, so that their absence is never the reason to refuse it.
    group = None if any(b"qid:" in content.lower() for content in contents) else [sum(map(bool, contents))]
    BLOCK["size"] = block
    read = partial(read_letor, path, group=group, n_jobs=1 + block % 3, **options)
    if expected is None:
        with pytest.raises(DataError) as refused:
            pytest.fail(f"read {read()!r}, but the reference refuses: {reason}")
        assert refused.value.problem
        assert refused.value.path == str(path)
    else:
        assert_same(read(), expected, options["dtype"])


def assert_same(found: Queries, expected: Judged, dtype: type[np.floating]) -> None:
    found = found.grouped
    rows = expected.grouped()
    assert_same_bits(found.grades, np.array([row.grade for row in rows]))
    names = expected.queries if expected.has_queries else ["0"]
    assert found.query_ids.astype(str).tolist() == names
    assert found.lengths.tolist() == expected.lengths
    documents = expected.documents()
    assert (None if found.document_ids is None else found.document_ids.tolist()) == documents
    assert found.X.shape == (len(rows), expected.width)
    assert found.X.dtype == dtype
    entries = [(row, column, value) for row, line in enumerate(rows) for column, value in line.features]
    if found.is_sparse:
        stored = np.repeat(np.arange(len(rows)), np.diff(found.X.indptr))
        assert list(zip(stored.tolist(), found.X.indices.tolist(), strict=True)) == [entry[:2] for entry in entries]
        assert_same_bits(found.X.data, np.array([value for _, _, value in entries]).astype(dtype))
        return
    X = np.zeros(found.X.shape, dtype=dtype)
    for row, column, value in entries:
        X[row, column] = value
    assert_same_bits(found.X, X)


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal with the sign of zeros; one NaN is as good as another."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    present = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[present]), np.signbit(expected[present]))


# --- files from a seed: far faster than drawing every word, so that many more are tried


def halfway(value: float) -> str:
    """Write the middle between a positive float64 and the next one, digit for digit."""
    low, high = value.as_integer_ratio(), float(np.nextafter(value, np.inf)).as_integer_ratio()
    top, bottom = low[0] * high[1] + high[0] * low[1], 2 * low[1] * high[1]
    shift = bottom.bit_length() - 1
    return f"{top * 5**shift}e-{shift}"


def any_double(rng: Random) -> float:
    bits = rng.getrandbits(64)
    value = float(np.uint64(bits).view(np.float64))
    return value if isfinite(value) else float(bits)


def any_single(rng: Random) -> float:
    value = float(np.uint32(rng.getrandbits(32)).view(np.float32))
    return value if isfinite(value) else 0.1


def moderate(rng: Random) -> float:
    return rng.uniform(1, 10) * 10.0 ** rng.randint(-30, 30)


KNOWN_HARD = [
    "0", "-0", "-0.0", ".5", "5.", "+.5e-3", "1E5", "1e+5", "1e22", "1e23", "8.5e22", "1e-22", "0.30000000000000004",
    "4.9e-324", "2.4703282292062328e-324", "2.4703282292062327e-324", "2.2250738585072011e-308",
    "2.2250738585072014e-308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308",
    "1e309", "-1e400", "1e-400", "0e999999", "1e999999", "1e-999999",
    "3.4028235e38", "3.4028235677973366e38", "3.4028236e38", "1e-46", "1.401298464324817e-45",
    "9007199254740993", "9007199254740992.5", "18446744073709551615", "18446744073709551616",
    "9999999999999999999", "99999999999999999999", "123456789012345678901234567890",
    "0." + "0" * 400 + "1", "1" + "0" * 400, "1" + "0" * 400 + "e-400", "0." + "0" * 350 + "1e350",
]  # fmt: skip

NUMBER_FORMS: list[Callable[[Random], str]] = [
    lambda rng: repr(any_double(rng)),
    lambda rng: repr(any_single(rng)),
    lambda rng: str(np.float32(any_single(rng))),
    lambda rng: repr(moderate(rng)),
    lambda rng: f"{rng.uniform(-1e3, 1e3):.6f}",
    lambda rng: f"{rng.uniform(-1e6, 1e6):.{rng.randint(0, 30)}f}",
    lambda rng: f"{any_double(rng):.{rng.randint(0, 25)}e}",
    lambda rng: str(rng.randint(-(10**25), 10**25)),
    lambda rng: f"{rng.randint(0, 10**20)}.{rng.randint(0, 10**25)}e{rng.randint(-345, 310)}",
    lambda rng: rng.choice(["+", "000", "-00", "+0."]) + str(rng.randint(0, 10**22)),
    lambda rng: halfway(moderate(rng)),
    lambda rng: halfway(abs(any_double(rng)) % 1e300),
    lambda rng: halfway(moderate(rng)).replace("e", rng.choice(["1e", "0001e", "0000e"])),
    lambda rng: rng.choice(KNOWN_HARD),
]
PLAIN_NUMBERS: list[Callable[[Random], str]] = [lambda rng: rng.choice(["0", "1", "0.25", "-3", "1e-3", "12.5"])]
ODD_WORDS = [
    "NULL", "NaN", "na", "nan", "inf", "-inf", "Infinity", "1e", "1e+", ".", "-", "+", "0x10", "1_000", "1,5", "1.2.3",
    "abc", "qid:1", ":", "1:", ":1", "\u0661",
]  # fmt: skip
NAMES = [
    "0", "1", "2", "7", "30", "-1", "007", "+1", "1.0", "1e3", "99999999999999999999", "a", "bé", "漢", "x/y", "a=b",
    "docid", "qid:1", "NaN", "é",
]  # fmt: skip
COMMENTS = ["", "", "#", "# {}", "#docid = {} inc = 1 prob = 0.5", "#docid:{}", "#DOCID={}", "#{} x", "#docid {}"]
GRADES = ["0", "1", "2", "0.5", "4", "1e6", "+3"]


def one_line(rng: Random, query: str | None, forms: list[Callable[[Random], str]]) -> str:
    indices = sorted({rng.randint(1, 10 ** rng.choice([1, 1, 1, 5])) for _ in range(rng.randint(0, 5))})
    grade = rng.choice(forms)(rng).lstrip("-") if rng.random() < 0.3 else rng.choice(GRADES)
    words = [grade, *([] if query is None else [f"qid:{query}"]), *(f"{i}:{rng.choice(forms)(rng)}" for i in indices)]
    blanks = [rng.choice([" ", " ", " ", "\t", "  ", " \t "]) for _ in words]
    text = rng.choice(["", "", "", " ", "\t"]) + "".join(map("".join, zip(words, blanks, strict=True)))
    return text + rng.choice(COMMENTS).format(rng.choice(NAMES)) + rng.choice(["", "\r"])


def make_file(seed: int, forms: list[Callable[[Random], str]]) -> bytes:
    rng = Random(seed)
    has_ids = rng.random() < 0.8
    text: list[str] = []
    for name in rng.sample(NAMES, rng.randint(1, 4)):
        text += [one_line(rng, name if has_ids else None, forms) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.3:
            text.append(rng.choice(["", "  ", "\r", "# a comment", "#docid = 7"]))
    mark = b"\xef\xbb\xbf" if rng.random() < 0.1 else b""
    return mark + "\n".join(text).encode() + rng.choice([b"\n", b""])


seeds = st.integers(0, 2**64 - 1)


# --- damage

SPECIAL = list(b"\0\x01\x0b\x0c\x1f\x7f\x80\xff\xc3 \t\r\n#:.+-eE0189qid")


def flip_byte(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    byte = draw(st.sampled_from(SPECIAL) | st.integers(0, 255))
    return data[:at] + bytes([byte]) + data[at + 1 :]


def insert_byte(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    return data[:at] + bytes([draw(st.sampled_from(SPECIAL) | st.integers(0, 255))]) + data[at:]


def delete_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + data[at + draw(st.integers(1, 8)) :]


def cut_short(draw: st.DrawFn, data: bytes) -> bytes:
    return data[: draw(st.integers(0, len(data) - 1))]


def repeat_line(draw: st.DrawFn, data: bytes) -> bytes:
    text = data.split(b"\n")
    line = draw(st.sampled_from(text))
    text.insert(draw(st.integers(0, len(text))), line)
    return b"\n".join(text)


def swap_words(draw: st.DrawFn, data: bytes) -> bytes:
    words = data.split(b" ")
    a, b = (draw(st.integers(0, len(words) - 1)) for _ in range(2))
    words[a], words[b] = words[b], words[a]
    return b" ".join(words)


def replace_value(draw: st.DrawFn, data: bytes) -> bytes:
    parts = data.split(b":")
    at = draw(st.integers(0, len(parts) - 1))
    _, blank, rest = parts[at].partition(b" ")
    parts[at] = draw(st.sampled_from(ODD_WORDS + KNOWN_HARD)).encode() + blank + rest
    return b":".join(parts)


DAMAGES = [flip_byte, insert_byte, delete_bytes, cut_short, repeat_line, swap_words, replace_value]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = make_file(draw(seeds), PLAIN_NUMBERS)
    for damage in draw(st.lists(st.sampled_from(DAMAGES), min_size=1, max_size=3)):
        if data:
            data = damage(draw, data)
    return data


PIECES = [
    b"1", b"0", b"-", b"+", b".", b"e", b" ", b"\t", b"\r", b"\n", b"#", b":", b"qid:", b"1:", b"2:", b"docid", b"=",
    b"1 qid:1 1:1\n", b"0 qid:2", b"NULL", b"\xef\xbb\xbf", b"\0", b"\x0b", b"\xff", b"\xc3\xa9",
]  # fmt: skip
arbitrary = st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@pytest.mark.slow
@fuzz(300)
@given(data=arbitrary, options=OPTIONS, block=SIZES)
@example(data=b"", options=DEFAULTS, block=4)
@example(data=b"\n", options=DEFAULTS, block=4)
@example(data=b"\xef\xbb\xbf", options=DEFAULTS, block=4)
@example(data=b"1", options=DEFAULTS, block=4)
@example(data=b"1 qid:1", options=DEFAULTS, block=4)
@example(data=b"1 qid:1 1:1 # \0\n", options=DEFAULTS, block=4)
@example(data=b"# \0\n1 qid:1 1:1\n", options=DEFAULTS, block=4)
@example(data=b"1 qid:1 2147483646:1\n", options=DEFAULTS, block=4)
@example(data=b"1 qid:1 2147483647:1\n", options=DEFAULTS, block=4)
def test_any_bytes_are_read_as_the_grammar_says_or_refused(
    scratch: Path, data: bytes, options: dict[str, Any], block: int
) -> None:
    agree(scratch, data, options, block)


@pytest.mark.slow
@fuzz(400)
@given(data=damaged(), options=OPTIONS, block=SIZES)
def test_damaged_files_are_read_as_the_grammar_says_or_refused(
    scratch: Path, data: bytes, options: dict[str, Any], block: int
) -> None:
    agree(scratch, data, options, block)


@pytest.mark.slow
@fuzz(400)
@given(data=seeds.map(lambda seed: make_file(seed, NUMBER_FORMS)), options=OPTIONS, block=SIZES)
def test_odd_numbers_and_blanks_are_read_bit_for_bit(
    scratch: Path, data: bytes, options: dict[str, Any], block: int
) -> None:
    agree(scratch, data, options, block)


def test_the_fuzzer_reaches_both_outcomes() -> None:
    """Most undamaged files are good and some damaged ones are bad, so that neither law above is empty."""
    outcomes = {"good": 0, "bad": 0, "good although damaged": 0}

    @settings(max_examples=130, database=None, suppress_health_check=list(HealthCheck))
    @given(seeds, damaged())
    def count(seed: int, broken: bytes) -> None:
        for data, verdict in ((make_file(seed, PLAIN_NUMBERS), "good"), (broken, "good although damaged")):
            try:
                parse(data)
                outcomes[verdict] += 1
            except RefusedError:
                outcomes["bad"] += data is broken

    count()
    assert min(outcomes.values()) > 20, outcomes
