"""Features of shown documents, looked up in another table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import narwhals as nw
import numpy as np

from marginrank.data.column_roles import is_grade_name, is_query_name
from marginrank.data.frames import from_frame, open_frame
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Message, Parameter, RepeatedDocumentsWarning
from marginrank.typing import AnyArray, IntArray

#: Column of query ids that is added to a table of documents.
_ANY_QUERY: Final = "qid"
#: Column of grades that is added to a table with ratings, which are a feature of what was shown; clicks are the grades.
_NO_GRADE: Final = "(none)"


def rows_in_table(documents: Queries, table: Any, columns: Mapping[str, Any]) -> tuple[Queries, IntArray]:
    """Return a table of features as queries, and the row of each shown document in it; −1 if it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedDocumentsWarning)  # refused below
        source, by_query = _as_queries(table, columns)
    if source.document_ids is None:
        raise DataError("the table of features has no document ids; name their column with ", Parameter("document_id"))
    known = _keys(source, by_query)
    places: dict[Any, int] = {}
    for row, key in enumerate(known):
        if key in places:
            way_out: Message = "" if by_query else (", or name the column of query ids with ", Parameter("qid", ...))
            raise DataError(
                f"document {source.document_names[row]} appears twice in the table of features; keep one row", way_out
            )
        places[key] = row
    rows = np.array([places.get(key, -1) for key in _keys(documents, by_query)], dtype=np.int64)
    return source, rows


def _as_queries(table: Any, columns: Mapping[str, Any]) -> tuple[Queries, bool]:
    if isinstance(table, Queries):
        return table, True
    if isinstance(table, str | Path):
        from marginrank.clicks.click_files import read_table  # noqa: PLC0415

        try:
            return _as_queries(read_table(table, [name for name in columns.values() if isinstance(name, str)]), columns)
        except DataError as error:
            raise error.at(table) from None
    frame = open_frame(table)
    by_query = columns.get("qid") is not None or any(is_query_name(name) for name in frame.columns)
    if not by_query:
        frame, columns = frame.with_columns(nw.lit(0).alias(_ANY_QUERY)), {**columns, "qid": _ANY_QUERY}
    judged = any(is_grade_name(name, judged=True) for name in frame.columns)
    if columns.get("grade") is None and not judged and any(is_grade_name(name, judged=False) for name in frame.columns):
        frame, columns = frame.with_columns(nw.lit(0).alias(_NO_GRADE)), {**columns, "grade": _NO_GRADE}
    return from_frame(frame.to_native(), **columns), by_query


def _keys(documents: Queries, by_query: bool) -> list[Any]:
    names = documents.document_names.tolist()
    if not by_query:
        return list(names)
    queries: AnyArray = as_text(documents.query_ids)[documents.query_of_row]
    return list(zip(queries.tolist(), names, strict=True))
