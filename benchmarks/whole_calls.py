"""CPU seconds of the calls a user makes: read, fit, tune, predict, evaluate, report, on three sizes of data.

    python benchmarks/whole_calls.py [--data FOLDER] [--rounds 3] [--without TOOL ...]
    python benchmarks/whole_calls.py OTHER/src    # beside another version of the package, in turns

Without OTHER, each row has the same call of other tools (`peer_calls.py`), as a multiple of ours; a tool that cannot be
imported is named with the reason. "Times X" is relative to reading the features once: ``X.sum()``, one thread.

Each version and each tool runs in processes of its own, with a folder for compiled kernels that the first of them
fills; a call is made once before it is timed, unless it takes long. Figures are medians over the rounds of CPU time,
that of all threads, so that other processes on the machine disturb them little.
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
from peer_calls import TOOLS, Skipped

OWN_SOURCE = Path(__file__).resolve().parents[1] / "src"
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MQ2008 = "letor4-mq2008"
SMALL, LARGE = "50 queries", "1.2 million × 136"
#: Text of more rows would take minutes to write.
MOST_ROWS_READ = 120_000
#: A call is repeated for this long, and not even made twice if it takes that long.
SECONDS, LONG = 0.5, 10.0
#: The calls that make up a first day: their sum is a row.
CHAIN = ("read, CSV", "fit, X, y, qid", "predict, all rows", "evaluate", "report")
#: The name under which a process prints what reading X once takes.
READING = "X.sum()"


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
    from marginrank import Queries, Ranker, evaluate, read, tune, write_report

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
    page = folder / f"report-{os.getpid()}.html"
    yield "report", lambda: write_report(page, queries, {"model": scores, "first feature": X[:, 0].astype(float)})
    model = folder / f"model-{os.getpid()}.safetensors"
    ranker.save(model)
    light = scoring.load(model)
    yield "rerank, 100 rows", lambda: light.rerank(X[:100], 10)


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Return the CPU time of a call, the mean over `SECONDS`."""
    number, wall, cpu = 0, time.perf_counter(), time.process_time()
    call()
    if time.process_time() > cpu + LONG:
        return time.process_time() - cpu
    wall, cpu = time.perf_counter(), time.process_time()
    while number == 0 or time.perf_counter() < wall + SECONDS:
        call()
        number += 1
    return (time.process_time() - cpu) / number


def measure(folder: Path, tool: str) -> None:
    """Print the CPU seconds of each call of a tool, or of ours, as JSON; or a text: why it makes none."""
    warnings.simplefilter("ignore")
    X, y, qid = (np.load(folder / f"{name}.npy") for name in ("X", "y", "qid"))
    try:
        made = TOOLS[tool](folder, X, y, qid) if tool else calls(folder, folder.name == LARGE)
        times = {name: cpu_seconds(call) for name, call in made}
    except (ImportError, Skipped) as reason:
        print(json.dumps(str(reason)))
        return
    print(json.dumps(times if tool else {READING: cpu_seconds(X.sum), **times}))


def in_process(source: Path, folder: Path, kernels: Path, tool: str = "") -> Any:
    """Measure all calls of a version, or of a tool."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), *sys.path[1:]])}
    environment["NUMBA_CACHE_DIR"] = str(kernels)
    command = [sys.executable, __file__, "--only", str(folder), tool]
    printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each call over the rounds."""
    return {call: median(times[call] for times in rounds) for call in rounds[0]}


def with_chain(times: dict[str, float]) -> dict[str, float]:
    """Add the sum of the calls of a first day."""
    return {**times, " → ".join(call.partition(",")[0] for call in CHAIN): sum(times[call] for call in CHAIN)}


def shown(seconds: float) -> str:
    """Write a time with three digits."""
    unit, factor = ("s", 1.0) if seconds >= 1.0 else ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    return f"{factor * seconds:.3g} {unit}"


def print_table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    for cells in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(cells)} |", flush=True)


def print_versions(folder: Path, sources: list[Path], n_rounds: int) -> None:
    """Print both versions and their ratio."""
    rounds: list[list[dict[str, float]]] = [[] for _ in sources]
    for _ in range(n_rounds):
        for number, source in enumerate(sources):
            rounds[number].append(in_process(source, folder, folder.parent / f"kernels {number}"))
    ours, others = map(medians, rounds)
    rows = [[call, shown(ours[call]), shown(others[call]), f"{ours[call] / others[call]:.2f}"] for call in ours]
    print_table([folder.name, "CPU time", "the other", "ratio"], rows)


def print_peers(folder: Path, tools: list[str], n_rounds: int) -> None:
    """Print our calls, and those of other tools as multiples."""
    kernels = folder.parent / "kernels 0"
    ours = medians([in_process(OWN_SOURCE, folder, kernels) for _ in range(n_rounds)])
    reading = ours.pop(READING)
    ours = with_chain(ours)
    peers: dict[str, dict[str, float]] = {}
    for tool in tools:
        times = in_process(OWN_SOURCE, folder, kernels, tool)
        if isinstance(times, str):
            print(f"{tool} is left out: {times}")
        else:
            peers[tool] = times
    rows = []
    for call, seconds in ours.items():
        others = [f"{peer[call] / seconds:.2g}" if call in peer else "" for peer in peers.values()]
        rows.append([call, shown(seconds), f"{seconds / reading:.3g}", *others])
    print_table([folder.name, "CPU time", "times X", *(f"{tool} / ours" for tool in peers)], rows)


def main() -> None:
    """Print a table for each set of data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path, help="sources of a version to compare with")
    parser.add_argument("--data", type=Path, default=SHARED_DATA)
    parser.add_argument("--rounds", type=int, default=3, help="number of processes for each version and data")
    parser.add_argument("--skip-large", action="store_true", help=f"leave out {LARGE}")
    parser.add_argument("--without", nargs="*", default=[], choices=TOOLS, help="tools to leave out")
    options = parser.parse_args()
    data: dict[str, Callable[[], tuple[Any, Any, Any]]] = {SMALL: lambda: generate(50, 40, 20, 5)}
    if (options.data / MQ2008).is_dir():
        data["MQ2008"] = lambda: mq2008(options.data)
    else:
        print(f"{options.data} has no {MQ2008}; name the folder that has with --data")
    if not options.skip_large:
        data[LARGE] = lambda: generate(10_000, 120, 136, 10)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in data.items():
            print(flush=True)
            prepare(Path(folder, name), *make())
            if options.other is None:
                tools = [tool for tool in TOOLS if tool not in options.without]
                print_peers(Path(folder, name), tools, options.rounds)
            else:
                print_versions(Path(folder, name), [OWN_SOURCE, options.other.resolve()], options.rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        measure(Path(sys.argv[2]), sys.argv[3])
    else:
        main()
