"""Rows of tables that come a block at a time, put together."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from marginrank.data.arrays import MISSING_ADVICE, Missing, check_missing, feature_dtype, fill_missing
from marginrank.data.column_roles import RowError
from marginrank.data.formats.text_files import Paths, list_paths
from marginrank.data.grouping import check_ids, concatenate_into, group_by_id, text_of_objects
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, even_lengths, text_array, text_bytes
from marginrank.data.validation import check_queries
from marginrank.errors import DataError
from marginrank.runtime.mapped_arrays import Appended, allocate, bytes_between, flush_rows, take_rows
from marginrank.runtime.memory import check_memory
from marginrank.runtime.memory import max_memory as memory_budget
from marginrank.runtime.threads import thread_count
from marginrank.typing import AnyArray, FloatArray, IntArray

#: What is kept of a row beside its features and its name: a grade, the number of its query, and copies of both.
_PER_ROW: Final = 24


class _Place(NamedTuple):
    """Where an array is in a file."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class TextSpill:
    """Arrays in order, all in memory or all but Python objects in one file."""

    def __init__(self) -> None:
        self._pieces: list[AnyArray | _Place] = []
        self._n_moved = 0
        self._file: Appended | None = None
        self._content: AnyArray | None = None

    def __len__(self) -> int:
        """Count the arrays."""
        return len(self._pieces)

    @property
    def are_moved(self) -> bool:
        """Whether arrays are in a file."""
        return self._file is not None

    def append(self, array: AnyArray) -> None:
        """Keep an array."""
        self._pieces.append(array)

    def move(self) -> None:
        """Write what is in memory to the file."""
        self._file = self._file or Appended()
        for at, piece in enumerate(self._pieces[self._n_moved :], self._n_moved):
            if isinstance(piece, np.ndarray) and piece.dtype != object:
                self._pieces[at] = _Place(*self._file.append(piece), piece.dtype, piece.shape)
        self._n_moved = len(self._pieces)

    def close(self) -> None:
        """End the writing, if there was any; then the arrays can be read."""
        if self._file is not None and self._content is None:
            self.move()
            self._content = self._file.array()

    def read(self, first: int, end: int) -> Iterator[AnyArray]:
        """Yield some of the arrays, by their numbers."""
        for piece in self._pieces[first:end]:
            if isinstance(piece, _Place):
                assert self._content is not None
                yield bytes_between(self._content, piece.start, piece.end).view(piece.dtype).reshape(piece.shape)
            else:
                yield piece

    def rows(self, first: int, end: int) -> AnyArray | None:
        """Return arrays of equal type and width as one, without a copy; None where they are in memory."""
        places = [piece for piece in self._pieces[first:end] if isinstance(piece, _Place)]
        if self._content is None or len(places) < end - first or not places:
            return None
        dtype, shape = places[0].dtype, places[0].shape[1:]
        if 0 in shape:
            return np.empty((sum(place.shape[0] for place in places), *shape), dtype=dtype)
        return self._content[places[0].start : places[-1].end].view(dtype).reshape(-1, *shape)


def gather(parts: Iterable[AnyArray], on_disk: bool) -> AnyArray:
    """Put labels of equal type one after the other, in memory or in a temporary file."""
    if not on_disk:
        return np.concatenate(list(parts))
    file = Appended()
    dtypes = {part.dtype for part in parts if file.append(part)}
    return file.array().view(*dtypes)


