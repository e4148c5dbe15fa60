"""JSON Lines: one object per document, with a name for each value."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.column_roles import TABLE_OPTIONS, ColumnRoles, RowError, choose_read_columns, feature_advice
from marginrank.data.formats.base import Format
from marginrank.data.formats.row_writer import check_unicode, written_rows
from marginrank.data.formats.text_files import Paths, Tokens, create_text, line_blocks, quoted, text_blocks
from marginrank.data.frames import feature_columns, label_columns, row_block
from marginrank.data.queries import Queries
from marginrank.data.table_builder import RowBlock, TableBuilder, TableOptions, as_whole, read_files
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError
from marginrank.runtime.threads import in_order
from marginrank.runtime.tuned_constants import TEXT_BLOCK_BYTES
from marginrank.typing import FloatArray

_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_KINDS: Final[Mapping[type, str]] = {list: "a list", dict: "an object"}
_NOT_UNICODE: Final = "a name or an id is not valid Unicode (half of a surrogate pair); rename it"


def read_json_lines(
    paths: Paths,
    *,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    on_disk: bool = False,
    **options: Any,
) -> Queries:
    """Read JSON Lines, plain or compressed: on each line an object such as ``{"qid": "a", "grade": 2, "bm25": 7.1}``.

    Ids are text or numbers; query ids are whole numbers if all of them are, otherwise text. Names that are absent from
    an object, null and NaN are missing values.

    Args:
        paths: One file or several, which are concatenated.
        n_jobs: Number of threads; all cores by default.
        max_memory: Memory budget, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
        on_disk: Keep features in a temporary file if they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, TableOptions.of(n_jobs, max_memory, on_disk, options))


def _read_file(path: Path, options: TableOptions, builder: TableBuilder) -> None:
    """Read with the names of the first block, and once more with all names if others come up later."""
    with closing(_blocks(path, options)) as blocks:
        first = next(filter(None, map(_records, blocks)), [])
    if not first:
        raise DataError("no data in this file; it is empty")
    names = _names(first)
    try:
        columns = _first_columns(names, first, options)
        _add_rows(path, columns, options, builder)
    except _LateNameError as late:
        builder.clear()
        with closing(_blocks(path, options)) as blocks:
            others = (text for text in blocks if text.lines_before >= late.lines_before)
            for more in in_order(_block_names, others, options.n_threads):
                names |= dict.fromkeys(more)
        columns = _Columns.of(names, first, options)
        _add_rows(path, columns, options, builder)
    columns.roles.announce()


class _LateNameError(Exception):
    """The first block lacks a name.

    Args:
        lines_before: Lines before the block that has it.
    """

    def __init__(self, lines_before: int) -> None:
        super().__init__()
        self.lines_before = lines_before


def _first_columns(names: Iterable[str], first: Sequence[Mapping[str, Any]], options: TableOptions) -> _Columns:
    try:
        return _Columns.of(names, first, options)
    except DataError:
        raise _LateNameError(0) from None


def _blocks(path: Path, options: TableOptions) -> Generator[Tokens]:
    with closing(line_blocks(path, TEXT_BLOCK_BYTES, options.budget)) as blocks:
        yield from text_blocks(blocks, path)


def _add_rows(path: Path, columns: _Columns, options: TableOptions, builder: TableBuilder) -> None:
    with closing(_blocks(path, options)) as blocks:
        for block in in_order(columns.row_block, blocks, options.n_threads):
            builder.add(block)


