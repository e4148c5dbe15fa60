"""A scheduler, workers and a client in processes of their own, any of which may be killed."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Trains, with a checkpoint that is written after every pass, and prints a line for each.
CLIENT = """
import sys
import marginrank.training.checkpoint
from distributed import Client
from marginrank.distributed import DistributedQueries
from tests.distributed.data import ranker

marginrank.training.checkpoint.INTERVAL = 0.0
address, patience, files, name, checkpoint, model = sys.argv[1:]
with Client(address, timeout=20) as client:
    client._timeout = float(patience)
    queries = DistributedQueries.from_files(files, client)
    def say(step, _):
        print(step.passes, flush=True)
        return False
    fitted = ranker(name).fit(queries, checkpoint=checkpoint, resume=True, callback=say)
fitted.save(model, overwrite=True)
"""
#: The command, with the same checkpoint and lines.
COMMAND = """
import marginrank.training.checkpoint
from marginrank.cli.app import app
from marginrank.cli.progress import TrainingProgress

marginrank.training.checkpoint.INTERVAL = 0.0
watch = TrainingProgress.__call__
def say(self, step, theta):
    print(step.passes, flush=True)
    return watch(self, step, theta)
TrainingProgress.__call__ = say
app()
"""
#: Seconds after which a process counts as hanging.
PATIENCE = 120
_schedulers: dict[str, subprocess.Popen[str]] = {}


def start(*words: object, **more: Any) -> subprocess.Popen[str]:
    """Start Python in a process of its own."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    return subprocess.Popen([sys.executable, *map(str, words)], **streams)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process, if it has not ended."""
    process.kill()
    process.communicate()


def free_address() -> str:
    """Return an address of this machine that nobody listens to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def scheduler(address: str, n_workers: int = 2) -> Iterator[subprocess.Popen[str]]:
    """Yield the process of a scheduler with workers, all of which end afterwards."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    port = address.rpartition(":")[2]
    dask = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", 1, "--no-nanny", "--no-dashboard")
    processes = [start(*dask, **silent), *(start(*worker, **silent) for _ in range(n_workers))]
    _schedulers[address] = processes[0]
    try:
        yield processes[0]
    finally:
        for process in processes:
            end(process)


def scheduler_at(address: str) -> subprocess.Popen[str]:
    """Return the process of the scheduler that was last started at an address."""
    return _schedulers[address]


@dataclass(frozen=True)
class Run:
    """Training that goes on from its checkpoint, on the workers of a scheduler.

    Args:
        address: The scheduler.
        files: A pattern of files.
        name: What is trained.
        folder: Where checkpoint and model are.
        patience: Seconds for which a program looks for a scheduler that is gone.
    """

    address: str
    files: Path
    name: str
    folder: Path
    patience: float = 20.0

    @property
    def model(self) -> Path:
        """The model."""
        return self.folder / "model.safetensors"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint."""
        return self.folder / "run.checkpoint"

    def client(self) -> subprocess.Popen[str]:
        """Start a program that trains."""
        return start("-c", CLIENT, self.address, self.patience, self.files, self.name, self.checkpoint, self.model)

    def command(self) -> subprocess.Popen[str]:
        """Start `marginrank train`, which trains svmmap."""
        paths = sorted(self.files.parent.glob(self.files.name))
        cluster = ("--scheduler", self.address, "--checkpoint", self.checkpoint, "--resume")
        words = ("train", *paths, "-C", 1, *cluster, "-o", self.model, "--force")
        return start("-c", COMMAND, *words)

    def kill(self, trainer: subprocess.Popen[str], victim: subprocess.Popen[str], passes: int) -> bool:
        """Kill a process soon after so many passes of training; return False if training had ended before."""
        assert trainer.stdout is not None
        if not all(trainer.stdout.readline() for _ in range(passes)):
            return False
        time.sleep(random.uniform(0.0, 0.02))
        if trainer.poll() is not None:
            return False
        victim.send_signal(signal.SIGKILL)
        return True


def outcome(trainer: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of training; return its exit status and what it said last."""
    _, said = trainer.communicate(timeout=PATIENCE)
    return trainer.returncode, said.strip()
