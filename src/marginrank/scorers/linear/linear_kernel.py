"""Rows times weights, and slopes times rows, in float64 whatever the features are."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit
from marginrank.scorers.linear.linear_simd import add_four_rows, add_row, row_product


@njit(nogil=True, cache=True, allocates=False)
def score_rows(X, w, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write X·w for the rows from ``start`` to ``stop``."""
    for row in range(start, stop):
        scores[row] = row_product(X, row, w)


@njit(nogil=True, cache=True, allocates=False)
def add_rows(X, slopes, out, start, stop):  # type: ignore[no-untyped-def]
    """Add Σ slope·row over the rows from ``start`` to ``stop``, four rows at a time."""
    full = start + (stop - start) // 4 * 4
    for row in range(start, full, 4):
        if slopes[row] != 0.0 or slopes[row + 1] != 0.0 or slopes[row + 2] != 0.0 or slopes[row + 3] != 0.0:
            add_four_rows(X, row, slopes, out)
    for row in range(full, stop):
        add_row(X, row, slopes, out)


@njit(nogil=True, cache=True, allocates=False)
def score_sparse_rows(data, indices, indptr, w, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write X·w for the rows from ``start`` to ``stop`` of a CSR matrix."""
    for row in range(start, stop):
        total = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            total += np.float64(data[at]) * w[indices[at]]
        scores[row] = total


@njit(nogil=True, cache=True, allocates=False)
def add_sparse_rows(data, indices, indptr, slopes, out, start, stop):  # type: ignore[no-untyped-def]
    """Add Σ slope·row over the rows from ``start`` to ``stop`` of a CSR matrix."""
    for row in range(start, stop):
        if slopes[row] != 0.0:
            for at in range(indptr[row], indptr[row + 1]):
                out[indices[at]] += slopes[row] * np.float64(data[at])
