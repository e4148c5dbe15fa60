"""Partitions on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import math
import uuid
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

from distributed import Client, Future, KilledWorker, wait
from distributed.comm import CommClosedError

from marginrank.data.partitions import Partitions, group_bounds
from marginrank.distributed.worker import (
    Derivation,
    Job,
    Lease,
    Nodes,
    PartitionMissingError,
    Source,
    WorkerOrder,
    make,
    merge_nodes,
    run,
    versions,
)
from marginrank.errors import DataError
from marginrank.runtime.memory import size_text
from marginrank.runtime.text import count, listed

T = TypeVar("T")
R = TypeVar("R")
#: Seconds between checks that all workers are alive.
_CHECK_SECONDS: Final = 1.0
#: Number of checks after which a paused worker is an error.
_CHECKS_PAUSED: Final = 30
#: Seconds to wait for a worker if there is none.
_WAIT_SECONDS: Final = 60.0
#: Number of lost workers after which an operation fails.
_MAX_LOSSES: Final = 6
#: Maximum number of results that one task merges.
_MAX_MERGED: Final = 16
#: Maximum number of results that the client fetches and merges.
_MAX_FETCHED: Final = 4
_alive: weakref.WeakSet[ClusterPartitions[Any]] = weakref.WeakSet()


class PartitionPlacement:
    """The assignment of partitions to workers.

    A partition remains on its worker as long as that is alive; Dask does not move it, as tasks name the worker. The
    partitions of a lost worker go to the others, and some to the new worker that replaces it.

    Args:
        client: A client of the cluster.
        sources: Sources of the partitions.
        homes: The worker of each partition; assigned by default.
    """

    def __init__(self, client: Client, sources: Sequence[Source], homes: Sequence[str] = ()) -> None:
        self.client, self.sources = client, sources
        self.homes = list(homes) or [""] * len(sources)
        #: Number of assignments so far, and the assignment for which workers have their sources.
        self.version, self.opened = 0, -1
        self.threads = self._workers()
        self._most_workers = len(self.threads)
        if not homes:
            self.assign()

    def _workers(self) -> dict[str, int]:
        """Return the number of threads of each worker."""
        threads = self._ask(self.client.nthreads)
        if not threads:
            try:
                self.client.wait_for_workers(1, timeout=_WAIT_SECONDS)
            except TimeoutError:
                raise DataError(
                    "the cluster has no workers; start some, for example with `dask worker ADDRESS`"
                ) from None
            threads = self._ask(self.client.nthreads)
        return dict(threads)

    def _ask(self, question: Callable[[], T]) -> T:
        """Query the scheduler; connect again if it was restarted."""
        try:
            try:
                return question()
            except CommClosedError:
                return question()
        except (OSError, RuntimeError, AttributeError) as error:
            # A client that has lost its scheduler for good has none.
            if isinstance(error, AttributeError) and self.client.scheduler is not None:
                raise
            raise DataError(
                f"the scheduler no longer answers ({error}); start it again, and resume from a checkpoint"
            ) from error

    def assign(self) -> None:
        """Assign partitions without a worker to workers with room, in proportion to their threads."""
        self.threads = self._workers()
        n, total = len(self.sources), sum(self.threads.values())
        room = {name: math.ceil(n * threads / total) for name, threads in sorted(self.threads.items())}
        for number, home in enumerate(self.homes):
            if room.get(home, 0):
                room[home] -= 1
            else:
                self.homes[number] = ""
        free = iter([name for name, n_free in room.items() for _ in range(n_free)])
        self.homes = [home or next(free) for home in self.homes]
        self.version += 1

    def refresh(self) -> None:
        """Assign partitions again if a worker has replaced a lost one."""
        if len(self.threads) < self._most_workers and set(self._workers()) != set(self.threads):
            self.assign()

    @property
    def complete(self) -> bool:
        """Whether all workers with partitions are alive."""
        return set(self.homes) <= set(self._workers())

    def refuse_paused(self) -> None:
        """Raise an error if a worker is paused because its memory is full."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        for home in dict.fromkeys(self.homes):
            if workers.get(home, {}).get("status") == "paused":
                limit = size_text(int(workers[home]["memory_limit"]))
                raise DataError(
                    f"worker {home} has used up its memory ({limit}) and is paused; use more workers, smaller "
                    "partitions, or files in the binary form (marginrank convert), which are mapped and not loaded"
                )

    def clients(self) -> frozenset[str]:
        """Return the clients of the scheduler; workers can drop the partitions of all others."""
        # A lambda is pickled by value, so that the scheduler need not have marginrank installed.
        ask = partial(self.client.run_on_scheduler, lambda dask_scheduler: list(dask_scheduler.clients))
        return frozenset(self._ask(ask))

    def numbers(self, home: str) -> frozenset[int]:
        """Return the partitions of a worker."""
        return frozenset(number for number, name in enumerate(self.homes) if name == home)

    def batches(self) -> list[tuple[str, list[int]]]:
        """Return batches of partitions that a thread processes in turn: one per thread of each worker."""
        batches = []
        for home in dict.fromkeys(self.homes):
            numbers = [number for number, name in enumerate(self.homes) if name == home]
            n_batches = min(self.threads.get(home, 1), len(numbers))
            bounds = group_bounds(len(numbers), n_batches)
            batches += [(home, numbers[first:end]) for first, end in pairwise(bounds)]
        return batches

    def submit(self, home: str | None, work: Callable[..., Any], *arguments: Any) -> Future:
        """Start a task, on a given worker or on any."""
        return self.client.submit(work, *arguments, workers=None if home is None else [home], pure=False)

    def results(self, futures: Sequence[Future], merge: Any, groups: Sequence[tuple[int, int]]) -> Nodes | None:
        """Merge the results of tasks and return them; None if a worker was lost meanwhile.

        Workers merge until so few are left that the client merges them sooner than another task would.
        """
        started = list(futures)
        while len(futures) > _MAX_FETCHED:
            futures = [
                self.submit(None, merge_nodes, list(futures[first : first + _MAX_MERGED]), merge, groups)
                for first in range(0, len(futures), _MAX_MERGED)
            ]
            started += futures
        try:
            nodes = self._fetch(futures)
            return None if nodes is None else merge_nodes(nodes, merge, groups)
        finally:
            for future in started:
                future.release()

    def _fetch(self, futures: Sequence[Future]) -> list[Nodes] | None:
        n_checks = 0
        while True:
            try:
                wait(futures, timeout=_CHECK_SECONDS)
                nodes: list[Nodes] = self.client.sync(_fetched, self.client, list(futures))
                return nodes
            except TimeoutError:
                if not self.complete:
                    return None
                n_checks += 1
                if n_checks % _CHECKS_PAUSED == 0:
                    self.refuse_paused()
            except (PartitionMissingError, CancelledError, CommClosedError):
                return None


