"""A small concave quadratic program over a simplex, to full precision."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from marginrank.typing import FloatArray

_MOST_STEPS = 100


def maximize_on_simplex(gram: FloatArray, slope: FloatArray, total: float) -> FloatArray:
    """Maximise slope·α − ½ αᵀ·gram·α over α ≥ 0, Σα = total, by a primal-dual interior point method (Mehrotra 1992).

    >>> maximize_on_simplex(np.eye(2), np.array([1.0, 0.0]), 2.0).round(8).tolist()
    [1.5, 0.5]
    """
    n = len(slope)
    if n == 1:
        return np.array([total])
    # In units where the entries of the problem are near 1, so that tolerances mean the same for every C.
    scale = max(float(np.abs(slope).max()), total * float(np.abs(gram).max()), 1e-300)
    G, b = gram * (total / scale), slope / scale
    x, z = np.full(n, 1.0 / n), np.ones(n)
    nu = float(np.mean(z + b - G @ x))
    for _ in range(_MOST_STEPS):
        dual_residual = G @ x - b + nu - z
        primal_residual = float(x.sum()) - 1.0
        mu = float(x @ z) / n
        if mu < 1e-15 and np.abs(dual_residual).max() < 1e-13 and abs(primal_residual) < 1e-13:
            break
        factor = cho_factor(G + np.diag(z / x), lower=True)
        ones = cho_solve(factor, np.ones(n))

        def direction(
            target: FloatArray,
            factor: tuple[FloatArray, bool] = factor,
            ones: FloatArray = ones,
            residuals: tuple[FloatArray, float] = (dual_residual, primal_residual),
            at: tuple[FloatArray, FloatArray] = (x, z),
        ) -> tuple[FloatArray, float, FloatArray]:
            right = -residuals[0] + (target - at[0] * at[1]) / at[0]
            free = cho_solve(factor, right)
            d_nu = (float(free.sum()) + residuals[1]) / float(ones.sum())
            dx = free - d_nu * ones
            return dx, d_nu, (target - at[0] * at[1] - at[1] * dx) / at[0]

        dx, _, dz = direction(np.zeros(n))
        reach = min(_longest(x, dx), _longest(z, dz))
        ahead = float((x + reach * dx) @ (z + reach * dz)) / n
        dx, d_nu, dz = direction((ahead / mu) ** 3 * mu - dx * dz)
        reach = 0.995 * min(_longest(x, dx), _longest(z, dz))
        x, z, nu = x + reach * dx, z + reach * dz, nu + reach * d_nu
    x = np.maximum(x, 0.0)
    return np.asarray(total * x / x.sum())


def _longest(x: FloatArray, dx: FloatArray) -> float:
    """Longest step, at most 1, that leaves all of x above 0."""
    falling = dx < 0
    return min(1.0, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0
