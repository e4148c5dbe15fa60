"""Hinges over pairs on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from marginrank.losses.oracles.grade_levels import Levels
from marginrank.losses.torch.base import BLOCK, STEP, UNROLL, WARPS, Chosen, DeviceLoss, Tiles
from marginrank.runtime.torch_device import Device
from marginrank.typing import FloatArray


@dataclass(frozen=True, eq=False)
class DevicePairs(DeviceLoss):
    """Hinges of pairs of documents of different level: ξ = scale · Σ max(0, margin − (v_i − v_j))^power.

    Args:
        device: The device.
        offsets: Where each query begins and the last ends.
        levels: Level of each document, the best being 0.
        heights: What is taken from each score to give v.
        margins: Margin of each query.
        scales: Scale of each query.
        squared: Whether the hinges are squared.
    """

    levels: Any
    heights: Any
    margins: Any
    scales: Any
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
        tensor = device.tensor
        of_documents = tensor(level.astype(np.int32)), tensor(by_document)
        of_queries = tensor(margins), tensor(scales)
        return cls(device, levels.queries, *of_documents, *of_queries, squared)

    def take(self, chosen: Chosen) -> Self:
        """Return the loss of some of the queries."""
        queries, documents, offsets = chosen
        levels, heights = self.levels[documents], self.heights[documents]
        margins, scales = self.margins[queries], self.scales[queries]
        return type(self)(self.device, offsets, levels, heights, margins, scales, self.squared)

    @cached_property
    def _tiles(self) -> Tiles:
        return self.tiles(self.offsets[:-1], self.offsets[1:])

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        xi, slopes = self.device.torch.empty_like(scores), self.device.torch.empty_like(scores)
        self._run(scores, scores, xi, slopes, curve=False)
        return self.segments.sum(xi), slopes

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the generalised Hessian at the scores times a direction."""
        product = self.device.torch.empty_like(scores)
        self._run(scores, direction, scores, product, curve=True)
        return product

    def _run(self, scores: Any, direction: Any, xi: Any, slopes: Any, *, curve: bool) -> None:
        from marginrank.losses.torch.pair_hinges_triton import hinges  # noqa: PLC0415

        tiles = self._tiles
        hinges[(tiles.n_tiles,)](
            scores - self.heights, self.levels, self.segments.offsets, tiles.queries, tiles.starts, self.margins,
            self.scales, direction, xi, slopes, SQUARED=self.squared, CURVE=curve, BLOCK=BLOCK, STEP=STEP,
            UNROLL=UNROLL, num_warps=WARPS,
        )  # fmt: skip
