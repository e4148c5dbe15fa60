"""Queries to LETOR text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.typing import AnyArray

_ROWS_AT_ONCE = 4096


def write_letor(path: str | Path, queries: Queries) -> None:
    """Write ``grade qid:Q index:value … #docid = D`` lines, with digits enough to read the same numbers back.

    Dense features are all written; of sparse ones, those that are stored.
    """
    names = queries.query_ids.astype(str)
    for name in names.tolist():
        if not name or any(byte in name for byte in " \t\r\n#\0"):
            raise DataError(f"query id {name!r} cannot stand in LETOR text: it is empty, or holds a blank or '#'")
    query_of_row = np.repeat(names, queries.lengths)
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for start in range(0, queries.n_documents, _ROWS_AT_ONCE):
            rows = slice(start, min(start + _ROWS_AT_ONCE, queries.n_documents))
            heads = (
                f"{_short(g)} qid:{q}" for g, q in zip(queries.grades[rows].tolist(), query_of_row[rows], strict=True)
            )
            lines = (
                f"{head}{body}{tail}\n"
                for head, body, tail in zip(heads, _bodies(queries, rows), _tails(queries, rows), strict=True)
            )
            file.writelines(lines)


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
    """Write each number with the fewest digits that tell it from its neighbours of the same type."""
    if values.dtype == np.float64:
        return [repr(value).removesuffix(".0").replace("nan", "NaN") for value in values.tolist()]
    words = np.asarray(values).astype("U32").tolist()
    return [word.removesuffix(".0").replace("nan", "NaN") for word in words]


def _tails(queries: Queries, rows: slice) -> list[str]:
    if queries.document_ids is None:
        return [""] * (rows.stop - rows.start)
    names = queries.document_ids[rows].astype(str).tolist()
    for name in names:
        if any(byte in name for byte in " \t\r\n\0"):
            raise DataError(f"document id {name!r} cannot stand in LETOR text: it holds a blank")
    return [f" #docid = {name}" if name else "" for name in names]
