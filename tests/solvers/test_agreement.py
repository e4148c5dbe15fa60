"""All solvers of convex risks against a generic one, on problems small enough to write down every ranking."""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise, permutations

import cvxpy as cp
import numpy as np
import pytest

from marginrank import Queries, parse_measure
from marginrank.losses import StructuredLoss, parse_map
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.frank_wolfe import FrankWolfe
from marginrank.solvers.n_slack import NSlack
from marginrank.solvers.problem import FunctionProblem, Problem
from marginrank.solvers.subgradient import Subgradient
from marginrank.training.partitioned_risk import empirical_risk
from tests.losses.exhaustive import coefficients, delta, worth


def whole(risk):
    """The risk as one part."""
    return FunctionProblem(risk.__call__, risk.n_parameters, signs=risk.signs)


def in_parts(risk):
    return risk


#: Each solver, and whether it is shown the parts and blocks of the risk.
SOLVERS = {
    "bundle, whole": (Bundle, whole),
    "bundle, parts": (Bundle, in_parts),
    "Frank-Wolfe": (FrankWolfe, in_parts),
    "Frank-Wolfe, forgetful": (partial(FrankWolfe, random_state=1, idle=1), in_parts),
    "n-slack, loop": (NSlack, in_parts),
    "n-slack, loop, single": (partial(NSlack, single=True), in_parts),
    "n-slack, constraint": (partial(NSlack, schedule="constraint"), in_parts),
    "n-slack, constraint, in part": (partial(NSlack, schedule="constraint", sweeps=1, idle=1), in_parts),
    "n-slack, 4 constraints": (partial(NSlack, schedule=4), in_parts),
    "subgradient, steepest": (Subgradient, in_parts),
    "subgradient, conjugate": (partial(Subgradient, conjugate=True), in_parts),
}
#: Two of four documents are relevant; their grades differ, so there is one ideal ranking.
PAIRS = [("ap(rel=2)", "po"), ("auc(rel=2)", "po"), ("ndcg@2", "dorm"), ("rr(rel=2)", "mrr")]
#: The last of the queries carries no order.
WEIGHTS = {"alike": (1.0,) * 7, "weighted": (1.0, 3.0, 0.5, 0.0, 2.0, 1.0, 5.0)}
each_solver = pytest.mark.parametrize("solver", SOLVERS)


@cache
def queries_of(weights, scale=1.0):
    rng = np.random.default_rng(0)
    grades = np.concatenate([*[rng.permutation([1, 0, 3, 2]) for _ in range(6)], np.ones(4)])
    given = None if weights == "alike" else WEIGHTS[weights]
    X = scale * rng.standard_normal((28, 3))
    return Queries.from_arrays(X, grades, qid=np.repeat(np.arange(7), 4), query_weights=given)


@cache
def least_with_large_features():
    return solve("bundle, parts", small_risk(scale=1000.0), tol=1e-9).primal


def small_risk(pair=PAIRS[0], weights="alike", scale=1.0):
    return empirical_risk(queries_of(weights, scale), StructuredLoss(*pair))


@cache
def constraints(pair):
    """ξ_q ≥ offset + row·θ: rows, offsets and queries, one of each for every ranking of every query with an order."""
    measure, feature_map = parse_measure(pair[0]), parse_map(pair[1])
    rows, offsets, owners = [], [], []
    for number, query in enumerate(queries_of("alike")[:6]):
        grades = query.grades.tolist()
        levels = worth(measure, grades)
        ideal = coefficients(feature_map, measure, levels, sorted(range(4), key=lambda d: -levels[d]))
        for order in permutations(range(4)):
            rows.append(query.X.T @ (coefficients(feature_map, measure, levels, order) - ideal))
            offsets.append(delta(measure, grades, order))
            owners.append(number)
    return np.array(rows), np.array(offsets), np.array(owners)


@cache
def optimum(pair=PAIRS[0], C=50.0, weights="alike", signs=(0, 0, 0)):
    """Least ½‖θ‖² + C·(weighted mean of ξ) under all constraints."""
    rows, offsets, owners = constraints(pair)
    shares = np.array(WEIGHTS[weights][:6]) / sum(WEIGHTS[weights][:6])
    theta, xi = cp.Variable(3), cp.Variable(6)
    program = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(theta) + C * shares @ xi),
        [xi[owners] >= offsets + rows @ theta, cp.multiply(np.array(signs), theta) >= 0],
    )
    return program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)


