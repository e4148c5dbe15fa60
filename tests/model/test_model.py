"""Models: described, saved, loaded, explained and trained again."""

from __future__ import annotations

import importlib.util
import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries, Ranker, load, tune
from marginrank.losses import CostLoss, GroupedLoss, MaxLoss, PairwiseHinge, Positional, StructuredLoss, SumLoss
from marginrank.measures import parse_measure
from marginrank.methods import all_presets, parse_preset
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.methods.baselines.svm import AccuracySVM
from marginrank.model.file_format import read_model, write_model
from marginrank.model.model import Model
from marginrank.scorers import Additive, Kernel, Linear
from marginrank.scorers.form import all_forms
from marginrank.solvers import Auto, Bundle, FrankWolfe
from marginrank.training import CollapseWarning, Tight

NAMES = ["bm25", "age", "häufig"]


def judged(nan=False, **columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 3)) * [1.0, 100.0, 1.0]
    y = np.digitize(X[:, 0] + rng.standard_normal(160), [0.5, 1.5])
    if nan:
        X[::9, 1] = np.nan
    qid = np.repeat(np.arange(20), 8)
    return Queries.from_arrays(X, y, qid=qid, feature_names=NAMES, allow_nan=nan, **columns)


RANKERS = {
    "linear": Ranker("svmmap", C=3.0),
    "mix": Ranker(measure="ndcg@5 + 0.5*ap", bound="hinge", scorer=Linear(nonnegative=["bm25", 1])),
    "additive": Ranker("ranksvm", scorer=Additive(bins=6, monotone={"bm25": "increasing", 2: "decreasing"})),
    "kernel": Ranker("svmauc", scorer=Kernel(gamma=0.2, rank=30)),
    "poly": Ranker("svmauc", scorer="kernel(kernel=poly,degree=2,coef0=0.5)", scaling="query-standard"),
    "standard": Ranker("svmauc", scaling="standard", solver=Bundle(tol=1e-6)),
    "minmax": Ranker("svmauc", scaling="query-minmax"),
    "query-standard": Ranker("svmauc", scaling="query-standard", weighting="pairs"),
    "percentile": Ranker("svmauc", scaling="query-percentile", n_jobs=1, solver=FrankWolfe(random_state=4)),
    "tight": Ranker(measure="ndcg@3", bound=Tight(start=np.array([1.0, 0.0, 0.0]), anneal=2), scaling=None),
    "loss": Ranker(loss=PairwiseHinge(margin=2.0, rank_weights={(1, 0): 1.0, (2, 0): 2.0, (2, 1): 1.0})),
    "sum": Ranker(
        SumLoss((StructuredLoss("ap"), StructuredLoss(parse_measure("ndcg@5"), Positional("log"))), (1, 0.5))
    ),
    "max": Ranker(MaxLoss((StructuredLoss("ap"), StructuredLoss("auc")))),
    "measure": Ranker(parse_measure("ndcg@10"), bound="hinge"),
    "rankboost": Ranker(RankBoost(10)),
    "svmacc": Ranker(AccuracySVM(balanced=True), C=3.0),
}


def fitted(ranker, queries):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        return ranker.fit(queries)


def check_the_same(again, ranker, queries):
    assert type(again) is type(ranker)
    assert np.array_equal(again.predict(queries), ranker.predict(queries))
    assert again.model_.describe() == ranker.model_.describe()
    assert again.score(queries) == ranker.score(queries)
    assert again.solution_.trace == ranker.solution_.trace
    assert (again.gap_, again.health_, again.trained_on_) == (ranker.gap_, ranker.health_, ranker.trained_on_)
    assert again.feature_names_in_.tolist() == NAMES
    assert again.n_features_in_ == 3


@pytest.mark.parametrize("name", RANKERS)
def test_a_loaded_ranker_is_the_saved_one_and_can_be_fitted_again(name, tmp_path):
    queries = judged(nan=name == "additive")
    ranker = fitted(RANKERS[name], queries)
    ranker.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    check_the_same(again, ranker, queries)
    with pytest.raises(DataError, match="X has no column 'bm25'"):
        again.predict(queries.with_features(queries.X, ["a", "b", "c"]))
    assert np.array_equal(fitted(again, queries).coef_, ranker.coef_)
    again.save(tmp_path / "again.safetensors")
    assert load(tmp_path / "again.safetensors").get_params().keys() == ranker.get_params().keys()


