"""Passes over the data to a gap of 1e-3: every convex preset, every C of the default grid, both scorers.

    python benchmarks/passes.py [--data MQ2008] [--scorer linear] [--preset svmmap] [--C 100] [--solver bundle]

Each C is solved on its own, from 0, on the training queries of fold 1 of MQ2008 and OHSUMED, on those of pydocs, and on
10,000 generated queries; a star marks what reached the time limit before the gap. CPU seconds of one thread stand
behind the passes. The last lines count the cells, those above 60 passes and those that were stopped.
LETOR is read from ../shared/data, and left out where it is not there.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from marginrank import Queries
from marginrank.data import read_letor
from marginrank.datasets import pydocs
from marginrank.losses.base import Loss
from marginrank.methods.presets import all_presets, parse_preset
from marginrank.preparation.scaling import scale
from marginrank.ranker.grid_search import DEFAULT_CS
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.base import parse_scorer
from marginrank.solvers.base import parse_solver
from marginrank.solvers.solution import Solution
from marginrank.training.risk import RankingRisk
from marginrank.training.tight_bound import Tight

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LETOR = {"MQ2008": "letor4-mq2008", "OHSUMED": "letor3-ohsumed/QueryLevelNorm"}
COLLECTIONS = [*LETOR, "pydocs", "generated"]


def collection(name: str) -> Queries:
    """Return the training queries."""
    if name in LETOR:
        return Queries.concatenate(
            [read_letor(DATA / LETOR[name] / f"S{part}.txt.xz", dtype="float32") for part in (1, 2, 3)]
        )
    return pydocs().train if name == "pydocs" else generated(10_000)


def generated(n_queries: int, length: int = 20, n_features: int = 46) -> Queries:
    """Return queries with features that depend on each other, and grades that are not linear in them."""
    rng = np.random.default_rng(0)
    n, mixing = n_queries * length, rng.standard_normal((12, n_features))
    X = np.exp(0.3 * (rng.standard_normal((n, 12)) @ mixing + rng.standard_normal((n, n_features))))
    merit = np.log1p(X) @ rng.standard_normal(n_features) + np.sin(X[:, 0]) + 4.0 * rng.standard_normal(n)
    grades = np.digitize(merit, np.quantile(merit, [0.7, 0.92]))
    return Queries.from_arrays(X.astype(np.float32), grades, group=[length] * n_queries)


def convex_presets() -> Iterator[tuple[str, Loss]]:
    """Return the presets whose solutions have a certificate."""
    for name in all_presets():
        method = parse_preset(name.replace("@k", "@10"))
        if method.loss is not None and method.loss.convex and not isinstance(method.bound, Tight):
            yield name, method.loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", action="append", choices=COLLECTIONS, help="one collection; all by default")
    parser.add_argument("--scorer", action="append", help="one scorer; linear and additive by default")
    parser.add_argument("--preset", action="append", help="one preset; all convex ones by default")
    parser.add_argument("--C", action="append", type=float, help="one C; the default grid by default")
    parser.add_argument("--solver", default="auto", help="the solver; auto by default")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one C")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    Cs = options.C or DEFAULT_CS
    solver = parse_solver(options.solver).with_params(tol=1e-3, time_limit=options.time_limit)
    print(f"| data | scorer | preset | {' | '.join(f'C = {C:g}' for C in Cs)} |")
    print("|" + " --- |" * (len(Cs) + 3), flush=True)
    solutions: list[Solution] = []
    for name in options.data or COLLECTIONS:
        try:
            queries = collection(name)
        except FileNotFoundError as error:
            print(f"{name} is left out: {error.filename} is not there", file=sys.stderr)
            continue
        for spelled in options.scorer or ["linear", "additive"]:
            scorer = parse_scorer(spelled)
            scaled = scale(queries, "auto", matters=scorer.scale_matters, before=scorer.before_scaling)
            prepared = scorer.prepare(scaled.queries, 1)
            for preset, loss in convex_presets():
                if options.preset and preset not in options.preset:
                    continue
                print(f"| {name} | {spelled} | {preset} |", end="", flush=True)
                RankingRisk(prepared, loss, 1).parts(np.zeros(prepared.n_parameters))
                with one_blas_thread():
                    for C in Cs:
                        began = time.process_time()
                        solutions.append(solver.minimize(RankingRisk(prepared, loss, 1), C))
                        took = f"({time.process_time() - began:.2f} s)"
                        star = "" if solutions[-1].converged else "*"
                        print(f" {solutions[-1].passes:.0f}{star} {took} |", end="", flush=True)
                print(flush=True)
    stopped = sum(not solution.converged for solution in solutions)
    above = sum(solution.passes > 60 for solution in solutions)
    print(f"\n{len(solutions)} cells, {above} above 60 passes, {stopped} stopped at the time limit")


if __name__ == "__main__":
    main()
