"""Steps of the interior point method."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Smallest step size.
_SHORTEST = 1e-8


@njit()
def interior_steps(G, starts, signs, v, s, z, target, max_steps):  # type: ignore[no-untyped-def]
    """Move v, slacks s and multipliers z towards the minimum of ½‖v‖² + Σ_b max_{k of b} (value_k + g_k·v).

    The planes of part b are ``starts[b]`` to ``starts[b + 1]``; ``signs`` are the indices of the signed entries of v
    and their signs, whose slacks and multipliers follow those of the planes. All equations hold at the point, and so
    they do after each step. A step is Mehrotra's (1992), with a predictor and a corrector. Stops if s·z is at most
    ``target``; returns False if rounding errors allow no further step.
    """
    m, d = G.shape
    signed, sign = signs
    centered, w = np.empty((m, d)), np.empty(m)
    totals, products = np.empty(len(starts) - 1), np.empty(len(s))
    dv, ds, dz = np.empty(d), np.empty(len(s)), np.empty(len(s))
    for _ in range(max_steps):
        gap = 0.0
        for k in range(len(s)):
            gap += s[k] * z[k]
        if gap <= target:
            break
        _center(G, starts, s, z, w, totals, centered)
        # The Hessian is I + Σ_k w_k·(g_k − mean)(g_k − mean)ᵀ, and z/s more for signed entries.
        hessian = np.dot(centered.T, centered)
        for i in range(d):
            hessian[i, i] += 1.0
        for j in range(len(signed)):
            hessian[signed[j], signed[j]] += z[m + j] / s[m + j]
        upper = np.linalg.cholesky(hessian).T
        mean_product, step = 0.0, 0.0
        for corrects in range(2):
            for k in range(len(s)):
                products[k] = mean_product - s[k] * z[k] - (ds[k] * dz[k] if corrects else 0.0)
            _right_side(G, starts, w, totals, products, s, dv)
            for j in range(len(signed)):
                dv[signed[j]] += sign[j] * products[m + j] / s[m + j]
            _solve(upper, dv)
            _slack_changes(G, starts, w, totals, products, s, dv, ds)
            for j in range(len(signed)):
                ds[m + j] = sign[j] * dv[signed[j]]
            step, ahead = 1.0, 0.0
            for k in range(len(s)):
                dz[k] = (products[k] - z[k] * ds[k]) / s[k]
                step = max(step, -ds[k] / s[k], -dz[k] / z[k])
            step = 1.0 / step
            for k in range(len(s)):
                ahead += (s[k] + step * ds[k]) * (z[k] + step * dz[k])
            mean_product = (ahead / gap) ** 3 * gap / len(s)
        step *= 0.995
        if not step >= _SHORTEST:
            return False
        for k in range(len(s)):
            s[k] += step * ds[k]
            z[k] += step * dz[k]
        for i in range(d):
            v[i] += step * dv[i]
    return True


@njit()
def _center(G, starts, s, z, w, totals, centered):  # type: ignore[no-untyped-def]
    """Weights w = z/s, their sum in each part, and √w times the gradients minus the weighted mean of their part."""
    d = G.shape[1]
    mean = np.empty(d)
    for part in range(len(starts) - 1):
        mean[:] = 0.0
        total = 0.0
        for k in range(starts[part], starts[part + 1]):
            w[k] = z[k] / s[k]
            total += w[k]
            for i in range(d):
                mean[i] += w[k] * G[k, i]
        totals[part] = total
        for k in range(starts[part], starts[part + 1]):
            root = np.sqrt(w[k])
            for i in range(d):
                centered[k, i] = root * (G[k, i] - mean[i] / total)


@njit()
def _solve(upper, x):  # type: ignore[no-untyped-def]
    """Solve UᵀU·x = right, in place."""
    d = len(x)
    for i in range(d):
        x[i] /= upper[i, i]
        for j in range(i + 1, d):
            x[j] -= upper[i, j] * x[i]
    for i in range(d - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, d):
            total -= upper[i, j] * x[j]
        x[i] = total / upper[i, i]


@njit()
def _right_side(G, starts, w, totals, products, s, right):  # type: ignore[no-untyped-def]
    """The right side of Newton's equations for given changes of the products of slacks and multipliers."""
    right[:] = 0.0
    for part in range(len(starts) - 1):
        total = 0.0
        for k in range(starts[part], starts[part + 1]):
            total += products[k] / s[k]
        for k in range(starts[part], starts[part + 1]):
            factor = w[k] / totals[part] * total - products[k] / s[k]
            for i in range(len(right)):
                right[i] += factor * G[k, i]


@njit(fastmath={"reassoc"})
def _slack_changes(G, starts, w, totals, products, s, dv, ds):  # type: ignore[no-untyped-def]
    """Changes of the slacks of the planes with v."""
    for part in range(len(starts) - 1):
        rise = 0.0
        for k in range(starts[part], starts[part + 1]):
            change = 0.0
            for i in range(len(dv)):
                change += G[k, i] * dv[i]
            ds[k] = change
            rise += products[k] / s[k] + w[k] * change
        for k in range(starts[part], starts[part + 1]):
            ds[k] = rise / totals[part] - ds[k]
