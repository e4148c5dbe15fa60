"""Training on features four times as large as memory: a pass against reading the file from beginning to end.

``python benchmarks/larger_than_memory.py --gigabytes 8 --limit 2`` writes float32 features of 136 columns into the
binary form, and starts itself once more in a control group of the system with the limit (as root; with ``--limit 0``
the limit is that of the shell). Page cache counts there too. In turn, the file is read in blocks of 8 MB and the
risk of svmmap and its gradient are computed, all from disk; then a ranker is trained with ``scaling="auto"``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from marginrank import Queries, Ranker
from marginrank.data.formats.binary import read_binary, write_binary
from marginrank.losses import StructuredLoss
from marginrank.runtime.mapped_arrays import allocate, flush_rows
from marginrank.training.partitioned_risk import empirical_risk

FEATURES = 136
DOCUMENTS = 100
GROUP = "marginrank-benchmark"


def write(path: Path, gigabytes: float) -> None:
    """Write judged queries of 100 documents, whose features have very different scales."""
    rng = np.random.default_rng(0)
    n = int(gigabytes * 1e9 / (4 * FEATURES)) // DOCUMENTS * DOCUMENTS
    X, grades = allocate((n, FEATURES), np.float32), np.empty(n)
    weights, scales = rng.standard_normal(FEATURES), 10.0 ** rng.integers(-2, 3, FEATURES)
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        block = rng.standard_normal((rows.stop - start, FEATURES), dtype=np.float32)
        grades[rows] = np.digitize(block @ weights + 10 * rng.standard_normal(len(block)), [8, 15, 22, 30])
        X[rows] = block * scales.astype(np.float32)
        flush_rows(X, rows)
    offsets = np.arange(0, n + 1, DOCUMENTS)
    write_binary(path, Queries(X=X, judgements=grades, query_offsets=offsets, query_ids=np.arange(len(offsets) - 1)))


def limit(gigabytes: float) -> None:
    """Put this process into a control group of its own with a limit of memory, of either version."""
    root = Path("/sys/fs/cgroup")
    first = (root / "memory").is_dir()
    folder = (root / "memory" if first else root) / GROUP
    folder.mkdir(exist_ok=True)
    (folder / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(int(gigabytes * 1e9)))
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def sequential(path: Path) -> float:
    """Return the seconds that reading the file takes."""
    began, buffer = time.perf_counter(), bytearray(1 << 23)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def forget(path: Path) -> None:
    """Have the system drop what it holds of a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memory(name: str) -> float:
    """Return a figure of this process, in GB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024 / 1e9


def measure(path: Path, repeats: int, *, train: bool) -> None:
    """Read and pass in turn, then train."""
    queries = read_binary(path)
    print(f"{path.stat().st_size / 1e9:.2f} GB, {queries}", flush=True)
    risk = empirical_risk(queries, StructuredLoss("ap"))
    theta = np.random.default_rng(0).standard_normal(FEATURES) * 1e-3
    risk(theta)
    reads, passes = [], []
    for _ in range(repeats):
        reads.append(sequential(path))
        began = time.perf_counter()
        risk(theta)
        passes.append(time.perf_counter() - began)
        print(f"read {reads[-1]:6.2f} s  pass {passes[-1]:6.2f} s  ratio {passes[-1] / reads[-1]:.2f}", flush=True)
    ratio = statistics.median(passes) / statistics.median(reads)
    print(f"median: pass / read = {ratio:.2f}; peak {memory('VmHWM'):.2f} GB", flush=True)
    del risk
    if train:
        began = time.perf_counter()
        ranker = Ranker("svmmap", solver="auto(max_iter=5)").fit(queries)
        took = time.perf_counter() - began
        print(f"fit with scaling: {took:.0f} s, {ranker.solution_.passes:.0f} passes, gap {ranker.gap_:.2g}, "
              f"peak {memory('VmHWM'):.2f} GB")  # fmt: skip


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=8.0, help="size of the features")
    parser.add_argument("--limit", type=float, default=2.0, help="limit of memory in GB; 0 for none")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-train", action="store_true")
    parser.add_argument("--file", type=Path, help="measure on this file, and keep it")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    asked = parse()
    if asked.inside:
        if asked.limit:
            limit(asked.limit)
        measure(asked.file, asked.repeats, train=not asked.no_train)
    else:
        with tempfile.TemporaryDirectory() as folder:
            data = asked.file or Path(folder, "large.queries")
            if asked.file is None:
                write(data, asked.gigabytes)
            forget(data)
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--inside", "--file", str(data)], check=True)
