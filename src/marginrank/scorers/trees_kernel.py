"""Rows down trees."""

from __future__ import annotations

import numpy as np

from marginrank.kernels import njit


@njit(nogil=True, cache=True)
def add_trees(X, feature, threshold, left, right, roots, outputs, missing_left, theta, single, raw):  # type: ignore[no-untyped-def]
    """Add the leaf of each tree that a row of X comes to to the output of the tree."""
    for row in range(len(X)):
        for tree in range(len(roots)):
            node = roots[tree]
            while feature[node] >= 0:
                value = np.float64(X[row, feature[node]])
                if single:
                    value = np.float64(np.float32(value))
                goes_left = missing_left[node] if np.isnan(value) else value <= threshold[node]
                node = left[node] if goes_left else right[node]
            raw[row, outputs[tree]] += theta[left[node]]
