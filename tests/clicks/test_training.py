"""Training, tuning and evaluation from clicks, against plain sums over the rows of the log."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from marginrank import Queries, Ranker, compare, evaluate, tune
from marginrank.clicks import (
    ClickLog,
    PositionUser,
    Propensities,
    document_weights,
    evaluate_clicks,
    exposure_weights,
    simulate_clicks,
)
from marginrank.data.partitions import LocalPartitions, PartitionedQueries
from marginrank.errors import DataError, ParameterError
from marginrank.losses import Loss, PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from marginrank.ranker import learn_profile
from marginrank.training import empirical_risk
from marginrank.typing import FloatArray

CURVE = Propensities.power(1.0, depth=5)
LOSSES: list[Loss] = [
    PairwiseHinge(),
    PairwiseHinge(power=2, normalize="none"),
    StructuredLoss("dcg@3", "po"),
    StructuredLoss("dcg@3", "dorm", bound="tight"),
    StructuredLoss("p@2"),
    SoftmaxCrossEntropy(),
]


def small_log(seed: int = 0, n_rows: int = 60, n_queries: int = 6) -> ClickLog:
    """Rows in random order, with string ids, several clicks on one document, and documents shown without a click."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n_queries, 4, 3))
    query, document = rng.integers(0, n_queries, n_rows), rng.integers(0, 4, n_rows)
    position = rng.integers(1, 6, n_rows)
    chance = 1 / (1 + np.exp(-2 * table[query, document, 0])) / position
    return ClickLog.from_arrays(
        [f"query {number}" for number in query],
        [f"document {number}" for number in document],
        position,
        (rng.random(n_rows) < chance).astype(int),
        weight=rng.uniform(0.5, 2, n_rows),
        features=table[query, document],
        propensity=1 / position,
    )


def weight_of_clicks(log: ClickLog) -> FloatArray:
    """Return impressions of the query / examinations of the document for each row, by loops over the rows."""
    out = np.zeros(len(log))
    for row in range(len(log)):
        examined, shown_at = 0.0, dict.fromkeys(range(1, 6), 0.0)
        for other in range(len(log)):
            if log.query[other] == log.query[row]:
                shown_at[int(log.position[other])] += log.shown[other]
                examined += (log.pair[other] == log.pair[row]) * log.shown[other] / log.position[other]
        out[row] = max(shown_at.values()) / examined
    return out


def copied_rows(log: ClickLog, weight: FloatArray) -> Queries:
    """Return a query of its own for every click: the rows of all documents shown for its query, copied."""
    documents, parts, weights = log.documents, [], []
    for row in np.flatnonzero(log.clicks):
        start, stop = documents.offsets[log.query[row] : log.query[row] + 2]
        parts.append((documents.X[start:stop], (np.arange(start, stop) == log.pair[row]).astype(float)))
        weights.append(log.clicks[row] * weight[row])
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Queries.from_arrays(X, y, group=[len(grades) for _, grades in parts], query_weights=weights)


@pytest.mark.parametrize("weights", ["exposure", "click"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_log_has_the_risk_of_copied_rows(loss: Loss, weights: Any) -> None:
    log = small_log()
    weight = weight_of_clicks(log) if weights == "exposure" else log.position.astype(float)
    risk = empirical_risk(log.to_queries(weights=weights), loss)
    copied = empirical_risk(copied_rows(log, weight), loss)
    for theta in np.random.default_rng(1).normal(size=(5, 3)):
        value, gradient = risk(theta)
        expected, expected_gradient = copied(theta)
        assert value == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-9)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.convex], ids=repr)
def test_fit_on_a_log_reaches_the_optimum_of_copied_rows(loss: Loss) -> None:
    log = small_log(2)
    ranker, copied = (
        Ranker(loss, C=5.0, scaling=None).fit(data) for data in (log, copied_rows(log, weight_of_clicks(log)))
    )
    assert ranker.objective_ == pytest.approx(copied.objective_, abs=ranker.gap_ + copied.gap_ + 1e-9)
    assert ranker.gap_ <= 0.01 * ranker.objective_


