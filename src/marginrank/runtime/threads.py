"""The thread pool, chunks of queries, and limits of BLAS threads."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

import numpy as np

from marginrank.errors import Parameter, ParameterError
from marginrank.runtime.tuned_constants import CHUNKS, SERIAL_DOCUMENTS
from marginrank.typing import IntArray

_T = TypeVar("_T")

_Item = TypeVar("_Item")

#: Default number of threads; None for all cores.
_DEFAULT: ContextVar[int | None] = ContextVar("marginrank_threads", default=None)

#: Whether this thread belongs to the pool: tasks that it submits to the same pool might wait forever.
_THREAD_STATE = threading.local()


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads to use: all cores for None or -1, otherwise the number given."""
    n_jobs = _DEFAULT.get() if n_jobs is None else n_jobs
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n_jobs, int) or n_jobs < 1:
        raise ParameterError(
            Parameter("n_jobs"), f" is {n_jobs}; give a positive number of threads, or -1 for all cores"
        )
    return n_jobs


@contextmanager
def default_threads(n_jobs: int | None) -> Iterator[None]:
    """Set the default number of threads in a context.

    >>> with default_threads(3):
    ...     thread_count(None)
    3
    """
    before = _DEFAULT.set(n_jobs)
    try:
        yield
    finally:
        _DEFAULT.reset(before)


class _BlasLimit:
    """A limit of one BLAS thread, shared by all threads: separate limits would undo each other."""

    def __init__(self) -> None:
        self._lock, self._n_users = threading.Lock(), 0
        self._controller: Any = None
        self._n_modules = 0
        self._limits: Any = None

    def begin(self) -> None:
        # The BLAS of SciPy is not limited unless it is loaded.
        import scipy.linalg  # noqa: F401, PLC0415
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415

        with self._lock:
            if self._n_users == 0:
                # Finding the libraries takes nearly as long as a small fit. New ones come with new modules.
                if self._n_modules != len(sys.modules):
                    self._n_modules, self._controller = len(sys.modules), ThreadpoolController()
                self._limits = self._controller.limit(limits=1, user_api="blas")
            self._n_users += 1

    def end(self) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0 and self._limits is not None:
                self._limits.restore_original_limits()

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, where the thread that holds it does not exist."""
        self._lock = threading.Lock()


_BLAS_LIMIT = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in a context, so that results do not depend on its threads; ours share the work."""
    _BLAS_LIMIT.begin()
    try:
        yield
    finally:
        _BLAS_LIMIT.end()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="marginrank")


def chunk_bounds(offsets: IntArray, n_chunks: int = CHUNKS) -> IntArray:
    """Cut queries into at most ``n_chunks`` chunks with about the same number of documents each."""
    n = len(offsets) - 1
    if n <= 0:
        return np.zeros(1, dtype=np.int64)
    if n_chunks == 1:
        return np.array([0, n])
    targets = np.linspace(offsets[0], offsets[-1], min(n_chunks, n) + 1)
    bounds = np.searchsorted(offsets, targets, side="left")
    bounds[0], bounds[-1] = 0, n
    return np.unique(bounds)


def for_chunks(work: Callable[[int, int], object], offsets: IntArray, n_jobs: int | None = None) -> None:
    """Call ``work(first_query, end_query)`` for every chunk of queries; once for few documents."""
    threads = thread_count(n_jobs)
    if 0 < offsets[-1] - offsets[0] <= SERIAL_DOCUMENTS:
        work(0, len(offsets) - 1)
        return
    for_each(work, [(int(first), int(end)) for first, end in pairwise(chunk_bounds(offsets))], threads)


def for_each(work: Callable[..., object], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None = None) -> None:
    """Call ``work`` with every tuple of arguments, on threads; all calls have ended when it returns.

    After an error no further call is started, and the error of the first task is raised. Tasks have the context of the
    caller, such as NumPy's handling of floating-point errors; calls of `for_each` inside them run on the same thread.
    """
    n_threads = min(thread_count(n_jobs), len(tasks))
    if n_threads <= 1 or getattr(_THREAD_STATE, "busy", False):
        for task in tasks:
            work(*task)
        return
    # Threads take the next task themselves: submitting each one to the pool takes as long as a short task.
    waiting = deque(enumerate(tasks))
    errors: list[tuple[int, BaseException]] = []

    def take() -> None:
        _THREAD_STATE.busy = True
        try:
            while waiting:
                number, task = waiting.popleft()
                try:
                    work(*task)
                except BaseException as error:
                    errors.append((number, error))
                    waiting.clear()
        except IndexError:  # another thread took the last task
            return
        finally:
            _THREAD_STATE.busy = False

    running = [_pool(n_threads).submit(copy_context().run, take) for _ in range(n_threads)]
    try:
        wait(running)
    except BaseException:
        # Ctrl-C: running tasks write to the arrays of the caller, so they have to end before it continues.
        waiting.clear()
        wait(running)
        raise
    if errors:
        raise min(errors, key=itemgetter(0))[1]


def in_order(work: Callable[[_Item], _T], items: Iterable[_Item], n_threads: int) -> Iterator[_T]:
    """Yield ``work(item)`` for each item, in order; threads compute the results of a few items ahead.

    Items are taken in the thread of the caller. An error of the iterator is raised after the results before it.

    >>> list(in_order(abs, iter([-3, 2, -1]), 2))
    [3, 2, 1]
    """
    with ThreadPoolExecutor(n_threads, thread_name_prefix="marginrank-read") as pool:
        ahead: deque[Future[_T]] = deque()
        source, broken, ended = iter(items), None, False
        while ahead or not ended:
            try:
                if not ended:
                    ahead.append(pool.submit(work, next(source)))
            except StopIteration:
                ended = True
            except Exception as error:
                ended, broken = True, error
            if ahead and (ended or len(ahead) > n_threads):
                yield ahead.popleft().result()
        if broken is not None:
            raise broken


class PerThread(Generic[_T]):
    """A separate value for each thread, made on first use, such as a buffer."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._local = threading.local()

    def __call__(self) -> _T:
        """Return the value of this thread."""
        try:
            return cast("_T", self._local.value)
        except AttributeError:
            self._local.value = self._make()
            return cast("_T", self._local.value)


# A forked child has the pools of its parent without their threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_BLAS_LIMIT.renew_lock)
