"""Documents sorted by score, kept from one evaluation to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.losses.oracles.levels import Levels
from marginrank.losses.oracles.problem import Sorted
from marginrank.threads import PerThread
from marginrank.typing import FloatArray, IntArray


class Order(NamedTuple):
    """The level of each document, and the documents by score as they were last sorted."""

    levels: IntArray
    documents: IntArray


class Sorter:
    """Sort the documents of queries by score, inside their levels and all together.

    The order changes little from one evaluation to the next, so each sort begins with the last order.
    """

    def __init__(self, levels: Levels) -> None:
        from marginrank.losses.oracles.sorting_kernel import sort_queries  # noqa: PLC0415

        n = len(levels.documents)
        self._sort = sort_queries
        self._layout = tuple(levels.layout)
        self._order = tuple(Order(levels.of_document, np.arange(n)))
        self.sorted = Sorted.empty(n)
        self._out = tuple(self.sorted)
        longest = levels.longest
        self._room = PerThread(
            lambda: (np.empty(longest), np.empty(longest), np.empty(longest, np.int64), np.empty(longest, np.int64))
        )

    @property
    def documents(self) -> IntArray:
        """Document at each place."""
        return self.sorted.documents

    def sort(self, scores: FloatArray, first: int, end: int) -> Sorted:
        """Sort queries ``first`` to ``end``; threads may sort different queries at the same time."""
        self._sort(scores, self._layout, self._order, self._room(), self._out, first, end)
        return self.sorted
