"""Growth of the time of a pass with queries, documents and features, and that of training with C: exponents.

    python benchmarks/growth.py

Random float32 features and five grades, one thread. Around 1,000 queries of 120 documents with 136 features, one of the
three is doubled and halved; a pass is one evaluation of risk and gradient at weights that differ by a thousandth from
those before. The exponent is the slope of log time over log size; passes to a gap of 1e-3 are counted for each C.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from marginrank import Queries
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.base import Scorer
from marginrank.scorers.linear.scorer import Linear
from marginrank.solvers.auto import Auto
from marginrank.training.risk import RankingRisk

METHODS: dict[str, tuple[Loss, Scorer]] = {
    "svmauc": (StructuredLoss("auc"), Linear()),
    "svmmap": (StructuredLoss("ap"), Linear()),
    "svmndcg@10": (StructuredLoss("ndcg@10"), Linear()),
    "ranksvm": (PairwiseHinge(), Linear()),
    "svmmap, additive": (StructuredLoss("ap"), Additive()),
}
CS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Size:
    """The size of a data set."""

    queries: int = 1000
    documents: int = 120
    features: int = 136

    def data(self) -> Queries:
        """Return queries whose grades follow a random direction, with as much noise."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((self.queries * self.documents, self.features), dtype=np.float32)
        signal = X @ rng.standard_normal(self.features).astype(np.float32) / np.sqrt(self.features)
        grades = np.clip(np.round(1.0 + signal + rng.standard_normal(len(X))), 0, 4)
        return Queries.from_arrays(X, grades, group=np.full(self.queries, self.documents))


SIZES = {
    "queries": [Size(queries=n) for n in (250, 500, 1000, 2000, 4000)],
    "documents": [Size(documents=n) for n in (30, 60, 120, 240, 480)],
    "features": [Size(features=n) for n in (34, 68, 136, 272)],
}


def pass_seconds(loss: Loss, scorer: Scorer, queries: Queries) -> float:
    """Return the CPU seconds of one pass, the least of five."""
    risk, rng = RankingRisk(scorer.prepare(queries, 1), loss, n_jobs=1), np.random.default_rng(1)
    theta = 0.1 * rng.standard_normal(risk.n_parameters)
    risk(theta)
    times = []
    for _ in range(5):
        theta = theta + 1e-4 * rng.standard_normal(risk.n_parameters)
        start = time.process_time()
        risk(theta)
        times.append(time.process_time() - start)
    return min(times)


def growth_table() -> None:
    """Print the exponents."""
    print(f"| method | {' | '.join(SIZES)} | ms at 1,000 × 120 × 136 |\n| --- |{' --- |' * (len(SIZES) + 1)}")
    for name, (loss, scorer) in METHODS.items():
        exponents, middle = [], 0.0
        for sizes in SIZES.values():
            times = [pass_seconds(loss, scorer, size.data()) for size in sizes]
            numbers = [size.queries * size.documents * size.features for size in sizes]
            exponents.append(np.polyfit(np.log(numbers), np.log(times), 1)[0])
            middle = times[sizes.index(Size())]
        print(f"| {name} | {' | '.join(f'{one:.2f}' for one in exponents)} | {middle * 1e3:.1f} |", flush=True)


def training_table() -> None:
    """Print passes and CPU seconds of training for each C."""
    queries = Size().data()
    print(f"\n| passes (CPU s) | {' | '.join(f'C = {C:g}' for C in CS)} | exponent of time |")
    print("| --- |" + " --- |" * (len(CS) + 1))
    for name, (loss, scorer) in METHODS.items():
        risk, cells, times = RankingRisk(scorer.prepare(queries, 1), loss, n_jobs=1), [], []
        for C in CS:
            start = time.process_time()
            solution = Auto(tol=1e-3, time_limit=300.0).minimize(risk, C)
            times.append(time.process_time() - start)
            cells.append(f"{solution.passes:.0f} ({times[-1]:.2f}){'' if solution.converged else '*'}")
        exponent = np.polyfit(np.log(CS), np.log(times), 1)[0]
        print(f"| {name} | {' | '.join(cells)} | {exponent:.2f} |", flush=True)


def main() -> None:
    with one_blas_thread():
        growth_table()
        training_table()


if __name__ == "__main__":
    main()
