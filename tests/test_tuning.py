"""Choosing C and other parameters on queries that were held out."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from marginrank import DataError, Queries, Ranker, evaluate, tune
from marginrank.tuning import DEFAULT_CS


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


def test_folds_hold_every_query_out_once_and_train_on_all_at_the_end():
    chosen = tune(Ranker("svmauc"), TRAIN, folds=4, Cs=[0.1, 10.0])
    again = Ranker("svmauc", C=chosen.ranker.C).fit(TRAIN)
    assert np.array_equal(chosen.ranker.coef_, again.coef_)
    one, two = (tune(Ranker("svmauc"), TRAIN, folds=4, Cs=[0.1, 10.0], n_jobs=n) for n in (1, 2))
    assert [c.mean for c in one.candidates] == [c.mean for c in two.candidates]
    assert one.ranker.n_jobs is None
    other = tune(Ranker("svmauc"), TRAIN, folds=4, Cs=[0.1, 10.0], random_state=1)
    assert [c.mean for c in other.candidates] != [c.mean for c in one.candidates]


def test_profiles_and_scorers_are_chosen_like_C():
    maps = ["dorm", "dorm(shape=log)", "dorm(shape=linear)"]
    chosen = tune(
        Ranker(measure="ndcg", bound="hinge", tol=1e-3), TRAIN, valid=VALID, Cs=[1.0, 10.0], grid={"feature_map": maps}
    )
    assert [one.parameters["feature_map"] for one in chosen.candidates] == [m for m in maps for _ in range(2)]
    assert chosen.ranker.feature_map == chosen.best.parameters["feature_map"]
    assert "dorm(shape=log)" in str(chosen)
    bins = tune(Ranker("svmauc", scorer="additive", tol=1e-3), TRAIN, folds=2, Cs=[1.0], grid={"bins": [2, 8]})
    assert bins.ranker.bins in (2, 8)


def test_table_and_picture(tmp_path):
    chosen = tune(Ranker("svmmap"), TRAIN, valid=VALID, Cs=[0.1, 1.0], grid={"nonnegative": [False, True]})
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
    with pytest.raises(ValueError, match="Invalid parameter 'profile'"):
        tune(Ranker(), TRAIN, valid=VALID, grid={"profile": [1]})
    empty = Queries.from_arrays(VALID.X, np.zeros(VALID.n_documents), qid=np.repeat(np.arange(60), 10))
    with pytest.raises(DataError, match="no query that was held out has a relevant document"):
        tune(Ranker(), TRAIN, valid=empty)


def test_threads_of_linear_algebra_are_as_before():
    before = [pool["num_threads"] for pool in threadpool_info()]
    for _ in range(3):
        tune(Ranker("svmmap"), TRAIN, folds=4, Cs=[0.1, 1.0], n_jobs=2)
    assert [pool["num_threads"] for pool in threadpool_info()] == before
