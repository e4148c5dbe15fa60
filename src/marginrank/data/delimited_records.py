"""Records of CSV text: their fields, and the lines that they begin on."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from marginrank.data.files import BLOCK_BYTES, line_blocks
from marginrank.data.places import quoted
from marginrank.errors import DataError

#: Characters after which a field is taken to have no end; Python's own limit is shorter than some texts.
_LONGEST_FIELD: Final = 1 << 24
_LIMIT_LOCK: Final = threading.Lock()


def csv_records(path: Path, separator: str, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Yield the line that each record begins on, and its fields; blank lines are left out."""
    lines = _TextLines(path, block_bytes)
    reader = csv.reader(lines, delimiter=separator)
    line = 1
    while True:
        try:
            fields = _next_record(reader)
            unclosed = fields is not None and lines.ended
        except csv.Error:  # a field that is too long
            unclosed = True
        if unclosed:
            problem = "a quote is never closed; close it, or put the field in quotes and write the quote twice"
            raise DataError(problem, path=path, line=line)
        if fields is None:
            return
        if fields:
            yield line, fields
        line = reader.line_num + 1


def _next_record(reader: Iterator[list[str]]) -> list[str] | None:
    """Return the fields of the next record, which may be long; the limit is one for the whole process."""
    with _LIMIT_LOCK:
        before = csv.field_size_limit(_LONGEST_FIELD)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(before)


class _TextLines:
    """The lines of a file as text; it knows whether it was asked for one after the last."""

    def __init__(self, path: Path, block_bytes: int) -> None:
        self.ended = False
        self._lines = _text_lines(path, block_bytes)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._lines)
        except StopIteration:
            self.ended = True
            raise


def _text_lines(path: Path, block_bytes: int) -> Iterator[str]:
    """Yield the lines of a file as text."""
    line = 0
    for block in line_blocks(path, block_bytes):
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            at = line + block.count(b"\n", 0, error.start) + 1
            bad = quoted(block[error.start : error.start + 1])
            raise DataError(f"byte {bad} is not UTF-8; save the file as UTF-8", path=path, line=at) from None
        yield from io.StringIO(text.replace("\r\n", "\n"), newline="\n")
        line += block.count(b"\n")
