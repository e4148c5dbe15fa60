"""The documents of queries arranged by level: what a measure can tell apart, best level first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.measures import BinaryMeasure, Measure, PositionMeasure, Rankings
from marginrank.measures.err import ERR
from marginrank.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Levels:
    """Where the documents of each level of each query are, and what a document of it gains.

    Places run over all documents: first those of the first query, its best level first. ``documents`` gives the
    document at each place. Level ℓ takes the places ``offsets[ℓ]:offsets[ℓ + 1]``, and query q has the levels
    ``of_query[q]:of_query[q + 1]``.
    """

    queries: IntArray
    documents: IntArray
    offsets: IntArray
    of_query: IntArray
    gains: FloatArray

    @property
    def of_document(self) -> IntArray:
        """Level of each document inside its query, the best being 0."""
        level = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        out = np.empty(len(self.documents), dtype=np.int64)
        out[self.documents] = level - np.repeat(self.of_query[:-1], self.lengths)
        return out

    @property
    def counts(self) -> IntArray:
        """Levels per query."""
        return np.diff(self.of_query)

    @property
    def lengths(self) -> IntArray:
        """Documents per query."""
        return np.diff(self.queries)

    @property
    def ordered(self) -> BoolArray:
        """Which queries have documents that the measure can tell apart."""
        return self.counts > 1

    @property
    def pairs(self) -> IntArray:
        """Pairs of documents of different level, per query."""
        sizes = np.diff(self.offsets)
        same = np.add.reduceat(np.append(sizes * sizes, 0), self.of_query[:-1]) if len(self.counts) else sizes
        same[self.counts == 0] = 0
        lengths = self.lengths
        return np.asarray((lengths * lengths - same) // 2)


def arrange(measure: Measure, grades: FloatArray, offsets: IntArray) -> Levels:
    """Arrange documents by what they are worth to a measure, normalised by the value of the best ranking if it is."""
    if isinstance(measure, PositionMeasure):
        rankings = Rankings(grades, offsets, grades, offsets)
        worth = measure.gains(grades, rankings.best_per_document)
        scale = measure.scales(rankings)
    elif isinstance(measure, ERR):
        worth, scale = measure.stops(grades), np.ones(len(offsets) - 1)
    elif isinstance(measure, BinaryMeasure):
        worth = (grades >= measure.threshold).astype(np.float64)
        scale = np.ones(len(offsets) - 1)
    else:
        raise TypeError(f"{measure} is neither a sum over ranks nor over relevant documents, so it has no levels")
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    documents = np.lexsort((np.arange(len(grades)), -worth, query))
    arranged = worth[documents]
    starts = np.ones(len(grades), dtype=np.bool_)
    starts[1:] = (arranged[1:] != arranged[:-1]) | (query[1:] != query[:-1])
    first = np.flatnonzero(starts)
    return Levels(
        queries=offsets,
        documents=documents,
        offsets=np.append(first, len(grades)),
        of_query=offsets_from_sizes(np.bincount(query[first], minlength=len(offsets) - 1)),
        gains=arranged[first] / np.where(scale > 0, scale, 1.0)[query[first]],
    )
