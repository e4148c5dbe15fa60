"""Laws of paired comparisons: symmetry, calibration, and agreement with enumeration and with SciPy."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from marginrank.errors import DataError
from marginrank.evaluation.comparison import Comparison, PairedComparison, compare, mean_interval, summarize
from marginrank.evaluation.evaluation import Evaluation
from marginrank.evaluation.paired_tests import holm

TESTS = ("t", "wilcoxon", "randomization")
levels = st.integers(0, 10).map(lambda k: k / 10)
paired_values = st.lists(st.tuples(levels, levels), min_size=1, max_size=10)
few_p_values = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def row_of(a, b, **options):
    (row,) = compare({"a": a, "b": b}, **{"resamples": 999, **options}).rows
    return row


def p_values(row):
    return [getattr(row, f"p_{test}") for test in TESTS]


def two_systems(n, seed=0, shift=0.05):
    rng = np.random.default_rng(seed)
    b = rng.random(n)
    return b + rng.normal(shift, 0.2, n), b


def share_of_flips_as_extreme(a, b, weights=None):
    """The randomization p from its definition, in tenths so that sums are exact."""
    w = [1] * len(a) if weights is None else weights
    d = np.array([k * (round(10 * x) - round(10 * y)) for x, y, k in zip(a, b, w, strict=True)])
    sums = np.array(list(product((1, -1), repeat=len(d)))) @ d
    return np.mean(np.abs(sums) >= np.abs(d.sum()))


@pytest.mark.slow
@given(paired_values)
@settings(deadline=None)
def test_randomization_counts_the_flips_that_are_as_extreme(pairs):
    a, b = zip(*pairs, strict=True)
    assert row_of(a, b, resamples=1024).p_randomization == share_of_flips_as_extreme(a, b)


@given(paired_values, st.data())
@settings(deadline=None)
def test_weighted_randomization_flips_the_weighted_differences(pairs, data):
    a, b = zip(*pairs, strict=True)
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(a), max_size=len(a)))
    found = row_of(a, b, weights=weights, resamples=1024).p_randomization
    assert found == share_of_flips_as_extreme(a, b, weights)


@pytest.mark.parametrize(("shift", "seed"), [(0.0, 1), (0.08, 2), (0.1, 4)])
def test_random_flips_agree_with_all_flips(shift, seed):
    a, b = two_systems(14, seed, shift)
    exact = row_of(a, b, resamples=2**14).p_randomization
    drawn = row_of(a, b, resamples=2**14 - 1).p_randomization
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2**14) + 2 / 2**14)
    assert drawn != exact


def test_ties_do_not_count_towards_the_number_of_flips():
    ties = [0.5] * 30
    assert row_of([0.9, 0.8, 0.7, *ties], [0.6, 0.6, 0.6, *ties]).p_randomization == 0.25


def test_random_flips_never_give_zero():
    row = row_of(np.ones(60), np.zeros(60), resamples=199)
    assert row.p_randomization == 1 / 200


def test_blocks_of_flips_and_of_samples_cover_many_queries():
    a, b = two_systems(3000, shift=-0.002)
    row = row_of(a, b)
    assert row.p_randomization == pytest.approx(row.p_t, abs=0.05)
    assert 0.02 < row.p_t < 0.98
    error = stats.sem(a - b)
    assert row.interval == pytest.approx((row.difference - 1.96 * error, row.difference + 1.96 * error), abs=error / 4)


@pytest.mark.parametrize("n", [5, 40, 80])
def test_t_and_wilcoxon_agree_with_scipy(n):
    a, b = two_systems(n)
    row = row_of(a, b)
    assert row.p_t == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)
    assert row.p_wilcoxon == pytest.approx(stats.wilcoxon(a, b).pvalue, rel=1e-9)
    assert row.difference == pytest.approx(a.mean() - b.mean())


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13, 14, 30])
def test_wilcoxon_with_tied_ranks_agrees_with_scipy(n):
    """The p-value is exact up to 13 differences, and that of a normal distribution above."""
    rng = np.random.default_rng(n)
    d = rng.integers(1, 5, n) * rng.choice([-1, 1, 1], n)
    # SciPy takes seconds to try all signs of 13.
    expected = stats.wilcoxon(d).pvalue if n != 13 else share_of_signs_as_extreme(d)
    assert row_of(d.astype(float), np.zeros(n)).p_wilcoxon == pytest.approx(expected, rel=1e-12)


def share_of_signs_as_extreme(d):
    """The exact p-value of Wilcoxon's test, from its definition: by all signs that the ranks could have."""
    ranks = stats.rankdata(np.abs(d))
    sums = np.array(list(product([0, 1], repeat=len(d)))) @ ranks
    found = ranks[d > 0].sum()
    return min(1.0, 2 * min(np.mean(sums <= found), np.mean(sums >= found)))


