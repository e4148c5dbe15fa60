"""Tables of text: CSV, TSV, JSON Lines and Parquet, cell by cell as they are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from marginrank.data.column_roles import spelling
from marginrank.data.formats.csv import csv_records
from marginrank.data.formats.json_lines import check_encodable
from marginrank.data.formats.text_files import line_blocks, plain_suffix
from marginrank.errors import DataError, Parameter
from marginrank.runtime.files import no_such_file
from marginrank.runtime.text import did_you_mean

_JSON_LINES: Final = (".jsonl", ".ndjson")
#: Files that hold tables.
TABLE_SUFFIXES: Final = (".csv", ".tsv", ".tab", *_JSON_LINES, ".parquet", ".pq")
_SPREADSHEETS: Final = (".xlsx", ".xls", ".ods")


@dataclass(frozen=True)
class TextTable:
    """The names of columns and the cells of rows; a missing cell is empty."""

    columns: list[str]
    rows: list[list[str]]
    #: The line that each row begins on, or its number in a file without lines.
    lines: list[int]

    def find(self, usual: Sequence[str], given: str | None = None) -> int | None:
        """Return the place of the column that is given, or else of the first with a usual name.

        >>> TextTable(["Query Text", "Doc ID"], [], []).find(["docid"])
        1
        """
        if given is not None:
            if given not in self.columns:
                listing = ", ".join(map(repr, self.columns[:8]))
                raise DataError(f"no column {given!r}; {did_you_mean(given, self.columns)}the columns are {listing}")
            return self.columns.index(given)
        spelled = {spelling(name): place for place, name in reversed(list(enumerate(self.columns)))}
        return next((spelled[name] for name in usual if name in spelled), None)

    def need(self, what: str, parameter: str, usual: Sequence[str], given: str | None = None) -> int:
        """Return the place of a column as `find` does; refuse a table without it."""
        place = self.find(usual, given)
        if place is None:
            listing = ", ".join(map(repr, self.columns[:8]))
            raise DataError(f"no column of {what} among {listing}; name it with ", Parameter(parameter, ...))
        return place


def read_text_table(path: Path) -> TextTable:
    """Read a table by its suffix: ``.jsonl``, ``.parquet``, or text with commas, semicolons or tabs."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: {no_such_file(path)}")
    kind = plain_suffix(path)
    if kind in _SPREADSHEETS:
        raise DataError("this is a spreadsheet; save it as CSV", path=path)
    try:
        if kind in (".parquet", ".pq"):
            return _parquet(path)
        return _json_lines(path) if kind in _JSON_LINES else _delimited(path)
    except DataError as error:
        raise error.at(path) from None


def _delimited(path: Path) -> TextTable:
    records = csv_records(path, _separator(path))
    _, header = next(records, (1, [""]))
    header = [header[0].removeprefix("\ufeff"), *header[1:]]
    if header == [""]:
        raise DataError("no data in this file; it is empty")
    rows, lines = [], []
    for line, record in records:
        if len(record) > len(header) or 1 < len(record) < len(header):
            raise DataError(f"{len(record)} columns, and {len(header)} in the first line", line=line)
        rows.append(record + [""] * (len(header) - len(record)))
        lines.append(line)
    return TextTable([name.strip() for name in header], rows, lines)


def _separator(path: Path) -> str:
    """Return the separator that the first line has most of: spreadsheets write semicolons in many countries."""
    if plain_suffix(path) in (".tsv", ".tab"):
        return "\t"
    first = next(iter(line_blocks(path, size=1 << 16)), b"").partition(b"\n")[0]
    return max(",;\t", key=lambda separator: first.count(separator.encode()))


def _json_lines(path: Path) -> TextTable:
    records, lines = [], []
    for line, text in text_lines(path):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError('this is not an object; write one per line, such as {"query": "...", ...}', line=line)
        try:
            records.append({as_cell(name): as_cell(value) for name, value in record.items()})
        except DataError as error:
            raise DataError(*error.message, line=line) from None
        lines.append(line)
    columns = list(dict.fromkeys(name for record in records for name in record))
    return TextTable(columns, [[record.get(name, "") for name in columns] for record in records], lines)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbers and the text of the lines of a file that are not blank."""
    number = 0
    for block in line_blocks(path):
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise DataError("this line is not UTF-8; save the file as UTF-8", line=number) from None
            if text.strip():
                yield number, text


def _parquet(path: Path) -> TextTable:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        table = parquet.read_table(path)
        columns = [[as_cell(value) for value in column.to_pylist()] for column in table.columns]
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"this cannot be read as Parquet ({' '.join(str(error).split())}); write it again") from None
    rows = [list(cells) for cells in zip(*columns, strict=True)]
    return TextTable(table.column_names, rows, list(range(1, len(rows) + 1)))


def as_cell(value: Any) -> str:
    """Write a value as text: numbers with the fewest digits, lists and objects as JSON, nothing for null and NaN.

    >>> as_cell(3.0), as_cell("a"), as_cell(None), as_cell(["x", 1]), as_cell(True), as_cell(float("nan"))
    ('3', 'a', '', '["x", 1]', 'true', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        check_encodable(value)
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, bool | list | dict) else str(value)


__all__ = ["TABLE_SUFFIXES", "TextTable", "as_cell", "read_text_table", "text_lines"]
