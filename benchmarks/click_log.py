"""A pass over many click events, in the time of reading them.

    python -m benchmarks.click_log 10000000

Writes a log as CSV and as Parquet to a temporary folder; reads it block by block with pyarrow and does nothing with
it, then adds it up with ``read_clicks(..., aggregate=True)``.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from marginrank.clicks import read_clicks


def events(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    query, place = rng.zipf(1.3, n // 10 + 1) % 5000, np.tile(np.arange(1, 11), n // 10 + 1)[:n]
    shift = np.repeat(rng.integers(0, 2, n // 10 + 1), 10)[:n]
    query = np.repeat(query, 10)[:n]
    return pa.table(
        {
            "query": pa.array(query).cast(pa.string()),
            "document_id": pa.array(query * 20 + (place + shift) % 20).cast(pa.string()),
            "position": place,
            "clicked": (rng.random(n) < 0.3 / place).astype(np.int8),
            "system": pa.array(shift).cast(pa.string()),
        }
    )


def seconds(task: Callable[[Path], Any], path: Path) -> float:
    start = time.perf_counter()
    task(path)
    return time.perf_counter() - start


def read_csv(path: Path) -> None:
    for _ in csv.open_csv(path, read_options=csv.ReadOptions(block_size=1 << 24)):
        pass


def read_parquet(path: Path) -> None:
    for _ in parquet.ParquetFile(path).iter_batches(1 << 20):
        pass


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        table = events(n)
        for suffix, write, read in ((".csv", csv.write_csv, read_csv), (".parquet", parquet.write_table, read_parquet)):
            path = Path(folder) / f"log{suffix}"
            write(table, path)
            reading = min(seconds(read, path) for _ in range(2))
            start = time.perf_counter()
            log = read_clicks(path, aggregate=True)
            adding = time.perf_counter() - start
            print(f"{suffix}: reading {reading:.2f} s, read_clicks {adding:.2f} s, {adding / reading:.2f} times; {log}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB, with the table itself")


if __name__ == "__main__":
    main()
