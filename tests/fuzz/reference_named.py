"""Columns by name, read slowly and plainly with Python's own csv and json."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from tests.data.formats.reference_letor import RefusedError


class DoubtfulError(Exception):
    """A file that may be read or refused: its first line is damaged, or its line ends are mixed."""


#: Fields that stand for a missing number.
MISSING = {"", "NULL", "Null", "null", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None"}
TRUTH = {"true": 1.0, "false": 0.0}
WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")


def parse_csv(data: bytes, separator: str = ",") -> dict[str, Any]:
    """Read columns ``qid``, ``grade``, ``docid`` and features."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
        # Only line ends that are the same throughout are simple.
        lines = text.replace("\r\n", "\n")
        if "\r" in lines or '""' in lines.split("\n"):
            raise DoubtfulError
        if "\0" in text:
            raise RefusedError
        records = [fields for fields in _fields(lines, separator) if fields != [""]]
    except ValueError:
        raise RefusedError from None
    if not records or records[0][:3] != ["qid", "grade", "docid"]:
        raise DoubtfulError
    if len(records) < 2 or any(len(fields) != len(records[0]) for fields in records):
        raise RefusedError
    names = [name.strip() for name in records[0][3:]]
    if any(map(_may_have_another_role, names)):
        raise DoubtfulError
    if not names or len({*names, "qid", "grade", "docid", ""}) < len(names) + 4:
        raise RefusedError
    ids, grades, documents, *features = map(list, zip(*records[1:], strict=True))
    if any(len(word) > 100_000 for fields in records for word in fields):
        raise DoubtfulError
    if "" in ids:
        raise RefusedError
    whole = all(WHOLE.match(word) for word in ids)
    return {
        "qid": [int(word) for word in ids] if whole else ids,
        "grade": [_graded(_field_number(word)) for word in grades],
        "docid": documents,
        "X": {
            name: [_finite_or_nan(_field_number(word)) for word in column]
            for name, column in zip(names, features, strict=True)
        },
    }


def _fields(text: str, separator: str) -> list[list[str]]:
    """Read character after character; a quote opens a field only at its start, and must be closed."""
    records, inside, at_start = [[""]], False, True
    characters = iter(text + ("" if text.endswith("\n") else "\n"))
    for character in characters:
        if inside and character == '"':
            character = next(characters)  # noqa: PLW2901
            inside = character == '"'
            if inside:
                records[-1][-1] += '"'
                continue
        if inside:
            records[-1][-1] += character
        elif character == separator:
            records[-1].append("")
            at_start = True
            continue
        elif character == "\n":
            records.append([""])
            at_start = True
            continue
        elif at_start and character == '"':
            inside = True
        else:
            records[-1][-1] += character
        at_start = False
    if inside:
        raise RefusedError
    return records


def parse_json_lines(data: bytes) -> dict[str, Any]:
    """Read objects with ``qid``, ``grade``, ``docid`` and features."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
        if "\r" in text:
            raise DoubtfulError
        if "\0" in text:
            raise RefusedError
        records = [json.loads(line) for line in text.split("\n") if line.strip(" \t\x0b\x0c")]
    except (ValueError, RecursionError):
        raise RefusedError from None
    if not records or not all(isinstance(record, dict) for record in records):
        raise RefusedError
    names = dict.fromkeys(name for record in records for name in record)
    features = [name for name in names if name not in ("qid", "grade", "docid")]
    if any(map(_may_have_another_role, features)) or not {"qid", "grade", "docid"} <= set(names):
        raise DoubtfulError
    if not features or any(record.get(name) is None for record in records for name in ("qid", "docid")):
        raise RefusedError
    if not all(isinstance(record.get(name), str) for record in records for name in ("qid", "docid")):
        raise DoubtfulError
    if any(
        "\ud800" <= character <= "\udfff"
        for record in records
        for word in (*record, record["qid"], record["docid"])
        for character in word
    ):
        raise RefusedError
    return {
        "qid": [record["qid"] for record in records],
        "grade": [_graded(_json_number(record.get("grade"))) for record in records],
        "docid": [record["docid"] for record in records],
        "X": {name: [_finite_or_nan(_json_number(record.get(name))) for record in records] for name in features},
    }


#: Names that would make another column the query, grade or document, without case and separators.
ROLES = {"qid", "grade", "docid", "documentid", "label", "topic", "query"}


def _may_have_another_role(name: str) -> bool:
    return re.sub(r"[\s_-]", "", name).lower() in ROLES


def _field_number(word: str) -> float:
    word = word.strip(" \t")
    if NUMBER.match(word):
        return float(word)
    if word in MISSING or re.fullmatch(r"-?nan(\([0-9a-z_]*\))?", word, re.IGNORECASE):
        return math.nan
    if word.lower() in TRUTH and word in (word.lower(), word.upper(), word.title()):
        return TRUTH[word.lower()]
    raise RefusedError


def _json_number(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise RefusedError
    try:
        return float(value)
    except OverflowError:
        raise RefusedError from None


def _graded(number: float) -> float:
    if number == -1:
        return math.nan
    if math.isinf(number) or number < 0:
        raise RefusedError
    return number


def _finite_or_nan(number: float) -> float:
    if math.isinf(number):
        raise RefusedError
    return number
