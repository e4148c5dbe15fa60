"""Documents sorted by score, kept from one evaluation to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.losses.oracles.levels import Levels
from marginrank.losses.oracles.problem import Sorted, numbers
from marginrank.threads import PerThread
from marginrank.typing import AnyArray, FloatArray, Step


class Order(NamedTuple):
    """The level of each document, and the documents by score as they were last sorted."""

    levels: AnyArray
    documents: AnyArray


class Sorter:
    """Sort the documents of queries by score, inside their levels and, unless that is not needed, all together.

    The order changes little from one evaluation to the next, so each sort begins with the last order.
    """

    def __init__(self, levels: Levels, *, all_together: bool = True) -> None:
        from marginrank.losses.oracles.sorting_kernel import sort_levels, sort_queries  # noqa: PLC0415

        n, longest = len(levels.documents), levels.longest
        kind = numbers(n)
        self._sort = sort_queries if all_together else sort_levels
        self._layout = tuple(levels.layout)
        own = n if all_together else 0
        self.sorted = Sorted(np.empty(n), levels.documents.astype(kind), np.empty(own, kind), np.empty(own, kind))
        self._order = tuple(Order(levels.of_document.astype(kind), np.arange(own, dtype=kind)))
        self._out = tuple(self.sorted)
        self._room = PerThread(
            lambda: (np.empty(longest), np.empty(longest), np.empty(longest, kind), np.empty(longest, kind))
        )

    @property
    def documents(self) -> AnyArray:
        """Document at each place."""
        return self.sorted.documents

    def sort(self, scores: FloatArray, first: int, end: int) -> Sorted:
        """Sort queries ``first`` to ``end``; threads may sort different queries at the same time."""
        kernel, arguments = self.step(scores)
        kernel(*arguments, first, end)
        return self.sorted

    def step(self, scores: FloatArray) -> Step:
        """Return the kernel that sorts, and what this thread gives it."""
        return self._sort, (scores, self._layout, self._order, self._room(), self._out)
