"""`Queries`, the documents of many queries in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import (
    as_document_weights,
    as_features,
    as_grades,
    as_labels,
    as_weights,
    common_index,
    expect_length,
)
from marginrank.data.document_keys import row_keys
from marginrank.data.grouping import (
    check_same_features,
    group_rows,
    join,
    offsets_from_sizes,
    rows_of,
    stack,
    stack_optional,
    stack_orders,
)
from marginrank.data.text_arrays import as_text
from marginrank.data.unjudged import UnjudgedRule
from marginrank.data.validation import check_queries, warn_if_repeated
from marginrank.errors import DataError, Message, Parameter
from marginrank.runtime.device_features import DeviceFeatures, to_host
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import for_each_block, take_rows
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.option_objects import check_seed
from marginrank.runtime.text import count, did_you_mean, feature_labels, feature_named, listed, query_named
from marginrank.typing import AnyArray, BoolArray, Features, FloatArray, IntArray, KeyArray

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
    """The documents of many queries, judged or not, in the rows of the arrays, frame or file they came from.

    The rows of a query may lie anywhere. Every array with an entry per document goes by these rows: features, grades,
    ids, and the scores that `predict` returns and `evaluate` takes. Queries are numbered by first appearance.

    What works query by query takes `grouped`, the same documents with the rows of each query together.

    Build one from arrays with `Queries.from_arrays`, from a frame with `marginrank.from_frame`, from files
    with `marginrank.read`. Arrays are kept as they are if possible, so memory-mapped features
    are never copied.

    >>> q = Queries.from_arrays([[0.3], [0.9], [0.1]], [0, 2, 1], qid=["b", "a", "b"])
    >>> q
    Queries(2 queries, 3 documents, 1 feature, grades 0..2)
    >>> q.query_ids.tolist(), q.lengths.tolist(), q.grades.tolist()
    (['b', 'a'], [2, 1], [0.0, 2.0, 1.0])
    >>> q.grouped.grades.tolist(), q.grouped.offsets.tolist()
    ([0.0, 1.0, 2.0], [0, 2, 3])
    """

    X: Features
    #: A grade for each document, NaN if it is unjudged; None if all are. `grades` reads them.
    judgements: FloatArray | None
    #: Start of each query among the rows grouped by query, and the number of rows.
    query_offsets: IntArray
    query_ids: AnyArray
    document_ids: AnyArray | None = None
    query_weights: FloatArray | None = None
    document_groups: AnyArray | None = None
    #: How much each document counts as a relevant one, such as 1/p of a click: see `evaluate`, and the losses. NaN for
    #: all documents of a query that is judged instead, after `concatenate` of both kinds.
    document_weights: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    #: Number of the first feature if features have no names, 1 in LETOR text and 0 in arrays.
    first_feature: int = 0
    #: The rows grouped by query; those of query q are ``order[query_offsets[q]:query_offsets[q + 1]]``. None if the
    #: rows of each query are together already, query after query.
    order: IntArray | None = None
    #: The pandas index of the rows, if they came with one; scores with another index are refused.
    index: Any = None
    #: In a set made by `grouped`, the row that each document came from.
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
        document_weights: npt.ArrayLike | None = None,
        feature_names: Iterable[str] | None = None,
        allow_nan: bool = False,
    ) -> Queries:
        """Build queries from arrays.

        Args:
            X: Features, one row per document; C-order float32 or float64 and CSR are kept without a copy,
                everything else becomes float64. A tensor of PyTorch stays on its device.
            y: Grades, finite and not negative, whole or real; NaN or −1 for documents that nobody judged, and None if
                that is all of them.
            qid: The query of each row, in any order. Queries are numbered by first appearance.
            group: Instead of ``qid``, the number of consecutive rows of each query, as in LightGBM.
            document_ids: A name for each row.
            query_weights: One weight per query, in order of first appearance.
            document_groups: A group label for each row, for rankings that take each group at most once.
            document_weights: A weight for each row, finite and not negative: how much the document counts as a relevant
                one, such as 1/p of a click that had the probability p to be seen.
            feature_names: A name for each column.
            allow_nan: Keep NaN features as missing values instead of refusing them.
        """
        columns = {
            "document_ids": document_ids,
            "document_groups": document_groups,
            "document_weights": document_weights,
        }
        index = common_index(X=X, y=y, qid=qid, **columns)
        features = as_features(X)
        check_finite(features, allow_nan)
        return queries_of_finite(
            features,
            y,
            qid=qid,
            group=group,
            query_weights=query_weights,
            feature_names=feature_names,
            index=index,
            **columns,
        )

    def __len__(self) -> int:
        """Count the queries."""
        return len(self.query_ids)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return int(self.X.shape[0])

    @property
    def has_document_weights(self) -> bool:
        """Whether documents have weights."""
        return self.document_weights is not None

    def relevant_weights(self) -> FloatArray:
        """Return grade times weight of each row: what its document counts as a relevant one.

        >>> Queries.from_arrays([[0.0]] * 2, [2, 0], group=[2], document_weights=[1.5, 9.0]).relevant_weights().tolist()
        [3.0, 0.0]
        """
        weights = np.ones(self.n_documents) if self.document_weights is None else self.document_weights
        return np.asarray(self.grades * weights)

    @property
    def has_grades(self) -> bool:
        """Whether the documents are judged, at least some of them."""
        return self.judgements is not None

    @cached_property
    def unjudged(self) -> BoolArray | None:
        """Whether each document has no grade; None if all have one, or nobody judged any."""
        missing = None if self.judgements is None else np.isnan(self.judgements)
        return missing if missing is not None and missing.any() else None

    @property
    def n_unjudged(self) -> int:
        """Number of documents without a grade, if others have one."""
        return 0 if self.unjudged is None else int(np.count_nonzero(self.unjudged))

    def with_unjudged(self, rule: UnjudgedRule) -> Queries:
        """Return the queries with unjudged documents left out or irrelevant; this set, if there are none.

        Queries whose documents are all unjudged are left out with them.

        >>> q = Queries.from_arrays([[0.3], [0.9], [0.1]], [2, np.nan, -1], qid=["b", "b", "a"])
        >>> q.with_unjudged("skip"), q.with_unjudged("irrelevant").grades.tolist()
        (Queries(1 query, 1 document, 1 feature, grades 2..2), [2.0, 0.0, 0.0])

        Args:
            rule: ``"skip"`` leaves them out, ``"irrelevant"`` gives them grade 0.
        """
        if self.unjudged is None:
            return self
        if rule == "irrelevant":
            return replace(self, judgements=np.nan_to_num(self.grades))
        return self._documents(np.flatnonzero(~self.unjudged))

    def _documents(self, kept: IntArray) -> Queries:
        """Return the documents of some rows, in ascending order, and the queries that have any of them."""
        query = self.query_of_row[kept]
        sizes = np.bincount(query, minlength=len(self))
        chosen = np.flatnonzero(sizes)
        grouped = np.argsort(query, kind="stable")
        return replace(
            self,
            **self._take(kept),
            query_offsets=offsets_from_sizes(sizes[chosen]),
            query_ids=self.query_ids[chosen],
            query_weights=None if self.query_weights is None else self.query_weights[chosen],
            order=None if np.all(np.diff(query) >= 0) else grouped,
            keyed_by=None if self.keyed_by is None else self.keyed_by._documents(kept),
        )

    @property
    def grades(self) -> FloatArray:
        """The grade of each document, NaN if it is unjudged.

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
        """The labels of features: their names or, without names, their numbers in the source.

        >>> Queries.from_arrays([[0.3, 0.9]], [1], group=[1]).feature_labels
        ('0', '1')
        """
        return feature_labels(self.feature_names, self.n_features, self.first_feature)

    @property
    def lengths(self) -> IntArray:
        """Number of documents of each query."""
        return np.diff(self.query_offsets)

    @property
    def offsets(self) -> IntArray:
        """Start of each query, and the end of the last: the documents of query q are ``offsets[q]:offsets[q + 1]``.

        Raises:
            DataError: The rows of a query are not together.
        """
        if self.order is not None:
            raise DataError(
                "the rows of these queries are interleaved; use queries.grouped, which keeps the rows of each query "
                "together"
            )
        return self.query_offsets

    @property
    def grouped(self) -> Queries:
        """The same documents with the rows of each query together: this set, if they are, and otherwise a copy."""
        # A set that holds itself would stay in memory until the garbage collector comes.
        return self if self.order is None else self._regrouped

    @cached_property
    def _regrouped(self) -> Queries:
        assert self.order is not None
        keyed_by = None if self.keyed_by is None else self.keyed_by.grouped
        return replace(self, **(self._take(self.order) | {"rows": self.order}), order=None, keyed_by=keyed_by)

    def to_grouped(self, values: AnyArray) -> AnyArray:
        """Reorder values, one for each row, to the rows of `grouped`."""
        return values if self.order is None else values[self.order]

    def from_grouped(self, values: AnyArray) -> AnyArray:
        """Reorder values, one for each row of `grouped`, to the rows of this set."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    @property
    def query_of_row(self) -> IntArray:
        """Number of the query of each row.

        >>> Queries.from_arrays([[0.3], [0.9], [0.1]], qid=["b", "a", "b"]).query_of_row.tolist()
        [0, 1, 0]
        """
        return self.from_grouped(np.repeat(np.arange(len(self)), self.lengths))

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
            return np.asarray(self.X)
        needed = self.n_documents * self.n_features * self.X.dtype.itemsize
        check_memory(needed, f"{self.n_documents:,} documents with {self.n_features:,} features", max_memory())
        return self.X.toarray()

    def __repr__(self) -> str:
        grades = ", no grades"
        if self.judgements is not None:
            grades = ""
            if self.n_unjudged < self.n_documents:
                grades = f", grades {np.nanmin(self.grades):g}..{np.nanmax(self.grades):g}"
            grades += f", {self.n_unjudged:,} unjudged" if self.n_unjudged else ""
        sparse = ", sparse" if self.is_sparse else ""
        return (
            f"Queries({count(len(self), 'query', 'queries')}, {count(self.n_documents, 'document')}, "
            f"{count(self.n_features, 'feature')}{grades}{sparse})"
        )

    def __iter__(self) -> Iterator[Queries]:
        """Go through the queries, each as a set of one."""
        return (self[q] for q in range(len(self)))

    def __getitem__(self, selector: QuerySelector) -> Queries:
        """Select queries by position; consecutive ones share memory with this set if their rows are together.

        Rows stay in their order, unless the selector puts queries in another: then query comes after query.
        """
        if isinstance(selector, str):
            raise TypeError(
                f"queries are numbered from 0; for the one with the id {selector!r} use select([{selector!r}])"
            )
        chosen = np.atleast_1d(np.arange(len(self))[cast("Any", selector)])
        documents, order = self._documents_of(chosen)
        return replace(
            self,
            **self._take(documents),
            query_offsets=offsets_from_sizes(self.lengths[chosen]),
            query_ids=self.query_ids[chosen],
            query_weights=None if self.query_weights is None else self.query_weights[chosen],
            order=order,
            keyed_by=None if self.keyed_by is None else self.keyed_by[selector],
        )

    def _documents_of(self, chosen: IntArray) -> tuple[slice | IntArray, IntArray | None]:
        """Return the rows of the chosen queries, a slice if they are consecutive, and the order that groups them."""
        if len(chosen) == 0:
            return slice(0, 0), None
        if self.order is None and np.all(np.diff(chosen) == 1):
            return slice(int(self.query_offsets[chosen[0]]), int(self.query_offsets[chosen[-1] + 1])), None
        rows = rows_of(self.query_offsets, chosen)
        if self.order is None:
            return rows, None
        rows = self.order[rows]
        if np.any(np.diff(chosen) <= 0):
            return rows, None
        kept = np.sort(rows)
        return kept, None if np.array_equal(kept, rows) else np.searchsorted(kept, rows)

    def _take(self, documents: slice | IntArray) -> dict[str, Any]:
        """Return the columns of some documents."""
        columns = {
            "X": self.X,
            "judgements": self.judgements,
            "document_ids": self.document_ids,
            "document_groups": self.document_groups,
            "document_weights": self.document_weights,
            "index": self.index,
            "rows": self.rows,
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
        """Concatenate sets that have the same features and no query id in common: the rows of one after the other."""
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
            query_offsets=offsets_from_sizes(np.concatenate([part.lengths for part in sets])),
            query_ids=ids,
            document_ids=stack_optional("document_ids", [part.document_ids for part in sets]),
            document_groups=stack_optional("document_groups", [part.document_groups for part in sets]),
            document_weights=_stack_weights(sets),
            query_weights=weights,
            feature_names=sets[0].feature_names,
            first_feature=sets[0].first_feature,
            order=stack_orders(sets),
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

    def placed(self, place: Callable[[Features], Features]) -> Queries:
        """Return the same queries with the features where a function places them, such as on a device."""
        X = place(self.X)
        return self if X is self.X else replace(self, X=X)

    def without_features(self) -> Queries:
        """Return the same queries without features, so that their memory can be freed."""
        empty = np.empty((self.n_documents, 0), dtype=np.float32)
        return replace(self, X=empty, feature_names=None, keyed_by=None, keys=self.document_keys)

    @property
    def document_names(self) -> AnyArray:
        """Document ids as text; row numbers if there are none.

        >>> Queries.from_arrays([[0.0]] * 3, [0, 0, 0], qid=["b", "a", "b"]).grouped.document_names.tolist()
        ['0', '2', '1']
        """
        if self.document_ids is not None:
            return as_text(self.document_ids)
        return (np.arange(self.n_documents) if self.rows is None else self.rows).astype(str)


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


def _stack_weights(sets: Sequence[Queries]) -> FloatArray | None:
    """Return the weights of all documents, NaN for those of parts without weights; None if no part has any."""
    if all(part.document_weights is None for part in sets):
        return None
    weights = [np.full(part.n_documents, np.nan) if (own := part.document_weights) is None else own for part in sets]
    return np.concatenate(weights)


def _stack_keys(sets: Sequence[Queries]) -> KeyArray | None:
    """Return the keys of all documents; None if they are those of the features."""
    if all(part.keys is None and part.keyed_by is None for part in sets):
        return None
    return np.concatenate([part.document_keys for part in sets])


def _chosen(column: Any, documents: slice | IntArray) -> Any:
    """Return some rows: a view if they are consecutive."""
    if isinstance(documents, slice) or sp.issparse(column) or isinstance(column, DeviceFeatures) or column.ndim == 1:
        return column[documents]
    return take_rows(column, documents)


def queries_of_finite(
    features: Features,
    y: npt.ArrayLike | None,
    *,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    feature_names: Iterable[str] | None,
    index: Any = None,
    document_ids: npt.ArrayLike | None = None,
    document_groups: npt.ArrayLike | None = None,
    document_weights: npt.ArrayLike | None = None,
) -> Queries:
    """Build queries from features that passed `check_finite`; the other arguments are those of `from_arrays`."""
    y, qid, group, query_weights = map(to_host, (y, qid, group, query_weights))
    n = features.shape[0]
    grades = None if y is None else as_grades(y)
    if grades is not None:
        expect_length("y", grades, n, "row of X", "rows of X")
    ids, offsets, order = group_rows(n, qid, group)
    names = None if feature_names is None else tuple(map(str, feature_names))
    if names is not None and len(names) != features.shape[1]:
        raise DataError(f"{len(names)} feature_names for {features.shape[1]} features; give one for each")
    queries = Queries(
        X=features,
        judgements=grades,
        query_offsets=offsets,
        query_ids=ids,
        document_ids=as_labels("document_ids", document_ids, n),
        query_weights=as_weights(query_weights, len(ids)),
        document_groups=as_labels("document_groups", document_groups, n),
        document_weights=as_document_weights(document_weights, n),
        feature_names=names,
        order=order,
        index=index,
    )
    return warn_if_repeated(check_queries(queries))


def check_finite(
    X: Queries | Features, allow_nan: bool, advice: Message = _KEEP_NAN, names: Sequence[str] | None = None
) -> None:
    """Refuse infinite features and, unless they are allowed, missing ones; name the first and give advice."""
    features = X.X if isinstance(X, Queries) else X
    values = features.data if sp.issparse(features) else features
    if isinstance(features, DeviceFeatures) and features.is_finite(allow_nan):
        return

    def check(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum with NaN or infinity is neither finite, and computed in half of the time.
            if np.isfinite(block.sum()):
                return
        bad = np.isinf(block) if allow_nan else ~np.isfinite(block)
        if not bad.any():
            return
        at = np.argwhere(bad)[0]
        row = rows.start + at[0]
        row, column = (row, at[1]) if values.ndim == 2 else _stored_position(features, row)
        value = block[tuple(at)]
        shown, way_out = (f"{value:g}", "replace it") if np.isinf(value) else ("NaN", advice)
        raise DataError(f"{_value_name(X, int(row), int(column), names)} is {shown}; ", way_out)

    for_each_block(values, check)


def _value_name(X: Queries | Features, row: int, column: int, names: Sequence[str] | None = None) -> str:
    """Name a value of the features.

    >>> _value_name(Queries.from_arrays([[0.5]], qid=["q7"], feature_names=["bm25"]), 0, 0)
    "feature 'bm25' of document 0 (query q7)"
    >>> _value_name(np.array([[0.5]]), 0, 0), _value_name(np.array([[0.5]]), 0, 0, ["bm25"])
    ('X[0, 0]', "row 0 of column 'bm25'")
    """
    if not isinstance(X, Queries):
        return f"X[{row}, {column}]" if names is None else f"row {row} of column {names[column]!r}"
    query = X.query_ids[X.query_of_row[row]]
    return f"{feature_named(X.feature_labels[column])} of document {X.document_names[row]} ({query_named(query)})"


def _stored_position(X: Any, at: int) -> tuple[int, int]:
    """Row and column of a stored value."""
    return int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])


def in_canonical_order(queries: Queries, *, keep_rows: bool = False) -> Queries:
    """Sort queries by id and their documents by content, so that no method depends on the order of rows.

    With ``keep_rows`` the documents of a query stay in the order of the rows, for losses that depend on it.
    """
    by_id = np.argsort(queries.query_ids, kind="stable")
    rank = np.argsort(by_id)
    grades = queries.grades if queries.has_grades else np.zeros(queries.n_documents)
    weights = np.zeros(len(grades)) if queries.document_weights is None else queries.document_weights
    content = () if keep_rows else (weights, grades, queries.document_keys)
    order = np.lexsort((*content, rank[queries.query_of_row]))
    return replace(
        queries,
        **(queries._take(order) | {"keys": queries.document_keys[order]}),
        query_offsets=offsets_from_sizes(queries.lengths[by_id]),
        query_ids=queries.query_ids[by_id],
        query_weights=None if queries.query_weights is None else queries.query_weights[by_id],
        order=None,
        keyed_by=None,
    )
