"""CPU seconds of the calls a user makes: `read`, `fit`, `tune`, `predict`, `evaluate`, on three sizes of data.

    python benchmarks/whole_calls.py [--data FOLDER] [--rounds 3]
    python benchmarks/whole_calls.py OTHER/src    # beside another version of the package, in turns

Each version runs in processes of its own, with a folder for compiled kernels that the first of them fills; a call is
made once before it is timed. Figures are medians over the rounds of CPU time, that of all threads, so that other
processes on the machine disturb them little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

OWN_SOURCE = Path(__file__).resolve().parents[1] / "src"
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MQ2008 = "letor4-mq2008"
SMALL, LARGE = "50 queries", "1.2 million × 136"
#: Text of more rows would take minutes to write.
MOST_ROWS_READ = 120_000
#: A call is repeated for this long.
SECONDS = 0.5


def generate(n_queries: int, n_documents: int, n_features: int, n_useful: int) -> tuple[Any, Any, Any]:
    """Return features, three grades and numbers of queries; the features explain half of the variance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_queries * n_documents, n_features), dtype=np.float32)
    hidden = X[:, :n_useful].sum(axis=1) / np.sqrt(n_useful) + rng.standard_normal(len(X), dtype=np.float32)
    return X, np.digitize(hidden, [0.8, 1.8]), np.repeat(np.arange(n_queries), n_documents)


def prepare(folder: Path, X: Any, y: Any, qid: Any) -> None:
    """Write arrays, and some of the rows as CSV, SVM-light text and Parquet."""
    import pyarrow as pa
    from pyarrow import csv, parquet
    from sklearn.datasets import dump_svmlight_file

    folder.mkdir()
    for name, array in {"X": X, "y": y, "qid": qid}.items():
        np.save(folder / f"{name}.npy", array)
    X, y, qid = (array[:MOST_ROWS_READ] for array in (X, y, qid))
    X = np.round(X.astype(np.float64), 4)
    columns = {f"f{number}": column for number, column in enumerate(X.T)}
    table = pa.table({"query": qid, "grade": y, **columns})
    csv.write_csv(table, folder / "judged.csv")
    parquet.write_table(table, folder / "judged.parquet")
    dump_svmlight_file(X, y, str(folder / "judged.txt"), query_id=qid, zero_based=False)


def mq2008(data: Path) -> tuple[Any, Any, Any]:
    """Return the training queries of the first fold."""
    from marginrank import Queries
    from marginrank.data import read_queries

    queries: Queries = read_queries([data / MQ2008 / f"S{part}.txt.xz" for part in (1, 2, 3)])
    return queries.dense(), queries.grades, np.repeat(np.arange(len(queries)), np.diff(queries.offsets))


def calls(folder: Path, large: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the calls and their names; only what all versions have is used."""
    from marginrank import Queries, Ranker, evaluate, read, tune

    try:
        from marginrank.model import scoring
    except ImportError:
        from marginrank import scoring  # type: ignore[attr-defined,no-redef]

    for suffix, name in {"csv": "CSV", "txt": "SVM-light", "parquet": "Parquet"}.items():
        yield f"read, {name}", partial(read, folder / f"judged.{suffix}")
    X, y, qid = (np.load(folder / f"{name}.npy") for name in ("X", "y", "qid"))
    queries = Queries.from_arrays(X, y, qid=qid)
    ranker = Ranker().fit(queries)
    yield "fit, X, y, qid", lambda: Ranker().fit(X, y, qid=qid)
    yield "fit, svmmap", lambda: Ranker().fit(queries)
    yield "fit, ndcg@10", lambda: Ranker("ndcg@10").fit(queries)
    yield "fit, softmax", lambda: Ranker("softmax").fit(queries)
    yield "fit, additive", lambda: Ranker("ranksvm-squared", scorer="additive").fit(queries)
    few: dict[str, Any] = {"folds": 2, "Cs": [0.1, 1.0, 10.0]} if large else {}
    yield "tune", lambda: tune(Ranker(), queries, **few)
    yield "predict, all rows", lambda: ranker.predict(X)
    yield "predict, 10 rows", lambda: ranker.predict(X[:10])
    scores = ranker.predict(X)
    yield "evaluate", lambda: evaluate(queries, scores)
    model = folder / f"model-{os.getpid()}.safetensors"
    ranker.save(model)
    light = scoring.load(model)
    yield "rerank, 100 rows", lambda: light.rerank(X[:100], 10)


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Return the CPU time of a call, the mean over `SECONDS`."""
    call()
    number, wall, cpu = 0, time.perf_counter(), time.process_time()
    while number == 0 or time.perf_counter() < wall + SECONDS:
        call()
        number += 1
    return (time.process_time() - cpu) / number


def measure(folder: Path) -> None:
    """Print the CPU seconds of each call, as JSON."""
    warnings.simplefilter("ignore")
    print(json.dumps({name: cpu_seconds(call) for name, call in calls(folder, folder.name == LARGE)}))


def in_process(source: Path, folder: Path, kernels: Path) -> dict[str, float]:
    """Measure all calls of a version."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(kernels)}
    command = [sys.executable, __file__, "--only", str(folder)]
    printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def print_row(data: str, call: str, rounds: list[list[dict[str, float]]]) -> None:
    """Print the medians of a call and, of two versions, their ratio."""
    medians = [median(times[call] for times in version) for version in rounds]
    ratio = [f"{medians[0] / medians[1]:.2f}"] if len(medians) > 1 else []
    print(f"| {' | '.join([data, call, *(f'{seconds:.3g}' for seconds in medians), *ratio])} |", flush=True)


def main() -> None:
    """Print a table of CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path, help="sources of a version to compare with")
    parser.add_argument("--data", type=Path, default=SHARED_DATA)
    parser.add_argument("--rounds", type=int, default=3, help="number of processes for each version and data")
    parser.add_argument("--skip-large", action="store_true", help=f"leave out {LARGE}")
    options = parser.parse_args()
    data: dict[str, Callable[[], tuple[Any, Any, Any]]] = {SMALL: lambda: generate(50, 40, 20, 5)}
    if (options.data / MQ2008).is_dir():
        data["MQ2008"] = lambda: mq2008(options.data)
    else:
        print(f"{options.data} has no {MQ2008}; name the folder that has with --data")
    if not options.skip_large:
        data[LARGE] = lambda: generate(10_000, 120, 136, 10)
    sources = [OWN_SOURCE] if options.other is None else [OWN_SOURCE, options.other.resolve()]
    heads = ["data", "call", "CPU seconds", *(["the other", "ratio"] if options.other else [])]
    print(f"| {' | '.join(heads)} |\n| {' | '.join(['---'] * len(heads))} |")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in data.items():
            prepare(Path(folder, name), *make())
            rounds: list[list[dict[str, float]]] = [[] for _ in sources]
            for _ in range(options.rounds):
                for number, source in enumerate(sources):
                    rounds[number].append(in_process(source, Path(folder, name), Path(folder, f"kernels {number}")))
            for call in rounds[0][0]:
                print_row(name, call, rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        measure(Path(sys.argv[2]))
    else:
        main()
