"""What all baselines have in common: the same contract as every method, and no certificate."""

from __future__ import annotations

import importlib.util
import signal
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from marginrank import DataError, Ranker, evaluate, load, tune
from marginrank.data.queries import in_canonical_order
from marginrank.errors import FractionalGradesWarning
from marginrank.methods import all_presets, parse_preset
from marginrank.methods.baselines.base import LinearBaseline
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.ranker.resolution import resolve
from marginrank.scorers import Additive, Linear
from marginrank.scorers.boosted.form import BoostedForm
from marginrank.scorers.staged_scorer import StageLimits
from marginrank.solvers import Auto

BASELINES = [name for name, preset in all_presets().items() if preset.kind == "baseline"]
SHORT = {"rankboost": "rankboost@20", "mcrank": "mcrank@5", "lambdarank": "lambdarank@5"}


@pytest.fixture(params=BASELINES)
def name(request):
    """Each baseline, with few rounds."""
    if request.param == "lambdarank":
        pytest.importorskip("lightgbm", reason="LightGBM is an extra")
    return SHORT.get(request.param, request.param)


def own_C(name, C):
    """Return the C of a baseline that has one."""
    return {"C": C} if parse_preset(name).baseline.takes_C else {}


def test_a_C_that_is_ignored_is_told(name, judged):
    if own_C(name, 10.0):
        assert Ranker(name, C=10.0).fit(judged()).model_.solution.C == 10.0
        return
    with pytest.warns(UserWarning, match=rf"^{name} has no C, so C = 10 is ignored; leave it out$"):
        Ranker(name, C=10.0).fit(judged())


def test_every_baseline_learns_and_is_the_same_after_a_file(name, judged, tmp_path):
    queries = judged(feature_names=["bm25", "age", "noise", "one"])
    ranker = Ranker(name, n_jobs=1, **own_C(name, 10.0)).fit(queries)
    scores = ranker.predict(queries)
    by_noise = evaluate(queries, queries.X[:, 2], "ndcg").mean["ndcg"]
    assert evaluate(queries, scores, "ndcg").mean["ndcg"] > by_noise + 0.1
    assert (ranker.gap_, ranker.model_.method.bound, ranker.model_.method.solver) == (np.inf, None, None)
    assert ranker.health_ is None
    assert np.isfinite(ranker.objective_)
    assert ranker.coef_.shape == (ranker.form_.n_parameters,)
    by_rows = np.random.default_rng(0).permutation(len(scores))
    qid = np.repeat(np.arange(30), 8)[by_rows]
    X = queries.X[by_rows]
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(queries), scores)
    with pytest.warns(UserWarning, match="valid feature names"):
        assert again.predict(X, qid=qid) == pytest.approx(scores[by_rows], abs=1e-12)
    assert again.model_.describe() == ranker.model_.describe()
    assert np.array_equal(again.fit(queries).predict(queries), scores)


def test_what_says_how_a_loss_is_minimized_is_refused(name, judged):
    queries = judged()
    for option in ({"bound": "tight"}, {"solver": "bundle"}, {"solver": Auto(tol=1e-9)}, {"warm_start": True}):
        key = next(iter(option))
        with pytest.raises(ValueError, match=f"{key} is for methods with a loss, and {name} is a baseline"):
            Ranker(name, **option).fit(queries)
    with pytest.raises(ValueError, match=f"'{name}' is a baseline and has no loss"):
        Ranker(name).set_params(loss__feature_map="dorm")
    with pytest.raises(DataError, match="every query has a single document or a single grade"):
        Ranker(name).fit(queries.X, np.ones(240), group=[8] * 30)


def test_the_defaults_of_a_ranker_mean_the_same_as_objects(name, judged):
    """The command line gives objects, and they are what their spellings stand for."""
    queries = judged()
    spelled = Ranker(name, n_jobs=1).fit(queries)
    as_objects = Ranker(name, n_jobs=1, scorer=Linear(), solver=Auto()).fit(queries)
    assert np.array_equal(as_objects.predict(queries), spelled.predict(queries))


def test_an_option_object_is_the_preset(name, judged, tmp_path):
    queries, baseline = judged(), parse_preset(name).baseline
    options = {"n_jobs": 1, "random_state": 3, **own_C(name, 7.0)}
    ranker = Ranker(name, **options).fit(queries)
    for spec in (baseline, str(baseline)):
        other = Ranker(spec, **options).fit(queries)
        assert np.array_equal(other.predict(queries), ranker.predict(queries))
        assert other.score(queries) == ranker.score(queries)
        assert other.measure_ == ranker.measure_
        assert other.model_.method.trained == ranker.model_.method.trained == str(baseline)
    other.save(tmp_path / "model")
    assert load(tmp_path / "model").method == spec
    assert ranker.model_.method.preset == name