@dataclass(frozen=True)
class _Columns:
    """The columns of a file.

    Args:
        names: Their names.
        roles: Those to read.
        types: Arrow types of those to read, which is fastest in the order of the file.
        options: How to read them.
    """

    names: frozenset[str]
    roles: ColumnRoles
    types: Mapping[str, Any]
    options: TableOptions

    @classmethod
    def of(cls, names: Iterable[str], first: Sequence[Mapping[str, Any]], options: TableOptions) -> _Columns:
        """Choose the columns to read; the first records tell their types."""
        import pyarrow as pa  # noqa: PLC0415

        roles = choose_read_columns(list(names), options.columns, _text_columns(names, first))
        values = {name: next((record[name] for record in first if name in record), None) for name in names}
        types = dict.fromkeys(name for name in names if name in roles.ids or name in roles.numbers)
        types |= {name: pa.bool_() if isinstance(values[name], bool) else pa.float64() for name in roles.numbers}
        types |= {name: pa.int64() if isinstance(values[name], int) else pa.string() for name in roles.ids}
        return cls(frozenset(names), roles, types, options)

    def row_block(self, text: Tokens) -> RowBlock:
        """Read whole lines, or raise the first error in them."""
        try:
            table = _arrow_table(text.data, self.types)
            if table is None:
                # Arrow says neither on which line it fails nor why, and knows neither NaN nor large whole numbers.
                records = _records(text)
                self._check_names(_names(records), text)
                table = self._python_table(records)
            self._check_names(table.column_names, text)
            return row_block(table, self.roles, self.options)
        except RowError as error:
            raise error.on_line(_line(text, error.row)) from None

    def _check_names(self, names: Iterable[str], text: Tokens) -> None:
        if not self.names.issuperset(names):
            raise _LateNameError(text.lines_before)

    def _python_table(self, records: Sequence[Mapping[str, Any]]) -> Any:
        """Make an Arrow table of records, or raise the first error in them."""
        import pyarrow as pa  # noqa: PLC0415

        columns = {name: [record.get(name) for record in records] for name in self.types}
        numbers = {name: _NUMBERS.issuperset(map(type, columns[name])) for name in self.roles.numbers}
        for name in (name for name, is_number in numbers.items() if not is_number):
            row, value = next((row, value) for row, value in enumerate(columns[name]) if type(value) not in _NUMBERS)
            advice = feature_advice([feature for feature in self.roles.features if numbers[feature]])
            if name == self.roles.grade:
                advice = "grades are numbers such as 0, 1 and 2"
            raise RowError(row, name, (f"holds {_shown(value)}, not a number; ", advice))
        arrays = {name: pa.array(_floats(columns[name])) for name in numbers}
        return pa.table(arrays | {name: _id_array(columns[name], name) for name in self.roles.ids})


