"""What a loss on a device is, and how its documents are shared out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np

from marginrank.devices import Device
from marginrank.typing import IntArray

#: Documents that a program of a kernel works on.
BLOCK: Final = 64


class DeviceLoss(ABC):
    """A loss of given queries, as a function of scores on a device; all numbers are float64."""

    @abstractmethod
    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the generalised Hessian at the scores times a direction, for smooth losses."""
        raise NotImplementedError


class Tiles:
    """Queries cut into tiles of at most `BLOCK` documents, one for each program of a kernel.

    Args:
        device: The device.
        offsets: Where each query begins and the last ends.
        first: Where the tiles of each query begin; where the query begins, by default.
        end: Where they end.
    """

    def __init__(
        self, device: Device, offsets: IntArray, first: IntArray | None = None, end: IntArray | None = None
    ) -> None:
        first, end = (offsets[:-1] if first is None else first), (offsets[1:] if end is None else end)
        counts = -(-(end - first) // BLOCK)
        query = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.queries, self.starts = device.tensor(query), device.tensor(first[query] + BLOCK * number)
        self.count = len(query)
