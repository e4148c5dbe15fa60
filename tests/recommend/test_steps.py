"""Each half step against a generic convex solver, another solver of ours, and its own certificate."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from marginrank import Queries
from marginrank.losses import (
    PairwiseHinge,
    SoftmaxCrossEntropy,
    SquaredDifferences,
    SquaredError,
    StructuredLoss,
    SumLoss,
)
from marginrank.recommend import Factorization, Factors, ItemRisk, Ratings, UserProblem
from marginrank.recommend.factorization import user_weights
from marginrank.solvers.auto import Auto
from marginrank.solvers.bundle import Bundle
from marginrank.training.partitioned_risk import empirical_risk

SMOOTH = [
    SquaredDifferences(),
    SquaredDifferences("exp2", unit=2.0),
    SquaredError(intercept=False),
    SoftmaxCrossEntropy(target="share"),
    PairwiseHinge(power=2),
]
KINKED = [PairwiseHinge(), StructuredLoss("ndcg@3"), StructuredLoss("ap"), StructuredLoss("rr", "mrr")]
MIXED = SumLoss((SquaredDifferences(), StructuredLoss("auc")), (1.0, 0.5))


def toy(seed=0, n_users=6, n_items=7, share=0.7):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((n_users, n_items)) < share)
    return Ratings.of((pairs[:, 0], pairs[:, 1], rng.integers(0, 4, len(pairs)), (pairs[:, 0] % 3) + 1.0))


def slack(loss, grades, s):
    """ξ of one user as a convex expression of cvxpy, from the definitions of the losses."""
    n = len(grades)
    if len(set(grades.tolist())) == 1 and not isinstance(loss, SquaredError):
        return 0.0
    if isinstance(loss, SquaredError):
        return cp.sum_squares(s - grades) / (2 * n)
    if isinstance(loss, SquaredDifferences):
        gains = (2.0**grades - 1 if loss.gain == "exp2" else grades) / loss.unit
        errors = s - gains
        return sum(cp.square(errors[i] - errors[j]) for i in range(n) for j in range(n)) / (4 * n * n)
    if isinstance(loss, SoftmaxCrossEntropy):
        return cp.log_sum_exp(s) - (grades / grades.sum()) @ s
    pairs = [(i, j) for i in range(n) for j in range(n) if grades[i] > grades[j]]
    hinges = [cp.pos(1 - (s[i] - s[j])) for i, j in pairs]
    return sum(hinge**loss.power for hinge in hinges) / len(pairs)


def minimum(objective):
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def user_problem(ratings, loss, seed=1, width=3):
    rng = np.random.default_rng(seed)
    prepared = loss.prepare(ratings.values, ratings.offsets)
    features, base = rng.standard_normal((len(ratings.items), width)), 0.3 * rng.standard_normal(ratings.n_ratings)
    return UserProblem(ratings, prepared, user_weights(0.4, ratings, prepared.active), features, base, n_jobs=1)


@pytest.mark.parametrize("loss", [*SMOOTH, PairwiseHinge()], ids=str)
def test_every_user_reaches_the_minimum_that_a_generic_solver_finds(loss):
    ratings = toy()
    problem = user_problem(ratings, loss)
    solution = problem.solve(tol=1e-10, max_iter=1000)
    weights = 0.4 * ratings.weights / ratings.weights.mean() * np.diff(ratings.offsets)
    for user in range(len(ratings.users)):
        rows = slice(ratings.offsets[user], ratings.offsets[user + 1])
        u = cp.Variable(3)
        scores = problem.features[ratings.item[rows]] @ u + problem.base[rows]
        xi = slack(loss, ratings.values[rows], scores)
        assert solution.objectives[user] == pytest.approx(minimum(cp.sum_squares(u) / 2 + weights[user] * xi), abs=1e-6)
        assert solution.gaps[user] <= 1e-9 * max(1.0, solution.objectives[user])


@pytest.mark.parametrize("loss", [*KINKED, *SMOOTH, MIXED], ids=str)
def test_every_user_reaches_the_minimum_of_our_bundle_method(loss):
    ratings = toy(2)
    problem = user_problem(ratings, loss)
    problem.base[:] = 0.0
    solution = problem.solve(tol=1e-9, max_iter=2000)
    for user in np.flatnonzero(problem.loss.active):
        rows = slice(ratings.offsets[user], ratings.offsets[user + 1])
        X = problem.features[ratings.item[rows]]
        alone = empirical_risk(Queries.from_arrays(X, ratings.values[rows], group=[len(X)]), loss)
        best = Bundle(tol=1e-10).minimize(alone, problem.weights[user])
        assert solution.objectives[user] == pytest.approx(best.primal, abs=1e-6)
        assert solution.bounds[user] <= best.primal + 1e-9
        np.testing.assert_allclose(solution.factors[user], best.theta, atol=1e-3)


@pytest.mark.parametrize("loss", [*SMOOTH, PairwiseHinge()], ids=str)
def test_items_reach_the_minimum_that_a_generic_solver_finds(loss):
    ratings, rng = toy(3), np.random.default_rng(4)
    prepared = loss.prepare(ratings.values, ratings.offsets)
    users, features = rng.standard_normal((len(ratings.users), 2)), rng.standard_normal((len(ratings.items), 1))
    base = 0.3 * rng.standard_normal(ratings.n_ratings)
    weights = user_weights(0.4, ratings, prepared.active)
    solution = Auto(tol=1e-9).minimize(ItemRisk(ratings, prepared, weights, users, features, base), 1.0)
    items, shared = cp.Variable((len(ratings.items), 2)), cp.Variable(1)
    objective = cp.sum_squares(items) / 2 + cp.sum_squares(shared) / 2
    for user in range(len(ratings.users)):
        rows = slice(ratings.offsets[user], ratings.offsets[user + 1])
        chosen = ratings.item[rows]
        scores = items[chosen] @ users[user] + features[chosen] @ shared + base[rows]
        if prepared.active[user]:
            weight = 0.4 * ratings.weights[user] / ratings.weights.mean() * len(chosen)
            objective += weight * slack(loss, ratings.values[rows], scores)
    assert solution.primal == pytest.approx(minimum(objective), abs=1e-6)
    assert solution.converged


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED[:2], MIXED], ids=str)
def test_the_risk_of_items_is_the_slope_that_it_says(loss):
    ratings, rng = toy(5), np.random.default_rng(6)
    prepared = loss.prepare(ratings.values, ratings.offsets)
    users, features = rng.standard_normal((len(ratings.users), 2)), rng.standard_normal((len(ratings.items), 2))
    weights = user_weights(1.0, ratings, prepared.active)
    risk = ItemRisk(ratings, prepared, weights, users, features, np.zeros(ratings.n_ratings))
    theta, direction = rng.standard_normal((2, risk.n_parameters))
    step = 1e-6
    rise = risk(theta + step * direction)[0] - risk(theta - step * direction)[0]
    _, slope = risk(theta)
    assert rise / (2 * step) == pytest.approx(slope @ direction, abs=1e-5)
    if loss.smooth:
        ahead, behind = risk(theta + step * direction)[1], risk(theta - step * direction)[1]
        product = risk.hessian_product(theta, direction)
        np.testing.assert_allclose(product, (ahead - behind) / (2 * step), atol=1e-5)


def item_risk(loss, n_features, n_users=40, seed=11):
    ratings, rng = toy(seed, n_users, n_items=6), np.random.default_rng(seed)
    prepared = loss.prepare(ratings.values, ratings.offsets)
    users, features = rng.standard_normal((len(ratings.users), 3)), rng.standard_normal((6, n_features))
    weights = user_weights(2.0, ratings, prepared.active)
    return ItemRisk(ratings, prepared, weights, users, features, np.zeros(ratings.n_ratings), n_jobs=1)


@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_the_preconditioner_is_the_inverse_of_the_block_of_each_item(loss):
    risk = item_risk(loss, n_features=0)
    theta = np.random.default_rng(12).standard_normal(risk.n_parameters)
    hessian = np.array([risk.hessian_product(theta, unit) for unit in np.eye(len(theta))])
    solve = risk.preconditioner(theta, 0.7)
    for item in range(6):
        block = slice(3 * item, 3 * item + 3)
        inverse = np.linalg.inv(np.eye(3) + 0.7 * hessian[block, block])
        np.testing.assert_allclose([solve(unit)[block] for unit in np.eye(len(theta))[block]], inverse, atol=1e-12)


def test_the_diagonal_alone_serves_items_with_few_ratings_and_shared_weights():
    risk = item_risk(SquaredError(), n_features=2, n_users=3)
    vector = np.random.default_rng(13).standard_normal(risk.n_parameters)
    curves = [risk.hessian_product(np.zeros_like(vector), unit) @ unit for unit in np.eye(len(vector))]
    solved = risk.preconditioner(np.zeros_like(vector), 0.7)(vector)
    np.testing.assert_allclose(solved, vector / (1 + 0.7 * np.array(curves)))


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED, MIXED], ids=str)
def test_the_objective_never_rises_and_is_what_the_factors_say(loss):
    ratings = toy(7, n_users=10, n_items=8)
    rng = np.random.default_rng(8)
    columns = np.hstack([np.ones((10, 1)), rng.standard_normal((10, 1))])
    start = Factors.zero(columns, rng.standard_normal((8, 1)), 3)
    task = Factorization(ratings, loss, 5.0, Auto(tol=1e-4), max_iter=4, tol=0.0, n_jobs=1)
    factors, trace, _ = task.run(start)
    objectives = np.array([step.objective for step in trace])
    assert np.all(np.diff(objectives) <= 0.0)
    assert objectives[-1] < 0.95 * objectives[0]
    scores = (factors.user_rows[ratings.user] * factors.item_rows[ratings.item]).sum(axis=1)
    prepared = loss.prepare(ratings.values, ratings.offsets)
    xi, _ = prepared(scores)
    squares = sum((part**2).sum() for part in (factors.users, factors.items, factors.shared))
    assert objectives[-1] == pytest.approx(squares / 2 + user_weights(5.0, ratings, prepared.active) @ xi)


def test_factors_start_only_where_a_product_of_them_can_gain():
    ratings = toy(9, n_users=12, n_items=8)
    start = Factors.zero(np.ones((12, 1)), np.zeros((8, 0)), 3)
    weak, _, _ = Factorization(ratings, SquaredDifferences(), 1e-3, Auto(), n_jobs=1).run(start)
    strong, trace, _ = Factorization(ratings, SquaredDifferences(), 100.0, Auto(), n_jobs=1).run(start)
    assert not weak.users.any()
    assert np.abs(strong.users).max() > 0.1
    assert trace[1].objective > trace[2].objective


def test_callbacks_and_interrupts_end_with_the_factors_reached():
    ratings = toy(10, n_users=12, n_items=8)
    start = Factors.zero(np.ones((12, 1)), np.zeros((8, 0)), 3)
    calls = []

    def stop(step):
        calls.append(step)
        return len(calls) == 4

    def interrupt(step):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(step)

    task = {"loss": SquaredDifferences(), "C": 50.0, "solver": Auto(), "n_jobs": 1, "tol": 0.0}
    _, stopped, reason = Factorization(ratings, **task, callback=stop).run(start)
    assert (list(stopped[1:]), reason) == (calls, "callback")
    assert [step.side for step in stopped] == ["start", "items", "start", "users", "items"]
    calls.clear()
    factors, interrupted, reason = Factorization(ratings, **task, callback=interrupt).run(start)
    assert (len(interrupted), reason) == (6, "interrupted")
    assert interrupted[4].objective == stopped[4].objective
    assert np.abs(factors.users).max() > 0
