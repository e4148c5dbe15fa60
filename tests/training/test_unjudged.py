"""Training on queries with unjudged documents: the judged ones alone decide, however they are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marginrank import Queries, Ranker, evaluate, load, tune
from marginrank.data.partitions import LocalPartitions, PartitionedQueries
from marginrank.errors import DataError
from marginrank.preparation.query_scaling import QueryMinMax

METHODS = ["svmmap", "ndcg@10", "ranksvm", "softmax", "lambdarank@5", "rankboost@5", "regression", "best-feature"]


def sample(seed: int = 0, share: float = 0.3, n_queries: int = 30) -> Queries:
    """Shuffled rows of which a share is unjudged, and one query that is unjudged as a whole."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(n_queries), 8))
    X = rng.standard_normal((len(qid), 4))
    y = np.digitize(X @ [1.0, -0.5, 0.0, 0.2] + 0.7 * rng.standard_normal(len(qid)), [0.3, 1.2]).astype(float)
    y[rng.random(len(qid)) < share] = np.nan
    y[qid == 3] = np.nan
    return Queries.from_arrays(X, y, qid=[f"q{q}" for q in qid], document_ids=np.arange(len(qid)))


def by_hand(queries: Queries) -> Queries:
    """The judged rows, query after query, so that sums over queries have the same order."""
    rows = np.argsort(queries.query_of_row, kind="stable")
    rows = rows[~np.isnan(queries.grades[rows])]
    qid = queries.query_ids[queries.query_of_row]
    return Queries.from_arrays(queries.X[rows], queries.grades[rows], qid=qid[rows])


def zeros(queries: Queries) -> Queries:
    return Queries.from_arrays(
        queries.X, np.where(np.isnan(queries.grades), 0, queries.grades), qid=queries.query_ids[queries.query_of_row]
    )


@pytest.mark.parametrize("method", METHODS)
def test_training_is_that_of_the_judged_rows(method: str) -> None:
    queries = sample()
    ranker = Ranker(method, scaling=None).fit(queries)
    np.testing.assert_array_equal(ranker.coef_, Ranker(method, scaling=None).fit(by_hand(queries)).coef_)
    assert ranker.predict(queries).shape == (queries.n_documents,)
    np.testing.assert_array_equal(ranker.predict(queries), ranker.predict(queries.X))
    other = Ranker(method, scaling=None, unjudged="irrelevant").fit(queries)
    np.testing.assert_array_equal(other.coef_, Ranker(method, scaling=None).fit(zeros(queries)).coef_)
    assert not np.array_equal(ranker.predict(queries), other.predict(queries)) or method == "best-feature"


@pytest.mark.parametrize("scorer", ["additive", "kernel", "boosted(trees=5)", "neural(epochs=2)"])
def test_every_scorer_leaves_unjudged_documents_out(scorer: str) -> None:
    pytest.importorskip({"boosted(trees=5)": "lightgbm", "neural(epochs=2)": "torch"}.get(scorer, "numpy"))
    queries = sample()
    ranker = Ranker("ndcg@10", scorer=scorer, scaling=None).fit(queries)
    again = Ranker("ndcg@10", scorer=scorer, scaling=None).fit(by_hand(queries))
    np.testing.assert_array_equal(ranker.predict(queries), again.predict(queries))


def test_arrays_are_trained_on_like_queries() -> None:
    queries = sample()
    qid = queries.query_ids[queries.query_of_row]
    y = np.where(np.isnan(queries.grades), -1, queries.grades)
    expected = Ranker().fit(queries)
    assert Ranker().fit(queries.X, y, qid=qid).coef_.tolist() == expected.coef_.tolist()
    assert Ranker().fit(queries.X, queries.grades, qid=qid).coef_.tolist() == expected.coef_.tolist()
    assert Ranker().fit(queries.X, y, qid=qid).score(queries.X, y, qid=qid) == expected.score(queries)


def test_scalings_by_query_see_all_documents() -> None:
    """They do when the model scores, so they have to in training."""
    queries = sample()
    scaled = queries.with_features(QueryMinMax().fit_transform(queries).X)
    ranker = Ranker(scaling="query-minmax").fit(queries)
    assert ranker.coef_ == pytest.approx(Ranker(scaling=None).fit(by_hand(scaled)).coef_, abs=1e-12)


def test_weights_of_queries_and_documents_stay_with_them() -> None:
    queries = sample()
    rng = np.random.default_rng(1)
    by_query = dict(zip(queries.query_ids.tolist(), rng.uniform(0.5, 2, 30), strict=True))
    by_row = rng.uniform(0.5, 2, queries.n_documents)
    qid = queries.query_ids[queries.query_of_row]
    given = Queries.from_arrays(
        queries.X,
        queries.grades,
        qid=qid,
        query_weights=[by_query[query] for query in queries.query_ids.tolist()],
        document_weights=by_row,
    )
    judged = np.argsort(queries.query_of_row, kind="stable")
    judged = judged[~np.isnan(queries.grades[judged])]
    first = list(dict.fromkeys(qid[judged].tolist()))
    plain = Queries.from_arrays(
        queries.X[judged],
        queries.grades[judged],
        qid=qid[judged],
        query_weights=[by_query[query] for query in first],
        document_weights=by_row[judged],
    )
    found, expected = (Ranker("ranksvm", scaling=None).fit(data).coef_ for data in (given, plain))
    assert found.tolist() == expected.tolist()
    weighted, by_weight = (
        Ranker(scaling=None, weighting="pairs").fit(data).coef_ for data in (sample(), by_hand(sample()))
    )
    assert weighted.tolist() == by_weight.tolist()


