"""Boosted trees: the model is that of the library with our objective, and every way to stop leaves one that works."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import Boosted, DataError, Queries, Ranker, evaluate, load, tune
from marginrank.data.queries import in_canonical_order
from marginrank.errors import NothingRankedWarning
from marginrank.integrations.gradient_boosting import objective
from marginrank.losses import PairwiseHinge, ScoreRisk, SoftmaxCrossEntropy, StructuredLoss
from marginrank.methods.presets import parse_method
from marginrank.scorers import parse_scorer
from marginrank.scorers.boosted import scorer as boosted

BACKENDS = ["lightgbm", "xgboost"]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
METHODS = ["svmmap", "svmndcg@5", "svmauc", "svmmrr", "ranksvm", "ranksvm-squared", "softmax", "listnet", "regression"]


def judged(n=60, seed=0, missing=0.0, **options):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 16, n)
    X = rng.standard_normal((sizes.sum(), 4))
    grades = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(len(X)), [0.5, 1.2]).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return Queries.from_arrays(X, grades, group=sizes, allow_nan=True, **options)


def ranker(backend, method="softmax", trees=10, n_jobs=1, **options):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    own = {"min_documents": 5} if backend == "lightgbm" else {}
    names = ("leaves", "learning_rate", "depth", "l2", "features", "queries", "bags", "strongest")
    names += ("monotone", "curvature", "start")
    own |= {name: options.pop(name) for name in names if name in options}
    return Ranker(method, scorer=Boosted(trees, backend=backend, **own), n_jobs=n_jobs, **options)


def by_lightgbm(queries, loss, curvature):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {
        "objective": objective(loss, queries, curvature=curvature),
        "min_data_in_leaf": 5,
        "min_sum_hessian_in_leaf": 1e-6,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(queries.X, queries.grades, group=queries.lengths)
    return lightgbm.train(settings, data, 10).predict


def by_xgboost(queries, loss, curvature):
    xgboost = pytest.importorskip("xgboost")
    settings = {
        "grow_policy": "lossguide",
        "learning_rate": 0.1,
        "max_leaves": 31,
        "max_depth": 0,
        "min_child_weight": 1e-6,
        "lambda": 0.0,
        "base_score": 0.0,
        "disable_default_eval_metric": 1,
        "nthread": 1,
    }
    data = xgboost.QuantileDMatrix(queries.X, queries.grades, group=queries.lengths)
    booster = xgboost.train(settings, data, 10, obj=objective(loss, queries, curvature=curvature))
    return lambda X: booster.predict(xgboost.DMatrix(X))


@every_backend
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    ("method", "curvature"), [("softmax", "gradient"), ("ranksvm-squared", "hessian"), ("svmmap", "gradient")]
)
def test_the_model_is_that_of_the_library_with_our_objective(backend, method, curvature, missing):
    if (backend, method) == ("xgboost", "svmmap"):
        pytest.skip("the slope of a hinge jumps, so scores in float32 lead to other trees")
    queries, other = in_canonical_order(judged(missing=missing)), judged(seed=1, missing=missing)
    fitted = ranker(backend, method, curvature=curvature).fit(queries)
    train = {"lightgbm": by_lightgbm, "xgboost": by_xgboost}[backend]
    predict = train(queries, parse_method(method).loss, curvature)
    # XGBoost adds its trees up in float32, so its gradients differ from ours in the seventh digit.
    tolerance = 1e-9 if backend == "lightgbm" else 2e-4
    for one in (queries, other):
        np.testing.assert_allclose(fitted.predict(one.X), predict(one.X), rtol=0, atol=tolerance)


@every_backend
@pytest.mark.parametrize("method", METHODS)
def test_training_lowers_the_risk(backend, method):
    queries = judged()
    fitted = ranker(backend, method).fit(queries)
    prepared = parse_method(method).loss.prepare(queries)
    xi, _ = prepared(fitted.predict(queries))
    at_zero, _ = prepared(np.zeros(queries.n_documents))
    assert fitted.objective_ == pytest.approx(xi[prepared.active].mean(), rel=1e-9)
    assert fitted.objective_ < 0.9 * at_zero[prepared.active].mean()
    assert fitted.gap_ == np.inf
    assert fitted.n_iter_ == 10
    # The slope of a hinge jumps, so a tree may raise the risk; the trees up to the lowest are kept.
    assert len(fitted.form_.roots) == 1 + np.argmin([step.primal for step in fitted.solution_.trace])
    assert (fitted.model_.method.solver, fitted.model_.method.bound) == ("boosted", "hinge")


@every_backend
def test_rows_and_queries_in_any_order_give_the_same_model(backend):
    queries = judged()
    qid = np.repeat(queries.query_ids, queries.lengths)
    order = np.random.default_rng(1).permutation(len(qid))
    first = ranker(backend, "svmmap").fit(queries)
    again = ranker(backend, "svmmap").fit(queries.X[order], queries.grades[order], qid=qid[order])
    np.testing.assert_array_equal(first.coef_, again.coef_)
    np.testing.assert_array_equal(ranker(backend, "svmmap", n_jobs=2).fit(queries).coef_, first.coef_)


@every_backend
def test_validation_keeps_the_best_stage(backend):
    queries, valid = judged(), judged(40, seed=1)
    fitted = ranker(backend, trees=200, patience=5).fit(queries, validation=valid)
    n_trees = len(fitted.form_.roots)
    assert fitted.n_iter_ == n_trees + 5 < 200
    shorter = ranker(backend, trees=n_trees).fit(queries)
    np.testing.assert_array_equal(fitted.predict(valid), shorter.predict(valid))
    best = evaluate(valid, fitted, "ndcg").mean["ndcg"]
    values = [
        evaluate(valid, ranker(backend, trees=t).fit(queries), "ndcg").mean["ndcg"] for t in range(1, fitted.n_iter_, 2)
    ]
    assert best >= max(values)


@every_backend
def test_every_way_to_stop_leaves_a_model(backend):
    queries = judged()

    def interrupt(step, theta):
        if step.passes == 4:
            raise KeyboardInterrupt

    stopped = ranker(backend, trees=100).fit(queries, callback=lambda step, _: step.passes == 3)
    assert (stopped.solution_.reason, stopped.n_iter_, len(stopped.form_.roots)) == ("callback", 3, 3)
    np.testing.assert_array_equal(stopped.predict(queries), ranker(backend, trees=3).fit(queries).predict(queries))
    interrupted = ranker(backend, trees=100).fit(queries, callback=interrupt)
    assert interrupted.solution_.reason == "interrupted"
    assert len(interrupted.form_.roots) == 3
    late = ranker(backend, trees=10**6, time_limit=1e-6).fit(queries)
    assert late.solution_.reason == "time_limit"
    assert np.ptp(late.predict(queries)) > 0


@every_backend
def test_each_tree_splits_the_features_drawn_for_it(backend):
    trained = ranker(backend, trees=12, features=0.25).fit(judged())
    form = trained.form_
    ends = [*form.roots[1:], len(form.feature)]
    split = [set(form.feature[root:end]) - {-1} for root, end in zip(form.roots, ends, strict=True)]
    assert {len(features) for features in split} == {1}
    assert len(set().union(*split)) > 1


@every_backend
def test_trees_are_grown_on_the_queries_drawn_for_them(backend, monkeypatch):
    growing, drawn = boosted._GROWERS[backend], []
    grow, queries = growing.grow, judged(40)

    def watched(self, bag, gradient, curvature):
        drawn.append(frozenset(np.repeat(np.arange(40), queries.lengths)[gradient != 0]))
        assert not curvature[gradient == 0].any()
        return grow(self, bag, gradient, curvature)

    monkeypatch.setattr(growing, "grow", watched)
    ranker(backend, trees=8, queries=0.25).fit(queries)
    assert {len(queries) for queries in drawn} == {10}
    assert len(set(drawn)) == 8


def test_a_draw_without_a_split_is_not_the_end():
    # Only the last of the queries has an order that can be learned.
    X, grades = np.zeros((200, 1)), np.tile([1, 0], 100)
    X[190:, 0] = grades[190:]
    queries = Queries.from_arrays(X, grades, group=np.full(20, 10))
    form = ranker("lightgbm", trees=40, queries=0.05).fit(queries).form_
    assert 0 < len(form.roots) < 20


@every_backend
def test_bags_are_the_mean_of_forests_that_know_nothing_of_each_other(backend, monkeypatch):
    queries, turn = judged(40), count()
    halves = [np.repeat(np.arange(40) % 2 == side, queries.lengths).astype(float) for side in (0, 1)]

    def trained(bags, draw):
        monkeypatch.setattr(Boosted, "_draw", lambda *_: draw())
        return ranker(backend, trees=6, queries=0.5, bags=bags).fit(queries)

    both = trained(2, lambda: halves[next(turn) % 2])
    alone = [trained(1, lambda half=half: half) for half in halves]
    separate = np.mean([one.predict(queries) for one in alone], axis=0)
    np.testing.assert_allclose(both.predict(queries), separate, rtol=1e-6, atol=1e-9)
    assert np.ptp(alone[0].predict(queries) - alone[1].predict(queries)) > 0.1
    assert both.solution_.primal == pytest.approx(ScoreRisk(parse_method("softmax").loss, queries)(separate)[0])


@every_backend
def test_bags_draw_features_of_their_own(backend):
    form = ranker(backend, trees=12, features=0.5, bags=3).fit(judged()).form_
    ends = [*form.roots[1:], len(form.feature)]
    split = [frozenset(form.feature[root:end]) for root, end in zip(form.roots, ends, strict=True)]
    assert len({tuple(split[bag::3]) for bag in range(3)}) == 3


@every_backend
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_only_the_strongest_features_are_split(backend, missing):
    # Features 1 and 3 decide; the model is the one without the others.
    rng = np.random.default_rng(4)
    X = rng.standard_normal((900, 4))
    grades = np.digitize(X[:, 1] - X[:, 3] + 0.3 * rng.standard_normal(900), [0.5, 1.5])
    X[rng.random(X.shape) < missing] = np.nan
    queries = Queries.from_arrays(X, grades, group=np.full(60, 15), allow_nan=True)
    only = Queries.from_arrays(X[:, [1, 3]], grades, group=np.full(60, 15), allow_nan=True)
    chosen = ranker(backend, strongest=2, monotone={3: "decreasing"}).fit(queries)
    assert set(chosen.form_.feature) == {-1, 1, 3}
    by_hand = ranker(backend, monotone={1: "decreasing"}).fit(only)
    np.testing.assert_array_equal(chosen.predict(queries), by_hand.predict(only))
    all_of_them = ranker(backend, strongest=4).fit(queries)
    np.testing.assert_array_equal(all_of_them.predict(queries), ranker(backend).fit(queries).predict(queries))


def test_the_strongest_features_are_those_left_over_by_the_start():
    # A linear model takes care of feature 0; the absolute value of feature 1 is left to the trees.
    rng = np.random.default_rng(3)
    X = rng.standard_normal((900, 3))
    worth = 1.5 * X[:, 0] + np.abs(X[:, 1])
    queries = Queries.from_arrays(X, np.digitize(worth, [0, 1, 2, 3]), group=np.full(60, 15))
    assert set(ranker("lightgbm", strongest=1, start="linear", C=1000).fit(queries).form_.parts[1].feature) == {-1, 1}
    assert set(ranker("lightgbm", strongest=1).fit(queries).form_.feature) == {-1, 0}


@every_backend
def test_draws_depend_on_the_seed_alone(backend):
    def scores(seed, order=slice(None)):
        queries = judged()
        options = {"features": 0.5, "queries": 0.5, "bags": 2, "strongest": 3}
        trained = ranker(backend, random_state=seed, **options).fit(queries[order])
        return trained.predict(queries)

    np.testing.assert_array_equal(scores(1), scores(1, slice(None, None, -1)))
    assert not np.array_equal(scores(1), scores(2))


@every_backend
def test_monotone_features_only_raise_scores(backend):
    queries = judged(200)
    free = ranker(backend, trees=30).fit(queries)
    bound = ranker(backend, trees=30, monotone={0: "increasing", 1: "decreasing"}).fit(queries)

    def rises(fitted, feature):
        X = np.repeat(np.random.default_rng(2).standard_normal((20, 1, 4)), 50, axis=1)
        X[:, :, feature] = np.linspace(-3, 3, 50)
        return np.diff(fitted.predict(X.reshape(-1, 4)).reshape(20, 50), axis=1)

    assert rises(free, 0).min() < 0
    assert rises(bound, 0).min() >= 0
    assert rises(bound, 1).max() <= 0
    assert rises(bound, 0).max() > 0


@every_backend
def test_saved_models_score_without_the_library(backend, tmp_path, monkeypatch):
    queries = judged(missing=0.1)
    fitted = ranker(backend).fit(queries)
    scores = fitted.predict(queries)
    fitted.save(tmp_path / "model.safetensors")
    monkeypatch.setitem(sys.modules, backend, None)
    loaded = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(queries), scores)
    assert loaded.scorer == fitted.scorer
    with pytest.raises(ImportError, match=r"training boosted trees needs (LightGBM|XGBoost): pip install"):
        loaded.fit(queries)


@every_backend
@pytest.mark.parametrize("start", ["linear", "additive(bins=8)"])
def test_trees_on_top_of_a_model(backend, start, tmp_path):
    queries = judged()
    below = Ranker("svmmap", scorer=start, C=3.0, solver="auto(tol=1e-3)").fit(in_canonical_order(queries))
    fitted = ranker(backend, "svmmap", start=start, C=3.0).fit(queries)
    n = below.form_.n_parameters
    assert fitted.n_iter_ == 11
    np.testing.assert_allclose(fitted.coef_[:n], below.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.objective_, mean_slack("svmmap", queries, fitted), rtol=1e-9)
    assert fitted.objective_ < 0.9 * mean_slack("svmmap", queries, below)
    trees = fitted.form_.parts[1]
    X = queries.X if fitted.model_.scaler is None else fitted.model_.scaler.transform(queries).X
    np.testing.assert_allclose(fitted.predict(queries) - below.predict(queries), trees.score(fitted.coef_[n:], X))
    fitted.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(queries), fitted.predict(queries))
    assert fitted.model_.to_frame()["share"].sum() == pytest.approx(1.0)


def mean_slack(method, queries, fitted):
    prepared = parse_method(method).loss.prepare(queries)
    return prepared(fitted.predict(queries))[0][prepared.active].mean()


def test_validation_may_keep_the_model_that_trees_start_from():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3))
    grades = np.digitize(X[:, 0] + 0.1 * rng.standard_normal(900), [0.5, 1.5])
    queries = Queries.from_arrays(X, grades, group=[15] * 60)
    started = ranker("lightgbm", "softmax", trees=50, start="linear", C=100.0, patience=4)
    fitted = started.fit(queries[:10], validation=queries[10:])
    best = evaluate(queries[10:], fitted, "ndcg").mean["ndcg"]
    plain = Ranker("softmax", C=100.0, solver="auto(tol=1e-3)").fit(queries[:10])
    assert best >= evaluate(queries[10:], plain, "ndcg").mean["ndcg"] - 1e-12
    assert fitted.n_iter_ < 51


def test_the_tight_bound_trains_from_a_start():
    queries = judged()
    fitted = ranker("lightgbm", "svmmap", bound="tight", start="additive").fit(queries)
    assert fitted.model_.method.bound == "tight"
    steps = [step.primal for step in fitted.solution_.trace]
    assert steps[-1] < 0.9 * steps[0]


def test_a_C_that_is_ignored_is_told():
    pytest.importorskip("lightgbm")
    queries = judged(20)
    with pytest.warns(UserWarning, match=r"^the boosted scorer has no C, so C = 10 is ignored; leave it out$") as told:
        ranker("lightgbm", trees=2, C=10.0).fit(queries)
    assert told[0].filename == __file__


def test_a_start_has_a_C_to_choose():
    started = ranker("lightgbm", start="linear", trees=3)
    selection = tune(started, judged(), folds=2, Cs=[0.01, 1.0])
    assert sorted(one.parameters["C"] for one in selection.candidates) == [0.01, 1.0]
    with pytest.raises(DataError, match="fill it"):
        started.fit(judged(missing=0.1))
    with pytest.raises(ValueError, match="start is 'boosted'; give a scorer that a solver trains"):
        Boosted(start="boosted")


@pytest.mark.parametrize(
    "kinds", [b"linear,sum", b"linear,forest", b"linear", b"linear,linear", b"\xff", b"", b"trees,linear"]
)
def test_sums_of_other_forms_are_refused(kinds, tmp_path):
    from marginrank.model.file_format import read_model, write_model

    path = tmp_path / "model.safetensors"
    ranker("lightgbm", start="linear").fit(judged(20)).save(path)
    kind, header, arrays = read_model(path)
    write_model(path, kind, header, {**arrays, "sum.kinds": np.frombuffer(kinds, dtype=np.uint8)})
    if kinds == b"trees,linear":
        load(path)  # another order is another model, and a sound one
    else:
        with pytest.raises(DataError):
            load(path)


@pytest.mark.parametrize("start", [None, "linear", "additive"])
def test_explanations_add_up(start):
    queries = judged(20)
    fitted = ranker("lightgbm", start=start).fit(queries)
    query = queries[0]
    scores = fitted.predict(query)
    np.testing.assert_allclose(fitted.explain(query).sum(axis=1), scores - scores.mean(), atol=1e-9)


def test_weights_of_queries_count():
    queries = judged()
    weights = np.where(np.arange(60) < 30, 1.0, 0.0)
    half = Queries.from_arrays(queries.X, queries.grades, group=queries.lengths, query_weights=weights)
    fitted = ranker("lightgbm").fit(half)
    prepared = SoftmaxCrossEntropy(divergence=True, target="share").prepare(queries)
    xi = prepared(fitted.predict(queries))[0]
    assert fitted.objective_ == pytest.approx(xi[:30][prepared.active[:30]].mean())
    assert xi[:30].mean() < xi[30:].mean()


def test_parameters_are_reached_by_name():
    chosen = ranker("lightgbm").set_params(scorer__trees=3, scorer__leaves=4)
    assert len(chosen.fit(judged()).form_.roots) == 3
    selection = tune(chosen, judged(), folds=2, grid={"scorer__learning_rate": [0.1, 1e-9]})
    assert len(selection.candidates) == 2
    spelled = parse_scorer("boosted(trees=100,backend=xgboost)")
    assert spelled == Boosted(trees=100, backend="xgboost")
    assert str(spelled) == "boosted(trees=100,backend=xgboost)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trees": 0}, "trees is 0; give a whole number, at least 1"),
        ({"leaves": 1}, "leaves is 1; give a whole number, at least 2"),
        ({"depth": 0}, "depth is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; give a number above 0"),
        ({"features": 1.5}, "the share of features is 1.5; give a number above 0, at most 1"),
        ({"features": True}, "boosted: features is True; give a number"),
        ({"queries": "half"}, "boosted: queries is 'half'; give a number"),
        ({"bags": 0}, "bags is 0; give a whole number, at least 1"),
        ({"bags": 2}, "all 2 bags would be identical; set queries or features below 1, or use one"),
        ({"strongest": 0}, "strongest is 0; give a whole number, at least 1"),
        ({"l2": -1.0}, "l2 is -1.0; give a number of at least 0"),
        ({"backend": "catboost"}, "backend is 'catboost'; choose 'lightgbm' or 'xgboost'"),
        ({"backend": "xgboost", "min_documents": 5}, "XGBoost does not count the documents"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Boosted(**options)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "bundle"}, "solver is for scorers that a solver trains, and boosted is not; leave it out"),
        ({"warm_start": True}, "warm_start is for scorers"),
        (
            {"method": "svmmap", "bound": "tight"},
            "the gradient of the tight bound is 0 at scores 0, where boosted trees start",
        ),
        ({"method": StructuredLoss("ap", bound="tight")}, "the gradient of the tight bound is 0"),
        ({"method": PairwiseHinge(), "curvature": "hessian"}, "is not smooth, so it has no Hessian"),
    ],
)
def test_what_has_no_effect_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        ranker("lightgbm", **parameters).fit(judged(20))


def test_sparse_features_and_other_solvers_are_refused():
    queries = judged(20)
    X, group = sp.csr_array(queries.X), queries.lengths
    with pytest.raises(DataError, match=r"takes no sparse X; pass X\.toarray\(\)"):
        ranker("lightgbm").fit(X, queries.grades, group=group)
    with pytest.raises(TypeError, match="the boosted scorer is trained in stages"):
        Boosted().prepare(queries)


def test_trees_end_where_nothing_is_left_to_learn():
    pytest.importorskip("lightgbm")
    y = np.arange(80) % 2
    few = ranker("lightgbm", "svmmap", trees=3).fit(judged(20))
    assert (few.solution_.reason, few.n_iter_) == ("max_iter", 3)
    done = ranker("lightgbm", "svmmap", trees=500).fit(y[:, None], y, group=[2] * 40)
    assert done.solution_.risk == 0.0
    assert done.solution_.reason == "stationary"
    assert done.n_iter_ < 500


@every_backend
def test_what_cannot_be_split_is_refused(backend):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    queries = judged()
    alike = replace(queries, X=np.zeros_like(queries.X))
    small = {"lightgbm": "no feature splits the .* documents into parts of at least 20; lower min_documents"}
    with pytest.raises(DataError, match=small.get(backend, "no split of any feature lowers the loss")):
        Ranker("softmax", scorer=Boosted(trees=3, backend=backend)).fit(alike)
    with pytest.warns(NothingRankedWarning, match="the features of the documents of each query are the same"):
        Ranker("softmax", scorer=Boosted(trees=3, backend=backend, start="linear")).fit(alike)
    if backend == "lightgbm":
        with pytest.raises(DataError, match=small["lightgbm"]):
            Ranker("softmax", scorer="boosted").fit(queries[:2])


def test_a_file_with_impossible_parameters_is_refused(tmp_path):
    fitted = ranker("lightgbm").fit(judged(20))
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    from marginrank.model.file_format import read_model, write_model

    kind, header, arrays = read_model(path)
    header["parameters"]["scorer"]["trees"] = -1
    write_model(path, kind, header, arrays)
    with pytest.raises(DataError, match="trees is -1"):
        load(path)


def test_tune_tries_leaves_and_rates_and_stops_early():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(400) > 0.5).astype(int)
    scorer = Boosted(trees=30, min_documents=5, learning_rate=0.2)
    selection = tune(Ranker("svmmap", scorer=scorer, patience=3), X, y, qid=np.arange(400) // 10, folds=2)
    assert [candidate.parameters["scorer__leaves"] for candidate in selection.candidates] == [8, 31]
    assert "scorer__learning_rate" not in selection.best.parameters
    assert selection.complete
    chosen = selection.ranker.scorer
    assert 1 <= chosen.trees <= 30
    assert len(selection.ranker.model_.form.roots) <= chosen.trees
    given = {"scorer__leaves": [4], "scorer__learning_rate": [0.1]}
    alone = tune(Ranker("svmmap", scorer=scorer), X, y, qid=np.arange(400) // 10, folds=2, grid=given)
    assert len(alone.candidates) == 1
