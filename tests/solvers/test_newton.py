"""Truncated Newton against other solvers, closed forms, and its own certificate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marginrank import Queries
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, SquaredError, SumLoss
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.newton import Newton
from marginrank.solvers.problem import Problem
from marginrank.training.partitioned_risk import empirical_risk

WEIGHTS = {(2, 1): 3.0, (2, 0): 2.0, (1, 0): 1.0}
LOSSES = [
    PairwiseHinge(power=2),
    PairwiseHinge(power=2, normalize="none", margin=0.5, rank_weights=WEIGHTS),
    SoftmaxCrossEntropy(),
    SquaredError(),
    SumLoss((PairwiseHinge(power=2), SoftmaxCrossEntropy()), (2.0, 0.5)),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def small_queries(seed=0, d=4):
    rng = np.random.default_rng(seed)
    grades = np.concatenate([rng.permutation([1, 0, 0, 2, 1]) for _ in range(8)])
    qid = np.repeat(np.arange(8), 5)
    return Queries.from_arrays(rng.standard_normal((40, d)), grades, qid=qid, query_weights=rng.random(8) + 0.5)


class Far(Problem):
    """log cosh(θ − target): so flat far from the target that a Newton step from there goes much too far."""

    n_parameters = 2
    capabilities = frozenset({"hessian"})

    def __init__(self, target=20.0):
        self.target = target

    def __call__(self, theta):
        away = theta - self.target
        return float(np.logaddexp(away, -away).sum()), np.tanh(away)

    def hessian_product(self, theta, direction):
        return direction / np.cosh(theta - self.target) ** 2


class Counted(Problem):
    """A risk that counts what is asked of it, and is interrupted at a certain count."""

    def __init__(self, risk, interrupt_at=None):
        self.risk, self.interrupt_at = risk, interrupt_at
        self.n_parameters, self.capabilities = risk.n_parameters, risk.capabilities
        self.evaluations = self.products = 0

    def __call__(self, theta):
        self.evaluations += 1
        self._interrupt()
        return self.risk(theta)

    def hessian_product(self, theta, direction):
        self.products += 1
        self._interrupt()
        return self.risk.hessian_product(theta, direction)

    def _interrupt(self):
        if self.evaluations + self.products == self.interrupt_at:
            raise KeyboardInterrupt


@every_loss
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_the_optimum_is_that_of_the_bundle_solver(loss, C):
    risk = empirical_risk(small_queries(), loss)
    found, other = Newton(tol=1e-9).minimize(risk, C), Bundle(tol=1e-9).minimize(risk, C)
    assert found.converged
    assert found.primal == pytest.approx(other.primal, rel=1e-6)
    assert found.dual <= other.primal * (1 + 1e-12)
    value, _ = risk(found.theta)
    assert found.risk == value
    assert found.primal == pytest.approx(0.5 * found.theta @ found.theta + C * value, rel=1e-12)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_the_optimum_is_that_of_the_program_over_pairs(C):
    cp = pytest.importorskip("cvxpy")
    queries = small_queries(1)
    w, terms = cp.Variable(4), []
    weights = queries.query_weights / queries.query_weights.sum()
    for q, weight in enumerate(weights):
        X, grades = queries[q].X, queries[q].grades
        better, worse = np.nonzero(grades[:, None] > grades)
        terms.append(weight / len(better) * cp.sum_squares(cp.pos(1 - (X[better] - X[worse]) @ w)))
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * sum(terms)))
    program.solve(solver=cp.CLARABEL)
    found = Newton(tol=1e-9).minimize(empirical_risk(queries, PairwiseHinge(power=2)), C)
    assert found.primal == pytest.approx(program.value, rel=1e-6)
    np.testing.assert_allclose(found.theta, w.value, atol=1e-4)


def test_squared_error_is_ridge_regression():
    queries = small_queries(2)
    weight = np.repeat(queries.query_weights / queries.query_weights.sum() / 5, 5)
    X = queries.X
    for loss, center in ((SquaredError(), weight @ X), (SquaredError(intercept=False), 0.0)):
        Z = X - center
        exact = np.linalg.solve(np.eye(4) + 30.0 * Z.T @ (weight[:, None] * Z), 30.0 * Z.T @ (weight * queries.grades))
        found = Newton(tol=1e-12).minimize(empirical_risk(queries, loss), 30.0)
        np.testing.assert_allclose(found.theta, exact, rtol=1e-5)


@every_loss
@pytest.mark.parametrize("start", [None, np.full(4, 3.0)], ids=["from 0", "from elsewhere"])
def test_the_certificate_holds_at_every_step(loss, start):
    risk = empirical_risk(small_queries(3), loss)
    optimum = Newton(tol=1e-13).minimize(risk, 100.0).primal
    found = Newton(tol=1e-8).minimize(risk, 100.0, start=start)
    duals, primals = [step.dual for step in found.trace], [step.primal for step in found.trace]
    assert found.converged
    _, slope = risk(np.zeros(4) if start is None else start)
    gradient = 100.0 * slope + (0.0 if start is None else start)
    assert duals[0] == pytest.approx(primals[0] - 0.5 * gradient @ gradient)
    assert duals == sorted(duals)
    assert all(before > after for before, after in pairwise(primals))
    assert max(duals) <= optimum * (1 + 1e-12)
    assert min(primals) >= optimum * (1 - 1e-12)


@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
def test_steps_that_go_too_far_are_halved(C):
    risk = Counted(Far())
    found = Newton(tol=1e-10).minimize(risk, C)
    assert found.converged
    assert all(before.primal > after.primal for before, after in pairwise(found.trace))
    # θ + C·tanh(θ − 20) = 0
    np.testing.assert_allclose(found.theta, C * np.tanh(20.0 - found.theta), rtol=1e-4)
    assert (risk.evaluations > found.n_iter) == (C > 20)


@every_loss
def test_passes_are_evaluations_and_products(loss):
    risk = Counted(empirical_risk(small_queries(4), loss))
    found = Newton().minimize(risk, 30.0)
    assert risk.products > 0
    assert found.passes == risk.evaluations + risk.products
    assert found.trace[0].passes == 1


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_taken_below_the_rounding_of_the_objective(seed):
    risk = Counted(empirical_risk(small_queries(seed), PairwiseHinge(power=2)))
    found = Newton(tol=1e-15, max_iter=50).minimize(risk, 1000.0)
    assert found.converged
    # A slope may be rounded to the wrong side of 0 once.
    assert risk.evaluations <= found.n_iter + 1


def test_inner_solves_stop_where_the_gap_does():
    """A quadratic needs one Newton step, with as many products as the tolerance asks for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30)) * np.geomspace(1, 30, 30)
    grades = np.digitize(X @ np.ones(30), [-20, 50])
    queries = Queries.from_arrays(X, grades, group=[200])
    risk = Counted(empirical_risk(queries, SquaredError(intercept=False)))
    rough, fine = (Newton(tol=tol, residual=1e-12).minimize(risk, 10.0) for tol in (1e-2, 1e-9))
    assert (rough.n_iter, fine.n_iter) == (2, 2)
    assert rough.passes < fine.passes


