"""Bias of estimated propensities and coverage of their intervals, over simulated logs with known propensities.

    python -m benchmarks.propensities 200 20000

The first number is that of the draws, the second that of the sessions of each.
"""

from __future__ import annotations

import sys
from typing import Literal, cast

import numpy as np

from marginrank import Queries
from marginrank.clicks import PositionUser, estimate_propensities, simulate_clicks

DEPTH = 5


def judged(seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 3, 1000)
    return Queries.from_arrays(grades[:, None] + rng.normal(0, 2, (1000, 3)), grades, qid=np.arange(1000) // 10)


def main() -> None:
    draws, sessions = (int(word) for word in (sys.argv[1:] + ["20", "20000"][len(sys.argv) - 1 :])[:2])
    truth = PositionUser(eta=1.0).propensities(DEPTH)
    for method, resamples in (("harvest", 200), ("em", 200)):
        values, covered = [], []
        for seed in range(draws):
            queries = judged(seed)
            systems = {str(k): queries.feature(k) for k in range(3)}
            log = simulate_clicks(queries, systems, sessions, depth=DEPTH, aggregate=True, random_state=seed)
            known = cast("Literal['harvest', 'em']", method)
            estimate = estimate_propensities(log, known, resamples=resamples)
            values.append(estimate.values)
            if estimate.interval is not None:
                covered.append((estimate.interval[0] <= truth) & (truth <= estimate.interval[1]))
        bias = np.mean(values, axis=0) - truth
        print(f"{method}: {draws} draws of {sessions:,} sessions")
        print("  truth   ", truth.round(4).tolist())
        print("  bias    ", bias.round(4).tolist())
        print("  std     ", np.std(values, axis=0).round(4).tolist())
        if covered:
            print("  coverage", np.mean(covered, axis=0).round(3).tolist(), "of intervals at 95 %")


if __name__ == "__main__":
    main()
