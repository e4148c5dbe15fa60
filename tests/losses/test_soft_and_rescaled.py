"""The soft maximum of graded measures and slack rescaling under φmrr, against all rankings."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy.special import logsumexp

from marginrank import Queries, Ranker
from marginrank.bounds import argmax_bound, softmax_gap, stability_bound
from marginrank.losses import SlackLoss, SmoothedHinge, StructuredLoss, parse_map
from marginrank.losses import smoothed_hinge as module
from marginrank.measures import parse_measure
from marginrank.solvers import Bundle, ConcaveConvex
from marginrank.training.partitioned_risk import empirical_risk

from .exhaustive import EveryRanking, coefficients, delta, worth


def soft_maximum(measure, feature_map, temperature, grades, scores):
    """μ·log Σ exp((Δ + a·s)/μ) over the rankings with every level in score order, less a(y*)·s; y* by rows."""
    measure, phi = parse_measure(measure), parse_map(feature_map)
    levels, values = worth(measure, grades), []
    for order in permutations(range(len(grades))):
        inside = [[scores[d] for d in order if levels[d] == level] for level in set(levels)]
        if all(a >= b for part in inside for a, b in pairwise(part)):
            a = coefficients(phi, measure, levels, order)
            values.append((delta(measure, grades.tolist(), order) + a @ scores) / temperature)
    ideal = sorted(range(len(grades)), key=lambda d: -levels[d])
    return temperature * logsumexp(values) - coefficients(phi, measure, levels, ideal) @ scores


@pytest.mark.parametrize("feature_map", ["po", "dorm"])
@pytest.mark.parametrize("measure", ["ndcg", "ndcg@2", "dcg(gain=linear)"])
def test_the_soft_maximum_of_graded_measures(measure, feature_map):
    rng, worst, compared = np.random.default_rng(0), 0.0, 0
    for _ in range(25):
        n = int(rng.integers(3, 6))
        grades, scores = rng.integers(0, 4, n).astype(float), rng.standard_normal(n)
        if len(set(grades.tolist())) < 2:
            continue
        for temperature in (0.05, 1.0):
            loss = SmoothedHinge(measure, feature_map, temperature, ideal="rows")
            (xi,), gradient = loss(grades, scores)
            expected = soft_maximum(measure, feature_map, temperature, grades, scores)
            worst, compared = max(worst, abs(xi - expected)), compared + 1
            step = 1e-6 * rng.standard_normal(n)
            rise = loss(grades, scores + step)[0][0] - loss(grades, scores - step)[0][0]
            assert gradient @ step == pytest.approx(rise / 2, abs=1e-9)
            hinge = StructuredLoss(measure, feature_map, ideal="rows")(grades, scores)[0][0]
            queries = Queries.from_arrays(np.zeros((n, 1)), grades, group=[n])
            assert hinge - 1e-12 <= xi <= hinge + softmax_gap(loss, queries)[0] + 1e-12
    assert worst < 1e-10
    assert compared >= 40


def graded(seed=1, n_queries=12, n=6):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n_queries * n, 3))
    grades = np.digitize(X @ [1.0, -0.5, 0.0] + 0.2 * rng.standard_normal(len(X)), [0.2, 0.5])
    return Queries.from_arrays(X, grades, qid=np.repeat(np.arange(n_queries), n))


def test_it_is_trained_with_a_certificate_and_has_both_bounds():
    queries, loss = graded(), SmoothedHinge("ndcg", temperature=0.05)
    found = Bundle(tol=1e-6).minimize(empirical_risk(queries, loss), 1.0)
    assert found.converged
    for bound in (
        stability_bound(queries, loss, found.theta, 1.0, gap=found.gap),
        argmax_bound(queries, loss, found.theta),
    ):
        assert found.risk < bound.total < np.inf


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_STATES", 26)
    with pytest.raises(ValueError, match="query 0 has 27 ways to place some documents of each grade"):
        SmoothedHinge("ndcg").prepare([0, 0, 1, 1, 2, 2])
    with pytest.raises(ValueError, match="err tells more than two levels apart"):
        SmoothedHinge("err").prepare([0, 1, 2])


def rescaled(measure, grades, scores):
    """Hinge, tight bound and its majorant from all rankings; a(y*) = 0 under φmrr."""
    rankings = EveryRanking(parse_measure(measure), parse_map("mrr"), grades)
    if rankings.one_level:
        return 0.0, 0.0, 0.0
    margins, losses = rankings.coefficients @ scores, rankings.losses
    most = margins.max()
    return (
        (losses * (1 + margins)).max(),
        (losses * (1 + margins - most)).max(),
        (losses * (1 + margins) + (losses.max() - losses) * most).max(),
    )


@pytest.mark.parametrize("measure", ["rr", "rr@2", "rr@3"])
def test_slack_rescaling_under_mrr(measure):
    rng, worst, tight = np.random.default_rng(2), 0.0, SlackLoss(measure, "mrr", bound="tight")
    assert tight.bounded("hinge").exact
    for _ in range(300):
        n = int(rng.integers(2, 7))
        grades, scores = rng.integers(0, 2, n).astype(float), rng.normal(0, rng.choice([0.1, 1.0, 3.0]), n).round(1)
        expected = rescaled(measure, grades, scores)
        other = scores + rng.standard_normal(n)
        for loss, value in zip((SlackLoss(measure, "mrr"), tight, tight.majorant), expected, strict=True):
            prepared = loss.prepare(grades)
            (xi,), gradient = prepared(scores)
            worst = max(worst, abs(xi - max(value, 0.0)))
            if loss.convex:
                assert prepared(other)[0][0] >= xi + gradient @ (other - scores) - 1e-9
    assert worst < 1e-12


def test_the_tight_bound_lies_above_the_loss_of_its_ranking():
    rng = np.random.default_rng(3)
    for _ in range(100):
        grades, scores = np.append(1.0, rng.integers(0, 2, 5)), rng.standard_normal(6)
        rankings = EveryRanking(parse_measure("rr"), parse_map("mrr"), grades)
        if not rankings.one_level:
            predicted = rankings.losses[np.argmax(rankings.coefficients @ scores)]
            xi = SlackLoss("rr", "mrr", bound="tight")(grades, scores)[0][0]
            assert predicted - 1e-12 <= xi <= SlackLoss("rr", "mrr")(grades, scores)[0][0] + 1e-12


def test_both_are_trained():
    queries = graded(4)
    hinge = Ranker(SlackLoss("rr", "mrr"), C=10.0, bound="hinge").fit(queries)
    assert hinge.gap_ < np.inf
    tight = Ranker(SlackLoss("rr", "mrr"), C=10.0, bound="tight", solver=ConcaveConvex()).fit(queries)
    assert tight.model_.method.bound == "tight"
    assert tight.health_.average_slack < tight.health_.slack_at_zero


def test_only_mrr_has_the_tight_bound():
    with pytest.raises(ValueError, match="slack rescaling has a tight bound under the feature map mrr, not po"):
        SlackLoss("rr", "po", bound="tight")
