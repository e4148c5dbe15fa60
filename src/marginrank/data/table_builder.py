"""Tables built block by block, in memory or, if they are large, in temporary files."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.data.arrays import Missing, check_missing, feature_dtype, fill_missing
from marginrank.data.formats.text_files import Paths, list_paths
from marginrank.data.grouping import check_ids, concatenate_into, group_by_id
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import even_lengths, id_array, join_text, text_array, text_bytes
from marginrank.data.validation import check_queries, warn_if_repeated
from marginrank.errors import DataError, Parameter
from marginrank.runtime.mapped_arrays import SpillFile, bytes_between
from marginrank.runtime.memory import check_memory
from marginrank.runtime.memory import max_memory as memory_budget
from marginrank.runtime.threads import thread_count
from marginrank.typing import AnyArray, FloatArray

#: Columns that all files have, or none.
_COLUMNS: Final = (
    ("judgements", "grades"),
    ("document_ids", "document ids"),
    ("document_weights", "document weights"),
)
#: Bytes of a row beside its features and its document id: a grade, the code of its query, and copies of both.
_PER_ROW: Final = 24


@dataclass(frozen=True)
class TableOptions:
    """Options of the readers of tables.

    Args:
        columns: Names of columns, as `choose_columns` takes them.
        dtype: Type of the features; None for that of the table.
        missing: What missing features become.
        n_threads: Number of threads.
        budget: Memory budget in bytes.
        on_disk: Whether features and document ids that take more than a quarter of the budget go to temporary files.
    """

    columns: Mapping[str, Any]
    dtype: np.dtype[Any] | None
    missing: Missing
    n_threads: int
    budget: int
    on_disk: bool

    @classmethod
    def of(
        cls, n_jobs: int | None, max_memory: int | str | None, on_disk: bool, options: Mapping[str, Any]
    ) -> TableOptions:
        """Check the options of a reader and those of `from_frame`."""
        columns = dict(options)
        dtype, missing = columns.pop("dtype", None), columns.pop("missing", "error")
        check_missing(missing)
        features = None if dtype is None else feature_dtype(dtype)
        return cls(columns, features, missing, thread_count(n_jobs), memory_budget(max_memory), on_disk)


@dataclass(frozen=True)
class RowBlock:
    """Some rows of a table, checked.

    Args:
        features: Names of the features.
        X: The features.
        grades: Grades, if there are any.
        queries: Query ids, an Arrow array of text or numbers.
        groups: Document groups of the same kind, if there are any.
        documents: Document ids as text, if there are any.
        weights: Document weights, if there are any.
    """

    features: tuple[str, ...]
    X: AnyArray
    grades: FloatArray | None
    queries: Any
    groups: Any = None
    documents: AnyArray | None = None
    weights: FloatArray | None = None


class _Extent(NamedTuple):
    """Position of an array in a file."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class ArraySpill:
    """A list of arrays in memory which can move to a temporary file; arrays of Python objects stay in memory."""

    def __init__(self) -> None:
        self._arrays: list[AnyArray | _Extent] = []
        self._n_moved = 0
        #: Bytes of the arrays in memory.
        self.n_bytes = 0
        self._file: SpillFile | None = None
        self._content: AnyArray | None = None

    def __len__(self) -> int:
        """Count the arrays."""
        return len(self._arrays)

    def append(self, array: AnyArray) -> None:
        """Add an array."""
        self._arrays.append(array)
        self.n_bytes += text_bytes(array)

    def truncate(self, length: int) -> None:
        """Drop all arrays but the first ones."""
        del self._arrays[length:]
        self._n_moved = min(self._n_moved, length)
        in_memory = (item for item in self._arrays[self._n_moved :] if isinstance(item, np.ndarray))
        self.n_bytes = sum(map(text_bytes, in_memory))

    def move(self) -> None:
        """Write the arrays in memory to the file."""
        self._file = self._file or SpillFile()
        for at, item in enumerate(self._arrays[self._n_moved :], self._n_moved):
            if isinstance(item, np.ndarray) and item.dtype != object:
                self._arrays[at] = _Extent(*self._file.append(item), item.dtype, item.shape)
        self._n_moved, self.n_bytes = len(self._arrays), 0

    def close(self) -> None:
        """End the writing, if there was any, so that the arrays can be read."""
        if self._file is not None and self._content is None:
            self.move()
            self._content = self._file.array()

    def read(self, first: int, end: int) -> Iterator[AnyArray]:
        """Yield arrays by position."""
        for item in self._arrays[first:end]:
            if isinstance(item, _Extent):
                assert self._content is not None
                yield bytes_between(self._content, item.start, item.end).view(item.dtype).reshape(item.shape)
            else:
                yield item

    def matrix(self, first: int, end: int) -> AnyArray:
        """Return matrices of equal type and width as one; those in the file are not copied."""
        extents = [item for item in self._arrays[first:end] if isinstance(item, _Extent)]
        if self._content is None or not extents or 0 in extents[0].shape[1:]:
            matrices = list(self.read(first, end))
            shape, dtype = matrices[0].shape[1:], matrices[0].dtype
            return matrices[0] if len(matrices) == 1 else concatenate_into(matrices, shape, dtype)
        content = self._content[extents[0].start : extents[-1].end]
        return content.view(extents[0].dtype).reshape(-1, *extents[0].shape[1:])

    def words(self, first: int, end: int) -> AnyArray:
        """Return arrays of text as one, in a file of its own if they are in the file."""
        dtypes = {item.dtype for item in self._arrays[first:end]}
        widths = [dtype.itemsize // 4 for dtype in dtypes]
        if self._content is None or np.dtype(object) in dtypes or not even_lengths(max(widths), min(widths)):
            return join_text(list(self.read(first, end)))
        file, fixed = SpillFile(), f"U{max(widths)}"
        for words in self.read(first, end):
            file.append(words.astype(fixed))
        return file.array().view(fixed)


class Spill:
    """Features and document ids of the tables that are read.

    Args:
        budget: Memory budget in bytes.
        on_disk: Whether they move to temporary files once they take a quarter of the budget.
    """

    def __init__(self, budget: int, on_disk: bool) -> None:
        self.features, self.documents = ArraySpill(), ArraySpill()
        self._budget, self._on_disk = budget, on_disk
        self._n_rows = 0

    def add(self, X: AnyArray, documents: AnyArray | None, path: Path) -> None:
        """Add rows, and hold all rows to the budget."""
        self.features.append(X)
        if documents is not None:
            self.documents.append(documents)
        self._n_rows += len(X)
        if self._on_disk and 4 * self._n_bytes > self._budget:
            self.features.move()
            self.documents.move()
        rows = _PER_ROW * self._n_rows
        if self._on_disk:
            what, remedy = f"the first {self._n_rows:,} documents", "convert fewer files at once"
            check_memory(rows + self._n_bytes, what, self._budget, remedy=remedy, path=path)
        else:
            check_memory(rows + 2 * self._n_bytes, "the columns of this table", self._budget, path=path)

    @property
    def _n_bytes(self) -> int:
        return self.features.n_bytes + self.documents.n_bytes

    def drop(self, n_features: int, n_documents: int, n_rows: int) -> None:
        """Drop the rows that were added last, and all arrays but the first ones."""
        self.features.truncate(n_features)
        self.documents.truncate(n_documents)
        self._n_rows -= n_rows

    def close(self) -> None:
        """End the writing."""
        self.features.close()
        self.documents.close()


class IdColumn:
    """Ids of all rows: the distinct ones, and the code of each row."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._types: set[type] = set()
        # It grows in place.
        self._rows = array("i")

    def add(self, ids: Any) -> None:
        """Add an Arrow array of text or numbers."""
        encoded = ids.dictionary_encode()
        values = [as_whole(value) for value in encoded.dictionary.to_pylist()]
        self._types.update(map(type, values))
        codes = [self._codes.setdefault(str(value), len(self._codes)) for value in values]
        self._rows.frombytes(np.array(codes, dtype=np.intc)[encoded.indices.to_numpy()].tobytes())

    def finish(self, untyped: bool) -> tuple[AnyArray, AnyArray]:
        """Return the distinct ids, and the position of the id of each row among them.

        Args:
            untyped: Whether the table has only text, which is a number if it is spelled as one.
        """
        words, rows = list(self._codes), np.frombuffer(self._rows, dtype=np.intc)
        if self._types and self._types <= {int, float}:
            return _number_array(words, float in self._types), rows
        return (id_array(words) if untyped else text_array(words)), rows


def _number_array(words: Sequence[str], decimal: bool) -> AnyArray:
    if decimal:
        return np.array(list(map(float, words)))
    numbers = list(map(int, words))
    if max(numbers) < 2**63:
        return np.array(numbers, dtype=np.int64)
    return np.array(numbers, dtype=np.uint64) if min(numbers) >= 0 else text_array(words)


def as_whole(value: Any) -> Any:
    """Return a whole number for a float that is one.

    >>> as_whole(7.0), as_whole(7.5), as_whole("7.0")
    (7, 7.5, '7.0')
    """
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


class TableBuilder:
    """The rows of one file.

    Args:
        spill: Keeps features and document ids, with those of other files.
        path: The file.
        untyped: Whether the file has only text, in which ids are numbers if all of them are spelled as whole numbers.
    """

    def __init__(self, spill: Spill, path: Path, untyped: bool) -> None:
        self._spill, self._path, self._untyped = spill, path, untyped
        self._first, self._first_document = len(spill.features), len(spill.documents)
        self.n_rows = 0
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._spill.drop(self._first, self._first_document, self.n_rows)
        self._grades, self._weights = array("d"), array("d")
        self._queries, self._groups = IdColumn(), IdColumn()
        self._block: RowBlock | None = None
        self.n_rows = 0

    def add(self, block: RowBlock) -> None:
        """Add rows."""
        self._spill.add(block.X, block.documents, self._path)
        self._queries.add(block.queries)
        if block.grades is not None:
            self._grades.frombytes(block.grades.tobytes())
        if block.weights is not None:
            self._weights.frombytes(block.weights.tobytes())
        if block.groups is not None:
            self._groups.add(block.groups)
        self._block = block
        self.n_rows += len(block.X)
        self._end, self._end_document = len(self._spill.features), len(self._spill.documents)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        assert self._block is not None
        return self._block.features

    def queries(self, missing: Missing) -> Queries:
        """Return all rows; the spill must be closed."""
        assert self._block is not None
        ids, codes = self._queries.finish(self._untyped)
        distinct, offsets, order = group_by_id(codes)
        documents = (self._first_document, self._end_document)
        queries = Queries(
            X=fill_missing(self._spill.features.matrix(self._first, self._end), offsets, missing, order),
            judgements=None if self._block.grades is None else np.frombuffer(self._grades),
            query_offsets=offsets,
            query_ids=check_ids(ids, len(ids))[distinct],
            document_ids=None if self._block.documents is None else self._spill.documents.words(*documents),
            document_groups=None if self._block.groups is None else _labels(*self._groups.finish(self._untyped)),
            document_weights=None if self._block.weights is None else np.frombuffer(self._weights),
            feature_names=self.features,
            order=order,
        )
        return warn_if_repeated(check_queries(queries, self._path), self._path)


def _labels(distinct: AnyArray, codes: AnyArray) -> AnyArray:
    return np.asarray(distinct[codes])


def read_files(
    paths: Paths,
    read_file: Callable[[Path, TableOptions, TableBuilder], None],
    options: TableOptions,
    *,
    untyped: bool = False,
) -> Queries:
    """Read tables and concatenate them; errors name the file.

    Args:
        paths: One file or several.
        read_file: Adds the rows of a file to a builder.
        options: How to read them.
        untyped: Whether the files have only text, in which ids are numbers if all of them are.
    """
    spill = Spill(options.budget, options.on_disk)
    builders: list[tuple[Path, TableBuilder]] = []
    for path in list_paths(paths):
        builder = TableBuilder(spill, path, untyped)
        builders.append((path, builder))
        with _named(path):
            read_file(path, options, builder)
        _check_features(builders[0], path, builder.features)
    spill.close()
    parts: list[tuple[Path, Queries]] = []
    for path, builder in builders:
        with _named(path):
            parts.append((path, builder.queries(options.missing)))
    _check_columns(parts)
    return Queries.concatenate(part for _, part in parts)


def _check_features(first: tuple[Path, TableBuilder], path: Path, features: Sequence[str]) -> None:
    """Refuse a file whose features differ from those of the first file."""
    expected = first[1].features
    if len(features) != len(expected):
        problem = f"{len(features)} features, but {first[0].name} has {len(expected)}; "
        raise DataError(f"{problem}name the columns to use with ", Parameter("features", ...), path=path)
    if features != expected:
        problem = f"other features than in {first[0].name}, or in another order; "
        raise DataError(f"{problem}name them with ", Parameter("features", list(expected)), path=path)


def _check_columns(parts: Sequence[tuple[Path, Queries]]) -> None:
    """Refuse files of which some have grades or document ids and some have none."""
    first_path, first = parts[0]
    for path, part in parts[1:]:
        for column, name in _COLUMNS:
            has, first_has = (getattr(queries, column) is not None for queries in (part, first))
            if has != first_has:
                problem = f"{name}, but {first_path.name} has none" if has else f"no {name}, but {first_path.name} has"
                raise DataError(f"{problem}; give them to all files or to none", path=path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except DataError as error:
        raise error.at(path) from None
