"""How many parts a risk is given in."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from marginrank.scorers.base import PreparedPartitions, PreparedScorer
from marginrank.training.risk import count_parts

SIGNS = np.array([1])


@pytest.mark.parametrize(
    ("n_bytes", "n_parameters", "signs", "n_parts"),
    [
        (200_000, 46, None, 32),  # 0.6
        (2_000_000, 46, None, 32),  # 2,000,000 / (150 · 46²) = 6.3
        (36_800_000, 46, None, 115),  # 115.9
        (652_800_000, 136, None, 128),  # 235.3
        (652_800_000, 136, SIGNS, 16),
        (10_000_000_000, 1000, None, 32),
        (10_000_000_000, 1000, SIGNS, 16),
        (36_800_000, 20_000, None, 20),  # 2²⁶ / (20 · 8 · 20,000) = 20.97
    ],
)
def test_parts_by_hand(n_bytes, n_parameters, signs, n_parts):
    scorer = Mock(spec=PreparedScorer, n_bytes=n_bytes, n_parameters=n_parameters, signs=signs, gpu_rows=None)
    scorer.queries = Mock(n_documents=10**6)
    assert count_parts(scorer) == n_parts


def test_rows_on_a_device_or_in_partitions_keep_to_few_parts():
    known = {"n_bytes": 652_800_000, "n_parameters": 136, "signs": None}
    assert count_parts(Mock(spec=PreparedScorer, rows=object(), **known)) == 32
    assert count_parts(Mock(spec=PreparedPartitions, **known)) == 32
