"""Ways to damage a file, drawn from a seed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

SPECIAL = list(b"\0\x01\x0b\x0c\x0e\x1b\x1c\x1f\x7f\x80\x85\xff\xc3 \t\r\n#:.+-eE_0189qid")
ODD_WORDS = [
    b"NULL", b"NaN", b"nan", b"inf", b"-inf", b"Infinity", b"1e", b"1e+", b".", b"-", b"+", b"0x10", b"1_000", b"1,5",
    b"1.2.3", b"abc", b"qid:1", b":", b"1:", b":1", b"\xd9\xa1", b"-0", b"-1", b"1e400", b"-1e400", b"1e-400",
    b"2147483647", b"4294967296", b"9223372036854775808", b"99999999999999999999", b"1" + b"0" * 400, b"x" * 300,
]  # fmt: skip
INTEGERS = [
    0,
    1,
    2,
    3,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63,
    2**64 - 1,
]

Damage = Callable[[Random, bytes], bytes]


def flip_bit(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def set_byte(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([_byte(rng)]) + data[at + 1 :]


def insert_byte(rng: Random, data: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + bytes([_byte(rng)]) + data[at:]


def delete_bytes(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 1, 2, 4, 8, 100]) :]


def cut_short(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def set_integer(rng: Random, data: bytes) -> bytes:
    """Overwrite 1, 2, 4 or 8 bytes with a number that is often a limit."""
    size, kind = rng.choice([(1, "B"), (2, "H"), (4, "I"), (8, "Q")])
    if len(data) < size:
        return data
    at = rng.randrange(len(data) - size + 1)
    if rng.random() < 0.5:
        at -= at % size
    value = rng.choice(INTEGERS) if rng.random() < 0.7 else rng.getrandbits(64)
    order = rng.choice("<<<>")
    return data[:at] + struct.pack(order + kind, value % 256**size) + data[at + size :]


def copy_chunk(rng: Random, data: bytes) -> bytes:
    """Write one part of the file over, or into, another."""
    start = rng.randrange(len(data))
    chunk = data[start : start + rng.choice([1, 4, 8, 16, 64, 256])]
    at = rng.randint(0, len(data))
    return data[:at] + chunk + data[at + (len(chunk) if rng.random() < 0.5 else 0) :]


def repeat_line(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randint(0, len(lines)), rng.choice(lines))
    return b"\n".join(lines)


def swap_words(rng: Random, data: bytes) -> bytes:
    words = data.split(b" ")
    a, b = rng.randrange(len(words)), rng.randrange(len(words))
    words[a], words[b] = words[b], words[a]
    return b" ".join(words)


def replace_word(rng: Random, data: bytes) -> bytes:
    blank = rng.choice([b" ", b":"])
    words = data.split(blank)
    at = rng.randrange(len(words))
    word, rest = words[at], b""
    for end in (b" ", b"\n"):
        word, mark, more = word.partition(end)
        rest = mark + more + rest
    words[at] = rng.choice(ODD_WORDS) + rest
    return blank.join(words)


def other_line_ends(rng: Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\0"]))


def _byte(rng: Random) -> int:
    return rng.choice(SPECIAL) if rng.random() < 0.6 else rng.randrange(256)


BYTES: Sequence[Damage] = (flip_bit, set_byte, insert_byte, delete_bytes, cut_short, set_integer, copy_chunk)
TEXT: Sequence[Damage] = (
    flip_bit,
    set_byte,
    insert_byte,
    delete_bytes,
    cut_short,
    repeat_line,
    swap_words,
    replace_word,
    other_line_ends,
)


def damaged(rng: Random, data: bytes, damages: Sequence[Damage]) -> bytes:
    """Return the file with one to three damages; now and then with none, so that good files are read too."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        if data:
            data = rng.choice(damages)(rng, data)
    return data


# A container with a JSON header: the header is damaged as JSON, so that the damage gets past the parser.

VALUES: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2**31, 2**40, 2**63, 2**64, 10**400, -(10**30), 0.5, 1e308, "", "x", "F64", "I32",
    "U8", "BOOL", "nan", "\x1b[2J", [], [0], [0, 8], [8, 0], [2**63], [-1], {}, {"a": 1}, [[[[]]]],
)  # fmt: skip


def damaged_value(rng: Random, value: Any) -> Any:
    """Return plain JSON with one place changed: a value replaced, an entry removed, renamed or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        return _damaged_object(rng, value)
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        new = rng.choice([[], [value[at], rng.choice(VALUES)], [value[at]] * 2, [damaged_value(rng, value[at])]])
        return [*value[:at], *new, *value[at + 1 :]]
    if isinstance(value, str) and value.startswith("{") and rng.random() < 0.9:
        # JSON inside text, as in the metadata of safetensors.
        return json.dumps(damaged_value(rng, json.loads(value)))
    if isinstance(value, int | float) and rng.random() < 0.5:
        return rng.choice([value + 1, value - 1, -value, value * 2, value * 10**20])
    return rng.choice(VALUES)


def _damaged_object(rng: Random, value: dict[str, Any]) -> dict[str, Any]:
    key = rng.choice(sorted(value))
    rest = {name: old for name, old in value.items() if name != key}
    match rng.randrange(8):
        case 0:
            return rest
        case 1:
            return rest | {key + rng.choice("x.é\n"): value[key]}
        case 2:
            return value | {rng.choice(["extra", "", "__metadata__"]): rng.choice(VALUES)}
        case _:
            return value | {key: damaged_value(rng, value[key])}


def damaged_header(rng: Random, data: bytes) -> bytes:
    """Damage the JSON header of a safetensors file, and write its true length before it."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.dumps(damaged_value(rng, json.loads(data[8 : 8 + length]))).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]
