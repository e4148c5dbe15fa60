"""The risk between two points by their scores is the risk at the points between."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries
from marginrank.losses import PairwiseHinge, StructuredLoss
from marginrank.scorers import Additive, Linear
from marginrank.solvers import Bundle
from marginrank.solvers.problem import Problem
from marginrank.training.partitioned_risk import empirical_risk


def queries(seed=0, n_queries=30):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 12, n_queries)
    X = rng.standard_normal((int(lengths.sum()), 4))
    grades = np.digitize(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(len(X)), [0.5, 1.5])
    return Queries.from_arrays(X, grades, group=lengths)


LOSSES = [StructuredLoss("ap"), StructuredLoss("ndcg@3", "dorm"), PairwiseHinge()]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_line_tells_the_risk_at_its_points(loss):
    risk = empirical_risk(queries(), loss, Additive(bins=8))
    start, middle, end = np.random.default_rng(1).standard_normal((3, risk.n_parameters))
    first = risk.segment(start, middle)
    for line, begin, stop in [
        (first, start, middle),
        (first.then(0.25, end), 0.75 * start + 0.25 * middle, end),
        (first.then(0.25, start).then(1.0, end), start, end),
    ]:
        for t in (0.0, 0.3, 1.0):
            point = (1.0 - t) * begin + t * stop
            np.testing.assert_allclose(line.point(t), point, atol=1e-14)
            value, gradient = risk(point)
            assert line(t) == pytest.approx((value, gradient @ (stop - begin)), rel=1e-9)
            for here, there in zip(line.parts(t), risk.parts(point), strict=True):
                np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)


def test_only_scores_that_take_long_are_worth_a_line(monkeypatch):
    data, loss = queries(), StructuredLoss("ap")
    risk = empirical_risk(data, loss, Linear())
    assert risk.segment(np.zeros(4), np.ones(4)) is None
    # A pass with lines reads rows twice.
    monkeypatch.setattr("marginrank.scorers.additive.scorer._SMALL_BYTES", 1000)
    risk = empirical_risk(data, loss, Additive(bins=8))
    assert risk.segment(np.zeros(risk.n_parameters), np.ones(risk.n_parameters)) is None


class Pointwise(Problem):
    """A risk without lines, and how often it is asked."""

    def __init__(self, risk):
        self.risk, self.n_parameters, self.asked = risk, risk.n_parameters, 0

    def __call__(self, theta):
        return self.risk(theta)

    def parts(self, theta):
        self.asked += 1
        return self.risk.parts(theta)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_with_and_without_lines_the_optimum_is_the_same(loss, C):
    risk = empirical_risk(queries(), loss, Additive(bins=8))
    solver = Bundle(tol=1e-6)
    with_lines, without = solver.minimize(risk, C), solver.minimize(Pointwise(risk), C)
    assert with_lines.converged
    assert without.converged
    assert with_lines.primal == pytest.approx(without.primal, rel=2e-6)
    assert with_lines.dual <= without.primal * (1 + 1e-12)
    theta = with_lines.theta
    assert with_lines.primal == pytest.approx(0.5 * theta @ theta + C * risk(theta)[0], rel=1e-12)


def test_an_iteration_scores_once_and_pulls_back_once():
    risk = empirical_risk(queries(), StructuredLoss("ap"), Additive(bins=8))
    asked = {"score": 0, "pull_back": 0}
    for name in asked:
        kernel = getattr(risk.scorer, name)

        def counted(*args, name=name, kernel=kernel):
            asked[name] += args[3] - args[2]
            kernel(*args)

        setattr(risk.scorer, name, counted)
    found = Bundle(tol=1e-4).minimize(risk, 100.0)
    passes = {name: rows / risk.queries.n_documents for name, rows in asked.items()}
    assert found.n_iter > 5
    # Where the search begins is scored a second time, which is half a pass.
    assert passes == {"score": found.passes + 0.5, "pull_back": found.passes - 0.5}
