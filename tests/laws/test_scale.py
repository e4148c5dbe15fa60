"""The scale of features does not matter to what is learned, and numbers that cannot be computed with are refused."""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import marginrank.preparation.scaling
from marginrank import Additive, DataError, Queries, Ranker, tune
from marginrank.errors import NothingRankedWarning, NumericalError
from marginrank.losses import PairwiseHinge, SquaredError, StructuredLoss
from marginrank.preparation import Standardize
from marginrank.runtime.option_objects import registered
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Solver
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.concave_convex import ConcaveConvex
from marginrank.solvers.newton import Newton
from marginrank.solvers.problem import Problem
from marginrank.training import CollapseWarning, Tight
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk

CONVEX = {name: kind for name, kind in registered(Solver).items() if kind is not ConcaveConvex}
#: Powers of 2, by which floating-point numbers are scaled exactly.
SCALES = [2.0**-7, 2.0**-20, 2.0**20]


def judged(n_queries=40, n=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n, 4))
    y = np.digitize(X @ [1.0, -0.5, 0.0, 0.0] + 0.7 * rng.standard_normal(len(X)), [0.5, 1.3])
    return X, y, np.repeat(np.arange(n_queries), n)


def collapsing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40 * 60, 3))
    y = np.tile([1.0] * 3 + [0.0] * 57, 40)
    X[y == 1, 0] += 0.5
    return X, y, np.repeat(np.arange(40), 60)


@pytest.mark.parametrize("preset", ["ranksvm", "ranksvm-squared", "svmmap", "regression", "softmax"])
@pytest.mark.parametrize("scale", [0.01, 1e-6, 1e-9, 1e6])
def test_small_and_large_features_are_learned_from_with_the_same_C(preset, scale):
    X, y, qid = judged()
    usual = Ranker(preset, scaling=None).fit(X, y, qid=qid)
    ranker = Ranker(preset, scaling=None).fit(scale * X, y, qid=qid)
    assert ranker.solution_.converged
    assert not ranker.health_.collapsed
    assert ranker.score(scale * X, y, qid=qid) > usual.score(X, y, qid=qid) - 0.03


