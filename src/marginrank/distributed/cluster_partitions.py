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
    NotKeptError,
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
#: Seconds between looks at whether all workers are still there.
_LOOK: Final = 1.0
#: Looks at which a worker may be paused before it is given up.
_LOOKS_PAUSED: Final = 30
#: Seconds to wait for a worker if there is none.
_REPLACED: Final = 60.0
#: How often workers may be lost during one operation before it is given up.
_MOST_LOSSES: Final = 6
#: Most results that one task merges.
_MOST_MERGED: Final = 16
#: Most results that the client fetches and merges itself.
_MOST_FETCHED: Final = 4
_alive: weakref.WeakSet[ClusterPartitions[Any]] = weakref.WeakSet()


class PartitionPlacement:
    """Which worker has which partition.

    A partition stays with its worker as long as that lives, and Dask does not move it, as tasks name the worker. When a
    worker is lost, its partitions go to the others, and some come back when a new worker takes its place.

    Args:
        client: A client of the cluster.
        sources: Sources of the partitions.
        homes: The worker of each partition; by default they are dealt out.
    """

    def __init__(self, client: Client, sources: Sequence[Source], homes: Sequence[str] = ()) -> None:
        self.client, self.sources = client, sources
        self.homes = list(homes) or [""] * len(sources)
        #: Counts how often partitions were dealt out, and for which of these times workers have their sources.
        self.version, self.opened = 0, -1
        self.threads = self._workers()
        self._most_workers = len(self.threads)
        if not homes:
            self.deal()

    def _workers(self) -> dict[str, int]:
        """Return the workers that there are, with the number of their threads."""
        found = self._ask(self.client.nthreads)
        if not found:
            try:
                self.client.wait_for_workers(1, timeout=_REPLACED)
            except TimeoutError:
                raise DataError(
                    "the cluster has no workers; start some, for example with `dask worker ADDRESS`"
                ) from None
            found = self._ask(self.client.nthreads)
        return dict(found)

    def _ask(self, question: Callable[[], T]) -> T:
        """Query the scheduler; if it was restarted, connect again."""
        try:
            try:
                return question()
            except CommClosedError:
                return question()
        except (OSError, RuntimeError, AttributeError) as error:
            # A client that gave up looking for the scheduler has none to ask.
            if isinstance(error, AttributeError) and self.client.scheduler is not None:
                raise
            raise DataError(
                f"the scheduler no longer answers ({error}); start it again, and resume from a checkpoint"
            ) from error

    def deal(self) -> None:
        """Assign partitions without a worker to workers with room, in proportion to their threads."""
        self.threads = self._workers()
        n, total = len(self.sources), sum(self.threads.values())
        room = {name: math.ceil(n * threads / total) for name, threads in sorted(self.threads.items())}
        for number, home in enumerate(self.homes):
            if room.get(home, 0):
                room[home] -= 1
            else:
                self.homes[number] = ""
        free = iter([name for name, places in room.items() for _ in range(places)])
        self.homes = [home or next(free) for home in self.homes]
        self.version += 1

    def refresh(self) -> None:
        """Assign partitions again if a worker has replaced a lost one."""
        if len(self.threads) < self._most_workers and set(self._workers()) != set(self.threads):
            self.deal()

    @property
    def complete(self) -> bool:
        """Whether all workers that have partitions are there."""
        return set(self.homes) <= set(self._workers())

    def refuse_paused(self) -> None:
        """Refuse to wait for a worker that has too little memory to go on."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        for home in dict.fromkeys(self.homes):
            if workers.get(home, {}).get("status") == "paused":
                limit = size_text(int(workers[home]["memory_limit"]))
                raise DataError(
                    f"worker {home} has used up its memory ({limit}) and is paused; use more workers, smaller "
                    "partitions, or files in the binary form (marginrank convert), which are mapped and not loaded"
                )

    def clients(self) -> frozenset[str]:
        """Return the clients that the scheduler has; what workers keep for others is of no use any more."""
        # A function without a name is sent as it is, so that the scheduler need not have marginrank.
        ask = partial(self.client.run_on_scheduler, lambda dask_scheduler: list(dask_scheduler.clients))
        return frozenset(self._ask(ask))

    def numbers(self, home: str) -> frozenset[int]:
        """Return the partitions of a worker."""
        return frozenset(number for number, name in enumerate(self.homes) if name == home)

    def batches(self) -> list[tuple[str, list[int]]]:
        """Return partitions that are worked on one after the other: as many batches on a worker as it has threads."""
        found = []
        for home in dict.fromkeys(self.homes):
            numbers = [number for number, name in enumerate(self.homes) if name == home]
            n_batches = min(self.threads.get(home, 1), len(numbers))
            bounds = group_bounds(len(numbers), n_batches)
            found += [(home, numbers[first:end]) for first, end in pairwise(bounds)]
        return found

    def submit(self, home: str | None, work: Callable[..., Any], *arguments: Any) -> Future:
        """Start a task, on a given worker or on any."""
        return self.client.submit(work, *arguments, workers=None if home is None else [home], pure=False)

    def results(self, futures: Sequence[Future], merge: Any, groups: Sequence[tuple[int, int]]) -> Nodes | None:
        """Merge the results of tasks and return them; None if a worker was lost meanwhile.

        Workers merge until so few are left that the client merges them sooner than another task could.
        """
        started = list(futures)
        while len(futures) > _MOST_FETCHED:
            futures = [
                self.submit(None, merge_nodes, list(futures[first : first + _MOST_MERGED]), merge, groups)
                for first in range(0, len(futures), _MOST_MERGED)
            ]
            started += futures
        try:
            nodes = self._fetch(futures)
            return None if nodes is None else merge_nodes(nodes, merge, groups)
        finally:
            for future in started:
                future.release()

    def _fetch(self, futures: Sequence[Future]) -> list[Nodes] | None:
        looks = 0
        while True:
            try:
                wait(futures, timeout=_LOOK)
                nodes: list[Nodes] = self.client.sync(_fetched, self.client, list(futures))
                return nodes
            except TimeoutError:
                if not self.complete:
                    return None
                looks += 1
                if looks % _LOOKS_PAUSED == 0:
                    self.refuse_paused()
            except (NotKeptError, CancelledError, CommClosedError):
                return None


async def _fetched(client: Client, futures: list[Future]) -> Any:
    """Return the results of tasks; raise TimeoutError if it takes long, and CancelledError if a worker is lost."""
    try:
        return await asyncio.wait_for(client.gather(futures, asynchronous=True), _LOOK)
    except asyncio.CancelledError as error:  # which a thread would never see
        raise CancelledError from error


class ClusterPartitions(Partitions[T]):
    """Objects on the workers of a cluster, one for each partition, which are made again if a worker is lost.

    Args:
        placement: Which worker has which partition.
        stages: How each partition is made from its source.
    """

    def __init__(
        self,
        placement: PartitionPlacement,
        stages: Sequence[Sequence[Derivation]],
        parent: ClusterPartitions[Any] | None = None,
    ) -> None:
        # Workers keep what it is derived from as long as it is needed.
        self._placement, self._stages, self._parent = placement, stages, parent
        self._token = stages[0][-1].token
        #: Version of the placement that the partitions were made for.
        self._made = -1
        _alive.add(self)

    @classmethod
    def of(
        cls, client: Client, sources: Sequence[Source], opens: Callable[..., T], homes: Sequence[str] = ()
    ) -> ClusterPartitions[T]:
        """Return the partitions that a function makes of sources."""
        token = uuid.uuid4().hex
        return cls(PartitionPlacement(client, sources, homes), [[Derivation(token, opens, ())]] * len(sources))

    def __len__(self) -> int:
        return len(self._stages)

    @property
    def client(self) -> Client:
        """The client."""
        return self._placement.client

    def threads(self, n_jobs: int | None) -> int | None:  # noqa: ARG002
        """Return 1: a worker has as many partitions at work as it has threads."""
        return 1

    def derive(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> ClusterPartitions[R]:
        """Return what a function makes of each partition, on its worker."""
        token = uuid.uuid4().hex
        stages = [
            [*before, Derivation(token, work, (*shared, *_own(each, number)))]
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
            for _ in range(_MOST_LOSSES):
                if self._made == place.version or self._make():
                    lease = self._lease
                    tasks = [
                        place.submit(home, run, lease, job, numbers, [_own(each, number) for number in numbers])
                        for home, numbers in place.batches()
                    ]
                    nodes = place.results(tasks, job.merge, job.groups)
                    if nodes is not None:
                        return [nodes[group] for group in job.groups]
                place.deal()
        except KilledWorker as error:
            raise self._lost() from error
        except ModuleNotFoundError as error:
            raise DataError(f"a worker cannot import {error.name}; install marginrank and its extras there") from error
        raise self._lost()

    @property
    def _lease(self) -> Lease:
        return Lease(self.client.id, frozenset(one._token for one in _alive))

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
            f"workers died {_MOST_LOSSES} times in a row while they had {listed(names, 3)}; if they ran out of memory, "
            "use smaller partitions, more workers, or files in the binary form (marginrank convert), which are mapped "
            f"and not loaded; {count(len(self._placement.threads), 'worker')} left"
        )


def _own(each: Sequence[Any] | None, number: int) -> tuple[Any, ...]:
    return () if each is None else (each[number],)
