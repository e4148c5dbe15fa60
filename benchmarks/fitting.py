"""The time of `fit` and `predict`, relative to reading the features once.

    python benchmarks/fitting.py

The data: 10,000 generated queries of 120 documents with 136 float32 features, on scales that differ by up to 10,000.
`Ranker("svmmap", C=10)` has its default scaling. The solver is timed inside of `fit`, other steps on their own. Figures
are the smallest of several, wall time; on a machine that does other work too, compare the CPU time of all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from marginrank import Queries, Ranker
from marginrank.data.fingerprint import fingerprint
from marginrank.losses import StructuredLoss
from marginrank.preparation.standardization import Standardize
from marginrank.solvers import Bundle

N_QUERIES, N_DOCUMENTS, N_FEATURES = 10_000, 120, 136


def seconds(work: Callable[[], Any], repeats: int = 5) -> tuple[float, float]:
    """Return wall time and CPU time."""
    times = []
    for _ in range(repeats):
        start, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def timed(minimize: Callable[..., Any], times: list[tuple[float, float]]) -> Callable[..., Any]:
    """Return the method of a solver that notes its wall and CPU time."""

    def with_times(*args: Any, **kwargs: Any) -> Any:
        start, cpu = time.perf_counter(), time.process_time()
        solution = minimize(*args, **kwargs)
        times.append((time.perf_counter() - start, time.process_time() - cpu))
        return solution

    return with_times


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
    qid = np.repeat(np.arange(len(queries)), queries.lengths)
    ranker = Ranker("svmmap", C=10.0)
    ranker.fit(queries)
    solver_times: list[tuple[float, float]] = []
    Bundle.minimize = timed(Bundle.minimize, solver_times)  # type: ignore[method-assign]
    reading = seconds(queries.dense().sum)
    total = seconds(lambda: ranker.fit(queries))
    solver = min(wall for wall, _ in solver_times), min(cpu for _, cpu in solver_times)
    steps = {
        "`fit`, in total": total,
        f"solver, {ranker.solution_.passes:.0f} passes": solver,
        "all but the solver": (total[0] - solver[0], total[1] - solver[1]),
        "mean and standard deviation": seconds(lambda: Standardize().fit(queries)),
        "fingerprint of the data": seconds(lambda: fingerprint(queries)),
        "arranging documents by grade": seconds(lambda: StructuredLoss("ap").prepare(queries)),
        "checks of `Queries.from_arrays`": seconds(lambda: Queries.from_arrays(queries.X, queries.grades, qid=qid)),
        "`predict`": seconds(lambda: ranker.predict(queries)),
    }
    print(f"reading X once (X.sum(), one thread): {reading[0]:.3f} s, CPU {reading[1]:.3f} s\n")
    print("| step | seconds | relative to reading X once | CPU seconds | relative |\n| --- | --- | --- | --- | --- |")
    for name, (wall, cpu) in steps.items():
        print(f"| {name} | {wall:.2f} | {wall / reading[0]:.1f} | {cpu:.2f} | {cpu / reading[1]:.1f} |")


if __name__ == "__main__":
    main()
