"""Sorting from an order that is often nearly right."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles import sorting_kernel
from marginrank.runtime.kernels import njit


@njit(cache=False)
def sort(keys, documents, levels, buffers):
    sorting_kernel._sort(keys, documents, levels, buffers)


def test_any_order_is_sorted_by_score_then_level_then_number():
    rng = np.random.default_rng(0)
    for _ in range(500):
        n = int(rng.integers(1, 200))
        scores = rng.integers(0, rng.integers(1, 400), n).astype(float)
        levels = rng.integers(0, 3, n)
        expected = np.lexsort((np.arange(n), -levels, -scores))
        documents, unsorted = expected.copy(), int(rng.integers(n + 1))
        documents[n - unsorted :] = rng.permutation(documents[n - unsorted :])
        keys = scores[documents]
        sort(keys, documents, levels, (np.empty(n), np.empty(n), np.empty(n, np.int64)))
        np.testing.assert_array_equal(documents, expected)
        np.testing.assert_array_equal(keys, scores[expected])