def by_cvxpy(log: ClickLog, C: float, example: Any) -> float:
    """Minimize ½‖w‖² + C·Σ clicks·weight·ξ / Σ clicks·weight, where an example gives the terms that bound ξ."""
    w, terms, total = cp.Variable(log.documents.n_features), [], 0.0
    weight = weight_of_clicks(log)
    for row in np.flatnonzero(log.clicks):
        start, stop = log.documents.offsets[log.query[row] : log.query[row] + 2]
        if stop - start > 1:
            scores = log.documents.X[start:stop] @ w
            value = float(log.clicks[row] * weight[row])
            terms.append(value * example(scores, int(log.pair[row] - start), int(stop - start)))
            total += value
    return float(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * sum(terms) / total)).solve(solver=cp.CLARABEL))


def hinges(scores: Any, clicked: int, n: int) -> Any:
    """Propensity SVM-rank: the sum of hinges bounds the rank of the clicked document minus 1."""
    return cp.sum([cp.pos(1 - (scores[clicked] - scores[other])) for other in range(n) if other != clicked])


def dcg_hinge(scores: Any, clicked: int, n: int) -> Any:
    """The structured hinge of DCG@3 under φpo, by all rankings: max_y Δ(y) + score of y − score of y*.

    With one relevant document, φpo sums (s_clicked − s_other) over the others, + before and − behind the clicked one,
    each divided by the number of pairs.
    """
    slacks = []
    for ranking in permutations(range(n)):
        rank = ranking.index(clicked)
        delta = 1.0 - (1 / np.log2(2 + rank) if rank < 3 else 0.0)
        before = [2 * (scores[clicked] - scores[other]) / (n - 1) for other in ranking[:rank]]
        slacks.append(delta - sum(before))
    return cp.maximum(*slacks) if len(slacks) > 1 else slacks[0]


@pytest.mark.parametrize(
    ("loss", "example"),
    [(PairwiseHinge(normalize="none"), hinges), (StructuredLoss("dcg@3", "po"), dcg_hinge)],
    ids=["Propensity SVM-rank", "DCG"],
)
def test_objective_and_certificate_hold_against_cvxpy(loss: Loss, example: Any) -> None:
    log = small_log(3)
    ranker = Ranker(loss, C=2.0, scaling=None).fit(log)
    best = by_cvxpy(log, 2.0, example)
    assert best - 1e-6 <= ranker.objective_ <= best + ranker.gap_ + 1e-6


def test_propensities_may_be_given_or_on_the_log() -> None:
    log = small_log()
    bare = replace(log, propensity=None)
    np.testing.assert_allclose(bare.to_queries(CURVE).document_weights, log.to_queries().document_weights)
    given = bare.to_queries(CURVE, weights="click")
    np.testing.assert_array_equal(bare.with_propensities(CURVE).propensity, log.propensity)
    expected = np.zeros(log.documents.n_documents)
    np.add.at(expected, log.pair, log.clicks * log.position)
    np.testing.assert_allclose(given.document_weights, expected)
    np.testing.assert_array_equal(given.grades, expected > 0)
    clipped = bare.with_propensities(CURVE.clipped(0.5)).propensity
    np.testing.assert_array_equal(clipped, np.maximum(log.propensity, 0.5))


def test_documents_that_were_never_shown_are_left_out() -> None:
    log = ClickLog.from_counts(["a"] * 3, ["x", "y", "z"], [1, 2, 3], shown=[9, 9, 0], clicks=[1, 4, 0])
    log = replace(log, documents=log.documents.with_features(np.arange(6.0).reshape(3, 2)))
    queries = log.to_queries(CURVE)
    assert queries.document_names.tolist() == ["x", "y"]
    assert queries.document_weights is not None
    assert queries.document_weights.tolist() == [1.0, 8.0]
    assert queries.X.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_an_aggregated_log_and_another_order_of_rows_train_the_same_model() -> None:
    log = small_log(4)
    coef = Ranker("ranksvm-squared", C=3.0).fit(log).coef_
    np.testing.assert_allclose(Ranker("ranksvm-squared", C=3.0).fit(log.aggregated()).coef_, coef, atol=1e-8)
    shuffled = log.rows(np.random.default_rng(0).permutation(len(log)))
    np.testing.assert_allclose(Ranker("ranksvm-squared", C=3.0).fit(shuffled).coef_, coef, atol=1e-4)


