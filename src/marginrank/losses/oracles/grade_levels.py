"""Grade levels: the documents of queries arranged by what a measure can tell apart, best level first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.unjudged import SOME_UNJUDGED
from marginrank.errors import DataError
from marginrank.measures import Measure, RankedGrades
from marginrank.measures.gains import check_grades
from marginrank.runtime.threads import for_chunks
from marginrank.typing import BoolArray, FloatArray, IntArray


class Layout(NamedTuple):
    """Offsets of queries and levels, for kernels.

    Places number all documents: first those of the first query, its best level first. Query q has the places
    ``queries[q]:queries[q + 1]``, level ℓ the places ``offsets[ℓ]:offsets[ℓ + 1]``, and query q has the levels
    ``of_query[q]:of_query[q + 1]``. Queries with more than one level are ``active``.
    """

    queries: IntArray
    offsets: IntArray
    of_query: IntArray
    active: BoolArray


@dataclass(frozen=True)
class Levels:
    """Documents arranged by level: the layout, the document at each place, and the gain of each level."""

    layout: Layout
    documents: IntArray
    gains: FloatArray

    @property
    def queries(self) -> IntArray:
        """First place of each query, and the number of places."""
        return self.layout.queries

    @property
    def offsets(self) -> IntArray:
        """First place of each level, and the number of places."""
        return self.layout.offsets

    @property
    def of_query(self) -> IntArray:
        """First level of each query, and the number of levels."""
        return self.layout.of_query

    @property
    def ordered(self) -> BoolArray:
        """Which queries have documents that the measure can tell apart."""
        return self.layout.active

    @property
    def of_document(self) -> IntArray:
        """Level of each document inside its query, the best being 0."""
        level = np.arange(len(self.offsets) - 1) - np.repeat(self.of_query[:-1], self.counts)
        out = np.empty(len(self.documents), dtype=np.int64)
        out[self.documents] = np.repeat(level, np.diff(self.offsets))
        return out

    @property
    def counts(self) -> IntArray:
        """Levels per query."""
        return np.diff(self.of_query)

    @property
    def lengths(self) -> IntArray:
        """Documents per query."""
        return np.diff(self.queries)

    @cached_property
    def most(self) -> int:
        """The most levels of any query."""
        return int(self.counts.max(initial=1))

    @cached_property
    def longest(self) -> int:
        """The most documents of any query."""
        return int(self.lengths.max(initial=1))

    @property
    def pairs(self) -> IntArray:
        """Pairs of documents of different level, per query."""
        sizes = np.diff(self.offsets)
        same = np.add.reduceat(np.append(sizes * sizes, 0), self.of_query[:-1]) if len(self.counts) else sizes
        same[self.counts == 0] = 0
        lengths = self.lengths
        return np.asarray((lengths * lengths - same) // 2)


def by_level(measure: Measure, grades: FloatArray, offsets: IntArray) -> Levels:
    """Arrange documents by what they are worth to a measure; gains are normalized if the measure is."""
    from marginrank.losses.oracles.grade_levels_kernel import arrange_levels  # noqa: PLC0415

    if np.isnan(grades).any():
        raise DataError(SOME_UNJUDGED)
    check_grades([measure], grades)
    worth = np.require(measure.worth(RankedGrades(grades, offsets, grades, offsets)), np.float64, ["C", "W"])
    n, counts = len(grades), np.zeros(len(offsets) - 1, dtype=np.int64)
    documents, begins = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    for_chunks(lambda first, end: arrange_levels(worth, offsets, documents, begins, counts, first, end), offsets)
    pool = grades[documents]
    descends = pool[1:] <= pool[:-1]
    descends[offsets[(offsets > 0) & (offsets < n)] - 1] = True
    scale = measure.scales(RankedGrades(pool, offsets, pool, offsets, pool_descends=bool(descends.all())))
    first = np.flatnonzero(begins)
    return Levels(
        Layout(offsets, np.append(first, n), offsets_from_sizes(counts), counts > 1),
        documents,
        worth[documents[first]] / np.repeat(np.where(scale > 0, scale, 1.0), counts),
    )
