"""CSV and TSV: a line that names the columns, then one line per document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from marginrank.data.assembling import Assembly
from marginrank.data.delimited_block import TRUTH, Sheet, record_blocks
from marginrank.data.delimited_records import csv_records
from marginrank.data.delimited_writer import write_delimited
from marginrank.data.files import Paths, line_blocks, plain_suffix
from marginrank.data.places import DECIMAL, TextBlock, text_blocks
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.data.table_columns import QUERY_COLUMNS, TABLE_OPTIONS, Columns, check_pyarrow, choose_read_columns
from marginrank.data.table_reading import How, Reading, read_files
from marginrank.data.text import id_array
from marginrank.errors import DataError
from marginrank.threads import in_order
from marginrank.typing import AnyArray

#: Separators by the suffix of a file, the likeliest first.
_SEPARATORS: Final = {".tsv": "\t,;", ".tab": "\t,;"}
_ANY_SEPARATOR: Final = ",;\t"
_BLOCK_BYTES: Final = 2 << 20
_HEAD_BYTES: Final = 1 << 14


def read_delimited(
    paths: Paths,
    *,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    on_disk: bool = False,
    **options: Any,
) -> Queries:
    """Read CSV or TSV files, plain or compressed; options are those of `from_frame`.

    The first line names the columns. Fields may be quoted, and then hold separators and line ends; commas, semicolons
    and tabs are told apart by the first line. Query ids are whole numbers where all of them are, otherwise text:
    ``007`` stays ``007``. An empty field, ``NA``, ``NULL`` or ``NaN`` is a missing number.

    Args:
        paths: One file or several, which are put one after the other.
        n_jobs: Threads; all cores by default.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        on_disk: Keep features in a temporary file where they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, _join, Reading(n_jobs, max_memory, on_disk), options)


def _join(words: Sequence[AnyArray]) -> AnyArray:
    return id_array([word for part in words for word in part.tolist()])


def _read_file(path: Path, how: How, assembly: Assembly) -> None:
    check_pyarrow(path)
    head = _Head.of(path, how.named.get("qid"))
    sheet = head.sheet(how)
    with closing(line_blocks(path, _BLOCK_BYTES, how.budget)) as lines:
        blocks = record_blocks(text_blocks(lines, path), head.separator)
        for part in in_order(sheet.part, head.below(blocks), how.n_threads):
            if part is not None:
                assembly.add(part)
    if not assembly.n_rows:
        raise DataError("there are no rows below the names of the columns", path=path)


@dataclass(frozen=True)
class _Head:
    """A file whose first line has been read.

    Args:
        path: The file.
        separator: What separates its fields.
        names: Names of its columns.
        n_lines: Lines that the names take.
    """

    path: Path
    separator: str
    names: tuple[str, ...]
    n_lines: int

    @classmethod
    def of(cls, path: Path, qid: str | None) -> _Head:
        """Read the names of the columns, with the separator that finds a query column or else the most names."""
        known = QUERY_COLUMNS if qid is None else (qid,)
        sheets, errors = [], []
        for separator in _SEPARATORS.get(plain_suffix(path), _ANY_SEPARATOR):
            try:
                sheets.append(cls._read(path, separator))
            except DataError as error:
                # Quotes that are closed before one separator are open before another.
                errors.append(error)
        if not sheets:
            raise errors[0]
        named = [sheet for sheet in sheets if len(sheet.names) > 1 and set(known) & set(sheet.names)]
        return named[0] if named else max(sheets, key=lambda sheet: len(sheet.names))

    @classmethod
    def _read(cls, path: Path, separator: str) -> _Head:
        for line, fields in csv_records(path, separator, _HEAD_BYTES):
            lines = line + sum(field.count("\n") for field in fields)
            return cls(path, separator, tuple(field.strip() for field in fields), lines)
        raise DataError("no data in this file; it is empty", path=path)

    def _choose(self, named: Mapping[str, Any]) -> Columns:
        """Choose the columns to read, and refuse names that say nothing."""
        repeated = [name for name, times in Counter(self.names).items() if times > 1 and name]
        if repeated:
            raise self.error(self.n_lines, f"two columns are called {repeated[0]!r}; rename one")
        if all(DECIMAL.fullmatch(name.encode()) for name in self.names):
            raise self.error(self.n_lines, "numbers where the names of the columns should be; add a line of names")
        chosen = choose_read_columns(self.names, named)
        if "" in chosen.features:
            raise self.error(
                self.n_lines,
                f"column {self.names.index('') + 1} has no name; if it is the index of a frame, write the file with "
                "index=False, or name the feature columns with features=",
            )
        return chosen

    def sheet(self, how: How) -> Sheet:
        """Choose the columns to read, and see in the first row which of them hold true and false."""
        chosen = self._choose(how.named)
        rows = islice(csv_records(self.path, self.separator, _HEAD_BYTES), 1, None)
        first = dict(zip(self.names, next(rows, (0, list[str]()))[1], strict=False))
        truths = frozenset(name for name in chosen.numbers if first.get(name) in TRUTH)
        return Sheet(self.names, self.separator, chosen, truths, how)

    def below(self, blocks: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Yield what stands below the names."""
        for block in blocks:
            at, left = 0, self.n_lines - block.lines_before
            while left > 0 and (end := block.data.find(b"\n", at) + 1):
                at, left = end, left - 1
            yield TextBlock(block.data[at:], block.path, max(block.lines_before, self.n_lines))

    def error(self, line: int, problem: str) -> DataError:
        """Say what is wrong on a line."""
        return DataError(problem, path=self.path, line=line)


def _cells(words: Sequence[bytes]) -> list[bytes]:
    return [cell.strip(b'"') for word in words for cell in re.split(rb"[,;\t]", word)]


def _names_a_query(words: Sequence[bytes]) -> bool:
    """Whether the first line names a column of query ids."""
    return any(name.encode() in _cells(words) for name in QUERY_COLUMNS)


def _names_columns(words: Sequence[bytes]) -> bool:
    """Whether the first line names columns, among them one of query ids, and is not a row of numbers."""
    cells = _cells(words)
    return len(cells) > 1 and _names_a_query(words) and not any(map(DECIMAL.fullmatch, cells))


def _is_trec(words: Sequence[bytes]) -> bool:
    """Whether the first line is that of TREC judgements or a run, which are also called ``.tsv``."""
    number = {4: 3, 6: 4}.get(len(words))
    return number is not None and DECIMAL.fullmatch(words[number]) is not None and not _names_a_query(words)


FORMATS = (
    Format(
        "csv",
        "a CSV or TSV file",
        read_delimited,
        TABLE_OPTIONS,
        (".csv", ".tsv", ".tab"),
        compressed=True,
        gives_way=_is_trec,
        matches=_names_columns,
        write=write_delimited,
        writes=(".csv", ".tsv"),
        on_disk=True,
    ),
)