def test_bad_logs_are_answered() -> None:
    log = small_log()
    with pytest.raises(DataError, match=r"no propensities; estimate .* log.with_propensities\(Propensities.power"):
        Ranker("ranksvm").fit(replace(log, propensity=None))
    with pytest.raises(DataError, match=r"no features to train on; join them with log.with_features\(table\)"):
        Ranker("ranksvm").fit(ClickLog.from_arrays([1, 1], [1, 2], [1, 2], [1, 0], propensity=[1, 1]))
    with pytest.raises(DataError, match="the log has no clicks"):
        Ranker("ranksvm").fit(replace(log, clicks=np.zeros(len(log))))
    with pytest.raises(DataError, match="pass it without y"):
        Ranker("ranksvm").fit(log, np.zeros(len(log)))
    with pytest.raises(ParameterError, match="weighting='pairs' weights queries by their grades"):
        Ranker("ranksvm", weighting="pairs").fit(log)
    with pytest.raises(DataError, match="profiles are learned from grades"):
        learn_profile(Ranker(StructuredLoss("dcg@3", "dorm")), log.to_queries())


def test_trust_bias_may_leave_fewer_clicks_than_none() -> None:
    log = replace(small_log(), propensity=None)
    trust = Propensities.of(CURVE.values, trust=(0.9, 0.3))
    with pytest.raises(DataError, match=r"corrected clicks, fewer than irrelevant documents have, .*negative='zero'"):
        log.to_queries(trust)
    queries = log.to_queries(trust, weights="click", negative="zero")
    alpha, beta = CURVE.values * (0.9 - 0.3), CURVE.values * 0.3
    rows = (log.clicks - beta[log.position - 1] * log.shown) / alpha[log.position - 1]
    expected = np.maximum(np.bincount(log.pair, rows, log.documents.n_documents), 0.0)
    np.testing.assert_allclose(queries.document_weights, expected)
    clicks = np.bincount(log.pair, log.clicks - beta[log.position - 1] * log.shown, log.documents.n_documents)
    exposure = np.bincount(log.pair, alpha[log.position - 1] * log.shown, log.documents.n_documents)
    pooled = np.maximum(clicks / exposure, 0.0) * log.impressions[log.documents.query_of_row]
    np.testing.assert_allclose(log.to_queries(trust, negative="zero").document_weights, pooled)
    with pytest.raises(DataError, match=r"not a propensity of rows; give it where the log is used"):
        log.with_propensities(trust)


@pytest.mark.parametrize("method", ["ndcg@10", "svmmap", "rr", "svmndcg@5", "ndcg@10 + dcg@10"])
def test_measures_that_are_no_sums_over_relevant_documents_are_refused(method: str) -> None:
    with pytest.raises(DataError, match=r"is not a sum over relevant documents, .*; train 'ranksvm'"):
        Ranker(method).fit(small_log())


def larger_log(seed: int = 0, n_queries: int = 60) -> tuple[ClickLog, Queries]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10 * n_queries, 3))
    grades = (X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=len(X)) > 1.2).astype(float)
    qid = rng.permutation(np.repeat([f"query {n}" for n in range(n_queries)], 10))
    queries = Queries.from_arrays(X, grades, qid=qid, document_ids=[f"d{n}" for n in range(len(X))])
    production = queries.feature(2)
    log = simulate_clicks(queries, {"production": production}, 3000, user=PositionUser(eta=1.0), depth=5)
    return log.with_propensities(CURVE), queries


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("ranksvm", {}),
        ("softmax", {}),
        (StructuredLoss("dcg@5"), {}),
        (StructuredLoss("dcg@5"), {"bound": "tight"}),
        ("ranksvm", {"scorer": "additive"}),
        ("ranksvm", {"scorer": "adaptive(context=1)"}),
        ("ranksvm", {"scorer": "kernel"}),
        ("softmax", {"scorer": "boosted", "solver": "auto"}),
        ("ranksvm", {"scorer": "boosted"}),
        ("softmax", {"scorer": "neural"}),
    ],
    ids=str,
)
def test_every_scorer_learns_from_clicks(method: Any, parameters: dict[str, Any]) -> None:
    if parameters.get("scorer") == "boosted":
        pytest.importorskip("lightgbm")
    if parameters.get("scorer") == "neural":
        pytest.importorskip("torch")
    log, queries = larger_log()
    ranker = Ranker(method, **parameters).fit(log)
    production = evaluate(queries, queries.feature(2), "ndcg@10").mean["ndcg@10"]
    assert evaluate(queries, ranker, "ndcg@10").mean["ndcg@10"] > production + 0.2


