"""Sums of hinges over the pairs of documents of given queries."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marginrank.losses.base import PreparedLoss
from marginrank.losses.oracles.base import index_dtype
from marginrank.losses.oracles.grade_levels import Levels
from marginrank.losses.torch.base import TorchLoss
from marginrank.losses.torch.pair_hinges import TorchPairHinges
from marginrank.runtime.threads import PerThread
from marginrank.runtime.torch_device import Device
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

NO_WEIGHTS: Final = np.zeros((0, 0))
#: Sorting and sweeping a list takes as long as looping over this many pairs for each of its documents.
PAIRS_PER_DOCUMENT: Final = 160


class Hinges(NamedTuple):
    """Hinges over pairs, as the kernel takes them.

    Args:
        heights: By level; height(better) − height(worse) is added to the margin of a pair of levels.
        kinds: The row and column of ``weights`` for each level.
        weights: The weight of pairs by kind of the better and of the worse level; empty if all pairs weigh 1.
        scales: By query.
        margins: By how much the better document should score higher, by query.
        squared: Whether the hinges are squared.
    """

    heights: FloatArray
    kinds: IntArray
    weights: FloatArray
    scales: FloatArray
    margins: FloatArray
    squared: bool


class MergedLevels(NamedTuple):
    """Scores less heights, and documents, by place: buffers in which the kernel merges levels."""

    scores: FloatArray
    documents: AnyArray


class PairBuffers(NamedTuple):
    """The documents by place, and buffers of the kernel.

    Args:
        short: Queries with so few pairs that the kernel loops over them.
        documents: By place; those of the other queries as they were last sorted.
        levels: By document.
        sorted_scores: By place, for the other queries.
        merged_scores: Likewise, for `MergedLevels`.
        merged_documents: Likewise.
        scores: Buffer of the length of the longest list, as all that follow.
        direction: A direction of the scores.
        gradient: Gradient with respect to the scores.
        spare_scores: For merging.
        spare_documents: For merging.
        level_offsets: For merging.
    """

    short: BoolArray
    documents: AnyArray
    levels: AnyArray
    sorted_scores: FloatArray
    merged_scores: FloatArray
    merged_documents: AnyArray
    scores: FloatArray
    direction: FloatArray
    gradient: FloatArray
    spare_scores: FloatArray
    spare_documents: AnyArray
    level_offsets: IntArray


class PreparedPairs(PreparedLoss):
    """Hinges over the pairs of documents of given queries."""

    def __init__(self, levels: Levels, hinges: Hinges) -> None:
        from marginrank.losses.pair_hinges_kernel import short_lists  # noqa: PLC0415

        self._kernels = [short_lists]
        self.offsets = levels.queries
        self.active = levels.ordered
        self.levels = levels
        self._hinges = hinges
        self._layout, self._hinge_arrays = tuple(levels.layout), tuple(hinges)
        self._xi = np.empty(len(levels.ordered))
        n, longest = len(levels.documents), levels.longest
        short, dtype = levels.pairs <= PAIRS_PER_DOCUMENT * levels.lengths, index_dtype(n)
        by_place = 0 if short.all() else n
        if by_place:
            from marginrank.losses.pair_hinges_kernel import long_lists  # noqa: PLC0415

            self._kernels.append(long_lists)
        self._lists = (
            short, levels.documents.astype(dtype), levels.of_document.astype(dtype), np.empty(by_place),
            np.empty(by_place), np.empty(by_place, dtype),
        )  # fmt: skip
        self._buffers = PerThread(
            lambda: (*np.empty((4, longest)), np.empty(longest, dtype), np.empty(levels.most + 1, np.int64))
        )

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Write the slacks of queries ``first`` to ``end`` and their gradient with respect to the scores."""
        self._call(scores, None, xi, gradient, first, end)

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:
        """Write the generalized Hessian of queries ``first`` to ``end`` at the scores, times the direction."""
        if not self._hinges.squared:
            super().curve(scores, direction, product, first, end)
        self._call(scores, direction, self._xi, product, first, end)

    def torch_loss(self, device: Device) -> TorchLoss | None:
        """Return the same loss for scores on a PyTorch device; None if it is computed with NumPy alone."""
        hinges = self._hinges
        if len(hinges.weights):
            return None
        return TorchPairHinges.of(device, self.levels, hinges.heights, hinges.margins, hinges.scales, hinges.squared)

    def diagonal(self, scores: FloatArray) -> FloatArray:
        """Return the diagonal of the generalized Hessian at the scores."""
        # Documents of a level are in no pair together, so the product with its indicator is their part of the diagonal.
        if not self._hinges.squared:
            super().diagonal(scores)
        counts, starts = self.levels.counts, np.repeat(self.levels.of_query[:-1], self.levels.counts)
        rank = np.arange(len(starts)) - starts
        level = np.empty(len(scores), dtype=np.int64)
        level[self.levels.documents] = np.repeat(rank, np.diff(self.levels.offsets))
        diagonal, product = np.zeros(len(scores)), np.empty(len(scores))
        for number in range(int(counts.max(initial=0))):
            self.curve(scores, (level == number).astype(np.float64), product, 0, len(counts))
            np.copyto(diagonal, product, where=level == number)
        return diagonal

    def _call(
        self, scores: FloatArray, direction: FloatArray | None, xi: FloatArray, out: FloatArray, first: int, end: int
    ) -> None:
        work = (*self._lists, *self._buffers())
        for kernel in self._kernels:
            kernel(scores, self._layout, self._hinge_arrays, work, direction, (xi, out), first, end)