def test_all_signs_give_the_p_value_of_scipy():
    d = np.random.default_rng(0).integers(1, 5, 9) * [-1, 1, 1, 1, -1, 1, 1, 1, 1]
    assert share_of_signs_as_extreme(d) == pytest.approx(stats.wilcoxon(d).pvalue, rel=1e-12)


def test_wilcoxon_ranks_roundoff_ties_together():
    a, b = [0.3, 0.2, 0.7, 0.9, 0.1], [0.2, 0.1, 0.6, 0.5, 0.4]
    assert len({x - y for x, y in zip(a[:3], b[:3], strict=True)}) > 1
    tenths = [1, 1, 1, 4, -3]
    assert row_of(a, b).p_wilcoxon == stats.wilcoxon(tenths).pvalue
    assert row_of(a, b, tie_tolerance=0).p_wilcoxon != stats.wilcoxon(tenths).pvalue


def test_a_difference_of_exactly_the_tolerance_is_a_tie():
    row = row_of([0.5, 1.0, 0.0], [0.25, 0.0, 0.25], tie_tolerance=0.25)
    assert (row.wins, row.losses, row.ties) == (1, 0, 2)


def test_wilcoxon_leaves_zeros_out():
    a, b = two_systems(20)
    padded = np.concatenate([a, np.full(30, 0.5)]), np.concatenate([b, np.full(30, 0.5)])
    assert row_of(*padded).p_wilcoxon == row_of(a, b).p_wilcoxon
    assert row_of(*padded).p_t != row_of(a, b).p_t


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("n", [8, 50])
def test_interval_is_scipys_bca(n, confidence):
    # Whole 64ths have exact sums, so that SciPy too sees which samples have the mean of all.
    d = np.rint(64 * np.random.default_rng(n).exponential(size=n) - 45) / 64
    reference = stats.bootstrap(
        (d,), np.mean, n_resamples=999, confidence_level=confidence, random_state=np.random.default_rng(5)
    ).confidence_interval
    row = row_of(d, np.zeros(n), confidence=confidence, random_state=5)
    assert row.interval == pytest.approx(tuple(reference), abs=1e-9)


def test_intervals_are_those_of_samples_drawn_by_hand():
    """From another seed, and the percentiles from the definition."""
    x = np.random.default_rng(3).exponential(size=400) - 1
    means = x[np.random.default_rng(4).integers(400, size=(20000, 400))].mean(axis=1)
    z0 = stats.norm.ppf(np.mean(means < x.mean()))
    e = x - x.mean()
    a = np.sum(e**3) / (6 * np.sum(e**2) ** 1.5)
    z = z0 + stats.norm.ppf([0.025, 0.975])
    by_hand = np.quantile(means, stats.norm.cdf(z0 + z / (1 - a * z)))
    found = row_of(x, np.zeros(400), resamples=20000).interval
    # The standard error of a 2.5% quantile of 20,000 normal draws is 0.019 standard deviations; of two, 0.027.
    assert found == pytest.approx(tuple(by_hand), abs=4 * 0.027 * means.std())


def test_everything_at_once_is_what_each_is_alone():
    rng = np.random.default_rng(5)
    skipped = np.where(rng.random(300) < 0.1, np.nan, 0.0)
    results = {
        name: Evaluation("standard", np.arange(300), {"ap": rng.random(300) + skipped, "rr": rng.random(300)})
        for name in "abc"
    }
    found = summarize(results, ["ap", "rr"], [("ap", "b"), ("rr", "a"), ("rr", "c")], resamples=499)
    assert found.intervals == {
        (name, measure): mean_interval(one, measure, resamples=499)
        for name, one in results.items()
        for measure in ("ap", "rr")
    }
    assert found.comparisons == {
        question: compare(results, measure=question[0], baseline=question[1], resamples=499)
        for question in (("ap", "b"), ("rr", "a"), ("rr", "c"))
    }


def test_interval_covers_the_true_difference():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        low, high = row_of(rng.exponential(0.3, 60), np.full(60, 0.3), resamples=399, confidence=0.9).interval
        covered += low <= 0.0 <= high
    assert 0.84 * 300 <= covered <= 0.94 * 300


