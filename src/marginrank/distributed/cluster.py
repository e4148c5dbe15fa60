"""Partitions on the workers of a Dask cluster."""

from __future__ import annotations

import math
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import pairwise
from typing import Any, Final, TypeVar

from distributed import Client, Future, KilledWorker

from marginrank.data.partitions import Partitions, group_bounds, halve
from marginrank.distributed.sources import Source
from marginrank.distributed.worker import (
    Lease,
    NotKeptError,
    Order,
    Stage,
    collect,
    make,
    map_run,
    merge_runs,
    reduce_run,
    versions,
)
from marginrank.errors import DataError
from marginrank.words import count, listed

T = TypeVar("T")
R = TypeVar("R")
#: Seconds between looks at whether all workers are still there.
_LOOK: Final = 1.0
#: Seconds to wait for a worker where there is none.
_REPLACED: Final = 60.0
#: How often workers may be lost during one operation before it is given up.
_MOST_LOSSES: Final = 6
#: Most results that one task merges.
_MOST_MERGED: Final = 16
#: Identifies this process to the workers.
_OWNER: Final = uuid.uuid4().hex
_alive: weakref.WeakSet[ClusterPartitions[Any]] = weakref.WeakSet()


class Placement:
    """Which worker has which partition.

    A partition stays with its worker as long as that lives, and Dask does not move it, as tasks name the worker. When a
    worker is lost, its partitions go to the others, and some come back when a new worker takes its place.

    Args:
        client: A client of the cluster.
        sources: Where the partitions come from.
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
        found: dict[str, int] = dict(self.client.nthreads())
        if not found:
            try:
                self.client.wait_for_workers(1, timeout=_REPLACED)
            except TimeoutError:
                address = self.client.scheduler.address if self.client.scheduler is not None else "ADDRESS"
                raise DataError(
                    f"the cluster has no workers; start some, for example with `dask worker {address}`"
                ) from None
            found = dict(self.client.nthreads())
        return found

    def deal(self) -> None:
        """Give partitions that have no worker to those that have room, in proportion to their threads."""
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
        """Deal out again if a worker has come in place of one that was lost."""
        if len(self.threads) < self._most_workers and set(self._workers()) != set(self.threads):
            self.deal()

    @property
    def complete(self) -> bool:
        """Whether all workers that have partitions are there."""
        return set(self.homes) <= set(self._workers())

    def numbers(self, home: str) -> frozenset[int]:
        """Return the partitions of a worker."""
        return frozenset(number for number, name in enumerate(self.homes) if name == home)

    def runs(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut partitions into runs, each on one worker and a node of the tree, at least one for each of its threads."""
        home = self.homes[first]
        most = math.ceil(self.homes.count(home) / self.threads.get(home, 1))
        if end - first == 1 or (end - first <= most and set(self.homes[first:end]) == {home}):
            yield first, end
        else:
            middle = halve(first, end)
            yield from self.runs(first, middle)
            yield from self.runs(middle, end)

    def submit(self, home: str | None, work: Callable[..., Any], *arguments: Any) -> Future:
        """Start a task, on a given worker or on any."""
        return self.client.submit(work, *arguments, workers=None if home is None else [home], pure=False)

    def results(self, futures: Sequence[Future]) -> list[Any] | None:
        """Wait for tasks and return their results; None if a worker was lost meanwhile."""
        collected = self.submit(None, collect, list(futures))
        while True:
            try:
                results: list[Any] = collected.result(timeout=_LOOK)
                return results
            except TimeoutError:
                if not self.complete:
                    return None
            except (NotKeptError, CancelledError):
                return None


class ClusterPartitions(Partitions[T]):
    """Objects on the workers of a cluster, one for each partition, which are made again where a worker is lost.

    Args:
        placement: Which worker has which partition.
        stages: How each partition is made from its source.
    """

    def __init__(
        self, placement: Placement, stages: Sequence[Sequence[Stage]], parent: ClusterPartitions[Any] | None = None
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
        return cls(Placement(client, sources, homes), [[Stage(token, opens, ())]] * len(sources))

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
            [*before, Stage(token, work, (*shared, *_own(each, number)))] for number, before in enumerate(self._stages)
        ]
        return ClusterPartitions(self._placement, stages, self)

    def map(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> list[R]:
        """Call the function on the workers."""

        def start(lease: Lease) -> list[Future]:
            place = self._placement
            return [
                place.submit(
                    place.homes[first],
                    map_run,
                    lease,
                    self._token,
                    first,
                    work,
                    shared,
                    [_own(each, number) for number in range(first, end)],
                )
                for first, end in place.runs(0, len(self))
            ]

        return [result for run in self._run(start) for result in run]

    def reduce(self, work: Callable[..., R], *shared: Any, merge: Callable[[R, R], R], groups: int = 1) -> list[R]:
        """Merge on the workers: runs of partitions where they are, and then runs with each other."""
        place, bounds = self._placement, group_bounds(len(self), groups)

        def node(lease: Lease, first: int, end: int) -> Future:
            runs = list(place.runs(first, end))
            if len(runs) == 1:
                return place.submit(place.homes[first], reduce_run, lease, self._token, runs[0], work, shared, merge)
            if len(runs) > _MOST_MERGED:
                middle = halve(first, end)
                runs = [(first, middle), (middle, end)]
            return place.submit(None, merge_runs, runs, [node(lease, *run) for run in runs], merge)

        return self._run(lambda lease: [node(lease, first, end) for first, end in pairwise(bounds)])

    def _run(self, start: Callable[[Lease], list[Future]]) -> list[Any]:
        """Start tasks and return their results; if a worker is lost, make its partitions elsewhere and start again."""
        try:
            self._placement.refresh()
            for _ in range(_MOST_LOSSES):
                if self._made == self._placement.version or self._make():
                    results = self._placement.results(start(self._lease))
                    if results is not None:
                        return results
                self._placement.deal()
        except KilledWorker as error:
            raise self._lost() from error
        except ModuleNotFoundError as error:
            raise DataError(f"a worker cannot import {error.name}; install marginrank and its extras there") from error
        raise self._lost()

    @property
    def _lease(self) -> Lease:
        return Lease(_OWNER, frozenset(one._token for one in _alive))

    def _make(self) -> bool:
        """Make the partitions that are not where they belong; return False if a worker was lost meanwhile."""
        place, lease, found = self._placement, self._lease, versions()
        orders = {home: Order(lease, found, place.numbers(home)) for home in set(place.homes)}
        opened = place.opened == place.version
        tasks = [
            place.submit(home, make, orders[home], number, None if opened else source.on(self.client, home), stages)
            for number, (home, source, stages) in enumerate(zip(place.homes, place.sources, self._stages, strict=True))
        ]
        if place.results(tasks) is None:
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