@pytest.mark.parametrize("scorer", ["linear", "additive"])
def test_partitions_train_the_same_model(scorer: str) -> None:
    log, _ = larger_log(1)
    queries = log.to_queries()
    parts = queries[np.arange(7)], queries[np.arange(7, 40)], queries[np.arange(40, len(queries))]
    partitioned = PartitionedQueries(LocalPartitions([lambda part=part: part for part in parts]))
    one, several = (Ranker("ranksvm", C=2.0, scorer=scorer).fit(data) for data in (log, partitioned))
    assert several.objective_ == pytest.approx(one.objective_, abs=one.gap_ + several.gap_ + 1e-9)
    assert several.score(partitioned) == pytest.approx(several.score(queries))
    mixed = [parts[0], replace(parts[1], document_weights=None)]
    with pytest.raises(DataError, match="has no document weights; give them to all or to none"):
        Ranker("ranksvm").fit(PartitionedQueries(LocalPartitions([lambda part=part: part for part in mixed])))
    Cs = [0.01, 1.0]
    tuned = [tune(Ranker("ranksvm", scorer=scorer), data, Cs=Cs, folds=3) for data in (log, partitioned)]
    assert [c.mean for c in tuned[0].candidates] == pytest.approx([c.mean for c in tuned[1].candidates], abs=1e-3)


def test_batches_continue_from_clicks() -> None:
    log, _ = larger_log(2)
    ranker = Ranker("ranksvm").fit(log)
    before = ranker.coef_.copy()
    ranker.partial_fit(log.rows(log.query < 20))
    assert not np.array_equal(ranker.coef_, before)


def test_values_of_weighted_documents_are_means_over_relevant_ones_by_weight() -> None:
    queries = Queries.from_arrays(
        np.zeros((6, 1)),
        [2, 0, 1, 0, 1, 0],
        qid=["b", "a", "b", "b", "a", "c"],
        query_weights=[1, 3, 5],
        document_weights=[1.5, 9, 2, 9, 4, 9],
    )
    scores = [0.1, 0.9, 0.8, 0.5, 0.4, 0.0]
    result = evaluate(queries, scores, ["dcg@2", "dcg", "p@2"])
    # Query b: documents of weight 3 and 2 at ranks 3 and 1; query a: weight 4 at rank 2; query c: nothing relevant.
    np.testing.assert_allclose(result["dcg"], [(3 * 0.5 + 2) / 5, 1 / np.log2(3), np.nan])
    np.testing.assert_allclose(result["dcg@2"], [2 / 5, 1 / np.log2(3), np.nan])
    np.testing.assert_allclose(result["p@2"], [2 / 5 / 2, 1 / 2, np.nan])
    assert result.mean["dcg@2"] == pytest.approx((5 * 0.4 + 12 / np.log2(3)) / 17)
    for measure in ("ndcg@10", "ap", "rr", "auc", "recall@5"):
        with pytest.raises(DataError, match=r"is not a sum over relevant documents, .* evaluate dcg@10 or p@10"):
            evaluate(queries, scores, measure)
    with pytest.raises(DataError, match="is not a sum over relevant documents"):
        compare({"a": scores, "b": scores[::-1]}, queries)
    ties = evaluate(queries, np.zeros(6), "dcg", policy="lightgbm")
    assert ties.counted("dcg") == 2


