"""Objectives and metrics for LightGBM and XGBoost: what these libraries are handed is what our losses compute."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

from marginrank import DataError, Queries, evaluate
from marginrank.integrations.gradient_boosting import metric, objective
from marginrank.losses import ListHinge, PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from tests.losses import every

#: Neither library passes document groups on, the tight bound has no slope where they begin, and `ListHinge` is for
#: shorter lists.
LOSSES = [
    loss for loss in every.LOSSES if loss.convex and not every.needs_groups(loss) and not isinstance(loss, ListHinge)
]
every_loss = every.over(LOSSES)
ROUNDS = 10


def some_queries(n=60, seed=0, **options):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 15, n)
    X = rng.standard_normal((sizes.sum(), 4))
    grades = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(len(X)), [0.5, 1.2]).astype(float)
    return Queries.from_arrays(X, grades, group=sizes, **options)


class Recorded:
    """An objective that keeps what it was asked and what it answered, with the signature that LightGBM looks at."""

    def __init__(self, inner):
        self.inner, self.calls = inner, []

    def __deepcopy__(self, memo):
        return self  # LightGBM copies its parameters

    def __call__(self, first, second, sample_weight=None, group=None):
        answer = self.inner(first, second) if group is None else self.inner(first, second, sample_weight, group)
        scores = first if hasattr(second, "get_label") else second
        self.calls.append((np.array(scores, dtype=float), *answer))
        return answer


def lightgbm_train(queries, fobj, weights=None):
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    data = lightgbm.Dataset(queries.X, queries.grades, group=queries.lengths, weight=weights)
    settings = {"objective": fobj, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5, "seed": 0}
    return lightgbm.train(settings, data, ROUNDS).predict(queries.X)


def lightgbm_estimator(queries, fobj, weights=None):
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    model = lightgbm.LGBMRanker(
        objective=fobj, n_estimators=ROUNDS, verbosity=-1, n_jobs=1, min_child_samples=5, random_state=0
    )
    model.fit(queries.X, queries.grades, group=queries.lengths, sample_weight=weights)
    return model.predict(queries.X)


def xgboost_train(queries, fobj, weights=None):
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    data = xgboost.DMatrix(queries.X, queries.grades, group=queries.lengths, weight=weights)
    settings = {
        "min_child_weight": 0,
        "nthread": 1,
        "max_depth": 4,
        "base_score": 0.0,
        "disable_default_eval_metric": 1,
    }
    return xgboost.train(settings, data, ROUNDS, obj=fobj).predict(data)


def xgboost_estimator(queries, fobj, weights=None):
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    model = xgboost.XGBRegressor(
        objective=fobj, n_estimators=ROUNDS, min_child_weight=0, n_jobs=1, max_depth=4, base_score=0.0
    )
    return model.fit(queries.X, queries.grades, sample_weight=weights).predict(queries.X)


INTERFACES = [lightgbm_train, lightgbm_estimator, xgboost_train, xgboost_estimator]
every_interface = pytest.mark.parametrize("train", INTERFACES, ids=lambda one: one.__name__)


def made(loss, queries, train, **options):
    """XGBoost's estimators pass no queries on."""
    return objective(loss, queries if train is xgboost_estimator else None, **options)


@cache
def trained(train, loss):
    """Train once: return the queries, the calls of the objective and the scores."""
    queries = some_queries()
    fobj = Recorded(made(loss, queries, train))
    scores = train(queries, fobj)
    return queries, fobj.calls, scores


@every_interface
@every_loss
def test_libraries_are_handed_our_gradients(train, loss):
    queries, calls, _ = trained(train, loss)
    assert len(calls) == ROUNDS
    for scores, gradient, curvature in calls:
        # Queries know their documents; groups alone only their positions, by which dorm breaks ties.
        known = queries if train is xgboost_estimator else queries.grades
        offsets = None if train is xgboost_estimator else queries.offsets
        expected = loss.prepare(known, offsets)(scores)[1]
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(curvature, np.abs(expected), rtol=1e-6, atol=1e-9)
    assert np.ptp(calls[-1][0]) > 0


@every_interface
@every.over(loss for loss in LOSSES if loss.smooth)
def test_smooth_losses_are_handed_over_as_differences_of_their_values(train, loss):
    queries = some_queries(15)
    fobj = Recorded(made(loss, queries, train, curvature="hessian"))
    train(queries, fobj)
    scores, gradient, curvature = fobj.calls[3]
    prepared, step = loss.prepare(queries), 1e-6
    rng = np.random.default_rng(0)
    for document in rng.choice(len(scores), 12, replace=False):
        ahead, behind = scores.copy(), scores.copy()
        ahead[document] += step
        behind[document] -= step
        (up, steep), (down, flat) = prepared(ahead), prepared(behind)
        assert gradient[document] == pytest.approx((up - down).sum() / (2 * step), abs=1e-6)
        assert curvature[document] == pytest.approx((steep - flat)[document] / (2 * step), abs=1e-6)


