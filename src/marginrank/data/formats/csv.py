"""CSV and TSV: a line that names the columns, then one line per document."""

from __future__ import annotations

import csv
import io
import re
import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.column_roles import (
    QUERY_COLUMNS,
    TABLE_OPTIONS,
    ColumnRoles,
    RowError,
    check_pyarrow,
    choose_read_columns,
    feature_advice,
)
from marginrank.data.formats.base import Format
from marginrank.data.formats.row_writer import check_unicode, written_rows
from marginrank.data.formats.text_files import (
    BLOCK_BYTES,
    DECIMAL,
    Paths,
    Tokens,
    create_text,
    line_blocks,
    plain_suffix,
    quoted,
    text_blocks,
)
from marginrank.data.frames import feature_columns, label_columns, part_of
from marginrank.data.queries import Queries
from marginrank.data.table_builder import RowBlock, RowFormat, TableBuilder, TableOptions, read_files
from marginrank.data.text_arrays import as_text, id_array
from marginrank.errors import DataError
from marginrank.runtime.text import count
from marginrank.runtime.threads import in_order
from marginrank.typing import AnyArray

#: Characters after which a field is taken to have no end; Python's own limit is shorter than some texts.
LONGEST_FIELD: Final = 1 << 24
UNCLOSED: Final = "a quote is never closed; close it, or put the field in quotes and write the quote twice"
_LIMIT_LOCK: Final = threading.Lock()