class Spill:
    """What is kept of tables while they are read.

    Args:
        budget: Bytes of memory there are.
        on_disk: Whether features and names of documents move to temporary files once they take a quarter of that.
    """

    def __init__(self, budget: int, on_disk: bool) -> None:
        self.features, self.names = TextSpill(), TextSpill()
        self._budget, self._on_disk = budget, on_disk
        self._n_rows = self._in_memory = 0

    def keep(self, X: AnyArray, names: AnyArray | None, path: Path) -> None:
        """Keep features of documents, and their names, and hold all that is kept to the budget."""
        self.features.append(X)
        self._n_rows += len(X)
        self._in_memory += X.nbytes
        if names is not None:
            self.names.append(names)
            self._in_memory += text_bytes(names)
        if self._on_disk and 4 * self._in_memory > self._budget:
            self.features.move()
            self.names.move()
            self._in_memory = 0
        rows = _PER_ROW * self._n_rows
        if self._on_disk:
            remedy = "convert fewer files at once"
            check_memory(
                rows + self._in_memory, f"the first {self._n_rows:,} documents", self._budget, remedy=remedy, path=path
            )
        else:
            check_memory(2 * self._in_memory + rows, "the columns of this table", self._budget, path=path)

    def close(self) -> None:
        """End the writing."""
        self.features.close()
        self.names.close()


#: Makes one array of ids of several.
Join: TypeAlias = Callable[[Sequence[AnyArray]], AnyArray]


@dataclass(frozen=True)
class Labels:
    """Labels of rows: the distinct ones in order of appearance, and which of them each row has."""

    values: AnyArray
    codes: IntArray

    @classmethod
    def of(cls, labels: AnyArray) -> Labels:
        """Find the distinct labels.

        >>> found = Labels.of(np.array([7, 5, 7]))
        >>> found.values.tolist(), found.codes.tolist()
        ([7, 5], [0, 1, 0])
        """
        if labels.dtype == object:
            places: dict[tuple[type, Any], int] = {}
            codes = [places.setdefault((type(label), label), len(places)) for label in labels.tolist()]
            values = np.empty(len(places), dtype=object)
            values[:] = [label for _, label in places]
            return cls(values, np.array(codes, dtype=np.int64))
        distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return cls(distinct[np.argsort(first)], rank[inverse])


@dataclass(frozen=True)
class RowBlock:
    """Some rows of a table.

    Args:
        features: Names of the features.
        X: The features.
        grades: Grades, if there are any.
        queries: Query ids.
        groups: Document groups, if there are any.
        documents: Names of documents, if there are any: text, numbers, or Python objects.
        line: Line of the first row, where the table is text.
    """

    features: tuple[str, ...]
    X: AnyArray
    grades: FloatArray | None
    queries: Labels
    groups: Labels | None = None
    documents: AnyArray | None = None
    line: int | None = None


class Coded:
    """Labels of all rows: the distinct ones, and a number for each row."""

    def __init__(self) -> None:
        self._places: dict[tuple[type, Any], int] = {}
        self._values: list[AnyArray] = []
        # It grows in place.
        self._codes = array("i")

    def add(self, labels: Labels) -> None:
        """Add the labels of more rows."""
        keys = [(type(label), label) for label in labels.values.tolist()]
        self._values.append(labels.values[[key not in self._places for key in keys]])
        places = [self._places.setdefault(key, len(self._places)) for key in keys]
        self._codes.frombytes(np.array(places, dtype=np.intc)[labels.codes].tobytes())

    def finish(self, join: Join) -> tuple[AnyArray, AnyArray]:
        """Return distinct labels, and the place of each row's among them."""
        labels, codes = join(self._values), np.frombuffer(self._codes, dtype=np.intc)
        distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        if len(distinct) < len(labels):  # such as 7 and 7.0, once both are numbers
            codes = first[inverse].astype(np.intc)[codes]
        return labels, codes


