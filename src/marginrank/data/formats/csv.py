"""CSV and TSV files: a line that names the columns, then one line per document."""

from __future__ import annotations

import csv
import io
import re
import threading
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.column_roles import (
    TABLE_OPTIONS,
    ColumnRoles,
    RowError,
    choose_read_columns,
    feature_advice,
    is_query_name,
)
from marginrank.data.formats.base import Format
from marginrank.data.formats.row_writer import check_unicode, written_rows
from marginrank.data.formats.text_files import (
    DECIMAL,
    Paths,
    Tokens,
    create_text,
    line_blocks,
    plain_suffix,
    quoted,
    text_blocks,
)
from marginrank.data.frames import feature_columns, label_columns, row_block
from marginrank.data.queries import Queries
from marginrank.data.table_builder import TableBuilder, TableOptions, read_files
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Message, Parameter
from marginrank.runtime.text import count
from marginrank.runtime.threads import in_order
from marginrank.runtime.tuned_constants import TEXT_BLOCK_BYTES

#: Length after which a field is taken to have no end; the default of Python's csv module is shorter than some texts.
_LONGEST_FIELD: Final = 1 << 24
_UNCLOSED: Final = "a quote is never closed; close it, or put the field in quotes and write the quote twice"
_LIMIT_LOCK: Final = threading.Lock()
#: Separators by the suffix of a file, the likeliest first.
_SEPARATORS: Final = {".tsv": "\t,;", ".tab": "\t,;"}
_ANY_SEPARATOR: Final = ",;\t"
_HEAD_BYTES: Final = 1 << 14
#: Rows of a table that is read by Python.
_ROWS_AT_ONCE: Final = 1000
#: The query id of a row after the last one, which no text can hold.
_END: Final = "\0"
#: Fields of numbers that are missing.
_MISSING: Final = ("", "NULL", "Null", "null", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None")
_TRUTH: Final = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
#: What Arrow also takes for a number.
_NOT_FINITE: Final = re.compile(r"-?(inf(inity)?|nan(\([0-9a-z_]*\))?)", re.IGNORECASE)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]*,[0-9]+")


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
    and tabs are told apart by the first line. Query ids are whole numbers if all of them are, otherwise text:
    ``007`` stays ``007``. An empty field, ``NA``, ``NULL`` or ``NaN`` is a missing number.

    Args:
        paths: One file or several, which are concatenated.
        n_jobs: Number of threads; all cores by default.
        max_memory: Memory budget, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
        on_disk: Keep features in a temporary file if they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, TableOptions.of(n_jobs, max_memory, on_disk, options), untyped=True)


def _read_file(path: Path, options: TableOptions, builder: TableBuilder) -> None:
    header = _Header.of(path, options.columns.get("qid"))
    roles = header.choose(options.columns)
    try:
        with closing(_tables(header, roles, options.budget)) as tables:
            for block in in_order(partial(row_block, roles=roles, options=options), tables, options.n_threads):
                builder.add(block)
    except RowError as error:
        line, _ = next(islice(header.rows(), builder.n_rows + error.row, None))
        raise error.on_line(line) from None
    if not builder.n_rows:
        raise DataError("there are no rows below the names of the columns", path=path)
    roles.announce()


