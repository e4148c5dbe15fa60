"""Read mutated files in several processes.

A crash, a hang of ten seconds, an error that is no `DataError` with the path, or content that disagrees with the
reference is a finding: its file is kept, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from marginrank.errors import ColumnsLeftOutWarning, RepeatedDocumentsWarning
from tests.fuzz.targets import TARGETS

#: Seconds after which a file counts as a hang.
_PATIENCE = 10
_BATCH = 500
_OUTCOMES = ("taken", "refused", "found")


class Plan:
    """Which file has which number: all kinds in turn, each drawn from a seed of its own."""

    def __init__(self, kinds: list[str], seed: int) -> None:
        self.kinds, self.seed = kinds, seed

    def kind(self, number: int) -> str:
        return self.kinds[number % len(self.kinds)]

    def data(self, number: int) -> bytes:
        kind = self.kind(number)
        return TARGETS[kind].draw(Random(f"{self.seed} {kind} {number}"))

    def keep(self, number: int, out: Path, why: str) -> None:
        """Keep a file with a finding, and print why."""
        kind = self.kind(number)
        kept = out / f"{kind}-{number}{TARGETS[kind].suffix}"
        kept.write_bytes(self.data(number))
        print(f"{kept}: {ascii(why)[1:-1][:300]}", file=sys.stderr, flush=True)


def work(plan: Plan, out: Path, pipe: Connection) -> None:
    """Read files by the batch until told to stop; say which one comes, and how each ended."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for category in (RepeatedDocumentsWarning, ColumnsLeftOutWarning):
        warnings.simplefilter("ignore", category)
    compiled: set[str] = set()
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        while batch := pipe.recv():
            for number in batch:
                kind, data = plan.kind(number), plan.data(number)
                path = Path(folder, f"file{TARGETS[kind].suffix}")
                path.write_bytes(data)
                pipe.send(range(number, batch.stop))
                # The default action of SIGALRM ends the process, also inside a kernel. Kernels compile on first use.
                signal.alarm(_PATIENCE if kind in compiled else 30 * _PATIENCE)
                try:
                    outcome = "taken" if TARGETS[kind].check(path, data) else "refused"
                except Exception as error:
                    outcome = "found"
                    plan.keep(number, out, f"{type(error).__name__}: {error}")
                signal.alarm(0)
                compiled.add(kind)
                pipe.send(outcome)
            pipe.send(None)


class Office:
    """Hands out batches, and hires a worker anew where one dies."""

    def __init__(self, plan: Plan, out: Path, count: int) -> None:
        self.plan, self.out = plan, out
        self.batches: Iterator[range] = (range(start, min(start + _BATCH, count)) for start in range(0, count, _BATCH))
        self.counts: Counter[tuple[str, str]] = Counter()
        self.workers: dict[Any, Any] = {}
        self.left: dict[Any, range] = {}
        self.began = time.monotonic()

    def hire(self, batch: range) -> None:
        if not batch:
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=work, args=(self.plan, self.out, theirs))
        worker.start()
        theirs.close()
        ours.send(batch)
        self.workers[ours] = worker

    def next_batch(self) -> range:
        return next(self.batches, range(0))

    def run(self, jobs: int) -> None:
        for _ in range(jobs):
            self.hire(self.next_batch())
        while self.workers:
            for pipe in wait(list(self.workers)):
                try:
                    self.hear(pipe, pipe.recv())
                except (EOFError, OSError):
                    self.bury(pipe)

    def hear(self, pipe: Any, message: range | str | None) -> None:
        if isinstance(message, range):
            self.left[pipe] = message
        elif message is not None:
            self.counts[self.plan.kind(self.left[pipe].start), message] += 1
            total = sum(self.counts.values())
            if total % 20_000 == 0:
                print(f"{total:,} files in {time.monotonic() - self.began:.0f} s", file=sys.stderr, flush=True)
        else:
            pipe.send(self.next_batch())

    def bury(self, pipe: Any) -> None:
        worker = self.workers.pop(pipe)
        worker.join()
        if not worker.exitcode:
            return
        left = self.left[pipe]
        self.counts[self.plan.kind(left.start), "found"] += 1
        self.plan.keep(
            left.start, self.out, "hang" if worker.exitcode == -signal.SIGALRM else f"exit {worker.exitcode}"
        )
        self.hire(left[1:] or self.next_batch())


def main() -> int:
    """Read that many files; return whether there were findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("count", type=int, help="number of files")
    parser.add_argument("--only", nargs="+", choices=list(TARGETS), default=list(TARGETS), help="kinds of files")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of all files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder for files with a finding")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    office = Office(Plan(options.only, options.seed), options.out, options.count)
    office.run(options.jobs)
    for kind in options.only:
        print(f"{kind:15}" + "".join(f"{office.counts[kind, what]:10,} {what}" for what in _OUTCOMES))
    found = sum(office.counts[kind, "found"] for kind in options.only)
    seconds = time.monotonic() - office.began
    print(f"{sum(office.counts.values()):,} files in {seconds:.0f} s, {found:,} findings (seed {options.seed})")
    return int(found > 0)
