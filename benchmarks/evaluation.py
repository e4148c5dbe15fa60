"""NDCG@10 of 10,000 queries with 120 documents each, beside ranx and ir-measures, and every measure of ours.

    python benchmarks/evaluation.py

The other tools take dictionaries or records; making them from the arrays is timed apart.
Times are CPU time of all threads.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from marginrank import Queries, evaluate

N_QUERIES, N_DOCUMENTS = 10_000, 120
MEASURE = "ndcg@10(gain=linear)"  # the gain of both other tools


def best_of(n: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest time of several, after one to warm up, and the result."""
    work()
    times = []
    for _ in range(n):
        start = time.process_time()
        found = work()
        times.append(time.process_time() - start)
    return min(times), found


def with_ranx(grades: Any, scores: Any) -> tuple[float, float, float]:
    warnings.simplefilter("ignore")
    import ranx

    names = [f"d{k}" for k in range(N_DOCUMENTS)]
    start = time.process_time()
    qrels = ranx.Qrels({f"q{q}": dict(zip(names, grades[q].tolist(), strict=True)) for q in range(N_QUERIES)})
    run = ranx.Run({f"q{q}": dict(zip(names, scores[q].tolist(), strict=True)) for q in range(N_QUERIES)})
    making = time.process_time() - start
    seconds, value = best_of(3, lambda: ranx.evaluate(qrels, run, "ndcg@10"))
    return seconds, making, float(value)


def with_ir_measures(grades: Any, scores: Any, n_queries: int) -> tuple[float, float, float]:
    import ir_measures

    start = time.process_time()
    qrels = {f"q{q}": {f"d{k}": int(g) for k, g in enumerate(grades[q])} for q in range(n_queries)}
    run = {f"q{q}": {f"d{k}": float(s) for k, s in enumerate(scores[q])} for q in range(n_queries)}
    making = time.process_time() - start
    measure = ir_measures.parse_measure("nDCG@10")
    seconds, found = best_of(1, lambda: ir_measures.calc_aggregate([measure], qrels, run))
    return seconds, making, float(found[measure])


def main() -> None:
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 5, (N_QUERIES, N_DOCUMENTS))
    scores = rng.standard_normal((N_QUERIES, N_DOCUMENTS))
    queries = Queries.from_arrays(
        np.zeros((grades.size, 1), dtype=np.float32), grades.ravel(), group=np.full(N_QUERIES, N_DOCUMENTS)
    )
    flat = scores.ravel()
    ours, result = best_of(10, lambda: evaluate(queries, flat, MEASURE))
    few = N_QUERIES // 10
    rows = [("marginrank", ours / N_QUERIES, 0.0, result.mean[MEASURE])]
    seconds, making, value = with_ranx(grades, scores)
    rows.append(("ranx", seconds / N_QUERIES, making / N_QUERIES, value))
    seconds, making, value = with_ir_measures(grades, scores, few)
    rows.append((f"ir-measures ({few:,} queries)", seconds / few, making / few, value))
    print("| tool | CPU µs per query | times ours | making its input, µs | ndcg@10 |\n| --- | --- | --- | --- | --- |")
    for name, per_query, making, value in rows:
        print(f"| {name} | {per_query * 1e6:.2f} | {per_query / rows[0][1]:.1f} | {making * 1e6:.1f} | {value:.6f} |")
    print("\n| measure | CPU ms | CPU ms with ties |\n| --- | --- | --- |")
    coarse = np.round(flat, 1)
    for name in ("ndcg@10", "ndcg", "ap", "auc", "rr@10", "err@10", "p@5", "recall@100", "wta", "eru", "rbp"):
        plain, _ = best_of(3, partial(evaluate, queries, flat, name))
        tied, _ = best_of(1, partial(evaluate, queries, coarse, name))
        print(f"| {name} | {plain * 1e3:.0f} | {tied * 1e3:.0f} |")


if __name__ == "__main__":
    main()
