"""Risk and gradient of the additive scorer beside those of the linear one.

    python benchmarks/additive.py

The data: 10,000 queries of 120 documents with 136 float32 features and 5 grades, random; 16 bins per feature. Every
evaluation is at fresh random parameters, and the two scorers take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from marginrank import Queries
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.risk import RankingRisk
from marginrank.scorers.additive import PreparedAdditive
from marginrank.scorers.bins import Bins
from marginrank.scorers.linear import PreparedLinear

N_QUERIES, N_DOCUMENTS, N_FEATURES, N_BINS, THREADS, ROUNDS = 10_000, 120, 136, 16, 2, 12
LOSSES: dict[str, Loss] = {"auc, po": StructuredLoss("auc", "po"), "ranksvm": PairwiseHinge()}


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((N_QUERIES * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    queries = Queries.from_arrays(X, rng.integers(0, 5, len(X)), group=np.full(N_QUERIES, N_DOCUMENTS))
    start = time.perf_counter()
    bins = Bins.learn(X, N_BINS, n_jobs=THREADS)
    learned = time.perf_counter()
    scorers = PreparedLinear(queries), PreparedAdditive(queries, bins, n_jobs=THREADS)
    print(f"learning bins: {learned - start:.1f} s, encoding: {time.perf_counter() - learned:.1f} s\n")
    print("| loss | linear, ms | additive, ms | ratio | linear, MB | additive, MB | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, loss in LOSSES.items():
        risks = [RankingRisk(scorer, loss, THREADS) for scorer in scorers]
        rounds = [
            [seconds(partial(risk, rng.standard_normal(risk.n_parameters))) for risk in risks] for _ in range(ROUNDS)
        ]
        linear, additive = np.min(rounds, axis=0) * 1e3
        dense, coded = (scorer.n_bytes / 1e6 for scorer in scorers)
        cells = [f"{linear:.0f}", f"{additive:.0f}", f"{additive / linear:.2f}"]
        cells += [f"{dense:.0f}", f"{coded:.0f}", f"{coded / dense:.3f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
