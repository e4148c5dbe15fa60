"""Choosing C and other parameters on queries that were held out."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from marginrank import DataError, Queries, Ranker, evaluate, load, tune
from marginrank.losses import SoftmaxCrossEntropy, StructuredLoss
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.ranker import tuning
from marginrank.ranker.grid_search import DEFAULT_CS
from marginrank.ranker.selection import selection_table
from marginrank.scorers import Additive
from marginrank.solvers import Auto
from marginrank.training import loss_minimizer as training

STEPS = "additive(bins=32, shape=steps)"


def judged(n_queries, seed, noise=1.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * 10, 5))
    hidden = X @ [1.0, -0.5, 0.0, 0.0, 0.2] + noise * rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [1.0, 2.0]), qid=np.repeat(np.arange(n_queries), 10))


TRAIN, VALID = judged(40, 0), judged(60, 1)


def test_the_best_on_validation_is_chosen_and_measured_as_it_is():
    Cs = [0.01, 0.1, 1.0, 10.0, 100.0]
    chosen = tune(Ranker("svmmap"), TRAIN, valid=VALID, Cs=Cs, criterion="ndcg@5", policy="letor4")
    values = [
        evaluate(VALID, ranker.predict(VALID), "ndcg@5", policy="letor4").mean["ndcg@5"]
        for ranker in Ranker("svmmap").fit_path(TRAIN, Cs=Cs)
    ]
    assert [one.mean for one in chosen.candidates] == pytest.approx(values, abs=1e-12)
    assert chosen.best.mean == max(one.mean for one in chosen.candidates)
    assert Cs[int(np.argmax(values))] == chosen.ranker.C
    assert evaluate(VALID, chosen.ranker.predict(VALID), "ndcg@5", policy="letor4").mean["ndcg@5"] == pytest.approx(
        max(values)
    )
    assert len(DEFAULT_CS) == 10


def test_one_standard_error_takes_the_smallest_C_within_it():
    best = tune(Ranker("svmmap"), TRAIN, valid=VALID)
    simple = tune(Ranker("svmmap"), TRAIN, valid=VALID, rule="one-se")
    top = best.best
    near = [one.parameters["C"] for one in best.candidates if one.mean >= top.mean - top.standard_error]
    assert min(near) == simple.ranker.C
    values = evaluate(VALID, best.ranker.predict(VALID), "ap")["ap"]
    counted = values[~np.isnan(values)]
    assert top.standard_error == pytest.approx(counted.std(ddof=1) / np.sqrt(len(counted)))


@pytest.mark.parametrize(
    ("options", "n_jobs", "threads"),
    [
        ({}, None, 1),
        ({}, 3, 3),
        ({"scorer": "additive"}, None, 4),
        ({"grid": {"scorer": ["linear", "kernel"]}}, None, 8),
    ],
)
def test_folds_are_trained_in_parallel(options, n_jobs, threads, monkeypatch):
    pools = []

    def pool(n_threads):
        pools.append(n_threads)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr("marginrank.ranker.grid_search.ThreadPoolExecutor", pool)
    monkeypatch.setattr("marginrank.ranker.grid_search.thread_count", lambda n: 16 if n is None else n)
    ranker = Ranker("svmauc", scorer=options.get("scorer", "linear"))
    tune(ranker, TRAIN, folds=4, Cs=[0.1], n_jobs=n_jobs, grid=options.get("grid"))
    assert pools == [threads]
    monkeypatch.setattr("marginrank.ranker.grid_search.GIL_BOUND_NUMBERS", 0)
    if n_jobs is None and not options:
        tune(ranker, TRAIN, folds=4, Cs=[0.1])
        assert pools == [1, 4]


def test_folds_hold_every_query_out_once_and_train_on_all_at_the_end():
    chosen = tune(Ranker("svmauc"), TRAIN, folds=4, Cs=[0.1, 10.0])
    again = Ranker("svmauc", C=chosen.ranker.C).fit(TRAIN)
    assert np.array_equal(chosen.ranker.coef_, again.coef_)
    one, two = (tune(Ranker("svmauc"), TRAIN, folds=4, Cs=[0.1, 10.0], n_jobs=n) for n in (1, 2))
    assert [c.mean for c in one.candidates] == [c.mean for c in two.candidates]
    assert one.ranker.n_jobs is two.ranker.n_jobs is None
    assert "n_jobs" not in two.ranker.model_.method.parameters  # the threads of a search are not those of a model
    other = tune(Ranker("svmauc"), TRAIN, folds=4, Cs=[0.1, 10.0], random_state=1)
    assert [c.mean for c in other.candidates] != [c.mean for c in one.candidates]


def test_profiles_scorers_and_solvers_are_chosen_like_C():
    maps = ["dorm", "dorm(shape=log)", "dorm(shape=linear)"]
    ranker = Ranker(StructuredLoss("ndcg", "dorm"), bound="hinge", solver=Auto(tol=1e-3))
    chosen = tune(ranker, TRAIN, valid=VALID, Cs=[1.0, 10.0], grid={"loss__feature_map": maps})
    assert [one.parameters["loss__feature_map"] for one in chosen.candidates] == [m for m in maps for _ in range(2)]
    assert chosen.ranker.loss.feature_map == chosen.best.parameters["loss__feature_map"]
    assert "dorm(shape=log)" in str(chosen)
    for one in chosen.candidates:
        alone = Ranker(
            StructuredLoss("ndcg", one.parameters["loss__feature_map"]), bound="hinge", solver=Auto(tol=1e-3)
        )
        path = dict(zip([1.0, 10.0], alone.fit_path(TRAIN, Cs=[1.0, 10.0]), strict=True))
        assert one.mean == pytest.approx(path[one.parameters["C"]].score(VALID), abs=1e-12)
    grid = {"scorer__bins": [2, 8], "solver__tol": [1e-1, 1e-3]}
    bins = tune(Ranker("svmauc", scorer="additive"), TRAIN, folds=2, Cs=[1.0], grid=grid)
    assert [(c.parameters["scorer__bins"], c.parameters["solver__tol"]) for c in bins.candidates] == [
        (2, 0.1), (2, 0.001), (8, 0.1), (8, 0.001)
    ]  # fmt: skip
    assert bins.ranker.scorer == Additive(bins=bins.best.parameters["scorer__bins"])
    assert bins.ranker.solver == Auto(tol=bins.best.parameters["solver__tol"])
    assert len({one.mean for one in bins.candidates}) > 1


def test_table_and_picture(tmp_path):
    chosen = tune(Ranker("svmmap"), TRAIN, valid=VALID, Cs=[0.1, 1.0], grid={"scorer__nonnegative": [False, True]})
    text = str(chosen)
    assert text.count("chosen") == 1
    assert text.splitlines()[-1] == "60 validation queries, policy standard, rule best"
    figure = chosen.plot(tmp_path / "selection.png")
    assert (tmp_path / "selection.png").stat().st_size > 5_000
    assert len(figure.axes[0].get_lines()) >= 3


def test_bad_requests():
    with pytest.raises(ValueError, match="rule is 'first'; choose"):
        tune(Ranker(), TRAIN, valid=VALID, rule="first")
    with pytest.raises(ValueError, match="not both"):
        tune(Ranker(), TRAIN, valid=VALID, folds=3)
    with pytest.raises(ValueError, match="Cs is empty"):
        tune(Ranker(), TRAIN, valid=VALID, Cs=[])
    with pytest.raises(DataError, match="folds is 41 for 40 queries"):
        tune(Ranker(), TRAIN, folds=41)
    with pytest.raises(ValueError, match="the grid has 'profile'"):
        tune(Ranker(), TRAIN, valid=VALID, grid={"profile": [1]})
    with pytest.raises(ValueError, match="Linear has no parameter 'bins'; known: nonnegative"):
        tune(Ranker(), TRAIN, valid=VALID, grid={"scorer__bins": [1]})
    with pytest.raises(
        ValueError, match="'C' has no parameters of its own; method, loss, bound, scorer and solver have"
    ):
        tune(Ranker(), TRAIN, valid=VALID, grid={"C__x": [1]})
    with pytest.raises(ValueError, match="C is in the grid; give its values as Cs"):
        tune(Ranker(), TRAIN, valid=VALID, grid={"C": [1.0]})
    for values in ([], "standard"):
        with pytest.raises(ValueError, match=r"the grid has .* for scaling; give a list of values"):
            tune(Ranker(), TRAIN, valid=VALID, grid={"scaling": values})
    with pytest.raises(ValueError, match="time_limit is 0; it must be positive"):
        tune(Ranker(), TRAIN, valid=VALID, time_limit=0)
    with pytest.raises(DataError, match="one query cannot be split into folds"):
        tune(Ranker(), TRAIN[0])
    with pytest.raises(DataError, match=r"^in a fold, every training query .*; give more queries .*, or validation"):
        tune(Ranker(), [[1.0], [2.0], [3.0], [4.0]], [1, 0, 0, 0], group=[2, 2], folds=2)
    empty = Queries.from_arrays(VALID.X, np.zeros(VALID.n_documents), qid=np.repeat(np.arange(60), 10))
    with pytest.raises(DataError, match="no validation query has a relevant document"):
        tune(Ranker(), TRAIN, valid=empty)


def test_threads_of_linear_algebra_are_as_before():
    with threadpool_limits(2, "blas"):
        before = [pool["num_threads"] for pool in threadpool_info()]
        for _ in range(3):
            tune(Ranker("svmmap"), TRAIN, folds=4, Cs=[0.1, 1.0], n_jobs=2)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
        assert 2 in before


def rows_of(queries, order=None):
    """Arrays with the query of each row."""
    order = np.arange(queries.n_documents) if order is None else order
    qid = np.repeat([f"q{number}" for number in queries.query_ids.tolist()], queries.lengths)
    return queries.X[order], queries.grades[order], qid[order]


def means(selection):
    return [one.mean for one in selection.candidates]


def test_arrays_frames_and_queries_are_tuned_alike():
    X, y, qid = rows_of(TRAIN)
    queries = Queries.from_arrays(X, y, qid=qid)
    options = {"folds": 3, "Cs": [0.1, 10.0]}
    expected = tune(Ranker("svmauc"), queries, **options)
    names = ["a", "b", "c", "d", "e"]
    for features in (X, pd.DataFrame(X, columns=names)):
        found = tune(Ranker("svmauc"), features, y, qid=qid, **options)
        assert means(found) == means(expected)
        assert np.array_equal(found.ranker.predict(features), expected.ranker.predict(queries))
    assert found.ranker.feature_names_in_.tolist() == names
    assert found.ranker.model_.selection == found.to_dict()
    by_group = tune(Ranker("svmauc"), X, y, group=[10] * 40, valid=rows_of(VALID), Cs=[0.1, 10.0])
    assert means(by_group) == means(tune(Ranker("svmauc"), TRAIN, valid=VALID, Cs=[0.1, 10.0]))
    with pytest.raises(DataError, match="y is missing"):
        tune(Ranker(), X, qid=qid)


@pytest.mark.parametrize(
    "ranker", [Ranker("svmauc", solver=Auto(tol=1e-9)), Ranker(RankBoost(10))], ids=["loss", "baseline"]
)
def test_folds_do_not_depend_on_the_order_of_rows(ranker):
    sorted_rows = tune(ranker, *rows_of(TRAIN)[:2], qid=rows_of(TRAIN)[2], folds=3, Cs=[0.1, 10.0])
    X, y, qid = rows_of(TRAIN, np.random.default_rng(5).permutation(TRAIN.n_documents))
    shuffled = tune(ranker, X, y, qid=qid, folds=3, Cs=[0.1, 10.0])
    assert means(shuffled) == pytest.approx(means(sorted_rows), abs=1e-12)
    assert shuffled.ranker.coef_ == pytest.approx(sorted_rows.ranker.coef_, abs=1e-6)


def bent(n_queries, seed):
    """Relevant is what lies near 0, which no weight can tell."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_queries * 10, 2))
    y = (np.abs(X[:, 0]) + 0.1 * rng.standard_normal(len(X)) < 0.3).astype(int)
    return X, y, np.repeat([f"query {number:03d}" for number in range(n_queries)], 10)


