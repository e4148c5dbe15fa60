"""Rankers among scikit-learn's tools: its checks, parameters of parts, searches, pipelines and folds."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginrank import DataError, Queries, Ranker, evaluate, load
from marginrank.errors import SplitQueriesWarning
from marginrank.evaluation import measure_scorer
from marginrank.fusion import BestRun, Fusion, UnsupervisedFusion
from marginrank.losses import StructuredLoss
from marginrank.methods.baselines.perceptron import PRank
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.preparation import QueryMinMax, Standardize, ThresholdBins
from marginrank.recommend import Recommender
from marginrank.scorers import Additive, Linear
from marginrank.solvers import Auto, Bundle
from marginrank.training import Tight


def judged(n_queries=30, n_documents=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 4))
    hidden = X[:, 0] - 0.5 * X[:, 1] + 0.7 * rng.standard_normal(len(X))
    return X, np.digitize(hidden, [0.5, 1.5]).astype(float), np.repeat(np.arange(n_queries), n_documents)


class OneQuery:
    """All rows as one query where none are named, which scikit-learn's checks take for granted."""

    def fit(self, X, y=None, qid=None):
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        return super().fit(X, y, qid=np.zeros(n, dtype=int) if qid is None else qid)

    def score(self, X, y, qid=None):
        return super().score(X, y, qid=np.zeros(len(X), dtype=int) if qid is None else qid)


class OneQueryRanker(OneQuery, Ranker):
    """A `Ranker` of one query."""

    def partial_fit(self, X, y=None, qid=None):
        return super().partial_fit(X, y, qid=np.zeros(len(X), dtype=int) if qid is None else qid)


class OneQueryBaseline(OneQuery, Ranker):
    """A `Ranker` of one query that is trained once."""

    @property
    def partial_fit(self):
        raise AttributeError("baselines are not trained in batches")


