"""Steps of interior points through the program of planes, for free θ of few entries."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Share of a step below which there is none.
_SHORTEST = 1e-8


@njit(nogil=True, cache=True)
def interior_steps(G, starts, v, s, z, target, most_steps):  # type: ignore[no-untyped-def]
    """Move v, slacks s and multipliers z towards the minimum of ½‖v‖² + Σ_b max_{k of b} (height_k + g_k·v).

    Planes of one part stand together: those of part b are ``starts[b]`` to ``starts[b + 1]``. The point meets all
    equations, v = −Σ z_k·g_k, Σ z_k = 1 in every part and s_k = ξ_b − height_k − g_k·v, and so do all that follow. A
    step is Mehrotra's (1992), with a predictor and a corrector. Stops where s·z is at most ``target`` or rounding
    errors allow no further step.
    """
    m, d = G.shape
    normal, centred, w = np.empty((d, d)), np.empty((m, d)), np.empty(m)
    totals, products = np.empty(len(starts) - 1), np.empty(m)
    dv, ds, dz = np.empty(d), np.empty(m), np.empty(m)
    for _ in range(most_steps):
        gap = 0.0
        for k in range(m):
            gap += s[k] * z[k]
        if gap <= target:
            break
        _centre(G, starts, s, z, w, totals, centred)
        # The Hessian is I + Σ_k w_k·(g_k − mean)(g_k − mean)ᵀ.
        np.dot(centred.T, centred, normal)
        if not _factorize(normal):
            break
        share, far = 0.0, 0.0
        for corrects in range(2):
            for k in range(m):
                products[k] = share - s[k] * z[k] - (ds[k] * dz[k] if corrects else 0.0)
            _pull(G, starts, w, totals, products, s, dv)
            _solve(normal, dv)
            _move(G, starts, w, totals, products, s, z, dv, ds, dz)
            far, ahead = 1.0, 0.0
            for k in range(m):
                far = max(far, -ds[k] / s[k], -dz[k] / z[k])
            far = 1.0 / far
            for k in range(m):
                ahead += (s[k] + far * ds[k]) * (z[k] + far * dz[k])
            share = (ahead / gap) ** 3 * gap / m
        far *= 0.995
        if not far >= _SHORTEST:
            break
        for k in range(m):
            s[k] += far * ds[k]
            z[k] += far * dz[k]
        for i in range(d):
            v[i] += far * dv[i]


@njit(nogil=True, cache=True)
def _centre(G, starts, s, z, w, totals, centred):  # type: ignore[no-untyped-def]
    """Weights w = z/s, their sum in each part, and √w times the slopes less the weighted mean of their part."""
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
                centred[k, i] = root * (G[k, i] - mean[i] / total)


@njit(nogil=True, cache=True)
def _factorize(normal):  # type: ignore[no-untyped-def]
    """Replace the upper half of N by Cholesky's factor U, with UᵀU = I + N; False where rounding errors leave none."""
    d = len(normal)
    for i in range(d):
        normal[i, i] += 1.0
    for k in range(d):
        pivot = normal[k, k]
        if not pivot > 0.0:
            return False
        root = np.sqrt(pivot)
        for j in range(k, d):
            normal[k, j] /= root
        for i in range(k + 1, d):
            much = normal[k, i]
            for j in range(i, d):
                normal[i, j] -= much * normal[k, j]
    return True


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _pull(G, starts, w, totals, products, s, right):  # type: ignore[no-untyped-def]
    """The right side of Newton's equations, for products of slacks and multipliers that change by so much."""
    right[:] = 0.0
    for part in range(len(starts) - 1):
        total = 0.0
        for k in range(starts[part], starts[part + 1]):
            total += products[k] / s[k]
        for k in range(starts[part], starts[part + 1]):
            much = w[k] / totals[part] * total - products[k] / s[k]
            for i in range(len(right)):
                right[i] += much * G[k, i]


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _move(G, starts, w, totals, products, s, z, dv, ds, dz):  # type: ignore[no-untyped-def]
    """How slacks and multipliers change with v."""
    for part in range(len(starts) - 1):
        rise = 0.0
        for k in range(starts[part], starts[part + 1]):
            along = 0.0
            for i in range(len(dv)):
                along += G[k, i] * dv[i]
            ds[k] = along
            rise += products[k] / s[k] + w[k] * along
        for k in range(starts[part], starts[part + 1]):
            ds[k] = rise / totals[part] - ds[k]
            dz[k] = (products[k] - z[k] * ds[k]) / s[k]