async def _fetched(client: Client, futures: list[Future]) -> Any:
    """Return the results of tasks; raise TimeoutError if it takes long, and CancelledError if a worker is lost."""
    try:
        return await asyncio.wait_for(client.gather(futures, asynchronous=True), _CHECK_SECONDS)
    except asyncio.CancelledError as error:  # which a thread would never see
        raise CancelledError from error


class ClusterPartitions(Partitions[T]):
    """Objects on the workers of a cluster, one per partition, which are made again if a worker is lost.

    Args:
        placement: The assignment of partitions to workers.
        stages: How each partition is made from its source.
    """

    def __init__(
        self,
        placement: PartitionPlacement,
        stages: Sequence[Sequence[Derivation]],
        parent: ClusterPartitions[Any] | None = None,
    ) -> None:
        # The parent is referenced so that workers store it as long as this needs it.
        self._placement, self._stages, self._parent = placement, stages, parent
        self._token = stages[0][-1].token
        #: Version of the placement that the partitions were made for.
        self._made = -1
        _alive.add(self)

    @classmethod
    def of(
        cls, client: Client, sources: Sequence[Source], opens: Callable[..., T], homes: Sequence[str] = ()
    ) -> ClusterPartitions[T]:
        """Return partitions that a function makes from sources."""
        token = uuid.uuid4().hex
        return cls(PartitionPlacement(client, sources, homes), [[Derivation(token, opens, ())]] * len(sources))

    def __len__(self) -> int:
        return len(self._stages)

    @property
    def client(self) -> Client:
        """The client."""
        return self._placement.client

    def threads(self, n_jobs: int | None) -> int | None:  # noqa: ARG002
        """Return 1: a worker processes as many partitions at a time as it has threads."""
        return 1

    def derive(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> ClusterPartitions[R]:
        """Return the results of a function for each partition, which remain on its worker."""
        token = uuid.uuid4().hex
        stages = [
            [*before, Derivation(token, work, (*shared, *_argument(each, number)))]
            for number, before in enumerate(self._stages)
        ]
        return ClusterPartitions(self._placement, stages, self)

    def map(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> list[R]:
        """Call the function on the workers."""
        places = [(number, number + 1) for number in range(len(self))]
        return self._run(Job(self._token, work, shared, None, places), each)

    def reduce(self, work: Callable[..., R], *shared: Any, merge: Callable[[R, R], R], groups: int = 1) -> list[R]:
        """Merge on the workers: first the partitions of each, then those of several."""
        places = list(pairwise(group_bounds(len(self), groups)))
        return self._run(Job(self._token, work, shared, merge, places), None)

    def _run(self, job: Job, each: Sequence[Any] | None) -> list[Any]:
        """Run a job; if a worker is lost, make its partitions elsewhere and run it again."""
        place = self._placement
        try:
            place.refresh()
            for _ in range(_MAX_LOSSES):
                if self._made == place.version or self._make():
                    lease = self._lease
                    tasks = [
                        place.submit(home, run, lease, job, numbers, [_argument(each, number) for number in numbers])
                        for home, numbers in place.batches()
                    ]
                    nodes = place.results(tasks, job.merge, job.groups)
                    if nodes is not None:
                        return [nodes[group] for group in job.groups]
                place.assign()
        except KilledWorker as error:
            raise self._lost() from error
        except ModuleNotFoundError as error:
            raise DataError(f"a worker cannot import {error.name}; install marginrank and its extras there") from error
        raise self._lost()

    @property
    def _lease(self) -> Lease:
        return Lease(self.client.id, frozenset(partitions._token for partitions in _alive))

    def _make(self) -> bool:
        """Make the partitions that are missing on their workers; return False if a worker was lost meanwhile."""
        place, lease = self._placement, self._lease
        opened, clients = place.opened == place.version, place.clients()
        tasks = []
        for home, numbers in place.batches():
            order = WorkerOrder(lease, versions(), place.numbers(home), clients)
            sources = [None if opened else place.sources[number].on(self.client, home) for number in numbers]
            stages = [self._stages[number] for number in numbers]
            tasks.append(place.submit(home, make, order, numbers, sources, stages))
        if place.results(tasks, None, []) is None:
            return False
        self._made = place.opened = place.version
        return True

    def _lost(self) -> DataError:
        names = [source.name for source in self._placement.sources]
        return DataError(
            f"workers died {_MAX_LOSSES} times in a row while they had {listed(names, 3)}; if they ran out of memory, "
            "use smaller partitions, more workers, or files in the binary form (marginrank convert), which are mapped "
            f"and not loaded; {count(len(self._placement.threads), 'worker')} left"
        )


def _argument(each: Sequence[Any] | None, number: int) -> tuple[Any, ...]:
    return () if each is None else (each[number],)
