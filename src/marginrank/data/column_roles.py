"""The roles of the columns of a table, and errors that name a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from marginrank.errors import DataError, Message, Parameter
from marginrank.runtime.text import did_you_mean

#: Column names that are recognised if none is given, first match first.
QUERY_COLUMNS = ("qid", "query_id", "query", "topic")
GRADE_COLUMNS = ("grade", "label", "relevance", "rel", "y")
DOCUMENT_COLUMNS = ("document_id", "docid", "doc_id", "docno", "document", "doc")
#: Maximum number of feature columns that errors list.
_MOST_NAMED: Final = 12
#: Options of the readers of tables.
TABLE_OPTIONS: Final = ("dtype", "missing", "qid", "grade", "document_id", "document_group", "features")


class RowError(DataError):
    """An error in a row of a table.

    Args:
        row: Number of the row, from 0.
        column: Name of the column, if the error is in one.
        said: The error, as a predicate.
    """

    def __init__(self, row: int, column: str | None, said: Message) -> None:
        super().__init__(f"row {row}{'' if column is None else f' of column {column!r}'} ", said)
        self.row, self.feature, self.said = row, column, said

    def on_line(self, line: int) -> DataError:
        """Return the same error for a line of a file."""
        subject = "this row" if self.feature is None else f"column {self.feature!r}"
        return DataError(f"{subject} ", self.said, line=line)

    def after(self, n_rows: int) -> RowError:
        """Return the same error for a table with more rows before."""
        return RowError(n_rows + self.row, self.feature, self.said)


@dataclass(frozen=True)
class ColumnRoles:
    """The columns of a table by role."""

    query: str
    grade: str | None
    document: str | None
    group: str | None
    features: tuple[str, ...]

    @property
    def ids(self) -> dict[str, str]:
        """Columns of ids, and what they identify."""
        roles = ((self.group, "document group"), (self.document, "document id"), (self.query, "query id"))
        return {name: role for name, role in roles if name is not None}

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
) -> ColumnRoles:
    """Choose the columns to use, by the given names or the usual ones.

    >>> choose_columns(["qid", "label", "bm25"])
    ColumnRoles(query='qid', grade='label', document=None, group=None, features=('bm25',))
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
        raise DataError("no feature columns are left; name them with ", Parameter("features", ...))
    return ColumnRoles(query, grade, document, document_group, names)


def feature_advice(numbers: Sequence[str]) -> Message:
    """Return advice on naming the feature columns, given those that hold numbers.

    >>> str(DataError(feature_advice(["bm25", "age"])))
    "name the feature columns with features=['bm25', 'age']"
    """
    few = 0 < len(numbers) <= _MOST_NAMED
    return "name the feature columns with ", Parameter("features", list(numbers) if few else ...)


def choose_read_columns(columns: Sequence[str], named: Mapping[str, Any]) -> ColumnRoles:
    """Choose the columns of a text file as `choose_columns` does; a column is read as text or as numbers."""
    chosen = choose_columns(columns, **named)
    both = sorted(set(chosen.ids) & set(chosen.numbers))
    if both:
        raise DataError(f"column {both[0]!r} is asked for as an id and as numbers; choose one")
    return chosen


def _query_column(columns: Sequence[str], given: str | None) -> str:
    name = given or next((name for name in QUERY_COLUMNS if name in columns), None)
    if name is None:
        raise DataError(
            f"no column of query ids among {', '.join(map(repr, columns[:8]))}; name it with ",
            Parameter("qid", ...),
            f" (recognised: {', '.join(QUERY_COLUMNS)})",
        )
    return name


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a frame or an Arrow table; None if there are none, or not all are text."""
    for attribute in ("columns", "column_names"):
        names = list(getattr(X, attribute, ()))
        if names and all(isinstance(name, str) for name in names):
            return names
    return None
