"""Objects in parts that lie in this process or elsewhere, and sums over the parts in a fixed order."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from marginrank.data.fingerprint import fingerprint
from marginrank.data.queries import NOT_JUDGED, Queries
from marginrank.data.statistics import FeatureStatistics, columns_of
from marginrank.data.text_arrays import as_text
from marginrank.data.unjudged import UnjudgedRule
from marginrank.errors import DataError, Parameter
from marginrank.runtime.files import atomic_path
from marginrank.runtime.text import count, feature_labels, feature_named, query_named
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

T = TypeVar("T")
R = TypeVar("R")

#: What is added up.
Arrays: TypeAlias = tuple[AnyArray, ...]


def add_arrays(left: Arrays, right: Arrays) -> Arrays:
    """Add arrays one by one."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def halve(first: int, end: int) -> int:
    """Return where a run of parts is cut in the tree of its sum: after the largest power of two that leaves some.

    >>> [halve(0, n) for n in (2, 3, 4, 5, 8)]
    [1, 2, 2, 4, 4]
    """
    return first + (1 << ((end - first - 1).bit_length() - 1))


def merge_tree(leaf: Callable[[int], R], merge: Callable[[R, R], R], first: int, end: int) -> R:
    """Merge what the leaves from ``first`` to ``end`` return, always in the same order.

    >>> merge_tree(str, lambda a, b: f"({a} {b})", 0, 5)
    '(((0 1) (2 3)) 4)'
    """
    if end - first == 1:
        return leaf(first)
    middle = halve(first, end)
    return merge(merge_tree(leaf, merge, first, middle), merge_tree(leaf, merge, middle, end))