@pytest.mark.parametrize("preset", all_presets())
def test_every_preset_is_refitted_from_its_file(preset, tmp_path):
    if preset == "lambdarank" and importlib.util.find_spec("lightgbm") is None:
        pytest.skip("LightGBM is an extra")
    queries = judged()
    short = {"rankboost": "rankboost@5", "mcrank": "mcrank@3", "lambdarank": "lambdarank@3", "svmprec": "svmprec@3"}
    asked = short.get(preset, preset)
    baseline = parse_preset(asked).baseline
    C = {"C": 2.0} if baseline is None or baseline.takes_C else {}
    ranker = fitted(Ranker(asked, **C), queries)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    check_the_same(again, ranker, queries)
    assert (again.method, again.model_.method.preset, again.criterion) == (asked, asked, ranker.criterion)
    assert np.array_equal(fitted(again, queries).coef_, ranker.coef_)


def cost(grades):
    return np.outer(grades, np.arange(len(grades)))


def test_what_only_code_can_describe_is_asked_for_again(tmp_path):
    queries = judged()
    ranker = Ranker(CostLoss(cost, "dorm(shape=linear)", measure="ndcg@5")).fit(queries)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(queries), ranker.predict(queries))
    assert again.score(queries) == ranker.score(queries)
    assert again.measure_ == "ndcg@5"
    with pytest.raises(DataError, match=r"method: .*function.*; set it with set_params\(method=...\) before fitting"):
        again.fit(queries)
    again.set_params(method=ranker.method).fit(queries)
    assert np.array_equal(again.coef_, ranker.coef_)


@pytest.mark.parametrize("name", ["scorer", "solver", "bound", "loss"])
def test_classes_that_are_not_imported_are_asked_for_again(name, tmp_path):
    queries = judged()
    ranker = Ranker(loss=StructuredLoss("ap")).fit(queries)
    described = ranker.model_.describe()
    unknown = {**described["parameters"], name: {"kind": "Elsewhere", "k": 3}}
    write_model(tmp_path / "model", "ranker", {**described, "parameters": unknown}, ranker.model_.arrays())
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(queries), ranker.predict(queries))
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.array_equal(again.predict(queries.X), ranker.predict(queries))
    asked = rf"{name}: Elsewhere is not a class of this package; import .*; set it with set_params\({name}=...\)"
    with pytest.raises(DataError, match=asked):
        again.fit(queries)
    again.set_params(**{name: getattr(ranker, name)}).fit(queries)
    assert np.array_equal(again.coef_, ranker.coef_)


@pytest.mark.parametrize(
    "ranker",
    [
        Ranker("svmmap"),
        Ranker("svmmap", scorer="kernel"),
        Ranker("gp-regression"),
        Ranker("mcrank@3"),
        Ranker("rankboost@5"),
    ],
)
def test_every_form_is_made_of_its_description_and_arrays(ranker):
    queries = judged()
    model = ranker.fit(queries).model_
    described = json.loads(json.dumps(model.describe(), allow_nan=False))
    again = Model.from_parts(described, model.arrays())
    assert again.form.kind == model.form.kind
    assert again.describe() == model.describe()
    assert again.arrays().keys() == model.arrays().keys()
    assert all(np.array_equal(again.arrays()[name], array) for name, array in model.arrays().items())
    assert np.array_equal(again.score(queries), model.score(queries))


def test_these_are_all_forms():
    assert sorted(all_forms()) == ["adaptive", "additive", "kernel", "linear", "neural", "sum", "trees"]


