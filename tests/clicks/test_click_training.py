"""Clicks and judgements together: a weighted mean of both losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marginrank import Queries, Ranker, evaluate, tune
from marginrank.clicks import (
    ClickLog,
    PositionUser,
    Propensities,
    simulate_clicks,
    tune_with_judgements,
    with_judgements,
)
from marginrank.errors import DataError, ParameterError
from marginrank.losses import ClicksAndJudgements, Loss, PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from marginrank.training import empirical_risk

LOSSES: list[tuple[Loss, Loss, Loss]] = [
    (PairwiseHinge(), PairwiseHinge(), PairwiseHinge()),
    (PairwiseHinge(power=2), PairwiseHinge(power=2), PairwiseHinge(power=2)),
    (
        ClicksAndJudgements(PairwiseHinge(), StructuredLoss("ndcg@3")),
        PairwiseHinge(),
        StructuredLoss("ndcg@3"),
    ),
    (
        ClicksAndJudgements(SoftmaxCrossEntropy(), PairwiseHinge(power=2)),
        SoftmaxCrossEntropy(),
        PairwiseHinge(power=2),
    ),
    (
        ClicksAndJudgements(StructuredLoss("dcg@3", "dorm"), StructuredLoss("ap")).bounded("tight"),
        StructuredLoss("dcg@3", "dorm", bound="tight"),
        StructuredLoss("ap", bound="tight"),
    ),
]


def judged(seed: int = 0, n_queries: int = 30) -> Queries:
    """Rows of queries in random order; some queries have a single grade, and one a single document."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8 * n_queries, 3))
    grades = np.clip(np.round(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=len(X))), 0, 2)
    qid = np.repeat([f"query {n}" for n in range(n_queries)], 8)
    grades[qid == "query 3"] = 1.0
    order = rng.permutation(len(X))
    return Queries.from_arrays(
        X[order], grades[order], qid=qid[order], document_ids=[f"d{row}" for row in order], query_weights=None
    )


def clicks(queries: Queries, sessions: int = 500, seed: int = 0) -> ClickLog:
    log = simulate_clicks(
        queries, {"production": queries.feature(2)}, sessions, user=PositionUser(), depth=4, random_state=seed
    )
    return log.with_propensities(Propensities.power(1.0, depth=4))


@pytest.mark.parametrize(("both", "of_clicks", "of_grades"), LOSSES, ids=repr)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_risk_is_the_weighted_mean_of_both(both: Loss, of_clicks: Loss, of_grades: Loss, share: float) -> None:
    queries = judged()
    log, grades = clicks(queries), replace(judged(1, 12), query_weights=np.arange(1.0, 13.0))
    mixed = empirical_risk(with_judgements(log, grades, share).grouped, both)
    first = empirical_risk(log.to_queries(), of_clicks)
    second = empirical_risk(grades.grouped, of_grades)
    rng = np.random.default_rng(2)
    for theta in rng.normal(size=(4, 3)):
        value, gradient = mixed(theta)
        (a, slope_a), (b, slope_b) = first(theta), second(theta)
        assert value == pytest.approx((1 - share) * a + share * b, rel=1e-12)
        np.testing.assert_allclose(gradient, (1 - share) * slope_a + share * slope_b, atol=1e-12)
        if both.smooth:
            move = rng.normal(size=3)
            expected = (1 - share) * first.hessian_product(theta, move) + share * second.hessian_product(theta, move)
            np.testing.assert_allclose(mixed.hessian_product(theta, move), expected, atol=1e-12)


def test_the_ends_are_clicks_and_judgements_alone() -> None:
    log, grades = clicks(judged()), judged(1, 12)
    assert with_judgements(log, grades, 1.0) is grades
    np.testing.assert_array_equal(with_judgements(log, grades, 0.0).document_weights, log.to_queries().document_weights)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("ranksvm", {}),
        ("ranksvm-squared", {"scorer": "additive"}),
        (ClicksAndJudgements(PairwiseHinge(), StructuredLoss("ndcg@5")), {}),
        (ClicksAndJudgements(StructuredLoss("dcg@5"), StructuredLoss("ndcg@5")), {"bound": "tight"}),
        ("softmax", {"scorer": "boosted"}),
        ("softmax", {"scorer": "neural"}),
    ],
    ids=str,
)
def test_rankers_are_trained_on_both(method: Any, parameters: dict[str, Any]) -> None:
    if parameters.get("scorer") == "boosted":
        pytest.importorskip("lightgbm")
    if parameters.get("scorer") == "neural":
        pytest.importorskip("torch")
    log, grades, test = clicks(judged(n_queries=60), 2000), judged(1, 12), judged(2, 60)
    ranker = Ranker(method, **parameters).fit(with_judgements(log, grades, 0.5))
    production = evaluate(test, test.feature(2), "ndcg@5").mean["ndcg@5"]
    assert evaluate(test, ranker, "ndcg@5").mean["ndcg@5"] > production + 0.15


