"""Execution of the tasks of an experiment in several processes, with a cache of their results."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from experiments.base import Experiment, Size, Task
from experiments.sources import code_digests, data_digests, digest
from marginrank.errors import DataError
from marginrank.runtime.files import atomic_path
from marginrank.runtime.threads import thread_count

#: Told after every task: the experiment, tasks done, tasks in all, and the name of the last one.
Progress: TypeAlias = Callable[[Experiment, int, int, str], None]
_ONE_THREAD: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class TaskResult:
    """The result of a task, what it took, and the commit at which it was computed.

    Args:
        result: What the task returned.
        seconds: CPU seconds of the task.
        commit: The commit and the tree of its sources, with ``+ changes`` if code differed from it.
        elapsed: Seconds on the clock since the task before it ended, or since the run began. With several processes
            these are fewer than ``seconds``; over all tasks of an experiment, they add up to the time of its runs.
        processes: How many tasks ran at a time.
    """

    result: Any
    seconds: float
    commit: str = "unknown"
    elapsed: float = 0.0
    processes: int = 1


class Runner:
    """Processes that run tasks, and a cache of their results.

    A cached result is used again as long as the name, the options and the code of the task and the files of the data
    are the same (see `experiments.sources`). If something else has changed, such as the version of NumPy, ask for
    ``fresh``. A run that is killed loses only the tasks that were running.

    Args:
        data: The folder of the data.
        cache: The folder of cached results.
        n_jobs: Processes; 1 runs tasks in this one, None one for each core.
        fresh: Compute everything again.
    """

    def __init__(self, data: Path, cache: Path, *, n_jobs: int | None = None, fresh: bool = False) -> None:
        self.data = data
        self.cache = cache
        self.n_jobs = thread_count(n_jobs)
        self.fresh = fresh
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def run(
        self, experiment: Experiment, size: Size = "full", progress: Progress | None = None
    ) -> dict[str, TaskResult]:
        """Run the tasks that are not cached yet, and return the results of all tasks by name.

        Raises:
            DataError: Data is missing, or tasks failed; all others have run and are cached.
        """
        check_data([experiment], self.data)
        tasks = list(experiment.plan(size))
        paths = dict(zip([task.name for task in tasks], self._paths(experiment, tasks), strict=True))
        if len(paths) < len(tasks):
            raise ValueError(f"two tasks of {experiment.name} have the same name")
        open_tasks = [task for task in tasks if self.fresh or not paths[task.name].exists()]
        failures: dict[str, str] = {}
        done = len(tasks) - len(open_tasks)
        clock = _Clock(self.cache / experiment.name / "elapsed.json", self.n_jobs)
        for name, failure in self._finished(open_tasks, paths):
            done += 1
            if failure is None:
                clock.ended(paths[name])
            else:
                failures[name] = failure
            if progress is not None:
                progress(experiment, done, len(tasks), name)
        if failures:
            first, why = next(iter(failures.items()))
            others = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
            raise DataError(f"{experiment.name}: task {first!r}{others} failed: {why}; all others are cached")
        return {name: _read(path, clock) for name, path in paths.items()}

    def _paths(self, experiment: Experiment, tasks: Sequence[Task]) -> list[Path]:
        """Return the files of the cache that hold, or will hold, the results of tasks."""
        folder = self.cache / experiment.name
        folder.mkdir(parents=True, exist_ok=True)
        files = data_digests(self.data, experiment.data)
        return [folder / f"{_slug(task.name)}-{_key(task, files)}.json" for task in tasks]

    def _finished(self, tasks: Sequence[Task], paths: Mapping[str, Path]) -> Iterator[tuple[str, str | None]]:
        """Run tasks, those that measure time last and alone, and return their names and error messages."""
        together = [task for task in tasks if not task.alone]
        alone = [task for task in tasks if task.alone]
        if self.n_jobs == 1:
            for task in together + alone:
                yield task.name, _run(task, self.data, paths[task.name], commit())
            return
        waiting = {self._submit(task, paths): task.name for task in together}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), self._failure(future)
        for task in alone:
            yield task.name, self._failure(self._submit(task, paths))

    def _submit(self, task: Task, paths: Mapping[str, Path]) -> Future[str | None]:
        with _one_thread():
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(
                    self.n_jobs, context, initializer=_initialize_worker, initargs=(sys.path,)
                )
            return self._pool.submit(_run, task, self.data, paths[task.name], commit())

    def _failure(self, future: Future[str | None]) -> str | None:
        """Wait for a task, and return its error message."""
        try:
            return future.result()
        except BrokenProcessPool:
            self._pool = None
            return "its process was ended from outside, perhaps for want of memory"


def check_data(experiments: Sequence[Experiment], data: Path) -> None:
    """Raise an error if data is missing."""
    for experiment in experiments:
        for folder in experiment.data:
            if not (data / folder).is_dir():
                raise DataError(
                    f"{experiment.name} reads {folder}, which is not in this folder; give --data", path=data
                )


def _run(task: Task, data: Path, path: Path, at_commit: str) -> str | None:
    """Run one task and cache its result; return the message of an error."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = task.call(data, **task.options)
        seconds = time.process_time() - began
        text = json.dumps(
            {
                "task": task.name,
                "options": dict(task.options),
                "commit": at_commit,
                "seconds": round(seconds, 3),
                "result": result,
            }
        )
    except Exception as error:
        if os.environ.get("MARGINRANK_TRACEBACK", "0") not in ("", "0"):
            raise
        return f"{type(error).__name__}: {error}"
    with atomic_path(path) as unfinished:
        unfinished.write_bytes(text.encode())
    return None


