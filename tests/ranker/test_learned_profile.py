"""Learning the profile of φdorm: the risk against all rankings, its minimum against a linear program."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from marginrank import DataError, Queries, Ranker, load, parse_measure
from marginrank.losses import Positional, StructuredLoss
from marginrank.ranker import learn_profile
from marginrank.ranker.learned_profile import ProfileRisk, lower, project
from tests.losses.exhaustive import delta, exhaustive

#: Distinct grades, so that there is one ideal ranking; the last query has no order.
GRADES = [[3, 0, 2, 1], [0, 1, 3, 2, 4], [1, 2, 0], [1, 1]]
WEIGHTS = [1.0, 2.0, 0.5, 4.0]
BOUNDS = ("hinge", "tight")


def small(seed=0):
    rng = np.random.default_rng(seed)
    grades = np.concatenate(GRADES)
    X = rng.standard_normal((len(grades), 2))
    queries = Queries.from_arrays(X, grades, group=[len(own) for own in GRADES], query_weights=WEIGHTS)
    return queries, rng.standard_normal(len(grades))


def random_profile(rng, n=5):
    return np.sort(rng.exponential(size=n))[::-1]


def judged(n_queries=40, n=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n, 4))
    hidden = X @ [1.0, -0.5, 0.3, 0.0] + 0.8 * rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [0.3, 1.3]), qid=np.repeat(np.arange(n_queries), n))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("measure", ["ndcg", "ndcg@2"])
def test_the_risk_is_that_of_all_rankings_and_convex_in_the_profile(bound, measure):
    rng = np.random.default_rng(1)
    for seed in range(5):
        queries, scores = small(seed)
        risk = ProfileRisk(StructuredLoss(measure, "dorm", bound), queries, scores)
        first, second = random_profile(rng), random_profile(rng)
        value, slope = risk(first)
        of_query = [
            exhaustive(parse_measure(measure), Positional((*first, 0.0)), grades, own)[bound == "tight"]
            for grades, own in zip(GRADES[:3], np.split(scores, queries.offsets[1:-1])[:3], strict=True)
        ]
        assert value == pytest.approx(np.average(of_query, weights=WEIGHTS[:3]))
        other = risk(second)[0]
        assert other >= value + slope @ (second - first) - 1e-12
        assert risk((first + second) / 2)[0] <= (value + other) / 2 + 1e-12
        # A constant added to the profile changes nothing.
        assert slope.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_steps_come_near_the_optimum_of_the_convex_program(bound):
    measure, (queries, scores), radius = parse_measure("ndcg"), small(3), 1.5
    A = cp.Variable(5)
    risk = 0.0
    for grades, own, weight in zip(GRADES[:3], np.split(scores, queries.offsets[1:-1])[:3], WEIGHTS[:3], strict=True):
        n = len(grades)
        reference = np.argsort(-own if bound == "tight" else -np.array(grades))
        slack = cp.max(
            cp.hstack([delta(measure, grades, order) + A[:n] @ own[list(order)] for order in permutations(range(n))])
        )
        risk = risk + weight / 3.5 * (slack - A[:n] @ own[reference])
    program = cp.Problem(cp.Minimize(risk), [A[:-1] >= A[1:], A[4] >= 0, cp.norm(A) <= radius])
    program.solve(solver=cp.CLARABEL)
    function = ProfileRisk(StructuredLoss("ndcg", "dorm", bound), queries, scores)
    start = project(np.array([1.0, 0.0, 0.0, 0.0, 0.0]), radius)
    best = lower(function, start, radius, steps=400)
    assert (np.diff(best) <= 0).all()
    assert best[-1] >= 0
    assert np.linalg.norm(best) <= radius * (1 + 1e-12)
    assert program.value - 1e-6 <= function(best)[0] <= program.value + 0.01 * abs(program.value) + 1e-6
    assert function(best)[0] < function(start)[0]


def test_a_projection_is_the_nearest():
    rng = np.random.default_rng(0)
    for _ in range(10):
        given, radius = 2.0 * rng.standard_normal(6), 1.5
        A = cp.Variable(6)
        constraints = [A[:-1] >= A[1:], A >= 0, cp.norm(A) <= radius]
        cp.Problem(cp.Minimize(cp.sum_squares(A - given)), constraints).solve(solver=cp.CLARABEL)
        assert project(given, radius) == pytest.approx(A.value, abs=1e-4)


@pytest.mark.parametrize("bound", BOUNDS)
def test_weights_and_profile_in_turn_never_raise_the_objective(tmp_path, bound):
    queries = judged()
    ranker = Ranker(loss=StructuredLoss("ndcg@3", "dorm(shape=truncated)"), bound=bound, C=10.0)
    learned = learn_profile(ranker, queries)
    assert len(learned.objectives) > 1
    assert all(after <= before * (1 + 1e-3) for before, after in pairwise(learned.objectives))
    assert learned.objectives[-1] < learned.objectives[0]
    assert (np.diff(learned.profile) <= 0).all()
    assert np.linalg.norm(learned.profile) <= np.linalg.norm([3.0, 2.0, 1.0]) * (1 + 1e-12)
    assert learned.ranker.objective_ == learned.objectives[-1]
    assert not hasattr(ranker, "model_")
    learned.ranker.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert loaded.loss.feature_map.shape == tuple(learned.profile)
    assert np.array_equal(loaded.predict(queries), learned.ranker.predict(queries))


def test_a_fitted_ranker_is_the_first_round():
    queries = judged()
    ranker = Ranker("dorm-ndcg@3", bound="tight", C=10.0).fit(queries)
    assert learn_profile(ranker, queries, rounds=1).ranker is ranker
    learned = learn_profile(ranker, queries, rounds=2)
    assert learned.objectives[0] == ranker.objective_
    assert learned.objectives[1] < ranker.objective_


def test_with_validation_queries_the_best_round_on_them_is_kept():
    queries, valid = judged(), judged(seed=1)
    learned = learn_profile(Ranker("dorm-ndcg@3", bound="tight", C=10.0), queries, valid=valid, rounds=4)
    assert len(learned.validation) == len(learned.objectives) > 1
    assert learned.ranker.score(valid) == max(learned.validation)


def test_arrays_frames_and_queries_in_any_order_of_rows_have_one_profile():
    queries, valid = judged(20), judged(20, seed=1)
    order = np.random.default_rng(2).permutation(queries.n_documents)
    X, y, qid = queries.X[order], queries.grades[order], np.repeat(queries.query_ids, queries.lengths)[order]
    of_valid = valid.X, valid.grades, np.repeat(valid.query_ids, valid.lengths)
    ranker = Ranker("dorm-ndcg@3", C=10.0)
    learned = learn_profile(ranker, queries, valid=valid, rounds=2, steps=10)
    other = learn_profile(ranker, X, y, qid=qid, valid=of_valid, rounds=2, steps=10)
    assert other.profile.tolist() == learned.profile.tolist()
    assert np.array_equal(other.ranker.coef_, learned.ranker.coef_)
    named = learn_profile(ranker, pd.DataFrame(X, columns=list("abcd")), y, qid=qid, rounds=1)
    assert named.ranker.feature_names_in_.tolist() == list("abcd")


def test_what_has_no_profile_is_refused():
    queries = judged(10)
    for method, said in [("svmmap", "StructuredLoss"), ("ranksvm", "PairwiseHinge"), ("rankboost", "a baseline")]:
        with pytest.raises(ValueError, match=rf"^only StructuredLoss\(..., 'dorm'\) has a profile.* {said}"):
            learn_profile(Ranker(method), queries)
    with pytest.raises(ValueError, match=r"^profiles are learned with a scorer that a solver trains, and neural is"):
        learn_profile(Ranker("dorm-ndcg@3", scorer="neural"), queries)
    grouped = replace(queries, document_groups=np.tile(np.arange(4), 20))
    with pytest.raises(ValueError, match="use groups='ignore'"):
        learn_profile(Ranker("dorm-ndcg@3"), grouped)
    alike = replace(queries, judgements=np.ones(queries.n_documents))
    with pytest.raises(DataError, match=r"^every validation query has a single grade"):
        learn_profile(Ranker("dorm-ndcg@3"), queries, valid=alike)
    fewer = Queries.from_arrays(queries.X[:, :2], queries.grades, group=queries.lengths)
    with pytest.raises(DataError, match=r"^the validation queries have 2 features and the training queries 4"):
        learn_profile(Ranker("dorm-ndcg@3"), queries, valid=fewer)
    with pytest.raises(ValueError, match="rounds is 0 and steps 50"):
        learn_profile(Ranker("dorm-ndcg@3"), queries, rounds=0)