def test_interval_of_extreme_confidence_keeps_its_order():
    gain = np.eye(1, 100)[0]
    low, high = row_of(gain, np.zeros(100), confidence=1 - 1e-12).interval
    assert low <= 0.01 < high


@given(paired_values)
@settings(max_examples=25, deadline=None)
def test_interval_lies_within_the_differences(pairs):
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    assume(len(a) > 1)
    low, high = row_of(a, b, resamples=99, confidence=0.999999).interval
    assert (a - b).min() - 1e-9 <= low <= high <= (a - b).max() + 1e-9


@pytest.mark.slow
@given(paired_values)
@settings(max_examples=30, deadline=None)
def test_swapping_the_systems_mirrors_the_row(pairs):
    a, b = zip(*pairs, strict=True)
    there, back = row_of(a, b), row_of(b, a)
    assert back.difference == -there.difference
    assert p_values(back) == pytest.approx(p_values(there), rel=1e-12)
    assert (back.wins, back.losses, back.ties) == (there.losses, there.wins, there.ties)
    assert (-back.interval[1], -back.interval[0]) == pytest.approx(there.interval, abs=1e-9)


def test_swapping_leaves_random_flips_alone():
    a, b = two_systems(70, shift=0.03)
    assert row_of(a, b).p_randomization == row_of(b, a).p_randomization < 1


def test_p_is_uniform_when_the_systems_are_alike():
    rng = np.random.default_rng(7)
    rows = [row_of(*rng.random((2, 25)), resamples=199) for _ in range(400)]
    for test in TESTS:
        found = [getattr(row, f"p_{test}") for row in rows]
        assert stats.kstest(found, "uniform").pvalue > 0.01, test
        assert 0.02 <= np.mean(np.array(found) <= 0.05) <= 0.08, test


def test_p_is_small_when_the_systems_differ():
    assert max(p_values(row_of(*two_systems(100, shift=0.2)))) < 0.01


def test_rows_depend_on_nothing_but_their_pair():
    a, b = two_systems(40)
    c = np.random.default_rng(9).random(40)
    many = compare({"c": c, "a": a, "b": b}, resamples=199)
    alone = row_of(a, b, resamples=199)
    (found,) = [row for row in many.rows if (row.system, row.other) == ("a", "b")]
    assert (found.interval, p_values(found)) == (alone.interval, p_values(alone))


def test_the_seed_decides():
    a, b = two_systems(40)
    assert row_of(a, b, random_state=3) == row_of(a, b, random_state=3)
    assert row_of(a, b, random_state=3).interval != row_of(a, b, random_state=4).interval


def test_pairs_with_and_without_baseline():
    systems = {name: np.random.default_rng(at).random(9) for at, name in enumerate("xyz")}
    every = [(row.system, row.other) for row in compare(systems, resamples=99).rows]
    against = [(row.system, row.other) for row in compare(systems, baseline="y", resamples=99).rows]
    assert every == [("x", "y"), ("x", "z"), ("y", "z")]
    assert against == [("x", "y"), ("z", "y")]


def naive_holm(p):
    """Smallest level at which the step-down procedure, run as Holm describes it, rejects each hypothesis."""

    def rejected(level):
        out = set()
        for step, at in enumerate(sorted(range(len(p)), key=p.__getitem__)):
            if p[at] * (len(p) - step) > level:
                break
            out.add(at)
        return out

    steps = sorted({min(1.0, p[at] * k) for at in range(len(p)) for k in range(1, len(p) + 1)} | {1.0})
    return [next((level for level in steps if at in rejected(level)), 1.0) for at in range(len(p))]


@given(few_p_values)
@settings(deadline=None)
def test_holm_is_the_level_at_which_the_procedure_rejects(p):
    assert holm(p).tolist() == pytest.approx(naive_holm(p), rel=1e-12)


@given(few_p_values)
@settings(deadline=None)
def test_holm_keeps_order_and_bounds(p):
    adjusted = holm(p)
    assert np.all(np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0)
    assert np.all((adjusted >= p) & (adjusted <= np.minimum(1.0, np.array(p) * len(p))))