def test_explanations_sum_to_the_scores():
    queries = judged()
    ranker = Ranker("svmmap", scaling="query-minmax").fit(queries)
    parts = ranker.explain(queries)
    assert parts.shape == (160, 3)
    assert parts.sum(axis=1) == pytest.approx(over_the_mean(ranker.predict(queries), 8))
    scaled = queries.X[:8] - queries.X[:8].min(axis=0)
    scaled /= scaled.max(axis=0)
    assert parts[:8] == pytest.approx((scaled - scaled.mean(axis=0)) * ranker.coef_)
    assert ranker.explain(queries, reference=5)[:8] == pytest.approx((scaled - scaled[5]) * ranker.coef_)
    X = sp.csr_array(queries.X)
    sparse = Ranker("svmmap").fit(X, queries.grades, group=[8] * 20)
    assert sparse.explain(X, group=[8] * 20).sum(axis=1) == pytest.approx(over_the_mean(sparse.predict(X), 8))
    assert sparse.explain(X).sum(axis=1) == pytest.approx(over_the_mean(sparse.predict(X), 160))
    with pytest.raises(TypeError, match="the scores of a kernel model are not made of features"):
        Ranker("gp-regression").fit(queries).explain(queries)
    with pytest.raises(DataError, match="there is no document 160 among 160 to compare with; numbers start at 0"):
        ranker.explain(queries, reference=160)


def over_the_mean(scores, size):
    """Scores less the mean of their query, where all queries have as many documents."""
    table = scores.reshape(-1, size)
    return (table - table.mean(axis=1, keepdims=True)).ravel()


def test_explanations_of_rows_in_any_order_are_by_query():
    queries = judged()
    ranker = Ranker("svmmap").fit(queries.X, queries.grades, group=[8] * 20)
    order = np.random.default_rng(0).permutation(160)
    mixed = ranker.explain(queries.X[order], qid=np.repeat(queries.query_ids, 8)[order])
    assert mixed == pytest.approx(ranker.explain(queries.X, group=[8] * 20)[order])


@pytest.mark.parametrize("curves", ["steps", "lines"])
def test_explanations_of_curves_sum_to_the_scores(curves):
    queries = judged(nan=True)
    ranker = Ranker("ranksvm-squared", scorer=Additive(bins=8, shape=curves)).fit(queries)
    parts = ranker.explain(queries)
    assert parts.sum(axis=1) == pytest.approx(over_the_mean(ranker.predict(queries), 8), abs=1e-6)
    for number, shape in enumerate(ranker.shapes()):
        column = queries.X[:, number]
        if curves == "steps":
            value = np.append(shape.values, np.nan)[np.searchsorted(shape.thresholds, column, side="left")]
        else:
            value = np.interp(column, shape.knots, shape.values)
        missing = shape.values[0] if shape.missing is None else shape.missing
        curve = np.where(np.isnan(column), missing, value)
        assert parts[:, number] == pytest.approx(over_the_mean(curve, 8), abs=1e-6)


def test_other_columns_are_refused():
    queries = judged()
    model = Ranker("svmmap").fit(queries).model_
    with pytest.raises(DataError, match="X has 2 features but the model was trained on 3; give the same columns"):
        model.score(queries.X[:, :2])
    with pytest.raises(DataError, match="in another order; give bm25, age, häufig"):
        model.score(queries.with_features(queries.X, ["age", "bm25", "häufig"]))
    with pytest.raises(DataError, match="row 3 of column 'age' is NaN"):
        model.score(np.where(np.arange(480).reshape(160, 3) == 10, np.nan, queries.X))
    assert np.array_equal(model.score(queries.with_features(queries.X)), model.score(queries))


def test_the_header_says_what_the_model_is(tmp_path):
    chosen = tune(Ranker("svmmap"), judged(), folds=2, Cs=[0.1, 1.0])
    chosen.ranker.save(tmp_path / "model")
    _, header, arrays = read_model(tmp_path / "model")
    assert (header["measure"], header["form"], header["preset"]) == ("ap", "linear", "svmmap")
    assert (header["scaling"], header["stopped"], header["bound"]) == ("standard", "converged", "hinge")
    assert header["feature_names"] == NAMES
    assert 0 <= header["gap"] <= 1e-4 * header["objective"]
    assert header["gap"] == header["objective"] - header["lower_bound"]
    assert header["trained_on"].items() >= {"queries": 20, "documents": 160, "features": 3}.items()
    assert len(header["trained_on"]["fingerprint"]) == 16
    assert arrays["theta"].tolist() == chosen.ranker.coef_.tolist()
    assert len(load(tmp_path / "model").model_.selection["candidates"]) == 2


@pytest.fixture(scope="module")
def model():
    return Ranker("svmmap", scaling="standard").fit(judged()).model_


