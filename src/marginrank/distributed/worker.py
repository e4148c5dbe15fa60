"""Code that runs on the workers: it makes, stores and processes partitions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from marginrank.data.partitions import halve
from marginrank.data.queries import Queries
from marginrank.data.reader import read_queries
from marginrank.errors import DataError
from marginrank.runtime.threads import chunk_bounds
from marginrank.version import __version__

#: Packages whose versions change results, or what can be read.
_PACKAGES: Final = ("numpy", "numba", "scipy", "scikit-learn")

#: What this process keeps, by owner, token of the collection, and number of the partition.
_kept: dict[tuple[str, str, int], Any] = {}

_lock = threading.Lock()

#: Merged results of runs of partitions, by the first and the end of each.
Nodes: TypeAlias = dict[tuple[int, int], Any]


class NotKeptError(Exception):
    """A partition is not, or no longer, on the worker that is asked for it."""


class Derivation(NamedTuple):
    """How a partition is made of another one, which was made before it."""

    token: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]


class Lease(NamedTuple):
    """Whose partitions these are, and which collections the owner still has; others are dropped."""

    owner: str
    tokens: frozenset[str]

    def drop_others(self) -> None:
        """Free what the owner no longer has."""
        _drop(lambda owner, token, _: owner == self.owner and token not in self.tokens)

    def drop_strangers(self, stages: Sequence[Derivation], numbers: frozenset[int]) -> None:
        """Free partitions that belong to another worker by now."""
        tokens = {stage.token for stage in stages}
        _drop(lambda owner, token, number: owner == self.owner and token in tokens and number not in numbers)


def _drop(unwanted: Callable[[str, str, int], bool]) -> None:
    """Free what is kept for some owners, of some collections, or with some numbers."""
    with _lock:
        for key in [key for key in _kept if unwanted(*key)]:
            del _kept[key]


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of all that results depend on."""
    versions = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}", "marginrank": __version__}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return versions


def address() -> str:
    """Return the address of the worker that runs this."""
    from distributed import get_worker  # noqa: PLC0415

    return str(get_worker().address)


def check_versions(of_client: Mapping[str, str]) -> None:
    """Refuse to work for a client with other versions, as results would depend on who computes them."""
    for name, here in versions().items():
        if of_client[name] != here:
            raise DataError(
                f"worker {address()} has {name} {here} and the client {of_client[name]}; install the same versions "
                "on both"
            )


class WorkerOrder(NamedTuple):
    """What a client wants of a worker: which partitions belong to it, and the versions it has to have.

    With it come the clients that there are, as one that was killed cannot say that it needs nothing any more.
    """

    lease: Lease
    versions: Mapping[str, str]
    numbers: frozenset[int]
    clients: frozenset[str]


def make(
    order: WorkerOrder, numbers: Sequence[int], sources: Sequence[Any], stages: Sequence[Sequence[Derivation]]
) -> Nodes:
    """Make partitions and what is derived from them, as far as they are not there; the first stage opens a source."""
    check_versions(order.versions)
    order.lease.drop_others()
    _drop(lambda owner, *_: owner not in order.clients)
    for number, source, own in zip(numbers, sources, stages, strict=True):
        order.lease.drop_strangers(own, order.numbers)
        _make_one(order.lease, number, source, own)
    return {}


def _make_one(lease: Lease, number: int, source: Any, stages: Sequence[Derivation]) -> None:
    keys = [(lease.owner, stage.token, number) for stage in stages]
    have = next((at for at in reversed(range(len(stages))) if keys[at] in _kept), -1)
    made = None if have < 0 else _kept[keys[have]]
    if made is None and source is None:
        raise NotKeptError(f"partition {number} is not on worker {address()}")
    for stage, key in zip(stages[have + 1 :], keys[have + 1 :], strict=True):
        made = stage.work(source if made is None else made, *stage.arguments)
        _kept[key] = made


class Job(NamedTuple):
    """A function to call for each partition, how its results are merged, and the groups that they are merged in."""

    token: str
    work: Callable[..., Any]
    shared: tuple[Any, ...]
    merge: Callable[[Any, Any], Any] | None
    groups: Sequence[tuple[int, int]]


