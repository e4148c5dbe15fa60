"""Tests of paired differences and the interval of their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts load on first use; importing scipy.stats here would cost every import 0.6 s

from marginrank.typing import FloatArray

_ROUNDOFF = 1e-12


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Adjust p-values so that rejecting those below α makes any error with probability at most α.

    With ``p_(1) <= ... <= p_(m)``, ``p_(i)`` becomes ``max over j <= i of (m - j + 1) p_(j)``, at most 1:
    Holm, "A simple sequentially rejective multiple test procedure" (1979).

    >>> holm([0.04, 0.01, 0.03]).tolist()             # 3·0.01, then 2·0.03, then max(2·0.03, 1·0.04)
    [0.06, 0.03, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"p_values must be a list of numbers from 0 to 1, not {p_values!r}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order]))
    return adjusted


def p_t(d: FloatArray) -> float:
    """Student's paired t: 1 for one query or only zeros, and the limit 0 where all differences are equal."""
    if len(d) == 1 or not d.any():
        return 1.0
    return 0.0 if _is_constant(d) else float(scipy.stats.ttest_1samp(d, 0.0).pvalue)


def p_wilcoxon(d: FloatArray, grid: float) -> float:
    """Wilcoxon's signed-rank test without the zeros: 1 where nothing else is left."""
    # On a grid, because 0.3 - 0.2 and 0.2 - 0.1 must share a rank.
    steps = np.rint(d / grid) if grid > 0 else d
    nonzero = steps[steps != 0]
    return float(scipy.stats.wilcoxon(nonzero).pvalue) if len(nonzero) else 1.0


def p_randomization(d: FloatArray, resamples: int, random_state: int | None) -> float:
    """Share of the sign flips of the differences whose sum is at least as far from zero, all of them or a sample."""
    d = d[d != 0]
    exact = 2 ** min(len(d), 64) <= resamples
    sums = _all_signed_sums(d) if exact else _random_signed_sums(d, resamples, random_state)
    extreme = abs(d.sum()) - _ROUNDOFF * np.abs(d).sum()
    reached = int(np.count_nonzero(np.abs(sums) >= extreme))
    return reached / len(sums) if exact else (reached + 1) / (resamples + 1)


def _all_signed_sums(d: FloatArray) -> FloatArray:
    sums = np.zeros(1)
    for x in d:
        sums = np.concatenate([sums + x, sums - x])
    return sums


def _random_signed_sums(d: FloatArray, resamples: int, random_state: int | None) -> FloatArray:
    # scipy.stats.permutation_test takes 7.6 s for 10,000 queries and 9,999 resamples; this takes 0.2 s.
    rng = np.random.default_rng(random_state)
    sizes = np.diff([*range(0, resamples, _batch(d)), resamples])
    sums = [2 * (rng.integers(2, size=(size, len(d)), dtype=np.int8) @ d) - d.sum() for size in sizes]
    return np.concatenate(sums, dtype=np.float64)


def bca_interval(x: FloatArray, confidence: float, resamples: int, seed: int | None) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap interval of a mean, Efron (1987).

    The acceleration of a mean is known, ``Σ e³ / (6 (Σ e²)^1.5)`` with ``e`` the deviations from the mean;
    SciPy's own BCa finds it by leaving out each value in turn, in time quadratic in the number of queries.
    """
    mean = float(x.mean())
    if len(x) == 1:
        return -np.inf, np.inf
    if _is_constant(x):
        return mean, mean
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {"n_resamples": resamples, "batch": _batch(x), "random_state": rng}
    means = scipy.stats.bootstrap((x,), np.mean, method="percentile", **options).bootstrap_distribution
    slack = _ROUNDOFF * np.abs(x).max()
    below = (np.mean(means < mean - slack) + np.mean(means <= mean + slack)) / 2
    bias = scipy.special.ndtri(below)
    e = x - mean
    acceleration = np.sum(e**3) / (6 * np.sum(e**2) ** 1.5)
    z = bias + scipy.special.ndtri([(1 - confidence) / 2, (1 + confidence) / 2])
    levels = scipy.special.ndtr(bias + z / np.maximum(1 - acceleration * z, _ROUNDOFF))
    low, high = np.quantile(means, levels).tolist()
    return low, high


def _batch(d: FloatArray) -> int:
    """Resamples at a time, for 8 MB of them."""
    return max(1, (1 << 20) // len(d))


def _is_constant(d: FloatArray) -> bool:
    return bool(np.ptp(d) <= _ROUNDOFF * np.abs(d).max())
