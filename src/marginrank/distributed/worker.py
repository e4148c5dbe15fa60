"""Functions that run on the workers: they make, store and process partitions."""

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

#: Packages whose versions affect results or file formats.
_PACKAGES: Final = ("numpy", "numba", "scipy", "scikit-learn")

#: Partitions of this process, by owner, token of the collection, and number.
_store: dict[tuple[str, str, int], Any] = {}

_lock = threading.Lock()

#: Merged results of consecutive partitions, by the first and the end of each.
Nodes: TypeAlias = dict[tuple[int, int], Any]


class PartitionMissingError(Exception):
    """A partition is not, or no longer, on its worker."""


class Derivation(NamedTuple):
    """Transformation of one partition into another."""

    token: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]


class Lease(NamedTuple):
    """The owner of partitions, and the collections that the owner still uses; others are dropped."""

    owner: str
    tokens: frozenset[str]

    def drop_others(self) -> None:
        """Drop collections that the owner no longer uses."""
        _drop(lambda owner, token, _: owner == self.owner and token not in self.tokens)

    def drop_reassigned(self, stages: Sequence[Derivation], numbers: frozenset[int]) -> None:
        """Drop partitions that are now assigned to another worker."""
        tokens = {stage.token for stage in stages}
        _drop(lambda owner, token, number: owner == self.owner and token in tokens and number not in numbers)


def _drop(unwanted: Callable[[str, str, int], bool]) -> None:
    """Drop partitions, by owner, collection and number."""
    with _lock:
        for key in [key for key in _store if unwanted(*key)]:
            del _store[key]


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
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


def check_versions(client_versions: Mapping[str, str]) -> None:
    """Refuse a client with other versions, since results would depend on the worker."""
    for name, installed in versions().items():
        if client_versions[name] != installed:
            raise DataError(
                f"worker {address()} has {name} {installed} and the client {client_versions[name]}; install the same "
                "versions on both"
            )


class WorkerOrder(NamedTuple):
    """An order of a client to a worker: the partitions assigned to it, and the required versions.

    It names all clients that are alive, so that the partitions of killed clients are dropped.
    """

    lease: Lease
    versions: Mapping[str, str]
    numbers: frozenset[int]
    clients: frozenset[str]


def make(
    order: WorkerOrder, numbers: Sequence[int], sources: Sequence[Any], stages: Sequence[Sequence[Derivation]]
) -> Nodes:
    """Make the partitions that are missing, stage by stage; the first stage opens a source."""
    check_versions(order.versions)
    order.lease.drop_others()
    _drop(lambda owner, *_: owner not in order.clients)
    for number, source, derivations in zip(numbers, sources, stages, strict=True):
        order.lease.drop_reassigned(derivations, order.numbers)
        _make_one(order.lease, number, source, derivations)
    return {}


def _make_one(lease: Lease, number: int, source: Any, stages: Sequence[Derivation]) -> None:
    keys = [(lease.owner, stage.token, number) for stage in stages]
    last = next((index for index in reversed(range(len(stages))) if keys[index] in _store), -1)
    partition = None if last < 0 else _store[keys[last]]
    if partition is None and source is None:
        raise PartitionMissingError(f"partition {number} is not on worker {address()}")
    for stage, key in zip(stages[last + 1 :], keys[last + 1 :], strict=True):
        partition = stage.work(source if partition is None else partition, *stage.arguments)
        _store[key] = partition


class Job(NamedTuple):
    """A function to call for each partition, how its results are merged, and the groups that they are merged in."""

    token: str
    work: Callable[..., Any]
    shared: tuple[Any, ...]
    merge: Callable[[Any, Any], Any] | None
    groups: Sequence[tuple[int, int]]


def run(lease: Lease, job: Job, numbers: Sequence[int], each: Sequence[tuple[Any, ...]]) -> Nodes:
    """Call a function for some partitions, and merge its results as far as possible."""
    nodes: Nodes = {}
    for number, arguments in zip(numbers, each, strict=True):
        try:
            partition = _store[lease.owner, job.token, number]
        except KeyError:
            raise PartitionMissingError(f"partition {number} is not on worker {address()}") from None
        nodes[number, number + 1] = job.work(partition, *job.shared, *arguments)
    return merge_nodes([nodes], job.merge, job.groups)


def merge_nodes(
    parts: Sequence[Nodes], merge: Callable[[Any, Any], Any] | None, groups: Sequence[tuple[int, int]]
) -> Nodes:
    """Merge the available results in the same order as `merge_tree`.

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
        """Return whether all results of a node are available, and merge them if so."""
        if (first, end) in nodes:
            return True
        if end - first == 1:
            return False
        middle = halve(first, end)
        halves = [(first, middle), (middle, end)]
        available = [half for half in halves if known(*half)]
        if len(available) == 2:
            nodes[first, end] = merge(nodes[halves[0]], nodes[halves[1]])
            return True
        merged.update({half: nodes[half] for half in available})
        return False

    merged.update({group: nodes[group] for group in groups if known(*group)})
    return merged


class Source(Protocol):
    """The source of one partition."""

    @property
    def name(self) -> str:
        """Name in messages."""

    def on(self, client: Any, worker: str) -> Any:
        """Return the argument of `open_source` on a worker."""


@dataclass(frozen=True)
class FileSource:
    """A file, or one of several equal chunks of its queries, that a worker reads."""

    path: Path
    chunk: tuple[int, int] = (0, 1)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file, with the number of the chunk."""
        number, n_chunks = self.chunk
        return self.path.name if n_chunks == 1 else f"{self.path.name} ({number + 1} of {n_chunks})"

    def on(self, client: Any, worker: str) -> FileSource:  # noqa: ARG002
        """Return the source itself."""
        return self

    def read(self) -> Queries:
        """Read the file in this process."""
        number, n_chunks = self.chunk
        queries = read_queries(self.path, **self.options)
        if n_chunks == 1:
            return queries
        if queries.order is not None:
            raise DataError(
                "the rows of its queries are interleaved, so it is one partition; use per_file=1", path=self.path
            )
        bounds = chunk_bounds(queries.offsets, n_chunks)
        if len(bounds) <= n_chunks:
            raise DataError(
                f"its {len(queries)} queries do not fill {n_chunks} partitions; use per_file=1", path=self.path
            )
        return queries[bounds[number] : bounds[number + 1]]


@dataclass(frozen=True, eq=False)
class QueriesSource:
    """Queries in the memory of the client, which sends them to their worker, and again if it is lost."""

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
    """Queries that Dask has computed on a worker, and computes again if it is lost."""

    future: Any
    number: int

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"partition {self.number}"

    def on(self, client: Any, worker: str) -> Any:  # noqa: ARG002
        """Return the future."""
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
