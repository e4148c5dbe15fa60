"""JSON Lines: one object per document, with a name for each value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from marginrank.data.column_roles import (
    DOCUMENT_COLUMNS,
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
from marginrank.data.formats.text_files import Paths, Tokens, create_text, line_blocks, quoted, text_blocks
from marginrank.data.frames import check_column, check_grades, feature_columns, label_columns
from marginrank.data.grouping import join
from marginrank.data.queries import Queries
from marginrank.data.table_builder import Labels, RowBlock, RowFormat, TableBuilder, TableOptions, read_files
from marginrank.data.text_arrays import as_text, text_array
from marginrank.errors import DataError
from marginrank.runtime.threads import in_order
from marginrank.typing import AnyArray, FloatArray

_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_KINDS: Final[Mapping[type, str]] = {list: "a list", dict: "an object"}

#: A whole number that Python reads as 0 and Arrow as -0.
_MINUS_ZERO: Final = re.compile(rb"-0\s*[,}]")
_NOT_UNICODE: Final = "a name or an id is not valid Unicode (half of a surrogate pair); rename it"

#: Numbers where all are, otherwise Python objects.
Values: TypeAlias = FloatArray | Sequence[Any]


def parse_json(text: Tokens, id_names: frozenset[str]) -> JsonBlock:
    """Read whole lines, or raise the first thing that is wrong in them.

    Args:
        text: The lines.
        id_names: Columns that may hold ids, which are kept as they are written, as ids may be whole numbers that no
            double can hold.
    """
    columns = _by_arrow(text.data, id_names)
    if columns is not None:
        return JsonBlock(text, columns, text.n_lines)
    # Arrow says neither on which line it failed nor why.
    records = _records(text)
    return JsonBlock(text, _by_column(records, id_names), len(records))


@dataclass(frozen=True)
class JsonBlock:
    """Whole lines of a file, by the names of their values.

    Args:
        text: The lines.
        columns: Values by name, None or NaN where a line lacks one.
        n_rows: Number of objects.
    """

    text: Tokens
    columns: Mapping[str, Values]
    n_rows: int

    def part(self, chosen: ColumnRoles, how: RowFormat) -> RowBlock:
        """Check the chosen columns, and make arrays of them."""
        try:
            return self._part(chosen, how)
        except RowError as error:
            raise error.on_line(self._line(error.row)) from None

    def _part(self, chosen: ColumnRoles, how: RowFormat) -> RowBlock:
        X = np.empty((self.n_rows, len(chosen.features)), how.dtype or (np.float64 if chosen.features else np.float32))
        for k, name in enumerate(chosen.features):
            values = self._numbers(name, chosen)
            with np.errstate(over="ignore"):
                kept = values.astype(X.dtype, copy=False)
            check_column(name, values, kept, how.missing)
            X[:, k] = kept
        return RowBlock(
            chosen.features,
            X,
            None if chosen.grade is None else check_grades(chosen.grade, self._numbers(chosen.grade, chosen)),
            Labels.of(self._ids(chosen.query, "query id")),
            None if chosen.group is None else Labels.of(self._ids(chosen.group, "document group")),
            None if chosen.document is None else self._ids(chosen.document, "document id"),
            self._line(0),
        )

    def _line(self, row: int) -> int:
        """Find the line of a row."""
        lines = [line for line, text in enumerate(self.text.data.split(b"\n"), 1) if text and not text.isspace()]
        return self.text.lines_before + lines[row]

    def _numbers(self, name: str, chosen: ColumnRoles) -> FloatArray:
        """Return the numbers of a column, NaN where there is none."""
        column = self.columns.get(name)
        if column is None:
            return np.full(self.n_rows, np.nan)
        for row, value in () if isinstance(column, np.ndarray) else enumerate(column):
            if type(value) not in _NUMBERS:
                raise RowError(row, name, f"holds {_shown(value)}, not a number; {self._way_out(name, chosen)}")
        return _floats(column)

    def _way_out(self, name: str, chosen: ColumnRoles) -> str:
        if name == chosen.grade:
            return "grades are numbers such as 0, 1 and 2"
        return feature_advice([one for one in chosen.features if isinstance(self.columns.get(one), np.ndarray)])

    def _ids(self, name: str, what: str) -> AnyArray:
        """Return ids: whole numbers, decimal ones, text where any is text, or Python numbers of both kinds."""
        ids = list(self.columns.get(name, [None] * self.n_rows))
        kinds = set(map(type, ids))
        for kind in kinds & {list, dict}:
            row = next(row for row, value in enumerate(ids) if type(value) is kind)
            raise RowError(row, name, f"holds {_KINDS[kind]}, which is not an id; give text or a number")
        if type(None) in kinds:
            raise RowError(ids.index(None), None, f"has no {what}; every row needs one")
        if kinds <= {int, float} and all(abs(value) < 2**63 for value in ids):
            return np.array(ids, dtype=object if len(kinds) > 1 else None)
        words = list(map(str, ids))
        check_encodable("".join(words))
        return text_array(words)


def check_encodable(words: str) -> None:
    """Refuse names and ids that no file in UTF-8 can hold."""
    try:
        words.encode()
    except UnicodeEncodeError:
        raise DataError(_NOT_UNICODE) from None


def _by_arrow(data: bytes, id_names: frozenset[str]) -> dict[str, Values] | None:
    """Read lines that all have the values of the first one, or some of them, with Arrow; None where it cannot."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import json as arrow_json  # noqa: PLC0415

    data = data.replace(b"\r\n", b"\n")
    n_lines = data.count(b"\n")
    # Arrow takes objects over several lines, and several on one.
    if not data.startswith(b"{") or data.count(b"\n{") != n_lines - 1 or data.count(b"}\n") != n_lines:
        return None
    try:
        data.decode()
        first = json.loads(data[: data.index(b"\n")])
        types = {name: _arrow_type(value, name in id_names) for name, value in first.items()}
        if None in types.values() or _MINUS_ZERO.search(data):
            return None
        parse = arrow_json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="error")
        read = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        table = arrow_json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
        table.validate(full=True)
    except (ValueError, RecursionError, AttributeError, pa.ArrowException):
        return None
    return {name: _values(table.column(name), name in id_names) for name in types} if len(table) == n_lines else None


