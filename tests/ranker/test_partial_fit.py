"""Training that goes on: batches of a stream, starts from a model, and staying near one."""

from __future__ import annotations

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest

from marginrank import Additive, DataError, Kernel, Linear, Queries, Ranker, load
from marginrank.losses import StructuredLoss
from marginrank.model.model import Model
from marginrank.ranker.resolution import resolve
from marginrank.solvers import Auto, Bundle
from marginrank.training.partitioned_risk import empirical_risk

SCORERS = {
    "linear": Linear(),
    "nonnegative": Linear(nonnegative=True),
    "additive": Additive(bins=8),
    "kernel": Kernel(rank=12),
}
METHODS = {
    "hinge": {"method": "svmmap"},
    "smooth": {"method": "ranksvm-squared"},
    "tight": {"method": "ndcg@3", "bound": "tight"},
    "stochastic": {"method": "svmmap", "solver": "stochastic"},
}
every_scorer = pytest.mark.parametrize("scorer", SCORERS)


def judged(n_queries=60, n=8, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n, d)) * np.geomspace(0.1, 10.0, d)
    hidden = X / np.geomspace(0.1, 10.0, d) @ np.array([1.0, -0.5, 0.3, 0.0]) + 0.6 * rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [0.3, 1.3]), qid=np.repeat(np.arange(n_queries), n))


def batches(queries, size=10):
    return [queries[np.arange(start, min(start + size, len(queries)))] for start in range(0, len(queries), size)]


def streamed(ranker, queries, size=10):
    for batch in batches(queries, size):
        ranker.partial_fit(batch)
    return ranker


@every_scorer
@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_goes_on_bit_for_bit(tmp_path, scorer, method):
    *first, last = batches(judged(), 20)
    ranker = Ranker(**METHODS[method], scorer=SCORERS[scorer], C=5.0)
    for batch in first:
        ranker.partial_fit(batch)
    ranker.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors").partial_fit(last)
    ranker.partial_fit(last)
    assert np.array_equal(loaded.coef_, ranker.coef_)
    assert np.array_equal(loaded.model_.stream.last, ranker.model_.stream.last)
    assert loaded.model_.stream.weight == ranker.model_.stream.weight
    assert loaded.trained_on_ == ranker.trained_on_
    assert loaded.objective_ == ranker.objective_
    assert not np.array_equal(loaded.coef_, load(tmp_path / "model.safetensors").coef_)


def test_a_step_minimizes_what_the_definition_says():
    """One relevant and one irrelevant document a query: ξ = max(0, 1 − 2·w·(x_rel − x_irr))."""
    rng = np.random.default_rng(0)
    X, weights, C = rng.standard_normal((24, 3)), rng.uniform(0.5, 2.0, 12), 3.0
    queries = Queries.from_arrays(X, [1, 0] * 12, group=[2] * 12, query_weights=weights)
    solver = Bundle(tol=1e-10)
    ranker = Ranker(StructuredLoss("auc"), C=C, scaling=None, solver=solver)
    last = mean = np.zeros(3)
    seen = 0.0
    for number, rows in enumerate((np.arange(5), np.arange(5, 8), np.arange(8, 12))):
        ranker.partial_fit(queries[rows])
        own, apart = weights[rows], X[::2][rows] - X[1::2][rows]
        share = own.sum() / (seen + own.sum())
        w = cp.Variable(3)
        risk = own / own.sum() @ cp.pos(1.0 - 2.0 * apart @ w)
        objective = 0.5 * cp.sum_squares(w - (1.0 - share) * last) + share * C * risk
        cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
        seen, last = seen + own.sum(), w.value
        counted = 2.0 * own.sum() / (seen + own.sum())
        mean = (1.0 - counted) * mean + counted * last
        assert ranker.coef_ == pytest.approx(mean, abs=1e-4), number
        slack = np.maximum(0.0, 1.0 - 2.0 * apart @ mean)
        assert ranker.solution_.risk == pytest.approx(own @ slack / own.sum(), abs=1e-3)
        assert ranker.objective_ == pytest.approx(0.5 * mean @ mean + C * own @ slack / own.sum(), abs=1e-3)
    assert ranker.model_.stream.weight == pytest.approx(weights.sum())
    assert (ranker.gap_, ranker.solution_.reason) == (np.inf, "stationary")


