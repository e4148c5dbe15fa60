"""Fusions whose weights depend on the query."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

from marginrank import Fusion, Queries, evaluate
from marginrank.errors import DataError
from marginrank.model import scoring


@cache
def made_up_runs(seed, n_queries, *, depends=True):
    """Draw runs of which BM25 is right about queries with a high best score, and vectors about the others."""
    rng = np.random.default_rng(seed)
    size = 15
    lucky = rng.integers(0, 2, n_queries) if depends else np.ones(n_queries)
    words, meaning = rng.standard_normal((2, n_queries, size))
    relevant = np.where(lucky[:, None] == 1, words, meaning) + 0.3 * rng.standard_normal((n_queries, size)) > 1.0
    level = np.where(rng.integers(0, 2, n_queries) if not depends else lucky, 20.0, 8.0)
    X = np.stack([level[:, None] + words, 0.5 + 0.1 * meaning], axis=2).reshape(-1, 2)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[np.isnan(X).all(axis=1)] = (5.0, 0.1)
    return Queries.from_arrays(
        X,
        relevant.reshape(-1).astype(float),
        qid=np.repeat([f"q{number:03d}" for number in range(n_queries)], size),
        feature_names=["bm25", "dense"],
        allow_nan=True,
    )


@cache
def adaptive():
    return Fusion("minmax", adaptive=True, Cs=[1.0, 10.0, 100.0]).fit(made_up_runs(0, 80))


def test_weights_depend_on_the_query_if_that_is_better():
    static = Fusion("minmax", Cs=[1.0, 10.0, 100.0]).fit(made_up_runs(0, 80))
    test = made_up_runs(1, 100)
    assert adaptive().kinds_ == "minmax+best"
    gain = [evaluate(test, fusion, "ndcg@10").mean["ndcg@10"] for fusion in (static, adaptive())]
    assert gain[1] > gain[0] + 0.03


def test_weights_are_static_if_nothing_is_gained():
    fusion = Fusion("minmax", adaptive=True, Cs=[1.0, 10.0]).fit(made_up_runs(0, 40, depends=False))
    assert fusion.kinds_ == "minmax"
    assert fusion.ranker_.form_.kind == "linear"
    assert any("adaptive" in one.parameters["scorer"] for one in fusion.selection_.candidates)


def test_few_queries_keep_static_weights():
    with pytest.warns(UserWarning, match="need 30 training queries, and there are 29; weights are the same for a"):
        fusion = Fusion("minmax", adaptive=True, Cs=[1.0]).fit(made_up_runs(0, 29))
    assert fusion.kinds_ == "minmax"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Fusion("minmax", adaptive=True, Cs=[1.0]).fit(made_up_runs(0, 30))


def test_weights_by_query_are_those_that_score():
    queries = made_up_runs(1, 100)
    weights = adaptive().query_weights(queries)
    scores, X = adaptive().predict(queries), queries.X
    for number in (0, 7, 50):
        rows = slice(number * 15, number * 15 + 15)
        low, high = np.nanmin(X[rows], axis=0), np.nanmax(X[rows], axis=0)
        unit = np.nan_to_num((X[rows] - low) / (high - low))
        np.testing.assert_allclose(unit @ weights.weights[number], scores[rows], atol=1e-9)
    assert (weights.weights >= 0).all()
    lucky = np.nanmax(X[:, 0].reshape(-1, 15), axis=1) > 15
    share = weights.weights[:, 0] / weights.weights.sum(axis=1)
    assert share[lucky].min() > share[~lucky].max()
    assert "best(bm25) is" in str(weights)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_sql_scores_the_same(tmp_path, dialect):
    if dialect == "duckdb":
        pytest.importorskip("duckdb")
    from marginrank.export.export_files import verify

    target = f"sql(dialect={dialect})"
    adaptive().export(target, tmp_path / "fusion.sql")
    assert len(verify(target, tmp_path / "fusion.sql").X) == 180


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("python", "python takes all rankers but .*; this model combines runs; targets for this model: sql$"),
        ("vespa", "vespa takes linear, adaptive, .*; it is not a weighted sum; targets for this model: sql$"),
    ],
)
def test_targets_other_than_sql_are_refused(tmp_path, target, message):
    with pytest.raises(DataError, match=message):
        adaptive().export(target, tmp_path / "fusion")


def test_files_and_shuffled_rows_score_the_same(tmp_path):
    adaptive().save(tmp_path / "fusion")
    queries = made_up_runs(1, 100)
    expected = adaptive().predict(queries)
    np.testing.assert_array_equal(Fusion.load(tmp_path / "fusion").predict(queries), expected)
    np.testing.assert_array_equal(scoring.load(tmp_path / "fusion").score(queries.X, group=[15] * 100), expected)
    order = np.random.default_rng(0).permutation(1500)
    mixed = Queries.from_arrays(
        queries.X[order][:, ::-1],
        qid=np.repeat(queries.query_ids, 15)[order],
        feature_names=["dense", "bm25"],
        allow_nan=True,
    )
    np.testing.assert_array_equal(adaptive().predict(mixed), expected[order])


def test_weights_of_one_kind_are_refused_where_they_depend_on_the_query():
    with pytest.raises(ValueError, match="query_weights"):
        adaptive().weights()
    with pytest.raises(ValueError, match="do not depend on the query"):
        Fusion("minmax", Cs=[1.0]).fit(made_up_runs(0, 40)).query_weights(made_up_runs(0, 40))


@pytest.mark.parametrize("options", [{"ranks": True}, {"scorer": "additive"}])
def test_what_adaptive_does_not_go_with_is_refused(options):
    with pytest.raises(ValueError, match="scores of runs and the linear scorer"):
        Fusion(adaptive=True, **options).fit(made_up_runs(0, 40))


def test_runs_scaled_by_query_are_refused():
    runs = made_up_runs(0, 40)
    X = runs.X.reshape(40, 15, 2)
    low, high = np.nanmin(X, axis=1, keepdims=True), np.nanmax(X, axis=1, keepdims=True)
    unit = runs.with_features(((X - low) / (high - low)).reshape(-1, 2), ["bm25", "dense"])
    message = "same in nearly all queries, .* give raw scores, not scaled by query, or leave out adaptive=True"
    with pytest.raises(DataError, match=message):
        Fusion("minmax", adaptive=True, Cs=[1.0]).fit(unit)
    nothing = unit.X.copy()
    nothing[:15, 0] = np.nan
    with pytest.raises(DataError, match=message):
        Fusion("minmax", adaptive=True, Cs=[1.0]).fit(unit.with_features(nothing, ["bm25", "dense"]))


def test_the_kind_that_weights_by_query_add_is_not_named():
    with pytest.raises(ValueError, match="kinds names best, which does not tell documents apart; name it as context"):
        Fusion(["rrf", "minmax+best"], adaptive=True).fit(made_up_runs(0, 40))