@pytest.mark.parametrize("preset", ["ranksvm", "ranksvm-squared", "svmmap", "softmax"])
@pytest.mark.parametrize("scale", SCALES)
def test_features_times_s_and_C_over_s_squared_are_the_same_problem(preset, scale):
    X, y, qid = judged()
    one = Ranker(preset, C=3.0, scaling=None).fit(X, y, qid=qid)
    other = Ranker(preset, C=3.0 / scale**2, scaling=None).fit(scale * X, y, qid=qid)
    assert other.n_iter_ == one.n_iter_
    assert other.predict(scale * X) == pytest.approx(one.predict(X), rel=1e-6, abs=1e-9)
    assert other.gap_ * scale**2 == pytest.approx(one.gap_, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_every_solver_achieves_nearly_all_of_the_possible_decrease(name, scale):
    X, y, qid = judged()
    loss = PairwiseHinge(power=2)
    risk = empirical_risk(Queries.from_arrays(scale * X, y, qid=qid), loss)
    optimum = Newton(tol=1e-12).minimize(risk, 1.0)
    at_zero = risk(np.zeros(4))[0]
    found = CONVEX[name](tol=1e-3).minimize(empirical_risk(risk.queries, loss), 1.0)
    assert found.converged
    assert found.dual <= optimum.primal + 1e-15
    assert at_zero - found.primal >= 0.998 * (at_zero - optimum.primal)
    angle = found.theta @ optimum.theta / np.linalg.norm(found.theta) / np.linalg.norm(optimum.theta)
    assert angle > 0.99


def test_a_warm_start_is_measured_by_the_decrease_from_0_as_well():
    """From a start that is nearly the center, the gap alone would be small enough at once."""
    X, y, qid = judged()
    risk = empirical_risk(Queries.from_arrays(1e-4 * X, y, qid=qid), PairwiseHinge())
    start = np.full(4, 1e-12)
    found = Bundle(tol=1e-4).minimize(risk, 1.0, start)
    assert np.linalg.norm(found.theta) > 1e-5
    again = Bundle(tol=1e-4).minimize(risk, 1.0, found.theta)
    np.testing.assert_allclose(again.theta, found.theta, rtol=0.05)


def test_a_solver_counts_the_evaluation_at_the_center():
    calls = []

    class Distance(Problem):
        n_parameters = 1

        def __call__(self, theta):
            calls.append(theta.copy())
            return abs(float(theta[0]) - 3.0), np.sign(theta - 3.0)

    found = Bundle(tol=1e-9).minimize(Distance(), 1.0, np.array([1.0]))
    assert found.passes == len(calls)
    assert [0.0] in [call.tolist() for call in calls]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("C", [1e-6, 10.0])
def test_a_collapse_is_found_at_every_scale(scale, C):
    X, y, qid = collapsing()
    with pytest.warns(CollapseWarning, match=r"or nearly so, for C up to [0-9.e+-]+: the weights are near 0"):
        ranker = Ranker(StructuredLoss("ndcg@5"), bound="hinge", C=C, scaling=None).fit(scale * X, y, qid=qid)
    assert ranker.health_.collapsed


def test_a_collapse_is_tried_for_the_same_problem_at_every_scale():
    """The C that is tried is inversely proportional to the square of the scale, as the problem is then the same."""
    X, y, qid = collapsing()
    tried = []
    for scale in (1.0, 1e3):
        with pytest.warns(CollapseWarning) as warned:
            Ranker(StructuredLoss("ndcg@5"), bound="hinge", C=1e-9, scaling=None).fit(scale * X, y, qid=qid)
        tried += [float(re.search(r"for C up to ([0-9.e+-]+):", str(warned[0].message))[1]) * scale**2]
    assert tried[1] == pytest.approx(tried[0], rel=0.01)


def test_a_collapse_is_not_claimed_by_a_trial_that_ran_out_of_time():
    X, y, qid = judged()
    slow = Ranker("svmmap", C=1e-9, time_limit=1e-9).fit(X, y, qid=qid)
    assert not slow.health_.collapsed
    assert slow.model_.method.bound == "hinge"


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("svmmap", {}),
        ("svmmap", {"scorer": Additive(bins=4)}),
        ("ranksvm-squared", {}),
        ("best-feature", {}),
        ("prank", {}),
        ("mcrank", {}),
        ("svmacc", {}),
        ("gp-regression", {}),
        ("ndcg@3", {"bound": Tight()}),
    ],
)
def test_what_ranks_nothing_is_said(method, options):
    _, y, qid = judged(12)
    X = np.repeat(np.arange(12.0), 8)[:, None] * np.ones(3)
    words = "same score, on all 12 training queries, and ranks nothing; the features of the documents of each query are"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.warns(NothingRankedWarning, match=words):
            Ranker(method, **options).fit(X, y, qid=qid)


@pytest.mark.filterwarnings("ignore::marginrank.training.CollapseWarning")
def test_a_path_and_a_search_say_so_too():
    X, y, qid = judged(12)
    with pytest.warns(NothingRankedWarning, match=r"with C = 1, 2 the model gives all documents"):
        Ranker("ranksvm-squared").fit_path(0 * X, y, qid=qid, Cs=[1.0, 2.0])
    with pytest.warns(NothingRankedWarning, match=r"^the model gives all documents"):
        tune(Ranker("ranksvm-squared"), 0 * X, y, qid=qid, folds=2, Cs=[1.0])
    with pytest.warns(NothingRankedWarning, match=r"training was stopped \(max_iter\)"):
        Ranker("ranksvm-squared", solver=Newton(max_iter=1)).fit(X, y, qid=qid)


def test_one_query_that_is_ranked_is_enough():
    X, y, qid = judged(200)
    X[: 199 * 8] = 0.0
    Ranker("ranksvm-squared", C=100.0).fit(X, y, qid=qid)


BAD_CS = [0, -1, 0.0, np.nan, np.inf, -np.inf, 10**400, -(10**400), 1e200, 1e-200, "1", None, True, 1j, [1.0]]


@pytest.mark.parametrize("C", BAD_CS, ids=lambda C: str(C)[:12])
def test_a_C_that_is_none_is_refused_wherever_it_enters(C):
    X, y, qid = judged(4)
    risk = empirical_risk(Queries.from_arrays(X, y, qid=qid), PairwiseHinge(power=2))
    for attempt in (
        lambda: Ranker("svmmap", C=C).fit(X, y, qid=qid),
        lambda: Ranker("svmacc", C=C).fit(X, y, qid=qid),
        lambda: Ranker("svmmap").fit_path(X, y, qid=qid, Cs=[1.0, C]),
        lambda: tune(Ranker("svmmap"), X, y, qid=qid, folds=2, Cs=[C]),
        lambda: Tight(start_C=C),
        lambda: Newton().minimize(risk, C),
        lambda: Bundle().path(risk, [C]),
    ):
        with pytest.raises((ValueError, TypeError), match=r"C is .*; it must (be a positive number|lie between)"):
            attempt()


