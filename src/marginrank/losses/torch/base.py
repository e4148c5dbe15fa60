"""What a loss on a device is, and how its documents are shared out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import numpy as np

from marginrank.runtime.torch_device import Device, Segments
from marginrank.typing import IntArray

#: Documents that a program of a kernel works on, others that it meets together, and unrolled steps of that loop.
BLOCK: Final = 64
STEP: Final = 4
UNROLL: Final = 2
#: Warps of such a program, the quickest on one H200.
WARPS: Final = 2
#: Documents that a program sorts, with one warp.
SORTED: Final = 128


class Chosen(NamedTuple):
    """Some of the queries of a loss: their numbers, their documents, and where each begins among these."""

    queries: Any
    documents: Any
    offsets: IntArray


@dataclass(frozen=True, eq=False)
class DeviceLoss(ABC):
    """A loss of given queries, as a function of scores on a device; all numbers are float64.

    Args:
        device: The device.
        offsets: Where each query begins and the last ends.
    """

    device: Device
    offsets: IntArray

    @abstractmethod
    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the generalised Hessian at the scores times a direction, for smooth losses."""
        raise NotImplementedError

    @abstractmethod
    def take(self, chosen: Chosen) -> Self:
        """Return the loss of some of the queries."""

    @cached_property
    def segments(self) -> Segments:
        """Sums over the documents of each query."""
        return self.device.segments(self.offsets)

    def tiles(self, first: IntArray, end: IntArray, block: int = BLOCK) -> Tiles:
        """Cut a run of documents of each query into tiles of at most so many, one for each program of a kernel."""
        counts = -(-(end - first) // block)
        query = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Tiles(len(query), self.device.tensor(query), self.device.tensor(first[query] + block * number))


class Tiles(NamedTuple):
    """Tiles of documents: how many, the query of each, and where each begins."""

    n_tiles: int
    queries: Any
    starts: Any
