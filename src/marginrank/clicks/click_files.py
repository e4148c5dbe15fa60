"""Readers of click logs: CSV, TSV, JSON Lines, Parquet and frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from marginrank.clicks.click_log import ClickLog
from marginrank.data.arrays import Missing
from marginrank.data.column_roles import DOCUMENT_COLUMNS, QUERY_COLUMNS, RowError
from marginrank.data.formats.text_files import line_blocks, open_binary, plain_suffix
from marginrank.data.frames import open_frame
from marginrank.data.text_arrays import as_text, id_array
from marginrank.errors import DataError, Parameter
from marginrank.runtime.files import no_such_file
from marginrank.runtime.text import did_you_mean
from marginrank.typing import AnyArray, IntArray

#: Column names that are recognized, in lower case without blanks, hyphens and underscores; first match first.
_USUAL: Final = {
    "query": (*(name for tier in QUERY_COLUMNS for name in tier), "userquery"),
    "document": tuple(name for tier in DOCUMENT_COLUMNS for name in tier),
    "position": ("position", "rank", "pos", "ordinal"),
    "clicked": ("clicked", "click", "isclick", "isclicked"),
    "impression": ("impressionid", "impression", "serpid", "sessionid"),
    "system": ("system", "ranker", "bucket", "variant", "arm", "team"),
    "weight": ("weight",),
    "propensity": ("propensity",),
    "time": ("time", "timestamp"),
}
_NEEDED: Final = {"query": "query ids", "document": "document ids", "position": "positions", "clicked": "clicks"}
_IDS: Final = ("query", "document", "impression", "system")
#: Bytes of CSV, and rows of Parquet, at a time.
_CSV_BLOCK: Final = 1 << 24
_PARQUET_ROWS: Final = 1 << 20


def read_clicks(
    source: Any,
    *,
    query: str | None = None,
    document: str | None = None,
    position: str | None = None,
    clicked: str | None = None,
    impression: str | None = None,
    system: str | None = None,
    weight: str | None = None,
    propensity: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    missing: Missing = "error",
    positions_from: Literal[0, 1] = 1,
    merge: bool = True,
    aggregate: bool = False,
) -> ClickLog:
    """Read a click log with a row per shown document.

    >>> import pandas as pd
    >>> read_clicks(pd.DataFrame({"query": ["a", "a"], "doc_id": ["x", "y"], "rank": [1, 2], "click": [0, 1]}))
    ClickLog(2 rows, 1 query, 2 shown documents, positions 1..2, 1 click)

    Args:
        source: A file ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` (text may be compressed), or a frame.
        query: Column of query ids; this and the others are recognized by usual names.
        document: Column of document ids.
        position: Column of positions.
        clicked: Column of clicks, 0 or 1.
        impression: Column of impression ids.
        system: Column of rankers or buckets.
        weight: Column of weights.
        propensity: Column of propensities.
        time: Column of times.
        features: Columns of features, if this table has them; `ClickLog.with_features` joins those of another.
        missing: What null and NaN features become, as in `marginrank.from_frame`.
        positions_from: 0 if the first position is 0.
        merge: Whether impressions with the same query id are one query.
        aggregate: Whether equal rows are added up while reading, as by `ClickLog.aggregated`: memory then grows with
            the distinct rows and not with the events. Repeated documents in an impression are not looked for.
    """
    given = {
        "query": query,
        "document": document,
        "position": position,
        "clicked": clicked,
        "impression": impression,
        "system": system,
        "weight": weight,
        "propensity": propensity,
        "time": time,
    }
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and not path.exists():
        raise FileNotFoundError(f"{path}: {no_such_file(path)}")
    if aggregate and features is not None:
        raise DataError("features cannot be read while aggregating; join them with with_features")
    try:
        builder = _Builder(given, list(features or ()), missing, positions_from, merge, aggregate)
        for block in _blocks(source, path, given):
            builder.add(block)
        return builder.log()
    except DataError as error:
        raise error if path is None else error.at(path) from None


def write_clicks(path: str | Path, log: ClickLog) -> None:
    """Write a log of events as CSV, TSV or Parquet, as `read_clicks` reads it; without features.

    Args:
        path: The file, of which the suffix says the format.
        log: The log; one that was added up has no events to write.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv, parquet  # noqa: PLC0415

    if not log.is_of_events:
        raise DataError("an aggregated log has no events to write; write it before aggregating")
    columns: dict[str, Any] = {
        "query": as_text(log.documents.query_ids)[log.query],
        "document": log.document_ids,
        "position": log.position,
        "clicked": log.clicked.astype(np.int8),
    }
    if log.impression is not None:
        columns["impression"] = log.impression
    if log.system is not None:
        columns["system"] = np.asarray(log.system_names)[log.system]
    if np.any(log.shown != 1):
        columns["weight"] = log.shown
    columns |= {name: getattr(log, name) for name in ("propensity", "time") if getattr(log, name) is not None}
    table, suffix = pa.table(columns), Path(path).suffix
    if suffix in (".parquet", ".pq"):
        parquet.write_table(table, path)
    elif suffix in (".csv", ".tsv"):
        options = csv.WriteOptions(delimiter="\t" if suffix == ".tsv" else ",", quoting_style="needed")
        csv.write_csv(table, path, write_options=options)
    else:
        raise DataError("a click log is written as .csv, .tsv or .parquet; choose one of them", path=path)


def read_table(path: str | Path, ids: Collection[str]) -> Any:
    """Read a file of any table as an Arrow table; ids stay text.

    Args:
        path: A file ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``.
        ids: Columns of ids, beside those with usual names.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    path = Path(path)
    try:
        if plain_suffix(path) not in (".csv", ".tsv"):
            return pa.concat_tables(_blocks(path, path, None))
        parse = csv.ParseOptions(delimiter="\t" if plain_suffix(path) == ".tsv" else ",", newlines_in_values=True)
        with open_binary(path) as file:
            names = csv.open_csv(file, parse_options=parse).schema.names
        usual = {word for role in ("query", "document") for word in _USUAL[role]}
        texts = {name: pa.string() for name in names if name in ids or _spelled(name) in usual}
        with open_binary(path) as file:
            return csv.read_csv(file, parse_options=parse, convert_options=csv.ConvertOptions(column_types=texts))
    except pa.ArrowException as error:
        raise DataError(f"this cannot be read as a table ({error}); check it, or write it again", path=path) from None
    except DataError as error:
        raise error.at(path) from None


def _spelled(name: str) -> str:
    """Return a name in lower case without blanks, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", name).lower()


def choose_click_columns(names: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the columns to read by role.

    >>> choose_click_columns(["Query", "doc_id", "rank", "click"], {})
    {'query': 'Query', 'document': 'doc_id', 'position': 'rank', 'clicked': 'click'}
    """
    spelled = {_spelled(name): name for name in reversed(names)}
    chosen = {}
    for role, usual in _USUAL.items():
        name = given.get(role) or next((spelled[word] for word in usual if word in spelled), None)
        if name is not None:
            _check_column(name, names)
        if name is not None:
            chosen[role] = name
    absent = [role for role in _NEEDED if role not in chosen]
    if absent:
        roles = ", ".join(_NEEDED[role] for role in absent)
        columns = ", ".join(map(repr, names[:8]))
        noun, pronoun = ("column", "it") if len(absent) == 1 else ("columns", "them")
        options = [piece for role in absent for piece in (", ", Parameter(role, ...))]
        raise DataError(f"no {noun} of {roles} among {columns}; name {pronoun} with ", *options[1:])
    return chosen


def _check_column(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise DataError(
            f"no column {name!r}; {did_you_mean(name, names)}the columns are {', '.join(map(repr, names[:8]))}"
        )


def _blocks(source: Any, path: Path | None, given: Mapping[str, str | None] | None) -> Iterator[Any]:
    """Yield Arrow tables; those of a click log if columns are given."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        if path is None:
            yield open_frame(source).to_arrow()
        elif plain_suffix(path) in (".parquet", ".pq"):
            yield from _parquet(path, given)
        elif plain_suffix(path) in (".jsonl", ".ndjson", ".json"):
            yield from _json_lines(path)
        elif plain_suffix(path) in (".csv", ".tsv"):
            yield from _csv(path, given or {})
        else:
            raise DataError("a click log is a file .csv, .tsv, .jsonl or .parquet; rename or convert it")
    except pa.ArrowException as error:
        raise DataError(f"this cannot be read as a table ({error}); check it, or write it again") from None


def _parquet(path: Path, given: Mapping[str, str | None] | None) -> Iterator[Any]:
    """Yield the rows of a file; ids of a click log stay numbers of a dictionary, as the file has them."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    schema = parquet.read_schema(path)
    chosen = {} if given is None else choose_click_columns(schema.names, given)
    is_text = (pa.types.is_string, pa.types.is_large_string)
    texts = [name for name in schema.names if any(check(schema.field(name).type) for check in is_text)]
    ids = [name for role, name in chosen.items() if role in _IDS and name in texts]
    with parquet.ParquetFile(path, read_dictionary=ids) as file:
        for batch in file.iter_batches(_PARQUET_ROWS):
            yield pa.Table.from_batches([batch])


def _json_lines(path: Path) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import json  # noqa: PLC0415

    for block in line_blocks(path, _CSV_BLOCK):
        yield json.read_json(pa.BufferReader(block), read_options=json.ReadOptions(block_size=len(block) + 1))


def _csv(path: Path, given: Mapping[str, str | None]) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    parse = csv.ParseOptions(delimiter="\t" if plain_suffix(path) == ".tsv" else ",", newlines_in_values=True)
    reading = csv.ReadOptions(block_size=_CSV_BLOCK)
    with open_binary(path) as file:
        names = csv.open_csv(file, parse_options=parse).schema.names  # of a small block
    chosen = choose_click_columns(names, given)
    text = pa.dictionary(pa.int32(), pa.string())  # ids are numbered while they are read
    types = {name: text if role in _IDS else pa.float64() for role, name in chosen.items() if role != "time"}
    del types[chosen["clicked"]]  # true and false, or 1 and 0
    convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    with open_binary(path) as file:
        reader = csv.open_csv(file, read_options=reading, parse_options=parse, convert_options=convert)
        for batch in reader:
            yield pa.Table.from_batches([batch])


class _Labels:
    """Distinct labels of a column, numbered by first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def codes(self, column: Any, name: str) -> IntArray:
        """Number the labels of a block."""
        if column.null_count:
            at = int(np.argmax(column.is_null().to_numpy()))
            raise RowError(at, name, "has no value; every row needs one")
        column = column.combine_chunks()
        coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        numbers = self.numbers
        places = [numbers.setdefault(label, len(numbers)) for label in coded.dictionary.to_pylist()]
        rows: IntArray = coded.indices.to_numpy(zero_copy_only=False)
        return np.array(places, dtype=np.int64)[rows]

    def labels(self) -> AnyArray:
        """Return the distinct labels; whole numbers if all of them are."""
        return id_array(list(map(str, self.numbers)))


class _Builder:
    """A log built block by block."""

    def __init__(
        self,
        given: Mapping[str, str | None],
        features: list[str],
        missing: Missing,
        positions_from: Literal[0, 1],
        merge: bool,
        aggregate: bool,
    ) -> None:
        self.given, self.features, self.aggregate, self.merge = given, features, aggregate, merge
        self.missing, self.positions_from = missing, positions_from
        self.labels = {role: _Labels() for role in _IDS}
        self.parts: list[dict[str, AnyArray]] = []
        self.rows_read = self.rows_kept = 0
        self.after_merge = 0

    def add(self, block: Any) -> None:
        """Add the rows of an Arrow table."""
        chosen = choose_click_columns(block.column_names, self.given)
        try:
            columns = {role: self._column(block[name], role, name) for role, name in chosen.items()}
            if not self.merge:
                if "impression" not in columns:
                    raise DataError(
                        "no column of impressions to keep apart; name it with ", Parameter("impression", ...)
                    )
                columns["query"], self.labels["query"] = columns["impression"], self.labels["impression"]
            for name in self.features:
                _check_column(name, block.column_names)
            if self.features:
                columns["features"] = np.column_stack([_number_column(block[name], name) for name in self.features])
            if self.aggregate:
                columns = self._checked_sums(columns)
        except RowError as error:
            raise error.after(self.rows_read) from None
        self.rows_read += len(block)
        self.parts.append(columns)
        self.rows_kept += len(columns["query"])
        if self.aggregate and self.rows_kept > 2 * self.after_merge + 2 * _PARQUET_ROWS:
            self._merge_parts()

    def _column(self, column: Any, role: str, name: str) -> AnyArray:
        if role in _IDS:
            return self.labels[role].codes(column, name)
        if role == "time":
            return np.asarray(column.to_numpy())
        return _number_column(column, name)

    def _checked_sums(self, columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
        """Check the rows of a block as `ClickLog.from_arrays` does, and add up equal ones."""
        columns.pop("time", None)
        columns.pop("impression", None)
        log = ClickLog.checked_columns(
            columns["position"],
            columns["clicked"],
            columns.get("weight"),
            columns.get("propensity"),
            self.positions_from,
        )
        columns.pop("weight", None)
        del columns["clicked"]
        return _added_up(columns | {"position": log[0], "shown": log[1], "clicks": log[2]})

    def _merge_parts(self) -> None:
        if len(self.parts) > 1:
            self.parts = [_added_up(_joined(self.parts))]
        self.after_merge = self.rows_kept = len(self.parts[0]["query"])

    def log(self) -> ClickLog:
        """Return the log of all rows."""
        if not self.parts or not self.rows_read:
            raise DataError("the log has no rows")
        if self.aggregate:
            self._merge_parts()
        columns = _joined(self.parts)
        ids = {role: self.labels[role].labels() for role in _IDS if role in columns}
        if not self.aggregate:
            coded = {role: ids[role][columns.pop(role)] for role in ids}
            return ClickLog.from_arrays(
                **coded,
                **columns,
                feature_names=self.features or None,
                missing=self.missing,
                positions_from=self.positions_from,
                merge=self.merge,
            )
        return ClickLog.from_counts(
            ids["query"][columns["query"]],
            ids["document"][columns["document"]],
            columns["position"],
            columns["shown"],
            columns["clicks"],
            system=None if "system" not in columns else ids["system"][columns["system"]],
            propensity=columns.get("propensity"),
        )


def _joined(parts: list[dict[str, AnyArray]]) -> dict[str, AnyArray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _added_up(columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Add up the rows with equal keys."""
    import pyarrow as pa  # noqa: PLC0415

    keys = [name for name in columns if name not in ("shown", "clicks")]
    sums = pa.table(columns).group_by(keys, use_threads=False).aggregate([("shown", "sum"), ("clicks", "sum")])
    names = {"shown": "shown_sum", "clicks": "clicks_sum"}
    return {name: sums[names.get(name, name)].to_numpy() for name in columns}


def _number_column(column: Any, name: str) -> AnyArray:
    """Return numbers, NaN if they are missing."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return np.asarray(column.cast(pa.int8() if pa.types.is_boolean(column.type) else pa.float64()).to_numpy())
    except pa.ArrowException:
        raise DataError(f"column {name!r} holds {column.type}, not numbers") from None
