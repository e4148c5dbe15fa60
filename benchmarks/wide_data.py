"""CPU seconds of ``fit`` and ``tune`` on data with about as many features as documents, or more.

Run with ``python benchmarks/wide_data.py``; ``--tune`` adds the search, which takes about a minute.
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


def main() -> None:
    """Measure fits and, if asked for, a search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true", help="measure tune as well")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
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