@every_interface
@every_loss
def test_training_lowers_the_loss_and_raises_its_measure(train, loss):
    queries, _, scores = trained(train, loss)
    prepared, name = loss.prepare(queries), loss.criterion
    assert prepared(scores)[0].mean() < prepared(np.zeros(len(scores)))[0].mean()
    if "+" not in name:
        assert evaluate(queries, scores, name).mean[name] > evaluate(queries, -queries.X[:, 2], name).mean[name] + 0.1


@every_loss
def test_gradients_do_not_depend_on_the_order_of_queries_and_rows(loss):
    queries = some_queries()
    rng = np.random.default_rng(1)
    scores = rng.standard_normal(queries.n_documents)
    order = rng.permutation(queries.n_documents)
    qid = np.repeat(queries.query_ids, queries.lengths)
    other = Queries.from_arrays(queries.X[order], queries.grades[order], qid=qid[order])
    gradient, curvature = objective(loss, queries)(queries.grades, scores)
    again, same = objective(loss, other)(other.grades, scores[order])
    np.testing.assert_allclose(again, gradient[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(same, curvature[order], rtol=1e-9, atol=1e-12)


@every_interface
@pytest.mark.parametrize("loss", [StructuredLoss("ap"), SoftmaxCrossEntropy(target="share")], ids=str)
def test_models_do_not_depend_on_the_order_of_queries(train, loss):
    queries = some_queries()
    order = np.random.default_rng(2).permutation(len(queries))
    other = queries[order]
    scores, again = train(queries, made(loss, queries, train)), train(other, made(loss, other, train))
    rows = np.concatenate([np.arange(queries.offsets[q], queries.offsets[q + 1]) for q in order])
    np.testing.assert_allclose(again, scores[rows], rtol=1e-5, atol=1e-6)


@every_interface
def test_weights_multiply_derivatives(train):
    rng = np.random.default_rng(3)
    queries, loss = some_queries(), SoftmaxCrossEntropy()
    by_query = rng.random(len(queries)).astype(np.float32)
    by_document = np.repeat(by_query, queries.lengths)
    fobj = Recorded(made(loss, queries, train))
    if train is xgboost_estimator:
        fobj = made(loss, queries, train)
        gradient, curvature = fobj(queries.grades, np.zeros(queries.n_documents), sample_weight=by_document)
    else:
        train(queries, fobj, by_query if train is xgboost_train else by_document)
        _, gradient, curvature = fobj.calls[0]
    expected = by_document * loss(queries.grades, np.zeros(queries.n_documents), queries.offsets)[1]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    np.testing.assert_allclose(curvature, np.abs(expected), rtol=1e-6)


def test_weights_of_queries_multiply_derivatives():
    queries = some_queries(query_weights=np.arange(60.0))
    gradient, _ = objective(SoftmaxCrossEntropy(), queries)(queries.grades, np.zeros(queries.n_documents))
    plain = SoftmaxCrossEntropy()(queries.grades, np.zeros(queries.n_documents), queries.offsets)[1]
    np.testing.assert_allclose(gradient, np.repeat(np.arange(60.0), queries.lengths) * plain)


def test_ids_of_rows():
    loss, grades, scores = StructuredLoss("ap"), [1, 0, 0, 1], np.array([0.1, 0.2, 0.3, 0.4])
    gradient, _ = objective(loss, qid=["b", "b", "a", "a"])(grades, scores)
    assert gradient.tolist() == loss(grades, scores, [0, 2, 4])[1].tolist()
    with pytest.raises(DataError, match=r"rows of query b are not adjacent: row 3 follows row 0; sort all rows"):
        objective(loss, qid=["b", "a", "a", "b"])


def test_wrong_use_is_refused_with_the_way_out():
    queries, loss = some_queries(5), StructuredLoss("ap")
    zeros = np.zeros(queries.n_documents)
    with pytest.raises(DataError, match=r"no queries; give the data group= .* or use objective\(loss, queries\)"):
        objective(loss)(queries.grades, zeros)
    with pytest.raises(DataError, match=r"no queries; .* or use metric\('ap', queries\)"):
        metric("ap")(queries.grades, zeros)
    with pytest.raises(DataError, match=r"labels are not the grades of the .* train on queries\.X and queries\.grades"):
        objective(loss, queries)(queries.grades[::-1], zeros)
    with pytest.raises(DataError, match="group sums to 3"):
        objective(loss)(queries.grades, zeros, None, [1, 2])
    with pytest.raises(ValueError, match=r"is not smooth, so it has no Hessian; use curvature='gradient'"):
        objective(loss, curvature="hessian")
    with pytest.raises(ValueError, match="curvature is 'newton'; choose"):
        objective(loss, curvature="newton")
    with pytest.raises(TypeError, match="give a Loss such as"):
        objective("ap")
    with pytest.raises(TypeError, match="leave out qid"):
        objective(loss, queries, qid=[1])


def test_datasets_without_queries_are_refused():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    queries = some_queries(5)
    data = lightgbm.Dataset(queries.X, queries.grades)
    with pytest.raises(DataError, match="these rows have no queries"):
        lightgbm.train({"objective": objective(StructuredLoss("ap")), "verbosity": -1}, data, 1)


def test_the_tight_bound_trains_from_scores_that_rank():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    queries, loss = some_queries(), StructuredLoss("ap", bound="tight")
    start = 0.1 * queries.X[:, 0] * queries.X[:, 1]
    data = lightgbm.Dataset(queries.X, queries.grades, group=queries.lengths, init_score=start)
    settings = {"objective": objective(loss), "verbosity": -1, "min_data_in_leaf": 5}
    scores = start + lightgbm.train(settings, data, ROUNDS).predict(queries.X)
    prepared = loss.prepare(queries)
    assert prepared(scores)[0].mean() < 0.9 * prepared(start)[0].mean()


def test_cross_validation_of_lightgbm_trains_on_the_queries_of_each_fold():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    queries = some_queries()
    data = lightgbm.Dataset(queries.X, queries.grades, group=queries.lengths, free_raw_data=False)
    settings = {"objective": objective(PairwiseHinge()), "verbosity": -1, "min_data_in_leaf": 5, "metric": "none"}
    values = lightgbm.cv(settings, data, 10, nfold=3, feval=metric("ndcg@5"), stratified=False)["valid ndcg@5-mean"]
    assert values[-1] > values[0]


def test_an_objective_is_copied_without_what_it_prepared():
    queries = some_queries(5)
    fobj = objective(StructuredLoss("ap"), queries)
    copied, scores = pickle.loads(pickle.dumps(fobj)), np.arange(queries.n_documents) / 10.0
    assert copied(queries.grades, scores)[0].tolist() == fobj(queries.grades, scores)[0].tolist()


def test_metrics_are_what_evaluate_says():
    queries, other = some_queries(), some_queries(20, seed=1)
    rng = np.random.default_rng(4)
    scores, mix = rng.standard_normal(queries.n_documents), "ndcg@5 + 0.5*ap"
    means = evaluate(queries, scores, ["ndcg@5", "ap"]).mean
    expected = means["ndcg@5"] + 0.5 * means["ap"]
    assert metric(mix)(queries.grades, scores, None, queries.lengths) == (mix, pytest.approx(expected), True)
    assert metric(mix, other, queries)(queries.grades, scores) == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:The argument .eval_set. is deprecated")  # since LightGBM 4.7
def test_lightgbm_stops_early_by_our_measure():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    queries, valid = some_queries(), some_queries(30, seed=1)
    model = lightgbm.LGBMRanker(
        objective=objective(SoftmaxCrossEntropy()), n_estimators=100, verbosity=-1, n_jobs=1, min_child_samples=5
    )
    stop = lightgbm.early_stopping(3, verbose=False)
    model.set_params(metric="none")
    model.fit(
        queries.X,
        queries.grades,
        group=queries.lengths,
        eval_set=[(valid.X, valid.grades)],
        eval_group=[valid.lengths],
        eval_metric=metric("ap"),
        callbacks=[stop],
    )
    values = model.evals_result_["valid_0"]["ap"]
    assert model.best_iteration_ == 1 + int(np.argmax(values)) < 100
    best = model.predict(valid.X)
    assert max(values) == pytest.approx(evaluate(valid, best, "ap").mean["ap"])


def test_xgboost_stops_early_by_our_measure():
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    queries, valid = some_queries(), some_queries(30, seed=1)
    sets = [xgboost.DMatrix(one.X, one.grades, group=one.lengths) for one in (queries, valid)]
    seen = {}
    stop = xgboost.callback.EarlyStopping(rounds=3, maximize=True)
    settings = {"min_child_weight": 0, "disable_default_eval_metric": 1}
    fobj, judge = objective(SoftmaxCrossEntropy()), metric("ap")
    booster = xgboost.train(
        settings,
        sets[0],
        100,
        evals=[(sets[1], "valid")],
        obj=fobj,
        custom_metric=judge,
        evals_result=seen,
        callbacks=[stop],
        verbose_eval=False,
    )
    values = seen["valid"]["ap"]
    assert booster.best_iteration == int(np.argmax(values)) < 97
    best = booster.predict(sets[1], iteration_range=(0, booster.best_iteration + 1))
    assert max(values) == pytest.approx(evaluate(valid, best, "ap").mean["ap"])
    model = xgboost.XGBRegressor(
        objective=objective(SoftmaxCrossEntropy(), queries), n_estimators=5, eval_metric=metric("ap", queries, valid)
    )
    model.fit(queries.X, queries.grades, eval_set=[(queries.X, queries.grades), (valid.X, valid.grades)], verbose=False)
    last = model.evals_result()["validation_1"]["ap"][-1]
    assert last == pytest.approx(evaluate(valid, model.predict(valid.X), "ap").mean["ap"])