def test_evaluate_is_the_self_normalized_estimate() -> None:
    log = small_log(5)
    scores = log.documents.X[:, 0]
    expected = evaluate_clicks(log, scores, "dcg@2", estimator="snips")
    assert evaluate(log.to_queries(), scores, "dcg@2").mean["dcg@2"] == pytest.approx(expected.mean["snips dcg@2"])


def test_tune_chooses_by_the_estimate_from_clicks_on_held_out_queries() -> None:
    log, _ = larger_log(3)
    rows = log.query < 40
    train, held_out = log.rows(rows), log.rows(~rows)
    Cs = [1e-3, 0.1, 10.0]
    selection = tune(Ranker("ranksvm"), train, valid=held_out, Cs=Cs)
    rankers = Ranker("ranksvm").fit_path(train, Cs=Cs)
    ips = [evaluate_clicks(held_out, ranker, "dcg@10") for ranker in rankers]
    means = [result.mean["ips dcg@10"] for result in ips]
    assert selection.criterion == "dcg@10"
    assert selection.best.parameters["C"] == Cs[int(np.argmax(means))]
    snips = [evaluate_clicks(held_out, r, "dcg@10", estimator="snips").mean["snips dcg@10"] for r in rankers]
    assert [candidate.mean for candidate in selection.candidates] == pytest.approx(snips)
    # Both estimates differ by a factor that is the same for all candidates.
    np.testing.assert_allclose(np.array(means) / means[0], np.array(snips) / snips[0])


def test_tune_refuses_a_criterion_that_clicks_do_not_estimate() -> None:
    log, _ = larger_log(4)
    with pytest.raises(DataError, match=r"ndcg@10 is not a sum over relevant documents"):
        tune(Ranker("ranksvm"), log, criterion="ndcg@10", Cs=[1.0])


def test_tune_stops_trees_by_clicks() -> None:
    pytest.importorskip("lightgbm")
    log, queries = larger_log(5)
    selection = tune(Ranker("softmax", scorer="boosted"), log, folds=2, grid={"scorer__leaves": [4]})
    assert selection.criterion.startswith("dcg")
    assert evaluate(queries, selection.ranker, "ndcg@10").mean["ndcg@10"] > 0.7


def test_early_stopping_takes_a_log() -> None:
    log, _ = larger_log(6)
    train, held_out = log.rows(log.query < 40), log.rows(log.query >= 40)
    ranker = Ranker("ranksvm", C=10.0, patience=2).fit(train, validation=held_out)
    plain = Ranker("ranksvm", C=10.0).fit(train)
    queries = held_out.to_queries()
    best, last = (evaluate(queries, each, "dcg@10").mean["dcg@10"] for each in (ranker, plain))
    assert best >= last
    assert ranker.score(held_out) == pytest.approx(best)


def test_documents_that_only_some_rankers_show_are_weighted_without_bias() -> None:
    rng = np.random.default_rng(0)
    grades = np.array([1.0, 1.0, 1.0, 0.0])
    queries = Queries.from_arrays(rng.normal(size=(4, 1)), grades, group=[4], document_ids=list("abcd"))
    # Document a is shown by both rankers, b by the first only, c by the second only.
    systems = {"first": np.array([4.0, 3, 1, 2]), "second": np.array([1.0, 0, 4, 3])}
    settings: dict[str, Any] = {"depth": 3, "aggregate": True, "user": PositionUser(irrelevant=0.0)}
    log = simulate_clicks(queries, systems, 40_000, **settings, shares=[0.75, 0.25], random_state=1)
    curve = Propensities.power(1.0, depth=3)
    relevance = exposure_weights(log, curve) / log.impressions[0]
    np.testing.assert_allclose(relevance, grades, atol=0.03)
    by_click = document_weights(log, curve) / log.impressions[0]
    np.testing.assert_allclose(by_click, [1.0, 0.75, 0.25, 0.0], atol=0.03)
    with pytest.raises(ValueError, match="no weights 'both'; choose 'exposure' or 'click'"):
        log.to_queries(curve, weights="both")  # type: ignore[arg-type]
