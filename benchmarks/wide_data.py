"""CPU seconds of ``fit`` and ``tune`` on data with about as many features as documents, or more.

Run with ``python benchmarks/wide_data.py``; ``--tune`` adds the search, which takes about a minute. ``--shapes`` prints
a table of fits by shape, method and C instead.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginrank import Ranker, tune

DOCUMENTS_PER_QUERY = 20
#: Queries and features; the last is sparse.
SHAPES = [(50, 100), (50, 300), (50, 1_000), (50, 2_000), (200, 100), (200, 300), (200, 600), (200, 1_000)]
SHAPES += [(1_000, 100), (1_000, 300), (1_000, 600), (400, 20_000)]
#: Seconds for each of these fits.
TIME_LIMIT = 60.0
METHODS = ("svmmap", "ndcg@10", "ranksvm", "softmax")


def judged(X: Any, rng: np.random.Generator) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return features, grades from 0 to 3 by a random direction and noise, and query ids."""
    scores = X @ rng.standard_normal(X.shape[1])
    noisy = scores / scores.std() + rng.standard_normal(X.shape[0])
    return X, np.clip(np.round(noisy), 0, 3).astype(int), np.arange(X.shape[0]) // DOCUMENTS_PER_QUERY


def dense(n: int, d: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return dense data."""
    rng = np.random.default_rng(0)
    return judged(rng.standard_normal((n, d)), rng)


def sparse(n: int, d: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return sparse data with 50 features per document."""
    return judged(sp.random(n, d, density=50 / d, random_state=0, format="csr"), np.random.default_rng(0))


def measure(label: str, work: Callable[[], Any]) -> None:
    """Print the CPU seconds of some work, and what it returns."""
    began = time.process_time()
    result = work()
    print(f"{label:32} {time.process_time() - began:8.1f} s  {result}", flush=True)


def fitted(data: tuple[Any, np.ndarray, np.ndarray], C: float, method: str = "ndcg@10") -> str:
    """Fit a ranker, and return its certificate."""
    X, y, qid = data
    return repr(Ranker(method, C=C).fit(X, y, qid=qid).solution_)


def seconds(data: tuple[Any, np.ndarray, np.ndarray], method: str, C: float) -> str:
    """Return the CPU seconds of a fit; with its gap as a share of the objective if it did not reach 1e-4."""
    X, y, qid = data
    began = time.process_time()
    solution = Ranker(method, C=C, time_limit=TIME_LIMIT, n_jobs=1).fit(X, y, qid=qid).solution_
    took = f"{time.process_time() - began:.2f}"
    return took if solution.converged else f"{took} ({solution.gap / solution.primal:.0e})"


def print_shapes() -> None:
    """Print a table of fits by shape, method and C."""
    settings = [(method, C) for C in (1.0, 100.0) for method in METHODS]
    for n_features in (30, 300):
        for method, C in settings:
            seconds(dense(1_000, n_features), method, C)
    print(f"| queries × features | {' | '.join(f'{method}, C = {C:g}' for method, C in settings)} |")
    print("| --- |" + " --- |" * len(settings))
    for n_queries, n_features in SHAPES:
        make = sparse if n_features == SHAPES[-1][1] else dense
        data = make(n_queries * DOCUMENTS_PER_QUERY, n_features)
        cells = [seconds(data, method, C) for method, C in settings]
        print(f"| {n_queries:,} × {n_features:,} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure fits and, if asked for, a search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true", help="measure tune as well")
    parser.add_argument("--shapes", action="store_true", help="print a table of fits by shape instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.shapes:
        print_shapes()
        return
    fitted(dense(200, 600), 1.0)
    wide, sparse_data = dense(2_000, 2_000), sparse(8_000, 20_000)
    for C in (1.0, 100.0):
        measure(f"dense 2,000 × 2,000, C = {C:g}", partial(fitted, wide, C))
    measure("sparse 8,000 × 20,000", lambda: fitted(sparse_data, 1.0))
    measure("sparse 8,000 × 20,000, softmax", lambda: fitted(sparse_data, 1.0, "softmax"))
    if options.tune:
        X, y, qid = wide
        measure("tune, dense 2,000 × 2,000", lambda: tune(Ranker("ndcg@10"), X, y, qid=qid).best.parameters)


if __name__ == "__main__":
    main()
