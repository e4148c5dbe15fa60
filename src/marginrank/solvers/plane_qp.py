"""The least of a regulariser plus maxima of planes, to full precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from marginrank.typing import FloatArray, IntArray

_MOST_STEPS: Final = 100
Solve: TypeAlias = Callable[[FloatArray], FloatArray]


def least_of_planes(
    slopes: FloatArray,
    offsets: FloatArray,
    owners: IntArray,
    C: float,
    *,
    center: FloatArray | None = None,
    signs: IntArray | None = None,
    gram: FloatArray | None = None,
    precision: float = 1e-13,
) -> tuple[FloatArray, float, FloatArray]:
    """Minimise ½‖θ − center‖² + C·Σ_b max_{k of b} (offset_k + slope_k·θ).

    Args:
        slopes: One row per plane.
        offsets: One number per plane.
        owners: The part b that each plane belongs to; every part has at least one plane.
        C: Weight of the maxima.
        center: Where the regulariser is least; 0 by default.
        signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
        gram: ``slopes @ slopes.T``, where it is known.
        precision: How near the bound must come to the minimum, as a share of it.

    Returns:
        The minimiser, a lower bound of the minimum, and how much each plane holds up: α ≥ 0 with the sum C in every
        part.

    A primal-dual interior point method with Mehrotra's (1992) corrector. A step costs m·d·min(m, d) for m planes of d
    slopes.

    >>> theta, bound, alpha = least_of_planes(np.eye(2), np.array([1.0, 0.0]), np.array([0, 0]), 2.0)
    >>> theta.round(6).tolist(), round(bound, 6), alpha.round(6).tolist()
    ([-1.5, -0.5], 0.25, [1.5, 0.5])
    """
    n_parts = int(owners.max()) + 1
    middle = np.zeros(slopes.shape[1]) if center is None else center
    signed = None if signs is None or not signs.any() else signs
    heights = offsets + slopes @ middle

    def inside(theta: FloatArray) -> FloatArray:
        return theta if signed is None else np.where(signed * theta < 0, 0.0, theta)

    def dual(alpha: FloatArray) -> tuple[FloatArray, float]:
        """The least of the Lagrangian, which is below the minimum whatever α is, and where it is."""
        pull = alpha @ slopes
        theta = inside(middle - pull)
        away = theta - middle
        return theta, float(heights @ alpha) + 0.5 * float(away @ away) + float(pull @ away)

    def primal(theta: FloatArray) -> float:
        away, tops = theta - middle, np.full(n_parts, -np.inf)
        np.maximum.at(tops, owners, heights + slopes @ away)
        return 0.5 * float(away @ away) + C * float(tops.sum())

    if len(owners) == n_parts:
        alpha = np.full(n_parts, C)
        return *dual(alpha), alpha
    # In units where the entries of the problem are near 1, so that tolerances mean the same for every C.
    reach = np.einsum("ij,ij->i", slopes, slopes).max(initial=0.0)
    far = 0.0 if signed is None else float(np.abs(middle).max(initial=0.0)) / C
    unit = max(float(np.ptp(heights)) / C, float(reach), far**2, 1e-300)
    length = np.sqrt(unit)
    point = _InteriorPoint(
        slopes / length,
        heights / (C * unit),
        owners,
        n_parts,
        None if signed is None else signed * middle / (C * length),
        signed,
        None if gram is None else gram / unit,
    )
    # Where slacks come near rounding error the multipliers get worse again, so the best of both sides are kept.
    best, value, bound, multipliers, worse = middle, np.inf, -np.inf, point.alpha, 0
    for _ in range(_MOST_STEPS):
        alpha = np.maximum(point.alpha, 0.0)
        alpha *= C / np.bincount(owners, alpha, minlength=n_parts)[owners]
        minimizer, below = dual(alpha)
        worse += 1
        if below > bound:
            bound, multipliers, worse = below, alpha, 0
        for theta in (minimizer, inside(middle + C * length * point.theta)):
            above = primal(theta)
            if above < value:
                best, value, worse = theta, above, 0
        if value - bound <= precision * abs(value) or worse > 5 or not point.step():
            break
    return best, bound, multipliers


class _InteriorPoint:
    """min ½‖θ‖² + Σ_b ξ_b with t = ξ_owner − height − G·θ ≥ 0 and u = sign·θ + origin ≥ 0 on the signed entries."""

    def __init__(
        self,
        G: FloatArray,
        heights: FloatArray,
        owners: IntArray,
        n_parts: int,
        origin: FloatArray | None,
        signs: IntArray | None,
        gram: FloatArray | None,
    ) -> None:
        self.G, self.heights, self.owners, self.n_parts, self.gram = G, heights, owners, n_parts, gram
        self.members = (owners == np.arange(n_parts)[:, None]).astype(np.float64)
        self.signed = np.zeros(0, dtype=np.int64) if signs is None else np.flatnonzero(signs)
        self.sign = np.zeros(0) if signs is None else signs[self.signed].astype(np.float64)
        self.origin = np.zeros(0) if origin is None else origin[self.signed]
        self.theta = np.zeros(G.shape[1])
        self.xi = np.full(n_parts, -np.inf)
        np.maximum.at(self.xi, owners, heights)
        self.xi += 1.0
        self.t = self.xi[owners] - heights
        self.alpha = 1.0 / np.bincount(owners, minlength=n_parts)[owners]
        self.u, self.mu = np.maximum(self.origin, 0.0) + 1.0, np.ones(len(self.signed))

    def _residuals(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        of_theta = self.theta + self.alpha @ self.G
        of_theta[self.signed] -= self.sign * self.mu
        of_sums = np.asarray(np.bincount(self.owners, self.alpha, minlength=self.n_parts) - 1.0, dtype=np.float64)
        of_planes = self.t - (self.xi[self.owners] - self.heights - self.G @ self.theta)
        of_signs = self.u - self.sign * self.theta[self.signed] - self.origin
        return of_theta, of_sums, of_planes, of_signs

    def step(self) -> bool:
        """Predict, correct and move; False where the arithmetic allows no further step."""
        of_theta, of_sums, of_planes, of_signs = self._residuals()
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
            right = -of_theta - pull @ self.G + (shares * parts[self.owners]) @ self.G
            right[self.signed] += self.sign * lift
            d_theta = solve(right)
            along = self.G @ d_theta
            d_xi = parts / totals + np.bincount(self.owners, shares * along, minlength=self.n_parts)
            dt = -of_planes + d_xi[self.owners] - along
            du = -of_signs + self.sign * d_theta[self.signed]
            return d_theta, d_xi, dt, (planes - self.alpha * dt) / self.t, du, (bounds - self.mu * du) / self.u

        count = len(self.t) + len(self.u)
        gap = float(self.t @ self.alpha + self.u @ self.mu) / count
        _, _, dt, da, du, dm = direction(-self.t * self.alpha, -self.u * self.mu)
        far = min(_longest(self.t, dt), _longest(self.alpha, da), _longest(self.u, du), _longest(self.mu, dm))
        ahead = float((self.t + far * dt) @ (self.alpha + far * da) + (self.u + far * du) @ (self.mu + far * dm))
        target = (ahead / count / gap) ** 3 * gap if gap > 0 else 0.0
        d_theta, d_xi, dt, da, du, dm = direction(
            target - self.t * self.alpha - dt * da, target - self.u * self.mu - du * dm
        )
        far = 0.995 * min(_longest(self.t, dt), _longest(self.alpha, da), _longest(self.u, du), _longest(self.mu, dm))
        if not np.isfinite(far) or far < 1e-8:
            return False
        self.theta, self.xi = self.theta + far * d_theta, self.xi + far * d_xi
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
    return min(1.0, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0
