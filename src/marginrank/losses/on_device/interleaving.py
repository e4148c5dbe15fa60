"""Two levels under φpo on a device: every irrelevant document is placed on its own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from marginrank.devices import Device
from marginrank.losses.on_device.base import BLOCK, DeviceLoss, Tiles
from marginrank.losses.oracles.levels import Levels
from marginrank.losses.oracles.problem import Placement

_STEP: Final = 32


class DeviceInterleaving(DeviceLoss):
    """The structured hinge of measures like AP, whose credits are a share times a convex discount.

    Args:
        device: The device.
        levels: The documents by level.
        placement: Shares, discounts and scales.
    """

    def __init__(self, device: Device, levels: Levels, placement: Placement) -> None:
        offsets, active = levels.queries, levels.ordered
        ends = levels.offsets[levels.of_query[:-1] + np.minimum(levels.counts, 1)]
        of_document = levels.of_document
        query = np.repeat(np.arange(len(active)), levels.lengths)
        firsts = levels.offsets[levels.of_query[:-1][query] + of_document]
        self._levels, self._firsts = device.tensor(of_document), device.tensor(firsts)
        self._offsets, self._ends = device.tensor(offsets), device.tensor(ends)
        self._shares, self._discounts, self._scales = map(device.tensor, placement)
        # Queries without an order have no tiles, and slopes that stay 0.
        relevant_end, irrelevant_end = np.where(active, ends, offsets[:-1]), np.where(active, offsets[1:], ends)
        self._all = Tiles(device, offsets)
        self._relevant = Tiles(device, offsets, end=relevant_end)
        self._irrelevant = Tiles(device, offsets, first=ends, end=irrelevant_end)
        self._segments, self._torch = device.segments(offsets), device.torch

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        from marginrank.losses.on_device import kernels  # noqa: PLC0415

        values, documents, before = (self._torch.empty_like(part) for part in (scores, self._levels, self._levels))
        tiles = self._all
        kernels.sort_levels[(tiles.count,)](
            scores, self._levels, self._offsets, self._firsts, tiles.queries, tiles.starts, values, documents,
            BLOCK=BLOCK, STEP=_STEP,
        )  # fmt: skip
        slopes, terms = self._torch.zeros_like(scores), self._torch.zeros_like(scores)
        problem = (self._shares, self._discounts, self._scales, before, slopes, terms)
        tiles = self._irrelevant
        kernels.place_irrelevant[(tiles.count,)](
            values, self._offsets, self._ends, tiles.queries, tiles.starts, *problem, BLOCK=BLOCK
        )
        tiles = self._relevant
        kernels.place_relevant[(tiles.count,)](
            values, self._offsets, self._ends, tiles.queries, tiles.starts, *problem, BLOCK=BLOCK, STEP=_STEP
        )
        by_document = self._torch.empty_like(slopes)
        by_document[documents] = slopes
        return self._segments.sum(terms).clamp_(min=0.0), by_document
