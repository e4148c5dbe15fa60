"""LETOR text read slowly and plainly: the grammar as regular expressions, every number by Python's `float`.

A file is a sequence of lines ended by line feeds, carriage returns or both. Blanks are space and tab. Ids hold no
control characters; what is not UTF-8 in them is kept as surrogates. A line is blank, or a comment, or
``grade [qid:Q] index:value … [# comment]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

BLANKS = re.compile(rb"[ \t]+")
LINE_END = re.compile(rb"\r\n|\r|\n")
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
QUERY = re.compile(rb"qid:([^\x00-\x20]+)", re.IGNORECASE)
FEATURE = re.compile(rb"0*([0-9]{1,10}):(.+)", re.DOTALL)
MISSING = re.compile(rb"null|nan|na", re.IGNORECASE)
DOCUMENT = re.compile(rb"[ \t]*(?:docid[ \t]*[=:][ \t]*)?([^ \t]*)", re.IGNORECASE)
LARGEST_INDEX = 2**31 - 2


class RefusedError(Exception):
    """The text is not LETOR."""


@dataclass
class Row:
    """One judged document: features are pairs of a column from 0 and a value."""

    grade: float
    query: str | None
    features: list[tuple[int, float]]
    document: str


@dataclass
class Judged:
    """All rows of a file, those of one query together, in order of first appearance."""

    rows: list[Row] = field(default_factory=list)

    @property
    def has_queries(self) -> bool:
        return self.rows[0].query is not None

    @property
    def queries(self) -> list[str]:
        return list(dict.fromkeys(row.query or "" for row in self.rows))

    @property
    def lengths(self) -> list[int]:
        return [sum((row.query or "") == query for row in self.rows) for query in self.queries]

    @property
    def width(self) -> int:
        return max((column + 1 for row in self.rows for column, _ in row.features), default=0)

    def grouped(self) -> list[Row]:
        return [row for query in self.queries for row in self.rows if (row.query or "") == query]

    def documents(self) -> list[str] | None:
        names = [row.document for row in self.grouped()]
        return names if any(names) else None


def parse(
    data: bytes,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float64,
    missing: Literal["error", "nan", "zero"] = "error",
    first_index: int = 1,
    regroup: bool = False,
) -> Judged:
    """Read a whole file, or raise `RefusedError`."""
    judged = Judged()
    _demand(b"\0" not in data, "a NUL byte")
    for line in LINE_END.split(data.removeprefix(b"\xef\xbb\xbf")):
        content, hash_sign, comment = line.partition(b"#")
        words = [word for word in BLANKS.split(content) if word]
        if words:
            judged.rows.append(_row(words, comment if hash_sign else b"", dtype, missing, first_index))
    _demand(bool(judged.rows), "no judged document")
    stored = sum(len(row.features) for row in judged.rows)
    _demand(judged.width <= max(1 << 24, 100 * stored), "an index far beyond the values there are")
    named = [row.query is not None for row in judged.rows]
    _demand(all(named) or not any(named), "some lines have a query id and some have none")
    came = [row.query for row in judged.rows]
    returns = sum(a != b for a, b in zip(came, [None, *came], strict=False)) > len(judged.queries)
    _demand(regroup or not judged.has_queries or not returns, "a query comes back")
    return judged


def _demand(condition: bool, problem: str) -> None:
    if not condition:
        raise RefusedError(problem)


def _row(words: list[bytes], comment: bytes, dtype: type[np.floating], missing: str, first_index: int) -> Row:
    grade = np.nan if MISSING.fullmatch(words[0]) else _number(words[0], np.float64)
    grade = np.nan if grade == -1 else grade
    _demand(not grade < 0, "negative grade")
    query = None
    rest = words[1:]
    if rest and rest[0].lower().startswith(b"qid:"):
        found = QUERY.fullmatch(rest[0])
        _demand(found is not None, "bad query id")
        query = _text(found[1])
        rest = rest[1:]
    features: list[tuple[int, float]] = []
    for word in rest:
        found = FEATURE.fullmatch(word)
        _demand(found is not None, "not index:value")
        index, value = int(found[1]), found[2]
        _demand(first_index <= index <= LARGEST_INDEX, "index out of range")
        _demand(not features or features[-1][0] < index - first_index, "indices not rising")
        features.append((index - first_index, _value(value, dtype, missing)))
    return Row(grade, query, features, _text(DOCUMENT.match(comment)[1]))


def _value(word: bytes, dtype: type[np.floating], missing: str) -> float:
    if MISSING.fullmatch(word):
        _demand(missing != "error", "missing value")
        return 0.0 if missing == "zero" else float("nan")
    return _number(word, dtype)


def _number(word: bytes, dtype: type[np.floating]) -> float:
    _demand(NUMBER.fullmatch(word) is not None, "not a number")
    value = float(word)
    with np.errstate(over="ignore"):
        _demand(bool(np.isfinite(dtype(value))), "too large")
    return value


def _text(data: bytes) -> str:
    _demand(not re.search(rb"[\x00-\x1f]", data), "control character")
    return data.decode(errors="surrogateescape")
