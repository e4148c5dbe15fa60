"""The merge of sorted levels on lists too long to go through all rankings: against linear assignment."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment

from marginrank.losses.oracles.rank_sums import rank_differences
from marginrank.losses.structured import StructuredLoss

LENGTHS = (1, 4, 9, 10, 11, 30, 60)


def largest_sums(grades: np.ndarray, scores: np.ndarray, k: int, profile: np.ndarray, scale: float) -> float:
    """Return max_y [Δ(y) + a(y)·s] − a(y*)·s of NDCG@k, where y* puts equal grades in score order."""
    n, gains = len(grades), 2.0**grades - 1.0
    discounts = np.where(np.arange(n) < k, 1.0 / np.log2(np.arange(n) + 2.0), 0.0)
    ideal = np.sort(gains)[::-1] @ discounts
    value = scale * np.outer(scores, profile[:n]) - np.outer(gains, discounts) / ideal
    rows, columns = linear_sum_assignment(value, maximize=True)
    best_first = np.lexsort((-scores, -grades))
    return float(1.0 + value[rows, columns].sum() - scale * profile[:n] @ scores[best_first])


@pytest.mark.parametrize("kind", ["random", "ties", "equal", "by grade", "against grades"])
@pytest.mark.parametrize("size", [1e-3, 1e-1, 1.0, 10.0, 1e3])
def test_merge_is_as_good_as_assignment(size: float, kind: str) -> None:
    rng = np.random.default_rng(7)
    for n_levels in (2, 3, 5):
        grades = np.concatenate([rng.integers(0, n_levels, n) for n in LENGTHS]).astype(np.float64)
        noise = rng.standard_normal(len(grades))
        scores = size * {
            "random": noise,
            "ties": np.round(noise),
            "equal": np.zeros(len(grades)),
            "by grade": grades + 0.3 * noise,
            "against grades": -grades + 0.3 * noise,
        }[kind]  # fmt: skip
        offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
        for k in (1, 3, 10):
            loss = StructuredLoss(f"ndcg@{k}", "po").prepare(grades, offsets)
            xi, _ = loss(scores)
            for query, start in enumerate(offsets[:-1]):
                own = slice(start, offsets[query + 1])
                judged = grades[own]
                pairs = int((judged[:, None] > judged[None, :]).sum())
                if pairs:
                    best = largest_sums(judged, scores[own], k, -2.0 * np.arange(60), 1.0 / pairs)
                    assert_allclose(xi[query], best, rtol=1e-9, atol=1e-9)


def test_merge_under_dorm_is_as_good_as_assignment() -> None:
    rng = np.random.default_rng(8)
    for size in (1e-2, 0.3, 3.0, 100.0):
        grades, scores = rng.integers(0, 4, 40).astype(np.float64), size * rng.standard_normal(40)
        (xi,), slope = StructuredLoss("ndcg@5", "dorm", ideal="scores")(grades, scores)
        assert_allclose(xi, largest_sums(grades, scores, 5, 1.0 / np.sqrt(np.arange(1, 41)), 1.0), rtol=1e-9)
        assert_allclose(slope.sum(), 0.0, atol=1e-12)


def test_falls_of_a_convex_discount() -> None:
    # A falls by 1 a rank; D by 6, 3, 1 and then, behind the cutoff, by 3. From the first rank the ratios are 6/1, 9/2,
    # 10/3 and 13/4, from the second 3/1, 4/2 and 7/3, from the third 1/1 and 4/2.
    expected = [[4, 13, 1, 6, 0, 0], [2, 4, 1, 3, 1, 6], [1, 1, 2, 4, 1, 3], [1, 3, 1, 3, 1, 1]]
    assert rank_differences(np.array([0.0, -1, -2, -3, -4]), np.array([13.0, 7, 4, 3])).tolist() == expected
