"""The dual ascent for programs with more parameters than planes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.qp.plane_program import GramMatrix, PlaneProgram
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: Pair steps per plane before the interior point method takes over: many in a small program, where they are cheap.
_MAX_PAIR_STEPS: Final = 1000
_PAIR_STEPS: Final = 5
_SMALL: Final = 256
#: Updates of values of planes that take no longer than the smallest interior point method; a pair step updates all.
_CHEAP: Final = 3_000_000
#: Share of the gap asked for that is left to each quadratic of a dual that has several.
_QUADRATIC_GAP: Final = 0.3
#: Maximum number of quadratics, one for each set of entries of θ that are 0.
_MAX_QUADRATICS: Final = 12
#: Distance from the maximum of its part, as a share of the range of all values, beyond which a plane is left out.
_FAR: Final = 0.005
#: Share of the largest multiplier of a plane with a gradient below which that of an interior point is negligible.
_NEGLIGIBLE: Final = 1e-3


class AscentResult(NamedTuple):
    """Multipliers, and the planes at the point that belongs to them.

    Args:
        alpha: The multipliers.
        active: Multipliers of the active planes alone, for which the dual may be slightly smaller.
        gradient: Σ α_k·gradient_k, if it is known.
        values: The values of the planes at the minimizer of the Lagrangian.
    """

    alpha: FloatArray
    active: FloatArray
    gradient: FloatArray | None
    values: FloatArray


def ascend(
    program: PlaneProgram, products: GramMatrix, alpha: FloatArray, target: float, deadline: float
) -> Iterator[AscentResult]:
    """Yield better and better multipliers; the caller stops when the gap is at most ``target``.

    The dual is quadratic in α as long as the same entries of θ are 0 by their sign. Each quadratic is maximized by
    itself, followed by a line search of the dual.
    """
    if program.all_free:
        gram = products.over(program.free, program.gradients)
        maximizer, active = _maximize_quadratic(program, gram, alpha, program.values - gram @ alpha, target, deadline)
        alpha = program.feasible(maximizer)
        yield AscentResult(alpha, alpha if active is maximizer else active, None, program.values - gram @ alpha)
        return
    gradient = alpha @ program.gradients
    v = program.project(-gradient)
    values = program.values_at(v)
    for _ in range(_MAX_QUADRATICS):
        gram = products.over(program.free | (v == -gradient), program.gradients)
        maximizer, active = _maximize_quadratic(program, gram, alpha, values, _QUADRATIC_GAP * target, deadline)
        change = maximizer - alpha
        step = program.step_size(gradient, change @ program.gradients, float(program.values @ change))
        if step <= 0.0 or not change.any():
            return
        alpha = program.feasible(alpha + step * change)
        # Summed from scratch: a bound must not contain the rounding errors of all steps.
        gradient = alpha @ program.gradients
        v = program.project(-gradient)
        values = program.values_at(v)
        yield AscentResult(alpha, alpha if active is maximizer or step < 1.0 else active, gradient, values)
        if time.perf_counter() > deadline:
            return


def _maximize_quadratic(
    program: PlaneProgram, gram: FloatArray, alpha: FloatArray, values: FloatArray, target: float, deadline: float
) -> tuple[FloatArray, FloatArray]:
    """Maximize one quadratic by pair steps (Platt, 1998), and if these are slow, by the interior point method.

    Returns the multipliers, and those of the active planes alone. Planes far below the maximum of their part have no
    multiplier at the maximum; if they turn out to have one, they are included.
    """
    from marginrank.solvers.qp.dual_ascent_kernel import ascend_dual  # noqa: PLC0415

    members, starts = program.by_part
    maximizer, reached, ends = alpha.copy(), values.copy(), np.append(starts, len(members))
    small = len(alpha) <= _SMALL
    n_steps = max(len(alpha) * (_MAX_PAIR_STEPS if small else _PAIR_STEPS), _CHEAP // len(alpha))
    gap = ascend_dual(gram, members, ends, program.C, target, n_steps, maximizer, reached)
    if gap <= target:
        return maximizer, maximizer
    for share in (_FAR,) if small else (_FAR, _FAR, 1.0):
        depth = program.maxima(reached)[program.owners] - reached
        near = np.flatnonzero((maximizer > 0) | (depth <= share * float(np.ptp(reached))))
        near_gram, owners = gram[np.ix_(near, near)], program.owners[near]
        near_alpha = maximize_dual(near_gram, reached[near], owners, program.C, maximizer[near], 0.5 * target, deadline)
        if near_alpha is None:
            return maximizer, maximizer
        maximizer = np.zeros_like(maximizer)
        maximizer[near] = near_alpha
        reached = values - gram @ (maximizer - alpha)
        if program.C * float(program.maxima(reached).sum()) - float(maximizer @ reached) <= target:
            break
    # An interior point has small multipliers on all planes: they go to the active planes.
    largest = float(maximizer[gram.diagonal() > 0.0].max(initial=0.0))
    active = program.feasible(np.where(maximizer > _NEGLIGIBLE * largest, maximizer, 0.0))
    reached = values - gram @ (active - alpha)
    gap = ascend_dual(gram, members, ends, program.C, target, n_steps, active, reached)
    return (active if small or gap <= target else maximizer), active


_MAX_STEPS: Final = 40
#: Share of the multipliers that is spread evenly over all planes at the start.
_SPREAD: Final = 0.05
#: Smallest entry added to the diagonal, as a share of the largest product, for which float32 is precise enough.
_SINGLE: Final = 1e-6


def maximize_dual(
    gram: FloatArray,
    values: FloatArray,
    owners: IntArray,
    C: float,
    alpha: FloatArray,
    target: float,
    deadline: float = np.inf,
) -> FloatArray | None:
    """Maximize values·Δ − ½ΔᵀKΔ over multipliers α + Δ ≥ 0 with the sum C in every part, to a gap of ``target``.

    The interior point method of `InteriorPoint` for few planes: a step factorizes a matrix of the size of ``gram``
    (Mehrotra, 1992), in float32 if it is well conditioned. Directions are then slightly less accurate, but slacks are
    computed from α in float64. Returns None if rounding errors or the deadline end it early.

    >>> K, values = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([-1.0, 0.0])   # of the planes 1 + θ₁ and θ₂
    >>> maximize_dual(K, values, np.array([0, 0]), 2.0, np.array([2.0, 0.0]), 1e-9).round(6).tolist()
    [1.5, 0.5]
    """
    n_parts = int(owners.max()) + 1
    linear = values + gram @ alpha
    # In units where the entries are near 1: min ½zᵀQz − q·z, with α = C·z and slacks s = ξ_owner − q + Qz.
    unit = max(C * float(np.ptp(linear)), C * C * float(gram.diagonal().max()), 1e-300)
    Q, q = gram * (C * C / unit), linear * (C / unit)
    members = owners == np.arange(n_parts)[:, None]
    z = (1.0 - _SPREAD) * alpha / C + _SPREAD / members.sum(axis=1)[owners]
    reached = q - Q @ z
    maxima = np.where(members, reached, -np.inf).max(axis=1)
    s = (maxima + float(maxima.sum() - z @ reached) / n_parts)[owners] - reached
    single: AnyArray | None = Q.astype(np.float32)
    for _ in range(_MAX_STEPS):
        if float(z @ s) * unit <= target:
            return np.asarray(C * z)
        if time.perf_counter() > deadline:
            return None
        if single is not None and (s / z).min() < _SINGLE * Q.diagonal().max():
            single = None
        try:
            dz, ds, step = _mehrotra_step(Q, Q if single is None else single, members, z, s)
        except np.linalg.LinAlgError:
            step = 0.0
        if not np.isfinite(step) or step < 1e-8:
            if single is None:
                return None
            single = None
            continue
        z, s = z + step * dz, s + step * ds
    return None


def _mehrotra_step(
    Q: FloatArray, rounded: AnyArray, members: BoolArray, z: FloatArray, s: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return the changes of z and s by a predictor and a corrector, and the step size.

    Systems are solved with Q as rounded; slacks follow from Q itself.
    """
    solve, owners, sums = _bordered(rounded, members, s / z), members.argmax(axis=0), members @ z

    def direction(products: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Newton's direction for given changes of the products z·s."""
        dz, d_xi = solve(products / z)
        # Remove rounding errors from the sum of each part, in proportion to z.
        dz -= z * (members @ dz / sums)[owners]
        return dz, d_xi[owners] + Q @ dz

    gap = float(z @ s)
    dz, ds = direction(-z * s)
    step = _max_step(z, dz, s, ds)
    ahead = float((z + step * dz) @ (s + step * ds))
    dz, ds = direction((ahead / gap) ** 3 * gap / len(z) - z * s - dz * ds)
    return dz, ds, 0.995 * _max_step(z, dz, s, ds)


def _bordered(
    Q: AnyArray, members: BoolArray, diagonal: FloatArray
) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """Return a function that solves (Q + diagonal)·x + membersᵀ·y = right, members·x = 0, in the dtype of Q."""
    from scipy.linalg import cho_factor, solve_triangular  # noqa: PLC0415

    # In Fortran's order, which SciPy factorizes without a copy.
    system = Q.copy().T
    system[np.diag_indices(len(Q))] += diagonal
    lower, _ = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)

    def forward(right: AnyArray) -> AnyArray:
        return np.asarray(solve_triangular(lower, right.astype(Q.dtype), lower=True, check_finite=False))

    border = forward(members.T)
    schur = (border.T @ border).astype(np.float64)

    def solve(right: FloatArray) -> tuple[FloatArray, FloatArray]:
        half = forward(right)
        y = np.linalg.solve(schur, border.T @ half)
        x = solve_triangular(lower, half - border @ y.astype(Q.dtype), lower=True, trans="T", check_finite=False)
        return x.astype(np.float64), y

    return solve


def _max_step(z: FloatArray, dz: FloatArray, s: FloatArray, ds: FloatArray) -> float:
    """Return the largest step size, at most 1, that keeps z and s nonnegative."""
    fastest = max(float((-dz / z).max()), float((-ds / s).max()))
    return 1.0 / fastest if fastest > 1.0 else 1.0
