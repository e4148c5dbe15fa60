"""Bias of estimated propensities and coverage of their intervals, over simulated logs with known propensities.

    python -m benchmarks.propensities 200 20000 100

The first number is that of the draws, the second that of the sessions of each, the third that of its queries.
"""

from __future__ import annotations

import sys
from typing import Literal, cast

import numpy as np

from marginrank import Queries
from marginrank.clicks import PositionUser, estimate_propensities, simulate_clicks

DEPTH = 5


def judged(seed: int, n_queries: int) -> Queries:
    rng, n = np.random.default_rng(seed), 10 * n_queries
    grades = rng.integers(0, 3, n)
    return Queries.from_arrays(grades[:, None] + rng.normal(0, 2, (n, 3)), grades, qid=np.arange(n) // 10)


def main() -> None:
    defaults = ["20", "20000", "100"]
    draws, sessions, n_queries = (int(word) for word in [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]])
    truth = PositionUser(eta=1.0).propensities(DEPTH)
    for method, resamples in (("harvest", 200), ("em", 200), ("random", 200)):
        values, covered = [], []
        for seed in range(draws):
            queries = judged(seed, n_queries)
            systems = {str(k): queries.feature(k) for k in range(3)}
            if method == "random":
                rng = np.random.default_rng(seed)
                systems = {str(k): rng.random(queries.n_documents) for k in range(50)}
            log = simulate_clicks(queries, systems, sessions, depth=DEPTH, aggregate=True, random_state=seed)
            known = cast("Literal['harvest', 'em', 'random']", method)
            estimate = estimate_propensities(log, known, resamples=resamples)
            values.append(estimate.values)
            if estimate.interval is not None:
                covered.append((estimate.interval[0] <= truth) & (truth <= estimate.interval[1]))
        bias = np.mean(values, axis=0) - truth
        print(f"{method}: {draws} draws of {n_queries} queries and {sessions:,} sessions")
        print("  truth   ", truth.round(4).tolist())
        print("  bias    ", bias.round(4).tolist())
        print("  std     ", np.std(values, axis=0).round(4).tolist())
        if covered:
            print("  coverage", np.mean(covered, axis=0).round(3).tolist(), "of intervals at 95%")


if __name__ == "__main__":
    main()