@dataclass(frozen=True)
class _Header:
    """The names of the columns of a file.

    Args:
        path: The file.
        separator: What separates its fields.
        names: Names of its columns.
        line: The line that they begin on.
    """

    path: Path
    separator: str
    names: tuple[str, ...]
    line: int

    @classmethod
    def of(cls, path: Path, qid: str | None) -> _Header:
        """Read the names of the columns, with the separator that finds a query column or else the most names."""
        headers, errors = [], []
        for separator in _SEPARATORS.get(plain_suffix(path), _ANY_SEPARATOR):
            try:
                headers.append(cls._read(path, separator))
            except DataError as error:
                # Quotes that are closed before one separator are open before another.
                errors.append(error)
        if not headers:
            raise errors[0]
        is_query = is_query_name if qid is None else qid.__eq__
        named = [header for header in headers if len(header.names) > 1 and any(map(is_query, header.names))]
        return named[0] if named else max(headers, key=lambda header: len(header.names))

    @classmethod
    def _read(cls, path: Path, separator: str) -> _Header:
        for line, fields in csv_records(path, separator, _HEAD_BYTES):
            return cls(path, separator, tuple(field.strip() for field in fields), line)
        raise DataError("no data in this file; it is empty", path=path)

    def rows(self, block_bytes: int = TEXT_BLOCK_BYTES) -> Iterator[tuple[int, list[str]]]:
        """Yield the line that each row below begins on, and its fields."""
        return islice(csv_records(self.path, self.separator, block_bytes), 1, None)

    def choose(self, columns: Mapping[str, Any]) -> ColumnRoles:
        """Choose the columns to read; refuse names that are missing, numbers or repeated."""
        repeated = [name for name, times in Counter(self.names).items() if times > 1 and name]
        if repeated:
            raise DataError(f"two columns are called {repeated[0]!r}; rename one", line=self.line)
        if all(DECIMAL.fullmatch(name.encode()) for name in self.names):
            problem = "numbers where the names of the columns should be; add a line of names"
            raise DataError(problem, line=self.line)
        roles = choose_read_columns(self.names, columns, self._text_columns())
        if "" in roles.features:
            raise DataError(
                f"column {self.names.index('') + 1} has no name; give it one, or name the feature columns with ",
                Parameter("features", ...),
                line=self.line,
            )
        return roles

    def _text_columns(self) -> list[str]:
        """Return the columns that have values in the first rows, none of them a number."""
        texts: set[str] = set()
        undecided = set(self.names)
        for _, fields in islice(self.rows(_HEAD_BYTES), _ROWS_AT_ONCE):
            row = {name: field for name, field in zip(self.names, fields, strict=False) if name in undecided}
            numbers = {name for name, field in row.items() if _resembles_number(field)}
            texts |= row.keys() - numbers
            undecided -= {name for name in numbers if row[name].strip(" \t") not in _MISSING}
            if not undecided:
                break
        return [name for name in self.names if name in texts & undecided]

    def positions(self, roles: ColumnRoles) -> dict[str, int]:
        """Return the positions of the columns to read; others may have the same name, or none."""
        return {name: self.names.index(name) for name in (*roles.ids, *roles.numbers)}


