"""Features in float16: the same training on round_to_float16 features, and no silent loss."""

import weakref

import numpy as np
import pytest

from marginrank import Queries, Ranker, evaluate
from marginrank.distributed import DistributedQueries
from marginrank.errors import DataError
from marginrank.losses import StructuredLoss
from marginrank.runtime.lazy_imports import sp
from marginrank.scorers import Linear
from marginrank.scorers.linear import scorer as half
from marginrank.training.partitioned_risk import empirical_risk

HALF = Linear(dtype="float16")


def _judged(n_queries=30, n=12, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n, d)).astype(np.float32)
    grades = (X @ rng.standard_normal(d) + rng.standard_normal(len(X)) > 1).astype(int)
    return Queries.from_arrays(X, grades, qid=[f"q{row // n}" for row in range(len(X))])


def test_the_risk_is_that_of_the_rounded_features():
    queries, loss = _judged(), StructuredLoss("ap")
    twin = queries.with_features(queries.X.astype(np.float16).astype(np.float64))
    assert not np.array_equal(twin.X, queries.X)
    risk, expected = empirical_risk(queries, loss, HALF), empirical_risk(twin, loss)
    for theta in np.random.default_rng(1).standard_normal((3, 5)):
        (value, slope), (other, other_slope) = risk(theta), expected(theta)
        assert value == pytest.approx(other, rel=1e-12)
        assert slope == pytest.approx(other_slope, rel=1e-12)
    prepared = HALF.prepare(queries)
    assert prepared.n_bytes == 2 * queries.X.size
    assert np.array_equal(prepared.design_matrix(np.array([3, 0])), twin.X[[3, 0]])


@pytest.mark.parametrize("scaling", ["auto", None, "query-minmax"])
def test_a_ranker_is_trained_to_a_certificate_and_scores_as_it_is_given(scaling):
    queries = _judged()
    exact = Ranker("svmmap", C=10.0, scaling=scaling).fit(queries)
    rough = Ranker("svmmap", C=10.0, scaling=scaling, scorer="linear(dtype=float16)").fit(queries)
    assert rough.solution_.converged
    assert rough.objective_ == pytest.approx(exact.objective_, rel=3e-3)
    held_out = _judged(seed=7)
    means = [evaluate(held_out, ranker, "ap").mean["ap"] for ranker in (exact, rough)]
    assert means[1] == pytest.approx(means[0], abs=0.02)
    # Predictions are those of the weights and the features, which are not round_to_float16.
    model = rough.model_
    ready = queries.X.astype(np.float64) if model.scaler is None else model.scaler.transform(queries).X
    assert rough.predict(queries) == pytest.approx(
        np.asarray(ready, dtype=np.float64) @ rough.coef_, rel=1e-6, abs=1e-6
    )


def test_shuffled_rows_make_the_same_model():
    queries = _judged()
    order = np.random.default_rng(3).permutation(queries.n_documents)
    qid = np.repeat(queries.query_ids, queries.lengths)
    ranker = Ranker("ranksvm-squared", scorer=HALF)
    first = ranker.fit(queries.X, queries.grades, qid=qid).predict(queries.X)
    second = ranker.fit(queries.X[order], queries.grades[order], qid=qid[order]).predict(queries.X)
    assert second == pytest.approx(first, rel=1e-5, abs=1e-6)


def test_missing_values_are_replaced_before():
    queries = _judged()
    X = queries.X.copy()
    X[::7, 1] = np.nan
    gaps = Queries.from_arrays(X, queries.grades, qid=np.repeat(queries.query_ids, queries.lengths), allow_nan=True)
    prepared = Linear(missing="indicator", dtype="float16").prepare(gaps)
    expected = Linear(missing="indicator").prepare(gaps)
    theta = np.arange(1.0, 7.0)
    assert prepared.n_parameters == 6
    assert prepared.scores(theta) == pytest.approx(expected.scores(theta), rel=0.01, abs=0.01)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (lambda x: 1e5 + x, "feature 'year' has values beyond the range of float16; use scaling='standard', or leave"),
        (
            lambda x: 2024 + x,
            r"rounding feature 'year' to float16 changes it by \d\d\.\d% of its standard deviation; use",
        ),
        (
            lambda x: 1e-9 * x,
            r"rounding feature 'year' to float16 changes it by 100\.\d% of its standard deviation; use",
        ),
    ],
    ids=["large", "far from 0", "tiny"],
)
def test_features_that_it_would_spoil_are_refused_unless_they_are_scaled(column, said):
    queries = _judged()
    X = queries.X.astype(np.float64)
    X[:, 2] = column(X[:, 2])
    named = Queries.from_arrays(
        X, queries.grades, qid=np.repeat(queries.query_ids, queries.lengths), feature_names=["a", "b", "year", "c", "d"]
    )
    with pytest.raises(DataError, match=said):
        Ranker("svmmap", scorer=HALF, scaling=None).fit(named)
    scaled = Ranker("svmmap", scorer=HALF, scaling="standard").fit(named)
    exact = Ranker("svmmap", scaling="standard").fit(named)
    assert scaled.objective_ == pytest.approx(exact.objective_, rel=3e-3)


def test_a_constant_feature_is_taken():
    X = np.array([[3.1, 1.0], [3.1, 0.0], [3.1, 0.5]])
    assert HALF.prepare(Queries.from_arrays(X, [1, 0, 0], group=[3])).scores(np.array([0.0, 2.0])).tolist() == [2, 0, 1]


def test_what_it_does_not_go_with_is_said():
    with pytest.raises(ValueError, match="dtype is 'float8'; choose 'float16' or None"):
        Linear(dtype="float8")
    queries = _judged()
    sparse = queries.with_features(sp.csr_array(queries.X))
    with pytest.raises(DataError, match="float16 is for dense features, and these are sparse; leave it out"):
        HALF.prepare(sparse)


def test_what_spreads_little_in_a_batch_is_taken_if_it_spreads_in_the_training_data():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((400, 3)), np.repeat(np.arange(40), 10)
    X[:, 2] = qid // 10 + 1e-4 * rng.standard_normal(400)
    queries = Queries.from_arrays(X, (X[:, 0] > 0).astype(int), qid=qid)
    ranker = Ranker("svmmap", scorer=HALF, scaling="standard")
    whole = ranker.fit(queries).objective_
    assert ranker.fit(DistributedQueries.from_queries(queries, 4)).objective_ == pytest.approx(whole, rel=1e-3)
    ranker.partial_fit([[1.0, 0.0, 2.5], [0.0, 1.0, 2.5001]], [1, 0], qid=[1, 1])
    spoiled = queries.with_features(X + np.array([0.0, 0.0, 5000.0]))
    with pytest.raises(DataError, match="rounding feature 2 to float16 changes it by"):
        Ranker("svmmap", scorer=HALF, scaling=None).fit(DistributedQueries.from_queries(spoiled, 4))


def test_the_features_it_was_made_of_can_be_freed():
    queries = _judged()
    scaled = queries.with_features(queries.X * 2.0)
    prepared, features = HALF.prepare(scaled), weakref.ref(scaled.X)
    del scaled
    assert features() is None
    assert prepared.scores(np.ones(5)).shape == (queries.n_documents,)


def test_blocks_and_threads_change_nothing(monkeypatch):
    X = np.random.default_rng(5).standard_normal((1000, 7))
    expected = half.round_to_float16(X)
    monkeypatch.setattr(half, "BLOCK_BYTES", 1 << 10)
    assert np.array_equal(half.round_to_float16(X, n_jobs=2), expected)
    assert np.array_equal(expected, X.astype(np.float16))