@parametrize_with_checks(
    [
        OneQueryRanker("ranksvm", solver=Auto(tol=1e-3)),
        OneQueryRanker("ranksvm", scorer=Additive(bins=16), solver=Auto(tol=1e-3)),
        OneQueryBaseline(RankBoost(5)),
        OneQueryBaseline(PRank(3)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


ESTIMATORS = (
    Ranker("ndcg@10", C=3.0, scorer=Additive(bins=8)),
    Ranker(RankBoost(7)),
    Fusion("rrf", Cs=[1.0]),
    UnsupervisedFusion("borda"),
    BestRun("ndcg"),
    Recommender(factors=3),
    Standardize(),
    QueryMinMax(),
    ThresholdBins(9, spacing="even"),
)
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)


@every
def test_they_are_estimators_of_scikit_learn(estimator):
    assert isinstance(estimator, BaseEstimator)
    assert isinstance(estimator, TransformerMixin) == hasattr(estimator, "transform")
    assert type(estimator).__name__ in estimator._repr_html_()
    assert pickle.loads(pickle.dumps(estimator)).get_params() == estimator.get_params()


def test_scikit_learn_is_imported_with_the_first_estimator():
    code = "import sys, marginrank\nprint('sklearn' in sys.modules)\nmarginrank.Ranker\nprint('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@every
def test_clones_have_parameters_of_their_own(estimator):
    other = clone(estimator)
    assert other is not estimator
    assert other.get_params() == estimator.get_params()
    assert repr(other) == repr(estimator)
    for name, value in other.get_params(deep=False).items():
        if isinstance(value, list):
            assert value is not getattr(estimator, name)


def test_clones_keep_requests_and_outputs():
    with sklearn.config_context(enable_metadata_routing=True):
        requests = clone(Ranker().set_fit_request(group=True, qid=False)).get_metadata_routing().fit.requests
        assert (requests["group"], requests["qid"]) == (True, False)
        assert Ranker().get_metadata_routing().fit.requests["qid"] is True
        with pytest.raises(TypeError, match="Unexpected args"):
            Ranker().set_fit_request(depth=True)
    assert not hasattr(Ranker(), "set_transform_request")
    assert not hasattr(Standardize(), "set_predict_request")
    scaler = clone(Standardize().set_output(transform="pandas"))
    assert list(scaler.fit_transform([[1.0], [3.0]]).columns) == ["x0"]


def test_an_estimator_shows_what_was_chosen():
    assert repr(Ranker()) == "Ranker()"
    assert repr(Ranker("svmmap", C=10.0)) == "Ranker(C=10.0, method='svmmap')"
    assert repr(ThresholdBins(9, spacing="even")) == "ThresholdBins(n_thresholds=9, spacing='even')"


def bad_fits():
    """Estimators, what they can be fitted on, what they cannot, and what they are asked afterwards."""
    X, y, qid = judged()
    users, items = np.repeat(np.arange(20), 6), np.tile(np.arange(6), 20)
    likes = np.where((users % 2 == 0) == (items < 3), 5, 1)
    rows = {"X": X, "y": y, "qid": qid}
    named = pd.DataFrame(X[:, :2], columns=["a", "b"])
    one_grade = Queries.from_arrays(X[:, :2], 0 * y, qid=qid)
    return {
        "bad grades": (Ranker("svmmap"), rows, {**rows, "y": y * np.nan}, "predict", X),
        "fewer columns": (Ranker("svmmap"), rows, {**rows, "X": X[:, :3], "qid": qid[1:]}, "predict", X),
        "columns with names": (Ranker("svmmap"), rows, {**rows, "X": named, "y": 0 * y}, "predict", X),
        "a baseline": (Ranker(RankBoost(3)), rows, {"X": one_grade}, "predict", X),
        "huge features": (Standardize(), {"X": X}, {"X": [[-1e308], [1e308]]}, "transform", X),
        "wrong groups": (ThresholdBins(), {"X": X}, {"X": named, "group": [3]}, "transform", X),
        "equal ratings": (
            Recommender(factors=2),
            {"ratings": (users, items, likes)},
            {"ratings": (users, items, 0 * likes)},
            "predict",
            (users, items),
        ),
    }


@pytest.mark.parametrize(("estimator", "good", "bad", "method", "X"), bad_fits().values(), ids=bad_fits())
def test_a_fit_that_fails_changes_nothing(estimator, good, bad, method, X):
    estimator = clone(estimator)
    with pytest.raises(ValueError):  # noqa: PT011
        estimator.fit(**bad)
    with pytest.raises(NotFittedError, match=f"This {type(estimator).__name__} instance is not fitted yet"):
        getattr(estimator, method)(X)
    expected = getattr(estimator.fit(**good), method)(X)
    with pytest.raises(ValueError):  # noqa: PT011
        estimator.fit(**bad)
    np.testing.assert_array_equal(getattr(estimator, method)(X), expected)


def test_the_number_of_parameters():
    assert len(inspect.signature(Ranker).parameters) <= 16


def test_parameters_of_parts_are_read_and_set():
    ranker = Ranker("svmmap", scorer=Additive(bins=16), solver=Bundle(tol=1e-6), bound=Tight(anneal=2))
    deep, flat = ranker.get_params(deep=True), ranker.get_params(deep=False)
    assert (deep["scorer__bins"], deep["solver__tol"], deep["bound__anneal"]) == (16, 1e-6, 2)
    assert set(flat) == set(inspect.signature(Ranker).parameters)
    assert ranker.set_params(scorer__bins=64, solver__tol=1e-2, C=3.0) is ranker
    assert (ranker.scorer, ranker.solver, ranker.C) == (Additive(bins=64), Bundle(tol=1e-2), 3.0)
    # A part and a parameter of it at once: the part first, whatever the order.
    ranker.set_params(scorer__bins=8, scorer=Additive(spacing="even"))
    assert ranker.scorer == Additive(bins=8, spacing="even")
    # Spellings become objects.
    spelled = Ranker(scorer="additive(bins=32)", solver="bundle").set_params(scorer__spacing="even", solver__max_iter=7)
    assert (spelled.scorer, spelled.solver) == (Additive(bins=32, spacing="even"), Bundle(max_iter=7))
    assert Ranker(bound="tight").set_params(bound__anneal=3).bound == Tight(anneal=3)
    for name in ("scorer__depth", "solver__depth", "bound__depth", "loss__depth"):
        with pytest.raises(ValueError, match="has no parameter 'depth'"):
            Ranker("svmmap").set_params(**{name: 1})
    with pytest.raises(ValueError, match="Ranker has no parameter 'depth'; known: C, bound"):
        Ranker("svmmap").set_params(depth=1)


def test_setting_a_parameter_of_a_loss_keeps_the_rest_of_the_preset():
    ranker = Ranker("chapelle-ndcg@5").set_params(loss__feature_map="dorm(shape=log)")
    assert (ranker.method, ranker.loss) == (None, StructuredLoss("ndcg@5", "dorm(shape=log)"))
    assert ranker.bound == Tight(start="regression")
    assert ranker.criterion == "ndcg@5"
    assert Ranker(measure="ap").set_params(loss__measure="auc").loss == StructuredLoss("auc")
    kept = Ranker("chapelle-ndcg", bound="hinge").set_params(loss__measure="ndcg@3")
    assert kept.bound == "hinge"


@pytest.mark.parametrize(
    "ranker",
    [
        Ranker("svmmap", scorer=Linear(nonnegative=[0]), solver=Bundle(tol=1e-6)),
        Ranker(StructuredLoss("ap"), bound=Tight(start=np.ones(4))),
        Ranker(RankBoost(7), n_jobs=1),
    ],
)
def test_clones_have_the_same_parameters_and_no_model(ranker):
    X, y, qid = judged()
    ranker.fit(X, y, qid=qid)
    copy = clone(ranker)
    assert not hasattr(copy, "model_")
    assert repr(copy.get_params(deep=False)) == repr(ranker.get_params(deep=False))
    with pytest.raises(AttributeError, match="is not fitted yet; call fit first"):
        _ = copy.coef_
    assert np.array_equal(copy.fit(X, y, qid=qid).coef_, ranker.coef_)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(
    ("ranker", "grid"),
    [
        (Ranker("svmauc", scorer=Additive()), {"C": [0.1, 10.0], "scorer__bins": [2, 16]}),
        (Ranker("svmauc", solver="bundle"), {"solver__tol": [0.5, 1e-4], "scaling": [None, "standard"]}),
        (Ranker("dorm-ndcg@3", bound="hinge"), {"loss__feature_map": ["dorm", "dorm(shape=log)"], "C": [1.0]}),
        (Ranker(RankBoost()), {"method__rounds": [1, 10]}),
    ],
    ids=["scorer", "solver", "loss", "baseline"],
)
def test_grid_searches_reach_parameters_of_parts(ranker, grid):
    X, y, qid = judged()
    folds = GroupKFold(3)
    search = GridSearchCV(ranker, grid, cv=folds, error_score="raise")
    search.fit(X, y, qid=qid, groups=qid)
    means = search.cv_results_["mean_test_score"]
    assert len(means) == np.prod([len(values) for values in grid.values()])
    # By hand: train on two thirds, judge the third by the ranker's own measure.
    for parameters, mean in zip(search.cv_results_["params"], means, strict=True):
        scores = []
        for train, test in folds.split(X, y, qid):
            own = clone(ranker).set_params(**parameters).fit(X[train], y[train], qid=qid[train])
            held_out = Queries.from_arrays(X[test], y[test], qid=qid[test])
            scores.append(evaluate(held_out, own.predict(held_out), own.criterion).mean[own.criterion])
        assert mean == pytest.approx(np.mean(scores))
    assert len(set(means.tolist())) > 1
    best = search.best_estimator_
    assert search.best_score_ == means.max()
    assert best.predict(X).shape == (240,)
    for name, value in search.best_params_.items():
        assert best.get_params(deep=True)[name] == value


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="before scikit-learn 1.8, Pipeline.score does not route metadata to transform",
)
@pytest.mark.usefixtures("routing")
def test_pipelines_and_cross_validation_route_the_queries():
    X, y, qid = judged()
    scaler = QueryMinMax().set_fit_request(qid=True).set_transform_request(qid=True)
    piped = make_pipeline(scaler, Ranker("svmmap", scaling=None))
    scores = cross_val_score(piped, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid}, error_score="raise")
    assert scores.shape == (3,)
    assert scores.min() > 0.5
    piped.fit(X, y, qid=qid)
    inside = Ranker("svmmap", scaling="query-minmax").fit(X, y, qid=qid)
    assert piped[-1].coef_ == pytest.approx(inside.coef_)
    assert piped.score(X, y, qid=qid) == pytest.approx(inside.score(X, y, qid=qid))
    search = GridSearchCV(
        Pipeline([("scale", scaler), ("rank", Ranker("svmmap", scorer=Additive(bins=4)))]),
        {"rank__scorer__bins": [2, 8], "rank__C": [1.0]},
        cv=GroupKFold(3),
        error_score="raise",
    )
    search.fit(X, y, qid=qid, groups=qid)
    assert search.best_estimator_["rank"].scorer.bins == search.best_params_["rank__scorer__bins"]
    with pytest.raises(ValueError, match="leave sample_weight out"):
        inside.score(X, y, qid=qid, sample_weight=np.ones(len(X)))


