"""Coverage of the 95% intervals of agreement, audits and prediction-powered means over simulated judgements.

python benchmarks/judging_coverage.py [SIMULATIONS [SEED]]
"""

from __future__ import annotations

import sys

import numpy as np

from marginrank.errors import DataError
from marginrank.judging import Judgements, agreement, audit, prediction_powered_mean
from marginrank.typing import FloatArray


def powered(rng: np.random.Generator, n: int, correlation: float) -> tuple[bool, float]:
    """Values in [0, 1] by people and a machine with a bias: whether the interval covers the mean, and the gain.

    Where the machine is refused, the interval is that of people alone.
    """
    shared = rng.standard_normal(n + 1000)
    y, f = (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal(n + 1000) for _ in range(2))
    y, f = 1 / (1 + np.exp(-y)), 1 / (1 + np.exp(-f - 0.5))
    try:
        result = prediction_powered_mean(y[:n], f[:n], f[n:])
    except DataError:
        half = 1.96 * y[:n].std(ddof=1) / np.sqrt(n)
        return abs(y[:n].mean() - 0.5) <= half, 1.0
    return result.interval[0] <= 0.5 <= result.interval[1], result.gain


def grades(rng: np.random.Generator, queries: int) -> FloatArray:
    """Grades 0 to 3 of ten documents per query by two raters; some queries are harder to judge than others."""
    truth = rng.standard_normal((queries, 10, 1)) + 0.5 * rng.standard_normal((queries, 1, 1))
    noise = rng.uniform(0.3, 1.2, (queries, 1, 1)) * rng.standard_normal((queries, 10, 2))
    return np.digitize(truth + noise, [-0.5, 0.5, 1.5]).astype(np.float64).reshape(-1, 2)


def table(matrix: FloatArray) -> Judgements:
    ids = np.arange(len(matrix))
    return Judgements.of(np.tile(ids // 10, 2), np.tile(ids, 2), np.repeat(["a", "b"], len(ids)), matrix.T.ravel())


def main() -> None:
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for n, correlation in ((30, 0.5), (50, 0.2), (50, 0.5), (50, 0.8), (200, 0.8)):
        drawn = [powered(rng, n, correlation) for _ in range(simulations)]
        covered, gain = np.mean([one[0] for one in drawn]), np.median([one[1] for one in drawn])
        print(f"powered mean, {n} queries, correlation {correlation}: coverage {covered:.3f}, gain {gain:.2f}")
    truth = agreement(table(grades(rng, 20_000)), resamples=99)
    for queries in (30, 50, 100):
        covered_by = np.zeros(2)
        for _ in range(simulations):
            result = agreement(table(grades(rng, queries)), resamples=999)
            pairs = ((result.alpha, truth.alpha), (result.kappa["a", "b"], truth.kappa["a", "b"]))
            covered_by += [one.interval[0] <= true.value <= one.interval[1] for one, true in pairs]
        alpha, kappa = covered_by / simulations
        print(f"agreement, {queries} queries: coverage of alpha {alpha:.3f}, of kappa {kappa:.3f}")
    values = grades(rng, 20_000)
    expected = np.array([np.diff(values).mean(), (np.diff(values) == 0).mean(), (np.diff(values) > 0).mean()])
    for queries in (30, 50, 100):
        covered_by = np.zeros(3)
        for _ in range(simulations):
            one = audit(table(grades(rng, queries)), "b", resamples=1).everything
            intervals = [one.over_rating.interval, one.equal.interval, one.higher.interval]
            covered_by += [low <= true <= high for (low, high), true in zip(intervals, expected, strict=True)]
        over, equal, higher = covered_by / simulations
        print(f"audit, {queries} queries: coverage of over-rating {over:.3f}, equal {equal:.3f}, higher {higher:.3f}")


if __name__ == "__main__":
    main()