def _tables(header: _Header, roles: ColumnRoles, budget: int) -> Generator[Any]:
    """Yield the rows in Arrow tables; an empty query id or document group is null."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    null = pa.scalar(None, pa.string())
    for table in _read_tables(header, roles, budget):
        columns = dict(zip(table.column_names, table.columns, strict=True))
        for name in {roles.query, roles.group} - {None}:
            columns[name] = compute.if_else(compute.equal(columns[name], ""), null, columns[name])
        yield pa.table(columns)


def _read_tables(header: _Header, roles: ColumnRoles, budget: int) -> Iterator[Any]:
    """Read with Arrow as far as it goes, and from there on with Python.

    Arrow says neither on which line it fails nor why, and knows fewer spellings of numbers.
    """
    from pyarrow import ArrowInvalid  # noqa: PLC0415

    n_rows = 0
    try:
        for table in _arrow_tables(header, roles, budget):
            n_rows += table.num_rows
            yield table
    except ArrowInvalid:
        rows = islice(header.rows(), n_rows, None)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            yield _python_table(some, header, roles)


def _arrow_tables(header: _Header, roles: ColumnRoles, budget: int) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415

    names = list(header.positions(roles))
    end_row = header.separator.join(_END if name == roles.query else "" for name in header.names) + "\n"
    ended = False
    with closing(_BlockFile(_csv_blocks(header.path, budget, end_row.encode()))) as file:
        for batch in _open_csv(file, header, roles):
            # Inside quotes that are never closed, the end row is part of a field.
            ended = batch.num_rows > 0 and batch.column(names.index(roles.query))[-1].as_py() == _END
            table = pa.Table.from_batches([batch.slice(0, batch.num_rows - ended)]).rename_columns(names)
            if table.num_rows:
                yield table
    if not ended:
        raise pa.ArrowInvalid(_UNCLOSED)


def _open_csv(file: _BlockFile, header: _Header, roles: ColumnRoles) -> Iterable[Any]:
    """Open a file with Arrow, which finds the columns by position and returns ids as text."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    _, first = next(header.rows(_HEAD_BYTES), (0, list[str]()))
    is_truth = {name for name, field in zip(header.names, first, strict=False) if field in _TRUTH}
    types = {name: pa.bool_() if name in is_truth else pa.float64() for name in roles.numbers}
    types |= dict.fromkeys(roles.ids, pa.string())
    read = arrow_csv.ReadOptions(
        column_names=[str(position) for position in range(len(header.names))],
        skip_rows_after_names=header.line,
        block_size=_LONGEST_FIELD,
    )
    positions = {name: str(position) for name, position in header.positions(roles).items()}
    convert = arrow_csv.ConvertOptions(
        column_types={positions[name]: type_ for name, type_ in types.items()},
        include_columns=list(positions.values()),
        null_values=list(_MISSING),
    )
    parse = arrow_csv.ParseOptions(delimiter=header.separator, newlines_in_values=True)
    reader: Iterable[Any] = arrow_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)
    return reader


def _csv_blocks(path: Path, budget: int, end_row: bytes) -> Generator[bytes]:
    """Yield the text of a file, and a row after the last one."""
    with closing(line_blocks(path, TEXT_BLOCK_BYTES, budget)) as blocks:
        for block in blocks:
            yield block.replace(b"\r\n", b"\n")
    yield end_row


class _BlockFile(io.RawIOBase):
    """Blocks of text as a file, which Arrow reads in a thread of its own."""

    def __init__(self, blocks: Generator[bytes]) -> None:
        # The first block is read here because a pipe that was read before is known to this thread only.
        self._blocks, self._rest = blocks, next(blocks)
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            block = self._rest or next(self._blocks, b"")
            self._rest = block[size:] if size >= 0 else b""
            return block[:size] if self._rest else block

    def close(self) -> None:
        with self._lock:
            self._blocks.close()
        super().close()


def _python_table(rows: Sequence[tuple[int, list[str]]], header: _Header, roles: ColumnRoles) -> Any:
    """Make an Arrow table of rows, or raise the first error in them."""
    import pyarrow as pa  # noqa: PLC0415

    positions = header.positions(roles)
    numbers = {name: array("d") for name in roles.numbers}
    for line, fields in rows:
        if len(fields) != len(header.names):
            raise DataError(_other_length(len(fields), len(header.names), header.separator), line=line)
        for name, column in numbers.items():
            field = fields[positions[name]]
            try:
                column.append(_number(field))
            except ValueError:
                advice = _number_advice(field, name, roles, dict(zip(header.names, fields, strict=True)))
                problem = f"column {name!r} holds {quoted(field.encode())}, not a number; "
                raise DataError(problem, advice, line=line) from None
    ids = {name: pa.array([fields[positions[name]] for _, fields in rows], pa.string()) for name in roles.ids}
    return pa.table(ids | {name: pa.array(np.array(column)) for name, column in numbers.items()})


def _other_length(n_fields: int, expected: int, separator: str) -> str:
    mark = {",": "a comma", ";": "a semicolon", "\t": "a tab"}[separator]
    return f"{count(n_fields, 'field')} instead of {expected}; put quotes around fields that hold {mark} or a line end"


