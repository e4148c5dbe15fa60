"""Frames and columnar files: pandas, polars, Arrow, Parquet, Feather."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import feature_dtype
from marginrank.data.files import Paths, list_paths
from marginrank.data.missing import MISSING_ADVICE, Missing, check_missing, fill_missing
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.memory import check_memory
from marginrank.memory import max_memory as memory_budget
from marginrank.sources import open_input
from marginrank.typing import FloatArray
from marginrank.words import did_you_mean

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

#: Column names that are recognised where none is given, first match first.
QUERY_COLUMNS = ("qid", "query_id", "query", "topic")
GRADE_COLUMNS = ("grade", "label", "relevance", "rel", "y")
DOCUMENT_COLUMNS = ("document_id", "docid", "doc_id", "docno", "document", "doc")
#: Types of columns of text.
_TEXT: Final = (nw.String, nw.Categorical)
#: Feature columns that errors name, at most.
_MOST_NAMED: Final = 12
#: Options of everything that is read as a table.
TABLE_OPTIONS: Final = ("dtype", "missing", "qid", "grade", "document_id", "document_group", "features")


class RowError(DataError):
    """Something is wrong in a row of a table.

    Args:
        row: Number of the row, from 0.
        column: Name of the column, if it is one.
        said: What is wrong, after a subject.
    """

    def __init__(self, row: int, column: str | None, said: str) -> None:
        super().__init__(f"row {row}{'' if column is None else f' of column {column!r}'} {said}")
        self.row, self.subject, self.said = row, "this row" if column is None else f"column {column!r}", said

    def on_line(self, line: int) -> DataError:
        """Say the same of a line of a file."""
        return DataError(f"{self.subject} {self.said}", line=line)


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they are for."""

    query: str
    grade: str | None
    document: str | None
    group: str | None
    features: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns of ids, which are text."""
        return tuple(dict.fromkeys(name for name in (self.query, self.document, self.group) if name is not None))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers."""
        return tuple(dict.fromkeys([*([] if self.grade is None else [self.grade]), *self.features]))


def choose_columns(
    columns: Sequence[str],
    *,
    qid: str | None = None,
    grade: str | None = None,
    document_id: str | None = None,
    document_group: str | None = None,
    features: str | Iterable[str] | None = None,
) -> Columns:
    """Choose the columns to use, by the names that are given or usual.

    >>> choose_columns(["qid", "label", "bm25"])
    Columns(query='qid', grade='label', document=None, group=None, features=('bm25',))
    """
    query = _query_column(columns, qid)
    grade = grade or next((name for name in GRADE_COLUMNS if name in columns), None)
    document = document_id or next((name for name in DOCUMENT_COLUMNS if name in columns), None)
    taken = (query, grade, document, document_group)
    if isinstance(features, str):
        features = [features]
    names = tuple(features) if features is not None else tuple(name for name in columns if name not in taken)
    absent = [name for name in (*names, *taken) if name is not None and name not in columns]
    if absent:
        near = did_you_mean(absent[0], columns)
        raise DataError(f"no column {absent[0]!r}; {near}the columns are {', '.join(map(repr, columns[:8]))}")
    if not names and features is None:
        raise DataError("no feature columns are left; name them with features=")
    return Columns(query, grade, document, document_group, names)