class TableBuilder:
    """The rows of one table.

    Args:
        store: What keeps features and names of documents, with those of other tables.
        path: The file, for messages.
        join: Makes one array of ids of several.
    """

    def __init__(self, store: Spill, path: Path, join: Join) -> None:
        self._store, self._path, self._join = store, path, join
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._first_X, self._first_name = len(self._store.features), len(self._store.names)
        self._kinds: set[type] = set()
        self._sizes: list[int] = []
        self._features: list[tuple[str, ...]] = []
        self._lines: list[int | None] = []
        self._grades = array("d")
        self._queries, self._groups = Coded(), Coded()
        self._part: RowBlock | None = None

    def add(self, part: RowBlock) -> None:
        """Add rows."""
        self._store.keep(part.X, part.documents, self._path)
        self._sizes.append(len(part.X))
        self._features.append(part.features)
        self._lines.append(part.line)
        self._queries.add(part.queries)
        if part.grades is not None:
            self._grades.frombytes(part.grades.tobytes())
        if part.groups is not None:
            self._groups.add(part.groups)
        if part.documents is not None:
            self._kinds |= _kinds(part.documents)
        self._part = part

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return sum(self._sizes)

    @property
    def n_features(self) -> int:
        """Number of features so far."""
        return len(self._features[-1])

    def queries(self, missing: Missing) -> Queries:
        """Return all rows, grouped by query; the store must be closed."""
        assert self._part is not None
        ids, codes = self._queries.finish(self._join)
        order, offsets, rows = group_by_id(codes)
        columns: dict[str, Any] = {
            "X": self._matrix(missing),
            "judgements": None if self._part.grades is None else np.frombuffer(self._grades),
            "document_ids": None if self._part.documents is None else self._names(),
            "document_groups": None if self._part.groups is None else self._group_labels(),
        }
        if rows is not None:
            columns = {name: None if one is None else _taken(one, rows) for name, one in columns.items()}
        fill_missing(columns["X"], offsets, missing)
        names = self._features[-1]
        ids = check_ids(ids, len(ids))[order]
        queries = Queries(offsets=offsets, query_ids=ids, feature_names=names, rows=rows, **columns)
        return check_queries(queries, self._path)

    def _matrix(self, missing: Missing) -> AnyArray:
        """Return the features; those that came up late are missing in the rows before."""
        names, end = self._features[-1], self._first_X + len(self._sizes)
        short = next((at for at, features in enumerate(self._features) if features != names), None)
        if short is None:
            whole = self._store.features.rows(self._first_X, end)
            if whole is not None:
                return whole
            X = list(self._store.features.read(self._first_X, end))
            return X[0] if len(X) == 1 else concatenate_into(X, X[0].shape[1:], X[0].dtype)
        if missing == "error":
            absent = next(name for name in names if name not in self._features[short])
            error = RowError(sum(self._sizes[:short]), absent, f"has no value; {MISSING_ADVICE}")
            line = self._lines[short]
            raise error if line is None else error.on_line(line)
        return self._widened(names, end)

    def _widened(self, names: tuple[str, ...], end: int) -> AnyArray:
        X = allocate((self.n_rows, len(names)), self._part.X.dtype if self._part else np.float64)
        row = 0
        for features, piece in zip(self._features, self._store.features.read(self._first_X, end), strict=True):
            rows = slice(row, row + len(piece))
            X[rows] = np.nan
            X[rows, [names.index(name) for name in features]] = piece
            flush_rows(X, rows)
            row = rows.stop
        return X

    def _texts(self) -> Iterator[AnyArray]:
        """Yield the names of documents as text; whole numbers are spelled as decimal ones where there are both."""
        pieces = self._store.names.read(self._first_name, self._first_name + len(self._sizes))
        both = self._kinds == {int, float}
        return (as_text(np.asarray(piece, dtype=np.float64) if both else piece) for piece in pieces)

    def _names(self) -> AnyArray:
        longest = total = 0
        for words in self._texts():
            lengths = (
                np.fromiter(map(len, words), np.int64, len(words)) if words.dtype == object else np.char.str_len(words)
            )
            longest = max(
                longest, int(lengths.max(initial=0)), 0 if words.dtype == object else words.dtype.itemsize // 4
            )
            total += int(lengths.sum())
        if not even_lengths(longest, total / max(1, self.n_rows)):
            return text_array([word for words in self._texts() for word in words.tolist()])
        fixed = f"U{max(1, longest)}"
        return gather((words.astype(fixed) for words in self._texts()), self._store.names.are_moved)

    def _group_labels(self) -> AnyArray:
        labels, codes = self._groups.finish(self._join)
        if labels.dtype == object:
            labels = text_of_objects(labels, "document_groups", "give every row one, or leave out document_groups")
        return _taken(labels, codes)


