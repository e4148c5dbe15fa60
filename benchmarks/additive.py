"""Risk and gradient of the additive scorer beside those of the linear one.

    python benchmarks/additive.py

The data: 10,000 queries of 120 documents with 136 float32 features and 5 grades, random. Every evaluation is at fresh
random parameters, and the scorers take turns; ratios are to the linear scorer. Times are CPU time of two threads.
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
from marginrank.scorers.additive.bin_placement import learn_bins
from marginrank.scorers.additive.form import CurveShape
from marginrank.scorers.additive.scorer import PreparedAdditive
from marginrank.scorers.base import PreparedScorer
from marginrank.scorers.linear.scorer import PreparedLinear
from marginrank.training.risk import RankingRisk

N_QUERIES, N_DOCUMENTS, N_FEATURES, THREADS, ROUNDS = 10_000, 120, 136, 2, 12
BINS: dict[str, tuple[int, CurveShape]] = {
    "16 bins, steps": (16, "steps"),
    "255 bins, steps": (255, "steps"),
    "255 bins, lines": (255, "lines"),
}
LOSSES: dict[str, Loss] = {"auc, po": StructuredLoss("auc", "po"), "ranksvm": PairwiseHinge()}


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((N_QUERIES * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    queries = Queries.from_arrays(X, rng.integers(0, 5, len(X)), group=np.full(N_QUERIES, N_DOCUMENTS))
    scorers: dict[str, PreparedScorer] = {"linear": PreparedLinear(queries)}
    for name, (n_bins, shape) in BINS.items():
        start = time.process_time()
        bins = learn_bins(X, n_bins, n_jobs=THREADS, shape=shape)
        learned = time.process_time()
        scorers[name] = PreparedAdditive(queries, bins, n_jobs=THREADS)
        print(f"{name}: learned in {learned - start:.1f} s, encoded in {time.process_time() - learned:.1f} s")
    print("\n| loss | scorer | CPU ms | ratio | MB | ratio |\n| --- | --- | --- | --- | --- | --- |")
    for loss_name, loss in LOSSES.items():
        risks = [RankingRisk(scorer, loss, THREADS) for scorer in scorers.values()]
        rounds = [
            [seconds(partial(risk, rng.standard_normal(risk.n_parameters))) for risk in risks] for _ in range(ROUNDS)
        ]
        times, sizes = np.min(rounds, axis=0) * 1e3, [scorer.n_bytes / 1e6 for scorer in scorers.values()]
        for name, took, size in zip(scorers, times, sizes, strict=True):
            cells = [loss_name, name, f"{took:.0f}", f"{took / times[0]:.2f}", f"{size:.0f}", f"{size / sizes[0]:.3f}"]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
