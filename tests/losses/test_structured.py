"""Every pair of measure and feature map against all rankings of small queries."""

from __future__ import annotations

import os
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginrank.losses.feature_maps import parse_map
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import parse_measure
from tests.losses.exhaustive import EveryRanking, exhaustive

MEASURES = [
    "auc", "ap", "ap(rel=2)", "ap@2", "rr", "rr@2", "p@1", "p@3", "recall@2", "wta",
    "ndcg", "ndcg@1", "ndcg@2", "ndcg@3", "ndcg@10", "ndcg@2(gain=linear,discount=letor)", "ndcg(gain=binary)",
    "ndcg(gain=binary,discount=letor)", "ndcg(gain=0|1|1|4)", "ndcg@2(gain=0|0|2.5|10)", "dcg@3", "dcg",
    "eru(halflife=2)", "eru(normalized=true)", "rbp", "bpref", "infap",
    "rbp@2(p=0.5)",
]  # fmt: skip
MAPS = [
    "po", "po(scale=all)", "dorm", "dorm(shape=power,d=1)", "dorm(shape=log)", "dorm(shape=loglog)",
    "dorm(shape=linear)", "dorm(shape=truncated)", "dorm(shape=discount)",
]  # fmt: skip


def possible(measure, feature_map):
    try:
        parse_map(feature_map).profile(5, parse_measure(measure))
    except ValueError:
        return False
    return True


PAIRS = [(measure, feature_map) for measure, feature_map in product(MEASURES, MAPS) if possible(measure, feature_map)]
PAIRS += [("rr", "mrr"), ("rr@2", "mrr"), ("rr@1(rel=2)", "mrr")]
every_pair = pytest.mark.parametrize(("measure", "feature_map"), PAIRS)
score_choices = st.one_of(
    st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]), st.floats(-2, 2, allow_subnormal=False, width=32)
)


@st.composite
def small_queries(draw, most=5):
    n = draw(st.integers(1, most))
    grades = draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=n, max_size=n))
    scores = draw(st.lists(score_choices, min_size=n, max_size=n))
    return grades, scores


@settings(max_examples=4)
@given(queries=st.lists(small_queries(), min_size=5, max_size=5))
def test_bounds_are_the_maxima_over_all_rankings(queries):
    """For every pair: as parameters of the test they would all draw the same examples."""
    grades, scores = (np.concatenate(own) for own in zip(*queries, strict=True))
    offsets = np.cumsum([0, *(len(own) for own, _ in queries)])
    for pair in PAIRS:
        measure, feature_map = parse_measure(pair[0]), parse_map(pair[1])
        hinge, tight, worst = np.transpose([exhaustive(measure, feature_map, *query) for query in queries])
        found = StructuredLoss(measure, feature_map, ideal="rows")(grades, scores, offsets)[0]
        assert found == pytest.approx(hinge, abs=1e-10), pair
        found = StructuredLoss(measure, feature_map, "tight")(grades, scores, offsets)[0]
        assert found == pytest.approx(tight, abs=1e-10), pair
        assert (hinge >= tight - 1e-10).all(), pair
        assert (tight >= worst - 1e-10).all(), pair


@settings(max_examples=5)
@given(query=small_queries())
def test_a_query_alone_has_the_same_bounds(query):
    """Lists of two grades have oracles of their own, which a batch with others has no use for."""
    grades, scores = query
    for pair in PAIRS:
        measure, feature_map = parse_measure(pair[0]), parse_map(pair[1])
        hinge, _, _ = exhaustive(measure, feature_map, grades, scores)
        assert StructuredLoss(measure, feature_map, ideal="rows")(grades, scores)[0][0] == pytest.approx(
            hinge, abs=1e-10
        ), pair


@given(query=small_queries())
def test_err_is_exact_where_one_grade_is_above_zero(query):
    grades, scores = [float(grade > 1) for grade in query[0]], query[1]
    for pair in product(("err(max_grade=1)", "err@2(max_grade=2)"), ("po", "dorm", "dorm(shape=log)")):
        hinge, tight, _ = exhaustive(parse_measure(pair[0]), parse_map(pair[1]), grades, scores)
        assert StructuredLoss(*pair, ideal="rows")(grades, scores)[0][0] == pytest.approx(hinge, abs=1e-10), pair
        assert StructuredLoss(*pair, "tight")(grades, scores)[0][0] == pytest.approx(tight, abs=1e-10), pair


