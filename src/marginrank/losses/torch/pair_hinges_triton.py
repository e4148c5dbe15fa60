"""Kernels in Triton. A program works on a tile of documents of one query, and meets the other documents in steps.

Lists are short, and a GPU compares all pairs of a list sooner than it sorts it. Sums run in a fixed order, so that the
same scores always give the same numbers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl

#: More than any rank.
_MANY = tl.constexpr(2**31 - 1)


@triton.jit
def hinges(
    values, levels, offsets, queries, starts, margins, scales, direction, xi, slopes,
    SQUARED: tl.constexpr, CURVE: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Sum the hinges of all pairs of different level, and slopes or, with CURVE, products with the Hessian.

    Hinges that are not squared are counted, not summed: the slope of a document
    is the number of pairs inside the margin in which it is the worse one, less those in which it is the better one.
    """
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - begin).to(tl.int32)
    margin, scale = tl.load(margins + query), tl.load(scales + query)
    i = (tl.load(starts + tile) - begin).to(tl.int32) + tl.arange(0, BLOCK)
    own = tl.load(values + begin + i, mask=i < n, other=0.0)
    level = tl.load(levels + begin + i, mask=i < n, other=0)[:, None]
    as_better, as_worse = tl.zeros([BLOCK, STEP], tl.int32), tl.zeros([BLOCK, STEP], tl.int32)
    total, slope = tl.zeros([BLOCK, STEP], tl.float64), tl.zeros([BLOCK, STEP], tl.float64)
    if CURVE:
        move = tl.load(direction + begin + i, mask=i < n, other=0.0)[:, None]
    for first in tl.range(0, n, STEP, loop_unroll_factor=UNROLL):
        j = first + tl.arange(0, STEP)
        # No comparison with NaN holds, so that what is not there is not counted.
        ahead = own[:, None] - tl.load(values + begin + j, mask=j < n, other=float("nan"))[None, :]
        other_level = tl.load(levels + begin + j, mask=j < n, other=0)[None, :]
        better, worse = (level < other_level) & (ahead < margin), (level > other_level) & (-ahead < margin)
        if CURVE:
            moved = move - tl.load(direction + begin + j, mask=j < n, other=0.0)[None, :]
            slope += tl.where(better | worse, 2.0 * moved, 0.0)
        elif SQUARED:
            short = margin - tl.where(better, ahead, -ahead)
            slope += tl.where(better, -2.0 * short, tl.where(worse, 2.0 * short, 0.0))
            total += tl.where(better, short * short, 0.0)
        else:
            as_better += better.to(tl.int32)
            as_worse += worse.to(tl.int32)
    if CURVE or SQUARED:
        of_slope, of_total = tl.sum(slope, axis=1), tl.sum(total, axis=1)
    else:
        n_better = tl.sum(as_better, axis=1)
        of_slope = (tl.sum(as_worse, axis=1) - n_better).to(tl.float64)
        of_total = margin * n_better.to(tl.float64) + of_slope * own
    tl.store(slopes + begin + i, scale * of_slope, mask=i < n)
    if not CURVE:
        tl.store(xi + begin + i, scale * of_total, mask=i < n)


