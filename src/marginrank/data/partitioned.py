"""Judged queries in partitions, which need not be in one memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from marginrank.data.fingerprint import fingerprint
from marginrank.data.partitions import Partitions
from marginrank.data.profiling import Columns, columns_of
from marginrank.data.queries import NOT_JUDGED, Queries
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray
from marginrank.words import count, feature_labels, feature_named, query_named

#: Most grades that are counted one by one.
_MOST_GRADES: Final = 1000


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a partition without its documents."""

    queries: int
    documents: int
    feature_names: tuple[str, ...] | None
    first_feature: int
    judged: bool
    sparse: bool
    dtype: str
    #: How many documents have each grade; empty where grades are too many to count.
    grades: Mapping[float, int]
    #: Least and greatest value of each feature, and how many are missing.
    least: FloatArray
    greatest: FloatArray
    missing: IntArray
    #: A digest of each query id.
    ids: AnyArray

    @classmethod
    def of(cls, queries: Queries, n_jobs: int | None = None) -> Facts:
        """Look at all documents of a partition once."""
        grades = queries.grades if queries.has_grades else np.zeros(0)
        values, counts = np.unique(grades + 0.0, return_counts=True)
        columns: Columns = columns_of(queries.X, n_jobs)
        return cls(
            len(queries),
            queries.n_documents,
            queries.feature_names,
            queries.first_feature,
            queries.has_grades,
            queries.is_sparse,
            str(queries.X.dtype),
            dict(zip(values.tolist(), counts.tolist(), strict=True)) if len(values) <= _MOST_GRADES else {},
            np.asarray(columns.least, dtype=np.float64),
            np.asarray(columns.greatest, dtype=np.float64),
            columns.missing,
            _digests(queries.query_ids),
        )


def _digests(ids: AnyArray) -> AnyArray:
    """Eight bytes for each query id; an id has the same as a number and as text."""
    digests = [hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest() for name in as_text(ids)]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