def test_rows_are_adjusted_per_test():
    rng = np.random.default_rng(2)
    rows = compare({name: rng.random(30) + shift for name, shift in zip("abc", (0, 0.1, 0.3), strict=True)}).rows
    for test in TESTS:
        adjusted = [getattr(row, f"holm_{test}") for row in rows]
        assert adjusted == holm([getattr(row, f"p_{test}") for row in rows]).tolist()
        assert adjusted != [getattr(row, f"p_{test}") for row in rows]


@pytest.mark.parametrize("p", [[0.1, 1.2], [-0.1], [math.nan], [[0.1]]])
def test_holm_refuses_what_is_no_p_value(p):
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        holm(p)


@pytest.mark.parametrize("n", [2, 3, 200])
def test_identical_systems(n):
    a, _ = two_systems(n)
    row = row_of(a, a.copy())
    assert (row.difference, row.interval, row.ties) == (0.0, (0.0, 0.0), n)
    assert p_values(row) == [1.0, 1.0, 1.0]


def test_roundoff_is_no_difference():
    a = np.random.default_rng(0).random(30)
    row = row_of(a + 1e-13, a)
    assert (row.difference, row.interval, row.ties) == (0.0, (0.0, 0.0), 30)
    assert p_values(row) == [1.0, 1.0, 1.0]


def test_one_query_says_nothing():
    row = row_of([0.9], [0.1])
    assert (row.difference, row.wins) == (0.8, 1)
    assert row.interval == (-math.inf, math.inf)
    assert p_values(row) == [1.0, 1.0, 1.0]


def test_two_queries():
    row = row_of([0.9, 0.8], [0.5, 0.7])
    assert row.interval == pytest.approx((0.1, 0.4))
    assert p_values(row) == pytest.approx([stats.ttest_1samp([0.4, 0.1], 0).pvalue, 0.5, 0.5])


@pytest.mark.parametrize(("n", "p"), [(2, 0.5), (5, 2 / 2**5), (9, 2 / 2**9)])
def test_equal_differences(n, p):
    b = np.linspace(0.1, 0.7, n)
    row = row_of(b + 0.1, b)
    assert row.difference == pytest.approx(0.1)
    assert row.interval == pytest.approx((0.1, 0.1))
    assert p_values(row) == pytest.approx([0.0, p, p])


def test_skipped_queries_are_left_out():
    a, b = two_systems(12)
    holes_a, holes_b = np.insert(a, [0, 5], np.nan), np.insert(b, [0, 5], np.nan)
    assert row_of(holes_a, holes_b) == row_of(a, b)
    assert compare({"a": holes_a, "b": holes_b}).n_queries == 12


def test_weight_zero_leaves_a_query_out():
    a, b = two_systems(12)
    weights = np.linspace(1, 3, 12)
    padded = np.append(a, 0.9), np.append(b, 0.1)
    assert row_of(*padded, weights=np.append(weights, 0.0)) == row_of(a, b, weights=weights)


def test_equal_weights_are_no_weights():
    a, b = two_systems(30)
    assert row_of(a, b, weights=np.full(30, 4.0)) == row_of(a, b)


def test_weights_weigh_the_mean_and_the_tests():
    a, b = two_systems(30)
    w = np.random.default_rng(1).exponential(size=30)
    row = row_of(a, b, weights=w)
    assert row.difference == pytest.approx(np.average(a - b, weights=w))
    assert row.p_t == pytest.approx(stats.ttest_1samp(w * (a - b), 0).pvalue)
    assert row.p_wilcoxon == pytest.approx(stats.wilcoxon(w * (a - b)).pvalue)


