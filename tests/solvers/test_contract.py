"""Laws that hold for every solver of the folder, a new one included."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import minimize

from marginrank.runtime.option_objects import registered
from marginrank.solvers import stopping as progress
from marginrank.solvers.base import Solver, parse_solver
from marginrank.solvers.concave_convex import ConcaveConvex
from marginrank.solvers.newton import Newton
from marginrank.solvers.problem import Capability, FunctionProblem, Problem

SOLVERS = registered(Solver)
CAPABILITIES = get_args(Capability)
C = 20.0
every_solver = pytest.mark.parametrize("name", SOLVERS)
#: Solvers that come near the optimum and no nearer, with what lets them come that near here.
ROUGH = {"stochastic": {"max_iter": 1000}}


class Hinges(Problem):
    """Squared hinges Σ_b max(0, 1 − x_b·θ)², with all that a problem may offer; counts what it is asked.

    The whole costs 1, so does a product with the Hessian, and a block its share. A convex risk is its own majorant.
    """

    def __init__(
        self, capabilities=CAPABILITIES, *, d=3, stop=np.inf, convex=True, signs=None, center=None, spread=1.0
    ):
        self.x = np.random.default_rng(0).standard_normal((8, d)) * np.geomspace(1, spread, d)
        self.n_parameters, self.n_blocks, self.capabilities = d, len(self.x), frozenset(capabilities)
        self.convex, self.signs, self.center, self.stop = convex, signs, center, stop
        self.majorant = self if "majorant" in capabilities else None
        self.cost = 0.0

    def _pay(self, cost):
        self.cost += cost
        if self.cost > self.stop:
            raise KeyboardInterrupt

    def value(self, theta):
        return float(np.square(np.maximum(1.0 - self.x @ theta, 0.0)).sum())

    def __call__(self, theta):
        self._pay(1.0)
        short = np.maximum(1.0 - self.x @ theta, 0.0)
        return self.value(theta), -2.0 * short @ self.x

    def block(self, number, theta):
        self._pay(1.0 / self.n_blocks)
        short = max(1.0 - float(self.x[number] @ theta), 0.0)
        return short**2, -2.0 * short * self.x[number]

    def hessian_product(self, theta, direction):
        self._pay(1.0)
        inside = self.x[self.x @ theta < 1.0]
        return 2.0 * inside.T @ (inside @ direction)


def objective(problem, theta, C=C):
    away = theta - problem.origin
    return 0.5 * away @ away + C * problem.value(theta)


def optimum(problem, C=C):
    """Least objective, by a method that knows nothing of ours."""
    signs = np.zeros(problem.n_parameters) if problem.signs is None else problem.signs
    sides = [(0.0 if sign > 0 else None, 0.0 if sign < 0 else None) for sign in signs]
    start = problem.inside(problem.origin)
    found = minimize(
        lambda theta: (objective(problem, theta, C), theta - problem.origin - 2.0 * C * short(problem, theta)),
        start, jac=True, bounds=sides, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000},
    )  # fmt: skip
    return found.fun


def short(problem, theta):
    return np.maximum(1.0 - problem.x @ theta, 0.0) @ problem.x


def make(name, **options):
    return SOLVERS[name](**options)


@every_solver
def test_a_solver_is_a_frozen_dataclass_that_declares_what_it_needs(name):
    kind = SOLVERS[name]
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert set(kind.needs) <= set(CAPABILITIES)
    assert set(kind.supports) <= {"signs", "center", "nonconvex"}
    assert {"tol", "max_iter", "time_limit", "callback"} <= {option.name for option in fields(kind)}
    assert all(f"{option.name}:" in kind.__doc__ for option in fields(kind))
    assert parse_solver(name) == kind()
    assert str(kind()) == name
    tuned = kind(tol=0.5, max_iter=7, callback=print)
    assert parse_solver(str(tuned)) == tuned
    assert tuned.with_params(max_iter=8) == kind(tol=0.5, max_iter=8)


@every_solver
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1e-9}, "tol is -1e-09; it must not be negative"),
        ({"tol": np.nan}, "tol is nan"),
        ({"max_iter": 0}, "max_iter is 0; at least one iteration is needed"),
        ({"time_limit": 0.0}, "time_limit is 0.0; it must be positive"),
    ],
)
def test_limits_are_checked(name, options, message):
    with pytest.raises(ValueError, match=message):
        make(name, **options)


@every_solver
@pytest.mark.parametrize("C", [0.0, -1.0, np.inf, np.nan])
def test_C_is_checked(name, C):
    problem = Hinges()
    with pytest.raises(ValueError, match=f"C is {C}; it must be a positive number"):
        make(name).minimize(problem, C)
    assert problem.cost == 0


def assert_refused(solver, problem, message):
    """By all three ways in, and before the risk is evaluated."""
    for attempt in (
        lambda: solver.check(problem),
        lambda: solver.minimize(problem, C),
        lambda: solver.path(problem, [C]),
    ):
        with pytest.raises(ValueError, match=message):
            attempt()
    assert problem.cost == 0


@pytest.mark.parametrize(
    ("name", "need", "what"),
    [
        (name, need, {"blocks": "a sum over blocks", "hessian": "smooth", "majorant": "convex majorant"}[need])
        for name, kind in SOLVERS.items()
        for need in kind.needs
    ],
)
def test_what_a_solver_needs_is_asked_for(name, need, what):
    problem = Hinges([offer for offer in CAPABILITIES if offer != need])
    assert_refused(make(name), problem, f"solver '{name}' needs .*{what}.*; use 'auto'")


@every_solver
def test_signs_and_centers_are_refused_where_they_would_be_ignored(name):
    for quality, given, words in [
        ("signs", np.ones(3, dtype=np.int64), "does not support signs of weights; use 'bundle' or 'auto'"),
        ("center", np.ones(3), "does not support a center; use 'bundle' or 'auto'"),
    ]:
        problem = Hinges(**{quality: given})
        if quality in SOLVERS[name].supports:
            make(name).check(problem)
        else:
            assert_refused(make(name), problem, f"solver '{name}' {words}")


@every_solver
def test_risks_that_are_not_convex_are_for_those_who_say_so(name):
    problem = Hinges(convex=False)
    if "nonconvex" in SOLVERS[name].supports:
        make(name).check(problem)
    else:
        assert_refused(make(name), problem, f"solver '{name}' needs a convex risk; use 'cccp', 'descent' or 'auto'")
    hopeless = Hinges(["blocks", "hessian"], convex=False)
    assert_refused(make(name), hopeless, "not convex and has no convex majorant.*; use a convex loss")


@every_solver
@pytest.mark.parametrize(
    ("signs", "center"),
    [(None, None), ((1, 1, -1), None), (None, (0.5, -2.0, 1.0)), ((-1, 0, 1), (0.5, -2.0, 1.0))],
    ids=["free", "signs", "center", "both"],
)
@pytest.mark.parametrize("start", [None, np.array([3.0, -4.0, 2.0])], ids=["", "from elsewhere"])
def test_the_optimum_is_found_from_anywhere(name, signs, center, start):
    problem = Hinges(
        signs=None if signs is None else np.array(signs), center=None if center is None else np.array(center)
    )
    asked = {"signs"} if signs else set()
    asked |= {"center"} if center else set()
    if not asked <= set(SOLVERS[name].supports):
        pytest.skip(f"{name} refuses them")
    # Steps come as near in a tenth of the iterations where C is a tenth.
    C, options = (2.0, {"max_iter": 100}) if name in ROUGH else (20.0, {})
    found = make(name, tol=1e-8, **options).minimize(problem, C, start)
    least = optimum(problem, C)
    assert found.primal == pytest.approx(least, rel=0.03 if name in ROUGH else 1e-6)
    assert found.primal == pytest.approx(objective(problem, found.theta, C), rel=1e-12)
    assert found.risk == pytest.approx(problem.value(found.theta), rel=1e-12)
    assert signs is None or (np.array(signs) * found.theta >= 0).all()
    proven = "converged" if np.isfinite(found.gap) else "stationary"
    assert found.reason == ("max_iter" if name in ROUGH else proven)
    assert (0.9 * least if name in ROUGH else -np.inf) <= found.dual <= least * (1 + 1e-9)
    assert not found.converged or found.gap <= 1e-8 * found.primal


@every_solver
def test_without_a_proof_nothing_is_called_converged(name):
    """The same risk, with values that may come from a search, or as one that is not said to be convex."""
    for qualities in ({"exact": False}, {"convex": False}):
        problem = Hinges()
        vars(problem).update(qualities)
        try:
            make(name).check(problem)
        except ValueError:
            continue
        found = make(name, tol=0.2 if name in ROUGH else 1e-6, **ROUGH.get(name, {})).minimize(problem, C)
        assert found.primal == pytest.approx(optimum(Hinges()), rel=0.03 if name in ROUGH else 1e-3)
        assert found.reason == "stationary"
        assert not found.converged
        assert (found.dual, found.gap) == (-np.inf, np.inf)
        assert {step.dual for step in found.trace} == {-np.inf}


@every_solver
def test_a_path_is_each_C_on_its_own(name):
    problem, solver = Hinges(), make(name, tol=1e-8)
    Cs = [30.0, 0.1, 3.0, 0.1, 1.0]
    path = solver.path(problem, Cs)
    assert [found.C for found in path] == Cs
    for found in path:
        alone = solver.minimize(problem, found.C).primal
        assert found.primal == pytest.approx(alone, rel=0.2 if name in ROUGH else 1e-7)
        assert found.primal == pytest.approx(objective(problem, found.theta, found.C), rel=1e-12)
        assert found.dual <= optimum(problem, found.C) * (1 + 1e-9)
    assert solver.path(problem, []) == []
    assert solver.path(problem, iter([1.0]))[0].C == 1.0


@every_solver
@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_last_iteration_allowed_is_the_last(name, most):
    problem = Hinges(d=6, spread=30.0)
    found = make(name, tol=0, max_iter=most).minimize(problem, C, np.full(6, 0.5))
    assert (found.n_iter, found.reason) == (most, "max_iter") or found.reason == "stationary"
    assert found.primal == pytest.approx(objective(problem, found.theta), rel=1e-12)


@every_solver
@pytest.mark.parametrize("start", [None, np.full(3, 0.5)])
def test_a_problem_is_not_changed(name, start):
    problem = Hinges()
    attributes = set(vars(problem))
    found = make(name, tol=1e-3).minimize(problem, C, start)
    assert set(vars(problem)) == attributes
    assert found.risk_at_center is None or found.risk_at_center == pytest.approx(problem.value(np.zeros(3)))


@every_solver
def test_passes_are_what_was_asked_of_the_risk(name):
    problem = Hinges(d=6, spread=30.0)
    found = make(name, tol=1e-4).minimize(problem, C)
    assert found.passes == pytest.approx(problem.cost)
    assert all(before.passes < after.passes for before, after in pairwise(found.trace[:3]))


@every_solver
def test_a_callback_sees_every_step_and_can_stop(name):
    problem, seen = Hinges(d=6, spread=30.0), []

    def callback(step, theta):
        assert step.primal == pytest.approx(objective(problem, theta), rel=1e-12)
        seen.append(step)
        return len(seen) == 2

    found = make(name, tol=0, callback=callback).minimize(problem, C)
    assert found.trace == tuple(seen)
    assert (found.reason, found.n_iter) == ("callback", 2)


@every_solver
def test_an_interrupt_gives_the_best_point_so_far(name):
    least, whole = optimum(Hinges(d=6, spread=30.0)), Hinges(d=6, spread=30.0)
    make(name, tol=1e-3).minimize(whole, C)
    returned = 0
    for stop in np.arange(0.0, whole.cost, max(1.0, whole.cost // 5)):
        problem = Hinges(d=6, spread=30.0, stop=stop)
        try:
            found = make(name, tol=1e-3).minimize(problem, C)
        except KeyboardInterrupt:
            assert returned == 0, "an interrupt after a point was noted got through"
            continue
        returned += 1
        assert found.reason == "interrupted"
        assert found.primal == pytest.approx(objective(problem, found.theta), rel=1e-12)
        assert found.primal <= found.trace[-1].primal
        assert found.dual <= least * (1 + 1e-9)
        assert found.n_iter >= 1
    assert returned >= 2


@every_solver
@pytest.mark.parametrize("later", [0.0, 1.5], ids=["at once", "later"])
def test_after_an_interrupt_a_path_is_where_it_was(name, later):
    """The larger C get the point that was reached, with its objective, and a bound that holds for them."""
    problem, solver = Hinges(d=6, spread=30.0), make(name, tol=1e-3)
    solver.minimize(problem, 1.0)
    stopped = Hinges(d=6, spread=30.0, stop=problem.cost + later)
    path = solver.path(stopped, [100.0, 1.0, 10.0])
    assert path[0].reason == path[2].reason == "interrupted"
    assert path[0].theta.tolist() == path[2].theta.tolist()
    for found in path:
        assert found.primal == pytest.approx(objective(problem, found.theta, found.C), rel=1e-12)
        assert found.trace[-1].primal >= found.primal
        assert found.dual <= optimum(problem, found.C) * (1 + 1e-9)
    assert stopped.cost <= stopped.stop + 1


@pytest.fixture
def clock(monkeypatch):
    """Time that passes while the risk is evaluated, a second each, and at no other time."""
    problems = []
    ticking = SimpleNamespace(perf_counter=lambda: sum(problem.cost for problem in problems))
    monkeypatch.setattr(progress, "time", ticking)
    return problems


@every_solver
def test_a_time_limit_ends_long_iterations_too(name, clock):
    options = {"residual": 1e-12} if name == "newton" else {}
    reasons = []
    for limit in (0.5, 1.5, 2.5, 4.5, 7.5):
        problem = Hinges(d=30, spread=100.0)
        clock[:] = [problem]
        found = make(name, tol=0, time_limit=limit, **options).minimize(problem, 1e4)
        reasons.append(found.reason)
        if found.reason == "time_limit":
            assert limit < problem.cost <= limit + 3.0
            assert found.trace[-1].seconds == pytest.approx(problem.cost)
        assert found.primal == pytest.approx(objective(problem, found.theta, 1e4), rel=1e-12)
    assert reasons.count("time_limit") >= 4


@every_solver
def test_the_time_limit_of_a_path_is_for_all_of_it(name, clock):
    problem = Hinges(d=30, spread=100.0)
    clock.append(problem)
    path = make(name, tol=0, time_limit=8.0).path(problem, [10.0, 1e2, 1e3, 1e4])
    assert path[-1].reason in ("time_limit", "stationary")
    assert problem.cost <= 8.0 + 4 * 3.0


def test_one_newton_step_can_be_longer_than_the_time_limit(clock):
    """One step takes ten products and more; the limit ends it after the fifth."""
    problem = Hinges(d=30, spread=100.0)
    Newton(tol=0, max_iter=2, residual=1e-12).minimize(problem, 1e4)
    assert problem.cost > 8
    problem = Hinges(d=30, spread=100.0)
    clock.append(problem)
    found = Newton(tol=0, time_limit=5.5, residual=1e-12).minimize(problem, 1e4)
    assert (found.n_iter, problem.cost) == (2, 7.0)
    assert found.trace[1].primal < found.trace[0].primal


def test_one_convex_problem_of_the_concave_convex_procedure_can_be_longer_than_the_time_limit(clock):
    problem = Hinges(d=8, spread=30.0)
    ConcaveConvex(max_iter=2).minimize(problem, C)
    assert problem.cost > 12
    problem = Hinges(d=8, spread=30.0)
    clock.append(problem)
    found = ConcaveConvex(time_limit=6.5).minimize(problem, C)
    assert (found.n_iter, found.reason) == (2, "time_limit")
    assert problem.cost <= 9.0


def test_the_concave_convex_procedure_keeps_to_signs_that_only_the_problem_has():
    """½w² + 3·clip(1 − w, 0, 2) has its minimum at 1, and 0 among w ≤ 0."""
    hinge = FunctionProblem(lambda w: (max(0.0, 1.0 - w[0]), np.where(w < 1, -1.0, 0.0)), 1)

    def ramp(w):
        return float(np.clip(1.0 - w[0], 0, 2)), np.where(abs(w) < 1, -1.0, 0.0)

    for signs, expected in [(None, 1.0), (np.array([1]), 1.0), (np.array([-1]), 0.0)]:
        problem = FunctionProblem(ramp, 1, signs=signs, convex=False, majorant=hinge)
        found = ConcaveConvex().minimize(problem, 3.0, start=np.array([0.5]))
        assert found.theta.tolist() == pytest.approx([expected], abs=1e-6)


def test_functions_are_problems_of_one_or_several_parts():
    parts = FunctionProblem(lambda w: (np.array([w[0], 2.0]), np.array([[1.0, 0.0], [0.0, 3.0]])), 2)
    value, slope = parts(np.array([5.0, 0.0]))
    assert (value, slope.tolist()) == (7.0, [1.0, 3.0])
    whole = FunctionProblem(lambda w: (w[0], np.array([1.0, 0.0])), 2)
    values, slopes = whole.parts(np.array([5.0, 0.0]))
    assert (values.tolist(), slopes.tolist()) == ([5.0], [[1.0, 0.0]])
    assert whole.capabilities == frozenset()
    assert FunctionProblem(lambda w: (w[0], w), 1, majorant=whole).capabilities == {"majorant"}
    with pytest.raises(NotImplementedError):
        whole.block(0, np.zeros(2))
    with pytest.raises(NotImplementedError):
        whole.hessian_product(np.zeros(2), np.zeros(2))
