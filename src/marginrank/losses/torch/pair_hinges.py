"""Sums of hinges over pairs of documents in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from marginrank.losses.oracles.grade_levels import Levels
from marginrank.losses.torch.base import QuerySubset, TorchLoss
from marginrank.runtime.torch_device import Device, Segments
from marginrank.typing import FloatArray


class _Split(NamedTuple):
    """Groups of documents, each in two classes whose pairs are summed.

    Args:
        groups: Group of each document.
        worse: Whether each document is of the worse class.
        arranged: The documents by group, better ones first.
        segments: The documents of each group.
    """

    groups: Any
    worse: Any
    arranged: Any
    segments: Segments


@dataclass(frozen=True, eq=False)
class TorchPairHinges(TorchLoss):
    """Hinges of pairs of documents of different level: ξ = scale · Σ max(0, margin − (v_i − v_j))^power.

    The highest bit in which the levels of two documents differ tells a pair of two levels from others: for each bit,
    documents whose levels have the same higher bits are a group, and a document of the better class is in a pair inside
    the margin with all worse ones that come before it once v − margin of the better class and v of the worse one are
    sorted. A query of n documents of L levels takes O(n log n log L).

    Args:
        device: The device.
        offsets: Start of each query, and end of the last.
        levels: Level of each document, the best being 0.
        heights: What is taken from each score to give v.
        margins: Margin of each query.
        scales: Scale of each query.
        n_bits: Bits of the levels.
        squared: Whether the hinges are squared.
    """

    levels: Any
    heights: Any
    margins: Any
    scales: Any
    n_bits: int
    squared: bool

    @classmethod
    def of(
        cls,
        device: Device,
        levels: Levels,
        heights: FloatArray,
        margins: FloatArray,
        scales: FloatArray,
        squared: bool = False,
    ) -> Self:
        """Copy to the device what is given by level and by query."""
        level = levels.of_document
        by_document = heights[np.repeat(levels.of_query[:-1], levels.lengths) + level]
        return cls(
            device,
            levels.queries,
            levels=device.tensor(level),
            heights=device.tensor(by_document),
            margins=device.tensor(margins),
            scales=device.tensor(scales),
            n_bits=(levels.most - 1).bit_length(),
            squared=squared,
        )

    def take(self, subset: QuerySubset) -> Self:
        """Return the loss of some of the queries."""
        queries, documents, offsets = subset
        by_document = self.levels[documents], self.heights[documents]
        by_query = self.margins[queries], self.scales[queries]
        return type(self)(self.device, offsets, *by_document, *by_query, self.n_bits, self.squared)

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        torch, query = self.device.torch, self.segments.numbers
        values, margins, scales = self._values(scores), self.margins[query], self.scales[query]
        terms, gradient = torch.zeros_like(scores), torch.zeros_like(scores)
        for split in self._splits:
            order = self._sort(values, split)
            # What a document is short of the margin, summed over its pairs; of hinges that are not squared, the pairs.
            short = self._sum_opposite(torch.ones_like(split.groups), split, order)
            if self.squared:
                others = self._sum_opposite(values, split, order)
                short = short * margins + torch.where(split.worse, short * values - others, others - short * values)
            terms += torch.where(split.worse, 0.0, margins * short)
            gradient += torch.where(split.worse, short, -short)
        xi = self.segments.sum(scales * (terms + gradient * values)).clamp_(min=0.0)
        return xi, scales * (2.0 * gradient if self.squared else gradient)

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the generalized Hessian at the scores times a direction."""
        torch, product, values = self.device.torch, self.device.torch.zeros_like(scores), self._values(scores)
        for split in self._splits:
            order = self._sort(values, split)
            n_pairs = self._sum_opposite(torch.ones_like(split.groups), split, order)
            product += n_pairs * direction - self._sum_opposite(direction, split, order)
        return 2.0 * self.scales[self.segments.numbers] * product

    def _values(self, scores: Any) -> Any:
        """Return v of each document, less the maximum of the query: differences count, and large sums lose digits."""
        values = scores - self.heights
        return values - self.segments.max(values)[self.segments.numbers]

    def _sort(self, values: Any, split: _Split) -> Any:
        margins = self.margins[self.segments.numbers]
        return self.sort(values - self.device.torch.where(split.worse, 0.0, margins), split.groups, split.arranged)

    def _sum_opposite(self, values: Any, split: _Split, order: Any) -> Any:
        """Return the sum of values over the documents with which each document is in a pair inside the margin."""
        segments, worse = split.segments, split.worse[order]
        running_sum = segments.running_sum if values.is_floating_point() else segments.running_count
        ordered = values[order]
        before, up_to = running_sum(ordered * worse), running_sum(ordered * ~worse)
        after = up_to[segments.offsets[1:][segments.numbers] - 1] - up_to
        sums = self.device.torch.empty_like(values)
        sums[order] = self.device.torch.where(worse, after, before)
        return sums

    @cached_property
    def _splits(self) -> list[_Split]:
        return [self._split(bit) for bit in range(self.n_bits)]

    def _split(self, bit: int) -> _Split:
        torch, classes = self.device.torch, self.levels >> bit
        groups = (self.segments.numbers << (self.n_bits - bit)) + (classes >> 1)
        lengths = torch.bincount(groups, minlength=1)
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        arranged = torch.sort(2 * groups + classes % 2, stable=True).indices
        return _Split(groups, classes % 2 == 1, arranged, Segments(torch, offsets, len(groups)))
