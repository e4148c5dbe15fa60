"""CSV and TSV: a line that names the columns, then one line per document."""

from __future__ import annotations

import io
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.delimited_records import csv_records
from marginrank.data.files import Paths, create_text, line_blocks, plain_suffix
from marginrank.data.places import DECIMAL, quoted
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.data.row_text import check_unicode, written_rows
from marginrank.data.tables import (
    QUERY_COLUMNS,
    TABLE_OPTIONS,
    Columns,
    RowError,
    check_pyarrow,
    choose_read_columns,
    feature_advice,
    feature_columns,
    from_frame,
    label_columns,
    read_files,
)
from marginrank.data.text import as_text, id_array
from marginrank.errors import DataError
from marginrank.memory import check_memory
from marginrank.words import count

#: Separators by the suffix of a file, the likeliest first.
_SEPARATORS: Final = {".tsv": "\t,;", ".tab": "\t,;"}
_ANY_SEPARATOR: Final = ",;\t"
#: What stands for a missing number.
_MISSING: Final = ("", "NULL", "Null", "null", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None")
_TRUTH: Final = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
#: What Arrow also takes for a number.
_NOT_FINITE: Final = re.compile(r"-?(inf(inity)?|nan(\([0-9a-z_]*\))?)", re.IGNORECASE)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]*,[0-9]+")
_BLOCK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 1 << 14
_ROWS_AT_ONCE: Final = 10_000


def read_delimited(paths: Paths, *, max_memory: int | str | None = None, **options: Any) -> Queries:
    """Read CSV or TSV files, plain or compressed; options are those of `from_frame`.

    The first line names the columns. Fields may be quoted, and then hold separators and line ends; commas, semicolons
    and tabs are told apart by the first line. Query ids are whole numbers where all of them are, otherwise text:
    ``007`` stays ``007``. An empty field, ``NA``, ``NULL`` or ``NaN`` is a missing number.

    Args:
        paths: One file or several, which are put one after the other.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, max_memory, options)


def _read_file(path: Path, budget: int, options: dict[str, Any]) -> Queries:
    check_pyarrow(path)
    sheet = _Sheet.of(path, options.get("qid"))
    chosen = sheet.choose(options)
    table = _by_arrow(sheet, chosen, budget)
    if table is None:
        # Arrow says neither on which line it failed nor why.
        table = _by_line(sheet, chosen, budget)
    if not table.num_rows:
        raise DataError("there are no rows below the names of the columns", path=path)
    try:
        return from_frame(_with_ids(table, chosen), **{**options, "features": chosen.features})
    except RowError as error:
        raise error.on_line(sheet.line_of(error.row)) from None


@dataclass(frozen=True)
class _Sheet:
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
    def of(cls, path: Path, qid: str | None) -> _Sheet:
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
    def _read(cls, path: Path, separator: str) -> _Sheet:
        for line, fields in csv_records(path, separator, _HEAD_BYTES):
            lines = line + sum(field.count("\n") for field in fields)
            return cls(path, separator, tuple(field.strip() for field in fields), lines)
        raise DataError("no data in this file; it is empty", path=path)

    def choose(self, options: dict[str, Any]) -> Columns:
        """Choose the columns to read, and refuse names that say nothing."""
        repeated = [name for name, times in Counter(self.names).items() if times > 1 and name]
        if repeated:
            raise self.error(self.n_lines, f"two columns are called {repeated[0]!r}; rename one")
        if all(DECIMAL.fullmatch(name.encode()) for name in self.names):
            raise self.error(self.n_lines, "numbers where the names of the columns should be; add a line of names")
        chosen = choose_read_columns(self.names, options)
        if "" in chosen.features:
            raise self.error(
                self.n_lines,
                f"column {self.names.index('') + 1} has no name; if it is the index of a frame, write the file with "
                "index=False, or name the feature columns with features=",
            )
        return chosen

    def records(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the names: the line that each begins on, and its fields."""
        return islice(csv_records(self.path, self.separator, block_bytes), 1, None)

    def line_of(self, row: int) -> int:
        """Find the line that a row begins on."""
        return next(islice(self.records(), row, None))[0]

    def error(self, line: int, problem: str) -> DataError:
        """Say what is wrong on a line."""
        return DataError(problem, path=self.path, line=line)


class _Rows(io.RawIOBase):
    """The bytes of a file below the names of its columns; it keeps the error that ended it."""

    def __init__(self, sheet: _Sheet) -> None:
        self.error: DataError | None = None
        self._blocks = line_blocks(sheet.path, _BLOCK_BYTES)
        self._ready = memoryview(b"")
        lines = sheet.n_lines
        # The file is opened here, and not on a thread of Arrow's that knows nothing of pipes that are kept.
        for block in self._blocks:
            at = 0
            while lines and (end := block.find(b"\n", at) + 1):
                at, lines = end, lines - 1
            if not lines:
                self._ready = memoryview(block[at:].replace(b"\r\n", b"\n"))
                break

    def stop(self) -> None:
        """End here, whatever is left."""
        self._blocks, self._ready = iter(()), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            try:
                block = next(self._blocks, None)
            except DataError as error:
                self.error = error
                raise
            if block is None:
                return 0
            self._ready = memoryview(block.replace(b"\r\n", b"\n"))
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n


