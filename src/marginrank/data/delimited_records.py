"""Records of CSV text: their fields, and the lines that they begin on."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from marginrank.data.files import BLOCK_BYTES, line_blocks
from marginrank.data.places import TextBlock, quoted, text_blocks
from marginrank.errors import DataError

#: Characters after which a field is taken to have no end; Python's own limit is shorter than some texts.
LONGEST_FIELD: Final = 1 << 24
UNCLOSED: Final = "a quote is never closed; close it, or put the field in quotes and write the quote twice"
_LIMIT_LOCK: Final = threading.Lock()


def csv_records(path: Path, separator: str, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Yield the line that each record of a file begins on, and its fields; blank lines are left out."""
    with closing(line_blocks(path, block_bytes)) as lines:
        yield from records_of(text_blocks(lines, path), separator)


def records_of(blocks: Iterable[TextBlock], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line that each record of some text begins on, and its fields; blank lines are left out."""
    lines = _TextLines(blocks)
    reader = csv.reader(lines, delimiter=separator)
    line = 1
    while True:
        try:
            fields = _next_record(reader)
            unclosed = fields is not None and lines.ended
        except csv.Error:  # a field that is too long
            unclosed = True
        before = lines.before or 0
        if unclosed:
            raise DataError(UNCLOSED, path=lines.path, line=before + line)
        if fields is None:
            return
        if fields:
            yield before + line, fields
        line = reader.line_num + 1


def _next_record(reader: Iterator[list[str]]) -> list[str] | None:
    """Return the fields of the next record, which may be long; the limit is one for the whole process."""
    with _LIMIT_LOCK:
        before = csv.field_size_limit(LONGEST_FIELD)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(before)


class _TextLines:
    """The lines of blocks of a file as text; it knows whether it was asked for one after the last."""

    def __init__(self, blocks: Iterable[TextBlock]) -> None:
        self.ended = False
        self.path: Path | None = None
        #: Lines of the file before those that were asked for.
        self.before: int | None = None
        self._lines = self._text(blocks)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._lines)
        except StopIteration:
            self.ended = True
            raise

    def _text(self, blocks: Iterable[TextBlock]) -> Iterator[str]:
        for block in blocks:
            self.path = block.path
            self.before = block.lines_before if self.before is None else self.before
            try:
                text = block.data.decode()
            except UnicodeDecodeError as error:
                at, bad = error.start, quoted(block.data[error.start : error.start + 1])
                problem = f"byte {bad} is not UTF-8; save the file as UTF-8"
                raise DataError(problem, path=block.path, line=block.line(at)) from None
            yield from io.StringIO(text.replace("\r\n", "\n"), newline="\n")
