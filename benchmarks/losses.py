"""Risk and gradient beside the two matrix products they contain; the oracle beside linear assignment; growth with n.

    python benchmarks/losses.py

The data: 10,000 queries of 120 documents with 136 float32 features and 5 grades, random. "New weights" takes a fresh
random direction each time; "next weights" one that differs by a thousandth, as from one iteration to the next.
Times are CPU time of all threads; BLAS has one, as its threads would spin while they wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from marginrank import Queries
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy
from marginrank.losses.structured import StructuredLoss
from marginrank.measures.ndcg import NDCG
from marginrank.training.partitioned_risk import empirical_risk

N_QUERIES, N_DOCUMENTS, N_FEATURES, THREADS = 10_000, 120, 136, 2
LOSSES: dict[str, Loss] = {
    "auc, po": StructuredLoss("auc", "po"),
    "ap, po": StructuredLoss("ap", "po"),
    "ndcg@10, po": StructuredLoss("ndcg@10", "po"),
    "ndcg@10, dorm": StructuredLoss("ndcg@10", "dorm"),
    "ranksvm": PairwiseHinge(),
    "softmax": SoftmaxCrossEntropy(),
}


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def risk_table(rng: np.random.Generator) -> None:
    X = rng.random((N_QUERIES * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    grades = rng.integers(0, 5, len(X))
    queries = Queries.from_arrays(X, grades, group=np.full(N_QUERIES, N_DOCUMENTS))
    w, g = rng.standard_normal(N_FEATURES).astype(np.float32), rng.standard_normal(len(X)).astype(np.float32)

    def products() -> float:
        with threadpool_limits(1, "blas"):
            return min(seconds(partial(np.matmul, X, w)) + seconds(partial(np.matmul, X.T, g)) for _ in range(3))

    products()
    reading = min(seconds(X.sum) for _ in range(3))
    print(f"reading X once (X.sum()): {reading * 1e3:.0f} ms\n")
    print("| loss | X@w and X.T@g, ms | new weights, ms | ratio | next weights, ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, loss in LOSSES.items():
        risk = empirical_risk(queries, loss, n_jobs=THREADS)
        risk(rng.standard_normal(N_FEATURES))
        base = products()
        new, near = [], []
        for _ in range(6):
            weights = rng.standard_normal(N_FEATURES)
            new.append(seconds(partial(risk, weights)))
            near.append(seconds(partial(risk, weights + 1e-3 * rng.standard_normal(N_FEATURES))))
        base, cold, warm = min(base, products()), min(new), min(near)
        cells = [
            f"{base * 1e3:.0f}",
            f"{cold * 1e3:.0f}",
            f"{cold / base:.2f}",
            f"{warm * 1e3:.0f}",
            f"{warm / base:.2f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def assignment_table(rng: np.random.Generator) -> None:
    """The most violated ranking under ndcg@10 and φdorm, against SciPy's assignment on the same queries."""
    few, measure = 300, NDCG(k=10)
    grades = rng.integers(0, 5, few * N_DOCUMENTS).astype(float)
    scores = rng.standard_normal(len(grades))
    bound = StructuredLoss("ndcg@10", "dorm").prepare(grades, np.arange(few + 1) * N_DOCUMENTS)
    bound(rng.standard_normal(len(grades)))
    ours = min(seconds(partial(bound, rng.standard_normal(len(grades)))) for _ in range(5))
    profile, discounts = 1 / np.sqrt(np.arange(1, N_DOCUMENTS + 1)), measure.discounts(N_DOCUMENTS)
    gains = 2.0**grades - 1

    def assign() -> None:
        for q in range(few):
            rows = slice(q * N_DOCUMENTS, (q + 1) * N_DOCUMENTS)
            ideal = np.sort(gains[rows])[::-1] @ discounts
            value = np.outer(scores[rows], profile) - np.outer(gains[rows], discounts) / ideal
            linear_sum_assignment(value, maximize=True)

    theirs = seconds(assign)
    print(f"\n| ndcg@10, dorm, one thread | µs per query |\n| --- | --- |\n| grade lattice | {ours / few * 1e6:.0f} |")
    print(f"| linear_sum_assignment | {theirs / few * 1e6:.0f} |\n\n{theirs / ours:.0f} times as fast")


def growth_table(rng: np.random.Generator) -> None:
    lengths = (1_000, 10_000, 100_000)
    print(f"\n| loss, one query | {' | '.join(f'{n:,} documents, ms' for n in lengths)} | exponent |")
    print(f"| --- |{' --- |' * len(lengths)} --- |")
    for name, loss in LOSSES.items():
        times = []
        for n in lengths:
            bound = loss.prepare(rng.integers(0, 5, n).astype(float), np.array([0, n]))
            bound(rng.standard_normal(n))
            times.append(min(seconds(partial(bound, rng.standard_normal(n))) for _ in range(5)))
        exponent = np.log(times[-1] / times[0]) / np.log(lengths[-1] / lengths[0])
        print(f"| {name} | {' | '.join(f'{t * 1e3:.2f}' for t in times)} | {exponent:.2f} |")


def main() -> None:
    rng = np.random.default_rng(0)
    risk_table(rng)
    assignment_table(rng)
    growth_table(rng)


if __name__ == "__main__":
    main()
