"""Is one ranker better than another, or were the queries kind to it? Tests paired by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts load on first use; importing scipy.stats here would cost every import 0.6 s

from marginrank.errors import DataError
from marginrank.typing import AnyArray, BoolArray, FloatArray

_TESTS = ("t", "wilcoxon", "randomization")
_MARKED_BELOW = 0.05
_ROUNDOFF = 1e-12


@dataclass(frozen=True)
class PairedComparison:
    """One system against another, query by query: ``system`` minus ``other``."""

    system: str
    other: str
    #: Mean over queries of the value of ``system`` minus that of ``other``, weighted if weights were given.
    difference: float
    #: BCa bootstrap interval of the difference over samples of queries; unbounded for a single query.
    interval: tuple[float, float]
    #: Queries on which ``system`` is better, worse and as good.
    wins: int
    losses: int
    ties: int
    #: Two-sided p-values of Student's paired t, Wilcoxon's signed-rank and the sign-flip randomization test.
    p_t: float
    p_wilcoxon: float
    p_randomization: float
    #: The same, adjusted for the number of rows by `holm`.
    holm_t: float
    holm_wilcoxon: float
    holm_randomization: float


@dataclass(frozen=True)
class Comparison:
    """All pairs that were compared; ``str`` gives a table, `to_dicts` one flat record per pair."""

    rows: tuple[PairedComparison, ...]
    n_queries: int
    confidence: float

    def to_dicts(self) -> list[dict[str, Any]]:
        """Give one flat record per row, fit for JSON or a data frame; an unbounded interval is None.

        >>> record = compare({"a": [0.5, 1.0, 0.2], "b": [0.4, 0.4, 0.2]}).to_dicts()[0]
        >>> record["system"], record["wins"], record["ties"], record["p_randomization"]
        ('a', 2, 1, 0.5)
        """
        records = [asdict(row) for row in self.rows]
        for record in records:
            ends = [end if np.isfinite(end) else None for end in record.pop("interval")]
            record["interval_low"], record["interval_high"] = ends
        return records

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:g}% interval"
        tests = ["p t-test ", "p Wilcoxon ", "p randomization "]
        header = ["system", "other", "difference", interval, "W/L/T", *tests]
        table = [header, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(_align, range(len(row)), row, widths)).rstrip() for row in table]
        queries = f"{self.n_queries:,} {'query' if self.n_queries == 1 else 'queries'}"
        pairs = f" over {len(self.rows)} comparisons" if len(self.rows) > 1 else ""
        return "\n".join([*lines, f"{queries}; * Holm-adjusted p < {_MARKED_BELOW:g}{pairs}"])


def compare(
    systems: Mapping[str, npt.ArrayLike],
    *,
    baseline: str | None = None,
    weights: npt.ArrayLike | None = None,
    query_ids: Sequence[object] | AnyArray | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    random_state: int | None = 0,
    tie_tolerance: float = 1e-9,
) -> Comparison:
    """Test the differences between systems that ranked the same queries.

    Every number is about the differences ``d_q = value of system on q - value of other on q``. The t-test and
    the randomization test ask whether their mean is zero, Wilcoxon's test whether they are symmetric about
    zero, leaving zeros out; for means, Smucker, Allan and Carterette (CIKM 2007) advise the first two. The
    randomization test flips signs: in all ``2^n`` ways if they are at most ``resamples``, or else in
    ``resamples`` random ways, ``b`` of them at least as extreme, for ``p = (b + 1) / (resamples + 1)``.

    >>> row = compare({"new": [0.9, 0.7, 0.8, 0.6], "old": [0.6, 0.5, 0.7, 0.6]}).rows[0]
    >>> round(row.difference, 6), (row.wins, row.losses, row.ties)          # (0.3 + 0.2 + 0.1 + 0.0) / 4
    (0.15, (3, 0, 1))
    >>> row.p_randomization                          # 2 of the 2³ flips of 0.3, 0.2, 0.1 reach a sum of ±0.6
    0.25

    Args:
        systems: Name of each system and its per-query values, all in the same order of queries. NaN marks a
            query that was skipped; it must be NaN for every system and is left out.
        baseline: Compare every other system with this one; without it, every pair is compared.
        weights: One weight per query; zero leaves the query out. The tests see ``d_q w_q / mean(w)``, whose
            mean is the weighted mean difference. Wins, losses and ties are counts.
        query_ids: Names of the queries, for error messages; positions otherwise.
        confidence: Probability with which the interval is to cover the difference.
        resamples: Samples of queries for the interval and of sign flips for the test, at least 99.
        random_state: Seed of both. Each pair starts from it, so no row depends on which others there are.
        tie_tolerance: Differences up to this size are roundoff: taken as zero everywhere.
    """
    if not (0 < confidence < 1 and resamples >= 99 and 0 <= tie_tolerance < np.inf):
        raise ValueError(
            "expected 0 < confidence < 1, resamples >= 99 and a finite tie_tolerance >= 0, "
            f"not confidence={confidence}, resamples={resamples}, tie_tolerance={tie_tolerance}"
        )
    values, w = _common_queries(systems, weights, query_ids)
    rows = []
    for system, other in _pairs(list(values), baseline):
        d = values[system] - values[other]
        d[np.abs(d) <= tie_tolerance] = 0.0
        difference = float(np.mean(w * d))
        # Resampling w·d would add the spread of the weights to that of the differences; this has the same
        # mean and moves, as it should, with a constant added to one system.
        interval = _bca_interval(difference + w * (d - difference), confidence, resamples, random_state)
        counts = (int(np.sum(d > 0)), int(np.sum(d < 0)), int(np.sum(d == 0)))
        p = _p_t(w * d), _p_wilcoxon(w * d, tie_tolerance), _p_randomization(w * d, resamples, random_state)
        rows.append(PairedComparison(system, other, difference, interval, *counts, *p, *p))
    return Comparison(_adjusted(rows), len(w), confidence)


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


def _adjusted(rows: Sequence[PairedComparison]) -> tuple[PairedComparison, ...]:
    by_test = {f"holm_{test}": holm([getattr(row, f"p_{test}") for row in rows]).tolist() for test in _TESTS}
    return tuple(replace(row, **{name: p[at] for name, p in by_test.items()}) for at, row in enumerate(rows))


def _pairs(names: list[str], baseline: str | None) -> list[tuple[str, str]]:
    if baseline is None:
        return list(combinations(names, 2))
    if baseline not in names:
        raise ValueError(f"unknown baseline {baseline!r}; known: {', '.join(names)}")
    return [(name, baseline) for name in names if name != baseline]


def _p_t(d: FloatArray) -> float:
    """Student's paired t: 1 for one query or only zeros, and the limit 0 where all differences are equal."""
    if len(d) == 1 or not d.any():
        return 1.0
    return 0.0 if _is_constant(d) else float(scipy.stats.ttest_1samp(d, 0.0).pvalue)


