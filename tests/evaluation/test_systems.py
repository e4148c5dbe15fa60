"""Rankers, scores and runs, side by side; and the warning where one is judged by its training queries."""

from __future__ import annotations

import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from marginrank import Fusion, Queries, Ranker, compare, evaluate, write_report
from marginrank.data import Qrels, Run
from marginrank.errors import DataError, RepeatedDocumentsWarning, TrainingDataWarning
from marginrank.evaluation import Predictor, systems
from marginrank.fusion import UnsupervisedFusion


def judged(seed, n_queries=20, n_documents=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 2))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(len(X)) > 0.8
    # A relevant and an irrelevant document in each query, so that every one counts.
    y[::n_documents], y[1::n_documents] = True, False
    qid = [f"q{seed}-{row // n_documents}" for row in range(len(X))]
    return Queries.from_arrays(X, y, qid=qid, feature_names=["bm25", "clicks"])


TRAIN, TEST = judged(0), judged(1)


@pytest.fixture(scope="module")
def ranker():
    return Ranker("svmmap").fit(TRAIN)


class Negated:
    """Somebody's own system."""

    def predict(self, queries):
        return (-queries.X[:, 0]).tolist()


def test_everything_with_predict_is_a_system(ranker):
    scores = ranker.predict(TEST)
    for system in (ranker, scores, scores.tolist(), Run.from_scores(TEST, scores)):
        np.testing.assert_array_equal(evaluate(TEST, system)["ap"], evaluate(TEST, scores)["ap"])
    for system, column in ((Negated(), -TEST.feature("bm25")), (UnsupervisedFusion("combsum"), None)):
        assert isinstance(system, Predictor)
        expected = evaluate(TEST, system.predict(TEST) if column is None else column)
        np.testing.assert_array_equal(evaluate(TEST, system)["ap"], expected["ap"])


def test_a_run_is_judged_by_the_queries(ranker):
    """What a run lacks is not retrieved; ids and weights are those of the queries."""
    queries = Queries.from_arrays(
        [[0.0]] * 4, [0, 1, 1, 0], qid=[7, 7, 8, 8], query_weights=[3.0, 1.0], document_ids=["a", "b", "c", "d"]
    )
    run = Run(np.array(["7"]), np.array([0, 2]), np.array(["a", "b"]), np.array([2.0, 1.0]))
    result = evaluate(queries, run, "rr", missing_topics="zero")
    assert (result.query_ids.tolist(), result["rr"].tolist(), result.mean["rr"]) == ([7, 8], [0.5, 0.0], 0.375)
    assert evaluate(queries, run, "rr", missing_topics="skip").query_ids.tolist() == [7]
    with pytest.raises(DataError, match="topic 8 has judgements but no documents"):
        evaluate(queries, run)


with pytest.warns(RepeatedDocumentsWarning):
    TWICE = Queries.from_arrays(
        [[0.3, 0.0], [0.9, 0.0], [0.1, 0.0], [0.2, 0.0]],
        [0, 2, 1, 0],
        qid=["b", "a", "b", "b"],
        document_ids=["x", "x", "y", "y"],
        feature_names=["bm25", "clicks"],
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda ranker: ranker.rank(TWICE, ids=True),
        lambda _: Run.from_scores(TWICE, TWICE.feature("bm25")),
        lambda _: evaluate(TWICE, {"b": {"y": 1.0}}, "ap", missing_topics="skip"),
    ],
)
def test_ids_are_refused_where_they_do_not_tell_documents_apart(ranker, use):
    with pytest.raises(DataError, match=r"^two documents of query b have the id 'y'; keep one of them, or give each"):
        use(ranker)


def test_training_and_scoring_need_no_ids():
    scores = Ranker().fit(TWICE).predict(TWICE)
    assert evaluate(TWICE, scores, "ap").mean["ap"] == evaluate(replace(TWICE, document_ids=None), scores).mean["ap"]
    assert Ranker().fit(TWICE).rank(TWICE)[1].tolist() == [1]


def test_judgements_go_with_runs(ranker):
    qrels = Qrels(np.array(["1"]), np.array([0, 1]), np.array(["a"]), np.array([1.0]))
    for system in (ranker, [1.0]):
        with pytest.raises(DataError, match="no features; evaluate a run"):
            evaluate(qrels, system)


