"""Every pair of measure and feature map against all rankings of small queries."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank.feature_maps import parse_map
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import parse_measure
from tests.losses.exhaustive import exhaustive

MEASURES = [
    "auc", "ap", "ap(rel=2)", "ap@2", "rr", "rr@2", "p@1", "p@3", "recall@2", "wta",
    "ndcg", "ndcg@1", "ndcg@2", "ndcg@3", "ndcg@10", "ndcg@2(gain=linear,discount=letor)", "ndcg(gain=binary)",
    "ndcg(gain=binary,discount=letor)", "dcg@3", "dcg", "eru(halflife=2)", "eru(normalized=true)", "rbp", "rbp@2(p=0.5)",
]  # fmt: skip
MAPS = [
    "po", "po(scale=all)", "dorm", "dorm(shape=power,d=1)", "dorm(shape=log)", "dorm(shape=loglog)", "dorm(shape=linear)",
    "dorm(shape=truncated)", "dorm(shape=discount)",
]  # fmt: skip


def possible(measure, feature_map):
    try:
        parse_map(feature_map).profile(5, parse_measure(measure))
    except ValueError:
        return False
    return True


PAIRS = [(measure, feature_map) for measure, feature_map in product(MEASURES, MAPS) if possible(measure, feature_map)]
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


@every_pair
@given(query=small_queries())
def test_bounds_are_the_maxima_over_all_rankings(measure, feature_map, query):
    grades, scores = query
    hinge, tight, worst = exhaustive(parse_measure(measure), parse_map(feature_map), grades, scores)
    found = StructuredLoss(measure, feature_map)(grades, scores)[0][0]
    assert found == pytest.approx(hinge, abs=1e-10)
    found = StructuredLoss(measure, feature_map, "tight")(grades, scores)[0][0]
    assert found == pytest.approx(tight, abs=1e-10)
    assert hinge >= tight - 1e-10
    assert tight >= worst - 1e-10
