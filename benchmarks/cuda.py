"""Linear and neural training with the features in the memory of a GPU, beside the CPU of the same machine.

    python benchmarks/cuda.py [--queries 31500]

The data: queries of 120 documents with 136 float32 features and 5 grades, generated; 31,500 queries are 3.8 million
documents. A pass computes all scores, all losses and the gradient. Beside it are the two products of PyTorch alone,
in float64; its share of the bandwidth is what the two products read, over what the device copies in that time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from marginrank import Queries, Ranker
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy
from marginrank.losses.structured import StructuredLoss
from marginrank.scorers import Additive, Linear, Neural
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.risk import RankingRisk
from marginrank.typing import FloatArray

N_DOCUMENTS, N_FEATURES, C, PASSES = 120, 136, 10.0, 10
LOSSES: dict[str, tuple[str, Loss]] = {
    "svmauc": ("svmauc", StructuredLoss("auc", "po")),
    "svmmap": ("svmmap", StructuredLoss("ap", "po")),
    "svmndcg": ("svmndcg", StructuredLoss("ndcg@10", "po")),
    "dorm-ndcg": ("dorm-ndcg", StructuredLoss("ndcg@10", "dorm")),
    "ranksvm": ("ranksvm", PairwiseHinge()),
    "ranksvm-squared": ("ranksvm-squared", PairwiseHinge(power=2)),
    "softmax": ("softmax", SoftmaxCrossEntropy()),
}


def judged(n_queries: int) -> Queries:
    rng = np.random.default_rng(0)
    X = rng.random((n_queries * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    hidden = X @ rng.standard_normal(N_FEATURES).astype(np.float32) + rng.standard_normal(len(X), dtype=np.float32)
    grades = np.digitize(hidden, np.quantile(hidden, [0.5, 0.8, 0.93, 0.98]))
    return Queries.from_arrays(X, grades, group=np.full(n_queries, N_DOCUMENTS))


def seconds(work: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def copied_per_second() -> float:
    """Bytes read and written by a copy inside the device."""
    a, b = (torch.empty(1 << 29, dtype=torch.float64, device="cuda") for _ in range(2))
    b.copy_(a)
    return float(2 * a.nbytes / min(seconds(partial(b.copy_, a)) for _ in range(5)))


def two_products(queries: Queries) -> float:
    """Seconds of X·w and X'·g by PyTorch, in float64."""
    X = torch.from_numpy(queries.dense()).cuda().double()
    w, gradient = (torch.ones(n, dtype=X.dtype, device="cuda") for n in reversed(X.shape))
    return min(seconds(lambda: (X.mv(w), X.T.mv(gradient))) for _ in range(5))


def seconds_per_pass(risk: RankingRisk, w: FloatArray, rng: np.random.Generator) -> float:
    """Seconds of risk and gradient at weights that differ by a thousandth from those before."""
    for _ in range(2):
        risk(w)
    steps = iter(w + 1e-3 * np.abs(w).mean() * rng.standard_normal((PASSES, len(w))))
    return min(seconds(partial(risk, next(steps))) for _ in range(PASSES))


def linear(queries: Queries, bandwidth: float) -> None:
    products = two_products(queries)
    print(f"two products by PyTorch, in float64: {1e3 * products:.2f} ms\n", flush=True)
    columns = (
        "CPU, ms per pass | GPU, ms per pass | relative to two products | at fitted weights | share of bandwidth "
        "| fit, s | solver, s | passes"
    )
    print(f"| preset | {columns} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(1)
    for name, (preset, loss) in LOSSES.items():
        here, there = (empirical_risk(queries, loss, Linear(device=device)) for device in (None, "cuda"))
        w = rng.standard_normal(N_FEATURES)
        times = [seconds_per_pass(risk, w, rng) for risk in (here, there)]
        ranker = Ranker(preset, C=C, scorer=Linear(device="cuda"), scaling=None)
        fit = seconds(partial(ranker.fit, queries))
        last = ranker.solution_.trace[-1]
        fitted = seconds_per_pass(there, ranker.solution_.theta, rng)
        share = 2 * 8 * queries.dense().size / times[1] / bandwidth
        print(
            f"| {name} | {1e3 * times[0]:.1f} | {1e3 * times[1]:.2f} | {times[1] / products:.2f} "
            f"| {fitted / products:.2f} | {share:.1%} | {fit:.2f} | {last.seconds:.3f} | {last.passes:.0f} |",
            flush=True,
        )


def additive(queries: Queries) -> None:
    columns = "CPU, ms a pass | cuda, ms a pass | ratio | fit to 1e-3, s | of it solver, s | passes"
    print(f"\n| additive, 64 steps | {columns} |\n| --- | --- | --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(1)
    for name in ("svmmap", "ranksvm-squared"):
        preset, loss = LOSSES[name]
        times = []
        for device in (None, "cuda"):
            risk = empirical_risk(queries, loss, Additive(bins=64, shape="steps", device=device))
            times.append(seconds_per_pass(risk, rng.standard_normal(risk.n_parameters), rng))
        ranker = Ranker(preset, C=C, scorer=Additive(bins=64, shape="steps", device="cuda"))
        fitted = seconds(partial(ranker.fit, queries))
        last = ranker.solution_.trace[-1]
        print(
            f"| {name} | {1e3 * times[0]:.1f} | {1e3 * times[1]:.1f} | {times[1] / times[0]:.3f} | {fitted:.1f} "
            f"| {last.seconds:.2f} | {last.passes:.0f} |",
            flush=True,
        )


def neural(queries: Queries, bandwidth: float) -> None:
    print("\n| loss | queries per batch | s per epoch | relative to reading X once |\n| --- | --- | --- | --- |")
    reading = 4 * queries.n_documents * N_FEATURES / bandwidth
    for method in ("softmax", "svmmap"):
        for batch in (32, 256, 2048):
            scorer = Neural(64, epochs=4, batch=batch, device="cuda")
            ranker = Ranker(method, scorer=scorer, scaling=None).fit(queries)
            # The first epoch allocates memory.
            epoch = float(np.diff([step.seconds for step in ranker.solution_.trace])[-3:].min())
            print(f"| {method} | {batch} | {epoch:.2f} | {epoch / reading:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=31_500)
    queries = judged(parser.parse_args().queries)
    bandwidth = copied_per_second()
    name = torch.cuda.get_device_name()
    print(f"{queries.n_documents:,} documents × {N_FEATURES}; {name} copies {bandwidth / 1e12:.2f} TB/s\n", flush=True)
    linear(queries, bandwidth)
    additive(queries)
    neural(queries, bandwidth)


if __name__ == "__main__":
    main()
