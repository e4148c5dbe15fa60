"""Curves of features in Triton: rows are looked up in tables, and their slopes are summed by cell."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def score_places(positions, firsts, values, ways, scores, n, n_features, BLOCK: tl.constexpr):
    """Write the sum over features of a value and the way to the next one, for a tile of rows."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for feature in range(n_features):
        first = tl.load(firsts + feature)
        position = tl.load(positions + tl.cast(feature, tl.int64) * n + row, mask=row < n, other=0)
        cell = first + ((position >> 24) & 0xFF)
        part = (position & 0xFFFFFF).to(tl.float64)
        total += tl.load(values + cell) + part * tl.load(ways + cell)
    tl.store(scores + row, total, mask=row < n)


@triton.jit
def add_places(order, fractions, slopes, bounds, sums, moved, BLOCK: tl.constexpr):
    """Sum the slopes of the rows of one cell, and their slopes times how far they are on the way to the next."""
    cell = tl.program_id(0).to(tl.int64)
    end = tl.load(bounds + cell + 1)
    total, far = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64)
    for first in range(tl.load(bounds + cell), end, BLOCK):
        at = first + tl.arange(0, BLOCK)
        row = tl.load(order + at, mask=at < end, other=0)
        slope = tl.load(slopes + row, mask=at < end, other=0.0)
        total += slope
        far += slope * tl.load(fractions + at, mask=at < end, other=0).to(tl.float64)
    tl.store(sums + cell, tl.sum(total, 0))
    tl.store(moved + cell, tl.sum(far, 0))
