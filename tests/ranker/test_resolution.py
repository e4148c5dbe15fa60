"""A ranker's parameters are resolved once into a plan."""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from marginrank import Boosted, DataError, Neural, Ranker, tune
from marginrank.losses import StructuredLoss
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.ranker import resolution
from marginrank.ranker.resolution import resolve
from marginrank.scorers import Additive, Linear
from marginrank.solvers import Auto, Bundle
from marginrank.training import ConvexTrainer, StagedTrainer, Tight


def judged(n_queries=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6 * n_queries, 3))
    return X, np.digitize(X.sum(axis=1), [0.5, 1.5]), np.arange(6 * n_queries) // 6


def test_a_plan_has_objects_and_no_spellings():
    plan = resolve(Ranker("ndcg@10", scorer="additive(bins=8)", solver="bundle(tol=0.01)", bound="tight", C=3))
    assert (str(plan.loss), plan.bound) == ("StructuredLoss(measure=ndcg@10)", Tight())
    assert (plan.scorer, plan.solver, plan.C) == (Additive(bins=8), Bundle(tol=0.01), 3.0)
    assert isinstance(plan.trainer, ConvexTrainer)
    assert isinstance(resolve(Ranker(scorer="boosted")).trainer, StagedTrainer)
    assert resolve(Ranker("rankboost@7")).trainer == RankBoost(7)
    assert (str(plan.criterion), plan.criterion.policy.name) == ("ndcg@10", "standard")
    with pytest.raises(AttributeError):
        plan.C = 1.0


@pytest.mark.parametrize("scorer", [Boosted(trees=5), Neural(hidden=(4,), epochs=3)], ids=["boosted", "neural"])
def test_trees_start_from_the_regression_of_a_preset_and_networks_on_their_own(scorer):
    pytest.importorskip("lightgbm" if isinstance(scorer, Boosted) else "torch")
    X, y, qid = judged()
    ranker = Ranker("chapelle-ndcg", scorer=scorer).fit(X, y, qid=qid)
    assert ranker.model_.method.bound == "tight"
    assert ranker.health_.average_slack < ranker.health_.slack_at_zero
    if isinstance(scorer, Boosted):
        assert [part.kind for part in ranker.model_.form.parts] == ["linear", "trees"]
        gaps = np.where(X > 2.0, np.nan, X)
        assert Ranker("chapelle-ndcg", scorer=scorer).fit(gaps, y, qid=qid).model_.method.bound == "tight"
        scorer = replace(scorer, trees=1)
        (start, _), (alone, _) = (
            np.split(Ranker("chapelle-ndcg", scorer=scorer, scaling=None).fit(X, y, qid=qid).model_.theta, [3]),
            (Ranker("regression", C=100.0, scaling=None).fit(X, y, qid=qid).coef_, None),
        )
        np.testing.assert_allclose(start, alone, atol=0.02)
    else:
        with pytest.raises(ValueError, match="starts on its own; use bound='tight' without options"):
            ranker.set_params(bound=Tight(start="regression")).fit(X, y, qid=qid)


def test_each_parameter_is_parsed_once_in_a_fit(monkeypatch):
    parsed = Counter()
    for name in ("parse_method", "parse_scorer", "parse_solver", "parse_bound"):
        original = getattr(resolution, name)

        def counted(spec, *more, name=name, original=original):
            parsed[name] += 1
            return original(spec, *more)

        monkeypatch.setattr(resolution, name, counted)
    monkeypatch.setattr("marginrank.ranker.ranker.parse_scorer", None)
    monkeypatch.setattr("marginrank.ranker.ranker.parse_solver", None)
    X, y, qid = judged()
    ranker = Ranker("svmmap", scorer="linear", solver="bundle", bound="hinge")
    ranker.fit(X, y, qid=qid, validation=(X, y, qid))
    assert parsed == {"parse_method": 1, "parse_scorer": 1, "parse_solver": 1, "parse_bound": 1}
    parsed.clear()
    ranker.predict(X)
    assert not parsed


def test_a_loss_reads_its_spellings_once(monkeypatch):
    parsed = Counter()
    for module in ("marginrank.losses.feature_maps", "marginrank.measures.base"):
        original = importlib.import_module(module).parse_spelling

        def counted(family, spec, *more, original=original, **options):
            parsed[spec] += isinstance(spec, str)
            return original(family, spec, *more, **options)

        monkeypatch.setattr(f"{module}.parse_spelling", counted)
    X, y, qid = judged()
    loss = StructuredLoss("dcg@7", "dorm(shape=log)")
    ranker = Ranker(loss, bound="hinge")
    loss.prepare(y)
    ranker.fit(X, y, qid=qid)
    assert repr(loss) == "StructuredLoss(measure='dcg@7', feature_map='dorm(shape=log)')"
    assert parsed["dorm(shape=log)"] == 1
    assert parsed["dcg@7"] == 2  # by the loss, and by its criterion


def test_what_means_nothing_to_a_method_is_refused():
    with pytest.raises(ValueError, match="solver is for scorers that a solver trains, and boosted is not"):
        resolve(Ranker("ndcg", scorer="boosted", solver="bundle"))
    with pytest.raises(ValueError, match="rankboost has its own form; leave out scorer"):
        resolve(Ranker("rankboost", scorer="additive"))
    assert resolve(Ranker("rankboost", scorer=Linear(), solver=Auto())).trainer == RankBoost()


def test_independent_queries_that_are_numbered_alike_are_no_split(recwarn):
    X, y, qid = judged()
    fitted = Ranker("svmmap").fit(X, y, qid=qid)
    others, grades, _ = judged(seed=1)
    fitted.score(others, grades, qid=np.arange(len(others)) // 5)
    fitted.score(others, grades, qid=1 + np.arange(len(others)) // 5)
    assert not recwarn.list


def test_another_number_of_features_is_no_warm_start():
    X, y, qid = judged()
    ranker = Ranker("svmmap", warm_start=True).fit(X, y, qid=qid)
    with pytest.raises(DataError, match=r"X has 2 features, and the previous fit, .*, had 3; give the same columns"):
        ranker.fit(X[:, :2], y, qid=qid)
    curves = Ranker("svmmap", scorer=Additive(bins=4), warm_start=True).fit(X, y, qid=qid)
    with pytest.warns(UserWarning, match=r"^the previous fit has \d+ parameters and this one \d+, so training starts"):
        curves.set_params(scorer__bins=8).fit(X, y, qid=qid)


def test_a_grid_may_be_a_generator():
    X, y, qid = judged()
    chosen = tune(Ranker("svmmap"), X, y, qid=qid, folds=2, Cs=[1.0], grid={"weighting": (w for w in (None, "pairs"))})
    assert [candidate.parameters["weighting"] for candidate in chosen.candidates] == [None, "pairs"]
    with pytest.raises(ValueError, match="the grid has no value for weighting"):
        tune(Ranker("svmmap"), X, y, qid=qid, grid={"weighting": iter(())})
