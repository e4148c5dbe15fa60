"""Passes that training takes on published folds; then its time and memory beside dlib and LightGBM.

    python benchmarks/training.py [--data FOLDER] [--queries 10000] [--C 10] [--repeat 3]

All of our problems are solved to a gap of a thousandth of the objective. A pass is one evaluation of the risk of all
queries. The folds are those of LETOR, read from FOLDER, by default ``shared/data`` beside the repository.

The data of the comparison is generated: correlated float32 features of 120 documents per query, 20 of them relevant.
As every query has the same number of pairs, dlib's mean over all pairs is our mean over the queries. Each contender
runs in a process of its own, so that the peak of memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from marginrank import Queries, evaluate
from marginrank.data import read_queries
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.solvers.bundle import Bundle
from marginrank.training.partitioned_risk import empirical_risk

TOLERANCE = 1e-3
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDS = {"MQ2008": ("letor4-mq2008", "letor4"), "OHSUMED": ("letor3-ohsumed/QueryLevelNorm", "letor3")}
LOSSES: dict[str, Loss] = {
    "svmmap": StructuredLoss("ap"),
    "svmauc": StructuredLoss("auc"),
    "svmndcg-nc": StructuredLoss("ndcg"),
    "ranksvm": PairwiseHinge(),
}
PATH = 10.0 ** np.arange(-1, 4, 0.5)

N_DOCUMENTS, N_FEATURES, N_FACTORS, N_RELEVANT, N_HELD_OUT = 120, 136, 8, 20, 1000
#: The smallest of 0.1, 1, ..., 1000 that is as good as any: average precision on 8,000 held-out queries is 0.3455,
#: 0.3721, 0.3851, 0.3855 and 0.3856.
LEAST_GOOD_C = 10.0

Matrix: TypeAlias = npt.NDArray[np.float32]
Grades: TypeAlias = npt.NDArray[np.int8]


def folds_table(data: Path) -> None:
    print("| data | loss | C | ap | passes | hardest C alone | path of 10 C | path / hardest | seconds, path |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (folder, policy) in FOLDS.items():
        train = read_queries([data / folder / f"S{part}.txt.xz" for part in (1, 2, 3)])
        validation = read_queries(data / folder / "S4.txt.xz")
        for preset, loss in LOSSES.items():
            print(f"| {name} | {preset} | {' | '.join(fold_cells(train, validation, loss, policy))} |", flush=True)


def fold_cells(train: Queries, validation: Queries, loss: Loss, policy: str) -> list[str]:
    """Solve the path, choose C on the validation queries, and solve every C alone."""
    risk, judge = empirical_risk(train, loss), empirical_risk(validation, loss)
    solver = Bundle(tol=TOLERANCE)
    risk.parts(np.zeros(train.n_features))
    with threadpool_limits(1, "blas"):
        start = time.perf_counter()
        path = solver.path(risk, PATH)
        seconds = time.perf_counter() - start
        alone = [solver.minimize(risk, value) for value in PATH]
    found = [evaluate(validation, judge.scores(s.theta), "ap", policy=policy).mean["ap"] for s in path]
    chosen, hardest = int(np.argmax(found)), max(s.passes for s in alone)
    if not all(s.converged for s in [*path, *alone]):
        raise RuntimeError(f"{loss} was not solved to a gap of {TOLERANCE}")
    passes = sum(s.passes for s in path)
    return [
        f"{PATH[chosen]:.4g}",
        f"{found[chosen]:.4f}",
        f"{alone[chosen].passes:.0f}",
        f"{hardest:.0f}",
        f"{passes:.0f}",
        f"{passes / hardest:.2f}",
        f"{seconds:.2f}",
    ]


def generate(n_queries: int, seed: int) -> tuple[Matrix, Grades]:
    """Features that share some factors; relevant are the documents with the highest noisy weighted sum of a few."""
    fixed, rng = np.random.default_rng(7), np.random.default_rng(seed)
    weights = (fixed.standard_normal(N_FEATURES) * 0.9 ** np.arange(N_FEATURES)).astype(np.float32)
    loadings = 0.5 * fixed.random((N_FACTORS, N_FEATURES), dtype=np.float32)
    X = np.empty((n_queries * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    grades = np.zeros((n_queries, N_DOCUMENTS), dtype=np.int8)
    # One query at a time, since temporary arrays would count in the peak of memory.
    for q in range(n_queries):
        rows = X[q * N_DOCUMENTS : (q + 1) * N_DOCUMENTS]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows += rng.standard_normal((N_DOCUMENTS, N_FACTORS), dtype=np.float32) @ loadings
        signal = rows @ weights
        noisy = signal + 2 * signal.std() * rng.standard_normal(N_DOCUMENTS)
        grades[q, np.argsort(-noisy)[:N_RELEVANT]] = 1
    return X, grades.ravel()


def as_queries(X: Matrix, grades: Grades) -> Queries:
    return Queries.from_arrays(X, grades, group=np.full(len(X) // N_DOCUMENTS, N_DOCUMENTS))


@dataclass
class Trained:
    """Result of a contender; weights are those of RankSVM, if it has any."""

    scores: Callable[[Matrix], npt.NDArray[Any]]
    weights: npt.NDArray[np.float64] | None = None
    passes: float | None = None


def linear(weights: npt.NDArray[np.float64], passes: float | None = None) -> Trained:
    return Trained(lambda X: X @ weights, weights, passes)


def train_ranksvm(queries: Queries, C: float, blas_threads: int | None = 1) -> Trained:
    with threadpool_limits(blas_threads, "blas"):
        found = Bundle(tol=TOLERANCE).minimize(empirical_risk(queries, PairwiseHinge()), C)
    return linear(found.theta, found.passes)


def train_svmauc(queries: Queries, C: float) -> Trained:
    """With two grades the hinge of AUC at w is that of the pairs at 2w, so that a quarter of C is the same problem."""
    with threadpool_limits(1, "blas"):
        found = Bundle(tol=TOLERANCE).minimize(empirical_risk(queries, StructuredLoss("auc")), C / 4)
    return linear(2 * found.theta, found.passes)


def as_ranking_pairs(X: Matrix, grades: Grades) -> Any:
    import dlib

    pairs = dlib.ranking_pairs()
    for start in range(0, len(X), N_DOCUMENTS):
        rows, relevant = X[start : start + N_DOCUMENTS], grades[start : start + N_DOCUMENTS] > 0
        pair = dlib.ranking_pair()
        pair.relevant = dlib.vectors([dlib.vector(row) for row in rows[relevant].tolist()])
        pair.nonrelevant = dlib.vectors([dlib.vector(row) for row in rows[~relevant].tolist()])
        pairs.append(pair)
    return pairs


def train_dlib(pairs: Any, C: float) -> Trained:
    """Its passes are in the log that it prints."""
    import dlib

    trainer = dlib.svm_rank_trainer()
    trainer.c = C
    trainer.be_verbose()
    return linear(np.asarray(trainer.train(pairs).weights, dtype=np.float64).ravel())


def as_dataset(X: Matrix, grades: Grades) -> Any:
    import lightgbm

    group = np.full(len(X) // N_DOCUMENTS, N_DOCUMENTS)
    return lightgbm.Dataset(X, grades, group=group, params={"verbosity": -1}).construct()


def train_lightgbm(dataset: Any, C: float) -> Trained:  # noqa: ARG001
    import lightgbm

    settings = {"objective": "lambdarank", "num_threads": os.cpu_count(), "verbosity": -1}
    booster = lightgbm.train(settings, dataset, num_boost_round=100)
    return Trained(booster.predict)


CONTENDERS: dict[str, tuple[Callable[[Matrix, Grades], Any], Callable[[Any, float], Trained]]] = {
    "marginrank, ranksvm": (as_queries, train_ranksvm),
    "marginrank, svmauc": (as_queries, train_svmauc),
    "marginrank, ranksvm, BLAS on all cores": (as_queries, partial(train_ranksvm, blas_threads=None)),
    "dlib svm_rank_trainer": (as_ranking_pairs, train_dlib),
    "LightGBM lambdarank, 100 trees": (as_dataset, train_lightgbm),
}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name: str, n_queries: int, C: float) -> None:
    """Print, as JSON, what training took and what it led to."""
    prepare, train = CONTENDERS[name]
    train(prepare(*generate(100, seed=2)), C)
    before = resident_bytes()
    X, grades = generate(n_queries, seed=0)
    start = time.perf_counter()
    prepared = prepare(X, grades)
    ready, worked = time.perf_counter(), time.process_time()
    trained = train(prepared, C)
    found = {
        "preparing": ready - start,
        "seconds": time.perf_counter() - ready,
        "cpu": time.process_time() - worked,
        "memory": (peak_bytes() - before) / X.nbytes,
    }
    if trained.weights is not None:
        risk, _ = empirical_risk(as_queries(X, grades), PairwiseHinge())(trained.weights)
        found["objective"] = 0.5 * float(trained.weights @ trained.weights) + C * risk
    if trained.passes is not None:
        found["passes"] = trained.passes
    held_out = generate(N_HELD_OUT, seed=1)
    found["ap"] = evaluate(as_queries(*held_out), trained.scores(held_out[0]), "ap").mean["ap"]
    print(json.dumps(found))


def in_process(name: str, n_queries: int, C: float) -> dict[str, float]:
    command = [sys.executable, __file__, "--only", name, str(n_queries), str(C)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    found: dict[str, float] = json.loads(printed[-1])
    iterations = [int(line.split()[1]) for line in printed if line.startswith("iter:")]
    if iterations:
        # dlib counts from the second evaluation on.
        found["passes"] = iterations[-1] + 1
    return found


def comparison_table(n_queries: int, C: float, repeat: int) -> None:
    rounds = [{name: in_process(name, n_queries, C) for name in CONTENDERS} for _ in range(repeat)]
    fastest = {name: min((found[name] for found in rounds), key=lambda one: one["seconds"]) for name in CONTENDERS}
    ours = next(iter(fastest.values()))["seconds"]
    print(f"\n{n_queries:,} queries of {N_DOCUMENTS} documents, {N_FEATURES} features; C = {C:g}\n")
    print("| trainer | seconds | times ours | CPU s | making its input, s | passes | memory / data | objective | ap |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, found in fastest.items():
        cells = [
            f"{found['seconds']:.1f}",
            f"{found['seconds'] / ours:.1f}",
            f"{found['cpu']:.1f}",
            f"{found['preparing']:.1f}",
            f"{found['passes']:.0f}" if "passes" in found else "",
            f"{found['memory']:.2f}",
            f"{found['objective']:.4f}" if "objective" in found else "",
            f"{found['ap']:.4f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED_DATA)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--C", type=float, default=LEAST_GOOD_C)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    missing = [folder for folder, _ in FOLDS.values() if not (arguments.data / folder).is_dir()]
    if missing:
        print(f"{arguments.data} has no {' and no '.join(missing)}; name the folder that has with --data")
    else:
        folds_table(arguments.data)
    comparison_table(arguments.queries, arguments.C, arguments.repeat)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        measure(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
