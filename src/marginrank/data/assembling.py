"""Rows of tables that come a block at a time, put together."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from marginrank.data.grouping import check_ids, group_by_id, text_of_objects
from marginrank.data.joining import put_together
from marginrank.data.missing import MISSING_ADVICE, Missing, fill_missing
from marginrank.data.pieces import Store, gather
from marginrank.data.queries import Queries
from marginrank.data.table_columns import RowError
from marginrank.data.text import as_text, even_lengths, text_array
from marginrank.data.validation import check_queries
from marginrank.mapped import room, settle, take_rows
from marginrank.typing import AnyArray, FloatArray, IntArray

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
class Part:
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


class Assembly:
    """The rows of one table.

    Args:
        store: What keeps features and names of documents, with those of other tables.
        path: The file, for messages.
        join: Makes one array of ids of several.
    """

    def __init__(self, store: Store, path: Path, join: Join) -> None:
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
        self._part: Part | None = None

    def add(self, part: Part) -> None:
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
            return X[0] if len(X) == 1 else put_together(X, X[0].shape[1:], X[0].dtype)
        if missing == "error":
            absent = next(name for name in names if name not in self._features[short])
            error = RowError(sum(self._sizes[:short]), absent, f"has no value; {MISSING_ADVICE}")
            line = self._lines[short]
            raise error if line is None else error.on_line(line)
        return self._widened(names, end)

    def _widened(self, names: tuple[str, ...], end: int) -> AnyArray:
        X = room((self.n_rows, len(names)), self._part.X.dtype if self._part else np.float64)
        row = 0
        for features, piece in zip(self._features, self._store.features.read(self._first_X, end), strict=True):
            rows = slice(row, row + len(piece))
            X[rows] = np.nan
            X[rows, [names.index(name) for name in features]] = piece
            settle(X, rows)
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