def test_features_of_very_different_size():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 12)) * np.geomspace(1e-4, 1e4, 12) + 1e4
    grades = np.digitize(X @ (1 / np.geomspace(1e-4, 1e4, 12)) - X.mean(), [0, 1])
    risk = empirical_risk(Queries.from_arrays(X, grades, qid=np.arange(300) // 10), PairwiseHinge(power=2))
    assert Newton().minimize(risk, 10.0).converged


def test_a_path_is_the_same_as_each_on_its_own_for_less_work():
    risk = empirical_risk(small_queries(5), PairwiseHinge(power=2))
    Cs = [30.0, 0.1, 1.0, 3.0, 0.3, 10.0]
    solver = Newton(tol=1e-7)
    together, apart = solver.path(risk, Cs), [solver.minimize(risk, C) for C in Cs]
    assert [solution.C for solution in together] == Cs
    assert [solution.C for solution in solver.path(risk, [3, 1, 3])] == [3.0, 1.0, 3.0]
    for one, other in zip(together, apart, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=2e-7)
    assert sum(s.passes for s in together) < sum(s.passes for s in apart)


def test_a_solution_is_a_place_to_start():
    risk = empirical_risk(small_queries(6), PairwiseHinge(power=2))
    first = Newton(tol=1e-9).minimize(risk, 5.0)
    assert Newton(tol=1e-6).minimize(risk, 5.0, start=first.theta).passes == 2  # at the start and at the center
    begun = first.theta.copy()
    Newton().minimize(risk, 50.0, start=begun)
    np.testing.assert_array_equal(begun, first.theta)


def test_a_spent_budget_gives_the_best_point_and_a_true_gap():
    risk = empirical_risk(small_queries(7), PairwiseHinge(power=2))
    late = Newton(tol=1e-12).minimize(risk, 1000.0)
    stops = {
        "max_iter": Newton(tol=1e-12, max_iter=2),
        "time_limit": Newton(tol=1e-12, time_limit=1e-9),
        "callback": Newton(tol=1e-12, callback=lambda step, _: step.passes > 1),
    }
    for reason, solver in stops.items():
        early = solver.minimize(risk, 1000.0)
        assert early.reason == reason
        assert early.dual <= late.primal <= early.primal


@pytest.mark.parametrize("interrupt_at", [2, 5, 8])
def test_an_interrupt_gives_the_best_point_so_far(interrupt_at):
    risk = empirical_risk(small_queries(8), PairwiseHinge(power=2))
    late = Newton(tol=1e-12).minimize(risk, 1000.0)
    early = Newton(tol=1e-12).minimize(Counted(risk, interrupt_at), 1000.0)
    assert early.reason == "interrupted"
    assert early.dual <= late.primal <= early.primal


def test_an_interrupt_before_there_is_a_point_is_not_held_back():
    with pytest.raises(KeyboardInterrupt):
        Newton().minimize(Counted(Far(), interrupt_at=1), 2, 1.0)


def test_nothing_to_learn_is_found_at_once():
    queries = Queries.from_arrays(np.ones((4, 2)), [1, 1, 1, 1], group=[4])
    found = Newton().minimize(empirical_risk(queries, PairwiseHinge(power=2)), 10.0)
    assert (found.primal, found.passes, found.converged) == (0.0, 1, True)


def test_what_cannot_be_minimized_is_refused():
    risk = empirical_risk(small_queries(), PairwiseHinge())
    with pytest.raises(ValueError, match=r"solver 'newton' needs a smooth risk, .* use 'auto'"):
        Newton().minimize(risk, 10.0)
    with pytest.raises(ValueError, match="C is 0; it must be a positive number"):
        Newton().minimize(Far(), 0)
    with pytest.raises(ValueError, match="residual is 1; give a number between 0 and 1"):
        Newton(residual=1)
    with pytest.raises(ValueError, match="tol is -1"):
        Newton(tol=-1)
    with pytest.raises(FloatingPointError, match="rescale the features"):
        Newton().minimize(Far(np.inf), 1.0)


class Stretched(Problem):
    """½ Σ c_i (θ_i − 1)² with very different c, and a preconditioner that is exact or none."""

    n_parameters = 60
    capabilities = frozenset({"hessian"})
    curves = np.geomspace(1.0, 1e6, 60)

    def __init__(self, helped):
        self.helped = helped

    def __call__(self, theta):
        return 0.5 * float(self.curves @ (theta - 1.0) ** 2), self.curves * (theta - 1.0)

    def hessian_product(self, theta, direction):  # noqa: ARG002
        return self.curves * direction

    def preconditioner_passes(self, C):
        return 0.0 if self.helped else super().preconditioner_passes(C)

    def preconditioner(self, theta, C):
        return (lambda vector: vector / (1.0 + C * self.curves)) if self.helped else super().preconditioner(theta, C)


def test_a_preconditioner_saves_products_and_changes_nothing_else():
    plain, helped = (Newton(tol=1e-9).minimize(Stretched(helped), 0.5) for helped in (False, True))
    best = 0.5 * Stretched.curves / (1.0 + 0.5 * Stretched.curves)
    for solution in (plain, helped):
        assert solution.converged
        np.testing.assert_allclose(solution.theta, best, rtol=1e-3)
    assert helped.passes <= 4 < plain.passes
