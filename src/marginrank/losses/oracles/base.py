"""Argmax problems, sorted documents and most violated rankings: input and output of oracles.

The NamedTuples group arrays by role. Numba takes a microsecond to recognize a NamedTuple and no more for a plain tuple
than for its arrays, and a call of one query takes a few. So ``tuple(...)`` of them crosses into the kernels, once built
and reused, and the kernels name the arrays again: ``layout = Layout(*layout)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.oracles.grade_levels import Levels
from marginrank.measures import Measure, TwoLevels
from marginrank.runtime.threads import PerThread, chunk_bounds
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: Relative difference between numbers that are the same but for rounding.
_EVEN: Final = 1e-12
#: Relevant documents whose shares are computed together. 1.9 million, of 31,500 queries: 41 ms at once, 18 ms for 2^15
#: and 2^17, 31 ms for 2^12.
_BLOCK: Final = 1 << 15


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

    @cached_property
    def credit_shares(self) -> CreditShares:
        """Credits of the relevant documents of queries with two levels."""
        (shares, rises), discounts = _shares_by_place(self), self.discounts
        sums = np.array([discounts, np.cumsum(discounts)])
        return CreditShares(shares, discounts, -np.diff(discounts), sums, rises, self.scales)

    def two_levels(self) -> TwoLevels:
        """Return sizes and gains of the two levels of each active query."""
        if self.levels.most > 2:
            raise TypeError(f"some query has {self.levels.most} levels; credits are those of two")
        offsets, gains = self.levels.offsets, self.levels.gains
        first = self.levels.of_query[:-1][self.active]
        sizes = np.diff(offsets)
        return TwoLevels(sizes[first], sizes[first + 1], gains[first], gains[first + 1])


def _shares_by_place(problem: ArgmaxProblem) -> tuple[FloatArray, FloatArray]:
    """Return the share of each relevant document by place, 0 at all other places, and the rises of `CreditShares`."""
    two, out = problem.two_levels(), np.zeros(len(problem.levels.documents))
    starts, ends = problem.levels.queries[:-1][problem.active], offsets_from_sizes(two.n_rel)
    slopes = np.zeros(len(starts))
    for first, end in pairwise(chunk_bounds(ends, 1 + int(ends[-1]) // _BLOCK).tolist()):
        n_rel, offsets = two.n_rel[first:end], ends[first : end + 1] - ends[first]
        query = np.repeat(np.arange(end - first), n_rel)
        before = np.arange(len(query)) - offsets[query]
        shares = problem.measure.shares(before + 1, two.take(first + query))
        if shares is None:
            raise TypeError(f"{problem.measure} declares no shares")
        out[starts[first + query] + before] = shares
        lowest, highest = shares[offsets[:-1]], shares[offsets[1:] - 1]
        rise = (highest - lowest) / np.maximum(n_rel - 1, 1)
        off_line = np.abs(lowest[query] + rise[query] * before - shares)
        rise[query[off_line > _EVEN * np.abs(shares)]] = np.nan
        slopes[first:end] = rise
    rises = np.zeros(len(problem.active))
    rises[problem.active] = slopes
    return out, rises


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
