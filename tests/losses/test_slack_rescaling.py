"""Slack rescaling: exact for short lists, a lower bound beyond, and what a certificate makes of either."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank import Queries
from marginrank.losses import SlackLoss, StructuredLoss, parse_map
from marginrank.losses.oracles import slack_frontier_kernel as frontier_kernel
from marginrank.measures import parse_measure
from marginrank.solvers import Bundle
from marginrank.training.partitioned_risk import empirical_risk
from tests.losses.exhaustive import EveryRanking
from tests.losses.test_structured import small_queries

MEASURES = ["ap", "ap@3", "auc", "ndcg", "ndcg@2", "ndcg@3(gain=linear,discount=letor)", "ndcg@3(gain=0|1|1|4)", "eru"]
MAPS = ["po", "dorm", "dorm(shape=linear)"]
WHOLE = 10**9


def by_definition(measure, feature_map, grades, scores):
    """max_y Δ(y)·(1 + (a(y) − a(y*))·s) over all rankings, ties of y* by rows."""
    rankings = EveryRanking(parse_measure(measure), parse_map(feature_map), grades)
    if rankings.one_level:
        return 0.0
    slopes = rankings.coefficients - rankings.coefficients[rankings.ideal]
    return max(0.0, (rankings.losses * (1 + slopes @ np.asarray(scores, dtype=float))).max())


@given(query=small_queries(most=6), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_short_lists_are_exact(query, scale):
    """For every pair: as parameters of the test they would all draw the same examples."""
    grades, scores = query[0], scale * np.array(query[1])
    for pair in product(MEASURES, MAPS):
        prepared = SlackLoss(*pair, ideal="rows").prepare(grades)
        expected = by_definition(*pair, grades, scores)
        xi, _ = prepared(scores)
        assert xi[0] == pytest.approx(expected, rel=1e-9, abs=1e-10), pair
        assert prepared.exact, pair
        searched = SlackLoss(*pair, most_states=0, ideal="rows")(grades, scores)[0][0]
        assert searched <= expected * (1 + 1e-9) + 1e-10, pair


@pytest.mark.parametrize("feature_map", ["po", "dorm"])
@pytest.mark.parametrize("measure", ["ap", "ndcg", "ndcg@5"])
def test_seven_documents_of_three_grades(measure, feature_map):
    rng = np.random.default_rng(0)
    loss, missed = SlackLoss(measure, feature_map, ideal="rows"), 0
    for _ in range(25):
        grades, scores = rng.integers(0, 3, 7), 2 * rng.standard_normal(7)
        expected = by_definition(measure, feature_map, grades, scores)
        assert loss(grades, scores)[0][0] == pytest.approx(expected, rel=1e-9, abs=1e-10)
        missed += SlackLoss(measure, feature_map, most_states=0, ideal="rows")(grades, scores)[0][0] < expected - 1e-6
    assert missed > 0 or measure != "ndcg", "there are queries that the search gets wrong"


@pytest.mark.parametrize("feature_map", ["po", "dorm"])
@pytest.mark.parametrize("measure", ["ap", "ndcg@5", "auc"])
def test_longer_lists_support_the_loss_from_below_and_lie_above_the_search(measure, feature_map):
    rng = np.random.default_rng(1)
    n = 40
    grades = rng.choice(3, 20 * n, p=[0.7, 0.2, 0.1]).astype(float)
    offsets = np.arange(21) * n
    exact = SlackLoss(measure, feature_map, most_states=WHOLE).prepare(grades, offsets)
    search = SlackLoss(measure, feature_map, most_states=0).prepare(grades, offsets)
    assert exact.exact
    assert not search.exact
    for scale in (0.2, 2.0):
        s, t = scale * rng.standard_normal((2, 20 * n))
        (xi, gradient), (other, _) = exact(s), exact(t)
        support = xi + np.add.reduceat(gradient * (t - s), offsets[:-1])
        assert np.all(other >= support - 1e-9)
        assert np.all(search(s)[0] <= xi + 1e-9)
        hinge = StructuredLoss(measure, feature_map).prepare(grades, offsets)(np.zeros(20 * n))[0]
        np.testing.assert_allclose(exact(np.zeros(20 * n))[0], hinge, atol=1e-9)


def test_long_queries_are_searched_and_short_ones_beside_them_exact():
    rng = np.random.default_rng(2)
    sizes = [5, 120, 0, 7, 100, 6]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    grades, scores = rng.integers(0, 3, offsets[-1]).astype(float), rng.standard_normal(offsets[-1])
    mixed = SlackLoss("ndcg", "dorm", ideal="rows").prepare(grades, offsets)
    assert not mixed.exact
    xi, gradient = mixed(scores)
    for query in (0, 3, 5):
        own = slice(offsets[query], offsets[query + 1])
        assert xi[query] == pytest.approx(by_definition("ndcg", "dorm", grades[own], scores[own]), abs=1e-9)
    searched = SlackLoss("ndcg", "dorm", most_states=0, ideal="rows").prepare(grades, offsets)(scores)
    for query in (1, 4):
        own = slice(offsets[query], offsets[query + 1])
        assert xi[query] == pytest.approx(searched[0][query], abs=1e-12)
        np.testing.assert_allclose(gradient[own], searched[1][own], atol=1e-12)


def test_a_long_query_without_an_order_does_not_make_a_search():
    grades = np.concatenate([np.zeros(400), [1.0, 0.0]])
    assert SlackLoss("ap").prepare(grades, [0, 400, 402]).exact
    assert not SlackLoss("ap").prepare(np.arange(400) % 2).exact


@pytest.mark.parametrize(
    ("measure", "grades", "states"),
    [
        ("ap", [1, 0, 0, 1, 0], 12),
        ("ndcg", [2, 1, 0, 0], 12),
        ("ndcg@2", [1, 0, 0, 0, 0], 6),
        ("ndcg@2", [2, 2, 2, 0], 6),
    ],
)
def test_states_are_counted_by_level(measure, grades, states):
    """(1 + 2)·(1 + 3); (1 + 1)·(1 + 1)·(1 + 2); and no more than the cutoff of each level."""
    assert SlackLoss(measure, most_states=states).prepare(grades).exact
    assert not SlackLoss(measure, most_states=states - 1).prepare(grades).exact


def test_running_out_of_labels_is_not_exact(monkeypatch):
    rng = np.random.default_rng(3)
    grades, offsets, scores = rng.integers(0, 3, 200), np.arange(11) * 20, 3 * rng.standard_normal(200)
    prepared = SlackLoss("ndcg", "dorm").prepare(grades, offsets)
    expected, _ = prepared(scores)
    assert prepared.exact
    for kernel in ("_search_inside", "rescaled_frontier"):
        monkeypatch.setattr(frontier_kernel, kernel, getattr(frontier_kernel, kernel).py_func)
    monkeypatch.setattr(frontier_kernel, "MOST_LABELS", 3)
    xi, _ = prepared(scores)
    assert not prepared.exact
    assert np.all(xi <= expected + 1e-12)
    assert np.all(xi >= 0.5 * expected)


def small_problem(rng):
    X = rng.standard_normal((125, 4))
    return Queries.from_arrays(X, (X[:, 0] + rng.standard_normal(125) > 0.5).astype(float), group=[5] * 25)


def test_a_certificate_of_an_exact_loss_holds_and_one_of_a_search_may_not():
    """25 queries of 5 documents, average precision, C = 100: a search breaks the lower bound of cutting planes."""
    broken = []
    for seed in range(6):
        queries = small_problem(np.random.default_rng(seed))
        exact = empirical_risk(queries, SlackLoss("ap"), n_jobs=1)
        searched = empirical_risk(queries, SlackLoss("ap", most_states=0), n_jobs=1)
        solution, other = (Bundle(tol=1e-6).minimize(risk, 100.0) for risk in (exact, searched))
        assert solution.gap >= -1e-9 * solution.primal
        assert solution.gap <= 1e-5 * solution.primal
        assert solution.converged
        assert np.isinf(other.gap)
        assert not other.converged
        value = 0.5 * other.theta @ other.theta + 100.0 * exact(other.theta)[0]
        assert value >= solution.primal - solution.gap - 1e-6
        broken.append(value > other.primal + 1e-6)
    assert any(broken)
