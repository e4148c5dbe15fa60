"""What runs on the workers: partitions are made there, kept there, and worked on there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NamedTuple

from marginrank.data.partitions import halve, merge_tree
from marginrank.errors import DataError
from marginrank.version import __version__

#: Packages whose versions change results, or what can be read.
_PACKAGES: Final = ("numpy", "numba", "scipy", "scikit-learn")
#: What this process keeps, by owner, token of the collection, and number of the partition.
_kept: dict[tuple[str, str, int], Any] = {}
_lock = threading.Lock()


class NotKeptError(Exception):
    """A partition is not, or no longer, on the worker that is asked for it."""


class Stage(NamedTuple):
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
        self._drop(lambda token, number: token not in self.tokens)  # noqa: ARG005

    def drop_strangers(self, stages: Sequence[Stage], numbers: frozenset[int]) -> None:
        """Free partitions that belong to another worker by now."""
        tokens = {stage.token for stage in stages}
        self._drop(lambda token, number: token in tokens and number not in numbers)

    def _drop(self, unwanted: Callable[[str, int], bool]) -> None:
        with _lock:
            for owner, token, number in list(_kept):
                if owner == self.owner and unwanted(token, number):
                    del _kept[owner, token, number]


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of all that results depend on."""
    found = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}", "marginrank": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


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


class Order(NamedTuple):
    """What a client wants of a worker: which partitions belong to it, and the versions it has to have."""

    lease: Lease
    versions: Mapping[str, str]
    numbers: frozenset[int]


def make(order: Order, number: int, source: Any, stages: Sequence[Stage]) -> None:
    """Make a partition and what is derived from it, as far as it is not there; the first stage opens the source."""
    lease = order.lease
    check_versions(order.versions)
    lease.drop_others()
    lease.drop_strangers(stages, order.numbers)
    have = next((at for at in reversed(range(len(stages))) if _key(lease, stages[at], number) in _kept), -1)
    made = None if have < 0 else _kept[_key(lease, stages[have], number)]
    if made is None and source is None:
        raise NotKeptError(f"partition {number} is not on worker {address()}")
    for stage in stages[have + 1 :]:
        made = stage.work(source if made is None else made, *stage.arguments)
        _kept[_key(lease, stage, number)] = made


def _key(lease: Lease, stage: Stage, number: int) -> tuple[str, str, int]:
    return lease.owner, stage.token, number


def _call(
    lease: Lease, token: str, number: int, work: Callable[..., Any], shared: Sequence[Any], each: Sequence[Any]
) -> Any:
    try:
        part = _kept[lease.owner, token, number]
    except KeyError:
        raise NotKeptError(f"partition {number} is not on worker {address()}") from None
    return work(part, *shared, *each)


def map_run(
    lease: Lease, token: str, first: int, work: Callable[..., Any], shared: Sequence[Any], each: Sequence[Sequence[Any]]
) -> list[Any]:
    """Call a function for some partitions, one after the other; ``each`` has their own arguments."""
    return [_call(lease, token, first + at, work, shared, own) for at, own in enumerate(each)]


def reduce_run(
    lease: Lease,
    token: str,
    run: tuple[int, int],
    work: Callable[..., Any],
    shared: Sequence[Any],
    merge: Callable[[Any, Any], Any],
) -> Any:
    """Merge what a function returns for a run of partitions."""
    return merge_tree(lambda number: _call(lease, token, number, work, shared, ()), merge, *run)


def collect(results: list[Any]) -> list[Any]:
    """Return results of several tasks as that of one, which is fetched in one go."""
    return results


def merge_runs(bounds: Sequence[tuple[int, int]], results: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge the results of runs as `merge_tree` merges those of their partitions."""
    of_run = dict(zip(bounds, results, strict=True))

    def node(first: int, end: int) -> Any:
        if (first, end) in of_run:
            return of_run[first, end]
        middle = halve(first, end)
        return merge(node(first, middle), node(middle, end))

    return node(bounds[0][0], bounds[-1][1])
