"""Tests of paired differences, and bootstrap intervals of their mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy  # its parts load on first use; importing scipy.stats here would cost every import 0.6 s

from marginrank.typing import FloatArray

_ROUNDOFF = 1e-12
#: Maximum number of differences whose signs are all tried. With tied ranks SciPy does so too, a hundred times slower.
_FEW = 13
#: Entries of samples at a time, for 1 MB of counts.
_BLOCK = 1 << 18
_Counts: TypeAlias = npt.NDArray[np.int32]
#: Draws some samples of n entries: for each a row that counts every entry.
_Sample: TypeAlias = Callable[[np.random.Generator, int, int], _Counts]


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
    """Return the p-value of Student's paired t: 1 for one query or only zeros, 0 if all differences are equal."""
    if len(d) == 1 or not d.any():
        return 1.0
    return 0.0 if _is_constant(d) else float(scipy.stats.ttest_1samp(d, 0.0).pvalue)


def p_wilcoxon(d: FloatArray, grid: float) -> float:
    """Return the p-value of Wilcoxon's signed-rank test without the zeros; 1 if nothing else is left."""
    # On a grid, because 0.3 - 0.2 and 0.2 - 0.1 must share a rank.
    steps = np.rint(d / grid) if grid > 0 else d
    nonzero = steps[steps != 0]
    if len(nonzero) > _FEW:
        return float(scipy.stats.wilcoxon(nonzero).pvalue)
    signed = np.sign(nonzero) * scipy.stats.rankdata(np.abs(nonzero))
    return _share_as_extreme(signed, _all_signed_sums(signed))


def p_randomizations(columns: Sequence[FloatArray], resamples: int, random_state: int | None) -> list[float]:
    """Test whether means are zero: the share of the sign flips of each column whose sum is at least as far from zero.

    All flips of the nonzero entries are tried if there are at most ``resamples``, otherwise a sample.
    Columns of the same length share their samples.

    >>> p_randomizations([np.array([0.3, 0.2, 0.1, 0.0])], 99, 0)           # 2 of 2³ flips reach a sum of ±0.6
    [0.25]
    """
    few = [2 ** min(int(np.count_nonzero(d)), 64) <= resamples for d in columns]
    many = [d for d, exact in zip(columns, few, strict=True) if not exact]
    sums = iter(_resampled_sums(many, resamples, random_state, _flips))
    return [
        _share_as_extreme(d, _all_signed_sums(d[d != 0]))
        if exact
        else _share_as_extreme(d, 2 * next(sums) - d.sum(), 1)
        for d, exact in zip(columns, few, strict=True)
    ]


def _share_as_extreme(d: FloatArray, sums: FloatArray, observed: int = 0) -> float:
    extreme = abs(d.sum()) - _ROUNDOFF * np.abs(d).sum()
    return (int(np.count_nonzero(np.abs(sums) >= extreme)) + observed) / (len(sums) + observed)


def _all_signed_sums(d: FloatArray) -> FloatArray:
    sums = np.zeros(1)
    for x in d:
        sums = np.concatenate([sums + x, sums - x])
    return sums


def bca_interval(x: FloatArray, confidence: float, resamples: int, seed: int | None) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval of a mean, Efron (1987)."""
    return bca_intervals([x], confidence, resamples, seed)[0]


def bca_intervals(
    columns: Sequence[FloatArray], confidence: float, resamples: int, seed: int | None
) -> list[tuple[float, float]]:
    """Return the BCa intervals of the means of several columns; those of the same length share their samples.

    A column of fewer than two values has an unbounded interval.
    """
    spread = [len(x) > 1 and not _is_constant(x) for x in columns]
    varying = [x for x, varies in zip(columns, spread, strict=True) if varies]
    sums = iter(_resampled_sums(varying, resamples, seed, _draws))
    return [
        _bca(x, next(sums) / len(x), confidence) if varies else _certain(x)
        for x, varies in zip(columns, spread, strict=True)
    ]


def _certain(x: FloatArray) -> tuple[float, float]:
    return (-np.inf, np.inf) if len(x) < 2 else (float(x.mean()), float(x.mean()))


def _bca(x: FloatArray, means: FloatArray, confidence: float) -> tuple[float, float]:
    """Take the interval from the means of bootstrap samples.

    The acceleration of a mean is known, ``Σ e³ / (6 (Σ e²)^1.5)`` with ``e`` the deviations from the mean;
    SciPy's own BCa finds it by leaving out each value in turn, in time quadratic in the number of queries.
    """
    mean = float(x.mean())
    slack = _ROUNDOFF * np.abs(x).max()
    below = (np.mean(means < mean - slack) + np.mean(means <= mean + slack)) / 2
    bias = scipy.special.ndtri(below)
    e = x - mean
    acceleration = np.sum(e**3) / (6 * np.sum(e**2) ** 1.5)
    z = bias + scipy.special.ndtri([(1 - confidence) / 2, (1 + confidence) / 2])
    levels = scipy.special.ndtr(bias + z / np.maximum(1 - acceleration * z, _ROUNDOFF))
    low, high = np.quantile(means, levels).tolist()
    return low, high


def _resampled_sums(
    columns: Sequence[FloatArray], resamples: int, seed: int | None, sample: _Sample
) -> list[FloatArray]:
    """Sum up columns over samples of their entries, which are drawn once for all columns of the same length."""
    sums = [np.empty(0)] * len(columns)
    for n in dict.fromkeys(map(len, columns)):
        places = [at for at, x in enumerate(columns) if len(x) == n]
        drawn = _sums_of_samples(np.stack([columns[at] for at in places]), resamples, seed, sample)
        for at, column in zip(places, drawn.T, strict=True):
            sums[at] = column
    return sums


def _sums_of_samples(columns: FloatArray, resamples: int, seed: int | None, sample: _Sample) -> FloatArray:
    from marginrank.evaluation.resampling_kernel import weighted_sums  # noqa: PLC0415

    n = columns.shape[1]
    size = max(1, _BLOCK // n)
    rng = np.random.default_rng(seed)
    sums = np.empty((resamples, len(columns)))
    for first in range(0, resamples, size):
        block = sums[first : first + size]
        weighted_sums(sample(rng, len(block), n), columns, block)
    return sums


def _draws(rng: np.random.Generator, rows: int, n: int) -> _Counts:
    """Count how often each of n entries is among n that are drawn with replacement: bootstrap samples."""
    from marginrank.evaluation.resampling_kernel import count_draws  # noqa: PLC0415

    counts = np.zeros((rows, n), dtype=np.int32)
    count_draws(rng.integers(n, size=(rows, n), dtype=np.uint32), counts)
    return counts


def _flips(rng: np.random.Generator, rows: int, n: int) -> _Counts:
    """Count each entry once or not at all, with equal probability."""
    bits = np.frombuffer(rng.bytes(rows * -(-n // 8)), dtype=np.uint8).reshape(rows, -1)
    return np.unpackbits(bits, axis=1, count=n).astype(np.int32)


def _is_constant(d: FloatArray) -> bool:
    return bool(np.ptp(d) <= _ROUNDOFF * np.abs(d).max())
