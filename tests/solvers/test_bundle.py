"""The bundle solver: its certificate, paths of C, and the original programs."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries
from marginrank.data import read_letor
from marginrank.losses import PairwiseHinge, StructuredLoss
from marginrank.scorers import Linear
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.problem import FunctionProblem
from marginrank.solvers.stopping import summed
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk


def small_problem(seed, measure, feature_map):
    rng = np.random.default_rng(seed)
    grades = np.concatenate([rng.permutation([1, 0, 0, 2]) for _ in range(6)])
    queries = Queries.from_arrays(rng.standard_normal((24, 3)), grades, qid=np.repeat(np.arange(6), 4))
    return queries, StructuredLoss(measure, feature_map)


@pytest.mark.parametrize(
    "loss", [StructuredLoss("ap"), StructuredLoss("ndcg@3", "dorm"), PairwiseHinge(power=2)], ids=str
)
def test_the_certificate_holds_at_every_iteration(loss):
    queries, _ = small_problem(1, "ap", "po")
    risk = empirical_risk(queries, loss)
    found = Bundle(tol=1e-8).minimize(risk, 10.0)
    duals, primals = [step.dual for step in found.trace], [step.primal for step in found.trace]
    assert duals == sorted(duals)
    assert primals == sorted(primals, reverse=True)
    assert max(duals) <= found.primal + 1e-9
    value, _ = risk(found.theta)
    assert found.primal == pytest.approx(0.5 * found.theta @ found.theta + 10.0 * value)
    for nearby in np.random.default_rng(0).standard_normal((50, 3)):
        point = found.theta + 0.1 * nearby
        assert 0.5 * point @ point + 10.0 * risk(point)[0] >= found.dual - 1e-9


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_an_iteration_takes_one_evaluation(C):
    queries, loss = small_problem(1, "ap", "po")
    asked = []

    class Counted(RankingRisk):
        def parts(self, theta):
            asked.append(theta)
            return super().parts(theta)

    found = Bundle(tol=1e-6).minimize(Counted(empirical_risk(queries, loss).scorer, loss), C)
    assert found.converged
    assert found.passes == len(asked) == found.n_iter + 1


def test_where_the_model_is_right_steps_go_all_the_way():
    # In one dimension the two planes at 0 and beyond 3 are the whole risk, so nothing remains to be learned.
    kinked = FunctionProblem(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1)
    assert Bundle(tol=1e-9).minimize(kinked, 100.0).passes <= 4


def test_a_path_is_the_same_as_each_on_its_own_for_less_work():
    queries, loss = small_problem(2, "ap", "po")
    risk = empirical_risk(queries, loss)
    Cs = [30.0, 0.1, 1.0, 3.0, 0.3, 10.0]
    solver = Bundle(tol=1e-7)
    together, apart = solver.path(risk, Cs), [solver.minimize(risk, C) for C in Cs]
    assert [solution.C for solution in together] == Cs
    for one, other in zip(together, apart, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=2e-7)
    assert sum(s.n_iter for s in together) < sum(s.n_iter for s in apart)


def test_a_spent_budget_gives_the_best_point_and_a_true_gap():
    queries, loss = small_problem(3, "ap", "po")
    risk = empirical_risk(queries, loss)
    early, late = Bundle(max_iter=3).minimize(risk, 50.0), Bundle(tol=1e-9).minimize(risk, 50.0)
    assert not early.converged
    assert early.n_iter == 3
    assert early.dual <= late.primal <= early.primal
    with pytest.raises(ValueError, match="C is 0; it must be a positive number"):
        Bundle().minimize(risk, 0)


#: Loss, queries in the mean, C, and the interval that the original program certifies.
ORIGINALS = {
    "SVM-rank, pairs summed": (PairwiseHinge(normalize="none"), 161, 1.0, 45.08546, 45.08607),
    "SVM-rank, mean over pairs": (PairwiseHinge(), 161, 1.0, 0.796845, 0.796855),
    "SVM-map, c = 0.1": (StructuredLoss("ap", "po"), 117, 0.1, 0.03509, 0.035096),
    "SVM-map, c = 10": (StructuredLoss("ap", "po"), 117, 10.0, 2.79889, 2.79962),
}


@pytest.mark.parametrize("program", ORIGINALS)
def test_optima_of_the_original_programs(program, shared_data):
    loss, n, c, low, high = ORIGINALS[program]
    data = shared_data("lightgbm-lambdarank")
    queries = read_letor(data / "rank.train.xz", dtype="float64")[:161]
    risk = empirical_risk(queries, loss)
    found = Bundle(tol=1e-6).minimize(risk, c * risk.loss.active.sum() / n)
    assert found.converged
    assert low <= found.dual
    assert found.primal <= high


def test_a_path_begins_where_it_is_told_to():
    """One step from the start, which is not the step from 0."""
    problem = FunctionProblem(lambda theta: (abs(theta[0] - 3.0), np.array([np.sign(theta[0] - 3.0)])), 1)
    start = np.array([2.5])
    (path,) = Bundle(max_iter=1).path(problem, [10.0], start)
    alone = Bundle(max_iter=1).minimize(problem, 10.0, start)
    assert path.theta.tolist() == alone.theta.tolist()
    # ½·2.5² + 10·½, against 10·3 at 0.
    assert path.primal <= 3.125 + 5.0


@pytest.mark.parametrize("n_columns", [3, 600])
@pytest.mark.parametrize("starts", [[0, 1, 2, 3, 4, 5, 6], [0, 2, 3, 6], [0]])
def test_rows_are_added_up_to_the_next_start(n_columns, starts):
    rows = np.arange(7.0)[:, None] * np.linspace(1.0, 2.0, n_columns)
    kept = rows.copy()
    sums = summed(rows, np.array(starts))
    expected = {7: [0, 1, 2, 3, 4, 5, 6], 4: [1, 2, 12, 6], 1: [21]}[len(starts)]
    assert sums[:, 0].tolist() == expected
    assert sums[:, -1] == pytest.approx([2.0 * total for total in expected])
    assert np.array_equal(rows, kept)


@pytest.mark.parametrize("seed", range(6))
def test_weights_that_a_sign_holds_at_zero_are_exactly_zero(seed):
    rng = np.random.default_rng(seed)
    X, effect = rng.standard_normal((360, 8)), np.array([1.0, 0.5, 2.0, -1.0, -0.5, -2.0, -1.0, -1.0])
    grades = np.digitize(X @ effect + rng.standard_normal(360), [0.5, 2.0])
    queries = Queries.from_arrays(X, grades, group=[12] * 30)
    risk = empirical_risk(queries, StructuredLoss("ndcg@10"), Linear(nonnegative=True), n_jobs=1)
    solution = Bundle(tol=1e-3).minimize(risk, C=10.0)
    exact = Bundle(tol=1e-10).minimize(risk, C=10.0)
    held = exact.theta < 1e-9
    assert held.sum() >= 4
    assert (solution.theta[held] == 0.0).all()
    assert (solution.converged, solution.gap <= 1e-3 * solution.primal) == (True, True)
