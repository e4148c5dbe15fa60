"""Features that are kept in the memory of a device of PyTorch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np

from marginrank.devices import Device, import_torch
from marginrank.errors import DataError
from marginrank.sparse import sp
from marginrank.typing import Features, FloatArray, IntArray

#: Rows that are copied to a device together.
_ROWS: Final = 1 << 18


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
        self.device = Device.find(torch, device)
        try:
            self._X = torch.empty(X.shape, dtype=torch.float64, device=self.device.device)
        except torch.OutOfMemoryError:
            raise DataError(
                f"{X.shape[0]:,} documents of {X.shape[1]:,} features in float64 do not fit into the memory of "
                f"{self.device.device}; leave out device"
            ) from None
        for start, stop in pairwise([*range(0, len(X), _ROWS), len(X)]):
            self._X[start:stop] = torch.from_numpy(np.array(X[start:stop])).to(self.device.device)
        self.n_bytes = 8 * X.shape[0] * X.shape[1]

    def empty(self, n: int) -> FloatArray:
        """Make room for numbers in memory that the device reads and writes without a copy in between."""
        torch, device = self.device
        room: FloatArray = torch.empty(n, dtype=torch.float64, pin_memory=device.type == "cuda").numpy()
        return room

    def product(self, weights: FloatArray) -> Any:
        """Return X·w for all rows, on the device."""
        return self.device.torch.mv(self._X, self.device.tensor(weights))

    def sums(self, slopes: Any, bounds: IntArray) -> FloatArray:
        """Return Σ slope·row for each run of rows, given slopes on the device and where the runs begin and end."""
        torch = self.device.torch
        parts = [torch.mv(self._X[start:stop].T, slopes[start:stop]) for start, stop in pairwise(bounds.tolist())]
        total: FloatArray = torch.stack(parts).cpu().numpy()
        return total

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        product = self.device.torch.mv(self._X[start:stop], self.device.tensor(weights))
        self.device.torch.from_numpy(scores[start:stop]).copy_(product)

    def pull_back(self, slopes: FloatArray, out: FloatArray, start: int, stop: int) -> None:
        """Add Σ slope·row over the rows from ``start`` to ``stop``."""
        part = self.device.tensor(slopes[start:stop])
        out += self.device.torch.mv(self._X[start:stop].T, part).cpu().numpy()
