"""Checks of `Queries`, whatever they were read from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marginrank.data.grouping import check_offsets
from marginrank.errors import DataError, Message
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.text import count, query_named
from marginrank.typing import AnyArray, IntArray

if TYPE_CHECKING:
    from marginrank.data.queries import Queries

#: What features may be.
FEATURE_TYPES: Final = (np.dtype(np.float32), np.dtype(np.float64))
_BLOCK: Final = 1 << 20
#: More features than this are believed only if there are values for a share of them.
_MANY_FEATURES: Final = 1 << 24
_PER_VALUE: Final = 100


def check_queries(queries: Queries, path: str | Path | None = None) -> Queries:
    """Refuse a set whose arrays contradict each other or hold what no set may hold; return it otherwise.

    Every column but the values of the features is read once: grades, offsets, weights, and the structure of CSR. That
    takes a hundredth of the time of reading text.

    Raises:
        DataError: With the path, if one is given.
    """
    try:
        _check(queries)
    except DataError as error:
        raise error if path is None else error.at(path) from None
    return queries


def _check(queries: Queries) -> None:
    n_documents, n_queries = queries.X.shape[0] if queries.X.ndim else 0, len(queries.query_ids)
    _check_features(queries.X, n_documents)
    if queries.judgements is not None:
        _check_column("grades", queries.judgements, n_documents)
        _check_numbers("grades", queries.judgements)
    _check_column("query_ids", queries.query_ids, n_queries)
    if len(check_offsets(queries.offsets, n_documents)) != n_queries + 1:
        raise DataError(f"{len(queries.offsets)} offsets for {count(n_queries, 'query', 'queries')}; give one more")
    if len(np.unique(queries.query_ids)) < n_queries:
        raise DataError("two queries have the same id; give queries distinct ids")
    if queries.query_weights is not None:
        _check_column("query_weights", queries.query_weights, n_queries)
        _check_numbers("query_weights", queries.query_weights)
    for name in ("document_ids", "document_groups", "rows", "keys"):
        column = getattr(queries, name)
        if column is not None:
            _check_column(name, column, n_documents)
    names = queries.feature_names
    if names is not None and (len(names) != queries.X.shape[1] or not all(isinstance(name, str) for name in names)):
        raise DataError(f"{len(names)} feature_names for {queries.X.shape[1]} features; give a name for each")


def repeated_document(offsets: IntArray, document_ids: AnyArray) -> tuple[int, int] | None:
    """Find the first document with the id of another one before it in its query; return its row and its query.

    >>> repeated_document(np.array([0, 2, 5]), np.array(["a", "b", "a", "c", "a"]))
    (4, 1)
    """
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((document_ids, query))
    same = (query[order[1:]] == query[order[:-1]]) & (document_ids[order[1:]] == document_ids[order[:-1]])
    if not same.any():
        return None
    row = int(order[1:][same].min())
    return row, int(query[row])


def distinct_names(queries: Queries) -> AnyArray:
    """Return the names of documents, for rankings and judgements that know documents by nothing else.

    Training and scoring need no names, so that queries may have documents that share one.

    Raises:
        DataError: Two documents of a query have the same id.
    """
    names = queries.document_names
    repeated = None if queries.document_ids is None else repeated_document(queries.offsets, names)
    if repeated is not None:
        row, query = repeated
        raise DataError(
            f"two documents of {query_named(queries.query_ids[query])} have the id {str(names[row])!r}; keep one of "
            "them, or give each an id of its own"
        )
    return names


def _check_column(name: str, column: AnyArray, n: int) -> None:
    if column.shape != (n,):
        raise DataError(f"{name} have the shape {column.shape}, not ({n},)")


def _check_numbers(name: str, column: AnyArray) -> None:
    if column.dtype != np.float64:
        raise DataError(f"{name} are {column.dtype}, not float64")
    bad = ~(np.isfinite(column) & (column >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"{name}[{at}] is {column[at]:g}; {name} are finite and not negative")


def _check_features(X: Any, n_documents: int) -> None:
    if X.ndim != 2 or X.shape[0] != n_documents:
        raise DataError(f"X has the shape {X.shape} for {count(n_documents, 'document')}; give a row for each")
    if X.dtype not in FEATURE_TYPES:
        raise DataError(f"X holds {X.dtype}; features are float32 or float64")
    if sp.issparse(X):
        check_csr(X)
        _check_sorted(X)


def check_csr(X: Any) -> None:
    """Refuse parts that are no CSR matrix: a column out of range would be read from foreign memory."""
    data, indices, indptr = X.data, X.indices, X.indptr
    if not all(part.ndim == 1 and part.dtype.kind in "iu" for part in (indices, indptr)) or data.ndim != 1:
        raise DataError("the columns and row ends of CSR features are not whole numbers")
    if len(indptr) != X.shape[0] + 1:
        raise DataError(f"CSR features have {len(indptr)} row ends for {X.shape[0]} rows")
    if indptr[0] != 0 or indptr[-1] > min(len(indices), len(data)) or np.any(indptr[1:] < indptr[:-1]):
        raise DataError("the row ends of CSR features must rise from 0 to the number of values")
    stored = indices[: indptr[-1]]
    if len(stored) and (stored.min() < 0 or stored.max() >= X.shape[1]):
        at = int(np.argmax((stored < 0) | (stored >= X.shape[1])))
        raise DataError(f"value {at} is in column {stored[at]}, but there are {X.shape[1]} features, from 0")


def check_width(n_features: int, n_stored: int, path: str | Path | None, remedy: Message = "") -> None:
    """Refuse features of which hardly any has a value: a damaged index would make every vector of weights huge."""
    if n_features > _MANY_FEATURES and n_features > _PER_VALUE * n_stored:
        raise DataError(
            f"{n_features:,} features, by the highest index, and only {count(n_stored, 'value')}; check the index",
            remedy,
            path=path,
        )


def _check_sorted(X: Any) -> None:
    n = int(X.indptr[-1])
    for start in range(0, n, _BLOCK):
        block = X.indices[start : min(start + _BLOCK + 1, n)]
        falls = np.flatnonzero(block[1:] <= block[:-1]) + start + 1
        # A column may be lower than the one before only where a row begins.
        places = np.searchsorted(X.indptr, falls)
        if np.any(X.indptr[places] != falls):
            raise DataError("the columns of a row of CSR features must rise; sort them and keep each once")
