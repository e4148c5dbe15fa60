"""Parquet, Arrow IPC and Feather files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from marginrank.data.column_roles import TABLE_OPTIONS, RowError, choose_columns, index_columns
from marginrank.data.formats.base import Format
from marginrank.data.formats.row_writer import check_unicode, feature_rows
from marginrank.data.formats.text_files import Paths
from marginrank.data.frames import check_numbers, feature_columns, open_frame, row_block, text_columns
from marginrank.data.queries import Queries
from marginrank.data.table_builder import TableBuilder, TableOptions, read_files
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError
from marginrank.runtime.files import open_input
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.memory import check_memory
from marginrank.typing import Features, IntArray

#: Size of the groups of rows that are written: at eight bytes for each feature, and in rows.
_GROUP_BYTES: Final = 1 << 26
_LEAST_GROUP: Final = 1 << 14
#: Bytes of a table, at eight for each value.
_TABLE_BYTES: Final = 4 << 20
#: Bytes of each column that are read from a Parquet file at a time.
_BUFFER_BYTES: Final = 1 << 16


class ArrowFile:
    """A columnar file.

    Args:
        path: The file.
        file: The same, open.
        options: How to read it.

    Attributes:
        empty: A table with its columns and no rows.
    """

    def __init__(self, path: Path, file: IO[bytes], options: TableOptions) -> None:
        from pyarrow import feather, ipc, parquet  # noqa: PLC0415

        self._path, self._options = path, options
        start = file.read(6)
        file.seek(0)
        with self._errors():
            if start.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
                self._source: Any = parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
                self.empty: Any = self._source.schema_arrow.empty_table()
            elif start.startswith(b"FEA1"):
                self._source = feather.read_table(file)
                self.empty = self._source.schema.empty_table()
            else:
                self._source = ipc.open_file(file) if start == b"ARROW1" else ipc.open_stream(file)
                self.empty = self._source.schema.empty_table()
            # Names are decoded when they are asked for.
            _ = self.empty.column_names

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows in order, some at a time, with the named columns or more."""
        tables = self._tables(names)
        while True:
            with self._errors():
                table = next(tables, None)
                if table is None:
                    return
                # Without this, a damaged file is read from foreign memory.
                table.validate(full=True)
            yield table

    def _tables(self, names: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415

        if isinstance(self._source, pa.Table):
            yield self._source
        elif hasattr(self._source, "iter_batches"):
            yield from self._row_groups(names)
        else:
            source = self._source
            random_access = hasattr(source, "get_batch")
            for batch in map(source.get_batch, range(source.num_record_batches)) if random_access else source:
                # Even the size of a damaged batch is read from foreign memory.
                batch.validate(full=True)
                yield pa.Table.from_batches([batch])

    def _row_groups(self, names: Sequence[str]) -> Iterator[Any]:
        """Decode Parquet, a column on each thread; the columns of features are as large in memory again."""
        import pyarrow as pa  # noqa: PLC0415

        metadata = self._source.metadata
        if not self._options.on_disk:
            what = f"{metadata.num_rows:,} rows of {len(names):,} columns"
            check_memory(2 * metadata.num_rows * 8 * len(names), what, self._options.budget)
        batches = self._source.iter_batches(
            batch_size=max(256, _TABLE_BYTES // (8 * len(names))),
            columns=list(names),
            use_threads=self._options.n_threads > 1,
        )
        for batch in batches:
            yield pa.Table.from_batches([batch])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of Arrow into a `DataError` with the reason."""
        import pyarrow as pa  # noqa: PLC0415

        try:
            yield
        except DataError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise DataError(f"not a readable {self._path.suffix} file: {first}", path=self._path) from None


@contextmanager
def open_table(path: Path, options: TableOptions) -> Iterator[ArrowFile]:
    """Open a columnar file."""
    with open_input(path) as file:
        yield ArrowFile(path, file, options)


def read_table(
    paths: Paths,
    *,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    on_disk: bool = False,
    **options: Any,
) -> Queries:
    """Read Parquet, Arrow IPC or Feather files; options are those of `from_frame`.

    Args:
        paths: One file or several, which are concatenated.
        n_jobs: Threads that decode Parquet; all cores by default, and one for 1.
        max_memory: Memory budget, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
        on_disk: Keep features in a temporary file if they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, TableOptions.of(n_jobs, max_memory, on_disk, options))


def _read_file(path: Path, options: TableOptions, builder: TableBuilder) -> None:
    with open_table(path, options) as file:
        rows = open_frame(file.empty)
        roles = choose_columns(
            rows.columns, **options.columns, index=index_columns(file.empty), text=text_columns(rows)
        )
        check_numbers(rows, roles)
        for table in file.tables([*roles.ids, *roles.numbers]):
            try:
                builder.add(row_block(table, roles, options))
            except RowError as error:
                raise error.after(builder.n_rows) from None
        if not builder.n_rows:
            builder.add(row_block(file.empty, roles, options))
    roles.announce()


def write_parquet(path: str | Path, queries: Queries) -> None:
    """Write queries as a Parquet table: ``qid``, ``grade`` and ``document_id`` if known, one column per feature.

    Document weights are ``document_weight``; query weights and document groups are left out.
    """
    from pyarrow import parquet  # noqa: PLC0415

    names = feature_columns(queries)
    check_unicode(queries, "a Parquet table")
    query_of_row = queries.query_of_row
    schema = _written_rows(queries, names, query_of_row, slice(0, 1), queries.X[:1]).schema
    # Given a path, Arrow refuses those that are not UTF-8.
    with Path(path).open("wb") as file, parquet.ParquetWriter(file, schema) as writer:
        for rows, X in feature_rows(queries, max(_LEAST_GROUP, _GROUP_BYTES // (8 * max(1, queries.n_features)))):
            writer.write_table(_written_rows(queries, names, query_of_row, rows, X))


def _written_rows(queries: Queries, names: Sequence[str], query_of_row: IntArray, rows: slice, X: Features) -> Any:
    """Return some rows of a written table."""
    import pyarrow as pa  # noqa: PLC0415

    dense = X.toarray() if sp.issparse(X) else X
    columns: dict[str, Any] = {"qid": queries.query_ids[query_of_row[rows]]}
    if queries.judgements is not None:
        columns["grade"] = queries.judgements[rows]
    if queries.document_ids is not None:
        columns["document_id"] = as_text(queries.document_ids[rows])
    if queries.document_weights is not None:
        columns["document_weight"] = queries.document_weights[rows]
    columns |= {name: np.ascontiguousarray(dense[:, k]) for k, name in enumerate(names)}
    # Arrow takes fixed-width text of NumPy to end at a NUL.
    listed = {name: column.tolist() if column.dtype.kind == "U" else column for name, column in columns.items()}
    return pa.table({name: pa.array(column) for name, column in listed.items()})


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
        on_disk=True,
    ),
)
