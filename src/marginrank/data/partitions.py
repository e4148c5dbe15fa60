"""Objects in parts that lie in this process or elsewhere, and sums over the parts in a fixed order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeAlias, TypeVar

from marginrank.typing import AnyArray

T = TypeVar("T")
R = TypeVar("R")
#: What is added up.
Arrays: TypeAlias = tuple[AnyArray, ...]


def add_arrays(left: Arrays, right: Arrays) -> Arrays:
    """Add arrays one by one."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def halve(first: int, end: int) -> int:
    """Return where a run of parts is cut in the tree of its sum: after the largest power of two that leaves some.

    >>> [halve(0, n) for n in (2, 3, 4, 5, 8)]
    [1, 2, 2, 4, 4]
    """
    return first + (1 << ((end - first - 1).bit_length() - 1))


def merge_tree(leaf: Callable[[int], R], merge: Callable[[R, R], R], first: int, end: int) -> R:
    """Merge what the leaves from ``first`` to ``end`` return, always in the same order.

    >>> merge_tree(str, lambda a, b: f"({a} {b})", 0, 5)
    '(((0 1) (2 3)) 4)'
    """
    if end - first == 1:
        return leaf(first)
    middle = halve(first, end)
    return merge(merge_tree(leaf, merge, first, middle), merge_tree(leaf, merge, middle, end))


def group_bounds(n_parts: int, n_groups: int) -> list[int]:
    """Cut parts into groups of about the same size.

    >>> group_bounds(5, 2), group_bounds(2, 4)
    ([0, 2, 5], [0, 1, 2])
    """
    n_groups = min(n_groups, n_parts)
    return [n_parts * group // n_groups for group in range(n_groups + 1)]


class Partitions(ABC, Generic[T]):
    """Objects of one kind, one for each part of the data, in a fixed order.

    Functions are called where the parts lie: with the part first, then with what is shared by all parts, and then,
    where ``each`` is given, with its entry for the part. What they return has to be small, except for `derive`, whose
    results stay where the parts are. On a cluster, functions and arguments are pickled, so functions are those of a
    module.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Count the parts."""

    @abstractmethod
    def map(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> list[R]:
        """Return what a function returns for each part."""

    @abstractmethod
    def derive(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> Partitions[R]:
        """Return what a function makes of each part; it is made when it is first used."""

    @abstractmethod
    def reduce(self, work: Callable[..., R], *shared: Any, merge: Callable[[R, R], R], groups: int = 1) -> list[R]:
        """Merge what a function returns for each part, as `merge_tree` does; one result for each group of parts."""

    def add(self, work: Callable[..., Arrays], *shared: Any, groups: int = 1) -> list[Arrays]:
        """Add up the arrays that a function returns for each part, in groups of consecutive parts."""
        return self.reduce(work, *shared, merge=add_arrays, groups=groups)

    @abstractmethod
    def threads(self, n_jobs: int | None) -> int | None:
        """Return how many threads work on one part, where ``n_jobs`` are asked for."""


class LocalPartitions(Partitions[T]):
    """Parts in the memory of this process.

    >>> parts = LocalPartitions([lambda: 1, lambda: 2, lambda: 3])
    >>> parts.derive(lambda part, factor: factor * part, 10).map(lambda part: part + 1)
    [11, 21, 31]

    Args:
        sources: Functions that make the parts, each called once.
    """

    def __init__(self, sources: Sequence[Callable[[], T]]) -> None:
        self._sources = sources
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def _part(self, number: int) -> T:
        if number not in self._made:
            self._made[number] = self._sources[number]()
        return self._made[number]

    def _call(self, number: int, work: Callable[..., R], shared: Sequence[Any], each: Sequence[Any] | None) -> R:
        return work(self._part(number), *shared, *(() if each is None else (each[number],)))

    def map(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> list[R]:
        """Call the function for one part after the other."""
        return [self._call(number, work, shared, each) for number in range(len(self))]

    def derive(self, work: Callable[..., R], *shared: Any, each: Sequence[Any] | None = None) -> LocalPartitions[R]:
        """Keep what the function makes of each part."""

        def source(number: int) -> Callable[[], R]:
            return lambda: self._call(number, work, shared, each)

        return LocalPartitions([source(number) for number in range(len(self))])

    def reduce(self, work: Callable[..., R], *shared: Any, merge: Callable[[R, R], R], groups: int = 1) -> list[R]:
        """Merge one group after the other."""
        bounds = group_bounds(len(self), groups)
        return [
            merge_tree(lambda number: self._call(number, work, shared, None), merge, first, end)
            for first, end in pairwise(bounds)
        ]

    def threads(self, n_jobs: int | None) -> int | None:
        """Return as many as asked for: parts are worked on one after the other."""
        return n_jobs
