"""The time of `fit` and `predict`, relative to reading the features once.

    python benchmarks/fitting.py

The data: 10,000 generated queries of 120 documents with 136 float32 features, on scales that differ by up to 10,000.
`Ranker("svmmap", C=10)` has its default scaling. Steps are measured on their own; the rest is checks and sorting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from marginrank import Queries, Ranker
from marginrank.data.fingerprint import fingerprint
from marginrank.preparation.standardization import Standardize

N_QUERIES, N_DOCUMENTS, N_FEATURES = 10_000, 120, 136


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def generated() -> Queries:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_QUERIES * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    hidden = X @ rng.standard_normal(N_FEATURES).astype(np.float32) + 10.0 * rng.standard_normal(len(X))
    X *= (10.0 ** rng.integers(-2, 3, N_FEATURES)).astype(np.float32)
    grades = np.digitize(hidden, np.quantile(hidden, [0.5, 0.8, 0.93, 0.98]))
    return Queries.from_arrays(X, grades, group=np.full(N_QUERIES, N_DOCUMENTS))


def main() -> None:
    """Print a table of seconds."""
    queries = generated()
    ranker = Ranker("svmmap", C=10.0)
    ranker.fit(queries)
    reading = seconds(queries.dense().sum)
    scaler = Standardize().fit(queries)
    steps = {
        "`fit`, in total": seconds(lambda: ranker.fit(queries)),
        "mean and standard deviation": seconds(lambda: Standardize().fit(queries)),
        "scaling": seconds(lambda: scaler.transform(queries)),
        "fingerprint of the data": seconds(lambda: fingerprint(queries)),
        f"solver, {ranker.solution_.passes:.0f} passes": ranker.solution_.trace[-1].seconds,
        "`predict`": seconds(lambda: ranker.predict(queries)),
    }
    print(f"reading X once (X.sum(), one thread): {reading:.3f} s\n")
    print("| step | seconds | relative to reading X once |\n| --- | --- | --- |")
    for name, taken in steps.items():
        print(f"| {name} | {taken:.2f} | {taken / reading:.1f} |")


if __name__ == "__main__":
    main()