def test_pairs_without_an_exact_argmax_are_refused():
    with pytest.raises(ValueError, match=r"no exact argmax for ap with mrr; there is one for every sum over ranks"):
        StructuredLoss("ap", "mrr")
    with pytest.raises(ValueError, match="no exact argmax for err with po"):
        StructuredLoss("err", "po")([2, 1, 0], [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="bound is 'loose'; choose 'hinge' or 'tight'"):
        StructuredLoss("ap", "po", "loose")
    with pytest.raises(ValueError, match=r"unknown feature map 'pa'; known: dorm, mrr, po"):
        StructuredLoss("ap", "pa")
    with pytest.raises(ValueError, match="unknown profile 'flat'"):
        StructuredLoss("ap", "dorm(shape=flat)")


#: Documents of the longest lists whose patterns of grades are all tried; six take four times as long.
LONGEST = 6 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 5


def all_patterns():
    """Return patterns of three grades by their number of levels, as lists of two levels have their own oracles."""
    patterns = [g for n in range(1, LONGEST + 1) for g in product([0, 1, 2], repeat=n) if list(g) == sorted(g)]
    return [[pattern for pattern in patterns if len(set(pattern)) == n_levels] for n_levels in (1, 2, 3)]


@every_pair
def test_all_patterns_of_three_grades_in_short_lists(measure, feature_map):
    """All patterns, each with random and with tied scores, against all rankings at once."""
    rng = np.random.default_rng(0)
    kind, chart = parse_measure(measure), parse_map(feature_map)
    hinge, tight = (StructuredLoss(measure, feature_map, bound, ideal="rows") for bound in ("hinge", "tight"))
    for patterns in all_patterns():
        grades = 2 * [rng.permutation(pattern) for pattern in patterns]
        scores = [rng.standard_normal(len(own)) for own in grades]
        scores[len(patterns) :] = [np.round(own) for own in scores[len(patterns) :]]
        every = 2 * [EveryRanking(kind, chart, own) for own in grades[: len(patterns)]]
        expected = [own.bounds(at) for own, at in zip(every, scores, strict=True)]
        offsets = np.cumsum([0, *map(len, grades)])
        found = [loss(np.concatenate(grades), np.concatenate(scores), offsets)[0] for loss in (hinge, tight)]
        np.testing.assert_allclose(np.transpose(found), expected, rtol=0, atol=1e-10)


def test_a_profile_may_be_any_numbers_that_do_not_rise():
    profile = np.array([3.0, 1.0, 1.0])
    hinge, _, _ = exhaustive(parse_measure("ndcg@2"), parse_map(profile), [1, 0, 2, 0], [0.3, -0.1, 0.2, 0.5])
    found = StructuredLoss("ndcg@2", parse_map(profile), ideal="rows")([1, 0, 2, 0], [0.3, -0.1, 0.2, 0.5])[0][0]
    assert found == pytest.approx(hinge)
    with pytest.raises(ValueError, match="does not rise"):
        parse_map(np.array([1.0, 2.0]))


def test_a_cost_matrix_is_an_assignment():
    """Le and Smola (2008) eq. (19): NDCG as a cost of documents at ranks is NDCG."""
    from marginrank.losses.assignment_loss import CostLoss

    ndcg = parse_measure("ndcg")

    def cost(grades):
        gains, discounts = ndcg.gains(grades, grades), ndcg.discounts(len(grades))
        best = np.sort(gains)[::-1] @ discounts
        return -np.outer(gains, discounts) / best

    rng = np.random.default_rng(0)
    for _ in range(50):
        grades, scores = rng.permutation([0.0, 1.0, 2.0, 3.0, 4.0]), rng.standard_normal(5)
        as_cost, as_ndcg = CostLoss(cost)(grades, scores), StructuredLoss(ndcg, "dorm")(grades, scores)
        assert as_cost[0][0] == pytest.approx(as_ndcg[0][0], abs=1e-10)
        np.testing.assert_allclose(as_cost[1], as_ndcg[1], atol=1e-10)
        tight = CostLoss(cost, bound="tight")(grades, scores)[0][0]
        assert tight == pytest.approx(StructuredLoss(ndcg, "dorm", "tight")(grades, scores)[0][0], abs=1e-10)