def _number(field: str) -> float:
    """Read a number, NaN if it is missing.

    >>> _number(" -1.5 "), _number("NA"), _number("true")
    (-1.5, nan, 1.0)
    """
    word = field.strip(" \t")
    if DECIMAL.fullmatch(word.encode()):
        return float(word)
    if _NOT_FINITE.fullmatch(word):
        return float(word.partition("(")[0])
    if word in _MISSING:
        return float("nan")
    if word in _TRUTH:
        return _TRUTH[word]
    raise ValueError(field)


def _number_advice(field: str, name: str, roles: ColumnRoles, row: Mapping[str, str]) -> Message:
    if _DECIMAL_COMMA.fullmatch(field.strip()):
        return "write decimal points instead of commas"
    if name == roles.grade:
        return "grades are numbers such as 0, 1 and 2"
    return feature_advice([feature for feature in roles.features if _is_number(row[feature])])


def _resembles_number(field: str) -> bool:
    """Whether a field is a number, is missing, or is a number with a decimal comma."""
    return _is_number(field) or _DECIMAL_COMMA.fullmatch(field.strip()) is not None


def _is_number(field: str) -> bool:
    try:
        _number(field)
    except ValueError:
        return False
    return True


def csv_records(path: Path, separator: str, block_bytes: int = TEXT_BLOCK_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Yield the line that each record of a file begins on, and its fields; blank lines are left out."""
    with closing(line_blocks(path, block_bytes)) as blocks:
        lines = _TextLines(text_blocks(blocks, path))
        reader = csv.reader(lines, delimiter=separator)
        while True:
            line = reader.line_num + 1
            try:
                fields = _next_record(reader)
                is_unclosed = fields is not None and lines.ended
            except csv.Error:  # a field that is too long
                is_unclosed = True
            if is_unclosed:
                raise DataError(_UNCLOSED, path=path, line=line)
            if fields is None:
                return
            if fields:
                yield line, fields


def _next_record(reader: Iterator[list[str]]) -> list[str] | None:
    """Return the fields of the next record, which may be long; the limit is one for the whole process."""
    with _LIMIT_LOCK:
        before = csv.field_size_limit(_LONGEST_FIELD)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(before)


class _TextLines:
    """The lines of blocks of text; it knows whether it was asked for one after the last."""

    def __init__(self, blocks: Iterable[Tokens]) -> None:
        self.ended = False
        self._lines = (line for block in blocks for line in _lines(block))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._lines)
        except StopIteration:
            self.ended = True
            raise


def _lines(block: Tokens) -> Iterable[str]:
    try:
        text = block.data.decode()
    except UnicodeDecodeError as error:
        byte = quoted(block.data[error.start : error.start + 1])
        problem = f"byte {byte} is not UTF-8; save the file as UTF-8"
        raise DataError(problem, path=block.path, line=block.line(error.start)) from None
    return io.StringIO(text.replace("\r\n", "\n"), newline="\n")


def write_delimited(path: str | Path, queries: Queries) -> None:
    """Write queries as CSV, or as TSV if the suffix is ``.tsv``: columns as in `write_parquet`.

    Every number is written with the fewest digits that are read back as the same number, a missing one as nothing.
    Query weights and document groups are left out.
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
            if row.weight is not None:
                head.append(row.weight)
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


def _cells(words: Sequence[bytes]) -> list[bytes]:
    return [cell.strip(b'"') for word in words for cell in re.split(rb"[,;\t]", word)]


def _names_a_query(words: Sequence[bytes]) -> bool:
    """Whether the first line names a column of query ids."""
    return any(is_query_name(cell.decode(errors="replace")) for cell in _cells(words))


def _names_columns(words: Sequence[bytes]) -> bool:
    """Whether the first line names columns, among them one of query ids.

    Columns may be called by numbers, but only commas and semicolons tell them from a line of a run.
    """
    cells = _cells(words)
    separated = any(mark in word for word in words for mark in (b",", b";"))
    return len(cells) > 1 and _names_a_query(words) and (separated or not any(map(DECIMAL.fullmatch, cells)))


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
