"""Devices of PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from marginrank.typing import AnyArray, IntArray


def import_torch(what: str) -> Any:
    """Import PyTorch, or say which extra brings it."""
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
        """Return a device by its name; ``auto`` is CUDA where there is any, and the CPU elsewhere."""
        if name == "auto":
            return cls(torch, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        try:
            device = torch.device(name)
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise ValueError(f"device is {name!r}, which PyTorch cannot use ({why}); choose 'auto' or 'cpu'") from None
        return cls(torch, device)

    @property
    def runs_kernels(self) -> bool:
        """Whether the kernels of losses, which are written in Triton, run there."""
        return bool(self.device.type == "cuda")

    def tensor(self, values: AnyArray) -> Any:
        """Copy an array to the device."""
        return self.torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)

    def segments(self, offsets: IntArray) -> Segments:
        """Prepare sums over runs of numbers."""
        return Segments(self.torch, self.tensor(offsets))


class Segments(NamedTuple):
    """Sums and maxima over runs of numbers on a device, such as the documents of each query."""

    torch: Any
    #: Where each run begins and the last ends.
    offsets: Any

    def sum(self, values: Any) -> Any:
        """Return the sum of each run; 0 where it is empty."""
        return self.torch.segment_reduce(values, "sum", offsets=self.offsets, unsafe=True)

    def max(self, values: Any) -> Any:
        """Return the largest number of each run."""
        return self.torch.segment_reduce(values, "max", offsets=self.offsets, unsafe=True)
