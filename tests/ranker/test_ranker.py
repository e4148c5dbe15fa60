"""The estimator: scikit-learn's contract, presets, options, and what becomes of bad input."""

from __future__ import annotations

import signal
import warnings
from dataclasses import is_dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries, Ranker, evaluate
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from marginrank.methods import all_presets, parse_preset
from marginrank.runtime.option_objects import OptionObject
from marginrank.scorers import Additive, Linear
from marginrank.solvers import Auto, Bundle, FrankWolfe, NSlack, Stochastic, Subgradient
from marginrank.training import CollapseWarning, Tight
from marginrank.training import loss_minimizer as training
from marginrank.training.partitioned_risk import empirical_risk


def judged(n_queries=30, n_documents=8, n_features=4, seed=0, noise=0.7):
    """Queries whose grades follow the first two features; the third is noise, the fourth constant."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, n_features))
    X[:, -1] = 1.0
    hidden = X[:, 0] - 0.5 * X[:, 1] + noise * rng.standard_normal(len(X))
    return X, np.digitize(hidden, [0.5, 1.5]).astype(float), np.repeat(np.arange(n_queries), n_documents)


@pytest.mark.parametrize("scorer", [Linear(), Additive(bins=8)], ids=str)
@pytest.mark.parametrize("preset", [name for name, preset in all_presets().items() if preset.kind == "loss"])
def test_every_preset_of_a_loss_learns(preset, scorer):
    X, y, qid = judged()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        # In lists of 8 documents all rankings have the same precision@10.
        asked = "svmprec@3" if preset == "svmprec" else preset
        ranker = Ranker(asked, C=10.0, solver=Auto(tol=1e-3), scorer=scorer).fit(X, y, qid=qid)
    queries = Queries.from_arrays(X, y, qid=qid)
    learned = evaluate(queries, ranker.predict(X), "ndcg").mean["ndcg"]
    assert learned > evaluate(queries, X[:, 2], "ndcg").mean["ndcg"] + 0.1
    assert ranker.health_.norm == pytest.approx(np.linalg.norm(ranker.coef_))
    if ranker.model_.method.bound == "hinge":
        assert 0 <= ranker.gap_ <= 1e-3 * ranker.objective_
        assert ranker.health_.objective_ratio < 1


def test_presets_with_cutoffs():
    assert parse_preset("svmndcg@3").criterion == "ndcg@3"
    assert parse_preset("dorm-p@5").loss == StructuredLoss("p@5", "dorm")
    with pytest.raises(ValueError, match="'svmmpa' is neither a preset nor a measure; did you mean 'svmmap'"):
        Ranker("svmmpa").fit(*judged()[:2], qid=judged()[2])
    with pytest.raises(ValueError, match="preset 'svmmap' has no cutoff; leave out '@3'"):
        parse_preset("svmmap@3")


def test_default_cutoffs_and_rounds():
    cuts = {name: preset.cut for name, preset in all_presets().items() if preset.cut is not None}
    assert {name for name, cut in cuts.items() if cut == 10} == {
        "svmprec", "svmndcg", "svmmrr", "svmcombo", "svmcombo-shared", "dorm-ndcg", "dorm-p", "chapelle-ndcg"
    }  # fmt: skip
    rounds = {name: cut for name, cut in cuts.items() if cut != 10}
    assert rounds == {"lambdarank": 100, "mcrank": 30, "prank": 30, "jrank": 30, "rankboost": 300}
    assert parse_preset("svmndcg").criterion == "ndcg@10"
    assert parse_preset("svmcombo").criterion == "ap + ndcg@10 + rr@10"
    with pytest.raises(ValueError, match="unknown preset 'svmmpa'; did you mean 'svmmap'"):
        parse_preset("svmmpa")


def test_parts_never_change():
    assert all(kind.__dataclass_params__.frozen for kind in OptionObject.registry.values() if is_dataclass(kind))


def test_a_loss_with_a_tight_bound_is_trained_as_it_is_unless_the_hinge_is_asked_for():
    X, y, qid = judged()
    loss = StructuredLoss("ndcg@3", bound="tight")
    for bound in (None, "auto", "tight"):
        ranker = Ranker(loss, bound=bound).fit(X, y, qid=qid)
        assert (ranker.model_.method.bound, ranker.gap_, ranker.solution_.reason) == ("tight", np.inf, "stationary")
    hinge = Ranker(loss, bound="hinge", solver=Auto(tol=1e-6)).fit(X, y, qid=qid)
    assert (hinge.model_.method.bound, hinge.solution_.reason) == ("hinge", "converged")
    same = Ranker(StructuredLoss("ndcg@3"), bound="hinge", solver=Auto(tol=1e-6)).fit(X, y, qid=qid)
    assert np.array_equal(hinge.coef_, same.coef_)


def test_the_objective_is_that_of_the_features_as_given():
    X, y, qid = judged()
    ranker = Ranker("svmmap", C=5.0, solver=Auto(tol=1e-6), scaling=None).fit(X, y, qid=qid)
    risk = empirical_risk(Queries.from_arrays(X, y, qid=qid), StructuredLoss("ap"))
    value, _ = risk(ranker.coef_)
    assert ranker.objective_ == pytest.approx(0.5 * ranker.coef_ @ ranker.coef_ + 5.0 * value, rel=1e-12)
    assert ranker.predict(X) == pytest.approx(X @ ranker.coef_)
    assert ranker.health_.average_slack == pytest.approx(value)
    assert ranker.coef_.shape == (4,)


def test_rows_in_any_order_give_the_same_model_and_scores_come_back_in_that_order():
    X, y, qid = judged()
    shuffled = np.random.default_rng(1).permutation(len(X))
    one = Ranker("svmmap", C=3.0, solver=Auto(tol=1e-7)).fit(X, y, qid=qid)
    other = Ranker("svmmap", C=3.0, solver=Auto(tol=1e-7)).fit(X[shuffled], y[shuffled], qid=qid[shuffled])
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert one.predict(X[shuffled]) == pytest.approx(one.predict(X)[shuffled], abs=0)
    grouped = Ranker("svmmap", C=3.0, solver=Auto(tol=1e-7)).fit(X, y, group=[8] * 30)
    assert np.array_equal(grouped.coef_, one.coef_)
    as_queries = Ranker("svmmap", C=3.0, solver=Auto(tol=1e-7)).fit(Queries.from_arrays(X, y, qid=qid))
    assert np.array_equal(as_queries.coef_, one.coef_)


@pytest.mark.parametrize(
    "solver",
    [kind(tol=1e-5, max_iter=20_000) for kind in (Bundle, FrankWolfe, NSlack, Subgradient)],
    ids=lambda solver: solver.name,
)
def test_solvers_by_name_reach_the_same_objective(solver):
    X, y, qid = judged(n_queries=10)
    reference = Ranker("svmauc", C=2.0, solver=Auto(tol=1e-7)).fit(X, y, qid=qid)
    ranker = Ranker("svmauc", C=2.0, solver=solver).fit(X, y, qid=qid)
    assert ranker.model_.method.solver == solver.name
    assert ranker.objective_ == pytest.approx(reference.objective_, rel=1e-4)


def test_smooth_losses_take_newton_and_agree_with_the_bundle():
    X, y, qid = judged()
    newton = Ranker("ranksvm-squared", C=10.0, solver=Auto(tol=1e-7)).fit(X, y, qid=qid)
    bundle = Ranker("ranksvm-squared", C=10.0, solver=Bundle(tol=1e-7)).fit(X, y, qid=qid)
    assert newton.model_.method.solver == "newton"
    assert newton.objective_ == pytest.approx(bundle.objective_, rel=1e-6)
    with pytest.raises(ValueError, match="solver 'newton' needs a smooth risk"):
        Ranker("svmmap", solver="newton").fit(X, y, qid=qid)


def test_a_mix_of_measures_and_a_loss_of_ones_own():
    X, y, qid = judged()
    mixed = Ranker(measure="ndcg@5 + 0.5*ap", bound="hinge").fit(X, y, qid=qid)
    assert 0 < mixed.score(X, y, qid=qid) < 1
    own = Ranker(loss=PairwiseHinge(normalize="none"), C=0.1).fit(X, y, qid=qid)
    assert own.model_.method.trained.startswith("PairwiseHinge(")
    with pytest.raises(ValueError, match="give one of method, measure and loss, not method and measure"):
        Ranker("svmmap", measure="ap").fit(X, y, qid=qid)
    with pytest.raises(TypeError, match="method is 3; give the name of a preset, a measure, a Loss or a baseline"):
        Ranker(3).fit(X, y, qid=qid)
    with pytest.raises(TypeError, match="give a Loss"):
        Ranker(loss="ap").fit(X, y, qid=qid)


def test_weights_that_are_not_negative():
    X, y, qid = judged()
    free = Ranker("svmmap", C=10.0).fit(X, y, qid=qid)
    assert free.coef_[1] < 0
    held = Ranker("svmmap", C=10.0, scorer=Linear(nonnegative=True)).fit(X, y, qid=qid)
    assert (held.coef_ >= 0).all()
    assert held.objective_ > free.objective_
    assert 0 <= held.gap_ <= 1e-4 * held.objective_
    one = Ranker("svmmap", C=10.0, scorer=Linear(nonnegative=[1])).fit(X, y, qid=qid)
    assert one.coef_[1] == 0
    frame = pd.DataFrame(X, columns=["bm25", "age", "noise", "one"])
    assert Ranker("svmmap", scorer=Linear(nonnegative=["age"])).fit(frame, y, qid=qid).coef_[1] == 0
    with pytest.raises(DataError, match="there is no feature 'clicks'; known: bm25, age, noise, one"):
        Ranker("svmmap", scorer=Linear(nonnegative=["clicks"])).fit(frame, y, qid=qid)
    with pytest.raises(DataError, match="there is no column 4 in X"):
        Ranker("svmmap", scorer=Linear(nonnegative=[4])).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="solver 'frank-wolfe' does not support signs of weights"):
        Ranker("svmmap", scorer="linear(nonnegative=true)", solver="frank-wolfe").fit(X, y, qid=qid)


def test_query_weights_repeat_queries():
    X, y, qid = judged(n_queries=6)
    weights = np.array([1.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    weighted = Ranker("svmmap", C=4.0, solver=Auto(tol=1e-8)).fit(X, y, qid=qid, query_weights=weights)
    copies = np.repeat(np.arange(6), weights.astype(int))
    rows = np.concatenate([np.flatnonzero(qid == query) for query in copies])
    again = Ranker("svmmap", C=4.0, solver=Auto(tol=1e-8)).fit(X[rows], y[rows], group=[8] * len(copies))
    assert weighted.objective_ == pytest.approx(again.objective_, rel=1e-7)


@pytest.mark.parametrize(
    ("weighting", "weight"),
    [
        ("grades", lambda own: own.sum()),
        ("relevant", lambda own: (own > 0).sum()),
        ("pairs", lambda own: sum(a != b for a, b in combinations(own, 2))),
        ("sqrt-pairs", lambda own: sum(a != b for a, b in combinations(own, 2)) ** 0.5),
    ],
)
def test_weightings_are_query_weights(weighting, weight):
    X, y, qid = judged(n_queries=12)
    given = np.random.default_rng(0).uniform(0.5, 2.0, 12)
    weights = given * [weight(y[qid == query]) for query in range(12)]
    one = Ranker("svmmap", weighting=weighting, solver=Auto(tol=1e-7)).fit(X, y, qid=qid, query_weights=given)
    other = Ranker("svmmap", solver=Auto(tol=1e-7)).fit(X, y, qid=qid, query_weights=weights)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    with pytest.raises(ValueError, match="weighting is 'length'; choose one of grades"):
        Ranker(weighting="length").fit(X, y, qid=qid)


@pytest.mark.parametrize("scaling", ["standard", "query-minmax", "query-standard", "query-percentile"])
def test_scaling_lives_in_the_model(scaling):
    X, y, qid = judged()
    stretched = X * [1.0, 1000.0, 1e-3, 1.0] + [0.0, 5.0, 0.0, 0.0]
    plain, other = (
        Ranker("svmmap", scaling=scaling, solver=Auto(tol=1e-6)).fit(features, y, qid=qid)
        for features in (X, stretched)
    )
    assert other.coef_ == pytest.approx(plain.coef_, abs=1e-3)
    assert other.predict(stretched, qid=qid) == pytest.approx(plain.predict(X, qid=qid), abs=1e-2)
    if scaling != "standard":
        with pytest.raises(DataError, match="goes by query; give qid or group"):
            plain.predict(X)
    with pytest.raises(ValueError, match="unknown scaling 'max'; known: auto, standard, query-minmax"):
        Ranker("svmmap", scaling="max").fit(X, y, qid=qid)


def test_features_of_different_spread_are_standardized_unless_told_otherwise():
    X, y, qid = judged()
    stretched = X * [1.0, 1000.0, 1.0, 1.0]
    for features, options, scaling in (
        (X, {}, None),
        (stretched, {}, "standard"),
        (stretched, {"scaling": None}, None),
        (X, {"scaling": "standard"}, "standard"),
        (stretched, {"scorer": "additive(bins=4)"}, None),
    ):
        assert Ranker("svmauc", **options).fit(features, y, qid=qid).model_.scaling == scaling
    valid = judged(seed=3)
    plain = Ranker("svmauc", patience=3).fit(stretched, y, qid=qid, validation=(valid[0] * [1, 1000, 1, 1], *valid[1:]))
    named = Ranker("svmauc", patience=3, scaling="standard").fit(X, y, qid=qid, validation=valid)
    # Both are within the tolerance of the solver; without scaling a weight would be 1000 times smaller.
    assert plain.coef_ == pytest.approx(named.coef_, abs=1e-3)


def test_frames_keep_their_names():
    X, y, qid = judged()
    names = ["bm25", "age", "noise", "one"]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(dict(zip(names, X.T, strict=True)))):
        ranker = Ranker("svmmap").fit(frame, y, qid=qid)
        assert ranker.feature_names_in_.tolist() == names
        assert ranker.predict(frame) == pytest.approx(X @ ranker.coef_)
    with pytest.raises(DataError, match="the model was trained on in another order"):
        ranker.predict(pd.DataFrame(X, columns=names[::-1]))
    with pytest.raises(DataError, match="X has 3 features but the model was trained on 4"):
        ranker.predict(Queries.from_arrays(X[:, :3], y, qid=qid))


def test_sparse_features_give_the_same_model():
    X, y, qid = judged()
    X[np.abs(X) < 0.5] = 0.0
    dense = Ranker("svmmap", C=3.0, solver=Auto(tol=1e-7)).fit(X, y, qid=qid)
    sparse = Ranker("svmmap", C=3.0, solver=Auto(tol=1e-7)).fit(sp.csr_array(X), y, qid=qid)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    assert sparse.predict(sp.csr_array(X)) == pytest.approx(X @ sparse.coef_)


def test_rank_gives_rows_best_first():
    X, y, qid = judged(n_queries=5)
    mixed = np.random.default_rng(0).permutation(len(X))
    X, y, qid = X[mixed], y[mixed], qid[mixed]
    ranker = Ranker("svmmap").fit(X, y, qid=qid)
    scores = ranker.predict(X)
    ranked = ranker.rank(X, qid=qid)
    for query, order in zip(dict.fromkeys(qid.tolist()), ranked, strict=True):
        rows = np.flatnonzero(qid == query)
        assert order.tolist() == sorted(rows.tolist(), key=lambda row: -scores[row])
    assert [order.tolist() for order in ranker.rank(X, qid=qid, k=3)] == [order[:3].tolist() for order in ranked]
    colors = np.array(["red", "blue", "green"])[np.arange(len(X)) % 3]
    for whole, order in zip(ranked, ranker.rank(X, qid=qid, document_groups=colors), strict=True):
        seen: dict[str, int] = {}
        for row in whole.tolist():
            seen.setdefault(colors[row], row)
        assert order.tolist() == list(seen.values())
    queries = Queries.from_arrays(X, y, qid=qid, document_groups=colors)
    assert [o.tolist() for o in ranker.rank(queries, k=2)] == [
        o.tolist() for o in ranker.rank(X, qid=qid, k=2, document_groups=colors)
    ]
    with pytest.raises(DataError, match="rank needs the queries"):
        ranker.rank(X)
    with pytest.raises(ValueError, match="k is 0"):
        ranker.rank(X, qid=qid, k=0)
    with pytest.raises(DataError, match="document_groups have shape"):
        ranker.rank(X, qid=qid, document_groups=["red"])


def test_a_path_is_what_each_C_gives_alone():
    X, y, qid = judged()
    Cs = [10.0, 0.1, 1.0]
    path = Ranker("svmmap", solver=Auto(tol=1e-7)).fit_path(X, y, Cs=Cs, qid=qid)
    assert [ranker.C for ranker in path] == Cs
    for ranker in path:
        alone = Ranker("svmmap", C=ranker.C, solver=Auto(tol=1e-7)).fit(X, y, qid=qid)
        assert ranker.objective_ == pytest.approx(alone.objective_, rel=1e-6)
        assert ranker.predict(X).shape == (len(X),)
    with pytest.raises(ValueError, match="Cs is empty"):
        Ranker().fit_path(X, y, Cs=[], qid=qid)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::marginrank.errors.NothingRankedWarning")
def test_budgets_callbacks_and_interrupts_give_the_best_so_far():
    X, y, qid = judged(n_queries=60)
    limits = (
        ({"solver": Auto(tol=0.0, max_iter=2)}, "max_iter"),
        ({"solver": Auto(tol=0.0, time_limit=1e-9)}, "time_limit"),
        ({"solver": Auto(tol=0.0), "time_limit": 1e-9}, "time_limit"),
    )
    for options, reason in limits:
        ranker = Ranker("svmmap", C=1000.0, **options).fit(X, y, qid=qid)
        assert ranker.solution_.reason == reason
        assert ranker.gap_ > 0
    seen = []
    ranker = Ranker("svmmap", C=1000.0, solver=Auto(tol=0.0)).fit(
        X, y, qid=qid, callback=lambda step, _: seen.append(step) or len(seen) == 3
    )
    assert ranker.solution_.reason == "callback"
    assert ranker.n_iter_ == 3

    def press(step, theta):
        if step.passes > 3:
            signal.raise_signal(signal.SIGINT)

    ranker = Ranker("svmmap", C=1000.0, solver=Auto(tol=0.0)).fit(X, y, qid=qid, callback=press)
    assert ranker.solution_.reason == "interrupted"
    assert np.isfinite(ranker.gap_)


def test_a_warm_start_is_quicker():
    X, y, qid = judged(n_queries=60)
    ranker = Ranker("svmmap", C=100.0, solver=Auto(tol=1e-5), warm_start=True).fit(X, y, qid=qid)
    cold = ranker.solution_.passes
    ranker.fit(X, y, qid=qid)
    assert ranker.solution_.passes < cold


def test_early_stopping_keeps_the_weights_that_were_best_on_validation():
    X, y, qid = judged(n_queries=20, noise=2.0)
    valid = judged(n_queries=40, noise=2.0, seed=5)
    ranker = Ranker("svmmap", C=1000.0, patience=3).fit(X, y, qid=qid, validation=valid)
    full = Ranker("svmmap", C=1000.0).fit(X, y, qid=qid)
    held_out = Queries.from_arrays(valid[0], valid[1], qid=valid[2])
    assert ranker.score(held_out) >= full.score(held_out)
    value, _ = empirical_risk(Queries.from_arrays(X, y, qid=qid), StructuredLoss("ap"))(ranker.coef_)
    assert ranker.solution_.risk == pytest.approx(value)
    assert ranker.objective_ == pytest.approx(0.5 * ranker.coef_ @ ranker.coef_ + 1000.0 * value)
    names = ["a", "b", "c", "d"]
    named = Queries.from_arrays(X, y, qid=qid, feature_names=names)
    for other in (None, names):
        Ranker("svmmap").fit(named, validation=held_out.with_features(held_out.X, other))
    with pytest.raises(DataError, match="feature names of validation and training queries differ"):
        Ranker("svmmap").fit(named, validation=held_out.with_features(held_out.X, names[::-1]))
    with pytest.raises(DataError, match="the validation queries have 3 features and the training queries 4"):
        Ranker("svmmap").fit(named, validation=held_out.with_features(held_out.X[:, :3]))
    with pytest.raises(DataError, match="validation is Queries, or a tuple"):
        Ranker().fit(X, y, qid=qid, validation=valid[:2])


def test_threads_do_not_change_a_bit():
    X, y, qid = judged(n_queries=50)
    one, two = (Ranker("svmndcg", bound="hinge", C=5.0, n_jobs=n).fit(X, y, qid=qid) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)


def test_bad_input_is_named():
    X, y, qid = judged()
    with pytest.raises(DataError, match="training needs the queries: give qid"):
        Ranker().fit(X, y)
    with pytest.raises(ValueError, match="y is None"):
        Ranker().fit(X, qid=qid)
    with pytest.raises(DataError, match="a single document or a single grade, so there is nothing to learn"):
        Ranker().fit(X, np.ones(len(X)), qid=qid)
    with pytest.raises(DataError, match="X is a Queries, which includes grades"):
        Ranker().fit(Queries.from_arrays(X, y, qid=qid), y)
    with pytest.raises(ValueError, match="NaN"):
        Ranker().fit(np.where(X.max() == X, np.nan, X), y, qid=qid)
    with pytest.raises(ValueError, match="C is -1"):
        Ranker(C=-1).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="unknown solver 'smo'"):
        Ranker(solver="smo").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match=r"unknown scorer 'tree'; known: .*additive, boosted, kernel, linear"):
        Ranker(scorer="tree").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="unknown measure 'ndgc@10'; did you mean"):
        Ranker(measure="ndgc@10").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="linear has no parameter 'monotone'; it has nonnegative"):
        Ranker(scorer="linear(monotone=increasing)").fit(X, y, qid=qid)
    with pytest.raises(TypeError, match="scorer is 3; give a Scorer or its spelling"):
        Ranker(scorer=3).fit(X, y, qid=qid)
    with pytest.raises(DataError, match="query_weights"):
        Ranker().fit(Queries.from_arrays(X, y, qid=qid), query_weights=[1.0])


@pytest.mark.parametrize("dtype", [object, str, bytes])
def test_features_that_are_numbers_in_text_are_those_numbers(dtype):
    X, y, qid = judged()
    expected = Ranker().fit(X, y, qid=qid)
    written = X.astype(str).astype(dtype)
    assert np.array_equal(Ranker().fit(written, y, qid=qid).coef_, expected.coef_)
    assert np.array_equal(expected.predict(written), expected.predict(X))


def test_additive_shapes_are_the_function_that_is_predicted():
    X, y, qid = judged(n_queries=60)
    X[::7, 0] = np.nan
    scorer = Additive(bins=6, shape="steps", monotone={0: "increasing"})
    ranker = Ranker("ranksvm", scorer=scorer, C=10.0).fit(X, y, qid=qid)
    shapes = ranker.shapes()
    assert np.all(np.diff(shapes[0].values) >= 0)
    total = np.zeros(len(X))
    for shape, column in zip(shapes, X.T, strict=True):
        at = np.searchsorted(shape.thresholds, np.nan_to_num(column), side="left")
        value = np.asarray(shape.values)[at]
        missing = 0.0 if shape.missing is None else shape.missing
        total += np.where(np.isnan(column), missing, value)
    assert ranker.predict(X) == pytest.approx(total)
    with pytest.raises(ValueError, match="a linear model has no curves; train with scorer='additive'"):
        Ranker().fit(*judged()[:2], qid=judged()[2]).shapes()


def collapsing(seed=0):
    """Many irrelevant documents of which some always score above the few relevant ones, whatever the direction."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40 * 60, 3))
    y = np.tile([1.0] * 3 + [0.0] * 57, 40)
    X[y == 1, 0] += 0.5
    return X, y, np.repeat(np.arange(40), 60)


