"""Queries to LETOR text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from marginrank.data.files import create_text
from marginrank.data.queries import Queries
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.sparse import sp
from marginrank.typing import AnyArray

_ROWS_AT_ONCE = 4096
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\ud800-\udc7f\udd00-\udfff]")


def write_letor(path: str | Path, queries: Queries) -> None:
    """Write ``grade qid:Q index:value … #docid = D`` lines, with digits enough to read the same numbers back.

    Dense features are all written; of sparse ones, those that are stored. Weights, document groups and feature names
    are left out: the text has no place for them.
    """
    _check_names(queries)
    if not queries.has_grades:
        raise DataError("text has a grade on every line, and these queries have none; write .queries or .parquet")
    query_of_row = np.repeat(as_text(queries.query_ids), queries.lengths)
    with create_text(path) as file:
        for rows in _slices(queries.n_documents):
            heads = (
                f"{_short(g)} qid:{q}" for g, q in zip(queries.grades[rows].tolist(), query_of_row[rows], strict=True)
            )
            lines = (
                f"{head}{body}{tail}\n"
                for head, body, tail in zip(heads, _bodies(queries, rows), _tails(queries, rows), strict=True)
            )
            file.writelines(lines)


def _slices(n: int) -> Iterator[slice]:
    return (slice(start, min(start + _ROWS_AT_ONCE, n)) for start in range(0, n, _ROWS_AT_ONCE))


def _check_names(queries: Queries) -> None:
    for name in as_text(queries.query_ids).tolist():
        if not name or "#" in name or _BLANK_OR_CONTROL.search(name):
            raise DataError(
                f"query id {name!r} cannot stand in LETOR text: "
                "it is empty, or holds a blank, a control character or '#'"
            )
    if queries.document_ids is None:
        return
    for rows in _slices(queries.n_documents):
        for name in as_text(queries.document_ids[rows]).tolist():
            if _BLANK_OR_CONTROL.search(name):
                raise DataError(
                    f"document id {name!r} cannot stand in LETOR text: it holds a blank or a control character"
                )


def _short(number: float) -> str:
    """Write whole numbers without a point.

    >>> _short(2.0), _short(0.5)
    ('2', '0.5')
    """
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _bodies(queries: Queries, rows: slice) -> list[str]:
    X = queries.X[rows]
    if sp.issparse(X):
        pairs = [f" {index + 1}:{word}" for index, word in zip(X.indices.tolist(), _words(X.data), strict=True)]
        return ["".join(pairs[start:end]) for start, end in pairwise(X.indptr.tolist())]
    labels = [f" {k + 1}:" for k in range(queries.n_features)]
    words = _words(X.ravel())
    width = queries.n_features
    return [
        "".join([part for pair in zip(labels, words[r * width : (r + 1) * width], strict=True) for part in pair])
        for r in range(X.shape[0])
    ]


def _words(values: AnyArray) -> list[str]:
    """Write each number with the fewest digits that are read back as the same number."""
    words = [repr(value) for value in values.tolist()] if values.dtype == np.float64 else _single_words(values)
    return [word.removesuffix(".0").replace("nan", "NaN") for word in words]


def _single_words(values: AnyArray) -> list[str]:
    """Write float32 with the digits that tell it from its neighbours, or with all where those mislead.

    Text is read as a double first, and the double nearest to a short word may lie halfway to a neighbour. That
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


def _tails(queries: Queries, rows: slice) -> list[str]:
    if queries.document_ids is None:
        return [""] * (rows.stop - rows.start)
    names = as_text(queries.document_ids[rows]).tolist()
    return [f" #docid = {name}" if name else "" for name in names]
