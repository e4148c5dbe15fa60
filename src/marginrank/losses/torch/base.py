"""The base class of losses in PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

from marginrank.runtime.torch_device import Device, Segments
from marginrank.typing import IntArray


class QuerySubset(NamedTuple):
    """Some of the queries of a loss: their numbers, their documents, and their offsets in these."""

    queries: Any
    documents: Any
    offsets: IntArray


@dataclass(frozen=True, eq=False)
class TorchLoss(ABC):
    """A loss of given queries, as a function of scores on a PyTorch device.

    All numbers are float64. Sums of floating-point numbers have a fixed order, and sums in any order are of whole
    numbers: on one machine, the same scores give the same bits.

    Args:
        device: The device.
        offsets: Start of each query, and end of the last.
    """

    device: Device
    offsets: IntArray

    @abstractmethod
    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the generalized Hessian at the scores times a direction, for smooth losses."""
        raise NotImplementedError

    @abstractmethod
    def take(self, subset: QuerySubset) -> Self:
        """Return the loss of some of the queries."""

    @cached_property
    def segments(self) -> Segments:
        """The documents of each query."""
        return self.device.segments(self.offsets)

    def sort(self, scores: Any, segments: Any, arranged: Any) -> Any:
        """Return the documents of each segment in descending order of their scores.

        Args:
            scores: By document.
            segments: Segment of each document.
            arranged: The documents in the order of equal scores.
        """
        order = arranged[self.device.torch.sort(scores[arranged], descending=True, stable=True).indices]
        return order[self.device.torch.sort(segments[order], stable=True).indices]