def _text_columns(names: Iterable[str], first: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that have values in the first records, none of them a number.

    >>> _text_columns(["a", "b", "c"], [{"a": "red", "b": "1", "c": None}, {"b": 2}])
    ['a']
    """
    types = {name: {type(record[name]) for record in first if name in record} - {type(None)} for name in names}
    return [name for name, kinds in types.items() if kinds and not kinds & _NUMBERS]


def _arrow_table(data: bytes, types: Mapping[str, Any]) -> Any:
    """Read whole lines with Arrow; None if it cannot.

    Args:
        data: The lines.
        types: Types of columns; those of others are inferred.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import json as arrow_json  # noqa: PLC0415

    data = data.replace(b"\r\n", b"\n")
    n_lines = data.count(b"\n")
    # Arrow takes objects over several lines, and several on one.
    if not data.startswith(b"{") or data.count(b"\n{") != n_lines - 1 or data.count(b"}\n") != n_lines:
        return None
    parse = arrow_json.ParseOptions(explicit_schema=pa.schema(types))
    read = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
        table.validate(full=True)
        _ = table.column_names
    except (ValueError, pa.ArrowException):
        return None
    return table if len(table) == n_lines else None


def _records(text: Tokens) -> list[dict[str, Any]]:
    lines = enumerate(text.data.split(b"\n"), text.lines_before + 1)
    return [_record(data, line) for line, data in lines if data and not data.isspace()]


def _record(data: bytes, line: int) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except UnicodeDecodeError:
        raise DataError("this line is not UTF-8; save the file as UTF-8", line=line) from None
    except (ValueError, RecursionError) as error:
        column = getattr(error, "colno", None)
        problem = f"this is not JSON: {quoted(data.strip())}; write one object per line"
        if data.strip() in (b"{", b"["):
            problem = "JSON over several lines; write one object per line, as frames do with lines=True"
        raise DataError(problem, line=line, column=column) from None
    if not isinstance(value, dict):
        problem = f"{quoted(data.strip())} is not an object; write one object per line, as frames do with lines=True"
        raise DataError(problem, line=line)
    return value


def _line(text: Tokens, row: int) -> int:
    """Return the line of a row."""
    lines = [line for line, data in enumerate(text.data.split(b"\n"), 1) if data and not data.isspace()]
    return text.lines_before + lines[row]


def _names(records: Iterable[Mapping[str, Any]]) -> dict[str, None]:
    """Return the names of records, in order of appearance.

    >>> list(_names([{"a": 1, "b": 2}, {"c": 4, "b": 3}]))
    ['a', 'b', 'c']
    """
    names = dict.fromkeys(chain.from_iterable(records))
    check_encodable("".join(names))
    return names


def _block_names(text: Tokens) -> Iterable[str]:
    table = _arrow_table(text.data, {})
    return _names(_records(text)) if table is None else table.column_names


def _id_array(values: Sequence[Any], name: str) -> Any:
    """Make an Arrow array of ids: whole numbers if all of them are, otherwise text."""
    import pyarrow as pa  # noqa: PLC0415

    for row, value in enumerate(values):
        if isinstance(value, list | dict):
            raise RowError(row, name, f"holds {_KINDS[type(value)]}, which is not an id; give text or a number")
    ids = [as_whole(value) for value in values]
    if all(type(value) is int and abs(value) < 2**63 for value in ids):
        return pa.array(ids, pa.int64())
    words = [None if value is None else str(value) for value in ids]
    check_encodable("".join(filter(None, words)))
    return pa.array(words, pa.string())


def check_encodable(words: str) -> None:
    """Refuse names and ids that no file in UTF-8 can hold."""
    try:
        words.encode()
    except UnicodeEncodeError:
        raise DataError(_NOT_UNICODE) from None


def _shown(value: Any) -> str:
    return quoted(value.encode(errors="backslashreplace")) if isinstance(value, str) else _KINDS[type(value)]


def _floats(column: Iterable[Any]) -> FloatArray:
    """Make doubles of numbers; whole numbers too large for one become infinite, as too large decimals do.

    >>> _floats([1, None, True, -(10**400)]).tolist()
    [1.0, nan, 1.0, -inf]
    """
    values = [np.nan if value is None else value for value in column]
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        return np.array([_float(value) for value in values])


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def write_json_lines(path: str | Path, queries: Queries) -> None:
    """Write queries as JSON Lines: names as in `write_parquet`, missing values as null.

    Every number is written with the fewest digits that are read back as the same number. Query weights and document
    groups are left out.
    """
    labels, names = label_columns(queries), feature_columns(queries)
    check_unicode(queries, "JSON")
    ids = queries.query_ids if queries.query_ids.dtype.kind in "iu" else as_text(queries.query_ids)
    spelled = [json.dumps(query, ensure_ascii=False) for query in ids.tolist()]
    keys = [f"{json.dumps(name, ensure_ascii=False)}: " for name in (*labels, *names)]
    with create_text(path) as file:
        for row in written_rows(queries):
            document = None if row.document is None else json.dumps(row.document, ensure_ascii=False)
            head = [word for word in (spelled[row.query], row.grade, document, row.weight) if word is not None]
            values = [word or "null" for word in (*head, *row.features)]
            file.write("{" + ", ".join(map("".join, zip(keys, values, strict=True))) + "}\n")


def _is_json(words: Sequence[bytes]) -> bool:
    return words[0].startswith((b"{", b"["))


FORMATS = (
    Format(
        "jsonl",
        "a JSON Lines file",
        read_json_lines,
        TABLE_OPTIONS,
        (".jsonl", ".ndjson"),
        compressed=True,
        matches=_is_json,
        write=write_json_lines,
        writes=(".jsonl", ".ndjson"),
        on_disk=True,
    ),
)