class PartitionedQueries:
    """Judged queries in partitions, each of which has whole queries.

    `Ranker.fit`, `tune`, `evaluate` and `compare` take them as they take `Queries`. Documents stay where the partitions
    are; what is asked for here are counts and ranges.

    Args:
        partitions: The partitions.
        names: What to call each partition in messages; by default its number.
    """

    def __init__(self, partitions: Partitions[Queries], names: Sequence[str] | None = None) -> None:
        if len(partitions) == 0:
            raise DataError("there is no partition; give at least one")
        self.partitions = partitions
        self._names = [f"partition {number}" for number in range(len(partitions))] if names is None else list(names)

    def derive(
        self, work: Callable[..., Queries], *shared: Any, each: Sequence[Any] | None = None
    ) -> PartitionedQueries:
        """Return the same queries with what a function makes of them; `facts` stay those of the source."""
        derived = PartitionedQueries(self.partitions.derive(work, *shared, each=each), self._names)
        derived.facts = self.facts
        return derived

    @cached_property
    def facts(self) -> list[Facts]:
        """What is known of each partition."""
        facts = self.partitions.map(Facts.of, self.partitions.threads(None))
        _check_alike(facts, self._names)
        _check_whole(facts, self)
        return facts

    def __len__(self) -> int:
        """Count the queries."""
        return sum(part.queries for part in self.facts)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return sum(part.documents for part in self.facts)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.facts[0].least)

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, where they have any."""
        return self.facts[0].feature_names

    @property
    def first_feature(self) -> int:
        """Number of the first feature where features have no names."""
        return self.facts[0].first_feature

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """What features are called: their names or, without names, their numbers in the source."""
        return feature_labels(self.feature_names, self.n_features, self.first_feature)

    @property
    def has_grades(self) -> bool:
        """Whether the documents are judged."""
        return self.facts[0].judged

    @property
    def is_sparse(self) -> bool:
        """Whether features are CSR."""
        return self.facts[0].sparse

    @property
    def grades(self) -> dict[float, int]:
        """How many documents have each grade, by grade."""
        if not self.has_grades:
            raise DataError(NOT_JUDGED)
        counts: Counter[float] = Counter()
        for part in self.facts:
            counts.update(part.grades)
        return dict(sorted(counts.items()))

    @property
    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Least and greatest value of each feature."""
        return np.fmin.reduce([part.least for part in self.facts]), np.fmax.reduce(
            [part.greatest for part in self.facts]
        )

    @property
    def missing(self) -> IntArray:
        """How many values of each feature are missing."""
        return np.asarray(np.sum([part.missing for part in self.facts], axis=0))

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that tell data sets apart; they depend on the partitions too."""
        parts = self.partitions.map(_fingerprint)
        return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]

    def query_ids(self) -> list[AnyArray]:
        """Return the ids of the queries of each partition."""
        return self.partitions.map(_query_ids)

    def select(self, chosen: Sequence[BoolArray]) -> PartitionedQueries:
        """Return some of the queries: for each partition, whether to keep each of its queries."""
        return PartitionedQueries(self.partitions.derive(_select, each=chosen), self._names)

    def check_finite(self, allow_nan: bool, advice: str) -> None:
        """Refuse infinite features, and missing ones unless they are allowed."""
        least, greatest = self.ranges
        for number, label in enumerate(self.feature_labels):
            if np.isinf(least[number]) or np.isinf(greatest[number]):
                raise DataError(f"{feature_named(label)} has an infinite value; replace it")
        if not allow_nan and self.missing.any():
            number = int(np.argmax(self.missing > 0))
            where = next(name for name, part in zip(self._names, self.facts, strict=True) if part.missing[number])
            label = feature_named(self.feature_labels[number])
            raise DataError(
                f"{label} is NaN in {count(int(self.missing[number]), 'document')}, first in {where}; {advice}"
            )

    def __repr__(self) -> str:
        grades = f", grades {min(self.grades):g}..{max(self.grades):g}" if self.has_grades and self.grades else ""
        return (
            f"{type(self).__name__}({count(len(self), 'query', 'queries')}, {count(self.n_documents, 'document')}, "
            f"{count(self.n_features, 'feature')}{grades}, {count(self.n_partitions, 'partition')})"
        )


#: Queries in the memory of this process, or in partitions.
AnyQueries: TypeAlias = Queries | PartitionedQueries
SomeQueries = TypeVar("SomeQueries", bound=AnyQueries)


def in_memory(queries: AnyQueries, what: str) -> Queries:
    """Return queries in the memory of this process, and refuse others for what cannot be trained on partitions."""
    if isinstance(queries, Queries):
        return queries
    raise DataError(f"{what} is not trained on partitions; give Queries in the memory of this process")


def _fingerprint(queries: Queries) -> str:
    return fingerprint(queries)


def _query_ids(queries: Queries) -> AnyArray:
    return queries.query_ids


def _select(queries: Queries, chosen: BoolArray) -> Queries:
    return queries[np.flatnonzero(chosen)]


def _check_alike(facts: Sequence[Facts], names: Sequence[str]) -> None:
    """Refuse partitions with other features, or judged and not judged ones."""
    first = facts[0]
    for part, name in zip(facts, names, strict=True):
        if len(part.least) != len(first.least):
            raise DataError(
                f"{name} has {count(len(part.least), 'feature')} and {names[0]} {len(first.least)}; give all the same "
                "columns, for LETOR text with n_features="
            )
        if part.feature_names != first.feature_names:
            raise DataError(f"{name} has other feature names than {names[0]}; rename or reorder its columns")
        if part.judged != first.judged:
            raise DataError(f"one of {name} and {names[0]} has no grades; give grades to all or to none")
        if part.dtype != first.dtype or part.sparse != first.sparse:
            raise DataError(f"{name} has features of another type than {names[0]}; read all with the same dtype")


def _check_whole(facts: Sequence[Facts], queries: PartitionedQueries) -> None:
    """Refuse a query that is in two partitions."""
    ids = np.concatenate([part.ids for part in facts])
    distinct, first = np.unique(ids, return_index=True)
    if len(distinct) == len(ids):
        return
    again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
    starts = np.cumsum([0, *(part.queries for part in facts)])
    one, other = (int(np.searchsorted(starts, at, side="right")) - 1 for at in np.flatnonzero(ids == ids[again])[:2])
    places = [again - starts[other] if number == other else None for number in range(len(facts))]
    query = queries.partitions.map(_query_at, each=places)[other]
    raise DataError(
        f"{query_named(query)} is in {queries._names[one]} and in {queries._names[other]}; give each query to one "
        "partition, or use from_dask, which brings the documents of a query together"
    )


def _query_at(queries: Queries, place: int | None) -> Any:
    return None if place is None else queries.query_ids[place]
