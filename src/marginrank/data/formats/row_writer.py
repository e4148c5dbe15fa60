"""Rows of queries as words, for the formats that are text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import blocks
from marginrank.typing import AnyArray, Features

_ROWS_AT_ONCE: Final = 4096


class WrittenRow(NamedTuple):
    """A document in words; the numbers of features that are missing are empty, and so is the grade if unjudged."""

    query: int
    grade: str | None
    document: str | None
    weight: str | None
    features: list[str]


def written_rows(queries: Queries) -> Iterator[WrittenRow]:
    """Put document after document into words; the query is its number."""
    query_of_row = queries.query_of_row
    for rows, X in feature_rows(queries):
        n, width = rows.stop - rows.start, queries.n_features
        words = ["" if word == "NaN" else word for word in number_words((X.toarray() if sp.issparse(X) else X).ravel())]
        grades: list[str | None] = [None] * n
        if queries.judgements is not None:
            grades = ["" if math.isnan(grade) else short_number(grade) for grade in queries.judgements[rows].tolist()]
        names: list[str | None] = [None] * n
        if queries.document_ids is not None:
            names = as_text(queries.document_ids[rows]).tolist()
        weights: list[str | None] = [None] * n
        if queries.document_weights is not None:
            weights = [short_number(weight) for weight in queries.document_weights[rows].tolist()]
        for row, query in enumerate(query_of_row[rows].tolist()):
            values = words[row * width : (row + 1) * width]
            yield WrittenRow(query, grades[row], names[row], weights[row], values)


def check_unicode(queries: Queries, form: str) -> None:
    """Refuse ids that are not text in UTF-8."""
    for ids in (queries.query_ids, queries.document_ids):
        try:
            for rows in row_slices(0 if ids is None else len(ids)):
                "".join([] if ids is None else as_text(ids[rows]).tolist()).encode()
        except UnicodeEncodeError:
            raise DataError(f"an id is not UTF-8, and {form} holds nothing else; re-encode the source") from None


def feature_rows(queries: Queries, n_rows: int = _ROWS_AT_ONCE) -> Iterator[tuple[slice, Features]]:
    """Yield the features of some documents at a time, which need not be in memory."""
    if not sp.issparse(queries.X):
        return blocks(queries.X, n_rows)
    return ((rows, queries.X[rows]) for rows in row_slices(queries.n_documents, n_rows))


def row_slices(n: int, step: int = _ROWS_AT_ONCE) -> Iterator[slice]:
    """Cut n rows into blocks."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def short_number(number: float) -> str:
    """Write whole numbers without a point.

    >>> short_number(2.0), short_number(0.5)
    ('2', '0.5')
    """
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def number_words(values: AnyArray) -> list[str]:
    """Write each number with the fewest digits that are read back as the same number."""
    words = [repr(value) for value in values.tolist()] if values.dtype == np.float64 else _single_words(values)
    return [word.removesuffix(".0").replace("nan", "NaN") for word in words]


def _single_words(values: AnyArray) -> list[str]:
    """Write float32 with the digits that tell it from its neighbors, or with all where those mislead.

    Text is read as a double first, and the double nearest to a short word may lie halfway to a neighbor. That
    takes long powers of ten: from 1e-3 to 1e16, nine digits differ from every point halfway by more than 1 in 2^53.
    """
    short = np.asarray(values).astype("U32")
    words: list[str] = short.tolist()
    size = np.abs(values)
    doubtful = np.flatnonzero(((size > 0) & (size < 1e-3)) | (size >= 1e16))
    with np.errstate(over="ignore"):
        misread = short[doubtful].astype(np.float64).astype(np.float32) != values[doubtful]
    for at in doubtful[misread].tolist():
        words[at] = repr(float(values[at]))
    return words
