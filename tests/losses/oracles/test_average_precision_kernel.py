"""The best place of a document, against looking at all of them."""

import numpy as np
import pytest

from marginrank.losses import StructuredLoss
from marginrank.losses.oracles.average_precision_kernel import _best_place


def _drawn(rng, n):
    # Whole numbers, so that there are ties, and nothing is rounded.
    tables, sums = (rng.integers(-3, 4, (2, n + 16)).astype(float) for _ in range(2))
    return tables, sums, float(rng.integers(-2, 3)), float(rng.integers(-2, 3))


def test_it_is_the_last_of_the_best():
    rng = np.random.default_rng(0)
    tied = 0
    for _ in range(2000):
        n = int(rng.integers(1, 40))
        tables, sums, price, rise = _drawn(rng, n)
        passed = int(rng.integers(0, n))
        first, last = np.sort(rng.integers(0, n - passed, 2)).tolist()
        tables[:, last + 1 :] = 1e9  # must not count
        values = [
            tables[0, i] * sums[0, i + passed] - rise * sums[1, i + passed] + tables[1, i] - price * i
            for i in range(first, last + 1)
        ]
        expected = max(i for i in range(first, last + 1) if values[i - first] == max(values))
        tied += values.count(max(values)) > 1
        assert _best_place(tables, sums, price, rise, first, last, passed) == expected
    assert tied > 100


def test_one_extreme_score_does_not_drown_the_others():
    rng = np.random.default_rng(5)
    scores, grades = rng.standard_normal(200) * 0.05, (rng.random(200) < 0.4).astype(int)
    grades[0] = 1
    loss = StructuredLoss("ap").prepare(grades)
    found = []
    for extreme in (1e2, 1e6, 1e10, 1e13, 1e15, 1e30):
        scores[0] = extreme
        found.append(loss(scores)[0][0])
    assert found == pytest.approx([found[0]] * len(found), rel=1e-9)
