"""Thresholds of features, and the indicators of the thresholds that a value exceeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from marginrank.data.partitions import Arrays, PartitionedQueries, Partitions
from marginrank.data.queries import Queries
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import AnyArray, Features, IntArray, KeyArray

#: How thresholds are chosen from training values: see `ThresholdBins`.
Spacing: TypeAlias = Literal["mixed", "quantile", "even"]


#: Rows from which a radix sort is faster than `numpy.sort`: of 1.2 million float32 it takes 0.3 times as long.
_RADIX_ROWS: Final = 1 << 16


class ThresholdBins(FeatureTransformer):
    """Replace each feature f by the indicators of the thresholds it exceeds.

    ``φ(x, d) = ⟨ 1[f(d|x) > k] : f ∈ F, k ∈ K_f ⟩``

    as in Yue et al. (SIGIR 2007), section 4.2, so that a linear ranker becomes a sum of piecewise-constant
    functions with ``|K_f| + 1`` bins each. The paper takes 50 "reasonably spaced" thresholds per feature and
    leaves the spacing open. Here they are learned from the training documents of all queries:

    - ``"quantile"``: the k/(n+1) quantiles of the training values, k = 1..n, each one a value that occurs;
    - ``"even"``: n thresholds that cut the range of the training values into n + 1 equal parts;
    - ``"mixed"``: half of the thresholds by quantile, for the values that are common, and half evenly, for the tails.

    Unless thresholds are even, a feature with at most n + 1 distinct values has one between every two neighbors. A
    threshold that no training document exceeds moves down to the second largest value, and duplicates are
    dropped: a feature has at most ``n_thresholds`` columns, at least one if it varies, none if it is constant in
    training. Later values below or above the training range fall in the first or last bin.
    NaN exceeds no threshold. ``qid`` and ``group`` are accepted and make no difference; for thresholds on
    values relative to the query, put `QueryPercentile` or `QueryMinMax` before, as SVM_acc3 and SVM_acc4 of
    the paper do.

    >>> bins = ThresholdBins(n_thresholds=3, spacing="even").fit([[0.0], [1.0], [4.0]])
    >>> bins.thresholds_
    [array([1., 2., 3.])]
    >>> bins.transform([[1.0], [2.5], [99.0]]).tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    >>> bins.get_feature_names_out().tolist()
    ['x0>1.0', 'x0>2.0', 'x0>3.0']

    Args:
        n_thresholds: Maximum number of thresholds per feature.
        spacing: ``"mixed"``, ``"quantile"`` or ``"even"``.
        sparse_output: Return CSR instead of a dense array. About half of the indicators are 1 under quantiles,
            so CSR saves memory only for features with few large values under even spacing.

    Attributes:
        thresholds_: Increasing thresholds of each feature, in the type of the training features.
    """

    thresholds_: list[AnyArray]

    def __init__(
        self,
        n_thresholds: int = 50,
        *,
        spacing: Spacing = "mixed",
        sparse_output: bool = False,
    ) -> None:
        self.n_thresholds = n_thresholds
        self.spacing = spacing
        self.sparse_output = sparse_output

    def _learn(self, X: AnyArray) -> None:
        check_spacing(self.spacing)
        if not isinstance(self.n_thresholds, Integral) or self.n_thresholds < 1:
            raise ValueError(f"n_thresholds is {self.n_thresholds!r}; give a whole number of at least 1")
        self.thresholds_ = [
            place_thresholds(ColumnQuantiles.of(sort_values(values.copy())), self.n_thresholds, self.spacing)
            for values in X.T
        ]

    def _apply(self, X: AnyArray, grouping: Grouping | None) -> Features:  # noqa: ARG002
        codes = np.empty(X.shape, dtype=np.int32)
        for feature, thresholds in enumerate(self.thresholds_):
            codes[:, feature] = _count_exceeded(X[:, feature], thresholds)
        sizes = np.array([len(thresholds) for thresholds in self.thresholds_])
        if self.sparse_output:
            return _sparse_indicators(codes, sizes, X.dtype)
        return _dense_indicators(codes, sizes, X.dtype)

    def get_feature_names_out(self, input_features: npt.ArrayLike | None = None) -> AnyArray:
        """Return names such as ``bm25>0.5``, one per output column."""
        names = super().get_feature_names_out(input_features)
        pairs = zip(names, self.thresholds_, strict=True)
        return np.array([f"{name}>{k!s}" for name, thresholds in pairs for k in thresholds], dtype=object)


def sort_values(values: AnyArray) -> AnyArray:
    """Sort contiguous values in place, NaN last, and return them.

    >>> sort_values(np.array([2.0, np.nan, -1.0])).tolist()
    [-1.0, 2.0, nan]
    """
    if len(values) < _RADIX_ROWS:
        values.sort()
        return values
    from marginrank.preparation.sorting_kernel import sort_bits  # noqa: PLC0415

    bits = values.view(f"u{values.itemsize}")
    sign, infinity = np.array([-0.0, np.inf], dtype=values.dtype).view(bits.dtype)
    sort_bits(bits, np.empty_like(bits), sign, infinity)
    return values


def check_spacing(spacing: Spacing) -> None:
    """Raise ValueError if the spacing is unknown."""
    if spacing not in get_args(Spacing):
        raise ValueError(f"unknown spacing {spacing!r}; known: {', '.join(get_args(Spacing))}")


def quantile_ranks(n: int, n_quantiles: int) -> IntArray:
    """Return the ranks, from 0, of the k/(m+1) quantiles of n sorted values, k = 1..m.

    >>> quantile_ranks(10, 4).tolist()
    [1, 3, 5, 7]
    """
    before = n * (np.arange(1, n_quantiles + 1) / (n_quantiles + 1)) - 1
    return np.maximum(np.ceil(before), 0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ColumnQuantiles:
    """The values of a feature that its thresholds depend on.

    Args:
        n: Number of values.
        distinct: Distinct values in order; if incomplete, the smallest first and the two largest last.
        complete: Whether these are all distinct values.
        at: The value at each rank from 0, or at the ranks of quantiles.
    """

    n: int
    distinct: AnyArray
    complete: bool
    at: AnyArray | Mapping[int, Any]

    @classmethod
    def of(cls, values: AnyArray) -> ColumnQuantiles:
        """Summarize sorted values, NaN last."""
        present = values[: np.searchsorted(values, np.nan)]
        if not len(present):
            return cls(0, present, True, present)
        ends = np.append(present[1:] > present[:-1], True)
        return cls(len(present), present[ends], True, present)

    @property
    def constant(self) -> bool:
        """Whether it has fewer than two distinct values."""
        return len(self.distinct) < 2


def place_thresholds(column: ColumnQuantiles, n_thresholds: int, spacing: Spacing) -> AnyArray:
    """Return the thresholds of one feature, as in `ThresholdBins`.

    >>> column = ColumnQuantiles.of(np.array([0.0, 1.0, 4.0, np.nan]))
    >>> place_thresholds(column, 3, "even").tolist(), place_thresholds(column, 3, "mixed").tolist()
    ([1.0, 2.0, 3.0], [0.0, 1.0])
    """
    distinct = column.distinct
    if column.constant:
        return distinct[:0].copy()
    if spacing != "even" and column.complete and len(distinct) <= n_thresholds + 1:
        return distinct[:-1] + 0.0
    if spacing == "mixed":
        n_even = n_thresholds // 2
        by_quantile = place_thresholds(column, n_thresholds - n_even, "quantile")
        return np.unique(np.concatenate([by_quantile, place_thresholds(column, n_even, "even")]))
    smallest, second, largest = distinct[0], distinct[-2], distinct[-1]
    if spacing == "even":
        shares = np.arange(1, n_thresholds + 1) / (n_thresholds + 1)
        thresholds = (1 - shares) * smallest + shares * largest
    else:
        thresholds = np.array([column.at[rank] for rank in quantile_ranks(column.n, n_thresholds).tolist()])
    thresholds = np.maximum(thresholds.astype(distinct.dtype), smallest)
    thresholds = np.where(thresholds < largest, thresholds, second)
    return np.unique(thresholds) + 0.0  # -0.0 and 0.0 are one threshold, and should have one name


def _count_exceeded(values: AnyArray, thresholds: AnyArray) -> IntArray:
    """Return the number of thresholds below each value, which are always the first ones.

    >>> _count_exceeded(np.array([0.0, 1.0, 1.5, np.nan]), np.array([0.5, 1.0])).tolist()
    [0, 1, 2, 0]
    """
    return np.where(np.isnan(values), 0, np.searchsorted(thresholds, values, side="left"))


def _dense_indicators(codes: AnyArray, sizes: IntArray, dtype: npt.DTypeLike) -> AnyArray:
    out = np.empty((len(codes), sizes.sum()), dtype=dtype)
    ends = np.cumsum(sizes)
    for feature, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        out[:, start:end] = codes[:, feature, None] > np.arange(end - start)
    return out


def _sparse_indicators(codes: AnyArray, sizes: IntArray, dtype: npt.DTypeLike) -> sp.csr_array:
    counts = codes.ravel()
    n_ones = int(counts.sum(dtype=np.int64))
    first_column = np.tile(np.cumsum(sizes) - sizes, len(codes))
    # The ones of a feature begin at its first column.
    before = np.cumsum(counts, dtype=np.int64) - counts
    columns = np.repeat(first_column - before, counts) + np.arange(n_ones)
    row_ends = np.cumsum(codes.sum(axis=1, dtype=np.int64))
    return sp.csr_array((np.ones(n_ones, dtype=dtype), columns, np.r_[0, row_ends]), shape=(len(codes), sizes.sum()))


#: Number of intervals that a pass divides an interval into.
SPLITS: Final = 16
#: Size of the sorted columns of a partition in memory.
_COLUMN_BYTES: Final = 1 << 27


class _SortedColumns(NamedTuple):
    """Sorted values of some features, without NaN."""

    columns: list[AnyArray]
    n_rows: int


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Facts about a column that merge exactly: count, extremes, and all distinct values if they are few."""

    n: int
    missing: bool
    #: Distinct values or, if there are more than `limit`, the smallest ones and the two largest.
    distinct: AnyArray
    limit: int

    @property
    def complete(self) -> bool:
        """Whether all distinct values are known."""
        return len(self.distinct) <= self.limit

    @classmethod
    def of(cls, values: AnyArray, missing: bool, limit: int) -> ColumnFacts:
        """Summarize values."""
        return cls(len(values), missing, np.unique(values), limit)

    def merge(self, other: ColumnFacts) -> ColumnFacts:
        """Return the facts about the values of both."""
        distinct = np.union1d(self.distinct, other.distinct)
        return ColumnFacts(self.n + other.n, self.missing or other.missing, distinct, self.limit)

    def cut(self) -> ColumnFacts:
        """Return the facts with one value above the limit at most, and the extremes."""
        if self.complete:
            return self
        distinct = np.r_[self.distinct[: self.limit - 1], self.distinct[-2:]]
        return ColumnFacts(self.n, self.missing, distinct, self.limit)