def _by_arrow(sheet: _Sheet, chosen: Columns, budget: int) -> Any:
    """Read the chosen columns with Arrow; None where it cannot."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    first = next(sheet.records(_HEAD_BYTES), (0, list[str]()))[1]
    if len(first) != len(sheet.names):
        return None
    # By their places, as names may be repeated or empty.
    places = {name: str(sheet.names.index(name)) for name in (*chosen.labels, *chosen.numbers)}
    types = {
        places[name]: pa.bool_() if first[int(places[name])] in _TRUTH else pa.float64() for name in chosen.numbers
    }
    rows = _Rows(sheet)
    batches: list[Any] = []
    reader: Any = ()
    try:
        reader = arrow_csv.open_csv(
            pa.PythonFile(rows, mode="r"),
            read_options=arrow_csv.ReadOptions(
                column_names=[str(k) for k in range(len(sheet.names))], block_size=_BLOCK_BYTES
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=sheet.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types | {places[name]: pa.string() for name in chosen.labels},
                include_columns=list(places.values()),
                null_values=list(_MISSING),
            ),
        )
        n_bytes = 0
        for batch in reader:
            batches.append(batch)
            n_bytes += batch.nbytes
            check_memory(2 * n_bytes, "the columns of this table", budget, path=sheet.path)
    except pa.ArrowInvalid:
        if rows.error is not None:
            raise rows.error from None
        return None
    finally:
        # A thread of Arrow's that still reads when Python exits would end the process.
        rows.stop()
        with suppress(pa.ArrowInvalid):
            for _ in reader:
                pass
    table = pa.Table.from_batches(batches, schema=reader.schema)
    return table.rename_columns(list(places))


def _by_line(sheet: _Sheet, chosen: Columns, budget: int) -> Any:
    """Read the chosen columns row by row, or raise the first thing that is wrong in them."""
    import pyarrow as pa  # noqa: PLC0415

    numbers = {name: array("d") for name in chosen.numbers}
    labels: dict[str, list[str]] = {name: [] for name in chosen.labels}
    places = {name: sheet.names.index(name) for name in (*chosen.labels, *chosen.numbers)}
    n_bytes = 0
    for row, (line, fields) in enumerate(sheet.records()):
        if len(fields) != len(sheet.names):
            raise sheet.error(line, _other_length(len(fields), len(sheet.names), sheet.separator))
        for name, column in numbers.items():
            try:
                column.append(_number(fields[places[name]]))
            except ValueError:
                word = fields[places[name]]
                advice = _way_out(word, name, chosen, dict(zip(sheet.names, fields, strict=True)))
                problem = f"column {name!r} holds {quoted(word.encode())}, not a number; {advice}"
                raise sheet.error(line, problem) from None
        for name, words in labels.items():
            words.append(fields[places[name]])
        n_bytes += 8 * len(numbers) + sum(len(fields[places[name]]) + 64 for name in labels)
        if row % _ROWS_AT_ONCE == 0:
            check_memory(2 * n_bytes, "the columns of this table", budget, path=sheet.path)
    columns = {name: pa.array(words, pa.string()) for name, words in labels.items()}
    return pa.table(columns | {name: pa.array(np.array(column)) for name, column in numbers.items()})


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
    if stripped in _TRUTH:
        return _TRUTH[stripped]
    raise ValueError(word)


def _way_out(word: str, name: str, chosen: Columns, row: Mapping[str, str]) -> str:
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


def _with_ids(table: Any, chosen: Columns) -> Any:
    """Make whole numbers of ids where all are; refuse rows without a query or a group."""
    import pyarrow as pa  # noqa: PLC0415

    for name, what in ((chosen.query, "query id"), (chosen.group, "document group")):
        if name is None:
            continue
        column = table.column(name)
        words = column.unique().to_pylist()
        if "" in words:
            raise RowError(column.index("").as_py(), None, f"has no {what}; every row needs one")
        if id_array(words).dtype.kind == "i":
            table = table.set_column(table.column_names.index(name), name, column.cast(pa.int64()))
    return table


def write_delimited(path: str | Path, queries: Queries) -> None:
    """Write queries as CSV, or as TSV where the suffix is ``.tsv``: columns as in `write_parquet`.

    Every number is written with the fewest digits that are read back as the same number, a missing one as nothing.
    Weights and document groups are left out.
    """
    separator = "\t" if plain_suffix(Path(path)) in _SEPARATORS else ","
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
    ),
)
