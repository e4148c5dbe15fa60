"""Order statistics of features in partitions: the exact ones of all rows, from counts alone.

Numbers become keys, whole numbers in the same order. The key at a rank is searched for by counting, over all
partitions, how many keys are below each of several places in the interval where it lies; each pass divides the interval
by `SPLITS`. What is sent and added up does not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.data.partitioned import PartitionedQueries
from marginrank.data.partitions import Arrays, Partitions
from marginrank.data.queries import Queries
from marginrank.preparation.thresholds import Column, Spacing, quantile_ranks
from marginrank.typing import AnyArray, IntArray, KeyArray

#: Into how many parts a pass divides an interval.
SPLITS: Final = 16
#: Bytes of the columns that a partition keeps sorted at a time.
_COLUMN_BYTES: Final = 1 << 27


class _Sorted(NamedTuple):
    """Sorted values of some features, without NaN."""

    columns: list[AnyArray]
    n_rows: int


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """What merges exactly: count, extremes, and all values where they are few."""

    n: int
    missing: bool
    #: Distinct values, or the least, the second largest and the largest where there are more than `most`.
    distinct: AnyArray
    most: int

    @property
    def complete(self) -> bool:
        """Whether all distinct values are known."""
        return len(self.distinct) <= self.most

    @classmethod
    def of(cls, values: AnyArray, missing: bool, most: int) -> ColumnFacts:
        """Look at sorted values, or at distinct ones."""
        return cls(len(values), missing, np.unique(values), most)

    def merge(self, other: ColumnFacts) -> ColumnFacts:
        """Return what is known of the values of both."""
        distinct = np.union1d(self.distinct, other.distinct)
        return ColumnFacts(self.n + other.n, self.missing or other.missing, distinct, self.most)

    def cut(self) -> ColumnFacts:
        """Return the same with no more values than needed to know that there are too many, and the extremes."""
        if self.complete:
            return self
        kept = np.r_[self.distinct[: self.most - 1], self.distinct[-2:]]
        return ColumnFacts(self.n, self.missing, kept, self.most)


def columns_of(queries: PartitionedQueries, n_thresholds: int, spacing: Spacing) -> list[tuple[Column, bool]]:
    """Return what the thresholds of each feature depend on, and whether it is missing somewhere."""
    size = np.dtype(queries.facts[0].dtype).itemsize
    longest = max(1, *(part.documents for part in queries.facts))
    width = max(1, _COLUMN_BYTES // (longest * size))
    found: list[tuple[Column, bool]] = []
    for first in range(0, queries.n_features, width):
        found += _block(queries.partitions.derive(_sort, first, first + width), n_thresholds, spacing)
    return found


def _block(parts: Partitions[_Sorted], n_thresholds: int, spacing: Spacing) -> list[tuple[Column, bool]]:
    (facts,) = parts.reduce(_facts, max(2, n_thresholds + 1), merge=_merge)
    of_quantiles = {"quantile": n_thresholds, "mixed": n_thresholds - n_thresholds // 2, "even": 0}[spacing]
    ranks = [
        quantile_ranks(one.n, of_quantiles) if one.n and not one.complete else np.zeros(0, np.int64) for one in facts
    ]
    values = values_at(parts, ranks, [one.distinct for one in facts])
    return [
        (
            Column(
                one.n,
                one.distinct,
                one.complete,
                dict(zip(places.tolist(), found, strict=True)),
            ),
            one.missing,
        )
        for one, places, found in zip(facts, ranks, values, strict=True)
    ]


def values_at(parts: Partitions[Any], ranks: Sequence[IntArray], bounds: Sequence[AnyArray]) -> list[AnyArray]:
    """Return the values at given ranks of each feature, from 0, among the values of all partitions.

    Args:
        parts: Sorted columns.
        ranks: The ranks, for each feature.
        bounds: Values of each feature, with the least and the greatest of all first and last.
    """
    feature = np.repeat(np.arange(len(ranks)), [len(one) for one in ranks])
    wanted = np.concatenate([np.zeros(0, np.int64), *ranks])
    if not len(wanted):
        return [one[:0] for one in bounds]
    low, high = (_keys(np.array([bounds[f][end] for f in feature.tolist()])) for end in (0, -1))
    dtype = bounds[feature[0]].dtype
    low, high = low.astype(np.uint64), high.astype(np.uint64)
    steps = np.arange(1, SPLITS, dtype=np.uint64)
    while (low < high).any():
        step = (high - low) // np.uint64(SPLITS) + np.uint64(1)
        edges = low[:, None] + np.minimum(steps * step[:, None], (high - low)[:, None])
        ((below,),) = parts.add(_count_below, feature, edges)
        # Counts grow along the edges: those up to the rank are below or at the key.
        passed = np.count_nonzero(below <= wanted[:, None], axis=1)
        every = np.hstack([low[:, None], edges, high[:, None] + np.uint64(1)])
        rows = np.arange(len(wanted))
        low, high = every[rows, passed], np.where(passed < SPLITS - 1, every[rows, passed + 1] - np.uint64(1), high)
    return np.split(_values(low, dtype), np.cumsum([len(one) for one in ranks])[:-1])


def _keys(values: AnyArray) -> KeyArray:
    """Whole numbers in the order of the values; 0.0 and -0.0 have the same."""
    bits = np.dtype(f"u{values.dtype.itemsize}")
    sign = bits.type(1 << (8 * bits.itemsize - 1))
    raw = (values + 0.0).view(bits)
    return np.where(raw & sign, ~raw, raw | sign)


def _values(keys: KeyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Return the values that keys were made of.

    >>> numbers = np.array([-2.5, 0.0, 1e300])
    >>> _values(_keys(numbers).astype(np.uint64), numbers.dtype).tolist()
    [-2.5, 0.0, 1e+300]
    """
    bits = np.dtype(f"u{dtype.itemsize}")
    sign, narrow = bits.type(1 << (8 * bits.itemsize - 1)), keys.astype(bits)
    return np.where(narrow & sign, narrow ^ sign, ~narrow).view(dtype)


def _sort(queries: Queries, first: int, end: int) -> _Sorted:
    columns = np.sort(np.ascontiguousarray(queries.dense()[:, first:end].T), axis=1)
    present = [column[: np.searchsorted(column, np.nan)] + 0.0 for column in columns]
    return _Sorted(present, queries.n_documents)


def _facts(part: _Sorted, most: int) -> list[ColumnFacts]:
    return [ColumnFacts.of(column, len(column) < part.n_rows, most).cut() for column in part.columns]


def _merge(one: list[ColumnFacts], other: list[ColumnFacts]) -> list[ColumnFacts]:
    return [a.merge(b).cut() for a, b in zip(one, other, strict=True)]


def _count_below(part: _Sorted, feature: IntArray, edges: KeyArray) -> Arrays:
    """How many values of its feature are below each edge."""
    counts = np.empty(edges.shape, dtype=np.int64)
    bounds = np.searchsorted(feature, np.arange(len(part.columns) + 1))
    for column, first, end in zip(part.columns, bounds[:-1], bounds[1:], strict=True):
        keys = _keys(column)
        # An edge may lie beyond the largest key by one.
        counts[first:end] = np.searchsorted(keys, edges[first:end].astype(keys.dtype), side="left")
    return (counts,)
