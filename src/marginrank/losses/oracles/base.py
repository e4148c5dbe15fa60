"""Argmax problems, sorted documents and most violated rankings: input and output of oracles.

The NamedTuples group arrays by role. Numba takes a microsecond to recognize a NamedTuple and no more for a plain tuple
than for its arrays, and a call of one query takes a few. So ``tuple(...)`` of them crosses into the kernels, once built
and reused, and the kernels name the arrays again: ``layout = Layout(*layout)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.oracles.grade_levels import Levels
from marginrank.measures import Measure, TwoLevels
from marginrank.runtime.threads import PerThread
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


class SortedDocuments(NamedTuple):
    """The documents of all queries sorted by score, inside their levels and all together.

    Places are positions in the order of `Layout`: level by level, the best level of a query first. If only the order
    inside the levels is needed, ``predicted`` and ``places`` are empty.

    Args:
        scores: Score at each place, descending inside each level.
        documents: Document at each place.
        predicted: Rank by score of the document at each place.
        places: Place of the document at each rank by score.
    """

    scores: FloatArray
    documents: AnyArray
    predicted: AnyArray
    places: AnyArray


def index_dtype(n: int) -> type[np.int32 | np.int64]:
    """Return the type of numbers below n: half the memory to read if 32 bits are enough."""
    return np.int32 if n <= np.iinfo(np.int32).max else np.int64


class Violations(NamedTuple):
    """The most violated rankings: the rank of the document at each place, and weight·Δ of each query."""

    ranks: AnyArray
    deltas: FloatArray

    @classmethod
    def empty(cls, levels: Levels) -> Violations:
        """Allocate the rankings of queries."""
        n = len(levels.documents)
        return cls(np.empty(n, dtype=index_dtype(n)), np.zeros(len(levels.ordered)))


class Coefficients(NamedTuple):
    """The feature map: A over ranks, its scale per query, and the rank in y* by document.

    ``ideal`` is empty if y* is the order of the places: by level, and inside a level by score.
    """

    profile: FloatArray
    scales: FloatArray
    ideal: IntArray


class CreditShares(NamedTuple):
    """Credits as share of a document (by place) times discount of its rank, and the scale of φpo per query.

    ``drops`` are the differences of neighboring discounts, ``sums`` has discounts and their sums up to each rank, and
    ``rises`` is by how much the shares of a query rise from one document to the next, NaN if not evenly.
    """

    shares: FloatArray
    discounts: FloatArray
    drops: FloatArray
    sums: FloatArray
    rises: FloatArray
    scales: FloatArray


class FirstRelevantTable(NamedTuple):
    """A loss with few values: what one of the first ``k`` ranks is worth per query, or discounts if first_only."""

    worth: FloatArray
    discounts: FloatArray
    k: int
    first_only: bool


class SlackTable(NamedTuple):
    """Output of a loss: ξ of each query and ∂ξ/∂s of each document."""

    xi: FloatArray
    gradient: FloatArray


#: Ranks the sorted documents of queries ``first`` to ``end`` so that weight·Δ + a(y)·s is largest:
#: ``rank(weights, first, end)``.
Ranker: TypeAlias = Callable[[FloatArray, int, int], None]


@dataclass(frozen=True)
class ArgmaxProblem:
    """Queries arranged by level, and the measure and the feature map to rank them under."""

    measure: Measure
    feature_map: FeatureMap
    levels: Levels

    @cached_property
    def profile(self) -> FloatArray:
        """A over all ranks that occur."""
        return self.feature_map.profile(self.levels.longest, self.measure)

    @cached_property
    def scales(self) -> FloatArray:
        """Scale of A for each query."""
        return self.feature_map.scales(self.levels.lengths, self.levels.pairs)

    @property
    def active(self) -> BoolArray:
        """Queries with more than one level."""
        return self.levels.ordered

    @cached_property
    def discounts(self) -> FloatArray:
        """Discounts of the measure over all ranks that occur."""
        discounts = self.measure.discounts(self.levels.longest)
        if discounts is None:
            raise TypeError(f"{self.measure} declares no discounts")
        return discounts

    def two_levels(self) -> TwoLevels:
        """Return sizes and gains of the two levels of each active query."""
        if self.levels.most > 2:
            raise TypeError(f"some query has {self.levels.most} levels; credits are those of two")
        offsets, gains = self.levels.offsets, self.levels.gains
        first = self.levels.of_query[:-1][self.active]
        sizes = np.diff(offsets)
        return TwoLevels(sizes[first], sizes[first + 1], gains[first], gains[first + 1])


class ScoreOrder(NamedTuple):
    """The level of each document, and the documents by score as they were last sorted."""

    levels: AnyArray
    documents: AnyArray


class Sorter:
    """Sorts the documents of queries by score, inside their levels and, if needed, all together.

    The order changes little from one evaluation to the next, so each sort begins with the last order.
    """

    def __init__(self, levels: Levels, *, all_together: bool = True) -> None:
        from marginrank.losses.oracles.sorting_kernel import sort_levels, sort_queries  # noqa: PLC0415

        n, longest = len(levels.documents), levels.longest
        kind = index_dtype(n)
        self._sort = sort_queries if all_together else sort_levels
        self._layout = tuple(levels.layout)
        size = n if all_together else 0
        self.sorted = SortedDocuments(
            np.empty(n), levels.documents.astype(kind), np.empty(size, kind), np.empty(size, kind)
        )
        self._order = tuple(ScoreOrder(levels.of_document.astype(kind), np.arange(size, dtype=kind)))
        self._out = tuple(self.sorted)
        self._buffers = PerThread(
            lambda: (np.empty(longest), np.empty(longest), np.empty(longest, kind), np.empty(longest, kind))
        )

    @property
    def documents(self) -> AnyArray:
        """Document at each place."""
        return self.sorted.documents

    def sort(self, scores: FloatArray, first: int, end: int) -> SortedDocuments:
        """Sort queries ``first`` to ``end``; threads may sort different queries at the same time."""
        self._sort(scores, self._layout, self._order, self._buffers(), self._out, first, end)
        return self.sorted
