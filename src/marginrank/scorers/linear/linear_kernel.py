"""Rows times weights, and gradients times rows, in float64 whatever the features are.

Features of float16 are passed as uint16, since Numba has no float16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from marginrank.runtime.kernels import njit

# Sums may be reordered, which lets the compiler vectorize them; the order is fixed when the code is compiled.
_ANY_ORDER = {"reassoc", "contract", "nsz"}
#: Moved to the positions of a float32, the bits of a finite float16 are that number, up to a power of two.
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
def score_rows(X, w, scores):  # type: ignore[no-untyped-def]
    """Write X·w."""
    for row in range(len(X)):
        total = 0.0
        for column in range(X.shape[1]):
            total += _number(X[row, column]) * w[column]
        scores[row] = total


@njit(fastmath=_ANY_ORDER)
def add_rows(X, gradient, out):  # type: ignore[no-untyped-def]
    """Add Σ gradient·row, four rows at a time."""
    full = len(X) // 4 * 4
    for row in range(0, full, 4):
        a, b, c, d = gradient[row], gradient[row + 1], gradient[row + 2], gradient[row + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for column in range(X.shape[1]):
                first = a * _number(X[row, column]) + b * _number(X[row + 1, column])
                second = c * _number(X[row + 2, column]) + d * _number(X[row + 3, column])
                out[column] += first + second
    for row in range(full, len(X)):
        for column in range(X.shape[1]):
            out[column] += gradient[row] * _number(X[row, column])


@njit()
def score_sparse_rows(data, indices, indptr, w, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write X·w for the rows from ``start`` to ``stop`` of a CSR matrix."""
    for row in range(start, stop):
        total = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            total += np.float64(data[at]) * w[indices[at]]
        scores[row] = total


@njit()
def add_sparse_rows(data, indices, indptr, gradient, out, start, stop):  # type: ignore[no-untyped-def]
    """Add Σ gradient·row over the rows from ``start`` to ``stop`` of a CSR matrix."""
    for row in range(start, stop):
        if gradient[row] != 0.0:
            for at in range(indptr[row], indptr[row + 1]):
                out[indices[at]] += gradient[row] * np.float64(data[at])


@njit()
def add_products(X, origin, weights, scores):  # type: ignore[no-untyped-def]
    """Write Σ (x − origin)·weight of each row in the order of `marginrank.scorers.terms.weighted_sums`.

    Four rows at a time: their additions do not wait for each other, and products are vectorized.
    """
    n, n_features = X.shape
    full = n // 4 * 4
    products = np.empty((4, n_features))
    for first in range(0, full, 4):
        for row in range(4):
            for feature in range(n_features):
                products[row, feature] = (np.float64(X[first + row, feature]) - origin[feature]) * weights[feature]
        a = b = c = d = 0.0
        for feature in range(n_features):
            a += products[0, feature]
            b += products[1, feature]
            c += products[2, feature]
            d += products[3, feature]
        scores[first], scores[first + 1], scores[first + 2], scores[first + 3] = a, b, c, d
    for row in range(full, n):
        total = 0.0
        for feature in range(n_features):
            total += (np.float64(X[row, feature]) - origin[feature]) * weights[feature]
        scores[row] = total
