"""Large cutoffs, many levels, long lists, odd batches, forked processes."""

from __future__ import annotations

import multiprocessing
from itertools import pairwise, permutations

import numpy as np
import pytest

import marginrank as mr
from marginrank.losses import (
    CostLoss,
    GroupedLoss,
    ModifiedWTA,
    PairwiseHinge,
    SlackLoss,
    SmoothedHinge,
    SoftmaxCrossEntropy,
    SquaredError,
    StructuredLoss,
)
from marginrank.losses.feature_maps import parse_map
from marginrank.losses.oracles.assignment import prepare_assignment
from marginrank.losses.oracles.base import ArgmaxProblem, Sorter, Violations
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.measures import parse_measure
from marginrank.training.partitioned_risk import empirical_risk


def by_assignment(measure, feature_map, grades, scores):
    """The hinge with the argmax of the assignment oracle, whatever the choice would be."""
    kind, chart = parse_measure(measure), parse_map(feature_map)
    problem = ArgmaxProblem(kind, chart, by_level(kind, grades, np.array([0, len(grades)])))
    sorter = Sorter(problem.levels)
    ordered = sorter.sort(scores, 0, 1)
    violations = Violations.empty(problem.levels)
    prepare_assignment(problem, ordered, violations)(np.ones(1), 0, 1)
    ideal = np.arange(len(grades))
    if chart.fixed_ideal:
        ideal[problem.levels.documents] = np.arange(len(grades))
        ideal = ideal[sorter.documents]
    slopes = problem.scales[0] * (problem.profile[violations.ranks] - problem.profile[ideal])
    return violations.deltas[0] + slopes @ ordered.scores


@pytest.mark.parametrize("k", [100, 127, 128, 300])
@pytest.mark.parametrize("feature_map", ["po", "dorm"])
def test_large_cutoffs(k, feature_map):
    rng = np.random.default_rng(k)
    grades, scores = rng.integers(0, 2, 400).astype(float), rng.standard_normal(400)
    found = StructuredLoss(f"ndcg@{k}", feature_map, ideal="rows")(grades, scores)[0][0]
    assert found == pytest.approx(by_assignment(f"ndcg@{k}", feature_map, grades, scores), abs=1e-9)


@pytest.mark.parametrize("n_levels", [15, 16, 17, 130, 1000])
@pytest.mark.parametrize("measure", ["ndcg@1(gain=linear)", "ndcg@3(gain=linear)"])
def test_many_levels(measure, n_levels):
    rng = np.random.default_rng(n_levels)
    grades, scores = rng.permutation(np.arange(n_levels) / 10), rng.standard_normal(n_levels)
    found = StructuredLoss(measure, "dorm")(grades, scores)[0][0]
    assert found == pytest.approx(by_assignment(measure, "dorm", grades, scores), abs=1e-9)


def test_batches_of_mixed_and_empty_queries():
    rng = np.random.default_rng(0)
    sizes = [0, 5, 1, 0, 30, 2, 7, 0]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    grades, scores = rng.integers(0, 5, offsets[-1]).astype(float), rng.standard_normal(offsets[-1])
    losses = [
        StructuredLoss("ndcg@10", "dorm"), StructuredLoss("ap"), StructuredLoss("ndcg", "po"),
        PairwiseHinge(), SlackLoss("ap"), SmoothedHinge("ap"), ModifiedWTA(), SquaredError(),
        SoftmaxCrossEntropy(),
        CostLoss(lambda g: np.outer(g, np.arange(len(g)))), GroupedLoss("dcg@3"),
    ]  # fmt: skip
    for loss in losses:
        groups = np.arange(offsets[-1]) % 4 if isinstance(loss, GroupedLoss) else None
        xi, gradient = loss(grades, scores, offsets, groups)
        for q, (a, b) in enumerate(pairwise(offsets)):
            own_xi, own_gradient = loss(grades[a:b], scores[a:b], groups=None if groups is None else groups[a:b])
            assert xi[q] == pytest.approx(own_xi[0], abs=1e-9), loss
            np.testing.assert_allclose(gradient[a:b], own_gradient, atol=1e-9)


def test_groups_need_a_profile_that_stays_above_zero():
    with pytest.raises(ValueError, match="falls below 0"):
        GroupedLoss("dcg@2", shape="linear")
    with pytest.raises(ValueError, match=r"groups need a sum over ranks, such as ndcg@10, or rr, not ap"):
        GroupedLoss("ap")


def test_a_cost_that_no_ranking_changes_carries_no_order():
    cost = CostLoss(lambda grades: np.outer(grades, np.arange(len(grades))))
    assert cost([1, 1], [0.0, 1.0])[0].tolist() == [0.0]
    assert cost([1, 0], [0.0, 1.0])[0][0] > 0


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e7])
def test_slack_rescaling_is_found_at_any_scale_of_scores(scale):
    from tests.losses.exhaustive import coefficients, delta, worth

    rng = np.random.default_rng(0)
    measure, feature_map = parse_measure("auc"), parse_map("dorm")
    exact_ones = 0
    for _ in range(60):
        grades, scores = rng.permutation([1, 1, 0, 0, 0]).tolist(), scale * rng.standard_normal(5)
        levels = worth(measure, grades)
        base = coefficients(feature_map, measure, levels, sorted(range(5), key=lambda d: -levels[d]))
        exact = max(
            delta(measure, grades, order) * (1 + (coefficients(feature_map, measure, levels, order) - base) @ scores)
            for order in permutations(range(5))
        )
        found = SlackLoss(measure, feature_map, most_states=0, ideal="rows")(grades, scores)[0][0]
        assert found <= max(exact, 0) * (1 + 1e-9) + 1e-9
        exact_ones += found >= exact * (1 - 1e-9) - 1e-9
        whole = SlackLoss(measure, feature_map, ideal="rows")(grades, scores)[0][0]
        assert whole == pytest.approx(max(exact, 0), rel=1e-9, abs=1e-9)
    assert exact_ones >= 55


def test_missing_features_do_not_pass_for_scores():
    X = np.array([[1.0], [np.nan], [0.0]])
    queries = mr.Queries.from_arrays(X, [1, 0, 0], group=[3], allow_nan=True)
    for loss in (StructuredLoss("rr", "mrr"), SlackLoss("rr"), StructuredLoss("ap", "dorm")):
        with pytest.raises(mr.DataError, match="document 1 has score nan; its features are missing, or w is too large"):
            empirical_risk(queries, loss)(np.ones(1))


def test_an_assignment_too_large_for_memory_is_refused():
    grades = np.arange(20_000) % 40
    with pytest.raises(MemoryError, match="use a cutoff, fewer grades, or lists of at most"):
        StructuredLoss("ndcg(gain=linear)", "po").prepare(grades)


@pytest.mark.parametrize("loss", [StructuredLoss("ap"), StructuredLoss("ndcg@10", "dorm"), PairwiseHinge()])
def test_long_lists_with_all_scores_tied(loss):
    rng = np.random.default_rng(0)
    bound = loss.prepare(rng.integers(0, 3, 50_000))
    bound(rng.standard_normal(50_000))
    assert np.isfinite(bound(np.zeros(50_000))[0][0])


def _slacks(arguments):
    grades, scores = arguments
    return StructuredLoss("ap").prepare(grades, np.arange(0, 401, 20))(scores, n_jobs=4)[0].sum()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    rng = np.random.default_rng(0)
    arguments = rng.integers(0, 2, 400), rng.standard_normal(400)
    here = _slacks(arguments)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_slacks, (arguments,)).get(timeout=60) == here