@pytest.mark.parametrize("method", ["svmmap", "ranksvm", "ranksvm-squared", "ndcg"])
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_a_stream_seen_once_comes_near_the_batch_optimum(method, C):
    queries, test = judged(400), judged(200, seed=1)
    start = Ranker(method, C=C).fit(queries[:60])  # one scaling for both
    best = Ranker(method, C=C).fit(queries, start=start)
    ranker = Ranker(method, C=C)
    for batch in [queries[:60], *batches(queries[60:], 20)]:
        ranker.partial_fit(batch)
    risk = empirical_risk(best.model_.scaler.transform(queries), resolve(ranker).loss)
    reached = 0.5 * ranker.coef_ @ ranker.coef_ + C * risk(ranker.coef_)[0]
    assert best.objective_ <= reached * (1 + 1e-4)
    assert reached <= 1.01 * best.objective_
    assert ranker.score(test) >= best.score(test) - 0.005


@every_scorer
def test_the_order_of_rows_and_queries_in_a_batch_does_not_matter(scorer):
    queries = judged(40)
    rng, shuffled = np.random.default_rng(3), []
    for batch in batches(queries, 20):
        order = rng.permutation(batch.n_documents)
        qid = np.repeat(batch.query_ids, batch.lengths)
        shuffled.append((batch.X[order], batch.grades[order], qid[order]))
    one = streamed(Ranker("svmmap", scorer=SCORERS[scorer]), queries, 20)
    other = Ranker("svmmap", scorer=SCORERS[scorer])
    for X, y, qid in shuffled:
        other.partial_fit(X, y, qid=qid)
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.predict(queries), other.predict(queries))


def test_weights_of_queries_are_counts_of_them():
    queries = judged(30)
    counts = np.random.default_rng(0).integers(1, 4, 30)
    weighted = replace(queries, query_weights=counts.astype(float))
    solver = Auto(tol=1e-9)
    one = streamed(Ranker("svmmap", scaling=None, solver=solver), weighted)
    other = Ranker("svmmap", scaling=None, solver=solver)
    for batch in batches(weighted):
        numbers = np.repeat(np.arange(len(batch)), batch.query_weights.astype(int))
        repeated = [batch[int(number)] for number in numbers]
        X, y = np.vstack([q.X for q in repeated]), np.concatenate([q.grades for q in repeated])
        other.partial_fit(X, y, group=[len(q.grades) for q in repeated])
    ordered = [len(set((query.grades > 0).tolist())) == 2 for query in queries]
    assert one.model_.stream.weight == other.model_.stream.weight == counts[ordered].sum()
    assert one.coef_ == pytest.approx(other.coef_, abs=1e-4)
    assert streamed(Ranker("ranksvm", weighting="grades"), queries).model_.stream.weight == queries.grades.sum()


def test_groups_of_documents_count_in_batches_too():
    queries = judged(40)
    grouped = replace(queries, document_groups=np.tile(np.arange(4), 80))
    rankers = [
        streamed(Ranker(StructuredLoss("ndcg@3", "dorm", groups=groups), C=10.0), grouped)
        for groups in ("auto", "ignore")
    ]
    assert not np.allclose(*(ranker.coef_ for ranker in rankers))


def test_after_fit_the_queries_fitted_count():
    queries = judged(60)
    single = replace(queries, judgements=np.where(np.arange(480) < 80, 1.0, queries.grades))  # 10 without an order
    ordered = np.array([len(set(query.grades.tolist())) > 1 for query in single])
    ranker = Ranker("ranksvm").fit(single[:40])
    assert ranker.model_.stream.weight == ordered[:40].sum() < 31
    scaling = ranker.model_.scaler.scale_
    ranker.partial_fit(single[40:])
    assert ranker.model_.stream.weight == ordered.sum()
    assert ranker.trained_on_["queries"] == 60
    assert ranker.trained_on_["documents"] == 480
    assert np.array_equal(ranker.model_.scaler.scale_, scaling)


def test_a_batch_without_an_order_changes_nothing():
    queries = judged(20)
    flat = replace(queries, judgements=np.ones(160))
    ranker = Ranker("svmmap").fit(queries)
    model = ranker.model_
    assert ranker.partial_fit(flat).model_ is model
    with pytest.raises(DataError, match="there is nothing to learn"):
        Ranker("svmmap").partial_fit(flat)