def run(lease: Lease, job: Job, numbers: Sequence[int], each: Sequence[tuple[Any, ...]]) -> Nodes:
    """Call a function for some partitions, and merge what can be merged of its results."""
    nodes: Nodes = {}
    for number, own in zip(numbers, each, strict=True):
        try:
            part = _kept[lease.owner, job.token, number]
        except KeyError:
            raise NotKeptError(f"partition {number} is not on worker {address()}") from None
        nodes[number, number + 1] = job.work(part, *job.shared, *own)
    return merge_nodes([nodes], job.merge, job.groups)


def merge_nodes(
    parts: Sequence[Nodes], merge: Callable[[Any, Any], Any] | None, groups: Sequence[tuple[int, int]]
) -> Nodes:
    """Merge results as far as `merge_tree` would, whichever of them are there.

    >>> halves = merge_nodes([{(0, 1): "a", (1, 2): "b", (2, 3): "c"}], str.__add__, [(0, 4)])
    >>> sorted(halves.items())
    [((0, 2), 'ab'), ((2, 3), 'c')]
    >>> merge_nodes([halves, {(3, 4): "d"}], str.__add__, [(0, 4)])
    {(0, 4): 'abcd'}
    """
    nodes: Nodes = {place: result for part in parts for place, result in part.items()}
    if merge is None:
        return nodes
    merged: Nodes = {}

    def known(first: int, end: int) -> bool:
        """Tell whether all of a node is there, in which case it is merged."""
        if (first, end) in nodes:
            return True
        if end - first == 1:
            return False
        middle = halve(first, end)
        halves = [(first, middle), (middle, end)]
        there = [half for half in halves if known(*half)]
        if len(there) == 2:
            nodes[first, end] = merge(nodes[halves[0]], nodes[halves[1]])
            return True
        merged.update({half: nodes[half] for half in there})
        return False

    merged.update({group: nodes[group] for group in groups if known(*group)})
    return merged


class Source(Protocol):
    """The source of one partition."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    def on(self, client: Any, worker: str) -> Any:
        """Return what to send to a worker for `open_source`."""


@dataclass(frozen=True)
class FileSource:
    """A file, or one of several equal shares of its queries, that a worker reads."""

    path: Path
    share: tuple[int, int] = (0, 1)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file, with the number of the share."""
        number, n_shares = self.share
        return self.path.name if n_shares == 1 else f"{self.path.name} ({number + 1} of {n_shares})"

    def on(self, client: Any, worker: str) -> FileSource:  # noqa: ARG002
        """Return the recipe itself."""
        return self

    def read(self) -> Queries:
        """Read the file in this process."""
        number, n_shares = self.share
        queries = read_queries(self.path, **self.options)
        if n_shares == 1:
            return queries
        bounds = chunk_bounds(queries.offsets, n_shares)
        if len(bounds) <= n_shares:
            raise DataError(
                f"its {len(queries)} queries do not fill {n_shares} partitions; use per_file=1", path=self.path
            )
        return queries[bounds[number] : bounds[number + 1]]


@dataclass(frozen=True, eq=False)
class QueriesSource:
    """Queries in the memory of the client, which sends them once, and again when their worker is lost."""

    queries: Queries
    number: int

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"partition {self.number}"

    def on(self, client: Any, worker: str) -> Any:
        """Send the queries to a worker."""
        return client.scatter(self.queries, workers=[worker], hash=False)


@dataclass(frozen=True, eq=False)
class FutureSource:
    """Queries that Dask has made on a worker, and makes again when it is lost."""

    future: Any
    number: int

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"partition {self.number}"

    def on(self, client: Any, worker: str) -> Any:  # noqa: ARG002
        """Return what Dask has."""
        return self.future


def open_source(source: FileSource | Queries) -> Queries:
    """Return the queries of a partition on a worker."""
    if isinstance(source, Queries):
        return source
    try:
        return source.read()
    except FileNotFoundError:
        raise DataError(
            f"there is no such file on worker {address()}; give a path on storage that all workers share",
            path=source.path,
        ) from None