def solve(solver, risk, C=50.0, start=None, **limits):
    make, view = SOLVERS[solver]
    return make(**limits).minimize(view(risk), C, start=start)


def objective(risk, theta, C=50.0):
    return 0.5 * theta @ theta + C * risk(theta)[0]


@each_solver
@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
@pytest.mark.parametrize("C", [0.1, 3.0, 50.0])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_optimum_is_that_of_the_program_with_all_constraints(solver, pair, C, weights):
    least, risk = optimum(pair, C, weights), small_risk(pair, weights)
    found = solve(solver, risk, C, tol=1e-7)
    assert found.converged
    assert found.primal == pytest.approx(least, rel=1e-6)
    assert found.dual == pytest.approx(least, rel=1e-6)
    assert found.primal == pytest.approx(objective(risk, found.theta, C), rel=1e-12)
    rounding = 1e-9 * least
    for step in found.trace:
        assert step.dual <= least + rounding
        assert least <= step.primal + rounding
        assert step.primal - least <= step.gap + rounding
    for before, after in pairwise(found.trace):
        assert after.dual >= before.dual - rounding
        assert after.primal <= before.primal
        assert after.passes >= before.passes
        assert after.seconds >= before.seconds


@pytest.mark.parametrize("view", [whole, in_parts])
@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
@pytest.mark.parametrize("signs", [(1, 1, 1), (1, 0, -1), (-1, -1, 0)], ids=str)
def test_signs_are_those_of_the_program_with_them(view, pair, signs):
    risk = small_risk(pair)
    risk.signs = np.array(signs)
    found = Bundle(tol=1e-8).minimize(view(risk), 50.0)
    assert found.converged
    assert (found.theta * signs >= 0).all()
    assert found.primal == pytest.approx(optimum(pair, signs=signs), rel=1e-6)


def test_signs_make_a_difference():
    free = optimum()
    assert max(optimum(signs=signs) for signs in [(1, 1, 1), (1, 0, -1), (-1, -1, 0)]) > 1.01 * free


class Spy(Problem):
    """A risk that counts passes, notes which blocks are asked, and can be made to fail."""

    def __init__(self, risk, stop=np.inf):
        self.risk, self.n_blocks, self.stop = risk, risk.n_blocks, stop
        self.n_parameters, self.signs, self.capabilities = risk.n_parameters, risk.signs, risk.capabilities
        self.passes, self.asked = 0.0, np.zeros(risk.n_blocks)

    def _count(self, cost):
        self.passes += cost
        if self.passes > self.stop:
            raise KeyboardInterrupt

    def __call__(self, theta):
        self._count(1.0)
        return self.risk(theta)

    def parts(self, theta):
        self._count(1.0)
        return self.risk.parts(theta)

    def block(self, number, theta):
        self._count(1.0 / self.n_blocks)
        self.asked[number] += 1
        return self.risk.block(number, theta)


def assert_best_so_far(found, reason):
    assert found.reason == reason
    assert not found.converged
    assert found.primal == pytest.approx(objective(small_risk(), found.theta), rel=1e-12)
    assert found.primal <= found.trace[-1].primal
    assert found.dual <= optimum() * (1 + 1e-9)
    assert optimum() <= found.primal * (1 + 1e-9)


@each_solver
def test_the_last_iteration_allowed_is_the_last(solver):
    found = solve(solver, small_risk(), tol=0, max_iter=2)
    assert_best_so_far(found, "max_iter")
    assert found.n_iter == 2


@each_solver
def test_a_time_limit_ends_after_the_iteration(solver):
    found = solve(solver, small_risk(), tol=0, time_limit=1e-9)
    assert_best_so_far(found, "time_limit")
    assert found.n_iter == 1


@each_solver
def test_a_callback_sees_every_step_and_can_stop(solver):
    seen = []

    def callback(step, theta):
        seen.append(step)
        assert step.primal == pytest.approx(objective(small_risk(), theta), rel=1e-12)
        return len(seen) == 2

    found = solve(solver, small_risk(), tol=0, callback=callback)
    assert_best_so_far(found, "callback")
    assert found.trace == tuple(seen)


@each_solver
def test_an_interrupt_gives_the_best_point_so_far(solver):
    found = solve(solver, Spy(small_risk(), stop=3.0), tol=0)
    assert_best_so_far(found, "interrupted")


@each_solver
def test_an_interrupt_before_there_is_a_point_goes_through(solver):
    with pytest.raises(KeyboardInterrupt):
        solve(solver, Spy(small_risk(), stop=0.0))