TRAINED_ON = {"queries": 20, "documents": 160, "features": 3, "fingerprint": "0"}
FIGURES = ("C", "mean", "standard_error", "objective", "average_slack", "norm", "passes")
CANDIDATE = dict.fromkeys(FIGURES, 1.0)
SELECTION = {
    "criterion": "ap",
    "policy": "standard",
    "rule": "best",
    "held_out": "20 queries in 2 folds",
    "complete": True,
    "chosen": 0,
    "candidates": [CANDIDATE],
}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


CHANGES = [
    ({"n_features": 4}, r"scaler.mean_ has shape \(3,\)"),
    ({"n_features": -3}, "-3 is not a number of features"),
    ({"n_features": 3.0}, "3.0 is not a number of features"),
    ({"n_features": 10**30, "scaling": None}, "parameters for a form of"),
    ({"feature_names": ["a"]}, "1 feature names for 3 features"),
    ({"feature_names": "abc"}, "feature names are not a list of text"),
    ({"feature_names": [1, 2, 3]}, "feature names are not a list of text"),
    ({"form": "forest"}, "unknown form 'forest'"),
    ({"form": "trees"}, "trees.feature"),
    ({"form": ["linear"]}, "unknown form"),
    ({"stopped": "bored"}, "unknown reason to stop 'bored'"),
    ({"scaling": "max"}, "unknown scaling 'max'"),
    ({"scaling": None}, "has no array 'scaler.mean_'"),
    ({"C": "1"}, "C is '1', which is not a number"),
    ({"C": True}, "C is True, which is not a number"),
    ({"C": 10**400}, "a number beyond 1.8e308"),
    ({"parameters": {"C": 10**400}}, "a number beyond 1.8e308"),
    ({"selection": {"deep": [{"er": -(10**400)}]}}, "a number beyond 1.8e308"),
    ({"parameters": {"C": nested(60)}}, "nested more than 50 deep"),
    ({"C": 0.0}, "C is 0; it has to be above 0"),
    ({"C": -1.0}, "C is -1; it has to be above 0"),
    ({"lower_bound": 1e9}, "a lower bound is above its objective"),
    ({"objective": None}, "says converged but has no lower bound that proves it"),
    ({"objective": None, "stopped": "max_iter"}, "a lower bound is above its objective"),
    ({"lower_bound": None}, "says converged but has no lower bound that proves it"),
    ({"objective": [1]}, "objective is"),
    ({"health": {"norm": 1.0}}, "missing"),
    ({"trained_on": {}}, "missing"),
    ({"trained_on": {"queries": "1", "documents": 1, "features": 1, "fingerprint": "0"}}, "queries is '1'"),
    ({"trained_on": {**TRAINED_ON, "features": 4}}, "3 features, but it was trained on 4"),
    ({"trained_on": {**TRAINED_ON, "queries": -1}}, "-1 queries"),
    ({"measure": 3}, "measure is 3; it has to be str"),
    ({"parameters": {"color": "red"}}, "color"),
    ({"parameters": {"scorer": "tree"}}, "unknown scorer 'tree'"),
    ({"parameters": {"solver": "bundel"}}, "unknown solver 'bundel'"),
    ({"parameters": {"bound": "loose"}}, "unknown bound 'loose'"),
    ({"parameters": []}, "parameters is"),
    ({"parameters": {"solver": {"kind": "Bundle", "color": 1}}}, "color"),
    ({"parameters": {"solver": {"kind": "Bundle", "tol": -1}}}, "tol is -1"),
    ({"parameters": {"solver": {}}}, "kind"),
    ({"selection": [1]}, "the selection is not a table"),
    ({"selection": {"candidates": []}}, "chosen"),
    ({"selection": {**SELECTION, "rule": 3}}, "the selection is not a table"),
    ({"selection": {**SELECTION, "complete": None}}, "the selection is not a table"),
    ({"selection": {**SELECTION, "candidates": {}}}, "the selection is not a table"),
    ({"selection": {**SELECTION, "chosen": 1}}, "the selection chose candidate 1 of 1"),
    ({"selection": {**SELECTION, "candidates": [CANDIDATE, {}]}}, "candidate 1 of the selection has different entries"),
    ({"selection": {**SELECTION, "candidates": [{**CANDIDATE, "mean": "1"}]}}, "mean of candidate 0 is '1'"),
    ({"selection": {**SELECTION, "candidates": [{**CANDIDATE, "C": None}]}}, "C of candidate 0 is None"),
    ({"selection": {**SELECTION, "by_softmax": {"linear": "1"}}}, "the comparison of scorers in the selection is not"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=lambda value: str(value)[:40])
def test_headers_that_contradict_themselves_are_refused(change, message, model, tmp_path):
    write_model(tmp_path / "model", "ranker", {**model.describe(), **change}, model.arrays())
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path / "model")
    assert caught.value.path == str(tmp_path / "model")


