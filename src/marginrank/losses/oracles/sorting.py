"""Documents sorted by score, kept from one evaluation to the next."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.levels import Levels
from marginrank.losses.oracles.problem import Sorted
from marginrank.typing import FloatArray, IntArray


class Sorter:
    """Sorts the documents of queries by score, inside their levels and all together.

    The order changes little from one evaluation to the next, so each sort begins with the last order.
    """

    def __init__(self, levels: Levels) -> None:
        n = len(levels.documents)
        self._levels = levels
        self._level_of = levels.of_document
        self._order = np.arange(n)
        #: Document at each place.
        self.documents: IntArray = np.empty(n, dtype=np.int64)
        self.sorted = Sorted(np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64))

    def sort(self, scores: FloatArray, first: int, end: int) -> Sorted:
        """Sort queries ``first`` to ``end``; threads may sort different queries at the same time."""
        from marginrank.losses.oracles.sorting_kernel import sort_queries  # noqa: PLC0415

        levels, found = self._levels, self.sorted
        sort_queries(
            scores, levels.queries, levels.offsets, levels.of_query, self._level_of, self._order,
            self.documents, found.scores, found.predicted, found.places, first, end,
        )  # fmt: skip
        return found
