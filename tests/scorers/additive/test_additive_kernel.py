"""Kernels of curves made of lines, against the formula document by document."""

import numpy as np
import pytest

from marginrank.scorers.additive.additive_kernel import add_position_columns, score_position_columns

SIZES = np.array([3, 256, 2])
FIRSTS = np.array([0, 3, 259])


def _drawn(n):
    rng = np.random.default_rng(n)
    cells = rng.integers(0, SIZES[:, None] - 1, (3, n))
    parts = rng.integers(0, 1 << 24, (3, n))
    cells[1, ::3], parts[1, ::3] = 255, 0  # the last cell has no next
    return ((cells << 24) | parts).astype(np.uint32), cells, parts / 2.0**24


def _expected(table, cells, parts, row):
    total = 0.0
    for feature in range(3):
        at = FIRSTS[feature] + cells[feature, row]
        rise = table[at + 1] - table[at] if cells[feature, row] + 1 < SIZES[feature] else 0.0
        total += table[at] + parts[feature, row] * rise
    return total


@pytest.mark.parametrize("n", [1, 3, 4, 5, 15, 16, 17, 39, 64])
def test_scores_of_any_number_of_documents(n):
    positions, cells, parts = _drawn(n + 2)
    table = np.random.default_rng(1).standard_normal(262)
    scores = np.full(n + 2, np.nan)
    score_position_columns(positions, FIRSTS, SIZES, table, scores, 1, n + 1)
    assert np.isnan(scores[[0, -1]]).all()
    assert scores[1:-1] == pytest.approx([_expected(table, cells, parts, row) for row in range(1, n + 1)], rel=1e-14)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 15, 16, 17, 39, 64])
def test_slopes_go_back_to_the_cells_that_were_scored(n):
    positions, _, _ = _drawn(n + 2)
    slopes = np.random.default_rng(2).standard_normal(n + 2)
    cells = np.ones(262)
    add_position_columns(positions, FIRSTS, SIZES, slopes, cells, 1, n + 1)
    for cell in range(261):
        # What a cell gets is what the scores gain where its value rises by one.
        scores = np.zeros(n + 2)
        score_position_columns(positions, FIRSTS, SIZES, np.eye(262)[cell], scores, 1, n + 1)
        assert cells[cell] == pytest.approx(1.0 + scores[1:-1] @ slopes[1:-1], rel=1e-12, abs=1e-12)


def test_equal_documents_have_equal_scores_wherever_they_stand():
    position = np.array([[123456789], [3000000000], [7654321]], dtype=np.uint32)
    table, scores = np.random.default_rng(3).standard_normal(262), np.zeros(53)
    score_position_columns(np.repeat(position, 53, axis=1), FIRSTS, SIZES, table, scores, 0, 53)
    assert len(set(scores.tolist())) == 1