def test_headers_that_lack_something_are_refused(model, tmp_path):
    # These three follow from the others.
    for name in set(model.describe()) - {"iterations", "passes", "gap"}:
        short = {key: value for key, value in model.describe().items() if key != name}
        write_model(tmp_path / "model", "ranker", short, model.arrays())
        with pytest.raises(DataError, match=name):
            load(tmp_path / "model")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"theta": np.zeros(2)}, r"\(2,\) parameters for a form of 3"),
        ({"theta": np.zeros((3, 1))}, r"\(3, 1\) parameters"),
        ({"theta": np.array([0.0, np.nan, 0.0])}, "parameter 1 is not finite"),
        ({"theta": np.zeros(3, dtype=np.int64)}, "parameters are of type int64, not float64"),
        ({"theta": None}, "theta"),
        ({"trace": np.zeros((1, 3))}, "argument"),
        ({"trace": np.zeros((0, 4))}, r"trace has shape \(0, 4\)"),
        ({"scaler.scale_": np.ones(1)}, r"scaler.scale_ has shape \(1,\)"),
        ({"scaler.scale_": np.full(3, np.inf)}, "scaler.scale_"),
        ({"scaler.scale_": np.ones(3, dtype=bool)}, "scaler.scale_"),
        ({"scaler.mean_": None}, "scaler.mean_"),
        ({"scaler.scale_": None}, "scaler.scale_"),
        ({"scaler.scale_": np.zeros(3)}, "every feature with a weight has scale 0"),
        ({"scaler.scale_": np.array([1.0, -1.0, 1.0])}, "the scale of column 1 is below 0"),
        ({"trace": np.array([[1.0, 2.0, 0.1, 1.0]])}, "a lower bound is above its objective"),
        ({"trace": np.array([[np.nan, 0.0, 0.1, 1.0]])}, "a lower bound is above its objective"),
        (
            {"trace": np.array([[1.0, 0.0, -0.1, 1.0]])},
            "the trace has times or passes that are negative or not numbers",
        ),
        (
            {"trace": np.array([[1.0, 0.0, 0.1, np.inf]])},
            "the trace has times or passes that are negative or not numbers",
        ),
        ({"extra": np.zeros(1)}, "a linear model has no array 'extra'"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays, message, model, tmp_path):
    changed = {name: array for name, array in {**model.arrays(), **arrays}.items() if array is not None}
    write_model(tmp_path / "model", "ranker", model.describe(), changed)
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path / "model")
    assert caught.value.path == str(tmp_path / "model")


def test_the_selection_of_these_tests_is_one(model):
    Model.from_parts({**model.describe(), "selection": SELECTION}, model.arrays())


@pytest.fixture(scope="module")
def models():
    queries = judged()
    made = {"trees": Ranker("mcrank@3"), "additive": Ranker("svmmap", scorer=Additive(bins=4, shape="lines"))}
    made |= {"kernel": Ranker("gp-regression", scaling=None), "poly": Ranker("svmmap", scorer="kernel(kernel=poly)")}
    return {kind: ranker.fit(queries.with_features(queries.X)).model_ for kind, ranker in made.items()}