def test_a_collapsed_hinge_is_named_and_the_default_does_not_suffer_from_it():
    X, y, qid = collapsing()
    with pytest.warns(
        CollapseWarning,
        match="minimal at w = 0 on these queries, or nearly so, for C up to 10000: the weights are near 0",
    ):
        hinge = Ranker(measure="ndcg@5", bound="hinge", C=10.0).fit(X, y, qid=qid)
    assert hinge.health_.collapsed
    assert hinge.health_.objective_ratio == pytest.approx(1.0, abs=1e-3)
    with pytest.warns(CollapseWarning, match="training the tight bound instead"):
        default = Ranker(measure="ndcg@5", C=10.0).fit(X, y, qid=qid)
    assert (default.model_.method.bound, default.model_.method.solver) == ("tight", "descent")
    assert default.health_.collapsed
    assert default.score(X, y, qid=qid) > hinge.score(X, y, qid=qid) + 0.03
    assert default.gap_ == np.inf


@pytest.mark.parametrize("Cs", [[10.0], [0.01, 1.0, 100.0]])
def test_curves_that_could_fit_anything_are_trained_with_the_tight_bound_after_a_few_iterations(Cs):
    X, y, qid = collapsing()
    bounds = []

    def note(step, theta):
        bounds.append(step.dual)
        return False

    ranker = Ranker(measure="ndcg@5", scorer="additive", solver=Auto(tol=1e-6, callback=note))
    with pytest.warns(CollapseWarning, match="training the tight bound instead"):
        fitted = ranker.fit_path(X, y, qid=qid, Cs=Cs)
    assert {one.model_.method.bound for one in fitted} == {"tight"}
    # The tight bound has no certificate. The first C takes 30 iterations, and each of the others one.
    assert np.isfinite(bounds).sum() == 30 + len(Cs) - 1


