"""Learned fusion at the size of MQ2007-agg: 21 runs, 1,692 queries of some 40 documents, linear and additive.

    python benchmarks/fusion.py [--queries 1692] [--scorer linear] [--folds 5]

Runs are generated. In each of five folds three parts are trained on, one chooses C and the kind of features, and one is
tested. CPU seconds are those of one thread, seconds are by the clock on all cores, after a first fit that compiles.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from marginrank import Queries, evaluate
from marginrank.fusion import Fusion, UnsupervisedFusion


def generated(n_queries: int, n_runs: int = 21, seed: int = 0) -> Queries:
    """Runs of rising quality that share some of their errors; each returns the best 70% of the documents."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(21, 62, n_queries)
    qid, n = np.repeat(np.arange(n_queries), lengths), int(lengths.sum())
    appeal, shared = rng.standard_normal((2, n))
    grades = np.searchsorted([1.0, 1.7], appeal + 0.4 * rng.standard_normal(n))
    scores = np.empty((n, n_runs))
    for run, quality in enumerate(np.linspace(0.2, 0.9, n_runs)):
        seen = quality * np.sign(appeal) * np.abs(appeal) ** (0.6 + 0.05 * run) + 0.5 * shared + rng.standard_normal(n)
        places = np.empty(n)
        places[np.lexsort((-seen, qid))] = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        scores[:, run] = np.where(places < 0.7 * lengths[qid], seen, np.nan)
    return Queries.from_arrays(scores, grades, group=lengths, allow_nan=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1692)
    parser.add_argument("--folds", type=int, default=5, help="folds to run, of five")
    parser.add_argument("--scorer", action="append", help="one scorer; linear and additive by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    queries = generated(options.queries)
    part = np.random.default_rng(0).permutation(np.arange(len(queries)) % 5)
    print(f"{len(queries):,} queries, {queries.n_documents:,} documents, {queries.n_features} runs")
    print("\n| fusion | MAP | CPU seconds | seconds, all cores | passes |\n| --- | --- | --- | --- | --- |")
    for scorer in [None, *(options.scorer or ["linear", "additive"])]:
        first = UnsupervisedFusion("rrf") if scorer is None else Fusion("minmax", scorer=scorer, n_jobs=1, Cs=[1.0])
        first.fit(queries[:20], queries[20:30])
        values, cpu_seconds, seconds, passes = [], 0.0, 0.0, 0.0
        for fold in range(options.folds):
            train, valid, test = (
                queries[np.flatnonzero(chosen)]
                for chosen in ((part != fold) & (part != (fold + 1) % 5), part == (fold + 1) % 5, part == fold)
            )
            began = time.process_time()
            fusion = UnsupervisedFusion("rrf") if scorer is None else Fusion(scorer=scorer, n_jobs=1)
            fusion.fit(train, valid)
            cpu_seconds += time.process_time() - began
            began = time.perf_counter()
            (UnsupervisedFusion("rrf") if scorer is None else Fusion(scorer=scorer)).fit(train, valid)
            seconds += time.perf_counter() - began
            values.append(evaluate(test, fusion, "ap").mean["ap"])
            if isinstance(fusion, Fusion):
                passes += sum(one.passes for one in fusion.selection_.candidates)
        means = f"{np.mean(values):.4f} | {cpu_seconds:.1f} | {seconds:.1f} | {passes:.0f}"
        print(f"| {scorer or 'rrf'} | {means} |", flush=True)


if __name__ == "__main__":
    main()
