"""Sums of weighted features, added in the order of the features."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit


@njit()
def add_products(X, origin, weights, scores):  # type: ignore[no-untyped-def]
    """Write Σ (x − origin)·weight of each row; `marginrank.scorers.terms.weighted_sums` in compiled code.

    Four rows at a time: their additions do not wait for each other, and products take vector instructions.
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
