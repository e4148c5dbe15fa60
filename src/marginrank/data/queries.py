"""`Queries`, the documents of many queries in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_features, as_grades, as_labels, as_weights, expect_length
from marginrank.data.document_keys import row_keys
from marginrank.data.grouping import (
    check_same_features,
    group_rows,
    join,
    offsets_from_sizes,
    rows_of,
    stack,
    stack_optional,
    stack_rows,
)
from marginrank.data.text_arrays import as_text
from marginrank.data.validation import check_queries
from marginrank.errors import DataError, Message, Parameter
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import blocks, take_rows
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.option_objects import check_seed
from marginrank.runtime.text import count, did_you_mean, feature_labels, feature_named, listed, query_named
from marginrank.typing import AnyArray, Features, FloatArray, IntArray, KeyArray

#: What selects queries: a position, a slice, positions, or one boolean per query.
QuerySelector: TypeAlias = int | slice | Sequence[int] | AnyArray

#: Why queries without grades are refused.
NOT_JUDGED: Final[Message] = (
    "these queries have no grades, and training and evaluation need them; give y, or name the column of a table with ",
    Parameter("grade", ...),
)

_KEEP_NAN: Final[Message] = ("fill it, or pass ", Parameter("allow_nan", True), " to keep it as missing")


@dataclass(frozen=True, eq=False, repr=False)
class Queries:
    """The documents of many queries, judged or not, with the documents of each query in consecutive rows.

    The documents of query ``q`` are the rows ``offsets[q]:offsets[q + 1]`` of every per-document array. This is the
    only row order there is: scores, rankings and fusions of a `Queries` go by it. `to_source_rows` brings one value
    per document back to the rows of the arrays, frame or files that the set was made from.

    Build one from arrays with `Queries.from_arrays`, from a frame with `marginrank.from_frame`, from files
    with `marginrank.read`. Arrays are kept as they are if possible, so memory-mapped features
    are never copied.

    >>> q = Queries.from_arrays([[0.3], [0.9], [0.1]], [0, 2, 1], qid=["b", "a", "b"])
    >>> q
    Queries(2 queries, 3 documents, 1 feature, grades 0..2)
    >>> q.query_ids.tolist(), q.lengths.tolist()
    (['b', 'a'], [2, 1])
    >>> q.grades.tolist(), q.to_source_rows(q.grades).tolist()
    ([0.0, 1.0, 2.0], [0.0, 2.0, 1.0])
    """

    X: Features
    #: A grade for each document, None if nobody judged them; `grades` reads them.
    judgements: FloatArray | None
    offsets: IntArray
    query_ids: AnyArray
    document_ids: AnyArray | None = None
    query_weights: FloatArray | None = None
    document_groups: AnyArray | None = None
    feature_names: tuple[str, ...] | None = None
    #: Number of the first feature if features have no names: 1 in LETOR text, 0 in arrays.
    first_feature: int = 0
    #: Row of the source that each document comes from; None if grouping by query moved nothing, and in selections.
    rows: IntArray | None = None
    #: The same documents with the features that `document_keys` are made of, if X was computed from them.
    keyed_by: Queries | None = None
    #: Keys of the documents, if the features that they are made of are not kept.
    keys: KeyArray | None = None

    @classmethod
    def from_arrays(
        cls,
        X: npt.ArrayLike | sp.sparray | sp.spmatrix,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        document_ids: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        document_groups: npt.ArrayLike | None = None,
        feature_names: Iterable[str] | None = None,
        allow_nan: bool = False,
    ) -> Queries:
        """Build queries from arrays, with rows grouped by query.

        Args:
            X: Features, one row per document; C-order float32 or float64 and CSR are kept without a copy,
                everything else becomes float64.
            y: Grades, finite and not negative, whole or real; None for documents to rank, which nobody judged.
            qid: The query of each row, in any order. Queries come by first appearance, and the rows of a query keep
                their order; ``rows`` says where each came from.
            group: Instead of ``qid``, the number of consecutive rows of each query, as in LightGBM.
            document_ids: A name for each row.
            query_weights: One weight per query, in order of first appearance.
            document_groups: A group label for each row, for rankings that take each group at most once.
            feature_names: A name for each column.
            allow_nan: Keep NaN features as missing values instead of refusing them.
        """
        features = as_features(X)
        n = features.shape[0]
        grades = None if y is None else as_grades(y)
        if grades is not None:
            expect_length("y", grades, n, "row of X", "rows of X")
        check_finite(features, allow_nan)
        ids, offsets, rows = group_rows(n, qid, group)
        columns: dict[str, AnyArray | None] = {
            "judgements": grades,
            "document_ids": as_labels("document_ids", document_ids, n),
            "document_groups": as_labels("document_groups", document_groups, n),
        }
        if rows is not None:
            features = features[rows] if sp.issparse(features) else take_rows(features, rows)
            columns = {name: None if column is None else column[rows] for name, column in columns.items()}
        names = None if feature_names is None else tuple(map(str, feature_names))
        if names is not None and len(names) != features.shape[1]:
            raise DataError(f"{len(names)} feature_names for {features.shape[1]} features; give one for each")
        return check_queries(
            cls(
                X=features,
                offsets=offsets,
                query_ids=ids,
                query_weights=as_weights(query_weights, len(ids)),
                feature_names=names,
                rows=rows,
                **cast("Any", columns),
            )
        )

    def __len__(self) -> int:
        """Count the queries."""
        return len(self.query_ids)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return int(self.X.shape[0])

    @property
    def has_grades(self) -> bool:
        """Whether the documents are judged."""
        return self.judgements is not None

    @property
    def grades(self) -> FloatArray:
        """The grade of each document.

        Raises:
            DataError: The documents are not judged.

        >>> Queries.from_arrays([[0.3], [0.9]], group=[2]).grades
        Traceback (most recent call last):
        marginrank.errors.DataError: these queries have no grades, ...
        """
        if self.judgements is None:
            raise DataError(NOT_JUDGED)
        return self.judgements

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """What features are called: their names or, without names, their numbers in the source.

        >>> Queries.from_arrays([[0.3, 0.9]], [1], group=[1]).feature_labels
        ('0', '1')
        """
        return feature_labels(self.feature_names, self.n_features, self.first_feature)

    @property
    def lengths(self) -> IntArray:
        """Number of documents of each query."""
        return np.diff(self.offsets)

    @cached_property
    def document_keys(self) -> KeyArray:
        """A 64-bit digest of the features of each document, which tells documents apart in any order of rows.

        It is that of the features as they were read: `with_features` keeps it. Documents with equal features have equal
        keys, whether X is dense or CSR, float32 or float64.

        >>> q = Queries.from_arrays([[0.5, 1.0], [0.5, 2.0], [0.5, 1.0]], [0, 1, 0], group=[3])
        >>> (q.document_keys == q.document_keys[0]).tolist()
        [True, False, True]
        """
        if self.keys is not None:
            return self.keys
        return row_keys(self.X) if self.keyed_by is None else self.keyed_by.document_keys

    @property
    def is_sparse(self) -> bool:
        """Whether ``X`` is CSR."""
        return sp.issparse(self.X)

    def dense(self) -> npt.NDArray[np.floating[Any]]:
        """Return ``X`` as a dense array; a copy if it is CSR."""
        if not sp.issparse(self.X):
            return self.X
        needed = self.n_documents * self.n_features * self.X.dtype.itemsize
        check_memory(needed, f"{self.n_documents:,} documents with {self.n_features:,} features", max_memory())
        return self.X.toarray()

    def __repr__(self) -> str:
        grades = ", no grades"
        if self.judgements is not None:
            grades = f", grades {self.grades.min():g}..{self.grades.max():g}" if self.n_documents else ""
        sparse = ", sparse" if self.is_sparse else ""
        return (
            f"Queries({count(len(self), 'query', 'queries')}, {count(self.n_documents, 'document')}, "
            f"{count(self.n_features, 'feature')}{grades}{sparse})"
        )

    def __iter__(self) -> Iterator[Queries]:
        """Go through the queries, each as a set of one."""
        return (self[q] for q in range(len(self)))

    def __getitem__(self, selector: QuerySelector) -> Queries:
        """Select queries by position; consecutive ones share memory with this set.

        A selection is its own source: it has no ``rows``.
        """
        if isinstance(selector, str):
            raise TypeError(
                f"queries are numbered from 0; for the one with the id {selector!r} use select([{selector!r}])"
            )
        chosen = np.atleast_1d(np.arange(len(self))[cast("Any", selector)])
        offsets = offsets_from_sizes(self.lengths[chosen])
        documents = self._documents_of(chosen)
        return replace(
            self,
            **self._document_columns(documents),
            offsets=offsets,
            query_ids=self.query_ids[chosen],
            query_weights=None if self.query_weights is None else self.query_weights[chosen],
            rows=None,
            keyed_by=None if self.keyed_by is None else self.keyed_by[selector],
        )

    def _documents_of(self, chosen: IntArray) -> slice | IntArray:
        """Return the rows of the chosen queries: a slice, and so a view, if they are consecutive."""
        if len(chosen) == 0:
            return slice(0, 0)
        if np.all(np.diff(chosen) == 1):
            return slice(int(self.offsets[chosen[0]]), int(self.offsets[chosen[-1] + 1]))
        return rows_of(self.offsets, chosen)

    def _document_columns(self, documents: slice | IntArray) -> dict[str, Any]:
        columns = {
            "X": self.X,
            "judgements": self.judgements,
            "document_ids": self.document_ids,
            "document_groups": self.document_groups,
            "keys": self.keys,
        }
        return {name: None if column is None else _chosen(column, documents) for name, column in columns.items()}

    def select(self, query_ids: Iterable[Any]) -> Queries:
        """Select queries by id, in the order given.

        >>> q = Queries.from_arrays([[1.0], [2.0]], [0, 1], qid=[7, 9])
        >>> q.select([9]).grades.tolist()
        [1.0]
        """
        if isinstance(query_ids, str):
            raise TypeError(f"select takes a list of query ids: select([{query_ids!r}])")
        position = {query: at for at, query in enumerate(self.query_ids.tolist())}
        chosen = [getattr(query, "item", lambda query=query: query)() for query in query_ids]
        unknown = [query for query in chosen if query not in position]
        if unknown:
            raise KeyError(f"no query {unknown[0]!r} among {len(self)} queries (first: {self.query_ids[:3].tolist()})")
        return self[np.array([position[query] for query in chosen], dtype=np.int64)]

    def split(self, *shares: float, random_state: int | None = None) -> tuple[Queries, ...]:
        """Split the queries into parts of the given shares, in order or, with ``random_state``, at random.

        Like every selection, the parts have no ``rows``.

        >>> q = Queries.from_arrays(np.ones((10, 1)), np.ones(10), qid=range(10))
        >>> [len(part) for part in q.split(0.6, 0.2, 0.2)]
        [6, 2, 2]
        """
        if not shares or min(shares) <= 0 or not np.isclose(sum(shares), 1.0):
            raise ValueError(f"shares must be positive and sum to 1, not {shares}")
        order = np.arange(len(self))
        if random_state is not None:
            order = np.random.default_rng(check_seed(random_state)).permutation(order)
        cuts = np.rint(np.cumsum(shares)[:-1] * len(self)).astype(np.int64)
        return tuple(self[np.sort(part)] for part in np.split(order, cuts))

    @classmethod
    def concatenate(cls, parts: Iterable[Queries]) -> Queries:
        """Concatenate sets that have the same features and no query id in common.

        The source of the result is that of the parts, one after the other.
        """
        sets = list(parts)
        if not sets:
            raise DataError("nothing to concatenate: the list of query sets is empty")
        if len(sets) == 1:
            return sets[0]
        check_same_features(sets)
        ids = join([part.query_ids for part in sets])
        unique, first = np.unique(ids, return_index=True)
        if len(unique) < len(ids):
            repeated = ids[np.setdiff1d(np.arange(len(ids)), first)[0]]
            raise DataError(f"{query_named(repeated)} is in more than one part; give queries distinct ids")
        weights = None
        if any(part.query_weights is not None for part in sets):
            weights = np.concatenate([np.ones(len(p)) if p.query_weights is None else p.query_weights for p in sets])
        return cls(
            X=stack([part.X for part in sets]),
            judgements=stack_optional("grades", [part.judgements for part in sets]),
            offsets=offsets_from_sizes(np.concatenate([part.lengths for part in sets])),
            query_ids=ids,
            document_ids=stack_optional("document_ids", [part.document_ids for part in sets]),
            document_groups=stack_optional("document_groups", [part.document_groups for part in sets]),
            query_weights=weights,
            feature_names=sets[0].feature_names,
            first_feature=sets[0].first_feature,
            rows=stack_rows(sets),
            keys=_stack_keys(sets),
        )

    def feature(self, feature: str | int) -> FloatArray:
        """Return one column of ``X`` as float64, by the name of the feature or by its column, from 0.

        >>> q = Queries.from_arrays([[7.1, 3.0], [3.2, 0.0]], [1, 0], group=[2], feature_names=["bm25", "clicks"])
        >>> q.feature("clicks").tolist(), q.feature(0).tolist()
        ([3.0, 0.0], [7.1, 3.2])
        """
        column = self.X[:, [feature_number(feature, self.feature_labels)]]
        dense = column.toarray() if sp.issparse(column) else column
        return np.asarray(dense, dtype=np.float64).ravel()

    def with_features(self, X: Features, feature_names: Iterable[str] | None = None) -> Queries:
        """Return the same queries with other features, row by row."""
        expect_length("X", X, self.n_documents, "document", "documents")
        source = self if self.keyed_by is None else self.keyed_by
        names = None if feature_names is None else tuple(feature_names)
        return replace(self, X=X, feature_names=names, keyed_by=source)

    def without_features(self) -> Queries:
        """Return the same queries without features, so that their memory can be freed."""
        empty = np.empty((self.n_documents, 0), dtype=np.float32)
        return replace(self, X=empty, feature_names=None, keyed_by=None, keys=self.document_keys)

    @property
    def document_names(self) -> AnyArray:
        """Document ids as text; row numbers in the source if there are none.

        >>> Queries.from_arrays([[0.0]] * 3, [0, 0, 0], qid=["b", "a", "b"]).document_names.tolist()
        ['0', '2', '1']
        """
        if self.document_ids is not None:
            return as_text(self.document_ids)
        return (np.arange(self.n_documents) if self.rows is None else self.rows).astype(str)

    def from_source_rows(self, values: npt.ArrayLike, name: str = "values") -> AnyArray:
        """Reorder values, one per row of the source, to the order of these queries.

        Args:
            values: One entry per row of the arrays, frame or files that the queries were made from.
            name: What to call them in errors.
        """
        column = np.asarray(values)
        expect_length(name, column, self.n_documents, "document", "documents")
        return column if self.rows is None else column[self.rows]

    def to_source_rows(self, values: npt.ArrayLike) -> AnyArray:
        """Reorder values, one per document, to the rows of the arrays, frame or file that the queries came from.

        >>> q = Queries.from_arrays([[0.3], [0.9], [0.1]], [0, 2, 1], qid=["b", "a", "b"])
        >>> q.to_source_rows(q.X[:, 0]).tolist()
        [0.3, 0.9, 0.1]
        """
        column = np.asarray(values)
        expect_length("values", column, self.n_documents, "document", "documents")
        if self.rows is None:
            return column
        out = np.empty_like(column)
        out[self.rows] = column
        return out


def feature_number(feature: int | str, labels: Sequence[str]) -> int:
    """Return the column of a feature, given what it is called or the column itself, from 0.

    >>> feature_number("bm25", ["bm25", "clicks"]), feature_number("2", ["1", "2"]), feature_number(1, ["1", "2"])
    (0, 1, 1)
    """
    if isinstance(feature, str):
        if feature not in labels:
            near = did_you_mean(feature, labels).strip()
            raise DataError(f"there is no {feature_named(feature)}; {near or f'known: {listed(labels)}'}")
        return list(labels).index(feature)
    if not 0 <= feature < len(labels):
        raise DataError(f"there is no column {feature} in X; {count(len(labels), 'column')}, counted from 0")
    return int(feature)


def _stack_keys(sets: Sequence[Queries]) -> KeyArray | None:
    """Return the keys of all documents; None if they are those of the features."""
    if all(part.keys is None and part.keyed_by is None for part in sets):
        return None
    return np.concatenate([part.document_keys for part in sets])


def _chosen(column: Any, documents: slice | IntArray) -> Any:
    """Return some rows: a view if they are consecutive."""
    if isinstance(documents, slice) or sp.issparse(column) or column.ndim == 1:
        return column[documents]
    return take_rows(column, documents)


def check_finite(
    X: Queries | Features, allow_nan: bool, advice: Message = _KEEP_NAN, names: Sequence[str] | None = None
) -> None:
    """Refuse infinite features and, unless they are allowed, missing ones; name the first and give advice."""
    features = X.X if isinstance(X, Queries) else X
    values = features.data if sp.issparse(features) else features
    # A block at a time, so that checking a memory-mapped matrix needs no copy of it.
    step = max(1, (1 << 20) // max(1, values.shape[1] if values.ndim == 2 else 1))
    for rows, block in blocks(values, step):
        start, finite = rows.start, np.isfinite(block)
        if finite.all() or (allow_nan and not np.isinf(block).any()):
            continue
        bad = np.isinf(block) if allow_nan else ~finite
        at = np.argwhere(bad)[0]
        row, column = (start + at[0], at[1]) if values.ndim == 2 else _stored_position(features, start + at[0])
        value = block[tuple(at)]
        shown, way_out = (f"{value:g}", "replace it") if np.isinf(value) else ("NaN", advice)
        raise DataError(f"{_value_name(X, int(row), int(column), names)} is {shown}; ", way_out)


def _value_name(X: Queries | Features, row: int, column: int, names: Sequence[str] | None = None) -> str:
    """Name a value of the features.

    >>> _value_name(Queries.from_arrays([[0.5]], qid=["q7"], feature_names=["bm25"]), 0, 0)
    "feature 'bm25' of document 0 (query q7)"
    >>> _value_name(np.array([[0.5]]), 0, 0), _value_name(np.array([[0.5]]), 0, 0, ["bm25"])
    ('X[0, 0]', "row 0 of column 'bm25'")
    """
    if not isinstance(X, Queries):
        return f"X[{row}, {column}]" if names is None else f"row {row} of column {names[column]!r}"
    query = X.query_ids[np.searchsorted(X.offsets, row, side="right") - 1]
    return f"{feature_named(X.feature_labels[column])} of document {X.document_names[row]} ({query_named(query)})"


def _stored_position(X: Any, at: int) -> tuple[int, int]:
    """Row and column of a stored value."""
    return int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])


def in_canonical_order(queries: Queries) -> Queries:
    """Sort queries by id and their documents by content, so that no method depends on the order of rows."""
    by_id = np.argsort(queries.query_ids, kind="stable")
    rank = np.argsort(by_id)
    query = np.repeat(np.arange(len(queries)), queries.lengths)
    grades = queries.grades if queries.has_grades else np.zeros(queries.n_documents)
    order = np.lexsort((grades, queries.document_keys, rank[query]))
    offsets = np.concatenate([[0], np.cumsum(queries.lengths[by_id])])
    columns = ("X", "judgements", "document_ids", "document_groups")
    sorted_columns = {name: column[order] for name in columns if (column := getattr(queries, name)) is not None}
    return replace(
        queries,
        **sorted_columns,
        offsets=offsets,
        query_ids=queries.query_ids[by_id],
        query_weights=None if queries.query_weights is None else queries.query_weights[by_id],
        rows=None,
        keyed_by=None,
        keys=queries.document_keys[order],
    )
