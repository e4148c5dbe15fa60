"""Moments of columns, and columns scaled by them."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit


@njit()
def add_moments(X, origin, counts, sums, squares, sizes):  # type: ignore[no-untyped-def]
    """Add the count, sum, sum of squares and sum of magnitudes of ``X − origin``, by column, without NaN."""
    for row in range(len(X)):
        for column in range(X.shape[1]):
            value = np.float64(X[row, column])
            present = value == value  # noqa: PLR0124
            shifted = value - origin[column] if present else 0.0
            counts[column] += 1.0 if present else 0.0
            sums[column] += shifted
            squares[column] += shifted * shifted
            sizes[column] += abs(shifted)


@njit()
def standardize_rows(X, mean, scale, out):  # type: ignore[no-untyped-def]
    """Write (X − mean) / scale, and 0 if the scale is 0; NaN stays NaN."""
    for row in range(len(X)):
        for column in range(X.shape[1]):
            centered = np.float64(X[row, column]) - mean[column]
            varies = scale[column] > 0.0
            out[row, column] = centered / scale[column] if varies else (0.0 if centered == centered else np.nan)  # noqa: PLR0124