def put(array, at, value):
    changed = array.copy()
    changed[at] = value
    return changed


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        ("trees", "trees.feature", lambda a: put(a, 0, 3), "do not fit together"),
        ("trees", "trees.feature", lambda a: put(a, 0, -2), "do not fit together"),
        ("trees", "trees.feature", lambda a: a[:-1], "do not fit together"),
        ("trees", "trees.left", lambda a: put(a, 0, 0), "do not fit together"),
        ("trees", "trees.right", lambda a: put(a, 0, len(a)), "do not fit together"),
        ("trees", "trees.right", lambda a: put(a, 0, -1), "do not fit together"),
        ("trees", "trees.roots", lambda a: put(a, 0, 1 << 40), "do not fit together"),
        ("trees", "trees.outputs", lambda a: put(a, 0, 9), "do not fit together"),
        ("trees", "trees.left", lambda a: a + 0.5, "trees.left has type float64 and 1 dimensions; it needs int64"),
        ("trees", "trees.threshold", lambda a: put(a, 0, np.nan), "a threshold or grade of the trees is not a number"),
        ("trees", "trees.grades", lambda a: put(a, 0, np.inf), "a threshold or grade of the trees is not a number"),
        ("trees", "trees.single", lambda a: np.array([a, a]), "trees.single has type bool and 1 dimensions"),
        ("additive", "thresholds", lambda a: a[::-1].copy(), "are not finite and increasing"),
        ("additive", "thresholds", lambda a: put(a, 1, a[0]), "are not finite and increasing"),
        ("additive", "thresholds", lambda a: put(a, 1, np.nan), "are not finite and increasing"),
        ("additive", "thresholds", lambda a: a.astype(np.int64), "thresholds has type int64"),
        ("additive", "threshold_counts", lambda a: put(a, [0, 1], [-1, a[0] + a[1] + 1]), "do not add up"),
        ("additive", "threshold_counts", lambda a: a[:-1], "do not add up"),
        ("additive", "threshold_counts", lambda a: a * 1.0, "threshold_counts has type float64"),
        ("additive", "missing", lambda a: a.astype(np.int64), "missing has type int64"),
        ("additive", "starts", lambda a: a + 1e9, "start below the first threshold"),
        ("additive", "starts", lambda a: a[None], "starts has type float64 and 2 dimensions"),
        ("kernel", "kernel.documents", lambda a: put(a, (0, 0), np.nan), "a document of the kernel is not finite"),
        ("kernel", "kernel.documents", lambda a: a[:, :2], r"documents of shape \(160, 2\) for 3 features"),
        ("kernel", "kernel.documents", lambda a: a[:0], "a kernel has documents"),
        ("kernel", "kernel.rbf", lambda a: 0.0 * a, "gamma is 0.0; it must be a finite number above 0"),
        ("kernel", "kernel.rbf", lambda a: a[None], "kernel.rbf has type float64 and 2 dimensions"),
        ("kernel", "kernel.rbf", lambda a: np.append(a, 1.0), "too many values"),
        ("poly", "kernel.poly", lambda a: put(a, 1, 2.5), "degree is 2.5; it must be a whole number"),
        ("poly", "kernel.poly", lambda a: put(a, 1, 2.0**63), "degree is .*; it must be a whole number"),
        ("poly", "kernel.poly", lambda a: put(a, 1, np.inf), "degree is inf; it must be a finite number"),
        ("poly", "kernel.poly", lambda a: put(a, 2, -1.0), "coef0 is -1.0; it must be a finite number of at least 0"),
        ("poly", "kernel.poly", lambda a: a[:2], "not enough values"),
        ("poly", "kernel.factor", lambda a: a[:-1], "is not a triangle of finite numbers"),
        ("poly", "kernel.factor", lambda a: put(a, 1, np.nan), "is not a triangle of finite numbers"),
        ("poly", "kernel.factor", lambda a: put(a, 2, 0.0), "a diagonal that is not above 0"),
        ("poly", "kernel.factor", lambda a: a.astype(np.float32), "kernel.factor has type float32"),
    ],
)
def test_forms_that_contradict_themselves_are_refused(kind, name, change, message, models, tmp_path):
    model = models[kind]
    arrays = model.arrays()
    write_model(tmp_path / "model", "ranker", model.describe(), {**arrays, name: change(arrays[name])})
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path / "model")
    assert caught.value.path == str(tmp_path / "model")


def test_trees_of_more_features_than_anyone_has_are_refused(models, tmp_path):
    described = models["trees"].describe()
    many = {**described, "n_features": 2**40, "trained_on": {**described["trained_on"], "features": 2**40}}
    write_model(tmp_path / "model", "ranker", many, models["trees"].arrays())
    with pytest.raises(DataError, match="trees of 1,099,511,627,776 features; 1,048,576 are the most"):
        load(tmp_path / "model")


