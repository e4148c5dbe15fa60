"""Hinges over pairs on a device."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from marginrank.devices import Device
from marginrank.losses.on_device.base import BLOCK, DeviceLoss, Tiles
from marginrank.losses.oracles.levels import Levels
from marginrank.typing import FloatArray

_STEP: Final = 32


class DevicePairs(DeviceLoss):
    """Hinges of pairs of documents of different level: ξ = scale · Σ max(0, margin − (v_i − v_j))^power.

    Args:
        device: The device.
        levels: The documents by level.
        heights: What is taken from the scores of each level to give v.
        margins: Margin of each query.
        scales: Scale of each query.
        squared: Whether the hinges are squared.
    """

    def __init__(
        self,
        device: Device,
        levels: Levels,
        heights: FloatArray,
        margins: FloatArray,
        scales: FloatArray,
        squared: bool,
    ) -> None:
        of_document = levels.of_document
        query = np.repeat(np.arange(len(levels.counts)), levels.lengths)
        by_document = heights[levels.of_query[:-1][query] + of_document]
        self._heights = device.tensor(by_document) if by_document.any() else None
        self._levels, self._offsets = device.tensor(of_document), device.tensor(levels.queries)
        self._margins, self._scales = device.tensor(margins), device.tensor(scales)
        self._squared, self._tiles = squared, Tiles(device, levels.queries)
        self._segments, self._empty = device.segments(levels.queries), device.torch.empty_like

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        xi, slopes = self._empty(scores), self._empty(scores)
        self._run(scores, scores, xi, slopes, curve=False)
        return self._segments.sum(xi), slopes

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the generalised Hessian at the scores times a direction."""
        product = self._empty(scores)
        self._run(scores, direction, scores, product, curve=True)
        return product

    def _run(self, scores: Any, direction: Any, xi: Any, slopes: Any, *, curve: bool) -> None:
        from marginrank.losses.on_device.kernels import hinges  # noqa: PLC0415

        values, tiles = scores if self._heights is None else scores - self._heights, self._tiles
        hinges[(tiles.count,)](
            values, self._levels, self._offsets, tiles.queries, tiles.starts, self._margins, self._scales, direction,
            xi, slopes, SQUARED=self._squared, CURVE=curve, BLOCK=BLOCK, STEP=_STEP,
        )  # fmt: skip
