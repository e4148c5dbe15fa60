"""Rows times weights, and gradients times rows, in float64 whatever the features are.

Float16 comes as whole numbers of 16 bits, since Numba has no float16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from marginrank.runtime.kernels import njit

# Sums may be taken in any order, which lets them be vectorised; the order is fixed when the code is compiled.
_ANY_ORDER = {"reassoc", "contract", "nsz"}
#: The bits of a finite float16, moved to where a float32 has them, are that number but for the unit of the exponent.
_SIGN, _REST, _UNIT = np.uint32(0x8000), np.uint32(0x7FFF), np.float32(2.0**112)
_SIGN_MOVES, _REST_MOVES = np.uint32(16), np.uint32(13)


def _number(feature: Any) -> Any:
    """Return a feature in float64."""
    return np.float64(feature.view(np.float16) if feature.dtype == np.uint16 else feature)


@overload(_number)
def _compiled_number(feature: Any) -> Any:
    return _from_bits if feature == types.uint16 else _from_float


def _from_float(feature: Any) -> Any:
    return np.float64(feature)


def _from_bits(feature: Any) -> Any:
    bits = np.uint32(feature)
    moved = np.uint32((bits & _SIGN) << _SIGN_MOVES) | np.uint32((bits & _REST) << _REST_MOVES)
    return np.float64(np.uint32(moved).view(np.float32) * _UNIT)


@njit(fastmath=_ANY_ORDER)
def score_rows(X, w, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write X·w for the rows from ``start`` to ``stop``."""
    for row in range(start, stop):
        total = 0.0
        for column in range(X.shape[1]):
            total += _number(X[row, column]) * w[column]
        scores[row] = total


@njit(fastmath=_ANY_ORDER)
def add_rows(X, slopes, out, start, stop):  # type: ignore[no-untyped-def]
    """Add Σ slope·row over the rows from ``start`` to ``stop``, four rows at a time."""
    full = start + (stop - start) // 4 * 4
    for row in range(start, full, 4):
        a, b, c, d = slopes[row], slopes[row + 1], slopes[row + 2], slopes[row + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for column in range(X.shape[1]):
                first = a * _number(X[row, column]) + b * _number(X[row + 1, column])
                second = c * _number(X[row + 2, column]) + d * _number(X[row + 3, column])
                out[column] += first + second
    for row in range(full, stop):
        for column in range(X.shape[1]):
            out[column] += slopes[row] * _number(X[row, column])


@njit()
def score_sparse_rows(data, indices, indptr, w, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write X·w for the rows from ``start`` to ``stop`` of a CSR matrix."""
    for row in range(start, stop):
        total = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            total += np.float64(data[at]) * w[indices[at]]
        scores[row] = total


@njit()
def add_sparse_rows(data, indices, indptr, slopes, out, start, stop):  # type: ignore[no-untyped-def]
    """Add Σ slope·row over the rows from ``start`` to ``stop`` of a CSR matrix."""
    for row in range(start, stop):
        if slopes[row] != 0.0:
            for at in range(indptr[row], indptr[row + 1]):
                out[indices[at]] += slopes[row] * np.float64(data[at])