def test_slow_progress_without_a_collapse_changes_nothing(monkeypatch):
    X, y, qid = judged()
    expected = Ranker("svmndcg", C=1e-6, solver=Auto(tol=1e-6)).fit(X, y, qid=qid)
    outcomes, try_larger = [], training._try_larger

    def watched(*args):
        outcomes.append(try_larger(*args))
        return outcomes[-1]

    monkeypatch.setattr(training, "_PATIENCE", 1)
    monkeypatch.setattr(training, "_try_larger", watched)
    suspected = Ranker("svmndcg", C=1e-6, solver=Auto(tol=1e-6)).fit(X, y, qid=qid)
    assert [outcome for _, outcome in outcomes] == ["learns"]
    assert suspected.model_.method.bound == expected.model_.method.bound == "hinge"
    assert suspected.solution_.converged
    np.testing.assert_array_equal(suspected.coef_, expected.coef_)


def test_a_trial_ends_once_little_can_be_gained(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((18_000, 30))
    y = np.digitize(X[:, :5].sum(axis=1) / np.sqrt(5) + rng.standard_normal(len(X)), [0.8, 1.8])
    trials, refine = [], Bundle.refine

    def watched(*args, **options):
        trials.append(refine(*args, **options))
        return trials[-1]

    monkeypatch.setattr(Bundle, "refine", watched)
    with pytest.warns(CollapseWarning):
        Ranker("ndcg@10").fit(X, y, qid=np.arange(18_000) // 60)
    # Until the bound is within a thousandth of the value at 0, it takes 46.
    assert trials[-1].n_iter < 20


@pytest.mark.parametrize(
    ("outcome", "reason", "steps"), [("interrupted", "interrupted", 30), ("time_limit", "max_iter", 40)]
)
def test_a_trial_that_ends_early_leaves_the_hinge_as_it_was(monkeypatch, outcome, reason, steps):
    X, y, qid = collapsing()
    monkeypatch.setattr(training, "_try_larger", lambda *args: (args[2], outcome))
    solver = Auto(tol=1e-9, max_iter=40)
    ranker = Ranker(measure="ndcg@5", scorer="additive", solver=solver).fit(X, y, qid=qid)
    assert ranker.model_.method.bound == "hinge"
    assert (ranker.solution_.reason, len(ranker.solution_.trace)) == (reason, steps)


def test_a_callback_that_stops_is_not_taken_for_a_collapse():
    X, y, qid = collapsing()
    steps = []

    def stop(step, theta):
        steps.append(step)
        return len(steps) == 30

    ranker = Ranker(measure="ndcg@5", scorer="additive", solver=Auto(tol=1e-6, callback=stop)).fit(X, y, qid=qid)
    assert (ranker.model_.method.bound, ranker.solution_.reason, len(steps)) == ("hinge", "callback", 30)


def test_a_small_C_alone_is_no_collapse():
    X, y, qid = judged()
    ranker = Ranker("svmmap", C=1e-6).fit(X, y, qid=qid)
    assert ranker.health_.objective_ratio > 0.999
    health = Ranker("svmmap", C=0.5).fit(X, y, qid=qid).health_
    assert health.objective_ratio == pytest.approx(
        (0.5 * health.norm**2 + 0.5 * health.average_slack) / (0.5 * health.slack_at_zero)
    )
    assert health.objective_ratio < 0.999
    assert not ranker.health_.collapsed
    assert ranker.model_.method.bound == "hinge"


@pytest.mark.parametrize("start", ["ranksvm", "regression"])
def test_the_tight_bound_never_ends_above_its_start(start):
    X, y, qid = judged()
    loss = StructuredLoss("ndcg@3", "dorm")
    ranker = Ranker(loss, bound=Tight(start), C=50.0, scaling=None).fit(X, y, qid=qid)
    trace = [step.primal for step in ranker.solution_.trace]
    assert trace == sorted(trace, reverse=True)
    queries = Queries.from_arrays(X, y, qid=qid)
    value, _ = empirical_risk(queries, loss.bounded("tight"))(ranker.coef_)
    assert ranker.health_.average_slack == pytest.approx(value)
    annealed = Ranker(loss, bound=Tight(start, anneal=5), C=50.0, scaling=None)
    assert annealed.fit(X, y, qid=qid).objective_ < trace[0] + 1e-9
    assert annealed.model_.method.solver == "cccp"
    assert ranker.model_.method.solver == "descent"
    given = Tight(np.array([1.0, 0.0, 0.0, 0.0]))
    near = Ranker(measure="ndcg@3", bound=given, C=0.001, scaling=None).fit(X, y, qid=qid)
    assert near.coef_ == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=0.1)
    with pytest.raises(DataError, match="start has shape"):
        Ranker(measure="ndcg@3", bound=Tight([1.0])).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="has no tight bound"):
        Ranker(loss=SoftmaxCrossEntropy(), bound="tight").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="start is 'zero'; choose 'ranksvm', 'regression', a sequence or an array"):
        Tight("zero")
    assert Tight() == Tight("ranksvm", 100.0, 0)
    with pytest.raises(ValueError, match="start_C is 0; it must be a positive number"):
        Tight(start_C=0)
    with pytest.raises(ValueError, match="unknown bound 'loose'; known: auto, hinge, tight"):
        Ranker(bound="loose").fit(X, y, qid=qid)