def test_the_share_is_chosen_on_held_out_judged_queries() -> None:
    grades, log = judged(1, 20), clicks(judged(n_queries=60), 2000)
    # Clicks that say the opposite of the judges are worth nothing.
    wrong = replace(log, documents=log.documents.with_features(-log.documents.X))
    options: dict[str, Any] = {"shares": [0.0, 0.5, 1.0], "Cs": [0.1, 10.0], "folds": 4, "criterion": "ndcg@5"}
    selection = tune_with_judgements(Ranker("ranksvm"), wrong, grades, **options)
    assert selection.share == 1.0
    assert str(selection).splitlines()[-1].split()[-1] == "chosen"
    test = judged(3, 60)
    good = tune_with_judgements(Ranker("ranksvm"), log, grades, **options)
    assert good.means[0.5, 10.0] > selection.means[0.0, 10.0] + 0.2
    assert good.ranker.C == good.C
    assert evaluate(test, good.ranker, "ndcg@5").mean["ndcg@5"] > 0.8
    # By hand: the mean over held-out queries of the first candidate.
    fold = np.random.default_rng(0).permutation(np.arange(20) % 4)
    values = []
    for number in range(4):
        held_out = np.flatnonzero(fold == number)
        names = set(grades.query_ids[held_out].tolist())
        kept = [row for row, name in enumerate(log.documents.query_ids.tolist()) if name not in names]
        both = with_judgements(log.to_queries()[np.array(kept)], grades[np.flatnonzero(fold != number)], 0.5)
        fitted = Ranker("ranksvm", C=10.0).fit(both)
        values.append(evaluate(grades[held_out], fitted, "ndcg@5")["ndcg@5"])
    assert good.means[0.5, 10.0] == pytest.approx(float(np.nanmean(np.concatenate(values))), abs=2e-3)


def test_trees_have_no_C_to_choose() -> None:
    pytest.importorskip("lightgbm")
    grades, log = judged(1, 12), clicks(judged(), 500)
    selection = tune_with_judgements(Ranker("softmax", scorer="boosted"), log, grades, shares=[0.5, 1.0], folds=2)
    assert len(selection.means) == 2


def test_bad_mixes_are_answered() -> None:
    grades, log = judged(1, 12), clicks(judged())
    with pytest.raises(ParameterError, match=r"share is 1.5; give a number from 0"):
        with_judgements(log, grades, 1.5)
    with pytest.raises(DataError, match="the clicks have no document weights"):
        with_judgements(grades, grades, 0.5)
    with pytest.raises(DataError, match="the judged queries have document weights"):
        with_judgements(log, log.to_queries(), 0.5)
    with pytest.raises(DataError, match="no judged query has documents of different grades"):
        with_judgements(log, replace(grades, judgements=np.ones(grades.n_documents)), 0.5)
    with pytest.raises(DataError, match="is not a sum over relevant documents"):
        Ranker("ndcg@10").fit(with_judgements(log, grades, 0.5))
    mixed = with_judgements(log, grades, 0.5)
    with pytest.raises(DataError, match="some of these queries have clicks and others grades"):
        evaluate(mixed, np.zeros(mixed.n_documents), "dcg@10")
    with pytest.raises(DataError, match="some of these queries have clicks and others grades"):
        tune(Ranker("ranksvm"), mixed, Cs=[1.0], folds=2)
    with pytest.raises(ParameterError, match="folds is 1 for 12 judged queries"):
        tune_with_judgements(Ranker("ranksvm"), log, grades, folds=1)
    with pytest.raises(ParameterError, match="shares is empty"):
        tune_with_judgements(Ranker("ranksvm"), log, grades, shares=[])