@pytest.mark.usefixtures("routing")
def test_cross_validation_by_queries_is_what_it_is_by_hand():
    X, y, qid = judged()
    for ranker in (Ranker("svmauc"), Ranker("prank@3"), Ranker(PRank(3))):
        scores = cross_val_score(
            ranker, X, y, cv=GroupKFold(4), params={"qid": qid, "groups": qid}, error_score="raise"
        )
        expected = [
            clone(ranker).fit(X[a], y[a], qid=qid[a]).score(X[b], y[b], qid=qid[b])
            for a, b in GroupKFold(4).split(X, y, qid)
        ]
        assert scores == pytest.approx(expected)


@pytest.mark.usefixtures("routing")
def test_a_measure_is_a_scoring_for_any_estimator():
    X, y, qid = judged()
    for estimator, takes_qid in ((Ranker("svmmap", scaling="query-minmax"), True), (LinearRegression(), False)):
        piped = make_pipeline(StandardScaler(), estimator)
        found = cross_val_score(
            piped, X, y, cv=GroupKFold(3), scoring=measure_scorer("ndcg@3"), params={"qid": qid, "groups": qid}
        )
        expected = []
        for a, b in GroupKFold(3).split(X, y, qid):
            scaler = StandardScaler().fit(X[a])
            own = clone(estimator).fit(scaler.transform(X[a]), y[a], **({"qid": qid[a]} if takes_qid else {}))
            scores = own.predict(scaler.transform(X[b]), **({"qid": qid[b]} if takes_qid else {}))
            expected.append(evaluate(y[b], scores, "ndcg@3", qid=qid[b]).mean["ndcg@3"])
        assert found == pytest.approx(expected)


