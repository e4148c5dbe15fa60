"""Roofline of the kernels: bytes and operations per second against the peak of the machine; one thread.

    python benchmarks/roofline.py

The machine: the most bytes a second that a sum over an array larger than its caches reads, the most multiply-adds a
second of a matrix product in float64, and table lookups a second. Each kernel: the time for a document of 136 features
in a list of 120, the bytes it has to read, its operations, and the least time that either allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np

from marginrank import Queries
from marginrank.losses.base import PreparedLoss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.measures.ranked_grades import rank_by
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.additive.form import CurveShape
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.linear.scorer import Linear
from marginrank.training.risk import RankingRisk

N_QUERIES, N_DOCUMENTS, N_FEATURES = 2_000, 120, 136
N = N_QUERIES * N_DOCUMENTS
#: Shapes of curves, and how many values of a table a feature takes.
SHAPES: dict[CurveShape, float] = {"steps": 1.0, "lines": 2.0}


def seconds(work: Callable[[], Any], repeats: int = 7) -> float:
    """Return the least CPU time of some runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


@dataclass(frozen=True)
class Machine:
    """Peak rates of the machine for one thread, per second."""

    bytes: float
    multiplications: float
    lookups: float


@numba.njit(nogil=True)
def look_up(table, codes):  # type: ignore[no-untyped-def]
    """Sum values of a table that fits into the fastest cache."""
    a = b = c = d = 0.0
    for at in range(0, len(codes) - 3, 4):
        a += table[codes[at]]
        b += table[codes[at + 1]]
        c += table[codes[at + 2]]
        d += table[codes[at + 3]]
    return a + b + c + d


def measure_machine(rng: np.random.Generator) -> Machine:
    """Measure it."""
    large = rng.random(1 << 25)
    A, B = rng.random((2, 768, 768))
    table, codes = rng.random(256), rng.integers(0, 256, 1 << 20).astype(np.uint8)
    look_up(table, codes)
    return Machine(
        large.nbytes / seconds(large.sum),
        len(A) ** 3 / seconds(lambda: A @ B),
        len(codes) / seconds(lambda: look_up(table, codes)),
    )


@dataclass(frozen=True)
class Kernel:
    """A kernel: what it does to a document, and how long that took."""

    name: str
    seconds: float
    bytes: float
    multiplications: float = 0.0
    lookups: float = 0.0

    def row(self, machine: Machine) -> str:
        """Return a row of the table."""
        bounds = {
            "memory": self.bytes / machine.bytes,
            "arithmetic": self.multiplications / machine.multiplications,
            "lookups": self.lookups / machine.lookups,
        }
        limit = max(bounds, key=bounds.__getitem__)
        share = bounds[limit] / self.seconds
        operations = self.multiplications or self.lookups
        cells = [f"{1e9 * self.seconds:.1f}", f"{self.bytes:,.0f}", f"{operations:,.0f}", limit, f"{share:.0%}"]
        return f"| {self.name} | {' | '.join(cells)} |"


def each(work: Callable[..., Any], *arguments: Any) -> float:
    """Return the time for a document of what is done to all rows."""
    return seconds(partial(work, *arguments, 0, N)) / N


def evaluation(loss: PreparedLoss, X: np.ndarray, rng: np.random.Generator) -> float:
    """Return the time for a document of a loss and its gradient, at scores that differ little from those before."""
    w, xi, gradient, times = rng.standard_normal(N_FEATURES), np.zeros(N_QUERIES), np.zeros(N), []
    for _ in range(7):
        w = w + 1e-3 * rng.standard_normal(N_FEATURES)
        scores = X @ w
        times.append(seconds(partial(loss.evaluate, scores, xi, gradient, 0, N_QUERIES), repeats=1))
    return min(times[1:]) / N


def kernels(rng: np.random.Generator) -> list[Kernel]:
    """Run the kernels."""
    X = rng.random((N, N_FEATURES), dtype=np.float32)
    grades = rng.integers(0, 5, N)
    queries = Queries.from_arrays(X, grades, group=np.full(N_QUERIES, N_DOCUMENTS))
    gradient, scores, row = rng.standard_normal(N), np.empty(N), 4.0 * N_FEATURES
    linear, w = Linear().prepare(queries, 1), rng.standard_normal(N_FEATURES)
    found = [
        Kernel("X·w", each(linear.score, w, scores), row, N_FEATURES),
        Kernel("Xᵀ·gradient", each(linear.pull_back, gradient, np.zeros(N_FEATURES)), row, N_FEATURES),
    ]
    for shape, values in SHAPES.items():
        additive = Additive(shape=shape).prepare(queries, 1)
        table, size = additive.weights(0.1 * rng.standard_normal(additive.n_parameters)), additive.n_bytes / N
        looked_up = values * N_FEATURES
        found += [
            Kernel(f"additive, {shape}: scores", each(additive.score, table, scores), size, 0.0, looked_up),
            Kernel(
                f"additive, {shape}: gradient", each(additive.pull_back, gradient, 0.0 * table), size, 0.0, looked_up
            ),
        ]
    relevant = float((grades > 0).mean() * N_DOCUMENTS)
    losses = {
        "auc": (StructuredLoss("auc"), 16.0, relevant * (1.0 - relevant / N_DOCUMENTS)),
        "ranksvm": (PairwiseHinge(), 16.0, 0.4 * N_DOCUMENTS),
        "ap": (StructuredLoss("ap"), 40.0, 8.0 * np.log2(N_DOCUMENTS)),
        "ndcg@10": (StructuredLoss("ndcg@10"), 52.0, 8.0 * np.log2(N_DOCUMENTS)),
    }
    for name, (loss, size, operations) in losses.items():
        found.append(Kernel(f"{name} and its gradient", evaluation(loss.prepare(queries), X, rng), size, operations))
        risk = RankingRisk(linear, loss, n_jobs=1)
        whole = min(seconds(partial(risk, w + 1e-3 * rng.standard_normal(N_FEATURES)), 1) for _ in range(7))
        found.append(Kernel(f"a pass with {name}", whole / N, row + size, 2.0 * N_FEATURES + operations))
    order = seconds(lambda: rank_by(scores, queries.offsets)) / N
    found.append(Kernel("ranking for evaluation", order, 16.0, np.log2(N_DOCUMENTS)))
    return found


def main() -> None:
    rng = np.random.default_rng(0)
    with one_blas_thread():
        machine = measure_machine(rng)
        print(
            f"one thread: {machine.bytes / 1e9:.1f} GB/s, {machine.multiplications / 1e9:.1f} billion multiply-adds in "
            f"float64 and {machine.lookups / 1e9:.2f} billion lookups a second\n"
        )
        print("| kernel | ns per document | bytes | operations | bound by | share of that bound |")
        print("| --- | --- | --- | --- | --- | --- |")
        for kernel in kernels(rng):
            print(kernel.row(machine))


if __name__ == "__main__":
    main()
