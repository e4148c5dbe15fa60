"""Two levels under φpo on a device: every irrelevant document is placed on its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from marginrank.losses.oracles.base import CreditShares
from marginrank.losses.oracles.grade_levels import Levels
from marginrank.losses.torch.base import BLOCK, SORTED, STEP, UNROLL, WARPS, Chosen, DeviceLoss, Tiles
from marginrank.runtime.torch_device import Device
from marginrank.typing import IntArray


@dataclass(frozen=True, eq=False)
class DeviceInterleaving(DeviceLoss):
    """The structured hinge of measures like AP, whose credits are a share times a convex discount.

    Args:
        device: The device.
        offsets: Where each query begins and the last ends.
        n_relevant: Relevant documents of each query; −1 where it has no others, or none.
        levels: 0 for relevant documents, 1 for the others.
        shares: Share of the documents, relevant ones first.
        discounts: Discount of each rank.
        scales: Scale of φpo, by query.
    """

    n_relevant: IntArray
    levels: Any
    shares: Any
    discounts: Any
    scales: Any

    @classmethod
    def of(cls, device: Device, levels: Levels, placement: CreditShares) -> Self:
        """Copy to the device what is given by document and by query."""
        first = levels.of_query[:-1]
        sizes = np.append(np.diff(levels.offsets), 0)
        n_relevant = np.where(levels.ordered, sizes[first], -1)
        level = device.tensor(levels.of_document.astype(np.int32))
        parts = map(device.tensor, (placement.shares, placement.discounts, placement.scales))
        return cls(device, levels.queries, n_relevant, level, *parts)

    def take(self, chosen: Chosen) -> Self:
        """Return the loss of some of the queries."""
        queries, documents, offsets = chosen
        n_relevant, scales = self.n_relevant[queries.cpu().numpy()], self.scales[queries]
        levels, shares = self.levels[documents], self.shares[documents]
        return type(self)(self.device, offsets, n_relevant, levels, shares, self.discounts, scales)

    @cached_property
    def _ends(self) -> IntArray:
        """Where the relevant documents of each query end; where it begins, if it does not count."""
        return self.offsets[:-1] + np.maximum(self.n_relevant, 0)

    @cached_property
    def _ends_there(self) -> Any:
        return self.device.tensor(self._ends)

    @cached_property
    def _tiles(self) -> tuple[Tiles, Tiles, Tiles]:
        """Tiles of all documents, and of the relevant ones and the others of queries that count."""
        first, ends = self.offsets[:-1], self._ends
        stop = np.where(self.n_relevant < 0, first, self.offsets[1:])
        everything = self.tiles(first, self.offsets[1:], SORTED)
        return everything, self.tiles(first, ends), self.tiles(ends, stop)

    @cached_property
    def _firsts(self) -> Any:
        """Where the level of each document begins."""
        lengths = self.device.tensor(np.diff(self.offsets))
        bounds = self.device.tensor(np.stack([self.offsets[:-1], self._ends]))
        repeated = self.device.torch.repeat_interleave(bounds, lengths, dim=1, output_size=int(self.offsets[-1]))
        return self.device.torch.where(self.levels == 0, repeated[0], repeated[1])

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        from marginrank.losses.torch import pair_hinges_triton as kernels  # noqa: PLC0415

        torch, (everything, relevant, others) = self.device.torch, self._tiles
        offsets, ends = self.segments.offsets, self._ends_there
        values, terms, slopes = torch.empty_like(scores), torch.zeros_like(scores), torch.zeros_like(scores)
        documents, before = torch.empty_like(self._firsts), torch.empty_like(self.levels)
        kernels.sort_levels[(everything.n_tiles,)](
            scores, self.levels, offsets, self._firsts, everything.queries, everything.starts, values, documents,
            before, values, before, RANKS=False, WIDTH=1, BLOCK=SORTED, STEP=STEP, UNROLL=UNROLL, num_warps=1,
        )  # fmt: skip
        problem = (self.shares, self.discounts, self.scales, documents, before, slopes, terms)
        kernels.place_irrelevant[(others.n_tiles,)](
            values, offsets, ends, others.queries, others.starts, *problem, BLOCK=BLOCK, UNROLL=UNROLL, num_warps=1
        )
        kernels.place_relevant[(relevant.n_tiles,)](
            values, offsets, ends, relevant.queries, relevant.starts, *problem, BLOCK=BLOCK, STEP=STEP, UNROLL=UNROLL,
            num_warps=WARPS,
        )  # fmt: skip
        return self.segments.sum(terms).clamp_(min=0.0), slopes
