"""The rules behind the verdicts; expected values are computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.verdicts import (
    Difference,
    against,
    agrees,
    beats,
    conjunction,
    differences,
    exact,
    falls,
    growth,
    in_all,
    largest,
    most_often,
    reaches,
    seldom_leads,
    unanimous,
    within,
)

AHEAD = Difference("ahead", 0.1, (0.02, 0.2), 1, 0.01)
BEHIND = Difference("behind", -0.1, (-0.2, -0.02), -1, 0.01)
#: The mean is positive and the ranks are negative.
TORN = Difference("torn", 0.1, (-0.02, 0.2), -1, 0.01)
NOISE = Difference("noise", 0.01, (-0.1, 0.1), 1, 0.6)
#: Only the interval of the mean says so: the test by ranks has p = 0.06.
BELOW = Difference("below", -0.1, (-0.2, -0.01), -1, 0.06)


def test_p_values_are_those_of_the_exact_test_after_holm():
    zero = np.zeros(6)
    rows = differences(
        {
            # All six signs agree: p = 2/2⁶. Ranks 1 to 6 with −1: the sums below 2 are 0 and 1, so p = 4/2⁶.
            "six": (np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), zero),
            "five": (np.array([-1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), zero),
            "none": (zero, zero),
        }
    )
    assert [row.p for row in rows] == pytest.approx([3 * 2 / 64, 2 * 4 / 64, 1.0])
    assert [row.mean for row in rows] == pytest.approx([21 / 6, 19 / 6, 0.0])
    assert [row.ranks for row in rows] == [1, 1, 0]


def test_the_sign_of_ranks_is_that_of_wilcoxon_and_not_of_the_mean():
    # Ranks of the sizes: 1.5 − 1.5 and −3, −4 against 5: 5 − 7 < 0, while the mean is (20 − 3 − 4) / 5.
    (row,) = differences({"d": (np.array([1.0, -1.0, -3.0, -4.0, 20.0]), np.zeros(5))})
    assert row.mean == pytest.approx(13 / 5)
    assert row.ranks == -1


def test_queries_without_a_value_and_differences_below_the_grid_do_not_count():
    a, b = np.array([0.5, np.nan, 0.5, 0.5]), np.array([0.4996, 0.1, 0.4, np.nan])
    (row,) = differences({"d": (a, b)}, grid=1e-3)
    assert row.mean == pytest.approx(0.05)
    assert (row.ranks, row.p) == (1, 1.0)


def test_intervals_of_a_claim_hold_together():
    values = np.random.default_rng(0).normal(0.1, 1.0, 50), np.zeros(50)
    (alone,), together = differences({"a": values}), differences(dict.fromkeys("abcde", values))
    # For nearly normal data 2.576 standard errors at 1 − 0.05/5 instead of 1.96.
    ratio = np.ptp(together[0].interval) / np.ptp(alone.interval)
    assert ratio == pytest.approx(2.576 / 1.96, rel=0.05)


def test_against_compares_one_with_all_others():
    values = {name: np.full(5, value) for name, value in (("a", 0.5), ("b", 0.25), ("c", 1.0))}
    assert [(row.label, row.mean) for row in against(values, "a")] == [("a − b", 0.25), ("a − c", -0.5)]
    assert [row.label for row in against(values, "a", ["c"])] == ["a − c"]


@pytest.mark.parametrize(
    ("rows", "by", "verdict"),
    [
        ([AHEAD], 0.0, "holds"),
        ([AHEAD, AHEAD], 0.2, "holds"),
        ([AHEAD], 0.21, "does not hold"),
        ([BEHIND], 0.0, "does not hold"),
        ([AHEAD, BEHIND], 0.0, "does not hold"),
        ([BELOW], 0.0, "does not hold"),
        ([TORN], 0.0, "undecided"),
        ([NOISE], 0.0, "undecided"),
        ([NOISE], 0.11, "does not hold"),
        ([AHEAD, NOISE], 0.0, "undecided"),
    ],
)
def test_beats(rows, by, verdict):
    assert beats(rows, by) == verdict


@pytest.mark.parametrize(
    ("rows", "share", "verdict"),
    [
        ([BEHIND, BEHIND], 0.0, "holds"),
        ([BEHIND, NOISE], 0.0, "undecided"),
        ([BEHIND, NOISE], 0.5, "holds"),
        ([AHEAD, NOISE, NOISE], 0.0, "does not hold"),
        ([AHEAD, NOISE, NOISE], 0.5, "undecided"),
        ([AHEAD, AHEAD, BEHIND], 0.5, "does not hold"),
        ([TORN], 0.0, "undecided"),
    ],
)
def test_seldom_leads(rows, share, verdict):
    assert seldom_leads(rows, share) == verdict


def test_most_often_needs_more_than_noise_to_be_refuted():
    assert most_often({"a": 3, "b": 2, "c": 2}, "a", [BEHIND]) == "holds"
    assert most_often({"a": 2, "b": 2}, "a", [BEHIND]) == "undecided"
    assert most_often({"a": 1, "b": 2}, "a", [NOISE]) == "undecided"
    assert most_often({"a": 1, "b": 2}, "a", [NOISE, BEHIND]) == "does not hold"


@pytest.mark.parametrize(
    ("intervals", "verdict"),
    [
        ([(-1.0, 1.0)], "holds"),
        ([(-1.0, 1.0), (0.5, 1.1)], "undecided"),
        ([(-1.0, 1.0), (1.1, 1.2)], "does not hold"),
        ([(-1.2, -1.1)], "does not hold"),
        ([(-2.0, 2.0)], "undecided"),
    ],
)
def test_within(intervals, verdict):
    assert within(intervals, -1.0, 1.0) == verdict


def test_equalities_and_ratios():
    assert [agrees(d, 0.01, 0.02) for d in (0.01, -0.01, 0.049, -0.05)] == [
        "holds",
        "holds",
        "undecided",
        "does not hold",
    ]
    assert [reaches(r, 100, fails_below=10) for r in (100, 99.9, 10, 9.9)] == [
        "holds", "undecided", "undecided", "does not hold",
    ]  # fmt: skip
    assert [falls(v) for v in ([2, 1], [2, 2], [3, 1, 2], [3, 2, 2])] == [
        "holds", "does not hold", "undecided", "undecided",
    ]  # fmt: skip
    assert [exact(True), exact(False)] == ["holds", "does not hold"]
    assert [in_all(c) for c in ([True], [False], [True, False])] == ["holds", "does not hold", "undecided"]


def test_parts_all_have_to_hold_and_readings_have_to_agree():
    assert conjunction(["holds", "holds"]) == "holds"
    assert conjunction(["holds", "does not hold", "undecided"]) == "does not hold"
    assert unanimous(["does not hold", "does not hold"]) == "does not hold"
    assert unanimous(["holds", "does not hold"]) == "undecided"


def test_growth_is_a_slope_with_students_interval():
    # log2: sizes 0, 1, 2 and times 0, 1, 3. Slope 3/2, residuals ⅙, −⅓, ⅙; s.e. √(⅙/1/2), t(1 degree, 97.5 %) = 12.706.
    power, interval = growth([1, 2, 4], [1, 2, 8])
    half = 12.7062 * np.sqrt(1 / 6 / 2)
    assert power == pytest.approx(1.5)
    assert interval == pytest.approx((1.5 - half, 1.5 + half), rel=1e-4)


def test_evidence_has_the_largest_and_all_that_contradict():
    rows = [Difference(f"row {n}", 0.5 - 0.1 * n, (0.0, 0.6), 1, 0.01) for n in range(4)]
    contrary = Difference("contrary", -0.05, (-0.08, -0.02), -1, 0.01)
    text = largest([*rows, contrary], most=2)
    assert text == (
        "row 0 +0.5000 [+0.0000, +0.6000], p = 0.0100; row 1 +0.4000 [+0.0000, +0.6000], p = 0.0100; "
        "contrary -0.0500 [-0.0800, -0.0200], p = 0.0100; and 2 smaller"
    )
