"""Preferences: files, training against cvxpy, accuracy against counting, position bias, cycles."""

from __future__ import annotations

import json
from itertools import permutations

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from marginrank import Queries, Ranker, tune
from marginrank.data import Run
from marginrank.errors import DataError
from marginrank.judging import Preferences, agreement, read_preferences
from marginrank.losses import NDCGPairwiseHinge, PairwiseHinge, SoftmaxCrossEntropy
from marginrank.scorers import Additive

SHARE = SoftmaxCrossEntropy(target="share")


def example(seed=0, n_queries=12, n_documents=6, n=150):
    """Documents with features, and preferences by a noisy hidden score, in a random order of rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 4))
    qid = [f"q{row // n_documents}" for row in range(len(X))]
    names = [f"d{row % n_documents}" for row in range(len(X))]
    order = rng.permutation(len(X))
    documents = Queries.from_arrays(
        X[order], qid=np.array(qid)[order], document_ids=np.array(names)[order], feature_names=list("abcd")
    )
    hidden = X @ [1.0, -0.5, 0.0, 0.25]
    rows = []
    for _ in range(n):
        query = rng.integers(n_queries)
        one, other = query * n_documents + rng.choice(n_documents, 2, replace=False)
        if hidden[one] + rng.standard_normal() < hidden[other]:
            one, other = other, one
        rows.append((one, other))
    better, worse = np.array(rows).T
    preferences = Preferences.of(np.array(qid)[better], np.array(names)[better], np.array(names)[worse])
    return preferences, documents, X[better] - X[worse]


def objective_of(kind, margins):
    """The terms of the losses by their definitions."""
    if kind == "hinge":
        return cp.pos(1 - margins)
    return cp.square(cp.pos(1 - margins)) if kind == "squared" else cp.logistic(-margins)


@pytest.mark.parametrize(
    ("kind", "loss"), [("hinge", PairwiseHinge()), ("squared", PairwiseHinge(power=2)), ("logistic", SHARE)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_training_minimizes_the_sum_over_preferences(kind, loss, weighted):
    preferences, documents, differences = example()
    weights = np.ones(len(preferences))
    if weighted:
        preferences = preferences.balanced()
        counts = pd.Series(preferences.query_ids).map(pd.Series(preferences.query_ids).value_counts())
        weights = 1.0 / counts.to_numpy()
        np.testing.assert_allclose(preferences.weights, weights)
    C = 5.0
    w = cp.Variable(4)
    terms = objective_of(kind, differences @ w)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * (weights / weights.sum()) @ terms))
    best = problem.solve()
    ranker = Ranker(loss=loss, C=C, scaling=None).fit(preferences.with_documents(documents))
    objective = 0.5 * ranker.coef_ @ ranker.coef_ + C * (weights / weights.sum()) @ terms_at(
        kind, differences @ ranker.coef_
    )
    assert best - 1e-5 <= objective <= best + ranker.gap_ + 1e-5
    assert ranker.gap_ < 0.02 * best
    np.testing.assert_allclose(ranker.coef_, w.value, atol=0.05)
    assert ranker.feature_names_in_.tolist() == list("abcd")


def terms_at(kind, margins):
    hinge = np.maximum(0.0, 1.0 - margins)
    return {"hinge": hinge, "squared": hinge**2, "logistic": np.log1p(np.exp(-margins))}[kind]


def test_ranksvm_and_other_scorers_learn_preferences():
    preferences, documents, _ = example(n=400)
    joined = preferences.with_documents(documents)
    for ranker in (Ranker("ranksvm"), Ranker("softmax"), Ranker("ranksvm", scorer=Additive(bins=4))):
        assert joined.accuracy(ranker.fit(joined)).value > 0.7
    path = Ranker("ranksvm").fit_path(joined, Cs=[0.1, 1.0])
    assert [one.C for one in path] == [0.1, 1.0]


def test_contradictions_and_cycles_are_trained_on_as_they_are():
    X = [[1.0], [2.0], [3.0]]
    documents = Queries.from_arrays(X, qid=["q"] * 3, document_ids=["a", "b", "c"])
    circle = Preferences.of(["q"] * 4, ["a", "b", "c", "a"], ["b", "c", "a", "c"]).with_documents(documents)
    assert circle.cyclic.tolist() == [True, True, True, True]
    # Σ of hinges of margins -w, -w, 2w, -2w: minimal at w = 0 for the hinge with C small, and cvxpy for the square.
    w = cp.Variable(1)
    margins = np.array([[-1.0], [-1.0], [2.0], [-2.0]]) @ w
    best = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 3.0 * cp.sum(cp.square(cp.pos(1 - margins))) / 4)).solve()
    ranker = Ranker(loss=PairwiseHinge(power=2), C=3.0, scaling=None).fit(circle)
    np.testing.assert_allclose(ranker.coef_, w.value, atol=1e-3)
    assert ranker.objective_ == pytest.approx(best, rel=1e-3)
    chain = Preferences.of(["q"] * 3 + ["p"], ["a", "b", "a", "b"], ["b", "c", "c", "a"])
    assert not chain.cyclic.any()  # b over a is for another query
    assert Preferences.of(["q", "q"], ["a", "b"], ["b", "a"]).cyclic.all()


@pytest.mark.parametrize("seed", range(5))
def test_a_cycle_is_what_no_ranking_satisfies(seed):
    rng = np.random.default_rng(seed)
    pairs = [tuple(rng.choice(list("abcd"), 2, replace=False)) for _ in range(5)]
    preferences = Preferences.of(["q"] * 5, *zip(*pairs, strict=True))
    satisfied = any(all(one.index(a) < one.index(b) for a, b in pairs) for one in permutations("abcd"))
    assert preferences.cyclic.any() != satisfied


@pytest.mark.parametrize(
    "ranker",
    [
        Ranker(),
        Ranker("svmmap"),
        Ranker("ndcg@10"),
        Ranker("regression"),
        Ranker("rankboost"),
        Ranker(NDCGPairwiseHinge()),
    ],
)
def test_methods_of_whole_rankings_are_refused_with_the_reason(ranker):
    preferences, documents, _ = example()
    with pytest.raises(DataError, match=r"cannot be trained on preferences: they say which of two documents is better"):
        ranker.fit(preferences.with_documents(documents))


def test_what_needs_whole_queries_is_refused():
    preferences, documents, _ = example()
    joined = preferences.with_documents(documents)
    with pytest.raises(DataError, match="scaling query-minmax is computed over all documents of a query"):
        Ranker("ranksvm", scaling="query-minmax").fit(joined)
    with pytest.raises(DataError, match="preferences are pairs, not whole queries"):
        tune(Ranker("ranksvm"), joined)
    with pytest.raises(DataError, match="preferences are pairs, not whole queries"):
        Ranker("ranksvm").fit(joined, validation=joined)
    with pytest.raises(DataError, match="join them with preferences"):
        Ranker("ranksvm").fit(preferences)
    with pytest.raises(DataError, match="document d9 of query q0 is not among the documents"):
        Preferences.of(["q0"], ["d1"], ["d9"]).with_documents(documents)


def test_accuracy_is_the_share_of_right_pairs_by_every_door():
    preferences, documents, _ = example()
    joined = preferences.with_documents(documents)
    scores = np.random.default_rng(1).integers(0, 3, documents.n_documents).astype(float)
    by_pair = {}
    query = documents.query_ids[documents.query_of_row]
    for one, name, score in zip(query.tolist(), documents.document_ids.tolist(), scores.tolist(), strict=True):
        by_pair.setdefault(one, {})[name] = score
    expected = np.mean([
        0.5 + 0.5 * np.sign(by_pair[q][a] - by_pair[q][b])
        for q, a, b in zip(preferences.query_ids, preferences.better, preferences.worse, strict=True)
    ])  # fmt: skip
    for system in (scores, by_pair, Run.from_dict(by_pair)):
        result = joined.accuracy(system)
        assert result.value == pytest.approx(expected)
        assert result.interval[0] < expected < result.interval[1]
        assert result.documents == len(preferences)
    del by_pair["q0"]
    assert joined.accuracy(by_pair).value == pytest.approx(
        np.mean([
            0.5 if q == "q0" else 0.5 + 0.5 * np.sign(by_pair[q][a] - by_pair[q][b])
            for q, a, b in zip(preferences.query_ids, preferences.better, preferences.worse, strict=True)
        ])
    )  # fmt: skip


def test_the_interval_of_accuracy_covers_the_truth():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        ease = rng.beta(6, 3, 40)  # each query has its own accuracy, 2/3 on average
        right = rng.random((40, 5)) < ease[:, None]
        query = np.repeat([f"q{n}" for n in range(40)], 5)
        names = np.where(right.ravel(), "a", "b"), np.where(right.ravel(), "b", "a")
        scores = {f"q{n}": {"a": 1.0, "b": 0.0} for n in range(40)}
        low, high = Preferences.of(query, *names).accuracy(scores).interval
        covered += low <= 2 / 3 <= high
    assert 0.92 <= covered / 400 <= 0.98  # 95% ± 2.75 standard errors


def test_files_of_both_kinds(tmp_path):
    header = "query,better,worse,rater,weight,shown_first\n"
    (tmp_path / "chosen.csv").write_text(header + "q,d1,d2,ann,2,d2\nq,d3,d1,bob,,\n")
    read = read_preferences(tmp_path / "chosen.csv")
    assert (read.better.tolist(), read.worse.tolist(), read.raters.tolist()) == (
        ["d1", "d3"],
        ["d2", "d1"],
        ["ann", "bob"],
    )
    assert read.weights.tolist() == [2.0, 1.0]
    np.testing.assert_array_equal(read.better_first, [0.0, np.nan])
    rows = [("q", "x", "y", "a"), ("q", "x", "y", "B"), ("q", "x", "y", "tie"), ("q", "x", "y", "y")]
    records = [dict(zip(("query", "a", "b", "preferred"), row, strict=True)) for row in rows]
    (tmp_path / "ab.jsonl").write_text("\n".join(map(json.dumps, records)))
    frame = pd.DataFrame(records, index=[3, 3, 0, 1])
    for read in (read_preferences(tmp_path / "ab.jsonl"), Preferences.from_frame(frame)):
        assert read.better.tolist() == ["x", "y", "x", "y"]
        assert read.tie.tolist() == [False, False, True, False]
        assert read.better_first[~read.tie].tolist() == [1.0, 0.0, 0.0]
        assert repr(read) == "Preferences(4 of 1 query by 1 rater, 1 tie)"
        assert read.accuracy({"q": {"x": 1, "y": 2}}).value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("query,a,b\nq,x,y\n", r"p.csv: no columns better and worse, nor a, b and preferred"),
        ("query,a,b,preferred\nq,x,y,z\n", r"p.csv:2: 'z' is neither a nor b nor tie"),
        ("query,better,worse\nq,x,\n", r"p.csv:2: a query or a document is missing"),
        ("query,better,worse\nq,x,x\n", "preference 0 is between document x and itself"),
        ("query,better,worse,weight\nq,x,y,much\n", r"p.csv:2: the weight is 'much'"),
        ("query,better,worse,weight\nq,x,y,-1\n", "weights are finite and not negative"),
        ("query,better,worse,shown_first\nq,x,y,z\n", r"p.csv:2: 'z' was shown first"),
        ("query,better,worse\n", "there is no preference"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, content, said):
    (tmp_path / "p.csv").write_text(content)
    with pytest.raises(DataError, match=said):
        read_preferences(tmp_path / "p.csv")


def test_position_bias_is_found_and_its_absence_too():
    rng = np.random.default_rng(0)
    query = np.repeat([f"q{n}" for n in range(50)], 8)
    for share in (0.5, 0.7):
        first = rng.random(400) < share
        shown = Preferences.of(query, ["x"] * 400, ["y"] * 400, better_first=first)
        bias = shown.position_bias()
        assert bias.first.value == first.mean()
        assert bias.biased == (share > 0.5)
    # Pairs in both orders: q0 the same document, q1 whichever came first, q2 by two raters in one order each.
    both = Preferences.of(
        ["q0", "q0", "q1", "q1", "q2", "q2"],
        ["x", "x", "x", "y", "x", "x"],
        ["y", "y", "y", "x", "y", "y"],
        rater=["ann"] * 4 + ["ann", "bob"],
        better_first=[1, 0, 1, 1, 1, 0],
    )
    bias = both.position_bias()
    assert (bias.consistent.value, bias.consistent.documents) == (0.5, 2)
    assert bias.first.value == pytest.approx(4 / 6)
    with pytest.raises(DataError, match="shown first"):
        Preferences.of(["q"], ["x"], ["y"]).position_bias()


def test_raters_agree_on_pairs():
    answers = Preferences.of(
        ["1", "1", "2", "2", "3", "3"],
        ["x", "x", "x", "y", "y", "y"],
        ["y", "y", "y", "x", "x", "x"],
        rater=["ann", "bob"] * 3,
    )
    # Two of three pairs agree: O has 2 disagreements of 6, margins 3 and 3, alpha = 1 - 5 · 2 / (2 · 3 · 3).
    assert agreement(answers.as_judgements(), distance="nominal").alpha.value == pytest.approx(1 - 5 * 2 / 18)


def test_ties_are_left_out_of_training():
    _, documents, _ = example()
    ties = Preferences.of(["q0", "q0"], ["d0", "d1"], ["d1", "d2"], tie=[True, False]).with_documents(documents)
    assert ties.to_pairs().n_documents == 2
    with pytest.raises(DataError, match="all preferences are ties"):
        ties[ties.tie].to_pairs()
