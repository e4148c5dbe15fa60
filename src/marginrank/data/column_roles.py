"""The roles of the columns of a table, and errors that name a row."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from marginrank.errors import ColumnsLeftOutWarning, DataError, Message, Parameter, warn
from marginrank.runtime.text import count, did_you_mean

_log: Final = logging.getLogger(__name__)

#: Column names that are recognized if none is given, in lower case without blanks, hyphens and underscores. Names of an
#: earlier tier are preferred; two columns of the same tier are an error.
QUERY_COLUMNS: Final = (("qid", "queryid"), ("searchid", "srchid"), ("query", "topic", "topicid"))
GRADE_COLUMNS: Final = (("grade", "label", "relevance", "rel", "judgement", "judgment"), ("rating", "y"))
DOCUMENT_COLUMNS: Final = tuple(
    (name,) for name in ("documentid", "docid", "docno", "productid", "itemid", "sku", "asin", "document", "doc", "url")
)
#: A column of weights has this name only: a weight may be a feature of what is ranked.
WEIGHT_COLUMNS: Final = (("documentweight", "docweight"),)
#: Names that our own files have.
_WRITTEN: Final = ("qid", "grade", "document_id")
#: What pandas calls the index of a frame in CSV, and again when it reads that.
_NAMELESS: Final = ("", "Unnamed: 0")
#: Maximum number of feature columns that errors list.
_MOST_NAMED: Final = 12
#: Options of the readers of tables.
TABLE_OPTIONS: Final = (
    "dtype",
    "missing",
    "qid",
    "grade",
    "document_id",
    "document_group",
    "document_weight",
    "features",
)


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
    weight: str | None = None
    #: Columns of text and of other ids that are no features, if the features were not named.
    left_out: tuple[str, ...] = ()

    @property
    def ids(self) -> dict[str, str]:
        """Columns of ids, and what they identify."""
        roles = ((self.group, "document group"), (self.document, "document id"), (self.query, "query id"))
        return {name: role for name, role in roles if name is not None}

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers."""
        return tuple(dict.fromkeys(name for name in (self.grade, self.weight, *self.features) if name is not None))

    def __str__(self) -> str:
        """Name the columns by role, the features if they are few; the group is one that the user named."""
        roles = {"query": self.query, "grade": self.grade, "document": self.document, "weight": self.weight}
        named = [f"{role}: {name}" for role, name in roles.items() if name is not None]
        if self.features:
            listed = f": {', '.join(self.features)}" if len(self.features) <= _MOST_NAMED else ""
            named.append(count(len(self.features), "feature") + listed)
        return ", ".join(named)

    def announce(self) -> None:
        """Log the columns by role, unless they have our own names, and warn of those that are left out."""
        if not {self.query, self.grade, self.document} <= {*_WRITTEN, None}:
            _log.info("columns  %s", self)
        if self.left_out:
            names = ", ".join(map(repr, self.left_out[:_MOST_NAMED]))
            more = ", ..." if len(self.left_out) > _MOST_NAMED else ""
            warn(ColumnsLeftOutWarning(f"columns left out because they hold text or ids: {names}{more}"))


def choose_columns(
    columns: Sequence[str],
    *,
    qid: str | None = None,
    grade: str | None = None,
    document_id: str | None = None,
    document_group: str | None = None,
    document_weight: str | None = None,
    features: str | Iterable[str] | None = None,
    index: Sequence[str] = (),
    text: Collection[str] = (),
) -> ColumnRoles:
    """Choose the columns to use, by the given names or the usual ones.

    Columns of text, other columns of ids and the index of a pandas frame, which is a column of the files that pandas
    writes, are no features unless they are named.

    >>> roles = choose_columns(["", "qid", "Label", "bm25", "sku", "title"], text=["title"])
    >>> str(roles), roles.left_out
    ('query: qid, grade: Label, document: sku, 1 feature: bm25', ('title',))
    >>> choose_columns(["qid", "bm25_title", "bm25_body", "age"], features="bm25_*").features
    ('bm25_title', 'bm25_body')
    """
    given = (qid, grade, document_id, document_group, document_weight, *index)
    plain = [name for name in columns if name not in (*given, *text) and not is_id_name(name)]
    named = None if features is None else _named_features(columns, features, plain)
    others = [name for name in columns if name not in (named or ())]
    query = qid or _recognize(columns, QUERY_COLUMNS, "qid", "query ids")
    if query is None:
        raise DataError(
            f"no column of query ids among {', '.join(map(repr, columns[:8]))}; name it with ",
            Parameter("qid", ...),
            " (recognized: qid, query_id, search_id, query, topic)",
        )
    numbers = [name for name in others if name not in text]
    grade = grade or _recognize(numbers, GRADE_COLUMNS, "grade", "grades")
    grade = grade or _recognize(others, GRADE_COLUMNS, "grade", "grades")
    document = document_id or _recognize(others, DOCUMENT_COLUMNS, "document_id", "document ids")
    weight = document_weight or _recognize(others, WEIGHT_COLUMNS, "document_weight", "document weights")
    taken = (query, grade, document, document_group, weight)
    absent = [name for name in (*(named or ()), *taken) if name is not None and name not in columns]
    if absent:
        near = did_you_mean(absent[0], columns)
        raise DataError(f"no column {absent[0]!r}; {near}the columns are {', '.join(map(repr, columns[:8]))}")
    if named is not None:
        return ColumnRoles(query, grade, document, document_group, named, weight)
    nameless = [name for name in columns[:1] if name in _NAMELESS]
    rest = [name for name in columns if name not in (*taken, *index, *nameless)]
    left_out = tuple(name for name in rest if name in text or is_id_name(name))
    names = tuple(name for name in rest if name not in left_out)
    if not names:
        only = f" but {', '.join(map(repr, left_out[:8]))}, which hold text or ids" if left_out else ""
        raise DataError(f"no feature columns are left{only}; name them with ", Parameter("features", ...))
    return ColumnRoles(query, grade, document, document_group, names, weight, left_out)