def test_what_cannot_go_on_is_refused():
    queries = judged(20)
    X, y, qid = queries.X, queries.grades, np.repeat(queries.query_ids, queries.lengths)
    for options in ({"method": "rankboost"}, {"scorer": "boosted"}):
        for attempt in (
            lambda r: r.partial_fit(queries),
            lambda r: r.fit(queries, start=Ranker().fit(queries)),
            lambda r: r.fit(queries, center=Ranker().fit(queries)),
        ):
            with pytest.raises(ValueError, match="cannot be trained further; retrain it"):
                attempt(Ranker(**options))
    fitted = Ranker("svmmap").fit(queries)
    with pytest.raises(DataError, match="3 features"):
        fitted.partial_fit(X[:, :3], y, qid=qid)
    with pytest.raises(DataError, match="3 features"):
        fitted.partial_fit(queries.with_features(X[:, :3]))
    with pytest.raises(DataError, match="the model is linear and the scorer additive"):
        fitted.set_params(scorer="additive").partial_fit(queries)
    with pytest.raises(ValueError, match="'newton' does not support a center"):
        Ranker("ranksvm-squared", solver="newton").fit(queries).partial_fit(queries)
    with pytest.raises(ValueError, match="the scaling of the model is 'standard' and scaling=None"):
        Ranker("svmmap", scaling=None).fit(queries, start=fitted)
    with pytest.raises(TypeError, match="give start or center, not both"):
        Ranker("svmmap").fit(queries, start=fitted, center=fitted)
    with pytest.raises(TypeError, match=r"start is 'model'; give a Model or a fitted ranker"):
        Ranker("svmmap").fit(queries, start="model")
    from marginrank.methods.baselines.rankboost import RankBoost

    with pytest.raises(ValueError, match="RankBoost cannot be trained further; retrain it on all queries"):
        Ranker(RankBoost()).fit(queries, start=fitted)
    stumps = Ranker("rankboost@2").fit(queries).set_params(method="svmmap")
    with pytest.raises(ValueError, match="cannot be trained further"):
        stumps.partial_fit(queries)


@every_scorer
def test_a_start_at_a_model_takes_fewer_passes_to_the_same_optimum(scorer):
    queries = judged(200)
    yesterday = Ranker("svmmap", scorer=SCORERS[scorer], C=100.0, solver=Auto(tol=1e-4)).fit(queries[:180])
    model = yesterday.model_
    today = Ranker("svmmap", scorer=SCORERS[scorer], C=100.0, solver=Auto(tol=1e-4)).fit(queries, start=model)
    for name, array in model.form.arrays().items():
        assert np.array_equal(today.model_.form.arrays()[name], array)
    assert today.model_.scaling == model.scaling
    # From 0, with the same scaling and form.
    nowhere = replace(model, solution=replace(model.solution, theta=np.zeros_like(model.theta)))
    cold = Ranker("svmmap", scorer=SCORERS[scorer], C=100.0, solver=Auto(tol=1e-4)).fit(queries, start=nowhere)
    assert today.solution_.converged
    assert today.objective_ == pytest.approx(cold.objective_, rel=2e-4)
    assert today.solution_.passes < cold.solution_.passes


@every_scorer
def test_a_center_is_where_the_regularizer_is_minimal(scorer):
    queries = judged(60)
    before = Ranker("svmmap", scorer=SCORERS[scorer], C=1.0).fit(queries[:30])
    new = queries[30:]

    def after(C):
        return Ranker("svmmap", scorer=SCORERS[scorer], C=C, solver=Auto(tol=1e-6)).fit(new, center=before)

    ranker = after(3.0)
    away = ranker.coef_ - before.coef_
    assert ranker.solution_.converged
    assert ranker.objective_ == pytest.approx(0.5 * away @ away + 3.0 * ranker.solution_.risk, rel=1e-9)
    distances = [float(np.linalg.norm(after(C).coef_ - before.coef_)) for C in (1e-3, 0.1, 10.0)]
    assert distances[0] < distances[1] < distances[2]
    assert distances[0] < 0.01 * np.linalg.norm(before.coef_)


