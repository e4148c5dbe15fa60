"""PyTorch devices, and segment sums on them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from marginrank.typing import AnyArray, IntArray


def import_torch(what: str) -> Any:
    """Import PyTorch, or say which extra to install."""
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"{what} needs PyTorch: pip install 'marginrank[neural]'") from None
    return torch


class Device(NamedTuple):
    """PyTorch, and one of its devices."""

    torch: Any
    device: Any

    @classmethod
    def find(cls, torch: Any, name: str) -> Device:
        """Return a device by its name; ``auto`` is CUDA if it is available, and the CPU otherwise."""
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.empty(1, device=name).device
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"device is {name!r}, which PyTorch cannot use ({reason}); choose 'auto' or 'cpu'"
            ) from None
        return cls(torch, device)

    @property
    def computes_losses(self) -> bool:
        """Whether losses are computed on the device: on a CPU, NumPy and Numba are faster; MPS has no float64."""
        return self.device.type not in ("cpu", "mps")

    def tensor(self, values: AnyArray) -> Any:
        """Copy an array to the device."""
        return self.torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)

    def segments(self, offsets: IntArray) -> Segments:
        """Prepare sums over the segments between offsets."""
        return Segments(self.torch, self.tensor(np.asarray(offsets, dtype=np.int64)), int(offsets[-1]))


def features_device(name: str | None, what: str) -> Device | None:
    """Return the device to copy features to; None if they are not copied, as for ``auto`` without CUDA."""
    if name is None:
        return None
    device = Device.find(import_torch(what), name)
    return None if name == "auto" and device.device.type == "cpu" else device


class Segments:
    """Consecutive segments of tensors, such as the documents of each query.

    Every sum of a segment has a fixed order or is exact, so results are reproducible bit for bit.

    Args:
        torch: The module.
        offsets: Start of each segment, and end of the last.
        size: Length of the tensors.
    """

    def __init__(self, torch: Any, offsets: Any, size: int) -> None:
        self.torch, self.offsets, self.size = torch, offsets, size

    @cached_property
    def numbers(self) -> Any:
        """The segment of each entry."""
        lengths = self.offsets.diff()
        return self.torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=self.size)

    @cached_property
    def starts(self) -> Any:
        """Start of the segment of each entry."""
        return self.offsets[self.numbers]

    def sum(self, values: Any) -> Any:
        """Return the sum of each segment."""
        return self.torch.segment_reduce(values, "sum", offsets=self.offsets, unsafe=True)

    def max(self, values: Any) -> Any:
        """Return the maximum of each segment; −inf for empty segments."""
        return self.torch.segment_reduce(values, "max", offsets=self.offsets, unsafe=True)

    def running_count(self, values: Any) -> Any:
        """Return the cumulative sums of integers within each segment."""
        sums = self.torch.cumsum(values, 0, dtype=self.torch.int64)
        return sums - (sums - values)[self.starts]

    def running_sum(self, values: Any) -> Any:
        """Return the cumulative sums of float64 within each segment, to float64 precision.

        Numbers are rounded to multiples of 2^-61 or less of the sum of their absolute values, which fit into 64 bits.
        Sums of integers are exact in any order, and the order in which CUDA adds up a tensor varies.
        """
        _, exponents = self.torch.frexp(self.sum(values.abs()))
        scales = self.torch.exp2((61.0 - exponents).clamp(max=1000.0).double())[self.numbers]
        return self.running_count((values * scales).round().long()) / scales
