"""Kill workers at random moments of training, and compare the models with those of this process.

``python -m tests.worker_kills 20`` trains every method 20 times on 1, 2 and 5 workers, every other time with a kill;
``python -m tests.worker_kills 20 2`` on two workers only.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginrank.data import write_binary
from marginrank.distributed import DistributedQueries
from tests.distributed.data import judged, ranker

WORKERS = (1, 2, 5)
TRAINED = ("svmmap", "svmndcg", "ranksvm", "additive")


def main(n_times: int, worker_counts: Sequence[int]) -> int:
    """Return the number of models that differ."""
    import logging

    import dask
    from distributed import Client, LocalCluster

    # A local cluster gives a worker up that is dead twice in that time.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    logging.disable(logging.WARNING)
    queries = judged(400)
    differ = killed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, first in enumerate(range(0, 400, 50)):
            write_binary(Path(folder) / f"part-{number}.queries", queries[first : first + 50])
        files = Path(folder) / "part-*.queries"
        expected = {name: ranker(name).fit(DistributedQueries.from_files(files)).coef_ for name in TRAINED}
        for n_workers in worker_counts:
            settings: dict[str, Any] = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
            with LocalCluster(**settings, memory_limit=0) as cluster, Client(cluster) as client:
                for name in TRAINED:
                    for time_number in range(n_times):
                        kill = time_number % 2 == 1
                        client.wait_for_workers(n_workers, timeout=120)
                        began = time.perf_counter()
                        model, kills = train(client, files, name, kill)
                        same = np.array_equal(model.coef_, expected[name])
                        differ, killed = differ + (not same), killed + kills
                        seconds = time.perf_counter() - began
                        state = "same" if same else "DIFFERS"
                        print(f"{n_workers} workers, {name}, {kills} killed: {state} ({seconds:.1f} s)", flush=True)
    total = len(worker_counts) * len(TRAINED) * n_times
    print(f"{total - differ} of {total} models are the same, bit for bit; {killed} workers were killed")
    return differ


def train(client: Any, files: Path, name: str, kill: bool) -> tuple[Any, int]:
    """Train while a worker is killed at a random moment; return the model and how many were killed."""
    cut = DistributedQueries.from_files(files, client)
    done, kills = threading.Event(), 0

    def killer() -> None:
        nonlocal kills
        if not done.wait(random.uniform(0.1, 0.5)):
            victim = random.choice(list(client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)
            kills += 1

    thread = threading.Thread(target=killer)
    if kill:
        len(cut)
        thread.start()
    model = ranker(name).fit(cut)
    done.set()
    if kill:
        thread.join()
    return model, kills


if __name__ == "__main__":
    n_times, *worker_counts = map(int, sys.argv[1:] or ["20"])
    sys.exit(1 if main(n_times, worker_counts or WORKERS) else 0)