@pytest.mark.parametrize("C", [1, 2.5, np.float32(3.0), np.int64(4)])
def test_a_C_may_be_any_kind_of_number(C):
    X, y, qid = judged(4)
    assert float(C) == Ranker("svmmap", C=C).fit(X, y, qid=qid).solution_.C


@pytest.mark.parametrize("time_limit", [0, -1.0, np.nan, "1", True])
def test_a_time_limit_that_is_none_is_refused(time_limit):
    X, y, qid = judged(4)
    for method in ("svmmap", "prank"):
        with pytest.raises((ValueError, TypeError), match="time_limit is "):
            Ranker(method, time_limit=time_limit).fit(X, y, qid=qid)


def test_features_that_cannot_be_squared_are_refused_with_their_column():
    X, y, qid = judged(4)
    X[9, 2] = -1e200
    names = ["a", "b", "c", "d"]
    queries = Queries.from_arrays(X, y, qid=qid, feature_names=names)
    words = r"feature 'c' has the value -1e\+200, and without scaling the largest is 1e\+60; use scaling='standard'"
    for method in ("svmmap", "prank", "svmacc"):
        with pytest.raises(DataError, match=words):
            Ranker(method, scaling=None).fit(queries)
        assert np.isfinite(Ranker(method).fit(queries).predict(queries)).all()
    sparse = Queries.from_arrays(sp.csr_array(X), y, qid=qid)
    with pytest.raises(DataError, match="feature 2 has the value -1e"):
        Ranker("svmmap", scaling=None).fit(sparse)
    # Nothing is squared where only the order of values counts.
    for options in ({"scorer": "additive"}, {"method": "rankboost"}):
        assert np.isfinite(Ranker(scaling=None, **options).fit(queries).predict(queries)).all()


def test_features_of_usual_spread_are_not_read_again_for_their_size(monkeypatch):
    X, y, qid = judged(4)
    X = Standardize().fit_transform(X)
    constant = np.column_stack([X, np.full(len(X), 1e70)])
    with pytest.raises(DataError, match=r"feature 4 has the value 1e\+70, and without scaling the largest is 1e\+60"):
        Ranker("svmmap").fit(constant, y, qid=qid)
    monkeypatch.setattr(marginrank.preparation.scaling, "blocks", None)
    assert Ranker("svmmap").fit(X, y, qid=qid).model_.scaling is None


def test_scores_that_overflow_are_no_scores():
    X, y, qid = judged(4)
    ranker = Ranker("prank", scaling=None).fit(X, y, qid=qid)
    with pytest.raises(DataError, match=r"document 1 has score -?inf; its features are too large"):
        ranker.predict(np.where(np.arange(len(X))[:, None] == 1, 1.7e308 * np.sign(ranker.coef_), X))


def test_an_objective_that_overflows_is_bad_data_and_bad_arithmetic():
    X, y, qid = judged(4)
    for method in ("regression", "gp-regression", "dorm-eru"):
        with pytest.raises(NumericalError, match="rescale the features, or") as caught:
            Ranker(method).fit(X, 1e300 * y, qid=qid)
        assert isinstance(caught.value, FloatingPointError)
    risk = empirical_risk(Queries.from_arrays(X, 1e300 * y, qid=qid), SquaredError())
    with pytest.raises(FloatingPointError):
        Bundle().minimize(risk, 1.0)


def test_trees_of_one_feature():
    X, y, qid = judged(12)
    for factor in (1.0, 2.0**200):
        one = Ranker("mcrank").fit(factor * X[:, :1], y, qid=qid)
        assert one.predict(factor * X[:, :1]) == pytest.approx(
            Ranker("mcrank").fit(X[:, :1], y, qid=qid).predict(X[:, :1])
        )


class Lost(Problem):
    """Slopes that point the wrong way, as rounding errors do where nothing is left to gain: no step leads down."""

    n_parameters, capabilities = 2, frozenset({"hessian"})

    def __call__(self, theta):
        return 1.0 + float(np.abs(theta).sum()), np.full(2, -1.0) + 2.0 * np.sign(theta)

    def hessian_product(self, theta, direction):  # noqa: ARG002
        return np.zeros_like(direction)


