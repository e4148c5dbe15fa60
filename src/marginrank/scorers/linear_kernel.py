"""Rows times weights, and slopes times rows, in float64 whatever the features are."""

from __future__ import annotations

import numpy as np

from marginrank.kernels import njit

# Sums may be taken in any order, which lets them be vectorised; the order is fixed when the code is compiled.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, allocates=False, fastmath=_ANY_ORDER)
def score_rows(X, w, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write X·w for the rows from ``start`` to ``stop``."""
    for row in range(start, stop):
        total = 0.0
        for column in range(X.shape[1]):
            total += np.float64(X[row, column]) * w[column]
        scores[row] = total


@njit(nogil=True, cache=True, allocates=False, fastmath=_ANY_ORDER)
def add_rows(X, slopes, out, start, stop):  # type: ignore[no-untyped-def]
    """Add Σ slope·row over the rows from ``start`` to ``stop``, four rows at a time."""
    width = X.shape[1]
    full = start + (stop - start) // 4 * 4
    for row in range(start, full, 4):
        a, b, c, d = slopes[row], slopes[row + 1], slopes[row + 2], slopes[row + 3]
        if a == 0.0 and b == 0.0 and c == 0.0 and d == 0.0:
            continue
        for column in range(width):
            out[column] += (
                a * np.float64(X[row, column])
                + b * np.float64(X[row + 1, column])
                + c * np.float64(X[row + 2, column])
                + d * np.float64(X[row + 3, column])
            )
    for row in range(full, stop):
        for column in range(width):
            out[column] += slopes[row] * np.float64(X[row, column])


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
