"""Checks of `Queries`, whatever they were read from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marginrank.data.document_keys import mix
from marginrank.data.grouping import are_distinct, check_offsets
from marginrank.errors import DataError, Message, RepeatedDocumentsWarning, warn
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
        _check_numbers("grades", queries.judgements, may_be_missing=True)
    _check_column("query_ids", queries.query_ids, n_queries)
    offsets = check_offsets(queries.query_offsets, n_documents)
    if len(offsets) != n_queries + 1:
        raise DataError(f"{len(offsets)} offsets for {count(n_queries, 'query', 'queries')}; give one more")
    if not are_distinct(queries.query_ids):
        raise DataError("two queries have the same id; give queries distinct ids")
    if queries.query_weights is not None:
        _check_column("query_weights", queries.query_weights, n_queries)
        _check_numbers("query_weights", queries.query_weights)
    if queries.document_weights is not None:
        _check_column("document_weights", queries.document_weights, n_documents)
        _check_document_weights(queries, queries.document_weights)
    for name in ("document_ids", "document_groups", "order", "rows", "keys"):
        column = getattr(queries, name)
        if column is not None:
            _check_column(name, column, n_documents)
    if queries.order is not None:
        _check_permutation(queries.order)
    if queries.feature_names is not None:
        _check_names(queries.feature_names, queries.X.shape[1])


def _check_names(names: Sequence[str], n_features: int) -> None:
    if len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise DataError(f"{len(names)} feature_names for {n_features} features; give a name for each")
    for name in names:
        if not _is_unicode(name):
            raise DataError(f"feature name {name!r} is not valid Unicode (half of a surrogate pair); rename it")


def _is_unicode(name: str) -> bool:
    """Return whether a text can be written as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_permutation(order: AnyArray) -> None:
    seen = np.zeros(len(order), dtype=np.bool_)
    if order.dtype.kind not in "iu" or (len(order) and (order.min() < 0 or order.max() >= len(order))):
        raise DataError("the order of the rows is not made of their numbers")
    seen[order] = True
    if not seen.all():
        raise DataError("the order of the rows has a row twice")


def repeated_document(query: IntArray, document_ids: AnyArray) -> tuple[int, int] | None:
    """Find the first document with the id of another one before it in its query; return its row and its query.

    >>> repeated_document(np.array([0, 0, 1, 1, 1]), np.array(["a", "b", "a", "c", "a"]))
    (4, 1)
    """
    order = np.lexsort((document_ids, query))
    same = (query[order[1:]] == query[order[:-1]]) & (document_ids[order[1:]] == document_ids[order[:-1]])
    if not same.any():
        return None
    row = int(order[1:][same].min())
    return row, int(query[row])


def count_repeated(queries: Queries) -> int:
    """Count the documents with the id of another one before them in their query; an empty id is none.

    >>> from marginrank import Queries
    >>> ids = Queries.from_arrays([[0.0]] * 4, qid=[1, 1, 2, 2], document_ids=["a", "b", "a", "c"])
    >>> count_repeated(ids)
    0
    """
    if queries.document_ids is None:
        return 0
    named = queries.document_ids != ""
    ids, query = queries.document_ids[named], queries.query_of_row[named]
    hashes = np.fromiter(map(hash, ids.tolist()), dtype=np.int64, count=len(ids))
    keys = mix(mix(hashes.view(np.uint64)) + query.astype(np.uint64))
    return len(keys) - len(np.unique(keys))


def warn_if_repeated(queries: Queries, path: str | Path | None = None) -> Queries:
    """Warn of documents that stand more than once in a query; return the queries."""
    n = count_repeated(queries)
    row = None if n == 0 else repeated_document(queries.query_of_row, queries.document_names)
    if row is not None:
        first = f"{str(queries.document_names[row[0]])!r} of {query_named(queries.query_ids[row[1]])}"
        place = "" if path is None else f"{path}: "
        warn(
            f"{place}{count(n, 'row')} with the id of another row of the same query, first {first}; training and "
            "measures count every row, so keep one of each",
            RepeatedDocumentsWarning,
        )
    return queries


def distinct_names(queries: Queries) -> AnyArray:
    """Return the names of documents, for rankings and judgements that know documents by nothing else.

    Training and scoring need no names, so that queries may have documents that share one.

    Raises:
        DataError: Two documents of a query have the same id.
    """
    names = queries.document_names
    repeated = None if queries.document_ids is None else repeated_document(queries.query_of_row, names)
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


def _check_document_weights(queries: Queries, weights: AnyArray) -> None:
    """Refuse NaN, unless all documents of the query have it, and what is not a weight."""
    missing = np.isnan(weights) if weights.dtype == np.float64 else np.zeros(len(weights), dtype=np.bool_)
    if missing.any():
        n_missing = np.bincount(queries.query_of_row[missing], minlength=len(queries.query_ids))
        torn = np.flatnonzero((n_missing > 0) & (n_missing < np.diff(queries.query_offsets)))
        if len(torn):
            query = query_named(queries.query_ids[torn[0]])
            raise DataError(f"some documents of {query} have no weight; give weights to all of them, or to none")
    _check_numbers("document_weights", np.where(missing, 0.0, weights))


def _check_numbers(name: str, column: AnyArray, *, may_be_missing: bool = False) -> None:
    if column.dtype != np.float64:
        raise DataError(f"{name} are {column.dtype}, not float64")
    bad = np.isinf(column) | (column < 0)
    if not may_be_missing:
        bad |= np.isnan(column)
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
        raise DataError("the row ends of CSR features must increase from 0 to the number of values")
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
            raise DataError("the columns of a row of CSR features must increase; sort them and keep each once")