def test_a_constant_moves_the_interval_under_weights():
    a, b = two_systems(30)
    w = np.random.default_rng(1).exponential(size=30)
    low, high = row_of(a, b, weights=w).interval
    assert row_of(a + 2, b, weights=w).interval == pytest.approx((low + 2, high + 2))


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ({"a": [1, 2]}, {}, "at least two systems; given: a"),
        ({}, {}, "at least two systems; given: none"),
        ({"a": [1, 2], "b": [1, 2]}, {"baseline": "c"}, "unknown baseline 'c'; known: a, b"),
        ({"a": [1, 2], "b": [1]}, {}, r"system 'b' has shape \(1,\) for 2 queries"),
        ({"a": [[1, 2]], "b": [1, 2]}, {}, r"system 'a' has shape \(1, 2\)"),
        ({"a": [1, 2], "b": [1, math.nan]}, {}, r"query 1 is skipped \(NaN\) for only one of 'a' and 'b'"),
        ({"a": [math.nan, 2], "b": [1, 2]}, {"query_ids": ["q7", "q9"]}, "query q7 is skipped"),
        ({"a": [1, 2], "b": [1, 2]}, {"query_ids": ["q7"]}, r"query_ids has shape \(1,\)"),
        ({"a": [1, math.inf], "b": [1, 2]}, {}, "query 1 is infinite for 'a'"),
        ({"a": [math.nan], "b": [math.nan]}, {}, "no query is left"),
        ({"a": [], "b": []}, {}, "no query is left"),
        ({"a": [1, 2], "b": [1, 2]}, {"weights": [0, 0]}, "no query is left"),
        ({"a": [1, 2], "b": [1, 2]}, {"weights": [1]}, r"weights has shape \(1,\) for 2 queries"),
        ({"a": [1, 2], "b": [1, 2]}, {"weights": [1, -1]}, "query 1 has a weight that is negative"),
        ({"a": [1, 2], "b": [1, 2]}, {"weights": [math.nan, 1]}, "query 0 has a weight"),
    ],
)
def test_refusals_name_the_problem(systems, options, message):
    with pytest.raises(ValueError, match=message):
        compare(systems, **options)


def test_bad_values_are_data_errors():
    with pytest.raises(DataError):
        compare({"a": [1.0, 2.0], "b": [1.0, math.nan]})


@pytest.mark.parametrize(
    "option",
    [{"confidence": 1}, {"confidence": 0}, {"resamples": 98}, {"tie_tolerance": -1}, {"tie_tolerance": math.nan}],
)
def test_settings_out_of_range_are_refused(option):
    (name,) = option
    with pytest.raises(ValueError, match=f"{name}={option[name]}"):
        compare({"a": [1, 2], "b": [1, 3]}, **option)


TABLE = """\
system     other  difference        90% interval    W/L/T  p t-test   p Wilcoxon   p randomization
long-name  bm25      +0.1234  [+0.1000, +0.1500]  31/19/0   <0.0001*      0.0040*           0.0200
n          bm25      -0.0100  [-0.2000, +0.1800]  2/8/990    0.5000       1.0000            0.0500
1,000 queries; * Holm-adjusted p < 0.05 over 2 comparisons"""


def test_table():
    rows = (
        PairedComparison("long-name", "bm25", 0.1234, (0.1, 0.15), 31, 19, 0, 9e-5, 0.004, 0.02, 2e-4, 0.008, 0.05),
        PairedComparison("n", "bm25", -0.01, (-0.2, 0.18), 2, 8, 990, 0.5, 1.0, 0.05, 1.0, 1.0, 0.1),
    )
    assert str(Comparison(rows, n_queries=1000, confidence=0.9)) == TABLE


def test_table_of_one_query():
    assert str(compare({"a": [0.5], "b": [0.25]})).splitlines()[1:] == [
        "a       b         +0.2500  [-inf, +inf]  1/0/0    1.0000       1.0000            1.0000",
        "1 query; * Holm-adjusted p < 0.05",
    ]


def test_records_survive_strict_json():
    records = compare({"a": [0.5], "b": [0.25]}).to_dicts()
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert records[0]["interval_low"] is None
    a, b = two_systems(20)
    row = row_of(a, b)
    (record,) = compare({"a": a, "b": b}, resamples=999).to_dicts()
    assert (record["interval_low"], record["interval_high"]) == row.interval
    assert all(type(value) in (str, int, float) for value in record.values())


def test_import_does_not_load_scipy_stats():
    code = "import sys, marginrank.evaluation.comparison; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_a_mean_is_that_of_its_difference_to_nothing(weighted):
    rng = np.random.default_rng(0)
    values = rng.random(40)
    values[[3, 7]] = np.nan
    weights = rng.random(40) * (rng.random(40) < 0.9) if weighted else None
    evaluation = Evaluation("standard", np.arange(40), {"ap": values}, weights)
    nothing = np.where(np.isnan(values), np.nan, 0.0)
    row = row_of(values, nothing, weights=weights)
    assert mean_interval(evaluation, "ap", resamples=999) == row.interval
    low, high = row.interval
    assert low < evaluation.mean["ap"] < high


def test_a_mean_over_fewer_than_two_queries_has_no_interval():
    one = Evaluation("standard", np.arange(2), {"ap": np.array([0.5, np.nan])})
    none = Evaluation("standard", np.arange(2), {"ap": np.array([np.nan, np.nan])})
    assert mean_interval(one, "ap") == mean_interval(none, "ap") == (-math.inf, math.inf)
