"""JSON Lines: one object per document, with a name for each value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.files import Paths, create_text, line_blocks
from marginrank.data.places import quoted
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.data.row_text import check_unicode, written_rows
from marginrank.data.tables import (
    DOCUMENT_COLUMNS,
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
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.memory import check_memory
from marginrank.typing import FloatArray

#: Options that name columns of ids.
_ID_OPTIONS: Final = ("qid", "document_id", "document_group")
_NUMBERS: Final = frozenset({int, float, bool, type(None)})
#: What a Python object takes beside its text.
_PER_OBJECT: Final = 64


def read_json_lines(paths: Paths, *, max_memory: int | str | None = None, **options: Any) -> Queries:
    """Read JSON Lines, plain or compressed: on each line an object such as ``{"qid": "a", "grade": 2, "bm25": 7.1}``.

    Ids are text or numbers as they are written. Names that are absent from an object, null and NaN are missing values.

    Args:
        paths: One file or several, which are put one after the other.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, max_memory, options)


def _read_file(path: Path, budget: int, options: dict[str, Any]) -> Queries:
    check_pyarrow(path)
    import pyarrow as pa  # noqa: PLC0415

    lines = _Lines(path, budget, options)
    if not lines.numbers:
        raise DataError("no data in this file; it is empty", path=path)
    chosen = choose_read_columns(list(lines.columns), options)
    try:
        columns = {name: pa.array(lines.ids(name)) for name in chosen.labels}
        columns |= {name: pa.array(lines.values(name, chosen)) for name in chosen.numbers}
        return from_frame(pa.table(columns), **{**options, "features": chosen.features})
    except RowError as error:
        raise error.on_line(lines.numbers[error.row]) from None
    except UnicodeEncodeError:
        raise DataError("a name or an id is not valid Unicode (half of a surrogate pair); rename it") from None


class _Lines:
    """The values of a file by name: numbers where all are, otherwise Python objects.

    Columns that may hold ids are kept as they are written, as ids may be whole numbers that no double can hold.
    """

    def __init__(self, path: Path, budget: int, options: dict[str, Any]) -> None:
        self.path = path
        #: Line of each row.
        self.numbers: list[int] = []
        #: Blocks of values by name, each with the row it begins at.
        self.columns: dict[str, list[tuple[int, FloatArray | Sequence[Any]]]] = {}
        asked = options.get("features")
        wanted = None if asked is None else {asked} if isinstance(asked, str) else set(asked)
        self._kept = {*QUERY_COLUMNS, *DOCUMENT_COLUMNS, *(options.get(name) for name in _ID_OPTIONS)} - (
            wanted or set()
        )
        line = n_bytes = 0
        for block in line_blocks(path, budget=budget):
            n_bytes += self._read(block, line)
            line += block.count(b"\n")
            check_memory(2 * n_bytes, "the values of this file", budget, path=path)

    def _read(self, block: bytes, lines_before: int) -> int:
        """Read whole lines; return the bytes that their values take."""
        first, records = len(self.numbers), []
        for line, text in enumerate(block.split(b"\n"), lines_before + 1):
            if text and not text.isspace():
                records.append(self._object(text, line))
                self.numbers.append(line)
        n_bytes = 8 * len(records)
        for name, values in _by_name(records).items():
            column: FloatArray | Sequence[Any] = values
            if name not in self._kept and _NUMBERS.issuperset(map(type, column)):
                column = _floats(column)
                n_bytes += column.nbytes
            else:
                n_bytes += sum(_PER_OBJECT + len(value) if isinstance(value, str) else _PER_OBJECT for value in column)
            self.columns.setdefault(name, []).append((first, column))
        return n_bytes

    def _object(self, text: bytes, line: int) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except UnicodeDecodeError:
            raise DataError("this line is not UTF-8; save the file as UTF-8", path=self.path, line=line) from None
        except (ValueError, RecursionError) as error:
            column = getattr(error, "colno", None)
            problem = f"this is not JSON: {quoted(text.strip())}; write one object per line"
            if text.strip() in (b"{", b"["):
                problem = "JSON over several lines; write one object per line, as frames do with lines=True"
            raise DataError(problem, path=self.path, line=line, column=column) from None
        if not isinstance(value, dict):
            problem = (
                f"{quoted(text.strip())} is not an object; write one object per line, as frames do with lines=True"
            )
            raise DataError(problem, path=self.path, line=line)
        return value

    def ids(self, name: str) -> list[Any]:
        """Return the ids of a column: whole numbers, or text where any is text; None where there is none."""
        found: list[Any] = [None] * len(self.numbers)
        for first, column in self.columns[name]:
            found[first : first + len(column)] = list(column)
        kinds = set(map(type, found)) - {type(None)}
        for kind in kinds & {list, dict}:
            row = next(row for row, value in enumerate(found) if type(value) is kind)
            raise RowError(row, name, f"holds {_KINDS[kind]}, which is not an id; give text or a number")
        if kinds <= {int, float} and all(value is None or abs(value) < 2**63 for value in found):
            return found if kinds <= {int} else [None if value is None else float(value) for value in found]
        return [value if value is None else str(value) for value in found]

    def values(self, name: str, chosen: Columns) -> FloatArray:
        """Return the numbers of a column, NaN where there is none."""
        values = np.full(len(self.numbers), np.nan)
        for first, column in self.columns[name]:
            for row, value in () if isinstance(column, np.ndarray) else enumerate(column, first):
                if type(value) not in _NUMBERS:
                    raise RowError(row, name, f"holds {_shown(value)}, not a number; {self._way_out(name, chosen)}")
            values[first : first + len(column)] = _floats(column)
        return values

    def _way_out(self, name: str, chosen: Columns) -> str:
        if name == chosen.grade:
            return "grades are numbers such as 0, 1 and 2"
        blocks = self.columns
        return feature_advice(
            [one for one in chosen.features if all(isinstance(b, np.ndarray) for _, b in blocks[one])]
        )


def _by_name(records: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Turn records into columns, None where a record lacks a name.

    >>> _by_name([{"a": 1, "b": 2}, {"b": 3}])
    {'a': [1, None], 'b': [2, 3]}
    """
    names = dict.fromkeys(map(tuple, records))
    if len(names) == 1:
        return dict(zip(*names, zip(*(record.values() for record in records), strict=True), strict=True))
    return {name: [record.get(name) for record in records] for name in dict.fromkeys(chain.from_iterable(names))}


_KINDS: Final[Mapping[type, str]] = {list: "a list", dict: "an object"}


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
    ),
)