def from_frame(
    frame: IntoFrame,
    *,
    qid: str | None = None,
    grade: str | None = None,
    document_id: str | None = None,
    document_group: str | None = None,
    features: str | Iterable[str] | None = None,
    dtype: npt.DTypeLike | None = None,
    missing: Missing = "error",
) -> Queries:
    """Build queries from a pandas or polars frame, an Arrow table, or anything else that narwhals supports.

    Args:
        frame: One row per document.
        qid: Column of the query ids; by default ``qid``, ``query_id``, ``query`` or ``topic``.
        grade: Column of the grades; by default ``grade``, ``label``, ``relevance``, ``rel`` or ``y`` if there is one.
            Without grades, the documents can be ranked.
        document_id: Column of document names; by default ``document_id``, ``docid``, ``doc_id``, ``docno``,
            ``document`` or ``doc`` if there is one.
        document_group: Column of group labels, for rankings that take each group at most once.
        features: Feature columns; by default all the others, which must then be numbers. An empty list for judgements
            alone.
        dtype: float32 or float64; by default float32 where every feature column is, else float64.
        missing: What null and NaN features become: ``"error"``, ``"nan"``, ``"zero"`` or ``"min"``.
    """
    check_missing(missing)
    asked = None if dtype is None else feature_dtype(dtype)
    try:
        table = nw.from_native(frame)
        rows = table.collect() if isinstance(table, nw.LazyFrame) else table
        names = rows.columns
    except TypeError:
        raise TypeError(
            f"from_frame takes a pandas, polars or Arrow table, not a {type(frame).__name__}; for arrays use "
            "Queries.from_arrays"
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("two columns have the same name; rename one") from None
    if not all(isinstance(name, str) for name in names):
        raise DataError("column names must be text; rename the columns, for example with map(str, columns)")
    chosen = choose_columns(
        names, qid=qid, grade=grade, document_id=document_id, document_group=document_group, features=features
    )
    _check_numbers(rows, chosen)
    queries = Queries.from_arrays(
        _matrix(rows, chosen.features, asked or _common_dtype(rows, chosen.features), missing),
        None if chosen.grade is None else _grades(rows[chosen.grade]),
        qid=_labels(rows[chosen.query], "query id"),
        document_ids=None if chosen.document is None else as_text(_labels(rows[chosen.document], "document id")),
        document_groups=None if chosen.group is None else _labels(rows[chosen.group], "document group"),
        feature_names=chosen.features,
        allow_nan=True,
    )
    fill_missing(queries.X, queries.offsets, missing)
    return queries


def feature_advice(numbers: Sequence[str]) -> str:
    """Say how to name the feature columns, given those that hold numbers.

    >>> feature_advice(["bm25", "age"])
    "name the feature columns with features=['bm25', 'age']"
    """
    few = 0 < len(numbers) <= _MOST_NAMED
    return f"name the feature columns with features={list(numbers) if few else ''}"


def choose_read_columns(columns: Sequence[str], options: Mapping[str, Any]) -> Columns:
    """Choose the columns of a text file by the options of its reader; a column is read as text or as numbers."""
    named = {name: value for name, value in options.items() if name not in ("dtype", "missing")}
    chosen = choose_columns(columns, **named)
    both = sorted(set(chosen.labels) & set(chosen.numbers))
    if both:
        raise DataError(f"column {both[0]!r} is asked for as an id and as numbers; choose one")
    return chosen


def _query_column(columns: Sequence[str], given: str | None) -> str:
    name = given or next((name for name in QUERY_COLUMNS if name in columns), None)
    if name is None:
        raise DataError(
            f"no column of query ids among {', '.join(map(repr, columns[:8]))}; name it with qid= "
            f"(recognised: {', '.join(QUERY_COLUMNS)})"
        )
    return name


def _check_numbers(rows: nw.DataFrame[Any], chosen: Columns) -> None:
    """Refuse text where numbers are needed."""
    words = [name for name in chosen.features if not _is_number(rows.schema[name])]
    if words:
        numbers = [name for name in chosen.features if name not in words]
        kind = rows.schema[words[0]]
        raise DataError(
            f"column {words[0]!r} holds {'text' if kind in _TEXT else kind}, not numbers; {feature_advice(numbers)}"
        )
    if chosen.grade is not None and rows.schema[chosen.grade] in _TEXT:
        raise DataError(f"column {chosen.grade!r} holds text, not grades; grades are numbers such as 0, 1 and 2")


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _common_dtype(rows: nw.DataFrame[Any], names: Sequence[str]) -> np.dtype[Any]:
    return np.dtype(np.float32 if all(rows.schema[name] == nw.Float32 for name in names) else np.float64)


def _matrix(rows: nw.DataFrame[Any], names: Sequence[str], dtype: np.dtype[Any], missing: Missing) -> npt.NDArray[Any]:
    """Copy columns into one C-order matrix, nulls as NaN."""
    X = np.empty((len(rows), len(names)), dtype=dtype)
    for k, name in enumerate(names):
        column = rows[name]
        values = column.cast(nw.Float64).to_numpy() if column.null_count() else column.to_numpy()
        with np.errstate(over="ignore"):
            kept = values.astype(dtype, copy=False)
        _check_column(name, values, kept, missing)
        X[:, k] = kept
    return X


def _check_column(name: str, values: npt.NDArray[Any], kept: npt.NDArray[Any], missing: Missing) -> None:
    """Refuse what is infinite, has become so, or is missing where that is an error."""
    bad = ~np.isfinite(kept) if missing == "error" else np.isinf(kept)
    if not bad.any():
        return
    at = int(np.argmax(bad))
    value = float(values[at])
    if np.isnan(value):
        raise RowError(at, name, f"has no value; {MISSING_ADVICE}")
    if np.isinf(value):
        raise RowError(at, name, f"is {value:g}; replace it")
    raise RowError(at, name, f"is {value:g}, too large for {kept.dtype}; pass dtype='float64' or rescale")


def _grades(column: nw.Series[Any]) -> FloatArray:
    try:
        grades = np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"column {column.name!r} holds {column.dtype}; grades are numbers such as 0, 1 and 2") from None
    if np.isnan(grades).any():
        raise RowError(int(np.argmax(np.isnan(grades))), column.name, "has no value; drop the rows without a judgement")
    for bad, rule in (
        (~np.isfinite(grades), "grades must be finite"),
        (grades < 0, "grades must not be negative; shift them"),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise RowError(at, column.name, f"is {grades[at]:g}; {rule}")
    return grades


def _labels(column: nw.Series[Any], what: str) -> npt.NDArray[Any]:
    if column.null_count():
        at = int(np.argmax(column.is_null().to_numpy()))
        raise RowError(at, None, f"has no {what}; every row needs one")
    return column.to_numpy()


def read_table(paths: Paths, *, max_memory: int | str | None = None, **options: Any) -> Queries:
    """Read Parquet, Arrow IPC or Feather files; options are those of `from_frame`.

    Args:
        paths: One file or several, which are put one after the other.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        options: Those of `from_frame`.
    """
    return read_files(
        paths, lambda path, budget, chosen: from_frame(_arrow_table(path, budget), **chosen), max_memory, options
    )


def read_files(
    paths: Paths,
    read_one: Callable[[Path, int, dict[str, Any]], Queries],
    max_memory: int | str | None,
    options: dict[str, Any],
) -> Queries:
    """Read tables and put them one after the other; errors name the file."""
    files, budget = list_paths(paths), memory_budget(max_memory)
    parts: list[Queries] = []
    for path in files:
        try:
            parts.append(read_one(path, budget, options))
        except DataError as error:
            raise DataError(error.problem, path=path, line=error.line, column=error.column) from None
        if parts[-1].n_features != parts[0].n_features:
            raise DataError(
                f"{parts[-1].n_features} features, but {files[0].name} has {parts[0].n_features}; "
                "name the columns to use with features=",
                path=path,
            )
    return Queries.concatenate(parts)


def check_pyarrow(path: str | Path) -> None:
    """Say what to install where there is no pyarrow."""
    try:
        import pyarrow as pa  # noqa: F401, PLC0415
    except ImportError:
        raise ImportError(f"{path}: this needs pyarrow: pip install 'marginrank[tables]'") from None


def _arrow_table(path: Path, budget: int) -> Any:
    check_pyarrow(path)
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import feather, ipc, parquet  # noqa: PLC0415

    with open_input(path) as file:
        start = file.read(6)
        file.seek(0)
        try:
            if start.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
                table = _read_parquet(parquet.ParquetFile(file), budget)
            elif start == b"ARROW1":
                table = _read_batches(ipc.open_file(file), budget)
            elif start.startswith(b"FEA1"):
                table = feather.read_table(file)
            else:
                table = _read_batches(ipc.open_stream(file), budget)
            # Without this, a damaged file is read from foreign memory.
            table.validate(full=True)
        except DataError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise DataError(f"not a readable {path.suffix} file: {first}", path=path) from None
    return table


def _read_parquet(file: Any, budget: int) -> Any:
    """Read a row group at a time, as many as the budget allows; the matrix of features takes as much again."""
    import pyarrow as pa  # noqa: PLC0415

    n_bytes = 2 * file.metadata.num_rows * 8 * file.metadata.num_columns
    check_memory(n_bytes, f"{file.metadata.num_rows:,} rows of {file.metadata.num_columns:,} columns", budget)
    groups = [file.schema_arrow.empty_table()]
    for number in range(file.num_row_groups):
        groups.append(file.read_row_group(number))
        groups[-1].validate(full=True)
        check_memory(2 * sum(group.nbytes for group in groups), "the columns of this table", budget)
    return pa.concat_tables(groups)


def _read_batches(reader: Any, budget: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    random_access = hasattr(reader, "get_batch")
    batches = []
    for batch in map(reader.get_batch, range(reader.num_record_batches)) if random_access else reader:
        # Even the size of a damaged batch is read from foreign memory.
        batch.validate(full=True)
        batches.append(batch)
        check_memory(2 * sum(one.nbytes for one in batches), "the columns of this table", budget)
    return pa.Table.from_batches(batches, schema=reader.schema)


def write_parquet(path: str | Path, queries: Queries) -> None:
    """Write queries as a Parquet table: ``qid``, ``grade`` and ``document_id`` if known, one column per feature.

    Weights and document groups are left out.
    """
    check_pyarrow(path)
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    X = queries.dense()
    names = feature_columns(queries)
    columns: dict[str, Any] = {"qid": np.repeat(queries.query_ids, queries.lengths)}
    if queries.judgements is not None:
        columns["grade"] = queries.judgements
    if queries.document_ids is not None:
        columns["document_id"] = as_text(queries.document_ids)
    columns |= {name: np.ascontiguousarray(X[:, k]) for k, name in enumerate(names)}
    try:
        # Arrow takes fixed-width text of NumPy to end at a NUL.
        listed = {name: column.tolist() if column.dtype.kind == "U" else column for name, column in columns.items()}
        table = pa.table({name: pa.array(column) for name, column in listed.items()})
    except UnicodeError:
        raise DataError("an id is not UTF-8, and a Parquet table holds nothing else; re-encode the source") from None
    # Given a path, Arrow refuses those that are not UTF-8.
    with Path(path).open("wb") as file:
        parquet.write_table(table, file)


def label_columns(queries: Queries) -> list[str]:
    """Name the columns of a written table that are not features."""
    known = {"grade": queries.judgements, "document_id": queries.document_ids}
    return ["qid", *(name for name, column in known.items() if column is not None)]


def feature_columns(queries: Queries) -> tuple[str, ...]:
    """Name the feature columns of a written table; refuse names that would be read as something else."""
    names = queries.feature_labels
    taken = set(label_columns(queries))
    if queries.judgements is None:
        taken |= set(GRADE_COLUMNS)
    if queries.document_ids is None:
        taken |= set(DOCUMENT_COLUMNS)
    if taken & set(names):
        raise DataError(f"feature names {sorted(taken & set(names))} are taken by the other columns; rename them")
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(f"feature name {repeated[0]!r} appears more than once; give each column its own name")
    return names


FORMATS = (
    Format(
        "table",
        "a table",
        read_table,
        TABLE_OPTIONS,
        (".parquet", ".pq", ".arrow", ".feather", ".ipc"),
        begins=lambda start: start.startswith((b"PAR1", b"ARROW1", b"FEA1")),
        write=write_parquet,
        writes=(".parquet",),
    ),
)
