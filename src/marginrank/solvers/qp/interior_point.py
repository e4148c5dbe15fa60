"""Interior points of the quadratic program of planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

import numpy as np

from marginrank.runtime.cholesky import Cholesky
from marginrank.solvers.qp.active_set import ActiveSet
from marginrank.solvers.qp.plane_program import PlaneProgram
from marginrank.typing import FloatArray

Solve: TypeAlias = Callable[[FloatArray], FloatArray]
#: Share of the multipliers that is spread over all planes alike; the others begin where they are told to.
_SPREAD: Final = 0.02
#: Least slack to begin with, in units where the heights are near 1.
_LEAST_SLACK: Final = 1e-12
#: Share of a part below which a plane holds up nothing, where the gap is not closed to the end.
_HELD: Final = 2e-3
#: Work between two looks at the clock: steps, times planes, times the square of the entries of θ.
_STEPS: Final = 100_000_000


class InteriorPoint:
    """A point between the constraints of a program, with a step towards its minimum.

    In units where the entries are near 1: min ½‖v‖² + Σ_b ξ_b with t = ξ_owner − height − G·v ≥ 0, and
    u = sign·v + origin ≥ 0 on the signed entries; α and μ are the multipliers. The step is Mehrotra's (1992), with a
    predictor and a corrector. Slacks (t, u) and multipliers (α, μ) are kept as two vectors.

    Args:
        program: The program.
        gram: Products of all slopes, where they are known; used where there are fewer planes than slopes.
        begin: Multipliers of the planes near the maximum, to begin from where there are no signs.
    """

    def __init__(self, program: PlaneProgram, gram: FloatArray | None, begin: FloatArray | None = None) -> None:
        C, owners, n_parts = program.C, program.owners, program.n_parts
        self.program, self.owners, self.n_parts = program, owners, n_parts
        self.signed = np.flatnonzero(program.signs)
        self.sign = program.signs[self.signed].astype(np.float64)
        reach = np.einsum("ij,ij->i", program.slopes, program.slopes).max(initial=0.0)
        far = float(np.abs(program.middle[self.signed]).max(initial=0.0)) / C
        unit = max(float(np.ptp(program.heights)) / C, float(reach), far**2, 1e-300)
        self.length = np.sqrt(unit)
        self.G, self.heights = program.slopes / self.length, program.heights / (C * unit)
        self.gram = gram / unit if gram is not None and len(gram) < self.G.shape[1] else None
        self.members = (owners == np.arange(n_parts)[:, None]).astype(np.float64)
        self.origin = self.sign * program.middle[self.signed] / (C * self.length)
        self.v = np.zeros(self.G.shape[1])
        self.xi = program.tops(self.heights) + 1.0
        t, u = self.xi[owners] - self.heights, np.maximum(self.origin, 0.0) + 1.0
        alpha = 1.0 / np.bincount(owners, minlength=n_parts)[owners]
        self.slacks, self.multipliers = np.concatenate([t, u]), np.concatenate([alpha, np.ones(len(u))])
        if begin is not None and not len(self.signed):
            self._begin_near(begin / C)

    def _begin_near(self, alpha: FloatArray) -> None:
        """Begin at the point of multipliers, with slacks that leave each part about the same share of the gap."""
        alpha = (1.0 - _SPREAD) * alpha + _SPREAD * self.multipliers
        self.v = -(alpha @ self.G)
        at = self.heights + self.G @ self.v
        tops = self.program.tops(at)
        self.xi = tops + max(float(tops.sum() - alpha @ at) / self.n_parts, _LEAST_SLACK)
        self.slacks, self.multipliers = self.xi[self.owners] - at, alpha

    @property
    def complementarity(self) -> float:
        """Return t·α + u·μ, which falls to 0."""
        return float(self.slacks @ self.multipliers)

    def away(self) -> FloatArray:
        """Return the point in the units of the program."""
        return np.asarray(self.program.C * self.length * self.v)

    def plane_multipliers(self) -> FloatArray:
        """Return the multipliers of the planes in the units of the program."""
        return self.program.balanced(self.multipliers[: len(self.owners)])

    def touching(self) -> ActiveSet:
        """Return the planes and signs that seem to hold with equality, and their multipliers."""
        m = len(self.owners)
        touch = self.multipliers > self.slacks
        zeros, mu = np.zeros(len(self.v), dtype=np.bool_), np.zeros(len(self.v))
        zeros[self.signed] = touch[m:]
        mu[self.signed] = self.program.C * self.length * self.multipliers[m:]
        return ActiveSet(self.program, touch[:m], zeros, self.program.C * self.multipliers[:m], mu)

    def step(self) -> bool:
        """Predict, correct and move; False where the arithmetic allows no further step."""
        m, owners, G = len(self.owners), self.owners, self.G
        s, z = self.slacks, self.multipliers
        of_v = self.v + z[:m] @ G
        of_sums = self._sums(z[:m]) - 1.0
        of_planes = s[:m] - (self.xi[owners] - self.heights - G @ self.v)
        residual = of_planes
        stiffness = np.ones(G.shape[1])
        ratio = z / s
        if len(self.signed):
            of_v[self.signed] -= self.sign * z[m:]
            residual = np.concatenate([of_planes, s[m:] - self.sign * self.v[self.signed] - self.origin])
            stiffness[self.signed] += ratio[m:]
        weights = ratio[:m]
        totals = self._sums(weights)
        shares = weights / totals[owners]
        try:
            solve = self._system(stiffness, weights, shares)
        except np.linalg.LinAlgError:
            return False

        def direction(products: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
            """Newton's step towards products of slacks and multipliers that differ from today's by these amounts."""
            pull = products / s + ratio * residual
            parts = of_sums + self._sums(pull[:m])
            right = (shares * parts[owners] - pull[:m]) @ G - of_v
            if len(self.signed):
                right[self.signed] += self.sign * pull[m:]
            dv = solve(right)
            along = G @ dv
            d_xi = parts / totals + self._sums(shares * along)
            ds = d_xi[owners] - along
            if len(self.signed):
                ds = np.concatenate([ds, self.sign * dv[self.signed]])
            ds -= residual
            return dv, d_xi, ds, (products - z * ds) / s

        now = s * z
        gap = float(now.mean())
        _, _, ds, dz = direction(-now)
        far = _longest(s, ds, z, dz)
        ahead = float((s + far * ds) @ (z + far * dz)) / len(s)
        target = (ahead / gap) ** 3 * gap if gap > 0 else 0.0
        dv, d_xi, ds, dz = direction(target - now - ds * dz)
        far = 0.995 * _longest(s, ds, z, dz)
        if not np.isfinite(far) or far < 1e-8:
            return False
        self.v, self.xi = self.v + far * dv, self.xi + far * d_xi
        self.slacks, self.multipliers = s + far * ds, z + far * dz
        return True

    def _system(self, stiffness: FloatArray, weights: FloatArray, shares: FloatArray) -> Solve:
        """Factorise diag(stiffness) + Σ_k weight_k (g_k − mean)(g_k − mean)ᵀ, with the weighted mean of each part."""
        m, d = self.G.shape
        if d <= m:
            centred = np.sqrt(weights)[:, None] * (self.G - self._means(shares, self.G)[self.owners])
            normal = centred.T @ centred
            normal.flat[:: d + 1] += stiffness
            return Cholesky(normal).solve
        centred = self.G - self._means(shares, self.G)[self.owners]
        if self.gram is not None and len(self.signed) == 0:
            half = self.gram - self._means(shares, self.gram)[self.owners]
            inner = half - self._means(shares, np.ascontiguousarray(half.T)).T[:, self.owners]
        else:
            inner = (centred / stiffness) @ centred.T
        root = np.sqrt(weights)
        dual = root[:, None] * inner * root
        dual.flat[:: m + 1] += 1.0
        solve_dual = Cholesky(np.ascontiguousarray(dual)).solve

        def solve(right: FloatArray) -> FloatArray:
            scaled = right / stiffness
            inside = root * solve_dual(root * (centred @ scaled))
            return np.asarray(scaled - (inside @ centred) / stiffness)

        return solve

    def _sums(self, values: FloatArray) -> FloatArray:
        """Sum up by part."""
        return cast("FloatArray", np.bincount(self.owners, values, self.n_parts))

    def _means(self, shares: FloatArray, rows: FloatArray) -> FloatArray:
        return np.asarray((self.members * shares) @ rows)


class FlatPoint:
    """The same for free θ of few entries, in compiled code.

    Every point meets all equations, so there is nothing to bring down but the products of slacks and multipliers.

    Args:
        program: The program.
        begin: Multipliers of the planes near the maximum.
    """

    def __init__(self, program: PlaneProgram, begin: FloatArray) -> None:
        self.program = program
        self._order, starts = program.by_part
        self._starts = np.append(starts, len(self._order))
        sizes = np.diff(self._starts)
        G = program.slopes[self._order]
        reach = float(np.einsum("ij,ij->i", G, G).max(initial=0.0))
        unit = max(float(np.ptp(program.heights)) / program.C, reach, 1e-300)
        self._length, self._gap_unit = np.sqrt(unit), unit * program.C**2
        self._G = G / self._length
        self._z = (1.0 - _SPREAD) * begin[self._order] / program.C + _SPREAD / np.repeat(sizes, sizes)
        self._v = -(self._z @ self._G)
        at = program.heights[self._order] / (program.C * unit) + self._G @ self._v
        tops = np.maximum.reduceat(at, starts)
        slack = max(float(tops.sum() - self._z @ at) / len(sizes), _LEAST_SLACK)
        self._s = np.repeat(tops + slack, sizes) - at

    @property
    def gap(self) -> float:
        """Slacks times multipliers, in the units of the program."""
        return self._gap_unit * float(self._s @ self._z)

    def follow(self, target: float) -> None:
        """Take some steps, fewer where the gap comes to the target or rounding errors allow no more."""
        from marginrank.solvers.qp.interior_point_kernel import interior_steps  # noqa: PLC0415

        m, d = self._G.shape
        n_steps = 1 + _STEPS // (m * d * d)
        interior_steps(self._G, self._starts, self._v, self._s, self._z, target / self._gap_unit, n_steps)

    def away(self) -> FloatArray:
        """Return the point in the units of the program."""
        return np.asarray(self.program.C * self._length * self._v)

    def plane_multipliers(self, *, touching: bool = False) -> FloatArray:
        """Return the multipliers in the units of the program, of all planes or of those that seem to touch."""
        alpha, touch = np.empty_like(self._z), self._z > np.maximum(self._s, _HELD)
        alpha[self._order] = np.where(touch, self._z, 0.0) if touching else self._z
        return self.program.balanced(self.program.C * alpha)


def _longest(s: FloatArray, ds: FloatArray, z: FloatArray, dz: FloatArray) -> float:
    """Longest step, at most 1, that leaves all of s and z above 0."""
    with np.errstate(over="ignore"):
        fastest = max(float((-ds / s).max()), float((-dz / z).max()))
    return 1.0 / fastest if fastest > 1.0 else 1.0
