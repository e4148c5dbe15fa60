"""Parquet, Arrow IPC and Feather files as Arrow tables of some rows each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from marginrank.data.table_columns import check_pyarrow
from marginrank.data.table_reading import How
from marginrank.errors import DataError
from marginrank.memory import check_memory
from marginrank.sources import open_input

#: Bytes of a table, at eight for each value.
_TABLE_BYTES: Final = 4 << 20
#: Bytes of each column that are read from a Parquet file at a time.
_BUFFER_BYTES: Final = 1 << 16


class ArrowFile:
    """A columnar file.

    Args:
        path: The file.
        file: The same, open.
        how: How to read it.

    Attributes:
        empty: A table with its columns and no rows.
    """

    def __init__(self, path: Path, file: IO[bytes], how: How) -> None:
        from pyarrow import feather, ipc, parquet  # noqa: PLC0415

        self._path, self._how = path, how
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
        if not self._how.on_disk:
            what = f"{metadata.num_rows:,} rows of {len(names):,} columns"
            check_memory(2 * metadata.num_rows * 8 * len(names), what, self._how.budget)
        batches = self._source.iter_batches(
            batch_size=max(256, _TABLE_BYTES // (8 * len(names))),
            columns=list(names),
            use_threads=self._how.n_threads > 1,
        )
        for batch in batches:
            yield pa.Table.from_batches([batch])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say that the file cannot be read, and why."""
        import pyarrow as pa  # noqa: PLC0415

        try:
            yield
        except DataError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise DataError(f"not a readable {self._path.suffix} file: {first}", path=self._path) from None


@contextmanager
def open_table(path: Path, how: How) -> Iterator[ArrowFile]:
    """Open a columnar file."""
    check_pyarrow(path)
    with open_input(path) as file:
        yield ArrowFile(path, file, how)
