"""TREC text and scores read slowly and plainly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.data.formats.reference_letor import BLANKS, LINE_END, NUMBER, RefusedError

INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
CONTROL = re.compile(rb"[\x00-\x1f]")


@dataclass
class Lines:
    """Topics in order of first appearance, each with its documents and their numbers."""

    topics: dict[bytes, list[tuple[bytes, float]]]
    tag: bytes

    @property
    def pairs(self) -> list[tuple[bytes, float]]:
        return [pair for documents in self.topics.values() for pair in documents]


def parse_trec(data: bytes, columns: int, number: int) -> Lines:
    """Read lines of at least that many words; the word of that number is a finite number."""
    topics: dict[bytes, dict[bytes, float]] = {}
    tag = b""
    for line in lines_of(data):
        words = [word for word in BLANKS.split(line) if word]
        if not words:
            continue
        if len(words) < columns:
            raise RefusedError(f"{len(words)} words")
        name, document = without_control(words[0]), without_control(words[2])
        topic = topics.setdefault(name, {})
        if document in topic:
            raise RefusedError("a document twice")
        topic[document] = finite(words[number])
        if columns == 6:
            tag = tag or without_control(words[5])
    if not topics:
        raise RefusedError("empty")
    return Lines({name: list(documents.items()) for name, documents in topics.items()}, tag)


def parse_scores(data: bytes) -> list[float]:
    """Read one number per line, also an infinite one by name; only the end may be blank."""
    lines = b"\n".join(lines_of(data)).rstrip(b" \t\n").split(b"\n")
    words = [line.strip(b" \t") for line in lines]
    return [float(word) if INFINITE.fullmatch(word) else finite(word) for word in words]


def lines_of(data: bytes) -> list[bytes]:
    if b"\0" in data:
        raise RefusedError("a NUL byte")
    return LINE_END.split(data.removeprefix(b"\xef\xbb\xbf"))


def without_control(word: bytes) -> bytes:
    if CONTROL.search(word):
        raise RefusedError("a control character")
    return word


def finite(word: bytes) -> float:
    if not NUMBER.fullmatch(word) or abs(float(word)) == float("inf"):
        raise RefusedError(f"{word!r} is no finite number")
    return float(word)