def test_curves_are_trained_for_the_loss_only_if_softmax_is_clearly_better_with_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X @ [1.0, -1.0, 0.5] + 0.5 * rng.standard_normal(400) > 0.5).astype(int)
    straight = tune(Ranker("svmmap", scorer="auto"), X, y, qid=np.arange(400) // 10, folds=2, Cs=[0.1, 1.0])
    assert [one.parameters["scorer"] for one in straight.candidates] == ["linear", "linear"]
    softmax = Ranker(loss=SoftmaxCrossEntropy(), solver=Auto(tol=1e-3))
    grid = {"scorer": ["linear", "additive", STEPS]}
    compared = tune(softmax, X, y, qid=np.arange(400) // 10, folds=2, Cs=[0.1, 1.0], grid=grid, criterion="ap")
    assert str(straight).endswith(f"; ap by scorer with softmax{str(compared).partition('ap by scorer')[2]}")
    assert selection_table(straight.ranker.model_.selection) == str(straight)
    # A smooth loss takes as long as the comparison would.
    every = tune(Ranker("softmax", scorer="auto"), X, y, qid=np.arange(400) // 10, folds=2, Cs=[1.0])
    assert [one.parameters["scorer"] for one in every.candidates] == ["linear", "additive", STEPS]


def test_curves_end_the_path_where_it_only_gets_worse():
    X, y, qid = bent(40, 2)
    y = np.where(np.random.default_rng(1).random(len(y)) < 0.3, 1 - y, y)
    chosen = tune(Ranker("svmmap", scorer=STEPS), X, y, qid=qid, folds=2)
    every = tune(Ranker("svmmap", scorer=STEPS), X, y, qid=qid, folds=2, Cs=[*DEFAULT_CS, 20_000.0])
    assert len(chosen.candidates) < len(DEFAULT_CS)
    assert means(chosen) == pytest.approx(means(every)[: len(chosen.candidates)], abs=0.02)
    assert chosen.best.mean == pytest.approx(max(means(every)), abs=0.02)
    assert chosen.best.clearly_better(chosen.candidates[-1])


def test_the_scorer_is_chosen_on_held_out_queries_whatever_the_order_of_rows(tmp_path):
    X, y, qid = bent(30, 0)
    options = {"Cs": [0.1, 10.0], "folds": 3}
    selection = tune(Ranker("svmmap", scorer="auto"), X, y, qid=qid, **options)
    assert [one.parameters["scorer"] for one in selection.candidates] == ["linear", "linear", STEPS, STEPS]
    alone = {name: tune(Ranker("svmmap", scorer=name), X, y, qid=qid, **options) for name in ("linear", STEPS)}
    assert alone[STEPS].best.mean > alone["linear"].best.mean + 0.2
    assert means(selection) == means(alone["linear"]) + means(alone[STEPS])
    assert selection.ranker.form_.kind == "additive"
    assert selection.ranker.predict(X, qid=qid).tolist() == alone[STEPS].ranker.predict(X, qid=qid).tolist()
    figures = [f"{name} {alone[name].best.mean:.4f}" for name in (STEPS, "linear")]
    assert str(selection).endswith(f"ap by scorer: {', '.join(figures)}")
    selection.ranker.save(tmp_path / "chosen.safetensors")
    assert selection_table(load(tmp_path / "chosen.safetensors").model_.selection) == str(selection)
    order = np.random.default_rng(1).permutation(len(y))
    shuffled = tune(Ranker("svmmap", scorer="auto"), X[order], y[order], qid=qid[order], **options)
    assert shuffled.best.parameters == selection.best.parameters
    assert means(shuffled) == pytest.approx(means(selection), abs=0.02)  # each is within the tolerance of the solver


@pytest.mark.parametrize("Cs", [[0.1, 10.0], DEFAULT_CS], ids=["few", "default"])
def test_the_scorer_that_is_chosen_is_the_same_after_an_interruption(Cs, tmp_path):
    X, y, qid = bent(30, 0)

    def selection(**options):
        return tune(Ranker("svmmap", scorer="auto"), X, y, qid=qid, Cs=Cs, folds=2, **options)

    straight, path = selection(), tmp_path / "run"
    assert means(selection(checkpoint=path)) == means(straight)
    resumed = selection(checkpoint=path, resume=True)
    assert [one.parameters for one in resumed.candidates] == [one.parameters for one in straight.candidates]
    assert means(resumed) == means(straight)
    assert resumed.ranker.coef_.tolist() == straight.ranker.coef_.tolist()


def test_what_the_scorer_is_chosen_from_depends_on_the_features():
    X, y, qid = bent(12, 1)
    missing = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    tried = tune(Ranker("svmmap", scorer="auto"), missing, y, qid=qid, folds=2, Cs=[1.0]).candidates
    assert [one.parameters["scorer"] for one in tried] == ["linear(missing=mean)", STEPS]
    tried = tune(Ranker("svmmap", scorer="auto"), sparse.csr_array(X), y, qid=qid, folds=2, Cs=[1.0]).candidates
    assert [one.parameters["scorer"] for one in tried] == ["linear"]
    with pytest.raises(ValueError, match="scorer 'auto' is chosen on held-out queries: call tune"):
        Ranker("svmmap", scorer="auto").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match=r"^scorer__bins is for one scorer; name it instead of scorer='auto'$"):
        tune(Ranker("svmmap", scorer="auto"), X, y, qid=qid, grid={"scorer__bins": [8]})


def test_a_baseline_of_its_own_is_one_candidate():
    chosen = tune(Ranker(RankBoost()), TRAIN, folds=3, grid={"method__rounds": [1, 20]})
    assert [one.parameters["method__rounds"] for one in chosen.candidates] == [1, 20]
    assert chosen.ranker.method.rounds == chosen.best.parameters["method__rounds"] == 20
    again = Ranker(RankBoost(20)).fit(TRAIN)
    assert np.array_equal(chosen.ranker.coef_, again.coef_)
    path = Ranker(RankBoost(5)).fit_path(TRAIN, Cs=[1.0, 2.0])
    assert np.array_equal(path[0].coef_, path[1].coef_)


class StopAfter:
    """A callback that stops after so many iterations, and counts those after it."""

    def __init__(self, n):
        self.n, self.seen, self.lock = n, 0, threading.Lock()

    def __call__(self, *_):
        with self.lock:
            self.seen += 1
            return self.seen >= self.n


@pytest.mark.parametrize("how", [{"valid": VALID}, {"folds": 4}], ids=["valid", "folds"])
def test_a_callback_that_stops_leaves_what_was_finished(how):
    """Paths of C go up, so the small C are finished; of them nothing may be lost, and nothing else may be chosen."""
    options = {"Cs": [1e-4, 1e-3, 1e4], "n_jobs": 1, **how}
    counted = StopAfter(np.inf)
    whole = tune(Ranker("svmmap", solver=Auto(tol=1e-6)), TRAIN, callback=counted, **options)
    assert whole.complete
    stop = StopAfter(counted.seen - 2)
    part = tune(Ranker("svmmap", solver=Auto(tol=1e-6)), TRAIN, callback=stop, **options)
    assert not part.complete
    assert "stopped before everything was tried" in str(part)
    assert part.ranker.model_.selection["complete"] is False
    by_C = {one.parameters["C"]: one.mean for one in whole.candidates}
    assert len(part.candidates) >= 2
    assert {one.parameters["C"]: one.mean for one in part.candidates}.items() <= by_C.items()
    assert part.ranker.solution_.reason == "converged"
    assert part.best.parameters["C"] == part.ranker.C
    assert part.ranker.score(VALID) > 0.3


@pytest.mark.filterwarnings("ignore:the model gives all documents")  # all weights may still be 0
def test_a_search_that_is_stopped_at_once_returns_what_it_has():
    stop = StopAfter(1)
    part = tune(Ranker("svmmap"), TRAIN, folds=4, Cs=[0.1, 1.0], callback=stop, n_jobs=1, grid={"scaling": [None]})
    assert not part.complete
    assert part.ranker.solution_.reason == "callback"
    assert part.ranker.predict(VALID).shape == (600,)
    assert part.ranker.trained_on_["queries"] == 30
    # One iteration of each C of the first fold, and no more.
    assert stop.seen == 2
    assert [one.parameters for one in part.candidates] == [{"scaling": None, "C": 0.1}]


def test_settings_judged_on_some_folds_only_are_left_out():
    """A stop in the last fold: its C is trained to the end on the others, and yet not compared."""
    counted = StopAfter(np.inf)
    tune(Ranker("svmmap"), TRAIN, folds=3, Cs=[10.0], callback=counted, n_jobs=1, grid={"scaling": [None]})
    of_one = counted.seen
    stop = StopAfter(of_one + 1)
    grid = {"scaling": [None, "query-minmax"]}
    part = tune(Ranker("svmmap"), TRAIN, folds=3, Cs=[10.0], callback=stop, n_jobs=1, grid=grid)
    assert [one.parameters["scaling"] for one in part.candidates] == [None]


def test_the_final_training_is_given_up_rather_than_cut_short():
    counted = StopAfter(np.inf)
    whole = tune(Ranker("svmmap"), TRAIN, folds=3, Cs=[10.0], callback=counted, n_jobs=1)
    part = tune(Ranker("svmmap"), TRAIN, folds=3, Cs=[10.0], callback=StopAfter(counted.seen - 3), n_jobs=1)
    assert means(part) == means(whole)
    assert (whole.complete, part.complete) == (True, False)
    assert part.ranker.solution_.reason == "converged"
    assert part.ranker.trained_on_["queries"] in (26, 27)
    assert whole.ranker.trained_on_["queries"] == 40


def test_a_time_limit_ends_the_search():
    began = time.perf_counter()
    slow = Ranker("svmmap", solver=Auto(tol=0.0, max_iter=10**6))

    def wait(*_):
        time.sleep(0.05)

    part = tune(slow, TRAIN, valid=VALID, Cs=[1.0, 10.0, 100.0], time_limit=0.2, callback=wait)
    assert time.perf_counter() - began < 5
    assert not part.complete
    assert part.ranker.score(VALID) > 0.3
    enough = tune(Ranker("svmmap"), TRAIN, valid=VALID, Cs=[1.0], time_limit=1000.0)
    assert enough.complete


@pytest.mark.filterwarnings("ignore::marginrank.training.CollapseWarning")
def test_all_queries_are_trained_with_the_bound_that_was_judged(monkeypatch):
    """A path may show that the hinge has collapsed where its last C by itself does not."""
    monkeypatch.setattr(training, "_trial_of_idle", lambda *args: max(args[2]) if len(args[2]) > 1 else None)
    monkeypatch.setattr(training, "_trial_of_solved", lambda *args: None)  # noqa: ARG005
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40 * 60, 3))
    y = np.tile([1.0] * 3 + [0.0] * 57, 40)
    X[y == 1, 0] += 0.5
    queries = Queries.from_arrays(X, y, group=[60] * 40)
    ranker = Ranker(measure="ndcg@5", scorer="additive", C=10.0)
    assert clone(ranker).fit(queries).model_.method.bound == "hinge"
    monkeypatch.setattr(tuning, "_choose", lambda candidates, rule: len(candidates) - 1)  # noqa: ARG005
    selection = tune(ranker, queries, folds=2, Cs=[0.01, 10.0])
    assert selection.ranker.model_.method.bound == "tight"
    assert (selection.ranker.C, selection.ranker.bound) == (10.0, ranker.bound)


def test_wide_data_ends_the_path_where_it_only_gets_worse():
    """Features outnumber documents and are noise but for one, so that a large C overfits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 80))
    y = (X[:, 0] + 0.5 * rng.standard_normal(60) > 0).astype(int)
    wide = Queries.from_arrays(X, y, group=[6] * 10)
    chosen = tune(Ranker("svmmap"), wide, folds=2)
    every = tune(Ranker("svmmap"), wide, folds=2, Cs=sorted(DEFAULT_CS, reverse=True))
    tried = [candidate.parameters["C"] for candidate in chosen.candidates]
    means = {candidate.parameters["C"]: candidate.mean for candidate in every.candidates}
    assert tried == sorted(means)[: len(tried)]
    assert [candidate.mean for candidate in chosen.candidates] == pytest.approx([means[C] for C in tried], abs=0.02)
    best = chosen.best.parameters["C"]
    assert len(tried) == len(means) or tried.index(best) == len(tried) - 3
