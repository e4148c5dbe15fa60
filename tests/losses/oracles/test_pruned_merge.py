"""The merge through few states, against all rankings of short lists and linear assignment of long ones."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.losses import StructuredLoss, parse_map
from marginrank.losses.oracles import pruned_merge
from marginrank.losses.oracles.assignment import prepare_assignment
from marginrank.losses.oracles.oracle import PRUNED_MERGE, Oracle, oracle_for
from marginrank.losses.oracles.pruned_merge_kernel import write_falls
from marginrank.losses.structured import PreparedStructured
from marginrank.measures import parse_measure
from tests.losses.exhaustive import EveryRanking

ASSIGNMENT = Oracle("assignment", "n³", prepare_assignment)
MEASURES = ("ndcg", "ndcg(discount=letor)", "dcg(gain=linear)", "rbp(p=0.6)", "ndcg@4", "ndcg@2(discount=letor)", "p@3")
#: Profiles that fall evenly, early, late, and not at all for some ranks.
MAPS = ("po", "dorm", "dorm(shape=linear)", (1.0, 1.0, 0.5, 0.5, 0.0), (3.0, 3.0, 3.0, 0.0))


def prepared(measure, feature_map, oracle, grades, offsets=None):
    """The tight bound, which does not depend on y*, with a given oracle."""
    loss = StructuredLoss(measure, feature_map, "tight").prepare(grades, offsets)
    return PreparedStructured(loss.problem, oracle, "tight", loss._ideal)


def drawn(rng, n, kind):
    scores = rng.standard_normal(n) * rng.choice([0.01, 0.1, 1.0, 10.0])
    return {"random": scores, "ties": scores.round(1), "equal": np.zeros(n)}[kind]


@pytest.mark.parametrize("kind", ["random", "ties", "equal"])
def test_it_finds_the_best_of_all_rankings(kind):
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(40):
        for measure in MEASURES:
            for chart in MAPS:
                n = int(rng.integers(2, 7))
                grades, scores = rng.integers(0, 4, n).astype(float), drawn(rng, n, kind)
                feature_map = parse_map(chart if isinstance(chart, str) else np.array(chart))
                (xi,), gradient = prepared(measure, feature_map, PRUNED_MERGE, grades)(scores)
                _, tight = EveryRanking(parse_measure(measure), feature_map, grades).bounds(scores)
                worst = max(worst, abs(xi - tight))
                assert gradient.sum() == pytest.approx(0.0, abs=1e-9)
    assert worst < 1e-9


@pytest.mark.parametrize("n_levels", [2, 3, 5])
@pytest.mark.parametrize("chart", MAPS, ids=str)
def test_long_lists_are_as_good_as_an_assignment(chart, n_levels):
    rng = np.random.default_rng(n_levels)
    sizes = np.array([1, 2, 7, 60, 90])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    feature_map = parse_map(chart if isinstance(chart, str) else np.array(chart))
    for measure in ("ndcg", "ndcg(discount=letor)", "ndcg@40"):
        grades = rng.integers(0, n_levels, offsets[-1]).astype(float)
        found, other = (prepared(measure, feature_map, o, grades, offsets) for o in (PRUNED_MERGE, ASSIGNMENT))
        for kind in ("random", "ties", "equal"):
            scores = drawn(rng, len(grades), kind)
            np.testing.assert_allclose(found(scores)[0], other(scores)[0], atol=1e-9)


def test_queries_with_too_many_states_are_assignments(monkeypatch):
    rng = np.random.default_rng(4)
    sizes = np.array([40, 3, 70])
    grades, offsets = rng.integers(0, 4, sizes.sum()).astype(float), np.concatenate([[0], np.cumsum(sizes)])
    grades[-70:] = rng.permutation(70) / 10.0
    scores = 0.1 * rng.standard_normal(len(grades))
    expected = prepared("ndcg(gain=linear)", "po", ASSIGNMENT, grades, offsets)(scores)[0]
    for states, width in ((1 << 20, 1 << 14), (1 << 20, 3), (60, 1 << 14), (0, 0)):
        monkeypatch.setattr(pruned_merge, "MAX_STATES", max(states, 1))
        monkeypatch.setattr(pruned_merge, "MAX_WIDTH", max(width, 1))
        found = prepared("ndcg(gain=linear)", "po", PRUNED_MERGE, grades, offsets)(scores)[0]
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_threads_find_the_same():
    rng = np.random.default_rng(5)
    grades, offsets = rng.integers(0, 3, 3000).astype(float), np.arange(0, 3001, 50)
    loss, scores = StructuredLoss("ndcg").prepare(grades, offsets), rng.standard_normal(3000)
    assert loss.oracle is PRUNED_MERGE
    (xi, gradient), (same, too) = loss(scores, n_jobs=1), loss(scores, n_jobs=3)
    np.testing.assert_array_equal(xi, same)
    np.testing.assert_array_equal(gradient, too)


def test_which_losses_use_it():
    names = [oracle_for("ndcg", "po", n_levels=n).name for n in (2, 3, 5)]
    assert names == ["interleaving", "pruned merge", "pruned merge"]


def test_falls_have_the_smallest_and_the_largest_ratio():
    falls = np.zeros((4, 6))
    write_falls(np.array([0.0, -2.0, -4.0, -6.0]), np.array([1.0, 1.0, 0.5, 0.25]), falls)
    # From rank 0: (2, 0), (4, .5), (6, .75); from rank 1: (2, .5), (4, .75); from rank 2: (2, .25).
    assert falls[0].tolist() == [2.0, 0.0, 4.0, 0.5, 0.0, 0.0]
    assert falls[1].tolist() == [4.0, 0.75, 2.0, 0.5, 2.0, 0.0]
    assert falls[2].tolist() == [2.0, 0.25, 2.0, 0.25, 2.0, 0.5]
    write_falls(np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0]), falls[:3])
    assert falls[0, 2:4].tolist() == [0.0, 1.0]