def _p_wilcoxon(d: FloatArray, grid: float) -> float:
    # On a grid, because 0.3 - 0.2 and 0.2 - 0.1 must share a rank.
    steps = np.rint(d / grid) if grid > 0 else d
    nonzero = steps[steps != 0]
    return float(scipy.stats.wilcoxon(nonzero).pvalue) if len(nonzero) else 1.0


def _p_randomization(d: FloatArray, resamples: int, random_state: int | None) -> float:
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


def _bca_interval(x: FloatArray, confidence: float, resamples: int, seed: int | None) -> tuple[float, float]:
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


def _common_queries(
    systems: Mapping[str, npt.ArrayLike],
    weights: npt.ArrayLike | None,
    query_ids: Sequence[object] | AnyArray | None,
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Values of every system, and weights of mean 1, on the queries that count."""
    if len(systems) < 2:
        raise ValueError(f"a comparison takes at least two systems; given: {', '.join(systems) or 'none'}")
    values = {name: np.asarray(column, dtype=np.float64) for name, column in systems.items()}
    first, n = next((name, column.size) for name, column in values.items())
    for name, column in values.items():
        _expect_one_per_query(f"system {name!r}", column, n)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    _expect_one_per_query("weights", w, n)
    ids = np.arange(n) if query_ids is None else np.asarray(query_ids)
    _expect_one_per_query("query_ids", ids, n)
    skipped = np.isnan(values[first])
    for name, column in values.items():
        _refuse(np.isinf(column), ids, f"is infinite for {name!r}; values are finite, or NaN where skipped")
        odd = np.isnan(column) != skipped
        _refuse(odd, ids, f"is skipped (NaN) for only one of {first!r} and {name!r}; evaluate both alike")
    _refuse(~(np.isfinite(w) & (w >= 0)), ids, "has a weight that is negative or not finite")
    counted = ~skipped & (w > 0)
    if not counted.any():
        raise DataError("no query is left to compare: each is skipped (NaN) or has weight zero")
    return {name: column[counted] for name, column in values.items()}, w[counted] / w[counted].mean()


def _expect_one_per_query(name: str, array: AnyArray, n: int) -> None:
    if array.shape != (n,):
        raise DataError(f"{name} has shape {array.shape} for {n} queries; give one value per query, in order")


def _refuse(bad: BoolArray, ids: AnyArray, problem: str) -> None:
    if bad.any():
        raise DataError(f"query {ids[np.argmax(bad)]} {problem}")


def _cells(row: PairedComparison) -> list[str]:
    interval = "[{:+.4f}, {:+.4f}]".format(*row.interval)
    counts = f"{row.wins}/{row.losses}/{row.ties}"
    tests = [_p_cell(getattr(row, f"p_{test}"), getattr(row, f"holm_{test}")) for test in _TESTS]
    return [row.system, row.other, f"{row.difference:+.4f}", interval, counts, *tests]


def _p_cell(p: float, adjusted: float) -> str:
    return ("<0.0001" if p < 0.0001 else f"{p:.4f}") + ("*" if adjusted < _MARKED_BELOW else " ")


def _align(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column < 2 else cell.rjust(width)
