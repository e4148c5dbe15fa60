"""The two halves of the quadratic program of planes, each without the other's help.

Together they hide each other's faults: where interior points end early an active set takes over, and where an active
set goes astray the best point so far is kept.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from marginrank.solvers.qp.active_set import ActiveSet
from marginrank.solvers.qp.interior_point import InteriorPoint
from marginrank.solvers.qp.plane_program import PlaneProgram


def program_of(seed):
    """A small program: some with signs, a center, several parts, repeated planes."""
    rng = np.random.default_rng(seed)
    d, parts = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    n = int(rng.integers(2, 7)) * parts
    gradients, offsets = rng.standard_normal((n, d)), rng.random(n)
    if rng.random() < 0.3:
        gradients[-parts:], offsets[-parts:] = gradients[:parts], offsets[:parts]
    center = rng.standard_normal(d) if rng.random() < 0.5 else None
    signs = rng.integers(-1, 2, d) if rng.random() < 0.6 else None
    return PlaneProgram.of(gradients, offsets, np.arange(n) % parts, float(10 ** rng.uniform(-2, 2)), center, signs)


def active_set_of(program, *, all_planes):
    planes = (
        np.ones(len(program.owners), dtype=bool) if all_planes else np.arange(len(program.owners)) < program.n_parts
    )
    return ActiveSet(program, program.feasible(np.where(planes, 1.0, 0.0)))


@pytest.mark.parametrize("all_planes", [False, True])
def test_an_active_set_finds_the_minimum_on_its_own(all_planes):
    for seed in range(150):
        program = program_of(seed)
        found = list(active_set_of(program, all_planes=all_planes).vertices())
        bounds = [program.dual(alpha)[1] for _, alpha in found]
        size = max(1.0, *np.abs(bounds))
        # The dual never falls, so that no set appears twice; with signs it has more multipliers than these.
        assert program.signs.any() or (np.diff(bounds) >= -1e-11 * size).all(), seed
        away, alpha = found[-1]
        assert alpha.min() >= 0
        assert np.bincount(program.owners, alpha) == pytest.approx(np.full(program.n_parts, program.C))
        assert program.primal(away) - bounds[-1] == pytest.approx(0, abs=1e-11 * size), seed
        assert (program.signs * (program.center + away) >= -1e-11 * size).all(), seed


def test_an_active_set_ends_with_its_time():
    """Each step factorizes a matrix, and steps that only drop planes yield nothing."""
    assert not list(active_set_of(program_of(0), all_planes=True).vertices(deadline=time.perf_counter() - 1.0))
    assert list(active_set_of(program_of(0), all_planes=True).vertices(deadline=time.perf_counter() + 1000.0))


def test_an_active_set_by_hand():
    """½v² + 2·max(v, 1 − v, −3): the two planes meet at v = ½, and α = (¾, 1¼) makes the pull −½."""
    program = PlaneProgram.of(
        np.array([[1.0], [-1.0], [0.0]]), np.array([0.0, 1.0, -3.0]), np.zeros(3, dtype=np.int64), 2.0, None, None
    )
    away, alpha = list(active_set_of(program, all_planes=False).vertices())[-1]
    assert away.tolist() == pytest.approx([0.5])
    assert alpha.tolist() == pytest.approx([0.75, 1.25, 0.0])


def test_a_sign_by_hand():
    """The same with v ≤ 0: the minimum is at 0, where only the second plane touches, with 2·1."""
    program = PlaneProgram.of(
        np.array([[1.0], [-1.0]]), np.array([0.0, 1.0]), np.zeros(2, dtype=np.int64), 2.0, None, np.array([-1])
    )
    away, alpha = list(active_set_of(program, all_planes=False).vertices())[-1]
    assert away.tolist() == [0.0]
    assert alpha.tolist() == pytest.approx([0.0, 2.0])
    assert program.dual(alpha)[1] == pytest.approx(2.0)


def test_interior_points_close_the_gap_on_their_own_in_a_few_steps(monkeypatch):
    monkeypatch.setattr("marginrank.solvers.qp.interior_point._WORK", 0)  # one step at a time
    steps = []
    for seed in range(150):
        program = program_of(seed)
        point = InteriorPoint(program, program.feasible(np.ones(len(program.owners))))
        number = 0
        while number < 60:
            value = program.primal(program.project(point.v))
            bound = program.dual(point.multipliers())[1]
            if value - bound <= 1e-9 * max(1.0, abs(value)):
                break
            assert point.iterate(0.0), seed
            number += 1
        steps.append(number)
        assert point.multipliers().min() >= 0
    # Mehrotra's corrector and his choice of the target are what make these few.
    assert np.mean(steps) < 12
    assert max(steps) < 30