def _kinds(labels: AnyArray) -> set[type]:
    """Return the Python types of labels.

    >>> _kinds(np.array([7])), _kinds(np.array(["a"]))
    ({<class 'int'>}, {<class 'str'>})
    """
    return set(map(type, labels.tolist() if labels.dtype == object else labels[:1].tolist()))


def _taken(column: AnyArray, rows: AnyArray) -> AnyArray:
    return np.asarray(column[rows]) if column.dtype == object else take_rows(column, rows)


class TableOptions(NamedTuple):
    """What readers of tables are given beside the options of `from_frame`."""

    n_jobs: int | None
    max_memory: int | str | None
    on_disk: bool


@dataclass(frozen=True)
class RowFormat:
    """How a table is to be read.

    Args:
        named: Names of columns, by what they are for, as `choose_columns` takes them.
        dtype: Type of the features, if one is asked for.
        missing: What missing features become.
        n_threads: Threads to use.
        budget: Budget of memory, in bytes.
        on_disk: Whether what takes much of it goes to disk.
    """

    named: Mapping[str, Any]
    dtype: np.dtype[Any] | None
    missing: Missing
    n_threads: int
    budget: int
    on_disk: bool

    @classmethod
    def of(cls, reading: TableOptions, options: Mapping[str, Any]) -> RowFormat:
        """Check the options of a reader."""
        named = dict(options)
        dtype, missing = named.pop("dtype", None), named.pop("missing", "error")
        check_missing(missing)
        return cls(
            named,
            None if dtype is None else feature_dtype(dtype),
            missing,
            thread_count(reading.n_jobs),
            memory_budget(reading.max_memory),
            reading.on_disk,
        )


def read_files(
    paths: Paths,
    read_one: Callable[[Path, RowFormat, TableBuilder], None],
    join: Join,
    reading: TableOptions,
    options: Mapping[str, Any],
) -> Queries:
    """Read tables and put them one after the other; errors name the file.

    Args:
        paths: One file or several.
        read_one: Reads a file, and adds its rows to an assembly.
        join: Makes one array of ids of several.
        reading: How to read.
        options: Those of `from_frame`.
    """
    files, how = list_paths(paths), RowFormat.of(reading, options)
    store = Spill(how.budget, how.on_disk)
    assemblies = [TableBuilder(store, path, join) for path in files]
    for path, assembly in zip(files, assemblies, strict=True):
        assembly.clear()
        with _named(path):
            read_one(path, how, assembly)
        if assembly.n_features != assemblies[0].n_features:
            raise DataError(
                f"{assembly.n_features} features, but {files[0].name} has {assemblies[0].n_features}; "
                "name the columns to use with features=",
                path=path,
            )
    store.close()
    parts: list[tuple[Path, Queries]] = []
    for path, assembly in zip(files, assemblies, strict=True):
        with _named(path):
            parts.append((path, assembly.queries(how.missing)))
    _check_parts(parts)
    return Queries.concatenate(part for _, part in parts)


def _check_parts(parts: Sequence[tuple[Path, Queries]]) -> None:
    """Refuse files that do not go together, by name."""
    first_path, first = parts[0]
    for path, part in parts[1:]:
        if part.feature_names != first.feature_names:
            raise DataError(
                f"other features than in {first_path.name}, or in another order; name them with "
                f"features={list(first.feature_names or ())}",
                path=path,
            )
        for column, name in (("judgements", "grades"), ("document_ids", "document ids")):
            has, first_has = (getattr(one, column) is not None for one in (part, first))
            if has != first_has:
                problem = f"{name}, but {first_path.name} has none" if has else f"no {name}, but {first_path.name} has"
                raise DataError(f"{problem}; give them to all files or to none", path=path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except DataError as error:
        raise DataError(error.problem, path=path, line=error.line, column=error.column) from None