def _arrow_type(value: Any, is_id: bool) -> Any:
    """Return the type that a column has if all values are as the first; None where Arrow is of no use."""
    import pyarrow as pa  # noqa: PLC0415

    types: Mapping[type, Any] = {int: pa.float64(), float: pa.float64(), type(None): pa.float64(), bool: pa.bool_()}
    if is_id:
        types = {int: pa.int64()}
    return {**types, str: pa.string()}.get(type(value))


def _values(column: Any, is_id: bool) -> Values:
    import pyarrow as pa  # noqa: PLC0415

    if is_id or column.type == pa.string():
        return list(column.to_pylist())
    return np.asarray(column.cast(pa.float64()).to_numpy())


def _records(block: Tokens) -> list[dict[str, Any]]:
    lines = enumerate(block.data.split(b"\n"), block.lines_before + 1)
    return [_object(text, block, line) for line, text in lines if text and not text.isspace()]


def _by_column(records: Sequence[Mapping[str, Any]], id_names: frozenset[str]) -> dict[str, Values]:
    return {
        name: _floats(column) if name not in id_names and _NUMBERS.issuperset(map(type, column)) else column
        for name, column in _by_name(records).items()
    }


def _object(text: bytes, block: Tokens, line: int) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except UnicodeDecodeError:
        raise DataError("this line is not UTF-8; save the file as UTF-8", path=block.path, line=line) from None
    except (ValueError, RecursionError) as error:
        column = getattr(error, "colno", None)
        problem = f"this is not JSON: {quoted(text.strip())}; write one object per line"
        if text.strip() in (b"{", b"["):
            problem = "JSON over several lines; write one object per line, as frames do with lines=True"
        raise DataError(problem, path=block.path, line=line, column=column) from None
    if not isinstance(value, dict):
        problem = f"{quoted(text.strip())} is not an object; write one object per line, as frames do with lines=True"
        raise DataError(problem, path=block.path, line=line)
    return value


