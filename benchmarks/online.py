"""Training on a stream beside training on all of it, and a daily refresh with and without a start.

    python benchmarks/online.py

The data: 2,000 training queries of 30 documents with 20 features, 3 grades; as many test queries. The stream comes in
batches of 20 queries, the scaling is that of the first 200 queries for all. Objectives are those of all queries, as
multiples of what the batch solver reaches; passes count evaluations of all queries. CPU seconds, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from marginrank import Queries, Ranker
from marginrank.losses.base import Loss
from marginrank.ranker.resolution import resolve
from marginrank.solvers import Auto
from marginrank.training.partitioned_risk import empirical_risk

N_QUERIES, N_DOCUMENTS, N_FEATURES, FIRST, BATCH = 2_000, 30, 20, 200, 20
DAYS, WINDOW = 5, 1_500


def judged(seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    n = N_QUERIES * N_DOCUMENTS
    X = rng.standard_normal((n, N_FEATURES)) * np.geomspace(0.1, 10.0, N_FEATURES)
    hidden = X / np.geomspace(0.1, 10.0, N_FEATURES) @ np.random.default_rng(7).standard_normal(N_FEATURES)
    hidden += 3.0 * rng.standard_normal(n)
    grades = np.digitize(hidden, np.quantile(hidden, [0.8, 0.95]))
    return Queries.from_arrays(X, grades, group=np.full(N_QUERIES, N_DOCUMENTS))


def timed(work: Callable[[], Ranker]) -> tuple[Ranker, float]:
    start = time.process_time()
    ranker = work()
    return ranker, time.process_time() - start


def ranker(method: str, C: float, solver: str = "auto") -> Ranker:
    return Ranker(method, C=C, solver=solver, n_jobs=1)


def stream(method: str, C: float, train: Queries, solver: str) -> tuple[Ranker, float]:
    """Train on one batch after the other; return the passes over all queries that it takes."""
    learner, passes = ranker(method, C, solver), 0.0
    starts = [0, *range(FIRST, N_QUERIES, BATCH)]
    for start, stop in zip(starts, [*starts[1:], N_QUERIES], strict=True):
        learner.partial_fit(train[np.arange(start, stop)])
        passes += learner.solution_.passes * (stop - start) / N_QUERIES
    return learner, passes


def compare(method: str, C: float, train: Queries, test: Queries) -> None:
    first = ranker(method, C).fit(train[:FIRST])
    loss: Loss | None = resolve(first).loss
    assert loss is not None
    risk = empirical_risk(first.model_.scaler.transform(train), loss, n_jobs=1)  # type: ignore[union-attr]
    best, seconds = timed(lambda: ranker(method, C).fit(train, start=first))
    rows = [("fit", best, best.solution_.passes, seconds)]
    once, seconds = timed(lambda: ranker(method, C, "stochastic(max_iter=5)").fit(train, start=first))
    rows.append(("fit, stochastic, 5 iterations", once, once.solution_.passes, seconds))
    for name, solver in (("partial_fit", "auto"), ("partial_fit, stochastic", "stochastic(max_iter=1)")):
        passes = 0.0

        def work(solver: str = solver) -> Ranker:
            nonlocal passes
            learner, passes = stream(method, C, train, solver)
            return learner

        learner, seconds = timed(work)
        rows.append((name, learner, passes, seconds))
    for name, learner, passes, seconds in rows:
        theta = learner.coef_
        objective = (0.5 * float(theta @ theta) + C * risk(theta)[0]) / best.objective_
        figures = f"{objective:.4f} | {learner.score(test):.4f} | {passes:.1f} | {seconds:.2f}"
        print(f"| {method} | {C:g} | {name} | {figures} |")


def refresh(method: str, C: float, data: Queries) -> None:
    """Train on a window that moves by a day, from yesterday's model and from 0."""
    step = (N_QUERIES - WINDOW) // DAYS
    yesterday = Ranker(method, C=C, solver=Auto(tol=1e-3), n_jobs=1).fit(data[:WINDOW])
    warm, cold = [], []
    for day in range(1, DAYS + 1):
        window = data[np.arange(day * step, day * step + WINDOW)]
        today, seconds = timed(
            lambda window=window, before=yesterday: Ranker(  # type: ignore[misc]
                method, C=C, solver=Auto(tol=1e-3), n_jobs=1
            ).fit(window, start=before)
        )
        warm.append((today.solution_.passes, seconds))
        anew, seconds = timed(
            lambda window=window: Ranker(method, C=C, solver=Auto(tol=1e-3), n_jobs=1).fit(window)  # type: ignore[misc]
        )
        cold.append((anew.solution_.passes, seconds))
        yesterday = today
    (passes, seconds), (cold_passes, cold_seconds) = np.mean(warm, axis=0), np.mean(cold, axis=0)
    print(f"| {method} | {C:g} | {passes:.1f} | {cold_passes:.1f} | {seconds:.2f} | {cold_seconds:.2f} |")


def main() -> None:
    train, test = judged(0), judged(1)
    for method in ("svmmap", "ranksvm-squared"):
        ranker(method, 1.0).fit(train[:FIRST]).partial_fit(train[:BATCH])  # compiles
        ranker(method, 1.0, "stochastic").fit(train[:BATCH])
    print("| method | C | training | objective | test measure | passes | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for method in ("svmmap", "ranksvm-squared"):
        for C in (1.0, 10.0, 100.0):
            compare(method, C, train, test)
    new = (N_QUERIES - WINDOW) // DAYS
    print(f"\nA window of {WINDOW:,} queries, {new} of them new each day; means of {DAYS} days.\n")
    print("| method | C | passes, warm | passes, cold | CPU s, warm | CPU s, cold |")
    print("| --- | --- | --- | --- | --- | --- |")
    for method in ("svmmap", "ranksvm", "ranksvm-squared"):
        for C in (1.0, 10.0, 100.0):
            refresh(method, C, train)


if __name__ == "__main__":
    main()
