"""Interior points of the quadratic program of planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from marginrank.solvers.plane_program import PlaneProgram
from marginrank.solvers.plane_vertex import ActiveSet
from marginrank.typing import FloatArray

Solve: TypeAlias = Callable[[FloatArray], FloatArray]


class InteriorPoint:
    """A point between the constraints of a program, with a step towards its minimum.

    In units where the entries are near 1: min ½‖v‖² + Σ_b ξ_b with t = ξ_owner − height − G·v ≥ 0, and
    u = sign·v + origin ≥ 0 on the signed entries; α and μ are the multipliers. The step is Mehrotra's (1992), with a
    predictor and a corrector.
    """

    def __init__(self, program: PlaneProgram, gram: FloatArray | None) -> None:
        C, owners, n_parts = program.C, program.owners, program.n_parts
        self.program, self.owners, self.n_parts = program, owners, n_parts
        self.signed = np.flatnonzero(program.signs)
        self.sign = program.signs[self.signed].astype(np.float64)
        reach = np.einsum("ij,ij->i", program.slopes, program.slopes).max(initial=0.0)
        far = float(np.abs(program.middle[self.signed]).max(initial=0.0)) / C
        unit = max(float(np.ptp(program.heights)) / C, float(reach), far**2, 1e-300)
        self.length = np.sqrt(unit)
        self.G, self.heights = program.slopes / self.length, program.heights / (C * unit)
        self.gram = None if gram is None else gram / unit
        self.members = (owners == np.arange(n_parts)[:, None]).astype(np.float64)
        self.origin = self.sign * program.middle[self.signed] / (C * self.length)
        self.v = np.zeros(self.G.shape[1])
        self.xi = np.full(n_parts, -np.inf)
        np.maximum.at(self.xi, owners, self.heights)
        self.xi += 1.0
        self.t = self.xi[owners] - self.heights
        self.alpha = 1.0 / np.bincount(owners, minlength=n_parts)[owners]
        self.u, self.mu = np.maximum(self.origin, 0.0) + 1.0, np.ones(len(self.signed))

    @property
    def complementarity(self) -> float:
        """Return t·α + u·μ, which falls to 0."""
        return float(self.t @ self.alpha + self.u @ self.mu)

    def away(self) -> FloatArray:
        """Return the point in the units of the program."""
        return np.asarray(self.program.C * self.length * self.v)

    def multipliers(self) -> FloatArray:
        """Return the multipliers of the planes in the units of the program."""
        return self.program.balanced(self.alpha)

    def touching(self) -> ActiveSet:
        """Return the planes and signs that seem to hold with equality, and their multipliers."""
        zeros, mu = np.zeros(len(self.v), dtype=np.bool_), np.zeros(len(self.v))
        zeros[self.signed] = self.mu > self.u
        mu[self.signed] = self.program.C * self.length * self.mu
        return ActiveSet(self.program, self.alpha > self.t, zeros, self.program.C * self.alpha, mu)

    def _residuals(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        of_v = self.v + self.alpha @ self.G
        of_v[self.signed] -= self.sign * self.mu
        of_sums = np.asarray(np.bincount(self.owners, self.alpha, minlength=self.n_parts) - 1.0, dtype=np.float64)
        of_planes = self.t - (self.xi[self.owners] - self.heights - self.G @ self.v)
        of_signs = self.u - self.sign * self.v[self.signed] - self.origin
        return of_v, of_sums, of_planes, of_signs

    def step(self) -> bool:
        """Predict, correct and move; False where the arithmetic allows no further step."""
        of_v, of_sums, of_planes, of_signs = self._residuals()
        weights = self.alpha / self.t
        stiffness = np.ones(self.G.shape[1])
        stiffness[self.signed] += self.mu / self.u
        totals = np.bincount(self.owners, weights, minlength=self.n_parts)
        shares = weights / totals[self.owners]
        try:
            solve = self._system(stiffness, weights, shares)
        except np.linalg.LinAlgError:
            return False

        def direction(planes: FloatArray, bounds: FloatArray) -> tuple[FloatArray, ...]:
            """Newton's step towards products t·α and u·μ that differ from today's by the amounts given."""
            pull = planes / self.t + weights * of_planes
            lift = bounds / self.u + self.mu / self.u * of_signs
            parts = of_sums + np.bincount(self.owners, pull, minlength=self.n_parts)
            right = -of_v - pull @ self.G + (shares * parts[self.owners]) @ self.G
            right[self.signed] += self.sign * lift
            dv = solve(right)
            along = self.G @ dv
            d_xi = parts / totals + np.bincount(self.owners, shares * along, minlength=self.n_parts)
            dt = -of_planes + d_xi[self.owners] - along
            du = -of_signs + self.sign * dv[self.signed]
            return dv, d_xi, dt, (planes - self.alpha * dt) / self.t, du, (bounds - self.mu * du) / self.u

        count = len(self.t) + len(self.u)
        gap = self.complementarity / count
        _, _, dt, da, du, dm = direction(-self.t * self.alpha, -self.u * self.mu)
        far = min(_longest(self.t, dt), _longest(self.alpha, da), _longest(self.u, du), _longest(self.mu, dm))
        ahead = float((self.t + far * dt) @ (self.alpha + far * da) + (self.u + far * du) @ (self.mu + far * dm))
        target = (ahead / count / gap) ** 3 * gap if gap > 0 else 0.0
        dv, d_xi, dt, da, du, dm = direction(
            target - self.t * self.alpha - dt * da, target - self.u * self.mu - du * dm
        )
        far = 0.995 * min(_longest(self.t, dt), _longest(self.alpha, da), _longest(self.u, du), _longest(self.mu, dm))
        if not np.isfinite(far) or far < 1e-8:
            return False
        self.v, self.xi = self.v + far * dv, self.xi + far * d_xi
        self.t, self.alpha = self.t + far * dt, self.alpha + far * da
        self.u, self.mu = self.u + far * du, self.mu + far * dm
        return True

    def _system(self, stiffness: FloatArray, weights: FloatArray, shares: FloatArray) -> Solve:
        """Factorise diag(stiffness) + Σ_k weight_k (g_k − mean)(g_k − mean)ᵀ, with the weighted mean of each part."""
        m, d = self.G.shape
        if d <= m:
            centred = np.sqrt(weights)[:, None] * (self.G - self._means(shares, self.G)[self.owners])
            factor = cho_factor(centred.T @ centred + np.diag(stiffness), lower=True, check_finite=False)
            return lambda right: np.asarray(cho_solve(factor, right, check_finite=False))
        centred = self.G - self._means(shares, self.G)[self.owners]
        if self.gram is not None and len(self.signed) == 0:
            half = self.gram - self._means(shares, self.gram)[self.owners]
            inner = half - self._means(shares, np.ascontiguousarray(half.T)).T[:, self.owners]
        else:
            inner = (centred / stiffness) @ centred.T
        root = np.sqrt(weights)
        dual = root[:, None] * inner * root + np.eye(m)
        factor = cho_factor(dual, lower=True, check_finite=False)

        def solve(right: FloatArray) -> FloatArray:
            scaled = right / stiffness
            inside = root * cho_solve(factor, root * (centred @ scaled), check_finite=False)
            return np.asarray(scaled - (inside @ centred) / stiffness)

        return solve

    def _means(self, shares: FloatArray, rows: FloatArray) -> FloatArray:
        return np.asarray((self.members * shares) @ rows)


def _longest(x: FloatArray, dx: FloatArray) -> float:
    """Longest step, at most 1, that leaves all of x above 0."""
    falling = dx < 0
    with np.errstate(over="ignore"):
        return float((-x[falling] / dx[falling]).min(initial=1.0))
