"""Reading an MSLR-shaped LETOR file: time and memory beside scikit-learn's reader.

    python benchmarks/reading.py [--megabytes 220]

The text is generated: 136 features per document, whole numbers and six-decimal ones mixed as in MSLR-WEB, about 120
documents per query. Each reader runs in a process of its own, so that the peak of memory is its own.
Seconds are CPU time of all threads.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

N_FEATURES = 136
DOCUMENTS_PER_QUERY = 120


def write_text(path: Path, megabytes: int) -> None:
    """Write lines until the file is large enough; a stock of rows is drawn once and used again under other queries."""
    rng = np.random.default_rng(0)
    stock = []
    for _ in range(6000):
        whole = [str(x) for x in rng.integers(0, 500, 60)]
        real = [f"{x:.6f}" for x in rng.random(76) * rng.choice([1, 30, 1e4], 76)]
        words = rng.permutation(whole + real)
        stock.append(" ".join(f"{k + 1}:{word}" for k, word in enumerate(words)))
    written, row = 0, 0
    with path.open("w") as file:
        while written < megabytes * 1e6:
            line = f"{row % 5} qid:{row // DOCUMENTS_PER_QUERY} {stock[row % len(stock)]}\n"
            written += file.write(line)
            row += 1


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(read: Callable[[], int]) -> None:
    """Print seconds, the matrix's size and the memory beyond it, as JSON."""
    before = peak_bytes()
    start = time.process_time()
    matrix_bytes = read()
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "matrix": matrix_bytes, "extra": peak_bytes() - before - matrix_bytes}))


def read_with_marginrank(path: str, warm_up: str) -> None:
    from marginrank.data import read_letor

    read_letor(warm_up)
    measure(lambda: read_letor(path).dense().nbytes)


def read_with_sklearn(path: str, warm_up: str) -> None:
    from sklearn.datasets import load_svmlight_file

    load_svmlight_file(warm_up, query_id=True)
    measure(lambda: int(load_svmlight_file(path, query_id=True)[0].data.nbytes))


def open_binary(path: str, warm_up: str) -> None:
    from marginrank import convert, read

    convert(warm_up, f"{warm_up}.queries")
    read(f"{warm_up}.queries")
    target = f"{path}.queries"
    convert(path, target)
    start = time.process_time()
    read(target)
    print(json.dumps({"seconds": time.process_time() - start, "matrix": 0, "extra": 0}))


def in_process(what: str, path: Path, warm_up: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--only", what, str(path), str(warm_up)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=220)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, warm_up = Path(folder) / "mslr.txt", Path(folder) / "small.txt"
        write_text(path, arguments.megabytes)
        write_text(warm_up, 1)
        size = path.stat().st_size / 1e6
        print(f"{size:.0f} MB of text, {N_FEATURES} features\n")
        ours = min(
            (in_process("marginrank", path, warm_up) for _ in range(arguments.repeat)), key=lambda r: r["seconds"]
        )
        theirs = in_process("sklearn", path, warm_up)
        opened = in_process("binary", path, warm_up)
    print("| reader | CPU seconds | MB/s | matrix MB | extra memory / matrix |\n| --- | --- | --- | --- | --- |")
    for name, found in (("marginrank.read_letor", ours), ("sklearn load_svmlight_file", theirs)):
        rate, extra = size / found["seconds"], found["extra"] / found["matrix"]
        print(f"| {name} | {found['seconds']:.2f} | {rate:.0f} | {found['matrix'] / 1e6:.0f} | {extra:.2f} |")
    print(
        f"\n{theirs['seconds'] / ours['seconds']:.1f} times as fast; the binary form opens in {opened['seconds']:.4f} s"
    )


READERS = {"marginrank": read_with_marginrank, "sklearn": read_with_sklearn, "binary": open_binary}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        READERS[sys.argv[2]](sys.argv[3], sys.argv[4])
    else:
        main()