def _read(path: Path, clock: _Clock) -> TaskResult:
    cached = json.loads(path.read_text(encoding="utf-8"))
    return TaskResult(cached["result"], float(cached["seconds"]), cached["commit"], *clock.of(path))


class _Clock:
    """The time on the clock between the ends of tasks, in a file beside their results.

    A run that is killed and continued adds up: every task has its time as soon as it ends.
    """

    def __init__(self, path: Path, processes: int) -> None:
        self._path = path
        self._processes = processes
        self._last = time.monotonic()
        self._elapsed: dict[str, list[Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def ended(self, task: Path) -> None:
        """Note that a task, given by the file of its result, has ended."""
        now = time.monotonic()
        self._elapsed[task.name] = [round(now - self._last, 3), self._processes]
        self._last = now
        with atomic_path(self._path) as unfinished:
            unfinished.write_bytes(json.dumps(self._elapsed).encode())

    def of(self, task: Path) -> tuple[float, int]:
        """Return the seconds of a task, and how many tasks ran at a time."""
        seconds, processes = self._elapsed.get(task.name, (0.0, 1))
        return float(seconds), int(processes)


def plan_digest(experiment: Experiment, size: Size = "full") -> str:
    """Return a digest of the tasks of an experiment and their options, apart from their code."""
    return digest([_identity(task) for task in experiment.plan(size)])


def _key(task: Task, data: Mapping[str, str]) -> str:
    """Return a digest of everything that a result depends on."""
    return digest([_identity(task), sorted(code_digests([task.call]).items()), sorted(data.items())])


def _identity(task: Task) -> str:
    return json.dumps([task.name, task.call.__qualname__, dict(task.options)], sort_keys=True)


@cache
def commit() -> str:
    """Return the commit of the repository and the tree of its sources, with ``+ changes`` if code differs from it.

    ``git rev-parse --short=12 HEAD:src`` prints the tree, which stays when a commit is rebased.
    """
    folder = Path(__file__).parent
    code = ("src", "experiments", ":!experiments/results")
    try:
        revision, sources = (_git("rev-parse", "--short=12", name, folder=folder) for name in ("HEAD", "HEAD:src"))
        changes = _git("status", "--porcelain", "--", *code, folder=folder.parent)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{revision} (sources {sources}){' + changes' if changes else ''}"


def _git(*words: str, folder: Path) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.@+]+", "-", name).strip("-")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Start processes whose linear algebra uses one thread, as there are as many processes as cores."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _initialize_worker(path: Sequence[str]) -> None:
    """Leave Ctrl-C to the parent process, and end when it ends."""
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
