"""The quadratic program of planes: no gap, whatever the units, and the minimum that a solver of others finds."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import example, given
from hypothesis import strategies as st

from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.qp import plane_minimum as plane_qp
from marginrank.solvers.qp.dual_ascent import ascend, maximize_dual
from marginrank.solvers.qp.dual_ascent_kernel import ascend_dual
from marginrank.solvers.qp.interior_point import InteriorPoint
from marginrank.solvers.qp.plane_minimum import Planes, minimize_planes
from marginrank.solvers.qp.plane_program import GramMatrix, PlaneProgram


def value_at(theta, planes, C, center):
    heights = planes.offsets + planes.gradients @ theta
    tops = [heights[planes.owners == part].max() for part in range(planes.owners.max() + 1)]
    away = theta - center
    return 0.5 * away @ away + C * sum(tops)


def assert_no_gap(planes, C, center, signs, at_most):
    """The minimizer has the value of the lower bound, but for the rounding errors of the terms of the sum."""
    theta, bound, alpha = minimize_planes(planes, C, center=center, signs=signs)
    if signs is not None:
        assert (signs * theta >= 0).all()
    assert alpha.min() >= 0
    assert np.bincount(planes.owners, alpha) == pytest.approx(np.full(planes.owners.max() + 1, C))
    middle = np.zeros(len(theta)) if center is None else center
    value = value_at(theta, planes, C, middle)
    size = max(abs(value), C * np.abs(planes.offsets).max(), C * np.abs(planes.gradients @ middle).max())
    assert -1e-14 * size <= value - bound <= at_most * size


@given(
    n=st.integers(1, 12),
    d=st.integers(1, 14),
    parts=st.integers(1, 4),
    signed=st.booleans(),
    seed=st.integers(0, 10_000),
    C=st.sampled_from([1e-4, 0.3, 1.0, 50.0, 1e5]),
)
@example(n=5, d=9, parts=1, signed=True, seed=454, C=1e5)  # rounding errors end the interior points early
def test_the_quadratic_program_has_no_gap(n, d, parts, signed, seed, C):
    rng = np.random.default_rng(seed)
    model = PlaneModel(d)
    for _ in range(n):
        model.add(rng.standard_normal(d), rng.random(parts), rng.standard_normal((parts, d)))
    signs = rng.integers(-1, 2, d) if signed else None
    center = rng.standard_normal(d) if seed % 2 else None
    assert_no_gap(Planes(model.gradients, model.offsets, model.owners), C, center, signs, at_most=1e-12)


def extreme_program(seed):
    """Gradients and values of any size or whole, features of different spread, equal planes, a center far away."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["plain", "scaled", "spread", "repeated", "whole"])
    parts = int(rng.choice([1, 1, 2, 4, 10, 30]))
    n, d = int(rng.integers(1, 16 if parts < 10 else 6)), int(rng.choice([1, 2, 3, 5, 9, 14, 40]))
    gradients = rng.standard_normal((n, parts, d))
    if kind == "scaled":
        gradients *= 10.0 ** rng.uniform(-4, 4)
    elif kind == "spread":
        gradients *= 10.0 ** rng.uniform(-3, 3, d)
    elif kind == "repeated":
        gradients = gradients[rng.integers(0, max(2, n // 3) if n > 1 else 1, n)]
    elif kind == "whole":
        gradients = rng.integers(-1, 2, (n, parts, d)).astype(np.float64)
    heights = rng.random((n, parts)) * 10.0 ** rng.choice([0.0, rng.uniform(-3, 3)])
    offsets = heights - np.einsum("npd,nd->np", gradients, rng.standard_normal((n, d)))
    gradients = np.concatenate(
        [np.zeros((1, parts, d)), gradients, gradients[: n // 2] if kind == "repeated" else gradients[:0]]
    )
    offsets = np.concatenate([np.zeros((1, parts)), offsets, offsets[: n // 2] if kind == "repeated" else offsets[:0]])
    planes = Planes(gradients.reshape(-1, d), offsets.ravel(), np.tile(np.arange(parts), len(gradients)))
    signs = rng.integers(-1, 2, d) if rng.random() < 0.5 else None
    center = rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 4) if rng.random() < 0.5 else None
    return planes, 10.0 ** rng.uniform(-6, 8), center, signs


@given(seed=st.integers(0, 10**9))
@example(seed=346)  # the interior points are far off for their first steps
@example(seed=988)
@example(seed=1491)  # rounding errors end them early
def test_there_is_no_gap_in_extreme_units(seed):
    planes, C, center, signs = extreme_program(seed)
    assert_no_gap(planes, C, center, signs, at_most=1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_the_minimum_is_the_one_that_clarabel_finds(seed):
    rng = np.random.default_rng(seed)
    d, parts, n, C = (
        int(rng.integers(1, 8)),
        int(rng.integers(1, 4)),
        int(rng.integers(2, 8)),
        10.0 ** rng.uniform(-2, 2),
    )
    planes = Planes(rng.standard_normal((n * parts, d)), rng.standard_normal(n * parts), np.tile(np.arange(parts), n))
    center, signs = rng.standard_normal(d), rng.integers(-1, 2, d)
    theta, slack = cp.Variable(d), cp.Variable(parts)
    constraints = [planes.offsets + planes.gradients @ theta <= slack[planes.owners], cp.multiply(signs, theta) >= 0]
    objective = 0.5 * cp.sum_squares(theta - center) + C * cp.sum(slack)
    theirs = cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    minimum = minimize_planes(planes, C, center=center, signs=signs)
    assert minimum.bound == pytest.approx(theirs, rel=1e-6, abs=1e-6)
    assert minimum.theta == pytest.approx(theta.value, rel=1e-4, abs=1e-4)


@given(seed=st.integers(0, 10**9), share=st.sampled_from([1e-2, 1e-5, 1e-9]))
def test_planes_that_come_and_go_leave_no_more_of_a_gap_than_is_enough(seed, share):
    """A program that begins where the last one ended, with planes, C and signs that change in between."""
    rng = np.random.default_rng(seed)
    d, parts = int(rng.choice([2, 5, 40])), int(rng.choice([1, 3, 10]))
    model, scale = PlaneModel(d), 10.0 ** rng.uniform(-2, 2)
    center = rng.standard_normal(d) if rng.random() < 0.5 else None
    middle = np.zeros(d) if center is None else center
    for _ in range(int(rng.integers(2, 9))):
        C, signs = 10.0 ** rng.uniform(-2, 4), rng.integers(-1, 2, d) if rng.random() < 0.5 else None
        gradients = scale * rng.standard_normal((parts, d))
        model.add(rng.standard_normal(d), rng.random(parts), gradients * (rng.random((parts, d)) < 0.7))
        planes = Planes(model.gradients, model.offsets, model.owners)
        exact = minimize_planes(planes, C, center=center, signs=signs)
        size = abs(exact.bound) + C * np.abs(planes.offsets).max() + C * np.abs(planes.gradients @ middle).max()
        theta, bound = model.minimize(C, center, signs, max_gap=share * size)
        value = value_at(theta, planes, C, middle)
        assert signs is None or (signs * theta >= 0).all()
        assert bound <= exact.bound + 1e-9 * size
        assert value - bound <= share * size + 1e-12 * size
        model.prune(3)


@given(seed=st.integers(0, 10**9), share=st.sampled_from([1e-2, 1e-5, 1e-9]))
def test_compiled_interior_points_leave_no_more_of_a_gap_than_is_enough_in_extreme_units(seed, share):
    planes, C, center, _ = extreme_program(seed)
    alpha = C * np.random.default_rng(seed).random(len(planes.owners))
    exact = minimize_planes(planes, C, center=center)
    middle = np.zeros(planes.gradients.shape[1]) if center is None else center
    size = abs(exact.bound) + C * np.abs(planes.offsets).max() + C * np.abs(planes.gradients @ middle).max()
    minimum = minimize_planes(planes._replace(alpha=alpha), C, center=center, max_gap=share * size)
    assert minimum.bound <= exact.bound + 1e-11 * size
    assert value_at(minimum.theta, planes, C, middle) - minimum.bound <= share * size + 1e-11 * size
    assert minimum.alpha.min() >= 0
    assert np.bincount(planes.owners, minimum.alpha) == pytest.approx(np.full(planes.owners.max() + 1, C))


def flat_program():
    """Planes 1 + θ, −θ and −3 of one part, and θ/2 of another, C = 2: minimal at θ = −½ with the value 1/8 + 1 − 1/2.

    The multipliers are ¾, 1¼, 0 and 2, since ¾ − 1¼ + ½·2 = ½ = −θ.
    """
    gradients, heights = np.array([[1.0], [0.5], [-1.0], [0.0]]), np.array([1.0, 0.0, 0.0, -3.0])
    return PlaneProgram.of(gradients, heights, np.array([0, 1, 0, 0]), 2.0, None, None)


def test_compiled_interior_points_by_hand():
    program = flat_program()
    point = InteriorPoint(program, program.feasible(np.ones(4)))
    assert point.gap > 0.1
    point.iterate(1e-10)
    assert 0.0 < point.gap <= 1e-10
    assert point.v.tolist() == pytest.approx([-0.5], abs=1e-6)
    assert point.multipliers().tolist() == pytest.approx([0.75, 2.0, 1.25, 0.0], abs=1e-6)
    touching = point.multipliers(active=2e-3)
    assert touching[3] == 0.0
    assert program.primal(point.v) == pytest.approx(0.625)
    assert program.dual(touching)[1] == pytest.approx(0.625)


@pytest.mark.parametrize(("n_steps", "n_slow"), [(1, 1), (1, 4), (2, 1)])
def test_a_slow_step_does_not_end_the_interior_points(n_steps, n_slow, monkeypatch):
    """Where calls take few steps, several in a row have to be slow before the active set takes over."""
    left = iter(range(n_slow))

    class Slow(InteriorPoint):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.n_steps = n_steps

        def iterate(self, target):
            return next(left, None) is not None or super().iterate(target)

    monkeypatch.setattr(plane_qp, "InteriorPoint", Slow)
    monkeypatch.setattr(plane_qp, "ActiveSet", None)  # would take over
    rng = np.random.default_rng(0)
    planes = Planes(rng.standard_normal((40, 8)), rng.random(40), np.arange(40) % 2)
    minimum = minimize_planes(planes, 1e3, max_gap=1e-6)
    assert value_at(minimum.theta, planes, 1e3, np.zeros(8)) - minimum.bound <= 1e-6


@pytest.mark.parametrize(("n_steps", "n_slow"), [(1, 5), (2, 2), (3, 1), (50, 1)])
def test_slow_steps_in_a_row_end_the_interior_points(n_steps, n_slow, monkeypatch):
    calls = []

    class Stuck(InteriorPoint):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.n_steps = n_steps

        def iterate(self, target):
            calls.append(target)
            return True

    monkeypatch.setattr(plane_qp, "InteriorPoint", Stuck)
    rng = np.random.default_rng(0)
    planes = Planes(rng.standard_normal((40, 8)), rng.random(40), np.arange(40) % 2)
    minimum = minimize_planes(planes, 1e3, max_gap=1e-6)
    assert len(calls) == n_slow
    assert value_at(minimum.theta, planes, 1e3, np.zeros(8)) - minimum.bound <= 1e-6


def test_compiled_interior_points_look_at_the_clock():
    """A large program is left after one step once the time is up, with a bound that holds."""
    rng = np.random.default_rng(0)
    planes = Planes(rng.standard_normal((3000, 250)), rng.random(3000), np.arange(3000) % 10, None, rng.random(3000))
    exact = minimize_planes(planes, 1e3, max_gap=1e-6)
    begun = time.perf_counter()
    late = minimize_planes(planes, 1e3, max_gap=1e-6, deadline=begun)
    assert late.bound < exact.bound - 1e-6
    assert value_at(late.theta, planes, 1e3, np.zeros(250)) > exact.bound + 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_the_dual_is_as_high_by_products_as_by_gradients(seed):
    rng = np.random.default_rng(seed)
    d, parts, n = int(rng.integers(3, 30)), int(rng.integers(1, 5)), int(rng.integers(2, 8))
    planes = Planes(rng.standard_normal((n * parts, d)), rng.standard_normal(n * parts), np.tile(np.arange(parts), n))
    C = 10.0 ** rng.uniform(-2, 3)
    alpha = rng.random(n * parts)
    alpha *= C / np.bincount(planes.owners, alpha)[planes.owners]
    gram = planes.gradients @ planes.gradients.T
    highest = maximize_dual(gram, planes.offsets - gram @ alpha, planes.owners, C, alpha, target=1e-9 * C)
    assert highest.min() >= 0
    assert np.bincount(planes.owners, highest) == pytest.approx(np.full(parts, C))
    reached = planes.offsets @ highest - 0.5 * highest @ gram @ highest
    bound = minimize_planes(planes, C).bound
    assert reached == pytest.approx(bound, abs=2e-9 * C)


@pytest.mark.parametrize("failing", ["none", "single", "all"])
def test_factors_in_float32_are_replaced_where_they_fail(failing, monkeypatch):
    """Planes 1 + θ₁ and θ₂, C = 2: both are as high where α = (3/2, 1/2)."""
    seen, cho_factor = [], scipy.linalg.cho_factor

    def factorize(matrix, **options):
        seen.append(matrix.dtype.name)
        if failing == "all" or (failing == "single" and matrix.dtype == np.float32):
            raise np.linalg.LinAlgError
        return cho_factor(matrix, **options)

    monkeypatch.setattr(scipy.linalg, "cho_factor", factorize)
    found = maximize_dual(np.eye(2), np.array([-1.0, 0.0]), np.array([0, 0]), 2.0, np.array([2.0, 0.0]), 1e-6)
    assert seen[0] == "float32"
    if failing == "all":
        assert found is None
        assert seen == ["float32", "float64"]
    else:
        assert found == pytest.approx([1.5, 0.5], abs=1e-3)
        assert (seen.count("float32") > 1) == (failing == "none")


def test_moves_between_two_planes_by_hand():
    """Planes 1 + θ and −θ, C = 2: all on the first gives θ = −2 and heights −1 and 2; ¾ moves, to where both are ½."""
    gram, alpha, heights = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([2.0, 0.0]), np.array([-1.0, 2.0])
    left = ascend_dual(gram, np.array([0, 1]), np.array([0, 2]), 2.0, 1e-12, 100, alpha, heights)
    assert left == pytest.approx(0.0, abs=1e-12)
    assert alpha.tolist() == pytest.approx([1.25, 0.75])
    assert heights.tolist() == pytest.approx([0.5, 0.5])


def test_multipliers_that_are_near_enough_are_kept(monkeypatch):
    """Planes 1 + θ and −θ, C = 2: multipliers 1.25 and 0.75 are the best, and 1.2 and 0.8 are worth .005 less."""

    def refuse(*_):
        raise AssertionError("interior points were asked")

    monkeypatch.setattr("marginrank.solvers.qp.plane_minimum.InteriorPoint", refuse)
    gradients, products = np.array([[1.0], [-1.0]]), GramMatrix(1)
    planes = Planes(gradients, np.array([1.0, 0.0]), np.array([0, 0]), products)
    for alpha in ([1.25, 0.75], [1.2, 0.8]):
        minimum = minimize_planes(planes._replace(alpha=np.array(alpha)), 2.0, max_gap=0.4)
        assert minimum.alpha.tolist() == pytest.approx(alpha)
        assert minimum.theta.tolist() == pytest.approx([alpha[1] - alpha[0]])
        assert minimum.bound == pytest.approx(alpha[0] - 0.5 * (alpha[0] - alpha[1]) ** 2)


def test_a_single_plane_per_part_needs_no_search():
    planes = Planes(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, 4.0]), np.array([0, 1]))
    theta, bound, alpha = minimize_planes(planes, 0.5, center=np.array([1.0, 1.0]))
    assert theta.tolist() == [0.5, 0.0]  # 1 − ½·1 and 1 − ½·2
    assert bound == pytest.approx(0.5 * (0.25 + 1.0) + 0.5 * (3.5 + 4.0))
    assert alpha.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", [1e-3, 1e-6])
def test_multipliers_are_raised_until_the_gap_is_closed_from_anywhere(seed, target):
    """With more entries of θ than planes, one quadratic is all there is to raise."""
    rng = np.random.default_rng(seed)
    n_parts, n, d, C = 8, 400, 500, 1e3
    gradients = rng.standard_normal((n, 20)) @ rng.standard_normal((20, d)) / 20 + 0.02 * rng.standard_normal((n, d))
    program = PlaneProgram.of(gradients, rng.random(n), np.arange(n) % n_parts, C, None, None)
    products = GramMatrix(d)
    alpha, active, _, values = next(ascend(program, products, program.feasible(rng.random(n)), target, np.inf))
    for multipliers in (alpha, active):
        assert (multipliers >= 0).all()
        np.testing.assert_allclose(np.bincount(program.owners, multipliers), C, rtol=1e-9)
    v, bound = program.dual(alpha)
    assert program.primal(v) - bound <= target
    np.testing.assert_allclose(values, program.values + gradients @ v, atol=1e-9)
    assert np.count_nonzero(active) <= np.count_nonzero(alpha)


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_gradients_go_with_the_multipliers_of_a_signed_dual(seed):
    rng = np.random.default_rng(seed)
    n_parts, n, d, C = 4, 60, 90, 50.0
    gradients, signs = rng.standard_normal((n, d)), rng.integers(-1, 2, d)
    program = PlaneProgram.of(gradients, rng.random(n), np.arange(n) % n_parts, C, rng.standard_normal(d), signs)
    products = GramMatrix(d)
    bounds = []
    for result in ascend(program, products, program.feasible(rng.random(n)), 1e-6, np.inf):
        assert result.gradient is not None
        np.testing.assert_allclose(result.gradient, result.alpha @ gradients, atol=1e-9 * C)
        v, bound = program.dual(result.alpha)
        np.testing.assert_allclose(result.values, program.values + gradients @ v, atol=1e-9 * C)
        bounds.append(bound)
    assert len(bounds) > 1
    assert np.all(np.diff(bounds) >= -1e-9 * abs(bounds[-1]))


def test_multipliers_from_before_close_the_gap_asked_for_where_little_can_be_gained(monkeypatch):
    """The minimum is next to the value at the middle, of which the precision is a share."""
    monkeypatch.setattr(plane_qp, "ActiveSet", None)  # would take over
    rng = np.random.default_rng(6)
    gradients = 1e-3 * rng.standard_normal((70, 80))
    offsets, owners = np.full(70, 1.0), np.arange(70) % 5
    products, alpha = GramMatrix(80), np.full(70, 1.0 / 14.0)
    planes = Planes(gradients, offsets, owners, products, alpha)
    minimum = minimize_planes(planes, 1.0, max_gap=1e-9, precision=1e-6)
    value = 0.5 * float(minimum.theta @ minimum.theta) + float(
        np.max((offsets + gradients @ minimum.theta).reshape(14, 5), axis=0).sum()
    )
    assert 0.0 <= value - minimum.bound <= 1e-9
    assert 5.0 - value > 1e-7
