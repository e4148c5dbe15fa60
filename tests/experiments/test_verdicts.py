"""The rules behind the verdicts; expected values are computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.verdicts import (
    Difference,
    about,
    against,
    alike,
    at_zero,
    beats,
    conjunction,
    differences,
    exact,
    falls,
    growth,
    in_all,
    largest,
    mark_untestable,
    most_often,
    rate,
    rate_interval,
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
#: Only the test says so: the interval of the mean contains 0.
WIDE = Difference("wide", 0.1, (-0.01, 0.2), 1, 0.01)
#: One of the systems stayed at w = 0.
AT_ZERO = replace(AHEAD, testable=False)


def negated(row):
    low, high = row.interval
    return replace(row, mean=-row.mean, interval=(-high, -low), ranks=-row.ranks)


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
    ("rows", "verdict"),
    [
        ([AHEAD], "holds"),
        ([AHEAD, AHEAD], "holds"),
        ([BEHIND], "does not hold"),
        ([AHEAD, BEHIND], "does not hold"),
        ([AT_ZERO, BEHIND], "does not hold"),
        ([BELOW], "undecided"),
        ([WIDE], "undecided"),
        ([TORN], "undecided"),
        ([NOISE], "undecided"),
        ([AHEAD, NOISE], "undecided"),
        ([AT_ZERO], "not testable"),
        ([AHEAD, AT_ZERO], "not testable"),
    ],
)
def test_beats(rows, verdict):
    assert beats(rows) == verdict


@pytest.mark.parametrize("row", [AHEAD, BEHIND, TORN, NOISE, BELOW, WIDE, AT_ZERO], ids=lambda row: row.label)
def test_the_rule_is_the_same_in_both_directions(row):
    opposite = {"holds": "does not hold", "does not hold": "holds"}
    verdict = beats([row])
    assert beats([negated(row)]) == opposite.get(verdict, verdict)


def test_no_significant_difference_needs_the_test_and_the_interval():
    assert alike([NOISE, negated(NOISE)]) == "holds"
    assert alike([NOISE, AHEAD]) == alike([BEHIND]) == "does not hold"
    # The interval alone, or the test alone, says that there is a difference.
    assert alike([NOISE, BELOW]) == alike([WIDE]) == alike([TORN]) == "undecided"
    assert alike([AT_ZERO, NOISE]) == "not testable"


def test_a_ranker_stayed_at_zero_if_it_did_in_most_folds():
    assert at_zero([1.0, 1.0, 0.9995, 0.5, 0.5])
    assert not at_zero([1.0, 1.0, 0.5, 0.5, 0.998])
    assert not at_zero([None] * 5)
    assert [row.testable for row in mark_untestable([AHEAD, BEHIND], [True, False])] == [False, True]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.011, 0.029), "holds"),
        ((0.009, 0.029), "undecided"),
        ((0.011, 0.031), "undecided"),
        ((-0.01, 0.015), "undecided"),
        ((0.001, 0.009), "does not hold"),  # a gain, and too small
        ((0.031, 0.05), "does not hold"),  # too large
        ((-0.01, 0.009), "does not hold"),
    ],
)
def test_about_two_per_cent_is_compared_from_both_sides(interval, verdict):
    assert about([Difference("", sum(interval) / 2, interval, 1, 0.01)], 0.02) == verdict


def test_rates_have_an_interval():
    # 0 of n: 1 − 0.025^(1/n) is 0.1157 for 30 and 0.0499 for 72; 72 splits are needed to exclude 5%.
    assert rate_interval(0, 30) == pytest.approx((0.0, 1 - 0.025 ** (1 / 30)))
    assert rate_interval(30, 30) == pytest.approx((0.025 ** (1 / 30), 1.0))
    assert [rate(0, n, most=0.05) for n in (30, 71, 72)] == ["undecided", "undecided", "holds"]
    assert rate(10, 30, most=0.05) == "does not hold"
    assert [rate(count, 63, least=0.5) for count in (60, 35, 10)] == ["holds", "undecided", "does not hold"]


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
        ([BELOW], 0.0, "undecided"),
        ([replace(BEHIND, testable=False)], 0.0, "not testable"),
        ([BEHIND, replace(BEHIND, testable=False)], 0.0, "not testable"),
        ([BEHIND, replace(BEHIND, testable=False)], 0.5, "holds"),
        ([NOISE, replace(BEHIND, testable=False)], 0.0, "undecided"),
        ([AHEAD, replace(BEHIND, testable=False)], 0.0, "does not hold"),
    ],
)
def test_seldom_leads(rows, share, verdict):
    assert seldom_leads(rows, share) == verdict


@pytest.mark.parametrize(
    ("count", "rows", "verdict"),
    [
        (3, [AHEAD, NOISE], "holds"),
        (3, [NOISE], "undecided"),
        (3, [AHEAD, BEHIND], "undecided"),
        (2, [AHEAD], "undecided"),
        (1, [AHEAD], "undecided"),
        (1, [NOISE], "undecided"),
        (1, [NOISE, BEHIND], "does not hold"),
        (1, [AHEAD, BEHIND], "undecided"),
        (0, [AT_ZERO], "not testable"),
    ],
)
def test_most_often_needs_more_than_noise_in_both_directions(count, rows, verdict):
    assert most_often({"a": count, "b": 2, "c": 2}, "a", rows) == verdict


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


def test_ratios_sequences_and_cases():
    assert [reaches(r, 100, fails_below=10) for r in (100, 99.9, 10, 9.9)] == [
        "holds", "undecided", "undecided", "does not hold",
    ]  # fmt: skip
    assert [falls(v) for v in ([2, 1], [2, 2], [3, 1, 2], [3, 2, 2], [1, 2, 3])] == [
        "holds", "does not hold", "undecided", "undecided", "does not hold",
    ]  # fmt: skip
    assert [exact(True), exact(False)] == ["holds", "does not hold"]
    assert [in_all(c) for c in ([True], [False], [True, False])] == ["holds", "does not hold", "undecided"]


def test_parts_all_have_to_hold_and_readings_have_to_agree():
    assert conjunction(["holds", "holds"]) == "holds"
    assert conjunction(["holds", "does not hold", "undecided"]) == "does not hold"
    assert conjunction(["holds", "undecided", "not testable"]) == "not testable"
    assert unanimous(["does not hold", "does not hold"]) == "does not hold"
    assert unanimous(["holds", "does not hold"]) == "undecided"


def test_growth_is_a_slope_with_students_interval():
    # log2: sizes 0, 1, 2 and times 0, 1, 3. Slope 3/2, residuals ⅙, −⅓, ⅙; s.e. √(⅙/1/2), t(1 degree, 97.5%) = 12.706.
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