def test_a_line_search_that_leads_nowhere_ends():
    found = Newton(max_iter=10**6).minimize(Lost(), 1e3)
    assert found.reason == "stationary"
    assert not found.converged


class Slow:
    """A clock that moves on by a second each time a block or a whole risk is evaluated."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("svmmap", {}),
        ("svmmap", {"bound": Tight()}),
        ("chapelle-ndcg", {}),
        ("ndcg@5", {}),
        ("svmmap", {"solver": "frank-wolfe"}),
        ("svmmap", {"solver": "n-slack"}),
        ("svmmap", {"solver": "subgradient"}),
        ("ranksvm-squared", {}),
    ],
)
def test_all_that_training_does_shares_one_time_limit(method, options, monkeypatch):
    """Each evaluation takes a second on this clock, of ten that there are: no more than a few come after them."""
    clock, n_evaluations = Slow(monkeypatch), 0
    evaluate = RankingRisk._evaluate

    def slowly(self, theta):
        nonlocal n_evaluations
        clock.now += 1.0
        n_evaluations += 1
        return evaluate(self, theta)

    monkeypatch.setattr(RankingRisk, "_evaluate", slowly)
    X, y, qid = collapsing()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Ranker(method, C=1e4, time_limit=10.0, n_jobs=1, **options).fit(X, y, qid=qid)
    assert n_evaluations <= 20


def test_max_iter_holds_for_the_start_of_the_tight_bound(monkeypatch):
    limits = []
    minimize = Auto.minimize

    def noted(self, problem, C, start=None):
        limits.append(self.max_iter)
        return minimize(self, problem, C, start)

    monkeypatch.setattr(Auto, "minimize", noted)
    X, y, qid = judged(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Ranker("ndcg@3", bound="tight", solver=Auto(max_iter=3)).fit(X, y, qid=qid)
    assert limits == [3]


@pytest.mark.parametrize(
    "method", ["mcrank", "lambdarank", "rankboost", "prank", "gp-regression", "svmacc", "best-feature"]
)
@pytest.mark.filterwarnings("ignore::marginrank.errors.NothingRankedWarning")
def test_baselines_end_soon_after_their_time_limit(method):
    pytest.importorskip("lightgbm" if method == "lambdarank" else "numpy")
    X, y, qid = judged(60)
    short = Ranker(method, time_limit=1e-6).fit(X, y, qid=qid)
    assert short.solution_.reason == "time_limit"
    assert short.n_iter_ == 1
    path = Ranker(method, time_limit=1e-6).fit_path(X, y, qid=qid, Cs=[1.0, 2.0])
    assert [ranker.n_iter_ for ranker in path] == [1, 1]


def test_a_gaussian_process_keeps_to_its_sample_where_there_is_no_time(monkeypatch):
    from marginrank.methods.baselines.gaussian_process import GaussianProcess

    X, y, qid = judged(60)
    hurried = Ranker(GaussianProcess(sample=100), time_limit=1e-6).fit(X, y, qid=qid)
    assert len(hurried.coef_) == 100
    assert len(Ranker(GaussianProcess(sample=100)).fit(X, y, qid=qid).coef_) == 480


def test_the_time_limit_of_a_search_holds_for_baselines():
    X, y, qid = judged(40)
    began = time.perf_counter()
    selection = tune(Ranker("mcrank@100000"), X, y, qid=qid, folds=2, time_limit=0.3)
    assert not selection.complete
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("scorer", ["linear(missing=mean)", "additive", "additive(shape=steps)", "kernel", "neural"])
def test_features_that_are_constant_rank_nothing(scorer):
    if scorer == "neural":
        pytest.importorskip("torch")
    grades, qid = np.tile([0, 1, 2], 20), np.repeat(np.arange(20), 3)
    with pytest.warns(NothingRankedWarning):
        ranker = Ranker("ndcg@10", scorer=scorer, time_limit=10.0).fit(np.ones((60, 3)), grades, qid=qid)
    assert np.ptp(ranker.predict(np.ones((60, 3)))) == 0.0
    with pytest.raises(DataError, match="single document"):
        Ranker("ndcg@10", scorer=scorer).fit(np.ones((60, 3)), grades, qid=np.arange(60))
