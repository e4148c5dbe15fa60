"""Prediction-powered means against their formula, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import evaluate
from marginrank.errors import DataError
from marginrank.judging import prediction_powered_compare, prediction_powered_evaluate, prediction_powered_mean


def drawn(seed=0, n=40, more=400, noise=0.1):
    rng = np.random.default_rng(seed)
    f = rng.random(n + more)
    y = f[:n] - 0.2 + noise * rng.standard_normal(n)
    return y, f[:n], f[n:]


def variance(weight, y, f, more):
    n = len(y)
    return weight**2 * f.var(ddof=1) / len(more) + np.var(y - weight * f, ddof=1) / n


def test_the_weight_has_the_smallest_variance_and_the_mean_is_that_of_the_formula():
    y, f, more = drawn()
    result = prediction_powered_mean(y, f, more)
    grid = np.linspace(0, 1, 100_001)
    moments = np.cov(y, f)
    values = grid**2 * moments[1, 1] / len(more) + (
        moments[0, 0] - 2 * grid * moments[0, 1] + grid**2 * moments[1, 1]
    ) / len(y)
    assert values[5000] == pytest.approx(variance(grid[5000], y, f, more))
    assert result.weight == pytest.approx(grid[values.argmin()], abs=2e-5)
    assert result.mean == pytest.approx(result.weight * more.mean() + np.mean(y - result.weight * f))
    assert result.people_mean == pytest.approx(y.mean())
    assert result.gain > 2


def test_means_are_unbiased_whatever_the_machine_does():
    means = [prediction_powered_mean(*drawn(seed)).mean for seed in range(300)]
    assert np.mean(means) == pytest.approx(0.3, abs=4 * np.std(means) / np.sqrt(300))


def test_a_machine_that_cannot_help_is_refused():
    rng = np.random.default_rng(1)
    y, f, more = drawn()
    with pytest.raises(DataError, match="the machine cannot help"):
        prediction_powered_mean(y, -f, -more)
    with pytest.raises(DataError, match="the machine cannot help"):
        prediction_powered_mean(y, np.ones(len(y)), np.ones(9))
    with pytest.raises(DataError, match="people judged 19 queries"):
        prediction_powered_mean(y[:19], f[:19], more)
    with pytest.raises(DataError, match="give both for the same queries"):
        prediction_powered_mean(y, f[1:], more)
    with pytest.raises(DataError, match="machine: give one finite value"):
        prediction_powered_mean(y, np.where(rng.random(len(f)) < 0.5, np.nan, f), more)


@pytest.fixture(scope="module")
def judged():
    """Grades of 30 queries by people and of 90 by a machine, by query and document, and two runs."""
    rng = np.random.default_rng(2)
    people, machine, runs = {}, {}, ({}, {})
    for query in range(90):
        truth = rng.integers(0, 3, 8)
        off = np.where(rng.random(8) < 0.02, 2 - truth, truth)
        machine[f"q{query}"] = {f"d{at}": int(grade) for at, grade in enumerate(off)}
        if query % 3 == 0:
            people[f"q{query}"] = {f"d{at}": int(grade) for at, grade in enumerate(truth)}
        for run, noise in zip(runs, (1.0, 3.0), strict=True):
            scores = truth + noise * rng.standard_normal(8)
            run[f"q{query}"] = {f"d{at}": float(score) for at, score in enumerate(scores)}
    return people, machine, runs


def test_evaluations_are_matched_by_query(judged):
    people, machine, runs = judged
    ours = [evaluate(people, run, "ndcg@10", policy="trec", missing_topics="skip") for run in runs]
    theirs = [evaluate(machine, run, "ndcg@10", policy="trec") for run in runs]
    value = dict(zip(theirs[0].query_ids.tolist(), theirs[0]["ndcg@10"], strict=True))
    f = [value[query] for query in ours[0].query_ids.tolist()]
    rest = [one for query, one in value.items() if query not in people]
    result = prediction_powered_evaluate(ours[0], theirs[0], "ndcg@10")
    assert result == prediction_powered_mean(ours[0]["ndcg@10"], f, rest)
    assert (result.n_people, result.n_machine) == (30, 60)
    difference = prediction_powered_compare(tuple(ours), tuple(theirs), "ndcg@10")
    assert difference.people_mean == pytest.approx(ours[0].mean["ndcg@10"] - ours[1].mean["ndcg@10"])
    with pytest.raises(DataError, match="the machine did not judge query q1;"):
        prediction_powered_evaluate(theirs[0], ours[0], "ndcg@10")


def test_queries_that_a_policy_leaves_out_are_refused_with_a_way_out(judged):
    people, machine, runs = judged
    empty = {**machine, "q1": dict.fromkeys(machine["q1"], 0)}
    ours, theirs = evaluate(people, runs[0], "ndcg@10"), evaluate(empty, runs[0], "ndcg@10")
    with pytest.raises(DataError, match=r"query q1 is left out .* policy='trec'"):
        prediction_powered_evaluate(ours, theirs, "ndcg@10")