def test_files_of_other_kinds_are_named(tmp_path):
    write_model(tmp_path / "model", "fusion", {}, {})
    with pytest.raises(DataError, match="this model combines runs; use `marginrank fuse RUN"):
        load(tmp_path / "model")
    write_model(tmp_path / "model", "forest", {}, {})
    with pytest.raises(DataError, match="this file holds a forest, not a ranker"):
        load(tmp_path / "model")


def test_groups_of_a_loaded_loss_are_those_of_the_queries(tmp_path):
    queries = judged(document_groups=[f"g{row % 3}" for row in range(160)])
    ranker = Ranker(GroupedLoss("ndcg@2"), bound="hinge", solver=Auto(tol=1e-6)).fit(queries)
    ranker.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").fit(queries).coef_, ranker.coef_)


def test_a_saved_ranker_replaces_a_file_only_where_it_may(tmp_path):
    ranker = Ranker("svmmap").fit(judged())
    ranker.save(tmp_path / "model", overwrite=False)
    with pytest.raises(FileExistsError, match="model"):
        ranker.save(tmp_path / "model", overwrite=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scorer", ["linear", "linear(missing=mean)", "kernel(rank=20)"])
def test_features_are_scaled_and_scored_a_few_rows_at_a_time(scorer, dtype, monkeypatch):
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((240, 4)) * [1.0, 50.0, 0.01, 0.0] + [0.0, 300.0, 1e5, 3.0]).astype(dtype)
    grades, qid = (X[:, 0] + rng.standard_normal(240) > 0.5).astype(int), np.repeat([f"q{n}" for n in range(20)], 12)
    ranker = Ranker("svmmap", C=3.0, scaling="standard", scorer=scorer).fit(X, grades, qid=qid)
    model = ranker.model_
    scaled = (X - model.scaler.mean_) / np.where(model.scaler.scale_ > 0, model.scaler.scale_, np.inf)
    expected = model.form.score(model.theta, scaled)
    assert np.ptp(expected) > 0.01
    rel = 1e-9
    order = rng.permutation(240)
    for n_values in (1 << 19, 28):
        monkeypatch.setattr("marginrank.scorers.terms._BLOCK_VALUES", n_values)
        assert ranker.predict(X) == pytest.approx(expected, rel=rel, abs=rel)
        assert ranker.predict(X, qid=qid) == pytest.approx(expected, rel=rel, abs=rel)
        assert ranker.predict(X[order]) == pytest.approx(expected[order], rel=rel, abs=rel)
        assert ranker.predict(X[:1]) == pytest.approx(expected[:1], rel=rel, abs=rel)


def test_scaling_loses_no_digits_far_from_0():
    X = np.array([[1.0, 10.0, 7.0], [3.0, 10.5, 7.0], [5.0, 12.0, 7.0], [2.0, 11.0, 7.0]])
    near = Ranker("svmmap", scaling="standard").fit(X, [1, 0, 1, 0], qid=[1, 1, 2, 2]).model_
    weights = near.theta / np.where(near.scaler.scale_ > 0, near.scaler.scale_, np.inf)
    assert near.score(X) == pytest.approx(weights @ (X - X.mean(axis=0)).T)
    moved = X + np.array([0.0, 1e6, 0.0])
    far = Ranker("svmmap", scaling="standard").fit(moved, [1, 0, 1, 0], qid=[1, 1, 2, 2]).model_
    assert far.score(moved) == pytest.approx(near.score(X), rel=1e-6)


def test_what_a_model_was_trained_on_cannot_be_changed():
    ranker = Ranker("svmmap").fit([[1.0], [0.0], [3.0], [2.0]], [1, 0, 1, 0], qid=[1, 1, 2, 2])
    ranker.trained_on_["queries"] = 99
    assert ranker.trained_on_["queries"] == ranker.model_.provenance.queries == 2


def test_query_ids_are_checked_where_they_are_not_needed():
    X = np.array([[1.0, 10.0], [3.0, 10.5], [5.0, 12.0], [2.0, 11.0]])
    ranker = Ranker("svmmap", scaling="standard").fit(X, [1, 0, 1, 0], qid=[1, 1, 2, 2])
    with pytest.raises(DataError, match=r"qid has shape \(3,\) for 4 rows"):
        ranker.predict(X, qid=[5, 5, 6])
    with pytest.raises(DataError, match="group sums to 3 but there are 4 rows"):
        ranker.predict(X, group=[1, 2])
