"""Frames and columnar files: pandas, polars, Arrow, Parquet, Feather."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from marginrank.data.files import Paths, list_paths
from marginrank.data.missing import Missing, check_missing, fill_missing
from marginrank.data.queries import Queries, feature_dtype
from marginrank.data.registry import Format
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.memory import check_memory
from marginrank.memory import max_memory as memory_budget
from marginrank.sources import open_input

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

#: Column names that are recognised where none is given, first match first.
QUERY_COLUMNS = ("qid", "query_id", "query", "topic")
GRADE_COLUMNS = ("grade", "label", "relevance", "rel", "y")
DOCUMENT_COLUMNS = ("document_id", "docid", "doc_id", "docno")


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
    """Build queries from a frame of pandas, polars, Arrow or any other library narwhals knows.

    Args:
        frame: One row per document.
        qid: Column of the query ids; by default ``qid``, ``query_id``, ``query`` or ``topic``.
        grade: Column of the grades; by default ``grade``, ``label``, ``relevance``, ``rel`` or ``y`` if there is one.
            Without grades, the documents can be ranked.
        document_id: Column of document names; by default ``document_id``, ``docid``, ``doc_id`` or ``docno`` if
            there is one.
        document_group: Column of group labels, for rankings that take each group at most once.
        features: Feature columns; by default all the others, which must then be numbers.
        dtype: float32 or float64; by default float32 where every feature column is, else float64.
        missing: What null and NaN features become: ``"error"``, ``"nan"``, ``"zero"`` or ``"min"``.
    """
    check_missing(missing)
    asked = None if dtype is None else feature_dtype(dtype)
    try:
        table = nw.from_native(frame)
        rows = table.collect() if isinstance(table, nw.LazyFrame) else table
        names = rows.columns
    except nw.exceptions.DuplicateError:
        raise DataError("two columns have the same name; rename one") from None
    if not all(isinstance(name, str) for name in names):
        raise DataError("column names must be text; rename the columns, for example with map(str, columns)")
    query_column = _query_column(rows.columns, qid)
    grade_column = grade or next((name for name in GRADE_COLUMNS if name in rows.columns), None)
    document_column = document_id or next((name for name in DOCUMENT_COLUMNS if name in rows.columns), None)
    taken = {query_column, grade_column, document_column, document_group}
    if isinstance(features, str):
        features = [features]
    names = list(features) if features is not None else [name for name in rows.columns if name not in taken]
    _check_columns(rows, [*names, *(name for name in taken if name)], names)
    queries = Queries.from_arrays(
        _matrix(rows, names, asked or _common_dtype(rows, names), missing),
        None if grade_column is None else rows[grade_column].to_numpy(),
        qid=_labels(rows[query_column], "query id"),
        document_ids=None if document_column is None else as_text(_labels(rows[document_column], "document id")),
        document_groups=None if document_group is None else _labels(rows[document_group], "document group"),
        feature_names=names,
        allow_nan=True,
    )
    fill_missing(queries.X, queries.offsets, missing)
    return queries


def _query_column(columns: Sequence[str], given: str | None) -> str:
    name = given or next((name for name in QUERY_COLUMNS if name in columns), None)
    if name is None:
        raise DataError(
            f"no column of query ids among {', '.join(map(repr, columns[:8]))}; name it with qid= "
            f"(recognised: {', '.join(QUERY_COLUMNS)})"
        )
    return name


def _check_columns(rows: nw.DataFrame[Any], columns: Sequence[str], features: Sequence[str]) -> None:
    absent = [name for name in columns if name not in rows.columns]
    if absent:
        raise DataError(f"no column {absent[0]!r}; the frame has {', '.join(map(repr, rows.columns[:8]))}")
    words = [name for name in features if not (rows.schema[name].is_numeric() or rows.schema[name] == nw.Boolean)]
    if words:
        raise DataError(
            f"column {words[0]!r} holds {rows.schema[words[0]]}, not numbers; name the feature columns with features="
        )
    if not features:
        raise DataError("no feature columns are left; name them with features=")


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
    place = f"row {at} of column {name!r} is {value:g}"
    if np.isnan(value):
        raise DataError(f"{place}; choose what it becomes: missing='nan', 'zero' or 'min'")
    if np.isinf(value):
        raise DataError(f"{place}; replace it")
    raise DataError(f"{place}, too large for {kept.dtype}; pass dtype='float64' or rescale")


def _labels(column: nw.Series[Any], what: str) -> npt.NDArray[Any]:
    if column.null_count():
        at = int(np.argmax(column.is_null().to_numpy()))
        raise DataError(f"row {at} has no {what}; every row needs one")
    return column.to_numpy()


def read_table(paths: Paths, *, max_memory: int | str | None = None, **options: Any) -> Queries:
    """Read Parquet, Arrow IPC or Feather files; options are those of `from_frame`.

    Args:
        paths: One file or several, which are put one after the other.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        options: Those of `from_frame`.
    """
    files, budget = list_paths(paths), memory_budget(max_memory)
    parts: list[Queries] = []
    for path in files:
        try:
            parts.append(from_frame(_arrow_table(path, budget), **options))
        except DataError as error:
            raise DataError(error.problem, path=path) from None
        if parts[-1].n_features != parts[0].n_features:
            raise DataError(
                f"{parts[-1].n_features} features, but {files[0].name} has {parts[0].n_features}; "
                "name the columns to use with features=",
                path=path,
            )
    return Queries.concatenate(parts)


def _arrow_table(path: Path, budget: int) -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import feather, ipc, parquet  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"{path}: this needs pyarrow: pip install 'marginrank[parquet]'") from None
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
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"{path}: this needs pyarrow: pip install 'marginrank[parquet]'") from None
    X = queries.dense()
    names = queries.feature_names or tuple(f"f{k + 1}" for k in range(queries.n_features))
    columns: dict[str, Any] = {"qid": np.repeat(queries.query_ids, queries.lengths)}
    if queries.judgements is not None:
        columns["grade"] = queries.judgements
    if queries.document_ids is not None:
        columns["document_id"] = as_text(queries.document_ids)
    if set(columns) & set(names):
        raise DataError(
            f"feature names {sorted(set(columns) & set(names))} are taken by the other columns; rename them"
        )
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(f"feature name {repeated[0]!r} stands more than once; give each column a name of its own")
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


FORMATS = (
    Format(
        "table",
        "a table",
        read_table,
        ("dtype", "missing", "qid", "grade", "document_id", "document_group", "features"),
        (".parquet", ".pq", ".arrow", ".feather", ".ipc"),
        begins=lambda start: start.startswith((b"PAR1", b"ARROW1", b"FEA1")),
        write=write_parquet,
        writes=(".parquet",),
    ),
)