def _named_features(columns: Sequence[str], features: str | Iterable[str], matched: Sequence[str]) -> tuple[str, ...]:
    """Return the features that are named one by one, with commas between them, or by patterns such as ``bm25_*``.

    Args:
        columns: All columns.
        features: The names and patterns.
        matched: The columns that patterns may match, unless they are called like grades.
    """
    words = [features] if isinstance(features, str) else features
    names: list[str] = []
    for word in words:
        # A name may hold commas and stars itself.
        for name in [word] if word in columns else map(str.strip, word.split(",")):
            matches = [column for column in matched if fnmatchcase(column, name)] if name not in columns else []
            names += [
                match for match in matches if not is_grade_name(match, judged=True) and not is_weight_name(match)
            ] or [name]
    return tuple(dict.fromkeys(names))


def _recognize(columns: Iterable[str], tiers: Sequence[Sequence[str]], option: str, what: str) -> str | None:
    """Return the column with a usual name, if there is one; refuse two that are equally likely."""
    names = list(columns)
    for tier in tiers:
        matches = [name for name in names if spelling(name) in tier]
        if len(matches) > 1:
            both = " and ".join(map(repr, matches[:2]))
            raise DataError(f"{both} may both be the column of {what}; name it with ", Parameter(option, matches[0]))
        if matches:
            return matches[0]
    return None


def spelling(name: str) -> str:
    """Return a name as the usual names are written.

    >>> spelling("Product-ID"), spelling("product_id"), spelling("productId")
    ('productid', 'productid', 'productid')
    """
    return re.sub(r"[\s_-]", "", name).lower()


def is_query_name(name: str) -> bool:
    """Return whether a name is a usual one of query ids."""
    return any(spelling(name) in tier for tier in QUERY_COLUMNS)


def is_id_name(name: str) -> bool:
    """Return whether a name is a usual one of query or document ids."""
    return is_query_name(name) or any(spelling(name) in tier for tier in DOCUMENT_COLUMNS)


def is_weight_name(name: str) -> bool:
    """Return whether a name is a usual one of document weights."""
    return any(spelling(name) in tier for tier in WEIGHT_COLUMNS)


def is_grade_name(name: str, *, judged: bool) -> bool:
    """Return whether a name is a usual one of grades; beside a column of grades, a rating may be anything."""
    return any(spelling(name) in tier for tier in GRADE_COLUMNS[: 1 if judged else 2])


def feature_advice(numbers: Sequence[str]) -> Message:
    """Return advice on naming the feature columns, given those that hold numbers.

    >>> str(DataError(feature_advice(["bm25", "age"])))
    "name the feature columns with features=['bm25', 'age']"
    >>> str(DataError(feature_advice([])))
    'name the feature columns with features='
    """
    few = 0 < len(numbers) <= _MOST_NAMED
    return "name the feature columns with ", Parameter("features", list(numbers) if few else ...)


def choose_read_columns(columns: Sequence[str], named: Mapping[str, Any], text: Collection[str]) -> ColumnRoles:
    """Choose the columns of a text file as `choose_columns` does; a column is read as text or as numbers."""
    chosen = choose_columns(columns, **named, text=text)
    both = sorted(set(chosen.ids) & set(chosen.numbers))
    if both:
        raise DataError(f"column {both[0]!r} is requested both as an id and as numbers; choose one")
    return chosen


def refuse_sparse_columns(frame: Any, *, unless_zero: bool = False) -> None:
    """Refuse pandas' sparse columns; ``unless_zero`` leaves those that SciPy can hold, which fill with 0."""
    for name, dtype in getattr(getattr(frame, "dtypes", None), "items", dict)():
        fill = getattr(dtype, "fill_value", None)
        if fill is not None and not (unless_zero and fill == 0):
            raise DataError(
                f"column {name!r} holds {dtype}, pandas' sparse values; make it dense with "
                f"frame[{name!r}].sparse.to_dense(), or give SciPy's sparse matrices to Queries.from_arrays"
            )


def index_columns(table: Any) -> list[str]:
    """Return the columns of an Arrow table that were the index of a pandas frame."""
    if not type(table).__module__.startswith("pyarrow"):
        return []
    metadata = table.schema.pandas_metadata
    named = metadata.get("index_columns", []) if isinstance(metadata, dict) else []
    # A range is kept as a record, not as a column.
    return [name for name in named if isinstance(name, str)]


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a frame or an Arrow table; None if there are none, or not all are text."""
    for attribute in ("columns", "column_names"):
        names = list(getattr(X, attribute, ()))
        if names and all(isinstance(name, str) for name in names):
            return names
    return None