def test_without_routing_the_error_says_what_to_switch_on():
    X, y, qid = judged()
    ranker = Ranker("svmmap").fit(X, y, qid=qid)
    for call in (
        lambda: make_pipeline(StandardScaler(), Ranker("svmmap")).fit(X, y),
        lambda: ranker.score(X, y),
        lambda: measure_scorer("ap")(ranker, X, y),
    ):
        with pytest.raises(DataError, match=r"sklearn.set_config\(enable_metadata_routing=True\)"):
            call()


@pytest.mark.usefixtures("routing")
def test_a_split_through_queries_is_named():
    X, y, qid = judged()
    with pytest.warns(SplitQueriesWarning, match="split by query, for example cv=GroupKFold"):
        cross_val_score(Ranker("svmmap"), X, y, cv=KFold(3, shuffle=True, random_state=0), params={"qid": qid})
    ranker = Ranker("svmmap").fit(X, y, qid=qid)
    assert ranker.score(X, y, qid=qid) > 0.5  # the training data itself, without a warning of a split


@pytest.mark.parametrize("scaling", ["auto", "standard", "query-minmax", None])
def test_frames_are_taken_without_warnings(scaling, tmp_path):
    X, y, qid = judged()
    frame = pd.DataFrame(X, columns=list("abcd"))
    ranker = Ranker("svmmap", scaling=scaling).fit(frame, y, qid=qid)
    ranker.save(tmp_path / "m.safetensors")
    expected = ranker.predict(frame, qid=qid)
    for other in (frame, pl.from_pandas(frame)):
        for own in (ranker, load(tmp_path / "m.safetensors")):
            np.testing.assert_array_equal(own.predict(other, qid=qid), expected)


@pytest.mark.parametrize("scaling", ["standard", "query-minmax"])
def test_the_scaling_of_a_model_does_without_frames(scaling, tmp_path):
    X, y, qid = judged()
    ranker = Ranker("svmmap", scorer="kernel", scaling=scaling).fit(X, y, qid=qid)
    expected = ranker.predict(X, qid=qid)
    with sklearn.config_context(transform_output="pandas"):
        again = Ranker("svmmap", scorer="kernel", scaling=scaling).fit(X, y, qid=qid)
        again.save(tmp_path / "m.safetensors")
        for own in (ranker, again, load(tmp_path / "m.safetensors")):
            np.testing.assert_array_equal(own.predict(X, qid=qid), expected)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (list("bacd"), "X has the columns that the model was trained on in another order; give a, b, c, d"),
        (list("abce"), "X has no column 'd', which the model was trained on"),
        (list("abcde"), "X has a column 'e' that is not among those the model was trained on; leave it out"),
    ],
)
def test_frames_with_other_columns_are_refused(columns, message):
    X, y, qid = judged()
    ranker = Ranker("svmmap").fit(pd.DataFrame(X, columns=list("abcd")), y, qid=qid)
    other = pd.DataFrame(np.zeros((4, len(columns))), columns=columns)
    with pytest.raises(DataError, match=message):
        ranker.predict(other)
