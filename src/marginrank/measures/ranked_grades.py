"""Grades of ranked documents, from which measures are computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.unjudged import UnjudgedRule
from marginrank.errors import DataError, Parameter
from marginrank.runtime.threads import for_chunks
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

_NO_PREFERENCE = np.zeros(0)
#: Maximum number of (relevant document, place) pairs of tied documents per batch.
_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class RankedGrades:
    """Grades of ranked documents, first rank first, and of everything that was judged.

    Args:
        grades: Grades in rank order, the lists of all queries one after the other; lists may be cut at a depth. NaN is
            unjudged; only measures that say so see it, the others see `resolved` rankings.
        offsets: Offsets of the lists of the queries.
        pool: Grades of all documents of each query, in any order; the same documents as in the lists, unless lists are
            cut or judged documents were not retrieved.
        pool_offsets: Offsets of the pools of the queries.
        tied: Whether a document has the same score as the one before it, if measures are to be averaged over the orders
            of tied documents; otherwise None.
        depth: Maximum number of ranks that count, if the lists could not be cut there because of ties; otherwise None.
        pooled: Whether each ranked document was in the pool that judgements were made of; None if all were. Documents
            outside are unjudged.
        pool_descends: Whether the pool of each query is known to begin with the highest grade and to descend from it.
    """

    grades: FloatArray
    offsets: IntArray
    pool: FloatArray
    pool_offsets: IntArray
    tied: BoolArray | None = None
    depth: int | None = None
    pooled: BoolArray | None = None
    pool_descends: bool = False

    @classmethod
    def of_list(cls, grades: npt.ArrayLike) -> RankedGrades:
        """Take the grades of one ranking, from first to last."""
        values = np.asarray(grades, dtype=np.float64).ravel()
        offsets = np.array([0, len(values)])
        return cls(values, offsets, values, offsets)

    def __len__(self) -> int:
        """Count the queries."""
        return len(self.offsets) - 1

    @cached_property
    def has_unjudged(self) -> bool:
        """Whether any document is unjudged."""
        return bool(np.isnan(self.pool).any() or np.isnan(self.grades).any())

    def resolved(self, rule: UnjudgedRule) -> RankedGrades:
        """Return rankings without unjudged documents: irrelevant, or left out, so that those after them move up.

        >>> rankings = RankedGrades.of_list([np.nan, 2.0, np.nan, 0.0])
        >>> rankings.resolved("irrelevant").grades.tolist(), rankings.resolved("skip").grades.tolist()
        ([0.0, 2.0, 0.0, 0.0], [2.0, 0.0])
        """
        if not self.has_unjudged:
            return self
        if rule == "irrelevant":
            return replace(self, grades=np.nan_to_num(self.grades), pool=np.nan_to_num(self.pool), pooled=None)
        if self.depth is not None:
            raise DataError(
                "documents are tied where the lists are cut, so that it is open which unjudged ones come before; use ",
                Parameter("policy", "trec"),
                ", which breaks ties, or leave out ",
                Parameter("depth"),
            )
        judged, in_pool = ~np.isnan(self.grades), ~np.isnan(self.pool)
        offsets, pool_offsets = (
            np.append(0, np.cumsum(kept))[bounds]
            for kept, bounds in ((judged, self.offsets), (in_pool, self.pool_offsets))
        )
        tied = None
        if self.tied is not None:
            block = np.cumsum(~self.tied)[judged]
            tied = np.zeros(len(block), dtype=np.bool_)
            tied[1:] = block[1:] == block[:-1]
        return RankedGrades(
            self.grades[judged], offsets, self.pool[in_pool], pool_offsets, tied, pool_descends=self.pool_descends
        )

    @property
    def longest(self) -> int:
        """Length of the longest list."""
        return int(np.diff(self.offsets).max(initial=0))

    @cached_property
    def best(self) -> FloatArray:
        """Highest grade of each query, 0 if it has no document."""
        out = np.zeros(len(self))
        occupied = np.diff(self.pool_offsets) > 0
        if occupied.any():
            out[occupied] = np.maximum.reduceat(self.pool, self.pool_offsets[:-1][occupied])
        return out

    @cached_property
    def best_per_document(self) -> FloatArray:
        """Highest grade of the query of each ranked document."""
        return np.repeat(self.best, np.diff(self.offsets))

    @cached_property
    def query_of_document(self) -> IntArray:
        """Query of each ranked document."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def count_relevant(self, threshold: float) -> IntArray:
        """Count the documents of each query whose grade is at least the threshold."""
        running = np.concatenate([[0], np.cumsum(self.pool >= threshold)])
        return np.asarray(running[self.pool_offsets[1:]] - running[self.pool_offsets[:-1]])

    def ideal(self, depth: int | None) -> tuple[FloatArray, IntArray]:
        """Return the grades of the best ranking of each pool down to a depth, and their offsets."""
        if not self.pool_descends:
            order, offsets = rank_by(self.pool, self.pool_offsets, depth=depth)
            return self.pool[order], offsets
        sizes = np.diff(self.pool_offsets) if depth is None else np.minimum(np.diff(self.pool_offsets), depth)
        offsets = offsets_from_sizes(sizes)
        return self.pool[np.arange(offsets[-1]) + np.repeat(self.pool_offsets[:-1] - offsets[:-1], sizes)], offsets

    def mean_over_ties(self, values: FloatArray) -> FloatArray:
        """Replace the values of tied documents by their mean."""
        if self.tied is None:
            return values
        starts = np.flatnonzero(~self.tied)
        sizes = np.diff(np.append(starts, len(values)))
        return np.repeat(np.add.reduceat(values, starts) / sizes, sizes) if len(starts) else values

    def hits(
        self, threshold: float, linear: bool = False, first_only: bool = False
    ) -> Iterator[tuple[IntArray, AnyArray, AnyArray, FloatArray]]:
        """Yield the relevant documents: query, i (this is the i-th), j (irrelevant before it), probability.

        Inside ties, yields every place that the i-th relevant document can take, with its probability. Credits that are
        ``linear`` in i at each rank need only the mean of i at every rank; if ``first_only``, the places of the first
        relevant document are enough.
        """
        relevant = self.grades >= threshold
        sizes = np.diff(self.offsets)
        running = np.concatenate([[0], np.cumsum(relevant)])
        before: IntArray = running[:-1] - np.repeat(running[self.offsets[:-1]], sizes)
        rank = np.arange(len(relevant)) - np.repeat(self.offsets[:-1], sizes)
        mixed = self._mixed_ties(relevant)
        plain = np.flatnonzero(relevant if mixed is None else relevant & ~mixed[0])
        yield self.query_of_document[plain], before[plain] + 1, rank[plain] - before[plain], np.ones(len(plain))
        if mixed is None:
            return
        starts, ends = mixed[1]
        n_rel = running[ends] - running[starts]
        if linear:
            yield self._mean_places(starts, ends - starts, n_rel, before, rank)
            return
        if first_only:
            none_before = before[starts] == 0
            starts, ends, n_rel = starts[none_before], ends[none_before], n_rel[none_before]
        for block, i, j, weight in _places_in_ties(n_rel, ends - starts - n_rel, first_only):
            at = starts[block]
            yield self.query_of_document[at], before[at] + i, rank[at] - before[at] + j, weight

    def _mean_places(
        self, starts: IntArray, sizes: IntArray, n_rel: IntArray, before: IntArray, rank: IntArray
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return, for every rank in blocks of ties, the chance that it is relevant and the mean of i if it is.

        Of r relevant among t tied documents, the one at place p of the block (from 0) has p·(r − 1)/(t − 1) of the
        others before it, on average (McSherry and Najork, ECIR 2008).
        """
        block = np.repeat(np.arange(len(starts)), sizes)
        place = np.arange(len(block)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at, r, t = starts[block], n_rel[block], sizes[block]
        i = before[at] + 1 + place * (r - 1) / (t - 1)
        return self.query_of_document[at], i, rank[at] + place + 1 - i, r / t

    def _mixed_ties(self, relevant: BoolArray) -> tuple[BoolArray, tuple[IntArray, IntArray]] | None:
        """Find the blocks of ties with both kinds of documents: a mask of documents, and the bounds of the blocks."""
        if self.tied is None or not self.tied.any():
            return None
        starts = np.flatnonzero(~self.tied)
        ends = np.append(starts[1:], len(relevant))
        n_rel = np.add.reduceat(relevant.astype(np.int64), starts)
        mixed = (n_rel > 0) & (n_rel < ends - starts)
        if not mixed.any():
            return None
        inside = np.repeat(mixed, ends - starts)
        return inside, (starts[mixed], ends[mixed])


def _batches(costs: IntArray) -> Iterator[slice]:
    """Cut a sequence into batches whose costs sum to about `_PAIRS_AT_ONCE`."""
    total = np.cumsum(costs)
    start = 0
    while start < len(costs):
        reached = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, reached + _PAIRS_AT_ONCE, side="right")))
        yield slice(start, end)
        start = end


def _places_in_ties(
    n_rel: IntArray, n_irr: IntArray, first_only: bool
) -> Iterator[tuple[IntArray, IntArray, IntArray, FloatArray]]:
    """Yield the positions of the relevant documents of blocks of ties in a random order.

    Yields block, i, j and the probability that j irrelevant documents of the block come before its i-th relevant one,
    C(i−1+j, j) · C(n_rel−i + n_irr−j, n_irr−j) / C(n_rel + n_irr, n_irr).
    """
    from scipy.special import gammaln  # noqa: PLC0415

    log_factorial = gammaln(np.arange(int((n_rel + n_irr).max(initial=0)) + 1) + 1.0)
    counted = np.minimum(n_rel, 1) if first_only else n_rel
    block_of_row = np.repeat(np.arange(len(n_rel)), counted)
    i_of_row = np.arange(len(block_of_row)) - np.repeat(np.cumsum(counted) - counted, counted) + 1
    places = n_irr[block_of_row] + 1
    for rows in _batches(places):
        row = np.repeat(np.arange(rows.start, rows.stop), places[rows])
        j = np.arange(len(row)) - np.repeat(np.cumsum(places[rows]) - places[rows], places[rows])
        block, i = block_of_row[row], i_of_row[row]
        after_rel, after_irr = n_rel[block] - i, n_irr[block] - j
        log_weight = (
            (log_factorial[i - 1 + j] - log_factorial[j] - log_factorial[i - 1])
            + (log_factorial[after_rel + after_irr] - log_factorial[after_irr] - log_factorial[after_rel])
            - (log_factorial[n_rel + n_irr] - log_factorial[n_rel] - log_factorial[n_irr])[block]
        )
        yield block, i, j, np.exp(log_weight)


def rank_by(
    scores: FloatArray,
    offsets: IntArray,
    *,
    depth: int | None = None,
    prefer: FloatArray | None = None,
    n_jobs: int | None = 1,
) -> tuple[IntArray, IntArray]:
    """Rank the documents of each query by score, descending, down to a depth.

    Returns the positions of the ranked documents and the offsets of the lists. Equal scores are ordered by ``prefer``,
    descending, if it is given, and otherwise stay in input order.

    >>> order, offsets = rank_by(np.array([0.1, 0.9, 0.5]), np.array([0, 3]), depth=2)
    >>> order.tolist(), offsets.tolist()
    ([1, 2], [0, 2])
    """
    from marginrank.measures.ranking_kernel import rank_lists  # noqa: PLC0415

    sizes = np.diff(offsets) if depth is None else np.minimum(np.diff(offsets), depth)
    out_offsets = offsets_from_sizes(sizes)
    order = np.empty(out_offsets[-1], dtype=np.int64)
    preference = _NO_PREFERENCE if prefer is None else prefer

    def work(first: int, end: int) -> None:
        rank_lists(scores, preference, offsets, out_offsets, order, first, end)

    for_chunks(work, offsets, n_jobs)
    return order, out_offsets


def discounted_sums(gains: FloatArray, offsets: IntArray, discounts: FloatArray) -> FloatArray:
    """Sum discount times gain down each list.

    >>> discounted_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]), np.array([1.0, 0.5])).tolist()
    [2.0, 4.0]
    """
    from marginrank.measures.ranking_kernel import sum_discounted  # noqa: PLC0415

    out = np.empty(len(offsets) - 1)
    sum_discounted(gains, offsets, discounts, out)
    return out
