"""Early stopping: the best point on validation queries is kept, and a new objective begins anew."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries
from marginrank.evaluation.criterion import Criterion
from marginrank.solvers import Solution, Step
from marginrank.training.early_stopping import EarlyStopping

QUERIES = Queries.from_arrays([[0.0], [1.0]], [0, 1], group=[2])


def stopper(patience=2, callback=None):
    return EarlyStopping(QUERIES, Criterion.parse("auc"), patience, lambda theta: theta[0] * QUERIES.X[:, 0], callback)


def step(passes, primal=1.0):
    return Step(primal, -np.inf, 0.0, passes)


def test_it_stops_after_so_many_points_that_are_no_better():
    stop = stopper()
    good, bad = np.array([1.0]), np.array([-1.0])
    assert [stop(step(1), bad), stop(step(2), good), stop(step(3, 0.5), bad), stop(step(4), bad)] == [
        False, False, False, True
    ]  # fmt: skip
    solution = Solution(bad, 2.0, 0.5, -np.inf, 0.0, "converged", (step(4),))
    kept = stop.best_of(solution, np.zeros(1))
    assert (kept.theta.tolist(), kept.primal, kept.reason) == ([1.0], 1.0, "callback")
    assert kept.risk == (1.0 - 0.5) / 2.0
    last = Solution(good, 2.0, 1.0, -np.inf, 0.0, "converged", (step(4),))
    assert stop.best_of(last, np.zeros(1)).reason == "converged"


def test_a_new_objective_begins_anew():
    stop = stopper()
    good, bad = np.array([1.0]), np.array([-1.0])
    stop(step(1), good)
    assert [stop(step(2), bad), stop(step(3), bad)] == [False, True]
    # Passes count from 1 again: this is another solver, and what was best under the first says nothing.
    assert [stop(step(1, 7.0), bad), stop(step(2), bad), stop(step(3), bad)] == [False, False, True]
    assert stop.best[2].primal == 7.0


def test_another_callback_stops_too():
    assert stopper(callback=lambda *_: True)(step(1), np.array([1.0]))
    with pytest.raises(ValueError, match="patience is 0; wait for at least one iteration"):
        stopper(0)