@pytest.mark.parametrize("preset", ["svmmap", "svmauc", "svmndcg-nc"])
def test_presets_that_do_not_collapse_on_ohsumed(preset, shared_data):
    from marginrank.data import read_letor

    queries = read_letor(shared_data("letor3-ohsumed") / "QueryLevelNorm" / "S1.txt.xz")
    ranker = Ranker(preset, C=1.0, solver=Auto(tol=1e-2)).fit(queries)
    assert not ranker.health_.collapsed


@pytest.mark.slow
def test_the_collapse_of_ndcg_on_ohsumed_and_its_cure(shared_data):
    from marginrank.data import read_letor

    folder = shared_data("letor3-ohsumed") / "QueryLevelNorm"
    train = Queries.concatenate([read_letor(folder / f"S{part}.txt.xz") for part in (1, 2, 3)])
    test = read_letor(folder / "S5.txt.xz")
    for preset in ("svmndcg", "dorm-ndcg"):
        with pytest.warns(CollapseWarning, match="the weights are near 0"):
            hinge = Ranker(preset, bound="hinge", C=100.0, solver=Auto(tol=1e-3)).fit(train)
        assert hinge.health_.norm < 1e-3
        with pytest.warns(CollapseWarning, match="training the tight bound instead"):
            default = Ranker(preset, C=100.0, solver=Auto(tol=1e-3)).fit(train)
        assert default.score(test) > hinge.score(test) + 0.1


@pytest.mark.parametrize("kind", [FrankWolfe, Stochastic])
def test_a_seed_of_the_solver_comes_first_even_if_it_is_0(kind):
    X, y, qid = judged()

    def weights(solver_seed, seed):
        ranker = Ranker("svmmap", solver=kind(max_iter=3, random_state=solver_seed), random_state=seed)
        with warnings.catch_warnings(action="ignore"):
            return ranker.fit(X, y, qid=qid).coef_.tolist()

    assert weights(0, 7) == weights(0, 0) != weights(7, 7)
    assert weights(None, 7) == weights(7, 7)


def test_rows_are_scored_alike_whatever_holds_them(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    ranker = Ranker().fit(X, rng.integers(0, 2, 40), group=[8] * 5)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for other in (X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.astype(object), mapped):
        assert ranker.predict(other).tobytes() == ranker.predict(X).tobytes()
    named = Ranker().fit(pd.DataFrame(X, columns=["a", "b", "c"]), rng.integers(0, 2, 40), group=[8] * 5)
    with pytest.warns(UserWarning, match="valid feature names"):
        named.predict(X)