def test_tuning_trains_and_chooses_without_unjudged_documents() -> None:
    queries = sample(n_queries=40)
    found = tune(Ranker(scaling=None), queries, folds=3, Cs=[0.01, 1.0])
    others = queries.select([query for query in queries.query_ids if query != "q3"])
    # The query without a grade takes part in the folds, so the folds of the others differ unless it is dropped first.
    expected = tune(Ranker(scaling=None), by_hand(others), folds=3, Cs=[0.01, 1.0])
    dropped = tune(Ranker(scaling=None), others, folds=3, Cs=[0.01, 1.0])
    assert [c.mean for c in dropped.candidates] == [c.mean for c in expected.candidates]
    assert found.ranker.predict(queries).shape == (queries.n_documents,)
    irrelevant = tune(Ranker(scaling=None, unjudged="irrelevant"), others, folds=3, Cs=[0.01, 1.0])
    assert [c.mean for c in irrelevant.candidates] == [
        c.mean for c in tune(Ranker(scaling=None), zeros(others), folds=3, Cs=[0.01, 1.0]).candidates
    ]


def test_early_stopping_leaves_unjudged_documents_out() -> None:
    train, valid = sample(), sample(1)
    found = Ranker("lambdarank@20", scaling=None).fit(train, validation=valid)
    expected = Ranker("lambdarank@20", scaling=None).fit(by_hand(train), validation=by_hand(valid))
    np.testing.assert_array_equal(found.predict(train), expected.predict(train))


def test_batches_leave_unjudged_documents_out() -> None:
    first, second = sample(), sample(1)
    found = Ranker(scaling=None).partial_fit(first).partial_fit(second)
    expected = Ranker(scaling=None).partial_fit(by_hand(first)).partial_fit(by_hand(second))
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    nothing = Queries.from_arrays(first.X, np.full(first.n_documents, np.nan), qid=first.query_of_row)
    before = found.coef_.copy()
    assert found.partial_fit(nothing).coef_.tolist() == before.tolist()


def test_partitions_leave_unjudged_documents_out() -> None:
    queries = sample()
    names = [query for query in queries.query_ids.tolist() if query != "q3"]
    cut = [queries.select(names[:12]), queries.select(["q3"]), queries.select(names[12:])]
    parts = PartitionedQueries(LocalPartitions([lambda part=part: part for part in cut]))
    plain = PartitionedQueries(LocalPartitions([lambda part=part: by_hand(part) for part in cut[::2]]))
    found, expected = (Ranker("softmax", scaling=None).fit(data).coef_ for data in (parts, plain))
    assert found == pytest.approx(expected, abs=1e-6)
    assert Ranker().fit(parts).score(parts) == pytest.approx(Ranker().fit(queries).score(queries), abs=1e-3)


def test_checkpoints_tell_the_rules_apart(tmp_path: Path) -> None:
    queries, path = sample(), tmp_path / "state"
    whole = Ranker().fit(queries)
    Ranker().fit(queries, checkpoint=path)
    assert Ranker().fit(queries, checkpoint=path, resume=True).coef_.tolist() == whole.coef_.tolist()
    with pytest.raises(DataError, match="unjudged"):
        Ranker(unjudged="irrelevant").fit(queries, checkpoint=path, resume=True)


def test_models_remember_the_rule(tmp_path: Path) -> None:
    Ranker(unjudged="irrelevant").fit(sample()).save(tmp_path / "model.safetensors")
    loaded: Any = load(tmp_path / "model.safetensors")
    assert loaded.unjudged == "irrelevant"


@pytest.mark.parametrize(
    ("grades", "said"),
    [
        ([np.nan] * 4, "no document is judged, so there is nothing to learn; NaN, -1 and an empty cell mean unjudged"),
        ([1, -1, -1, 1], r"judged documents of every query have a single grade.*unjudged='irrelevant'"),
    ],
)
def test_nothing_to_learn_is_said(grades: list[float], said: str) -> None:
    X = [[1.0], [2.0], [3.0], [4.0]]
    with pytest.raises(DataError, match=said):
        Ranker().fit(X, grades, qid=[1, 1, 2, 2])
    with pytest.raises(DataError, match=said):
        Ranker("lambdarank").fit(X, grades, qid=[1, 1, 2, 2])


def test_minus_one_for_irrelevant_is_a_choice() -> None:
    X, y, qid = [[2.0], [1.0], [3.0], [4.0]], [1, -1, -1, 1], [1, 1, 2, 2]
    ranker = Ranker("ranksvm", unjudged="irrelevant").fit(X, y, qid=qid)
    assert ranker.coef_.tolist() == Ranker("ranksvm").fit(X, [1, 0, 0, 1], qid=qid).coef_.tolist()
    with pytest.raises(ValueError, match="unjudged is 'drop'; choose 'skip' or 'irrelevant'"):
        Ranker(unjudged="drop").fit(X, y, qid=qid)  # type: ignore[arg-type]


def test_weighted_documents_without_a_grade_count_nothing() -> None:
    """DCG@10 of clicks by hand: weights 4 and 1 at ranks 1 and 3, or 1 and 2 without the unjudged document."""
    clicks = Queries.from_arrays([[3.0], [2.0], [1.0]], [1, np.nan, 1], group=[3], document_weights=[4.0, 2.0, 1.0])
    scores = [3.0, 2.0, 1.0]
    assert evaluate(clicks, scores, "dcg@10").mean["dcg@10"] == pytest.approx((4 + 1 / 2) / 5)
    skipped = evaluate(clicks, scores, "dcg@10", unjudged="skip").mean["dcg@10"]
    assert skipped == pytest.approx((4 + 1 / np.log2(3)) / 5)
