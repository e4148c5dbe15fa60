"""Small data: `tune` with ten C and five folds on 50 judged queries, once kernels are compiled and loaded.

    python benchmarks/small.py [--repeats 5] [--presets svmmap,softmax]

Every figure is the median of several calls in one process, after a first that is not counted. CPU time is that of all
threads, without waiting for other processes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from statistics import median

import numpy as np

from marginrank import Queries, Ranker, tune
from marginrank.training.loss_minimizer import CollapseWarning

PRESETS = ("svmmap", "svmndcg", "svmauc", "ranksvm", "softmax")
N_QUERIES = 50
#: Documents of a query, and features.
SHAPES = ((20, 5), (50, 10), (100, 46))


def generated(n_documents: int, n_features: int) -> Queries:
    """Queries with three grades, of which the features tell half of the variance."""
    rng = np.random.default_rng(0)
    X = rng.random((N_QUERIES * n_documents, n_features))
    w = rng.standard_normal(n_features)
    hidden = np.sqrt(12.0) * (X - 0.5) @ (w / np.linalg.norm(w)) + rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [0.8, 1.8]), group=[n_documents] * N_QUERIES)


def seconds(preset: str, queries: Queries, repeats: int) -> tuple[float, float]:
    """Return the medians of wall and CPU time."""
    times = []
    for _ in range(1 + repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        tune(Ranker(preset), queries)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*times[1:], strict=True)
    return median(walls), median(cpus)


def main() -> None:
    """Print a table of seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="number of calls for each figure")
    parser.add_argument("--presets", default=",".join(PRESETS), help="presets, separated by commas")
    options = parser.parse_args()
    # The hinge of clipped measures may be minimal at 0; that the tight bound is trained instead is part of the time.
    warnings.simplefilter("ignore", CollapseWarning)
    print("| preset | documents a query | features | seconds | CPU seconds |\n| --- | --- | --- | --- | --- |")
    for n_documents, n_features in SHAPES:
        queries = generated(n_documents, n_features)
        for preset in options.presets.split(","):
            wall, cpu = seconds(preset, queries, options.repeats)
            print(f"| {preset} | {n_documents} | {n_features} | {wall:.2f} | {cpu:.2f} |", flush=True)


if __name__ == "__main__":
    main()