def group_bounds(n_parts: int, n_groups: int) -> list[int]:
    """Cut parts into groups of about the same size.

    >>> group_bounds(5, 2), group_bounds(2, 4)
    ([0, 2, 5], [0, 1, 2])
    """
    n_groups = min(n_groups, n_parts)
    return [n_parts * group // n_groups for group in range(n_groups + 1)]


class Partitions(ABC, Generic[T]):
    """Objects of one kind, one for each part of the data, in a fixed order.

    Functions are called where the parts lie: with the part first, then with what is shared by all parts, and then,
    if ``each`` is given, with its entry for the part. What they return has to be small, except for `derive`, whose
    results stay where the parts are. On a cluster, functions and arguments are pickled, so functions are those of a
    module.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Count the parts."""

    @abstractmethod
    def map(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> list[R]:
        """Return what a function returns for each part."""

    @abstractmethod
    def derive(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> Partitions[R]:
        """Return what a function makes of each part; it is made when it is first used."""

    @abstractmethod
    def reduce(self, work: Callable[..., R], *shared: Any, merge: Callable[[R, R], R], groups: int = 1) -> list[R]:
        """Merge what a function returns for each part, as `merge_tree` does; one result for each group of parts."""

    def add(self, work: Callable[..., Arrays], *shared: Any, groups: int = 1) -> list[Arrays]:
        """Add up the arrays that a function returns for each part, in groups of consecutive parts."""
        return self.reduce(work, *shared, merge=add_arrays, groups=groups)

    @abstractmethod
    def threads(self, n_jobs: int | None) -> int | None:
        """Return how many threads work on one part, if ``n_jobs`` are requested."""


class LocalPartitions(Partitions[T]):
    """Parts in the memory of this process.

    >>> parts = LocalPartitions([lambda: 1, lambda: 2, lambda: 3])
    >>> parts.derive(lambda part, factor: factor * part, 10).map(lambda part: part + 1)
    [11, 21, 31]

    Args:
        sources: Functions that make the parts, each called once.
    """

    def __init__(self, sources: Sequence[Callable[[], T]]) -> None:
        self._sources = sources
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def _part(self, number: int) -> T:
        if number not in self._made:
            self._made[number] = self._sources[number]()
        return self._made[number]

    def _call(self, number: int, work: Callable[..., R], shared: Sequence[Any], each: Sequence[Any] | None) -> R:
        return work(self._part(number), *shared, *(() if each is None else (each[number],)))

    def map(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> list[R]:
        """Call the function for one part after the other."""
        return [self._call(number, work, shared, each) for number in range(len(self))]

    def derive(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> LocalPartitions[R]:
        """Keep what the function makes of each part."""

        def source(number: int) -> Callable[[], R]:
            return lambda: self._call(number, work, shared, each)

        return LocalPartitions([source(number) for number in range(len(self))])

    def reduce(self, work: Callable[..., R], *shared: Any, merge: Callable[[R, R], R], groups: int = 1) -> list[R]:
        """Merge one group after the other."""
        bounds = group_bounds(len(self), groups)
        return [
            merge_tree(lambda number: self._call(number, work, shared, None), merge, first, end)
            for first, end in pairwise(bounds)
        ]

    def threads(self, n_jobs: int | None) -> int | None:
        """Return as many as asked for: parts are worked on one after the other."""
        return n_jobs


#: Most grades that are counted one by one.
_MOST_GRADES: Final = 1000


@dataclass(frozen=True, eq=False)
class PartitionSummary:
    """Summary of a partition without its documents."""

    queries: int
    documents: int
    feature_names: tuple[str, ...] | None
    first_feature: int
    judged: bool
    weighted: bool
    sparse: bool
    dtype: str
    #: How many documents have each grade; empty if there are too many grades to count.
    grades: Mapping[float, int]
    #: How many documents are unjudged.
    unjudged: int
    #: Least and greatest value of each feature, and how many are missing.
    least: FloatArray
    greatest: FloatArray
    missing: IntArray
    #: A digest of each query id.
    ids: AnyArray

    @classmethod
    def of(cls, queries: Queries, n_jobs: int | None = None) -> PartitionSummary:
        """Look at all documents of a partition once."""
        grades = queries.grades if queries.has_grades else np.zeros(0)
        known = ~np.isnan(grades)
        values, counts = np.unique(grades[known] + 0.0, return_counts=True)
        columns: FeatureStatistics = columns_of(queries.X, n_jobs)
        return cls(
            len(queries),
            queries.n_documents,
            queries.feature_names,
            queries.first_feature,
            queries.has_grades,
            queries.has_document_weights,
            queries.is_sparse,
            str(queries.X.dtype),
            dict(zip(values.tolist(), counts.tolist(), strict=True)) if len(values) <= _MOST_GRADES else {},
            int(np.count_nonzero(~known)),
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
        #: The rows of a source in the memory of this process, in the order of the partitions, if they are not.
        self.order: IntArray | None = None
        self._names = [f"partition {number}" for number in range(len(partitions))] if names is None else list(names)

    def derive(
        self, work: Callable[..., Queries], *shared: Any, each: Sequence[Any] | None = None
    ) -> PartitionedQueries:
        """Return the same queries with what a function makes of them; `facts` stay those of the source."""
        derived = PartitionedQueries(self.partitions.derive(work, *shared, each=each), self._names)
        derived.facts, derived.order = self.facts, self.order
        return derived

    @property
    def grouped(self) -> PartitionedQueries:
        """The same queries with the rows of each together."""
        return self.derive(_grouped)

    @cached_property
    def facts(self) -> list[PartitionSummary]:
        """The summary of each partition."""
        facts = self.partitions.map(PartitionSummary.of, self.partitions.threads(None))
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
        """Names of the features, if they have any."""
        return self.facts[0].feature_names

    @property
    def first_feature(self) -> int:
        """Number of the first feature if features have no names."""
        return self.facts[0].first_feature

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """The labels of features: their names or, without names, their numbers in the source."""
        return feature_labels(self.feature_names, self.n_features, self.first_feature)

    @property
    def has_grades(self) -> bool:
        """Whether the documents are judged."""
        return self.facts[0].judged

    @property
    def has_document_weights(self) -> bool:
        """Whether documents have weights."""
        return self.facts[0].weighted

    @property
    def is_sparse(self) -> bool:
        """Whether features are CSR."""
        return self.facts[0].sparse

    @property
    def grades(self) -> dict[float, int]:
        """The number of documents with each grade, by grade."""
        if not self.has_grades:
            raise DataError(NOT_JUDGED)
        counts: Counter[float] = Counter()
        for part in self.facts:
            counts.update(part.grades)
        return dict(sorted(counts.items()))

    @property
    def n_unjudged(self) -> int:
        """Number of documents without a grade, if others have one."""
        return sum(part.unjudged for part in self.facts)

    def with_unjudged(self, rule: UnjudgedRule) -> PartitionedQueries:
        """Return the queries with unjudged documents left out or irrelevant; these queries, if there are none."""
        return self.derive(_with_unjudged, rule) if self.n_unjudged else self

    @property
    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Least and greatest value of each feature."""
        return np.fmin.reduce([part.least for part in self.facts]), np.fmax.reduce(
            [part.greatest for part in self.facts]
        )

    @property
    def missing(self) -> IntArray:
        """The number of missing values of each feature."""
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
    raise DataError(f"{what} is not trained on partitions; give queries in the memory of this process")


def _with_unjudged(queries: Queries, rule: UnjudgedRule) -> Queries:
    return queries.with_unjudged(rule)


def _grouped(queries: Queries) -> Queries:
    return queries.grouped


def _fingerprint(queries: Queries) -> str:
    return fingerprint(queries)


def _query_ids(queries: Queries) -> AnyArray:
    return queries.query_ids


def _select(queries: Queries, chosen: BoolArray) -> Queries:
    return queries[np.flatnonzero(chosen)]


def _check_alike(facts: Sequence[PartitionSummary], names: Sequence[str]) -> None:
    """Refuse partitions with other features, or judged and not judged ones."""
    first = facts[0]
    for part, name in zip(facts, names, strict=True):
        if len(part.least) != len(first.least):
            raise DataError(
                f"{name} has {count(len(part.least), 'feature')} and {names[0]} {len(first.least)}; give all the same "
                "columns, for LETOR text with ",
                Parameter("n_features", ...),
            )
        if part.feature_names != first.feature_names:
            raise DataError(f"{name} has different feature names than {names[0]}; rename or reorder its columns")
        if part.judged != first.judged:
            raise DataError(f"one of {name} and {names[0]} has no grades; give grades to all or to none")
        if part.weighted != first.weighted:
            raise DataError(f"one of {name} and {names[0]} has no document weights; give them to all or to none")
        if part.dtype != first.dtype or part.sparse != first.sparse:
            raise DataError(f"{name} has features of a different type than {names[0]}; read all with the same dtype")


def _check_whole(facts: Sequence[PartitionSummary], queries: PartitionedQueries) -> None:
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


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """The queries of a partition, and a score for each row."""

    queries: Queries
    scores: FloatArray


class PartitionedScores:
    """One score for each document of queries in partitions; `evaluate` and `compare` take them.

    Args:
        queries: The queries.
        score: Function of a module that scores the documents of `Queries`.
        shared: Its other arguments.
    """

    def __init__(self, queries: PartitionedQueries, score: Callable[..., Any], *shared: Any) -> None:
        self.queries = queries
        self.parts: Partitions[ScoredPart] = queries.partitions.derive(_scored, score, *shared)

    def to_files(self, folder: str | Path) -> list[Path]:
        """Write a file for each partition, one score per line in the order of its rows, and return their paths.

        The files are written where the partitions are; on several machines the folder has to be shared storage, or the
        files have to be collected from them.
        """
        digits = len(str(len(self.parts) - 1))
        paths = [Path(folder) / f"part-{number:0{digits}}.txt" for number in range(len(self.parts))]
        self.parts.map(_write, each=paths)
        return paths

    def gather(self) -> FloatArray:
        """Bring all scores into the memory of this process: by the rows of its source, or partition by partition."""
        scores = np.concatenate(self.parts.map(_scores))
        return scores if self.queries.order is None else scores[np.argsort(self.queries.order)]


def _scored(queries: Queries, score: Callable[..., Any], *shared: Any) -> ScoredPart:
    return ScoredPart(queries, np.asarray(score(queries, *shared), dtype=np.float64))


def _scores(part: ScoredPart) -> FloatArray:
    return part.scores


def _write(part: ScoredPart, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{score!r}\n" for score in part.scores.tolist())
    with atomic_path(path) as place:
        place.write_text(lines, encoding="ascii")
