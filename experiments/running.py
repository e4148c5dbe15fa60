"""Run the tasks of an experiment in several processes, and keep each result as soon as it is there."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import multiprocessing
import os
import re
import signal
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
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from experiments.base import Experiment, Size, Task
from marginrank.errors import DataError
from marginrank.runtime.files import atomic_path
from marginrank.runtime.threads import thread_count
from marginrank.version import __version__

#: Told after every task: the experiment, tasks done, tasks in all, and the name of the last one.
Progress: TypeAlias = Callable[[Experiment, int, int, str], None]
_ONE_THREAD: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Kept:
    """The result of a task, and the seconds it took."""

    result: Any
    seconds: float


class Runner:
    """Processes that run tasks, and a folder that keeps results.

    A result is used again while the task has the same name, function and options, the function's module and those of
    its folder that it uses the same text, the data the same files, and marginrank the same version. If something else
    has changed, ask for ``fresh``. Killing everything loses only tasks under way.

    Args:
        data: The folder of the data.
        cache: The folder that keeps results.
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

    def run(self, experiment: Experiment, size: Size = "full", progress: Progress | None = None) -> dict[str, Kept]:
        """Run what is not kept yet, and give the results of all tasks by name.

        Raises:
            DataError: Data is missing, or tasks failed; all others have run and are kept.
        """
        check_data([experiment], self.data)
        tasks = list(experiment.plan(size))
        places = dict(zip([task.name for task in tasks], self._places(experiment, tasks), strict=True))
        if len(places) < len(tasks):
            raise ValueError(f"two tasks of {experiment.name} have the same name")
        open_tasks = [task for task in tasks if self.fresh or not places[task.name].exists()]
        failures: dict[str, str] = {}
        done = len(tasks) - len(open_tasks)
        for name, failure in self._finished(open_tasks, places):
            done += 1
            if failure is not None:
                failures[name] = failure
            if progress is not None:
                progress(experiment, done, len(tasks), name)
        if failures:
            first, why = next(iter(failures.items()))
            others = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
            raise DataError(f"{experiment.name}: task {first!r}{others} failed: {why}; all others are kept")
        return {name: _read(place) for name, place in places.items()}

    def _places(self, experiment: Experiment, tasks: Sequence[Task]) -> list[Path]:
        folder = self.cache / experiment.name
        folder.mkdir(parents=True, exist_ok=True)
        files = _files(experiment, self.data)
        return [folder / f"{_slug(task.name)}-{_key(task, files)}.json" for task in tasks]

    def _finished(self, tasks: Sequence[Task], places: Mapping[str, Path]) -> Iterator[tuple[str, str | None]]:
        """Run tasks, those that want to be alone at the end, and give their names and what went wrong."""
        together = [task for task in tasks if not task.alone]
        alone = [task for task in tasks if task.alone]
        if self.n_jobs == 1:
            for task in together + alone:
                yield task.name, _run(task, self.data, places[task.name])
            return
        waiting = {self._submit(task, places): task.name for task in together}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), self._failure(future)
        for task in alone:
            yield task.name, self._failure(self._submit(task, places))

    def _submit(self, task: Task, places: Mapping[str, Path]) -> Future[str | None]:
        with _one_thread():
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self.n_jobs, context, initializer=_begin, initargs=(sys.path,))
            return self._pool.submit(_run, task, self.data, places[task.name])

    def _failure(self, future: Future[str | None]) -> str | None:
        """Wait for a task, and give what went wrong."""
        try:
            return future.result()
        except BrokenProcessPool:
            self._pool = None
            return "its process was ended from outside, perhaps for want of memory"


def check_data(experiments: Sequence[Experiment], data: Path) -> None:
    """Refuse to begin where data is missing."""
    for experiment in experiments:
        for folder in experiment.data:
            if not (data / folder).is_dir():
                raise DataError(
                    f"{experiment.name} reads {folder}, which is not in this folder; give --data", path=data
                )


def _run(task: Task, data: Path, place: Path) -> str | None:
    """Run one task and keep its result; give what went wrong."""
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = task.call(data, **task.options)
        seconds = time.perf_counter() - began
        text = json.dumps(
            {"task": task.name, "options": dict(task.options), "seconds": round(seconds, 3), "result": result}
        )
    except Exception as error:
        if os.environ.get("MARGINRANK_TRACEBACK", "0") not in ("", "0"):
            raise
        return f"{type(error).__name__}: {error}"
    with atomic_path(place) as unfinished:
        unfinished.write_bytes(text.encode())
    return None


def _read(place: Path) -> Kept:
    kept = json.loads(place.read_text(encoding="utf-8"))
    return Kept(kept["result"], float(kept["seconds"]))


def _key(task: Task, files: Sequence[tuple[str, int]]) -> str:
    """A short name of everything that a result depends on."""
    parts = [
        task.name,
        task.call.__qualname__,
        dict(task.options),
        _sources(task.call.__module__),
        list(files),
        __version__,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


@cache
def _sources(name: str) -> list[str]:
    """The text of a module, and of the modules of its package that it imports, and that those import."""
    package, texts, waiting = name.rpartition(".")[0], {}, [name]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = inspect.getsource(sys.modules.get(name) or import_module(name))
            waiting += _imported(texts[name], package) if package else []
    return [texts[name] for name in sorted(texts)]


@cache
def _imported(source: str, package: str) -> list[str]:
    """Modules of a package that a text imports.

    >>> _imported("from a import b; from a.c import d; import numpy", "a")
    ['a.b', 'a.c']
    """
    modules: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            modules += [f"{package}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            modules.append(str(node.module))
    return modules


def _files(experiment: Experiment, data: Path) -> list[tuple[str, int]]:
    """Names and sizes of the files an experiment may read."""
    paths = [path for folder in experiment.data for path in sorted((data / folder).rglob("*")) if path.is_file()]
    return [(str(path.relative_to(data)), path.stat().st_size) for path in paths]


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


def _begin(path: Sequence[str]) -> None:
    """Prepare a process: Ctrl-C is its parent's business, and it ends when its parent does."""
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