def test_options_of_a_baseline_are_parameters():
    ranker = Ranker(RankBoost(rounds=50))
    assert ranker.get_params()["method__rounds"] == 50
    assert clone(ranker).set_params(method__rounds=20).method == RankBoost(20)
    assert Ranker("rankboost(rounds=20)").set_params(method__bins=8).method == RankBoost(20, 8)
    with pytest.raises(ValueError, match="RankBoost has no parameter 'round'; did you mean 'rounds'"):
        ranker.set_params(method__round=3)


def test_seeds_are_passed_on(judged):
    queries = judged()
    assert resolve(Ranker("prank", random_state=None)).seed is None
    one, same, other = (Ranker("prank", random_state=seed).fit(queries).coef_ for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_forms_of_their_own_and_inputs_that_are_refused(name, judged):
    queries, baseline = judged(), parse_preset(name).baseline
    if not isinstance(baseline, LinearBaseline):
        with pytest.raises(ValueError, match="has its own form; leave out scorer"):
            Ranker(name, scorer="additive").fit(queries)
    elif baseline.fixed_scaling is not None:
        with pytest.raises(ValueError, match="has its own thresholds; leave out scorer='additive'"):
            Ranker(name, scorer="additive").fit(queries)
    else:
        assert Ranker(name, scorer=Additive(bins=4), n_jobs=1).fit(queries).form_.kind == "additive"
    if baseline.fixed_scaling is not None:
        with pytest.raises(ValueError, match=f"has its own scaling, '{baseline.fixed_scaling}'"):
            Ranker(name, scaling="standard").fit(queries)
    elif baseline.takes_sparse:
        dense = Ranker(name, n_jobs=1).fit(queries)
        sparse = Ranker(name, n_jobs=1).fit(sp.csr_array(queries.X), queries.grades, group=[8] * 30)
        assert sparse.predict(sp.csr_array(queries.X)) == pytest.approx(dense.predict(queries), abs=1e-6)
    else:
        with pytest.raises(DataError, match=r"takes no sparse X; pass X.toarray\(\)"):
            Ranker(name).fit(sp.csr_array(queries.X), queries.grades, group=[8] * 30)
    if not baseline.takes_weights:
        with pytest.raises(DataError, match="cannot weight queries; leave out weighting and query weights"):
            Ranker(name, weighting="pairs").fit(queries)
    elif name != "best-feature":  # whose choice takes more than that to change
        plain, weighted = (Ranker(name, weighting=w, n_jobs=1).fit(queries) for w in (None, "pairs"))
        assert not np.array_equal(weighted.predict(queries), plain.predict(queries))


def test_a_path_and_a_choice_train_what_differs(name, judged):
    queries, takes_C = judged(), parse_preset(name).baseline.takes_C
    path = Ranker(name, n_jobs=1).fit_path(queries, Cs=[1.0, 100.0])
    assert [one.C for one in path] == [1.0, 100.0]
    assert np.array_equal(path[0].coef_, path[1].coef_) == (not takes_C)
    chosen = tune(Ranker(name, n_jobs=1), queries, folds=2, Cs=[1.0, 100.0], n_jobs=1)
    assert len(chosen.candidates) == (2 if takes_C else 1)
    assert chosen.ranker.model_.selection["chosen"] == chosen.chosen


@pytest.mark.parametrize("preset", ["rankboost@60", "mcrank@40", "prank@15"])
def test_validation_queries_choose_the_round(preset, judged):
    train, valid = judged(n_queries=10), judged(n_queries=40, seed=9)
    ranker = Ranker(preset, scaling=None, patience=1000).fit(train, validation=valid)
    stages = list(parse_preset(preset).baseline.stages(resolve(ranker), in_canonical_order(train), StageLimits(1.0)))
    values = [
        evaluate(valid, stage.form.score(stage.theta, valid.X), ranker.measure_).mean[ranker.measure_]
        for stage in stages
    ]
    assert 0 < int(np.argmax(values)) < len(values) - 1
    assert ranker.score(valid) == max(values)
    assert np.array_equal(ranker.coef_, stages[int(np.argmax(values))].theta)
    hasty = Ranker(preset, scaling=None, patience=1).fit(train, validation=valid)
    assert hasty.solution_.reason == "callback"
    assert hasty.n_iter_ < len(stages)


def test_budgets_and_interrupts_give_the_rounds_so_far(judged):
    def press(step, theta):
        if step.passes == 3:
            signal.raise_signal(signal.SIGINT)

    ranker = Ranker("rankboost").fit(judged(), callback=press)
    assert (ranker.solution_.reason, ranker.n_iter_) == ("interrupted", 3)
    assert Ranker("rankboost", time_limit=1e-9).fit(judged()).solution_.reason == "time_limit"
    three = Ranker("rankboost").fit(judged(), callback=lambda step, _: step.passes == 4)
    assert (three.solution_.reason, three.n_iter_) == ("callback", 4)


def test_rounds_are_checked():
    for name in ("rankboost@0", "mcrank@0", "lambdarank@0", "prank@0"):
        with pytest.raises(ValueError, match=f"'{name}' has 0 after the @; give at least 1"):
            parse_preset(name)
        baseline = parse_preset(name.replace("@0", "@3")).baseline
        with pytest.raises(ValueError, match=r"0 (rounds|epochs); give at least 1"):
            baseline.with_params(**{"epochs" if "epochs" in baseline.get_params() else "rounds": 0})
    with pytest.raises(ValueError, match="preset 'svmacc' has no cutoff; leave out '@3'"):
        parse_preset("svmacc@3")
    with pytest.raises(DataError, match="100 different grades; a class for each is for at most 64"):
        Ranker("prank").fit(np.zeros((100, 1)), np.arange(100), group=[100])


@pytest.mark.parametrize("name", ["mcrank@40", "lambdarank@40"])
def test_a_time_limit_ends_boosting_and_keeps_what_it_has(name, judged, monkeypatch):
    if name.startswith("lambdarank"):
        pytest.importorskip("lightgbm")
    clock = iter(range(10_000))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    ranker = Ranker(name, time_limit=20.0, n_jobs=1).fit(judged())
    assert ranker.solution_.reason == "time_limit"
    assert 1 < ranker.n_iter_ < 40


def test_missing_values_are_refused_or_known(judged):
    queries = judged()
    broken = replace(queries, X=np.where(np.arange(len(queries.X))[:, None] == 5, np.nan, queries.X))
    for name in BASELINES:
        ranker = Ranker(name)
        if resolve(ranker).capabilities.takes_nan:
            assert np.isfinite(ranker.fit(broken).predict(broken)).all()
            continue
        with pytest.raises(DataError, match=r"feature 0 of document 5 \(query 0\) is NaN"):
            ranker.fit(broken)
        if name != "lambdarank" or lightgbm_is_there():
            with pytest.raises(DataError, match=r"feature 0 of document 5 \(query 0\) is NaN"):
                ranker.fit(queries).predict(broken)


def lightgbm_is_there():
    return importlib.util.find_spec("lightgbm") is not None


def test_queries_of_weight_0_teach_nothing(judged):
    queries = judged(query_weights=np.eye(30)[0])
    grades = queries.grades.copy()
    grades[:8] = 1.0
    for name in ("svmacc", "rankboost", "best-feature", "svm-multiclass"):
        with pytest.raises(DataError, match="nothing to learn"):
            Ranker(name).fit(replace(queries, judgements=grades))


def test_grades_without_a_relevant_document_have_no_best_feature(judged):
    queries = judged()
    halves_warn = pytest.warns(FractionalGradesWarning, match=r"irrelevant: \d+ for ap;")
    with halves_warn, pytest.raises(DataError, match="no query has a value of ap"):
        Ranker("best-feature(measure=ap)").fit(replace(queries, judgements=np.minimum(queries.grades, 1.0) / 2))


def test_a_gaussian_process_keeps_its_own_documents(judged):
    queries, test = judged(), judged(seed=1)
    ranker = Ranker("gp-regression").fit(queries)
    before = ranker.predict(test)
    queries.X[:] = 0.0
    assert np.array_equal(ranker.predict(test), before)


def test_validation_without_relevant_documents_is_refused(judged):
    valid = judged(seed=1)
    with pytest.raises(DataError, match="no validation query"):
        Ranker("rankboost@5").fit(judged(), validation=replace(valid, judgements=np.zeros_like(valid.grades)))


def test_trees_that_do_not_fit_together_are_refused():
    feature = np.array([0, -1, -1])
    left, right = np.array([1, 0, 1]), np.array([2, 0, 0])
    parts = (np.zeros(3), left, right, np.array([0]), np.array([0]), np.zeros(0))
    assert BoostedForm(1, feature, *parts).n_parameters == 2
    for n_features, wrong in ((0, parts), (1, (np.zeros(3), left[:2], *parts[2:])), (1, (np.zeros(2), *parts[1:]))):
        with pytest.raises(ValueError, match="do not fit together"):
            BoostedForm(n_features, feature, *wrong)
