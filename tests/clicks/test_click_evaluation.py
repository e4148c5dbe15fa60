"""Estimates from clicks against full information."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import DataError
from marginrank.clicks import (
    ClickLog,
    PositionUser,
    Propensities,
    click_agreement,
    click_interval,
    compare_clicks,
    evaluate_clicks,
    simulate_clicks,
)
from marginrank.errors import ParameterError
from tests.clicks.test_propensities import judged


@pytest.fixture(scope="module")
def case():
    queries = judged(30, 8)
    log = simulate_clicks(
        queries,
        {"s": queries.feature(0)},
        300_000,
        user=PositionUser(eta=1.0, irrelevant=0.0),
        depth=8,
        aggregate=True,
    )
    scores = dict(zip(queries.document_names.tolist(), queries.feature(1).tolist(), strict=True))
    other = np.array([scores[name] for name in log.documents.document_ids.tolist()])
    grades = dict(zip(queries.document_names.tolist(), queries.grades.tolist(), strict=True))
    relevance = np.array([(2 ** grades[name] - 1) / 3 for name in log.documents.document_ids.tolist()])
    return queries, log, other, relevance


def ranks(log, scores):
    query = log.documents.query_of_row
    return np.array([1 + np.sum((query == query[row]) & (scores > scores[row])) for row in range(len(scores))])


def test_estimates_are_those_of_full_information(case):
    _, log, other, relevance = case
    rank, query = ranks(log, other), log.documents.query_of_row
    share = log.impressions / log.impressions.sum()
    truth = np.sum(share[query] * relevance * (rank <= 3) / np.log2(1 + rank))
    curve = Propensities.power(1.0, 8)
    estimate = evaluate_clicks(log, other, "dcg@3", propensities=curve)
    assert estimate.mean["ips dcg@3"] == pytest.approx(truth, rel=0.02)
    low, high = click_interval(estimate)
    assert low < estimate.mean["ips dcg@3"] < high
    mean_rank = np.sum(share[query] * relevance * rank) / np.sum(share[query] * relevance)
    found = evaluate_clicks(log, other, "rank", propensities=curve, estimator="snips")
    assert found.mean["snips rank"] == pytest.approx(mean_rank, rel=0.02)
    naive = evaluate_clicks(log, other, "dcg@3", propensities=Propensities.of(np.ones(8)))
    assert naive.mean["ips dcg@3"] < 0.7 * truth


def test_systems_are_compared_on_clicks(case):
    _, log, other, relevance = case
    result = compare_clicks(log, {"ideal": relevance, "other": other}, propensities=Propensities.power(1.0, 8))
    row = result.rows[0]
    assert row.difference > 0
    assert row.verdict == "better"


def test_the_system_with_the_lower_rank_is_better(case):
    _, log, other, relevance = case
    systems = {"ideal": relevance, "other": other}
    by_rank = compare_clicks(log, systems, "rank", propensities=Propensities.power(1.0, 8)).rows[0]
    by_gain = compare_clicks(log, systems, propensities=Propensities.power(1.0, 8)).rows[0]
    assert by_rank.difference < 0 < by_gain.difference
    assert by_rank.verdict == by_gain.verdict == "better"
    assert by_rank.wins > by_rank.losses
    turned = compare_clicks(log, systems, "rank", propensities=Propensities.power(1.0, 8)).turned().rows[0]
    assert (turned.system, turned.verdict, turned.wins) == ("other", "worse", by_rank.losses)


def test_clicks_and_judges_agree_or_not(case):
    queries, log, _, relevance = case
    from dataclasses import replace

    named = replace(queries, document_ids=queries.document_names)
    curve = Propensities.power(1.0, 8)
    found = click_agreement(log, named, propensities=curve)
    assert found.share > 0.97
    assert "clicks and judges agree" in str(found)
    pairs = sum(
        int(np.sum(relevance[rows][:, None] > relevance[rows][None, :]))
        for rows in (np.flatnonzero(log.documents.query_of_row == q) for q in range(len(log.documents)))
    )
    assert found.n_pairs == pairs
    turned = replace(named, judgements=2 - named.grades)
    assert click_agreement(log, turned, propensities=curve).share == pytest.approx(1 - found.share)


def test_what_cannot_be_evaluated_is_refused(case):
    _, log, other, _ = case
    with pytest.raises(ParameterError, match="NDCG"):
        evaluate_clicks(log, other, "ndcg@10", propensities=Propensities.power(1.0, 8))
    with pytest.raises(DataError, match="no propensities"):
        evaluate_clicks(log, other)
    with pytest.raises(DataError, match="one score for each"):
        evaluate_clicks(log, other[:-1], propensities=Propensities.power(1.0, 8))
    silent = ClickLog.from_arrays([1, 1], ["x", "y"], [1, 2], [0, 0], propensity=[1, 1])
    with pytest.raises(DataError, match="no clicks"):
        evaluate_clicks(silent, [1, 2])


def test_documents_that_few_impressions_show_count_as_if_all_did():
    """By hand: x is clicked in one of two impressions at position 1, y in its only one, at position 2 with p = ½."""
    log = ClickLog.from_arrays([1, 1, 1], ["x", "y", "x"], [1, 2, 1], [0, 1, 1])
    scores = [1.0 if name == "y" else 0.0 for name in log.documents.document_names]
    result = evaluate_clicks(log, scores, "dcg", propensities=Propensities.power(1.0, 2))
    assert result.mean["ips dcg"] == pytest.approx(2.0 * 1.0 + 0.5 / np.log2(3))