def test_a_center_keeps_the_bound_of_the_model():
    queries = judged(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = Ranker("ndcg@3", bound="tight").fit(queries[:30])
        after = Ranker("ndcg@3").fit(queries[30:], center=before)
    assert after.model_.method.bound == "tight"


@pytest.mark.parametrize(
    ("described", "arrays", "message"),
    [
        ({"weight": 0.0}, {}, "weight of the stream is 0.0"),
        ({"weight": True}, {}, "weight of the stream is True"),
        ({"weight": None}, {}, "weight of the stream is None"),
        ({}, {}, "weight"),
        ({"weight": 1.0}, {"stream.last": np.zeros(3)}, "a stream needs 4 finite numbers"),
        ({"weight": 1.0}, {"stream.origin": np.full(4, np.nan)}, "a stream needs 4 finite numbers"),
        ({"weight": 1.0}, {"stream.last": np.zeros(4, dtype=np.float32)}, "a stream needs 4 finite numbers"),
        (None, {"stream.last": np.zeros(4)}, "no array 'stream.last'"),
    ],
)
def test_a_file_with_a_wrong_stream_is_refused(described, arrays, message):
    model = Ranker("svmmap").fit(judged(10)).model_
    with pytest.raises((ValueError, KeyError), match=message):
        Model.from_parts({**model.describe(), "stream": described}, {**model.arrays(), **arrays})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_other_columns_of_a_batch_are_named(frame):
    queries = judged(20)
    names, qid = ["bm25", "clicks", "age", "flat"], np.repeat(queries.query_ids, queries.lengths)
    columns = dict(zip(names, queries.X.T, strict=True))
    ranker = Ranker("svmmap").partial_fit(frame(columns), queries.grades, qid=qid)
    others = {
        "X has the columns that the model was trained on in another order; give bm25, clicks, age, flat": names[::-1],
        "X has no column 'flat', which the model was trained on": names[:3],
    }
    for said, chosen in others.items():
        with pytest.raises(DataError, match=f"^{said}"):
            ranker.partial_fit(frame({name: columns[name] for name in chosen}), queries.grades, qid=qid)
    with pytest.raises(DataError, match=r"^X has a column 'new' that is not among those the model was trained on"):
        ranker.partial_fit(frame({**columns, "new": columns["age"]}), queries.grades, qid=qid)


def test_other_columns_of_queries_are_named():
    queries = replace(judged(20), feature_names=("bm25", "clicks", "age", "flat"))
    ranker = Ranker("svmmap").partial_fit(queries)
    turned = replace(queries, X=queries.X[:, ::-1], feature_names=queries.feature_names[::-1])
    with pytest.raises(DataError, match=r"^X has the columns that Ranker was fitted on in another order; give bm25"):
        ranker.partial_fit(turned)
    with pytest.raises(DataError, match=r"^X has 3 features but Ranker was fitted on 4"):
        ranker.partial_fit(replace(queries, X=queries.X[:, :3], feature_names=None))


def test_another_bound_than_that_of_the_model_is_refused():
    queries = judged(20)
    hinge = Ranker("ndcg@3", bound="hinge").fit(queries)
    tight = Ranker("ndcg@3", bound="tight").fit(queries)
    said = r"^the model was trained with the hinge bound and bound='tight'; leave it out"
    with pytest.raises(ValueError, match=said):
        Ranker("ndcg@3", bound="tight").fit(queries, center=hinge)
    with pytest.raises(ValueError, match=said):
        hinge.set_params(bound="tight").partial_fit(queries)
    with pytest.raises(ValueError, match=r"^the model was trained with the tight bound and bound='hinge'"):
        tight.set_params(bound="hinge").partial_fit(queries)
    assert Ranker("ndcg@3", bound="tight").fit(queries, start=hinge).model_.method.bound == "tight"


@every_scorer
def test_a_batch_of_one_document_changes_nothing(scorer):
    ranker = Ranker("svmmap", scorer=SCORERS[scorer]).partial_fit(judged())
    before = ranker.coef_.copy()
    for X, y, qid in (([[1.0, 2.0, 3.0, 4.0]], [1], [7]), (np.eye(4)[:2], [1, 0], [7, 8])):
        ranker.partial_fit(X, y, qid=qid)
        assert np.array_equal(ranker.coef_, before)
    with pytest.raises(DataError, match="X has 1 sample; a ranking needs at least two documents to compare"):
        Ranker("svmmap").partial_fit([[1.0, 2.0]], [1], qid=[7])