def csv_records(path: Path, separator: str, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Yield the line that each record of a file begins on, and its fields; blank lines are left out."""
    with closing(line_blocks(path, block_bytes)) as lines:
        yield from records_of(text_blocks(lines, path), separator)


def records_of(blocks: Iterable[Tokens], separator: str) -> Iterator[tuple[int, list[str]]]:
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

    def __init__(self, blocks: Iterable[Tokens]) -> None:
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

    def _text(self, blocks: Iterable[Tokens]) -> Iterator[str]:
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


#: What stands for a missing number.
_MISSING: Final = ("", "NULL", "Null", "null", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None")
TRUTH: Final = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
#: What Arrow also takes for a number.
_NOT_FINITE: Final = re.compile(r"-?(inf(inity)?|nan(\([0-9a-z_]*\))?)", re.IGNORECASE)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]*,[0-9]+")


def record_blocks(blocks: Iterable[Tokens], separator: str) -> Iterator[Tokens]:
    """Cut text where records end, as quoted fields may hold line ends."""
    from marginrank.data.formats import delimited_kernel as kernel  # noqa: PLC0415

    rest, state = b"", kernel.START
    for block in blocks:
        # Arrow and Python take other ends of lines differently inside quotes.
        data, path = block.data.replace(b"\r\n", b"\n"), block.path
        first = block.lines_before - rest.count(b"\n")
        end = len(data)
        if rest or b'"' in data:
            end, state = kernel.last_record_end(np.frombuffer(data, dtype=np.uint8), ord(separator), state)
        if end:
            yield Tokens(rest + data[:end], path, first)
            rest, first = data[end:], block.lines_before + data.count(b"\n", 0, end)
        else:
            rest += data
        if len(rest) > LONGEST_FIELD:
            break
    if rest:
        raise DataError(UNCLOSED, path=path, line=first + 1)


@dataclass(frozen=True)
class Sheet:
    """What is known of a file before its rows are read.

    Args:
        names: Names of its columns.
        separator: What separates its fields.
        chosen: The columns to read.
        truths: Columns of numbers that hold true and false.
        how: How to read them.
    """

    names: tuple[str, ...]
    separator: str
    chosen: ColumnRoles
    truths: frozenset[str]
    how: RowFormat

    @property
    def places(self) -> dict[str, int]:
        """Where each column stands that is read; others may have the same name, or none."""
        return {name: self.names.index(name) for name in (*self.chosen.labels, *self.chosen.numbers)}

    def part(self, block: Tokens) -> RowBlock | None:
        """Read whole records, or raise the first thing that is wrong in them; None where there are none."""
        table = self._by_arrow(block)
        if table is None:
            # Arrow says neither on which line it failed nor why.
            table = self._by_record(block)
        if not table.num_rows:
            return None
        try:
            part = part_of(table, self.chosen, self.how)
            self._check_ids(part)
        except RowError as error:
            line, _ = next(islice(self._records(block), error.row, None))
            raise error.on_line(line) from None
        return part

    def _records(self, block: Tokens) -> Iterator[tuple[int, list[str]]]:
        return records_of([block], self.separator)

    def _by_arrow(self, block: Tokens) -> Any:
        """Read the chosen columns with Arrow; None where it cannot."""
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import csv  # noqa: PLC0415

        places = {name: str(place) for name, place in self.places.items()}
        types = {places[name]: pa.bool_() if name in self.truths else pa.float64() for name in self.chosen.numbers}
        read = csv.ReadOptions(
            use_threads=False, column_names=[str(k) for k in range(len(self.names))], block_size=len(block.data) + 1
        )
        convert = csv.ConvertOptions(
            column_types=types | {places[name]: pa.string() for name in self.chosen.labels},
            include_columns=list(places.values()),
            null_values=list(_MISSING),
        )
        parse = csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        try:
            table = csv.read_csv(
                pa.BufferReader(block.data), read_options=read, parse_options=parse, convert_options=convert
            )
        except pa.ArrowInvalid:
            return None
        return table.rename_columns(list(places))

    def _by_record(self, block: Tokens) -> Any:
        """Read the chosen columns record by record, or raise the first thing that is wrong in them."""
        import pyarrow as pa  # noqa: PLC0415

        numbers = {name: array("d") for name in self.chosen.numbers}
        labels: dict[str, list[str]] = {name: [] for name in self.chosen.labels}
        places = self.places
        for line, fields in self._records(block):
            if len(fields) != len(self.names):
                problem = _other_length(len(fields), len(self.names), self.separator)
                raise DataError(problem, path=block.path, line=line)
            for name, column in numbers.items():
                word = fields[places[name]]
                try:
                    column.append(_number(word))
                except ValueError:
                    advice = _way_out(word, name, self.chosen, dict(zip(self.names, fields, strict=True)))
                    problem = f"column {name!r} holds {quoted(word.encode())}, not a number; {advice}"
                    raise DataError(problem, path=block.path, line=line) from None
            for name, words in labels.items():
                words.append(fields[places[name]])
        columns = {name: pa.array(words, pa.string()) for name, words in labels.items()}
        return pa.table(columns | {name: pa.array(np.array(column)) for name, column in numbers.items()})

    def _check_ids(self, part: RowBlock) -> None:
        """Refuse rows without a query or a group."""
        for labels, what in ((part.queries, "query id"), (part.groups, "document group")):
            words: Sequence[str] = [] if labels is None else labels.values.tolist()
            if labels is not None and "" in words:
                row = int(np.argmax(labels.codes == words.index("")))
                raise RowError(row, None, f"has no {what}; every row needs one")


def _other_length(found: int, expected: int, separator: str) -> str:
    mark = {",": "a comma", ";": "a semicolon", "\t": "a tab"}[separator]
    return f"{count(found, 'field')} instead of {expected}; put quotes around fields that hold {mark} or a line end"


def _number(word: str) -> float:
    """Read a number, NaN where it is missing.

    >>> _number(" -1.5 "), _number("NA"), _number("true")
    (-1.5, nan, 1.0)
    """
    stripped = word.strip(" \t")
    if DECIMAL.fullmatch(stripped.encode()):
        return float(stripped)
    if _NOT_FINITE.fullmatch(stripped):
        return float(stripped.partition("(")[0])
    if stripped in _MISSING:
        return float("nan")
    if stripped in TRUTH:
        return TRUTH[stripped]
    raise ValueError(word)


def _way_out(word: str, name: str, chosen: ColumnRoles, row: Mapping[str, str]) -> str:
    if _DECIMAL_COMMA.fullmatch(word.strip()):
        return "write decimal points instead of commas"
    if name == chosen.grade:
        return "grades are numbers such as 0, 1 and 2"
    return feature_advice([feature for feature in chosen.features if _is_number(row[feature])])


def _is_number(word: str) -> bool:
    try:
        _number(word)
    except ValueError:
        return False
    return True


def write_delimited(path: str | Path, queries: Queries) -> None:
    """Write queries as CSV, or as TSV where the suffix is ``.tsv``: columns as in `write_parquet`.

    Every number is written with the fewest digits that are read back as the same number, a missing one as nothing.
    Weights and document groups are left out.
    """
    separator = "\t" if plain_suffix(Path(path)) in (".tsv", ".tab") else ","
    labels, names = label_columns(queries), feature_columns(queries)
    for name in names:
        if not name or name != name.strip():
            raise DataError(f"feature name {name!r} is empty, or begins or ends with a blank; rename it")
    check_unicode(queries, "a CSV file")
    ids = as_text(queries.query_ids).tolist()
    if "" in ids:
        raise DataError("a query id is empty, which CSV cannot tell from a missing one; write .parquet or .jsonl")
    quoted_ids = [_field(query, separator) for query in ids]
    with create_text(path) as file:
        file.write(separator.join(_field(name, separator) for name in (*labels, *names)) + "\n")
        for row in written_rows(queries):
            head = [quoted_ids[row.query]]
            if row.grade is not None:
                head.append(row.grade)
            if row.document is not None:
                head.append(_field(row.document, separator))
            file.write(separator.join([*head, *row.features]) + "\n")


def _field(word: str, separator: str) -> str:
    """Put quotes around a word that holds a separator, a quote or a line end.

    >>> _field("d7", ","), _field('2" pipe, steel', ",")
    ('d7', '"2"" pipe, steel"')
    """
    if "\r" in word or "\0" in word:
        raise DataError(f"{word!r} holds a carriage return or a NUL, which CSV cannot hold; write .parquet or .jsonl")
    if separator in word or '"' in word or "\n" in word:
        return '"' + word.replace('"', '""') + '"'
    return word


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
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
        on_disk: Keep features in a temporary file where they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, _join, TableOptions(n_jobs, max_memory, on_disk), options)


def _join(words: Sequence[AnyArray]) -> AnyArray:
    return id_array([word for part in words for word in part.tolist()])


def _read_file(path: Path, how: RowFormat, assembly: TableBuilder) -> None:
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

    def _choose(self, named: Mapping[str, Any]) -> ColumnRoles:
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

    def sheet(self, how: RowFormat) -> Sheet:
        """Choose the columns to read, and see in the first row which of them hold true and false."""
        chosen = self._choose(how.named)
        rows = islice(csv_records(self.path, self.separator, _HEAD_BYTES), 1, None)
        first = dict(zip(self.names, next(rows, (0, list[str]()))[1], strict=False))
        truths = frozenset(name for name in chosen.numbers if first.get(name) in TRUTH)
        return Sheet(self.names, self.separator, chosen, truths, how)

    def below(self, blocks: Iterator[Tokens]) -> Iterator[Tokens]:
        """Yield what stands below the names."""
        for block in blocks:
            at, left = 0, self.n_lines - block.lines_before
            while left > 0 and (end := block.data.find(b"\n", at) + 1):
                at, left = end, left - 1
            yield Tokens(block.data[at:], block.path, max(block.lines_before, self.n_lines))

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
