"""Readers of ratings: CSV, TSV, JSON Lines, Parquet and Feather."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.formats.csv import csv_records
from marginrank.data.formats.text_files import COMPRESSIONS, NOT_UTF8, line_blocks
from marginrank.data.text_arrays import id_array
from marginrank.errors import DataError
from marginrank.recommend.ratings import Ratings, find_column

_ARROW: Final = (".parquet", ".feather", ".arrow")


def read_ratings(
    path: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    weight: str | None = None,
    shift: float = 0.0,
    rated: bool = True,
) -> Ratings:
    """Read ratings, one per row, with the names of the columns in the first row or in each object.

    Ids are whole numbers if all of them are, else text. Text files may be compressed.

    Args:
        path: A file ``.csv`` (commas), ``.jsonl``, ``.parquet`` or ``.feather``; any other has tabs between columns.
        user: Column of users; by default ``user``, ``user_id`` and the like.
        item: Column of items.
        rating: Column of ratings.
        weight: Column of the weight of the user.
        shift: Added to each rating.
        rated: Whether ratings are needed.
    """
    path = Path(path)
    names = {"user": user, "item": item, "rating": rating, "weight": weight}
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSIONS]
    kind = suffixes[-1] if suffixes else ""
    try:
        if kind in _ARROW:
            return Ratings.of(_arrow(path, kind), **names, shift=shift, rated=rated)
        rows = _objects(path) if kind in (".jsonl", ".ndjson") else _records(path, "," if kind == ".csv" else "\t")
        columns = _columns(rows, names, rated)
        if not columns["user"]:
            raise DataError("there are no ratings in this file")
        numbers = [None if columns[name] is None else np.array(columns[name]) for name in ("rating", "weight")]
        users, items = _ids(columns["user"]), _ids(columns["item"])
        return Ratings.of((users, items, *numbers), shift=shift, rated=rated)
    except DataError as error:
        raise error.at(path) from None


def _columns(
    rows: Iterator[tuple[int, Mapping[str, Any]]], names: Mapping[str, str | None], rated: bool
) -> dict[str, Any]:
    """Read ids of users and items, and numbers of the other columns; None for columns that are not needed."""
    chosen: dict[str, str | None] = {}
    columns: dict[str, Any] = {}
    for line, row in rows:
        if not chosen:
            chosen = {what: find_column(what, given, list(row), rated=rated) for what, given in names.items()}
            columns = {what: None if name is None else [] for what, name in chosen.items()}
        for what, name in chosen.items():
            if name is not None:
                columns[what].append(_cell(row, name, line, is_id=what in ("user", "item")))
    return columns or {"user": [], "item": [], "rating": None, "weight": None}


def _cell(row: Mapping[str, Any], name: str, line: int, *, is_id: bool) -> Any:
    value = row.get(name)
    if value is None or value == "":
        raise DataError(f"column {name!r} is empty; every rating needs one", line=line)
    if is_id:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise DataError(f"column {name!r} is {value!r}; ids are whole numbers or text", line=line)
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(f"column {name!r} is {value!r}, which is not a number", line=line) from None
    if not math.isfinite(number):
        raise DataError(f"column {name!r} is {value!r}; leave out the pairs without a rating", line=line)
    return number


def _ids(values: list[Any]) -> Any:
    """Read ids; JSON may have numbers, but not mixed with text."""
    return id_array(values) if all(isinstance(value, str) for value in values) else values


def _records(path: Path, separator: str) -> Iterator[tuple[int, dict[str, str]]]:
    names: list[str] | None = None
    for line, record in csv_records(path, separator):
        if names is None:
            names = [name.strip().partition(":")[0] for name in record]
        elif len(record) != len(names):
            raise DataError(f"{len(record)} columns, and {len(names)} in the first line", line=line)
        else:
            yield line, dict(zip(names, record, strict=True))


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    for block in line_blocks(path):
        for text in block.decode("utf-8", NOT_UTF8).splitlines():
            number += 1
            if text.strip():
                try:
                    record = json.loads(text)
                except ValueError:
                    record = None
                if not isinstance(record, dict):
                    raise DataError("not a JSON object; give one per line", line=number)
                yield number, record


def _arrow(path: Path, kind: str) -> Any:
    from pyarrow import ArrowException, feather, parquet  # noqa: PLC0415

    try:
        return parquet.read_table(path) if kind == ".parquet" else feather.read_table(path)
    except (ArrowException, OSError) as error:
        raise DataError(f"this file cannot be read ({error}); write it again") from None
