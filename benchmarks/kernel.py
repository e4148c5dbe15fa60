"""Training with the kernel scorer beside scikit-learn's ``Nystroem`` and a linear ranker on its features.

    python benchmarks/kernel.py

The data: 1,500 training queries of 40 documents with 46 features, 3 grades, which depend on products of features; as
many test queries. Both take the same kernel, rank, loss, C and solver, and turns; ratios are to Nystroem.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem

from marginrank import Kernel, Queries, Ranker

N_QUERIES, N_DOCUMENTS, N_FEATURES, GAMMA, C, ROUNDS = 1_500, 40, 46, 0.02, 10.0, 3


def judged(seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    n = N_QUERIES * N_DOCUMENTS
    X = rng.standard_normal((n, 6)) @ np.random.default_rng(7).standard_normal((6, N_FEATURES)) / 2.5
    X += 0.1 * rng.standard_normal(X.shape)
    hidden = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(n)
    grades = np.digitize(hidden, np.quantile(hidden, [0.8, 0.95]))
    return Queries.from_arrays(X, grades, group=np.full(N_QUERIES, N_DOCUMENTS))


def nystroem(train: Queries, test: Queries, rank: int) -> tuple[float, float, float, float]:
    start = time.perf_counter()
    X: Any = train.X
    mapped = Nystroem(gamma=GAMMA, n_components=rank, random_state=0).fit(X)
    features = mapped.transform(X)
    made = time.perf_counter() - start
    ranker = Ranker("svmmap", C=C, scaling=None).fit(train.with_features(features))
    total = time.perf_counter() - start
    left = 1.0 - float((features**2).sum()) / len(features)
    return made, total, left, ranker.score(test.with_features(mapped.transform(np.asarray(test.X))))


def kernel(train: Queries, test: Queries, rank: int) -> tuple[float, float, float, float]:
    scorer = Kernel(gamma=GAMMA, rank=rank, tol=0.0)
    start = time.perf_counter()
    features = np.asarray(scorer.prepare(train).queries.X)
    made = time.perf_counter() - start
    left = 1.0 - float((features**2).sum()) / len(features)
    start = time.perf_counter()
    ranker = Ranker("svmmap", C=C, scaling=None, scorer=scorer).fit(train)
    return made, time.perf_counter() - start, left, ranker.score(test)


def main() -> None:
    train, test = judged(0), judged(1)
    Ranker("svmmap").fit(train)  # compiles
    print("| rank | features from | features, s | ratio | training, s | ratio | residual trace | test MAP |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for rank in (100, 500):
        rounds = np.array([[nystroem(train, test, rank), kernel(train, test, rank)] for _ in range(ROUNDS)])
        best = rounds.min(axis=0)
        for name, row in zip(("Nystroem", "Kernel"), best, strict=True):
            made, total, left, value = row
            ratios = made / best[0, 0], total / best[0, 1]
            times = f"{made:.2f} | {ratios[0]:.2f} | {total:.2f} | {ratios[1]:.2f}"
            print(f"| {rank} | {name} | {times} | {left:.4f} | {value:.4f} |")


if __name__ == "__main__":
    main()
