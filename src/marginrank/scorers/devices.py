"""Devices of PyTorch, and features that are kept in their memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.sparse import sp
from marginrank.typing import Features, FloatArray

#: Rows that are copied to a device together.
_ROWS: Final = 1 << 18


def import_torch(what: str) -> Any:
    """Import PyTorch, or say which extra brings it."""
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"{what} needs PyTorch: pip install 'marginrank[neural]'") from None
    return torch


def find_device(torch: Any, name: str) -> Any:
    """Return a device by its name; ``auto`` is CUDA where there is any, and the CPU elsewhere."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(f"device is {name!r}, which PyTorch cannot use ({why}); choose 'auto' or 'cpu'") from None
    return device


class DeviceRows:
    """Features in the memory of a device, in float64, multiplied by weights and by slopes there.

    Args:
        X: Dense features.
        device: Device of PyTorch, or ``auto``.
    """

    def __init__(self, X: Features, device: str) -> None:
        if sp.issparse(X):
            raise DataError(f"Linear(device={device!r}) takes dense features, and these are sparse; leave out device")
        torch = import_torch("Linear(device=...)")
        self._torch, self._device = torch, find_device(torch, device)
        try:
            self._X = torch.empty(X.shape, dtype=torch.float64, device=self._device)
        except torch.OutOfMemoryError:
            raise DataError(
                f"{X.shape[0]:,} documents of {X.shape[1]:,} features in float64 do not fit into the memory of "
                f"{self._device}; leave out device"
            ) from None
        for start, stop in pairwise([*range(0, len(X), _ROWS), len(X)]):
            self._X[start:stop] = torch.from_numpy(np.array(X[start:stop]))
        self.n_bytes = 8 * X.shape[0] * X.shape[1]

    def empty(self, n: int) -> FloatArray:
        """Make room for numbers in memory that the device reads and writes without a copy in between."""
        pinned = self._device.type == "cuda"
        room: FloatArray = self._torch.empty(n, dtype=self._torch.float64, pin_memory=pinned).numpy()
        return room

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        product = self._torch.mv(self._X[start:stop], self._there(weights))
        self._torch.from_numpy(scores[start:stop]).copy_(product)

    def pull_back(self, slopes: FloatArray, out: FloatArray, start: int, stop: int) -> None:
        """Add Σ slope·row over the rows from ``start`` to ``stop``."""
        out += self._torch.mv(self._X[start:stop].T, self._there(slopes[start:stop])).cpu().numpy()

    def _there(self, numbers: FloatArray) -> Any:
        return self._torch.from_numpy(numbers).to(self._device, non_blocking=True)
