"""The thread pool, fixed chunks of queries, and limits of BLAS threads."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

import numpy as np

from marginrank.errors import Parameter, ParameterError
from marginrank.typing import IntArray

_T = TypeVar("_T")

_Item = TypeVar("_Item")

# Fixed, so that nothing computed per chunk can depend on the number of threads.
CHUNKS = 64
#: To hand the work on as few documents as these to threads takes longer than to do it.
_FEW_DOCUMENTS = 2_000
#: Threads that are of use to fits that are bound by the GIL, by the numbers in the features: more wait for each other.
USEFUL_THREADS = ((50_000, 1), (1_000_000, 2))
#: Threads that are used where no number is given; None for all cores.
_DEFAULT: ContextVar[int | None] = ContextVar("marginrank_threads", default=None)

#: Whether this thread is one of a pool: what it hands to the same pool might never begin.
_OWN = threading.local()


def thread_count(n_jobs: int | None) -> int:
    """Threads to use: all cores for None or -1, otherwise the number given."""
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
    """Return a context in which so many threads are used where no number is given.

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
    """One thread for BLAS as long as anyone asks for it: threads that set limits of their own undo each other's."""

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
                # Finding the libraries takes nearly as long as a small fit. A new one comes with a module.
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
        """Forget a lock that is held by a thread which a forked child does not have."""
        self._lock = threading.Lock()


_BLAS_LIMIT = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Return a context in which BLAS has one thread."""
    _BLAS_LIMIT.begin()
    try:
        yield
    finally:
        _BLAS_LIMIT.end()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="marginrank")


def chunk_bounds(offsets: IntArray, n_chunks: int = CHUNKS) -> IntArray:
    """Cut queries into at most ``n_chunks`` runs with about the same number of documents each."""
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
    """Call ``work(first_query, end_query)`` for every chunk of queries; once where there are few documents."""
    threads = thread_count(n_jobs)
    if 0 < offsets[-1] - offsets[0] <= _FEW_DOCUMENTS:
        work(0, len(offsets) - 1)
        return
    for_each(work, [(int(first), int(end)) for first, end in pairwise(chunk_bounds(offsets))], threads)


def for_each(work: Callable[..., object], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None = None) -> None:
    """Call ``work`` with every tuple of arguments, on as many threads as asked for; all have ended when it returns.

    After an error no further task is begun. Of several, that of the first task is raised. Tasks see the context of the
    caller, such as NumPy's treatment of floating-point errors; what they ask for in turn runs on their own thread.
    """
    n_threads = min(thread_count(n_jobs), len(tasks))
    if n_threads <= 1 or getattr(_OWN, "busy", False):
        for task in tasks:
            work(*task)
        return
    # Threads take what is next: to hand every task to a pool takes as long as a short one.
    waiting = deque(enumerate(tasks))
    errors: list[tuple[int, BaseException]] = []

    def take() -> None:
        _OWN.busy = True
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
            _OWN.busy = False

    running = [_pool(n_threads).submit(copy_context().run, take) for _ in range(n_threads)]
    try:
        wait(running)
    except BaseException:
        # Ctrl-C: what has begun writes to the arrays of the caller, so it has to end before the caller goes on.
        waiting.clear()
        wait(running)
        raise
    if errors:
        raise min(errors, key=itemgetter(0))[1]


def in_order(work: Callable[[_Item], _T], items: Iterable[_Item], n_threads: int) -> Iterator[_T]:
    """Yield what ``work`` makes of each item, in order; it works on a few items ahead, on threads.

    Items are asked for in the thread of the caller. What they raise is raised after the results of the items before.

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
    """A value of its own for each thread that asks, made when it first does: room to work in."""

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


# A forked child has the pools of its parent, but not their threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_BLAS_LIMIT.renew_lock)


def single_blas() -> AbstractContextManager[object]:
    """Return a context with one thread of BLAS, so that results do not depend on their number; ours share the work."""
    limited: AbstractContextManager[object] = _pools().limit(limits=1, user_api="blas")
    return limited


@cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    return ThreadpoolController()