def partitioned_quantiles(
    queries: PartitionedQueries, n_thresholds: int, spacing: Spacing
) -> list[tuple[ColumnQuantiles, bool]]:
    """Return the quantiles of each feature of queries in partitions, and whether it has missing values."""
    size = np.dtype(queries.facts[0].dtype).itemsize
    longest = max(1, *(part.documents for part in queries.facts))
    width = max(1, _COLUMN_BYTES // (longest * size))
    columns: list[tuple[ColumnQuantiles, bool]] = []
    for first in range(0, queries.n_features, width):
        columns += _quantiles(queries.partitions.derive(_sort, first, first + width), n_thresholds, spacing)
    return columns


def _quantiles(
    parts: Partitions[_SortedColumns], n_thresholds: int, spacing: Spacing
) -> list[tuple[ColumnQuantiles, bool]]:
    (facts,) = parts.reduce(_facts, max(2, n_thresholds + 1), merge=_merge)
    n_quantiles = {"quantile": n_thresholds, "mixed": n_thresholds - n_thresholds // 2, "even": 0}[spacing]
    ranks = [
        quantile_ranks(fact.n, n_quantiles) if fact.n and not fact.complete else np.zeros(0, np.int64) for fact in facts
    ]
    values = values_at(parts, ranks, [fact.distinct for fact in facts])
    quantiles = [dict(zip(rank.tolist(), value, strict=True)) for rank, value in zip(ranks, values, strict=True)]
    return [
        (ColumnQuantiles(fact.n, fact.distinct, fact.complete, at), fact.missing)
        for fact, at in zip(facts, quantiles, strict=True)
    ]


def values_at(parts: Partitions[Any], ranks: Sequence[IntArray], bounds: Sequence[AnyArray]) -> list[AnyArray]:
    """Return the values at given ranks of each feature, from 0, among the values of all partitions.

    Args:
        parts: Sorted columns.
        ranks: The ranks, for each feature.
        bounds: Values of each feature, with the minimum first and the maximum last.
    """
    feature = np.repeat(np.arange(len(ranks)), [len(rank) for rank in ranks])
    targets = np.concatenate([np.zeros(0, np.int64), *ranks])
    if not len(targets):
        return [values[:0] for values in bounds]
    low, high = (_keys(np.array([bounds[f][end] for f in feature.tolist()])) for end in (0, -1))
    dtype = bounds[feature[0]].dtype
    low, high = low.astype(np.uint64), high.astype(np.uint64)
    steps = np.arange(1, SPLITS, dtype=np.uint64)
    while (low < high).any():
        step = (high - low) // np.uint64(SPLITS) + np.uint64(1)
        edges = low[:, None] + np.minimum(steps * step[:, None], (high - low)[:, None])
        ((below,),) = parts.add(_count_below, feature, edges)
        # Counts grow along the edges: those up to the rank are below or at the key.
        passed = np.count_nonzero(below <= targets[:, None], axis=1)
        grid = np.hstack([low[:, None], edges, high[:, None] + np.uint64(1)])
        rows = np.arange(len(targets))
        low, high = grid[rows, passed], np.where(passed < SPLITS - 1, grid[rows, passed + 1] - np.uint64(1), high)
    return np.split(_values(low, dtype), np.cumsum([len(rank) for rank in ranks])[:-1])


def _keys(values: AnyArray) -> KeyArray:
    """Return unsigned integers in the order of the values; 0.0 and -0.0 have the same."""
    bits = np.dtype(f"u{values.dtype.itemsize}")
    sign = bits.type(1 << (8 * bits.itemsize - 1))
    raw = (values + 0.0).view(bits)
    return np.where(raw & sign, ~raw, raw | sign)


def _values(keys: KeyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Return the values of keys.

    >>> numbers = np.array([-2.5, 0.0, 1e300])
    >>> _values(_keys(numbers).astype(np.uint64), numbers.dtype).tolist()
    [-2.5, 0.0, 1e+300]
    """
    bits = np.dtype(f"u{dtype.itemsize}")
    sign, narrow = bits.type(1 << (8 * bits.itemsize - 1)), keys.astype(bits)
    return np.where(narrow & sign, narrow ^ sign, ~narrow).view(dtype)


def _sort(queries: Queries, first: int, end: int) -> _SortedColumns:
    columns = map(sort_values, np.array(queries.dense()[:, first:end].T, order="C"))
    present = [column[: np.searchsorted(column, np.nan)] + 0.0 for column in columns]
    return _SortedColumns(present, queries.n_documents)


def _facts(part: _SortedColumns, limit: int) -> list[ColumnFacts]:
    return [ColumnFacts.of(column, len(column) < part.n_rows, limit).cut() for column in part.columns]


def _merge(left: list[ColumnFacts], right: list[ColumnFacts]) -> list[ColumnFacts]:
    return [a.merge(b).cut() for a, b in zip(left, right, strict=True)]


def _count_below(part: _SortedColumns, feature: IntArray, edges: KeyArray) -> Arrays:
    """Return the number of values of the feature below each edge."""
    counts = np.empty(edges.shape, dtype=np.int64)
    bounds = np.searchsorted(feature, np.arange(len(part.columns) + 1))
    for column, first, end in zip(part.columns, bounds[:-1], bounds[1:], strict=True):
        keys = _keys(column)
        # An edge may lie beyond the largest key by one.
        counts[first:end] = np.searchsorted(keys, edges[first:end].astype(keys.dtype), side="left")
    return (counts,)