def test_systems_are_compared_on_queries(ranker):
    learned, run = evaluate(TEST, ranker, "ap"), Run.from_scores(TEST, -TEST.feature("bm25"))
    found = compare(
        {"bm25": TEST.feature("bm25"), "learned": ranker, "again": learned, "run": run},
        TEST,
        measure="ap",
        resamples=99,
    )
    values = {"bm25": evaluate(TEST, TEST.X[:, 0], "ap"), "learned": learned, "again": learned}
    values["run"] = evaluate(TEST, -TEST.X[:, 0], "ap")
    assert found == compare(values, resamples=99)
    assert compare({"bm25": TEST.feature(0), "learned": ranker}, TEST, resamples=99) == compare(
        {"bm25": evaluate(TEST, TEST.X[:, 0], "ndcg@10"), "learned": evaluate(TEST, ranker, "ndcg@10")}, resamples=99
    )


def test_systems_are_compared_under_one_policy(ranker):
    done = evaluate(TEST, ranker, "ap", policy="letor4")
    row = compare({"a": done, "b": TEST.feature(0)}, TEST, policy="letor4", resamples=99).rows[0]
    assert row.difference == pytest.approx(
        done.mean["ap"] - evaluate(TEST, TEST.X[:, 0], "ap", policy="letor4").mean["ap"]
    )
    with pytest.raises(DataError, match="'b' was evaluated under policy standard, 'a' under letor4"):
        compare({"a": done, "b": TEST.feature(0)}, TEST)
    with pytest.raises(ValueError, match="name the measure to compare: ndcg@10 or ap"):
        compare({"a": evaluate(TEST, ranker), "b": TEST.feature(0)}, TEST)


def test_without_queries_there_are_no_values(ranker):
    with pytest.raises(TypeError, match=r"'learned' has no values yet; give judged queries"):
        compare({"learned": ranker, "bm25": np.zeros(20)})


@pytest.mark.parametrize("feature", ["stars", 2, -1])
def test_unknown_features_are_refused(feature):
    with pytest.raises(DataError, match=r"there is no (feature|column)"):
        TEST.feature(feature)


def test_a_feature_is_a_column_of_doubles():
    import scipy.sparse as sp

    dense = Queries.from_arrays(TEST.X.astype(np.float32), TEST.grades, group=TEST.lengths)
    sparse = Queries.from_arrays(sp.csr_array(TEST.X), TEST.grades, group=TEST.lengths)
    assert dense.feature(1).dtype == np.float64
    np.testing.assert_array_equal(dense.feature(1), TEST.X[:, 1].astype(np.float32))
    np.testing.assert_array_equal(sparse.feature(1), TEST.X[:, 1])


def test_training_queries_are_recognized(ranker, tmp_path):
    message = r"these are the queries that {} was trained on; its values say nothing about new queries"
    with pytest.warns(TrainingDataWarning, match=message.format("this Ranker")):
        evaluate(TRAIN, ranker)
    with pytest.warns(TrainingDataWarning, match=message.format("learned")):
        compare({"learned": ranker, "bm25": TRAIN.feature("bm25")}, TRAIN, resamples=99)
    with pytest.warns(TrainingDataWarning, match=r"that one and two were trained on; their values"):
        compare({"one": ranker, "two": ranker}, TRAIN, resamples=99)
    with pytest.warns(TrainingDataWarning, match=message.format("learned")):
        facts = write_report(tmp_path / "page.html", TRAIN, {"learned": ranker, "bm25": TRAIN.feature(0)})
    assert facts.trained_on_these == ("learned",)
    assert "These are the queries that learned was trained on" in (tmp_path / "page.html").read_text(encoding="utf-8")
    fusion = Fusion("minmax", Cs=[1.0]).fit(TRAIN, TEST)
    with pytest.warns(TrainingDataWarning, match=message.format("this Fusion")):
        evaluate(TRAIN, fusion)


def test_other_queries_are_not_training_queries(ranker, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(TEST, ranker)
        evaluate(TRAIN, ranker.predict(TRAIN))
        evaluate(TRAIN, TRAIN.X[:, 0])
        facts = write_report(tmp_path / "page.html", TEST, {"learned": ranker})
    assert facts.trained_on_these == ()
    assert "trained on; its" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_queries_are_digested_once(ranker):
    with mock.patch.object(systems, "fingerprint", wraps=systems.fingerprint) as digest:
        compare({"a": ranker, "b": ranker, "c": TEST.feature(0)}, TEST, resamples=99)
        assert digest.call_count == 1
        evaluate(TEST, TEST.feature(0))
        assert digest.call_count == 1