def _by_name(records: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Turn records into columns, None where a record lacks a name.

    >>> _by_name([{"a": 1, "b": 2}, {"b": 3}])
    {'a': [1, None], 'b': [2, 3]}
    """
    names = dict.fromkeys(map(tuple, records))
    if len(names) == 1:
        return dict(zip(*names, zip(*(record.values() for record in records), strict=True), strict=True))
    return {name: [record.get(name) for record in records] for name in dict.fromkeys(chain.from_iterable(names))}


def _shown(value: Any) -> str:
    return quoted(value.encode(errors="backslashreplace")) if isinstance(value, str) else _KINDS[type(value)]


def _floats(column: Iterable[Any]) -> FloatArray:
    """Make doubles of numbers; whole numbers too large for one become infinite, as too large decimals do.

    >>> _floats([1, None, True, -(10**400)]).tolist()
    [1.0, nan, 1.0, -inf]
    """
    if isinstance(column, np.ndarray):
        return column
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


#: Options that name columns of ids.
_ID_OPTIONS: Final = ("qid", "document_id", "document_group")
_BLOCK_BYTES: Final = 2 << 20


def read_json_lines(
    paths: Paths,
    *,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    on_disk: bool = False,
    **options: Any,
) -> Queries:
    """Read JSON Lines, plain or compressed: on each line an object such as ``{"qid": "a", "grade": 2, "bm25": 7.1}``.

    Ids are text or numbers as they are written. Names that are absent from an object, null and NaN are missing values.

    Args:
        paths: One file or several, which are put one after the other.
        n_jobs: Threads; all cores by default.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
        on_disk: Keep features in a temporary file where they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, _join, TableOptions(n_jobs, max_memory, on_disk), options)


def _join(ids: Sequence[AnyArray]) -> AnyArray:
    """Put ids one after the other: Python numbers of both kinds are decimal numbers, unless other ids are text."""
    numbers = all(part.dtype.kind in "ifO" for part in ids)
    return join([part.astype(np.float64) if numbers and part.dtype == object else part for part in ids])


def _read_file(path: Path, how: RowFormat, assembly: TableBuilder) -> None:
    check_pyarrow(path)
    names: dict[str, None] = {}
    while not _read_all(path, how, assembly, names):
        # Names that came up late changed what the columns are for.
        assembly.clear()


def _read_all(path: Path, how: RowFormat, assembly: TableBuilder, names: dict[str, None]) -> bool:
    """Add all rows, and the names that come up; return whether all rows were read by the names that are known now."""
    parse = partial(parse_json, id_names=_id_names(how.named))
    chosen, n_rows = _chosen(names, how), 0
    with closing(line_blocks(path, _BLOCK_BYTES, how.budget)) as lines:
        for block in in_order(parse, text_blocks(lines, path), how.n_threads):
            if block.columns.keys() - names.keys():
                names.update(dict.fromkeys(block.columns))
                check_encodable("".join(names))
                before, chosen = chosen, _chosen(names, how)
                if assembly.n_rows and (chosen is None or before is None or chosen.roles != before.roles):
                    assembly.clear()
            if chosen is not None and assembly.n_rows == n_rows and block.n_rows:
                assembly.add(block.part(chosen, how))
            n_rows += block.n_rows
    if n_rows == 0:
        raise DataError("no data in this file; it is empty", path=path)
    if chosen is None:
        choose_read_columns(list(names), how.named)
    return assembly.n_rows == n_rows


def _chosen(names: Mapping[str, None], how: RowFormat) -> ColumnRoles | None:
    """Choose columns among the names that are known; None where they are too few."""
    try:
        return choose_read_columns(list(names), how.named)
    except DataError:
        return None


def _id_names(named: Mapping[str, Any]) -> frozenset[str]:
    """Name the columns that may hold ids."""
    features = named.get("features")
    numbers = () if features is None else [features] if isinstance(features, str) else features
    return frozenset(
        {*QUERY_COLUMNS, *DOCUMENT_COLUMNS, *(named[name] for name in _ID_OPTIONS if named.get(name))} - set(numbers)
    )


def write_json_lines(path: str | Path, queries: Queries) -> None:
    """Write queries as JSON Lines: names as in `write_parquet`, missing values as null.

    Every number is written with the fewest digits that are read back as the same number. Weights and document groups
    are left out.
    """
    labels, names = label_columns(queries), feature_columns(queries)
    check_unicode(queries, "JSON")
    ids = queries.query_ids if queries.query_ids.dtype.kind in "iu" else as_text(queries.query_ids)
    spelled = [json.dumps(query, ensure_ascii=False) for query in ids.tolist()]
    keys = [f"{json.dumps(name, ensure_ascii=False)}: " for name in (*labels, *names)]
    with create_text(path) as file:
        for row in written_rows(queries):
            document = None if row.document is None else json.dumps(row.document, ensure_ascii=False)
            head = [word for word in (spelled[row.query], row.grade, document) if word is not None]
            values = [*head, *(word or "null" for word in row.features)]
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
