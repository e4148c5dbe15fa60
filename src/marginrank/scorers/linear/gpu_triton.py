"""Products of features and weights in Triton: features in float32 or float16 as they are, sums in float64."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def score_rows(X, weights, scores, n, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write X·w for a tile of rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        tile = tl.load(X + row[:, None] * d + column[None, :], mask=inside, other=0.0).to(tl.float64)
        total += tile * tl.load(weights + column, mask=column < d, other=0.0)[None, :]
    tl.store(scores + row, tl.sum(total, axis=1), mask=row < n)


@triton.jit
def add_rows(X, slopes, bounds, sums, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write Σ slope·row over a run of rows, for some of the columns."""
    run = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    end = tl.load(bounds + run + 1)
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for first in range(tl.load(bounds + run), end, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < end)[:, None] & (column < d)[None, :]
        tile = tl.load(X + row[:, None] * d + column[None, :], mask=inside, other=0.0).to(tl.float64)
        total += tile * tl.load(slopes + row, mask=row < end, other=0.0)[:, None]
    tl.store(sums + run * d + column, tl.sum(total, axis=0), mask=column < d)
