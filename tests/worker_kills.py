"""Kill workers, clients or schedulers at random moments of training, and compare the models with those of this process.

``python -m tests.worker_kills 20`` trains every method 20 times on 1, 2 and 5 workers, every other time with a kill;
``python -m tests.worker_kills 20 2`` on two workers only.

``python -m tests.worker_kills clients 20`` kills 20 clients, whose scheduler and workers live on, and lets another one
go on from the checkpoint; ``commands`` does so with ``marginrank train --scheduler``. ``schedulers`` kills the
scheduler, waits for the error of the client, and goes on with a new scheduler and new workers; ``restarts`` starts them
at once, so that the client goes on.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import load
from marginrank.data import write_binary
from marginrank.distributed import DistributedQueries
from marginrank.runtime.text import count
from tests.distributed import processes
from tests.distributed.data import judged, ranker

WORKERS = (1, 2, 5)
TRAINED = ("svmmap", "svmndcg", "ranksvm", "additive")


def main(n_times: int, worker_counts: Sequence[int]) -> int:
    """Kill workers; return the number of models that differ."""
    import logging

    import dask
    from distributed import Client, LocalCluster

    # A local cluster gives a worker up that is dead twice in that time.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    logging.disable(logging.WARNING)
    differ = killed = 0
    with data() as (files, expected):
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


@contextmanager
def data() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a pattern of files, and the weights that each method finds on them in this process."""
    queries = judged(400)
    with tempfile.TemporaryDirectory() as folder:
        for number, first in enumerate(range(0, 400, 50)):
            write_binary(Path(folder) / f"part-{number}.queries", queries[first : first + 50])
        files = Path(folder) / "part-*.queries"
        yield files, {name: ranker(name).fit(DistributedQueries.from_files(files)).coef_ for name in TRAINED}


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


def kill_others(kind: str, n_kills: int) -> int:
    """Kill clients or schedulers, and let training go on; return the number of models that differ."""
    differ = killed = number = 0
    with data() as (files, expected), ExitStack() as cluster:
        address = processes.free_address()
        cluster.enter_context(processes.scheduler(address))
        while killed < n_kills:
            name = "svmmap" if kind == "commands" else TRAINED[number % len(TRAINED)]
            number += 1
            with tempfile.TemporaryDirectory() as folder:
                began, run = time.perf_counter(), processes.Run(address, files, name, Path(folder))
                passes, said = kill_one(kind, run, cluster)
                same = np.array_equal(load(run.model).coef_, expected[name])
            differ, killed = differ + (not same), killed + (passes is not None)
            when = "had ended" if passes is None else f"killed after {count(passes, 'pass', 'passes')}"
            state = f"{'same' if same else 'DIFFERS'} ({time.perf_counter() - began:.1f} s)"
            print(f"{kind}, {name}, {when}{said}: {state}", flush=True)
    print(f"{number - differ} of {number} models are the same, bit for bit; {kind}: {count(killed, 'kill')}")
    return differ


def kill_one(kind: str, run: processes.Run, cluster: ExitStack) -> tuple[int | None, str]:
    """Train with a kill; return the passes before it, None where training had ended, and what the client did then."""
    begin = run.command if kind == "commands" else run.client
    trainer, passes, said = begin(), random.randint(1, 6), ""
    living = None if kind in ("clients", "commands") else processes.scheduler_at(run.address)
    if not run.kill(trainer, living or trainer, passes):
        return None, said
    if kind == "schedulers":
        said = f", client: {processes.outcome(trainer)[1].rpartition('Error: ')[2][:40]}..."
    if living is not None:
        cluster.close()
        cluster.enter_context(processes.scheduler(run.address))
    if processes.outcome(trainer)[0] == 0:
        return passes, f"{said}, the client went on"
    code, last = processes.outcome(begin())
    if code:
        raise RuntimeError(f"{kind}: exit code {code}\n{last}")
    return passes, f"{said}, another went on"


if __name__ == "__main__":
    first, *others = sys.argv[1:] or ["20"]
    if first.isdigit():
        sys.exit(1 if main(int(first), [int(word) for word in others] or WORKERS) else 0)
    sys.exit(1 if kill_others(first, int(others[0]) if others else 20) else 0)
