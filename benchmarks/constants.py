"""Tuned constants: time of whole calls for other values of each, relative to the value in use.

    python benchmarks/constants.py [--only PARTS,CHUNKS] [--repeats 5]

Every value has its own process, which sets the constant of `marginrank.runtime.tuned_constants` before anything else is
imported. Figures are minima over several calls after a first that is not counted; CPU time is that of all threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marginrank.runtime import tuned_constants

#: Queries, documents of a query, and features.
SHAPES = {"small": (50, 20, 5), "medium": (200, 50, 20), "large": (2_000, 50, 40)}
#: Values to try, and calls to time, for each constant.
SWEEPS: dict[str, tuple[list[Any], list[str]]] = {
    "CHUNKS": ([8, 512], ["fit large", "evaluate large"]),
    "SERIAL_DOCUMENTS": ([0, 20_000], ["evaluate small", "fit small", "fit medium"]),
    "GIL_BOUND_NUMBERS": ([0], ["tune small", "tune medium"]),
    "PARTS": ([16, 64], ["fit medium", "fit medium C=100", "curves medium", "curves medium C=100"]),
    "SIGNED_PARTS": ([4, 32], ["monotone medium", "monotone medium C=100"]),
    "FEW_PARAMETERS": ([8, 4_096], ["fit large C=100", "curves medium", "curves medium C=100"]),
    "MAX_PARTS": ([32, 512], ["fit large", "fit large C=100"]),
    "PROGRAM_BYTES": ([15, 1_500], ["fit large", "fit large C=100"]),
    "TEXT_BLOCK_BYTES": ([1 << 18, 8 << 20], ["read csv", "read jsonl", "read txt"]),
    "HASH_BLOCK_NUMBERS": ([1 << 12, 1 << 18, 1 << 21], ["keys large"]),
}


def generated(shape: str) -> Any:
    """Return queries with three grades, of which the features tell half of the variance."""
    import numpy as np

    from marginrank import Queries

    n_queries, n_documents, n_features = SHAPES[shape]
    rng = np.random.default_rng(0)
    X, w = rng.random((n_queries * n_documents, n_features)), rng.standard_normal(n_features)
    hidden = np.sqrt(12.0) * (X - 0.5) @ (w / np.linalg.norm(w)) + rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [0.8, 1.8]), group=[n_documents] * n_queries)


def call(name: str, folder: Path) -> Callable[[], object]:
    """Return the call of a name such as ``fit large C=100``."""
    from marginrank import Additive, Queries, Ranker, convert, evaluate, read, tune
    from marginrank.data.formats.binary import write_binary

    what, data, C = (*name.split(), "C=1")[:3]
    if what == "read":
        source, path = folder / "large.queries", folder / f"large.{data}"
        write_binary(source, generated("large"))
        convert(source, path)
        return lambda: read(path)
    queries = generated(data)
    if what == "evaluate":
        return lambda: [evaluate(queries, queries.X[:, 0], "ndcg@10") for _ in range(20)]
    if what == "tune":
        return lambda: tune(Ranker("svmmap"), queries)
    if what == "keys":
        return lambda: Queries.from_arrays(queries.X, queries.grades, group=queries.lengths).document_keys
    scorer: Any = {"fit": "linear", "curves": Additive(bins=64), "monotone": Additive(bins=64, monotone="increasing")}[
        what
    ]
    return lambda: Ranker("svmmap", scorer=scorer, C=float(C.removeprefix("C="))).fit(queries)


def measure(names: list[str], repeats: int) -> list[tuple[float, float]]:
    """Return the least wall and CPU time of each call."""
    warnings.simplefilter("ignore")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            timed = call(name, Path(folder))
            times = []
            for _ in range(1 + repeats):
                wall, cpu = time.perf_counter(), time.process_time()
                timed()
                times.append((time.perf_counter() - wall, time.process_time() - cpu))
            walls, cpus = zip(*times[1:], strict=True)
            results.append((min(walls), min(cpus)))
    return results


def in_process(constant: str, value: Any, repeats: int) -> list[tuple[float, float]]:
    """Measure the calls of a constant in a process in which it has the value."""
    command = [sys.executable, __file__, "--set", constant, json.dumps(value), "--repeats", str(repeats)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [tuple(pair) for pair in json.loads(output)]


def main() -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SWEEPS), help="constants, separated by commas")
    parser.add_argument("--repeats", type=int, default=5, help="number of calls for each figure")
    parser.add_argument("--set", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.set:
        setattr(tuned_constants, options.set[0], json.loads(options.set[1]))
        print(json.dumps(measure(SWEEPS[options.set[0]][1], options.repeats)))
        return
    print("| constant | call | value | seconds | wall | CPU |\n| --- | --- | --- | --- | --- | --- |")
    for constant in options.only.split(","):
        values, names = SWEEPS[constant]
        in_use = getattr(tuned_constants, constant)
        reference = in_process(constant, in_use, options.repeats)
        for value in [in_use, *values]:
            times = reference if value == in_use else in_process(constant, value, options.repeats)
            for name, (wall, cpu), (wall_in_use, cpu_in_use) in zip(names, times, reference, strict=True):
                ratios = f"{wall / wall_in_use:.2f} | {cpu / cpu_in_use:.2f}"
                print(f"| {constant} | {name} | {value:,} | {wall:.3f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