@triton.jit
def _count_before(
    values, levels, n, i, own, level,
    RANKS: tl.constexpr, TIES: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Count the documents of the level, and with RANKS of the query, that score more; with TIES, or stand before."""
    in_level, in_query = tl.zeros([BLOCK, STEP], tl.int32), tl.zeros([BLOCK, STEP], tl.int32)
    for first in tl.range(0, n, STEP, loop_unroll_factor=UNROLL):
        j = first + tl.arange(0, STEP)
        other = tl.load(values + j, mask=j < n, other=float("nan"))[None, :]
        other_level = tl.load(levels + j, mask=j < n, other=-1)
        before = other > own[:, None]
        if TIES:
            earlier = (j - n * other_level)[None, :] < (i - n * level)[:, None]
            before = before | ((other == own[:, None]) & earlier)
        in_level += (before & (other_level[None, :] == level[:, None])).to(tl.int32)
        if RANKS:
            in_query += before.to(tl.int32)
    return tl.sum(in_level, axis=1), tl.sum(in_query, axis=1)


@triton.jit
def sort_levels(
    values, levels, offsets, firsts, queries, starts, sorted_values, documents, positions, by_score, seats,
    RANKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Sort documents inside their levels: each comes after as many as score more, or the same and stand before it.

    With RANKS, sort all documents of a query too: ``positions`` are their ranks by score, and ``by_score`` and
    ``seats`` are scores and 2^WIDTH·(place inside the level) + level by rank. Of equal scores, the worse level
    comes first.
    """
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - begin).to(tl.int32)
    i = (tl.load(starts + tile) - begin).to(tl.int32) + tl.arange(0, BLOCK)
    own = tl.load(values + begin + i, mask=i < n, other=0.0)
    level = tl.load(levels + begin + i, mask=i < n, other=0)
    inside, rank = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32)
    if RANKS and n <= BLOCK:
        inside, rank = _count_before(
            values + begin, levels + begin, n, i, own, level, RANKS, False, BLOCK, STEP, UNROLL
        )
    # Ranks that leave out ties add up to less than those of a permutation, unless there are none.
    if 2 * tl.sum(tl.where(i < n, rank, 0), 0) != n * (n - 1):
        inside, rank = _count_before(values + begin, levels + begin, n, i, own, level, RANKS, True, BLOCK, STEP, UNROLL)
    place = tl.load(firsts + begin + i, mask=i < n, other=0) + inside
    tl.store(sorted_values + place, own, mask=i < n)
    tl.store(documents + place, begin + i, mask=i < n)
    if RANKS:
        tl.store(positions + place, rank, mask=i < n)
        tl.store(by_score + begin + rank, own, mask=i < n)
        tl.store(seats + begin + rank, (inside << WIDTH) + level, mask=i < n)


@triton.jit
def place_irrelevant(
    values, offsets, ends, queries, starts, shares, discounts, scales, documents, before, slopes, terms,
    BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Place each irrelevant document where it pays most: try all places, from the last relevant document upwards."""
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin, end, end_relevant = tl.load(offsets + query), tl.load(offsets + query + 1), tl.load(ends + query)
    place = tl.load(starts + tile) + tl.arange(0, BLOCK)
    j, own = (place - end_relevant).to(tl.int32), tl.load(values + place, mask=place < end, other=0.0)
    pair = 2.0 * tl.load(scales + query)
    n_relevant = (end_relevant - begin).to(tl.int32)
    best = tl.zeros([BLOCK], tl.int32) + n_relevant
    value, most = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64)
    after = tl.load(discounts + n_relevant + j, mask=place < end, other=0.0)
    for back in tl.range(0, n_relevant, loop_unroll_factor=UNROLL):
        i = n_relevant - 1 - back
        here = tl.load(discounts + i + j, mask=place < end, other=0.0)
        value += tl.load(shares + begin + i) * (here - after) - pair * (tl.load(values + begin + i) - own)
        best = tl.where(value > most, i, best)
        most = tl.maximum(value, most)
        after = here
    slope = pair * (n_relevant - best).to(tl.float64)
    tl.store(before + place, best, mask=place < end)
    tl.store(slopes + tl.load(documents + place, mask=place < end, other=0), slope, mask=place < end)
    tl.store(terms + place, slope * own, mask=place < end)


@triton.jit
def place_relevant(
    values, offsets, ends, queries, starts, shares, discounts, scales, documents, before, slopes, terms,
    BLOCK: tl.constexpr, STEP: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Count the irrelevant documents before each relevant one; add up what that costs."""
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin, end, end_relevant = tl.load(offsets + query), tl.load(offsets + query + 1), tl.load(ends + query)
    place = tl.load(starts + tile) + tl.arange(0, BLOCK)
    i, relevant = (place - begin).to(tl.int32), place < end_relevant
    own, share = tl.load(values + place, mask=relevant, other=0.0), tl.load(shares + place, mask=relevant, other=0.0)
    counted = tl.zeros([BLOCK, STEP], tl.int32)
    for first in tl.range(end_relevant, end, STEP, loop_unroll_factor=UNROLL):
        j = first + tl.arange(0, STEP)
        others = tl.load(before + j, mask=j < end, other=_MANY)[None, :]
        counted += (others <= i[:, None]).to(tl.int32)
    passed = tl.sum(counted, axis=1)
    slope = -2.0 * tl.load(scales + query) * passed.to(tl.float64)
    kept = tl.load(discounts + i, mask=relevant, other=0.0)
    kept -= tl.load(discounts + i + passed, mask=relevant, other=0.0)
    tl.store(slopes + tl.load(documents + place, mask=relevant, other=0), slope, mask=relevant)
    tl.store(terms + place, share * kept + slope * own, mask=relevant)