@each_solver
def test_passes_are_what_was_asked_of_the_risk(solver):
    spy = Spy(small_risk())
    assert solve(solver, spy, tol=1e-5).passes == pytest.approx(spy.passes)


@each_solver
def test_a_start_is_where_it_begins(solver):
    risk = small_risk()
    best, far = solve("bundle, whole", risk, tol=1e-9).theta, np.array([40.0, -30.0, 20.0])
    # The sum of the parts and the whole differ in rounding.
    assert solve(solver, risk, start=best, max_iter=1).primal <= objective(risk, best) * (1.0 + 1e-14)
    assert solve(solver, risk, start=far, tol=1e-7).primal == pytest.approx(optimum(), rel=1e-6)
    assert far.tolist() == [40.0, -30.0, 20.0]


@each_solver
def test_unusable_weights_and_risks_are_refused(solver):
    risk = small_risk()
    with pytest.raises(ValueError, match="C is 0; it must be a positive number"):
        solve(solver, risk, 0)
    risk.weights[0] = np.nan
    with pytest.raises(FloatingPointError, match="rescale the features"):
        solve(solver, risk)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_blocks_without_weight_are_asked_once(weights, scale):
    spy = Spy(small_risk(weights=weights, scale=scale))
    found = FrankWolfe(tol=1e-7).minimize(spy, 50.0)
    assert found.converged
    assert spy.asked[spy.risk.weights == 0].tolist() == [1.0] * int((spy.risk.weights == 0).sum())
    assert spy.asked[spy.risk.weights > 0].min() > 1


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name.startswith(("Frank", "n-slack"))])
def test_large_features_are_no_obstacle(solver):
    """Multipliers that almost cancel: steps between two of them lead nowhere here."""
    risk = small_risk(scale=1000.0)
    found = solve(solver, risk, tol=1e-7, max_iter=30)
    assert found.converged
    assert found.primal == pytest.approx(least_with_large_features(), rel=1e-6)


def test_subgradients_that_are_kept_save_directions():
    steepest, conjugate = (Subgradient(conjugate=kept).minimize(small_risk(), 50.0) for kept in (False, True))
    assert conjugate.n_iter < steepest.n_iter


class Hinges(Problem):
    """Blocks max(0, 1 − θ_i), all of them silent where θ is large."""

    n_parameters, n_blocks, capabilities = 3, 3, frozenset({"blocks"})

    def __call__(self, theta):
        return float(np.maximum(1.0 - theta, 0.0).sum()), np.where(theta < 1.0, -1.0, 0.0)

    def block(self, number, theta):
        slope = np.zeros(3)
        slope[number] = -float(theta[number] < 1.0)
        return max(0.0, 1.0 - theta[number]), slope


@pytest.mark.parametrize("start", [np.full(3, 2.0), np.array([2.0, 0.0, 0.5])], ids=["all", "some"])
def test_blocks_that_were_silent_are_heard(start):
    """½‖θ‖² + 2·Σ max(0, 1 − θ_i) is least at θ = 1, with 3/2."""
    found = FrankWolfe(tol=1e-9).minimize(Hinges(), 2.0, start=start)
    assert found.theta == pytest.approx(np.ones(3))
    assert found.primal == pytest.approx(1.5)


def test_a_seed_gives_the_same_way():
    once, again, other = (FrankWolfe(random_state=seed).minimize(small_risk(), 50.0) for seed in (0, 0, 1))
    assert [step.dual for step in once.trace] == [step.dual for step in again.trace]
    assert [step.dual for step in once.trace] != [step.dual for step in other.trace]


def test_a_loop_without_a_violation_ends_the_search():
    """Each of six shares may be ε above its slack, so the objective at most C·6·ε above the optimum."""
    found = NSlack(tol=0, epsilon=1e-3).minimize(small_risk(), 50.0)
    assert found.converged
    assert 0 <= found.gap <= 50.0 * 6 * 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "query"}, "schedule is 'query'; choose 'constraint', 'loop' or a whole number"),
        ({"schedule": 0}, "schedule is 0; give 'constraint', 'loop' or a number of constraints"),
        ({"sweeps": 0}, "sweeps is 0; at least one is needed, or None to solve the programs"),
        ({"epsilon": -1.0}, "epsilon is -1.0; give a number of at least 0"),
    ],
)
def test_unknown_options_of_n_slack_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        NSlack(**options)
