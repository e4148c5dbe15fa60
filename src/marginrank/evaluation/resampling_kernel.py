"""Sums over resampled queries."""

from __future__ import annotations

from marginrank.runtime.kernels import njit

# Sums may be taken in any order, which lets them be vectorized; the order is fixed when the code is compiled.
_ANY_ORDER = {"reassoc", "contract", "nsz"}
#: Queries at a time, so that a piece of every row and column stays in the fastest cache.
TILE = 1024


@njit()
def count_draws(draws, counts):  # type: ignore[no-untyped-def]
    """Add up, for each row, how often each query was drawn."""
    for row in range(draws.shape[0]):
        for at in range(draws.shape[1]):
            counts[row, draws[row, at]] += 1


@njit(fastmath=_ANY_ORDER)
def _dot(count, column):  # type: ignore[no-untyped-def]
    total = 0.0
    for at in range(len(count)):
        total += count[at] * column[at]
    return total


@njit()
def weighted_sums(counts, columns, sums):  # type: ignore[no-untyped-def]
    """Sum up the columns, each entry as often as a row of counts says; no sum depends on which others there are."""
    n = columns.shape[1]
    sums[:, :] = 0.0
    for first in range(0, n, TILE):
        end = min(first + TILE, n)
        for row in range(counts.shape[0]):
            for column in range(columns.shape[0]):
                sums[row, column] += _dot(counts[row, first:end], columns[column, first:end])
