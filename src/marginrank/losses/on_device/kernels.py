"""Kernels in Triton. A program works on a tile of documents of one query, and meets the other documents in steps.

Lists are short, and a GPU compares all pairs of a list sooner than it sorts it. Sums run in a fixed order, so that the
same scores always give the same numbers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def hinges(
    values, levels, offsets, queries, starts, margins, scales, direction, xi, slopes,
    SQUARED: tl.constexpr, CURVE: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Sum the hinges of all pairs of different level, and slopes or, with CURVE, products with the Hessian."""
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin, end = tl.load(offsets + query), tl.load(offsets + query + 1)
    margin, scale = tl.load(margins + query), tl.load(scales + query)
    i = tl.load(starts + tile) + tl.arange(0, BLOCK)
    own = tl.load(values + i, mask=i < end, other=0.0)[:, None]
    level = tl.load(levels + i, mask=i < end, other=0)[:, None]
    total, slope = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64)
    if CURVE:
        move = tl.load(direction + i, mask=i < end, other=0.0)[:, None]
    for first in range(begin, end, STEP):
        j = first + tl.arange(0, STEP)
        other = tl.load(values + j, mask=j < end, other=0.0)[None, :]
        other_level = tl.load(levels + j, mask=j < end, other=0)[None, :]
        counted = (i < end)[:, None] & (j < end)[None, :]
        better, worse = counted & (level < other_level), counted & (level > other_level)
        short = margin - tl.where(better, own - other, other - own)
        inside = (better | worse) & (short > 0.0)
        if CURVE:
            other_move = tl.load(direction + j, mask=j < end, other=0.0)[None, :]
            slope += tl.sum(tl.where(inside, 2.0 * (move - other_move), 0.0), axis=1)
        elif SQUARED:
            slope += tl.sum(tl.where(inside, tl.where(better, -2.0 * short, 2.0 * short), 0.0), axis=1)
            total += tl.sum(tl.where(inside & better, short * short, 0.0), axis=1)
        else:
            slope += tl.sum(tl.where(inside, tl.where(better, -1.0, 1.0), 0.0), axis=1)
            total += tl.sum(tl.where(inside & better, short, 0.0), axis=1)
    tl.store(slopes + i, scale * slope, mask=i < end)
    if not CURVE:
        tl.store(xi + i, scale * total, mask=i < end)


@triton.jit
def sort_levels(
    values, levels, offsets, firsts, queries, starts, sorted_values, documents, predicted, by_score,
    RANKS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Sort documents inside their levels: each comes after as many as score more, or the same and stand before it.

    With RANKS, sort all documents of a query too. There, of equal scores, the worse level comes first.
    """
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin, end = tl.load(offsets + query), tl.load(offsets + query + 1)
    i = tl.load(starts + tile) + tl.arange(0, BLOCK)
    own, level = tl.load(values + i, mask=i < end, other=0.0), tl.load(levels + i, mask=i < end, other=0)
    place, rank = tl.load(firsts + i, mask=i < end, other=0), tl.zeros([BLOCK], tl.int64)
    for first in range(begin, end, STEP):
        j = first + tl.arange(0, STEP)
        other = tl.load(values + j, mask=j < end, other=0.0)[None, :]
        other_level = tl.load(levels + j, mask=j < end, other=-1)[None, :]
        same = (other_level == level[:, None]) & (j < end)[None, :]
        before = (other > own[:, None]) | ((other == own[:, None]) & (j[None, :] < i[:, None]))
        place += tl.sum(tl.where(same & before, 1, 0), axis=1)
        if RANKS:
            worse = (other_level > level[:, None]) & (other == own[:, None])
            ahead = (other > own[:, None]) | worse | (same & before)
            rank += tl.sum(tl.where(ahead & (j < end)[None, :], 1, 0), axis=1)
    tl.store(sorted_values + place, own, mask=i < end)
    tl.store(documents + place, i, mask=i < end)
    if RANKS:
        tl.store(predicted + place, rank, mask=i < end)
        tl.store(by_score + begin + rank, own, mask=i < end)


@triton.jit
def place_irrelevant(
    values, offsets, ends, queries, starts, shares, discounts, scales, before, slopes, terms, BLOCK: tl.constexpr
):
    """Place each irrelevant document where it pays most: try all places, from the last relevant document upwards."""
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin, end, end_relevant = tl.load(offsets + query), tl.load(offsets + query + 1), tl.load(ends + query)
    place = tl.load(starts + tile) + tl.arange(0, BLOCK)
    j, own = place - end_relevant, tl.load(values + place, mask=place < end, other=0.0)
    pair = 2.0 * tl.load(scales + query)
    n_relevant = end_relevant - begin
    best = tl.zeros([BLOCK], tl.int64) + n_relevant
    value, most = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64)
    for back in range(n_relevant):
        i = n_relevant - 1 - back
        lost = tl.load(discounts + i + j, mask=place < end, other=0.0)
        lost -= tl.load(discounts + i + j + 1, mask=place < end, other=0.0)
        value += tl.load(shares + begin + i) * lost - pair * (tl.load(values + begin + i) - own)
        best = tl.where(value > most, i, best)
        most = tl.maximum(value, most)
    slope = pair * (n_relevant - best).to(tl.float64)
    tl.store(before + place, best, mask=place < end)
    tl.store(slopes + place, slope, mask=place < end)
    tl.store(terms + place, slope * own, mask=place < end)


@triton.jit
def place_relevant(
    values, offsets, ends, queries, starts, shares, discounts, scales, before, slopes, terms,
    BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Count the irrelevant documents before each relevant one; add up what that costs."""
    tile = tl.program_id(0)
    query = tl.load(queries + tile)
    begin, end, end_relevant = tl.load(offsets + query), tl.load(offsets + query + 1), tl.load(ends + query)
    place = tl.load(starts + tile) + tl.arange(0, BLOCK)
    i, relevant = place - begin, place < end_relevant
    own, share = tl.load(values + place, mask=relevant, other=0.0), tl.load(shares + place, mask=relevant, other=0.0)
    passed = tl.zeros([BLOCK], tl.int64)
    for first in range(end_relevant, end, STEP):
        j = first + tl.arange(0, STEP)
        others = tl.load(before + j, mask=j < end, other=0)[None, :]
        passed += tl.sum(tl.where((j < end)[None, :] & (others <= i[:, None]), 1, 0), axis=1)
    slope = -2.0 * tl.load(scales + query) * passed.to(tl.float64)
    kept = tl.load(discounts + i, mask=relevant, other=0.0)
    kept -= tl.load(discounts + i + passed, mask=relevant, other=0.0)
    tl.store(slopes + place, slope, mask=relevant)
    tl.store(terms + place, share * kept + slope * own, mask=relevant)
