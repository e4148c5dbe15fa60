"""What to judge next against enumeration of all missing grades, and the model of grades against scikit-learn."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from marginrank import Queries, evaluate
from marginrank.errors import DataError, ParameterError
from marginrank.evaluation.policies import Policy
from marginrank.judging import judge_next
from marginrank.judging.grade_model import expected_gains
from marginrank.judging.next_judgements import additive_measure, judging_pool

#: Means over all queries, ties averaged.
PLAIN = Policy("plain", "", ties="average", empty="zero")
MEASURES = ("dcg@3", "p@2", "rbp(p=0.7)", "dcg@2(gain=linear)")


def small(seed, n_systems=2, unjudged=4):
    """Two queries, systems that retrieve some of five documents, with ties, and what is judged."""
    rng = np.random.default_rng(seed)
    runs = {}
    for name in "abc"[:n_systems]:
        runs[name] = {}
        for query in ("q1", "q2"):
            retrieved = rng.permutation(5)[: rng.integers(3, 6)]
            runs[name][query] = {f"d{at}": float(rng.integers(0, 4)) for at in retrieved}
    pairs = sorted({(query, one) for run in runs.values() for query, of in run.items() for one in of})
    left = [pairs[at] for at in rng.permutation(len(pairs))[:unjudged]]
    judged = {"q1": {}, "q2": {}}
    for query, document in pairs:
        if (query, document) not in left:
            judged[query][document] = int(rng.integers(0, 3))
    return runs, judged, left


def difference(grades, runs, measure, a="a", b="b"):
    grades = {query: one or {"nothing": 0} for query, one in grades.items()}
    means = [evaluate(grades, runs[name], measure, policy=PLAIN).mean[measure] for name in (a, b)]
    return means[0] - means[1]


def completions(judged, left):
    for values in product([0, 1, 2], repeat=len(left)):
        grades = {query: dict(one) for query, one in judged.items()}
        for (query, document), value in zip(left, values, strict=True):
            grades[query][document] = value
        yield grades


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_those_of_all_grades_that_are_missing(seed, measure):
    runs, judged, left = small(seed)
    (verdict,) = judge_next(judged, runs, measure, grades=[0, 1, 2]).verdicts
    values = [difference(grades, runs, measure) for grades in completions(judged, left)]
    assert verdict.lowest == pytest.approx(min(values), abs=1e-12)
    assert verdict.highest == pytest.approx(max(values), abs=1e-12)
    assert verdict.final == (min(values) > 1e-12 or max(values) < -1e-12 or np.ptp(values) < 1e-12)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", range(6))
def test_documents_come_in_the_order_of_what_their_grade_changes(seed, measure):
    runs, _, _ = small(seed, unjudged=0)
    pairs = {(query, one) for run in runs.values() for query, of in run.items() for one in of}
    nothing = {"q1": {}, "q2": {}}
    swing = {}
    for query, document in pairs:
        graded = {**nothing, query: {document: 2}}
        swing[query, document] = abs(difference(graded, runs, measure))
    result = judge_next({"q1": {"x": 0}, "q2": {"x": 0}}, runs, measure, grades=[0, 1, 2])
    chosen = [swing[one.query, one.document] for one in result.documents]
    assert chosen == sorted(chosen, reverse=True)
    assert len(chosen) == sum(value > 1e-12 for value in swing.values())
    assert len(judge_next(nothing | {"q1": {"x": 0}}, runs, measure, budget=2).documents) == min(2, len(chosen))


def test_judged_documents_and_those_at_equal_ranks_are_not_chosen():
    runs = {"a": {"q": {"x": 3, "y": 2, "z": 1}}, "b": {"q": {"y": 3, "x": 2, "z": 1}}}
    assert [one.document for one in judge_next({"q": {"x": 1}}, runs).documents] == ["y"]
    done = judge_next({"q": {"x": 1, "y": 0}}, runs)
    assert done.documents == ()
    assert done.final
    assert done.decided
    assert done.verdicts[0].probability == 1.0
    assert "no grades of the unjudged documents can change" in str(done)


def test_rows_in_any_order_with_scores_are_as_runs():
    rng = np.random.default_rng(1)
    qid, ids = np.repeat(["u", "v", "w"], 8), np.array([f"d{at}" for at in range(24)])
    scores = {"a": rng.integers(0, 5, 24).astype(float), "b": rng.standard_normal(24)}
    grades = rng.integers(0, 3, 24)
    runs = {
        name: {q: dict(zip(ids[qid == q], one[qid == q].tolist(), strict=True)) for q in "uvw"}
        for name, one in scores.items()
    }
    truth = {q: dict(zip(ids[qid == q], grades[qid == q].tolist(), strict=True)) for q in "uvw"}
    order = rng.permutation(24)
    queries = Queries.from_arrays(np.zeros((24, 1)), grades[order], qid=qid[order], document_ids=ids[order])
    shuffled = judge_next(queries, {name: one[order] for name, one in scores.items()}, "dcg@4")
    plain = judge_next(truth, runs, "dcg@4")
    assert shuffled.verdicts[0].difference == pytest.approx(plain.verdicts[0].difference, abs=1e-12)
    assert plain.verdicts[0].difference == pytest.approx(difference(truth, runs, "dcg@4"), abs=1e-12)
    assert plain.final
    hidden = np.where(rng.random(24) < 0.5, np.nan, grades)
    known = {
        q: {d: int(g) for d, g, at in zip(ids, hidden, qid, strict=True) if at == q and not np.isnan(g)} for q in "uvw"
    }
    half = Queries.from_arrays(np.zeros((24, 1)), hidden[order], qid=qid[order], document_ids=ids[order])
    results = (
        judge_next(half, {name: one[order] for name, one in scores.items()}, "dcg@4", grades=[0, 1, 2]),
        judge_next(known, runs, "dcg@4", grades=[0, 1, 2]),
    )
    assert results[0].verdicts[0] == pytest.approx(results[1].verdicts[0])
    assert {(one.query, one.document) for one in results[0].documents} == {
        (one.query, one.document) for one in results[1].documents
    }
    unjudged = Queries.from_arrays(np.zeros((24, 1)), None, qid=qid[order], document_ids=ids[order])
    assert judge_next(unjudged, {name: one[order] for name, one in scores.items()}).n_judged == 0


def test_the_model_is_ridge_regression_times_what_the_query_is_worth():
    rng = np.random.default_rng(2)
    ranks, query = rng.random((2, 60)), np.repeat(np.arange(6), 10)
    gains, judged = rng.choice([0.0, 1.0, 3.0], 60), rng.random(60) < 0.6
    expected = expected_gains(ranks, query, gains, judged, 3.0)
    mean = ranks.mean(axis=0)
    X = np.column_stack([np.ones(60), mean, mean**2, ranks[0] - mean])
    penalized = X / np.sqrt([1, 1, 1, 10])
    ridge = Ridge(alpha=1.0, fit_intercept=False).fit(penalized[judged], gains[judged] - 0.3)
    # An offset of 0.3 on the intercept alone: the prior mean is a tenth of the highest gain.
    by_rank = np.clip(0.3 + penalized @ ridge.coef_, 0.015, 3.0)
    worth = [(3 + gains[judged & (query == q)].sum()) / (3 + by_rank[judged & (query == q)].sum()) for q in range(6)]
    np.testing.assert_allclose(expected.means, np.clip(by_rank * np.array(worth)[query], 0.015, 3.0), atol=1e-9)
    nothing = expected_gains(ranks, query, gains, np.zeros(60, dtype=bool), 3.0)
    np.testing.assert_allclose(nothing.means, 0.3)
    weights = rng.standard_normal(60)
    draws = rng.multivariate_normal(np.zeros(4), expected.covariance, 200_000) @ (X.T @ weights)
    spread = draws.var() + np.sum(weights**2 * expected.variances)
    assert expected.sum_variance(weights) == pytest.approx(spread, rel=0.02)


def simulated(seed, queries=30, documents=12):
    """Grades, and two systems, the first a little better."""
    rng = np.random.default_rng(seed)
    grades, runs = {}, {"a": {}, "b": {}}
    for at in range(queries):
        truth = rng.choice([0, 1, 2], documents, p=[0.7, 0.2, 0.1])
        grades[f"q{at}"] = {f"d{d}": int(value) for d, value in enumerate(truth)}
        for name, noise in (("a", 1.0), ("b", 1.6)):
            scores = truth + noise * rng.standard_normal(documents)
            runs[name][f"q{at}"] = {f"d{d}": float(value) for d, value in enumerate(scores)}
    return grades, runs


def test_judging_what_is_chosen_until_it_is_decided_finds_the_better_system():
    right, shares = 0, []
    for seed in range(20):
        grades, runs = simulated(seed)
        judged = {query: {"nothing": 0} for query in grades}
        while not (result := judge_next(judged, runs, budget=20, grades=[0, 1, 2])).decided:
            for one in result.documents:
                judged[one.query][one.document] = grades[one.query][one.document]
        truth = difference(grades, runs, "dcg@10")
        right += np.sign(result.verdicts[0].difference) == np.sign(truth)
        shares.append(result.n_judged / result.n_documents)
    assert right >= 18
    assert np.mean(shares) < 0.6


def test_only_pairs_that_are_undecided_choose_documents():
    # a and b are the same but for q2; c is far behind both
    runs = {
        "a": {"q1": {"x": 3, "y": 2}, "q2": {"u": 2, "v": 1}},
        "b": {"q1": {"x": 3, "y": 2}, "q2": {"v": 2, "u": 1}},
        "c": {"q1": {"n": 3, "m": 2}, "q2": {"o": 3, "p": 2}},
    }
    judged = {"q1": {"x": 2, "y": 2, "n": 0, "m": 0}, "q2": {"o": 0, "p": 0}}
    result = judge_next(judged, runs, "dcg@2", grades=[0, 1, 2])
    pairs = {(one.system, one.other): one for one in result.verdicts}
    assert pairs["a", "c"].final
    assert pairs["b", "c"].final
    assert not pairs["a", "b"].final
    assert {one.document for one in result.documents} == {"u", "v"}


def test_what_is_wrong_is_said_with_a_way_out(tmp_path):
    runs, judged, _ = small(0)
    with pytest.raises(ParameterError, match=r"measure is ndcg@10, which is not a sum over documents.*dcg@10"):
        judge_next(judged, runs, "ndcg@10")
    with pytest.raises(ParameterError, match="not a sum over documents"):
        additive_measure("wta")
    with pytest.raises(DataError, match="needs two systems"):
        judge_next(judged, {"a": runs["a"]})
    with pytest.raises(ParameterError, match="budget is 0"):
        judge_next(judged, runs, budget=0)
    with pytest.raises(ParameterError, match=r"grades are 0 to 1, and a document has grade 2"):
        judge_next({"q1": {"d0": 2, "d1": 2, "d2": 2, "d3": 2, "d4": 2}}, runs, grades=[0, 1])
    with pytest.raises(ParameterError, match="two or more numbers"):
        judge_next(judged, runs, grades=[1])
    result = judge_next(judged, runs)
    result.write(tmp_path / "next.csv")
    lines = (tmp_path / "next.csv").read_text().splitlines()
    assert lines[0] == "query_id,document_id,leverage"
    assert len(lines) == len(result.documents) + 1
    assert result.to_dict()["documents_in_all"] == len(judging_pool(judged, runs, additive_measure("dcg@10")).grades)
