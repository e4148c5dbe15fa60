"""Features on a PyTorch device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.torch_device import Device
from marginrank.typing import Features, FloatArray, IntArray

#: Rows that are copied to a device, or converted to float64, together.
_ROWS: Final = 1 << 18


class GpuFeatures:
    """Dense features on a PyTorch device; products are in float64.

    Features of float16 stay as they are and are converted in each product, some rows at a time. Others are kept in
    float64, since PyTorch has no product that reads float32 and adds up float64.

    Args:
        X: Dense features.
        device: The device.
    """

    def __init__(self, X: Features, device: Device) -> None:
        if sp.issparse(X):
            raise DataError("Linear(device=...) takes dense features, and these are sparse; leave out device")
        torch, self.device = device.torch, device
        dtype = torch.float16 if X.dtype == np.float16 else torch.float64
        try:
            self._X = torch.empty(X.shape, dtype=dtype, device=device.device)
        except torch.OutOfMemoryError:
            raise DataError(
                f"{X.shape[0]:,} documents of {X.shape[1]:,} features do not fit into the memory of "
                f"{device.device}; leave out device"
            ) from None
        for start, stop in pairwise([*range(0, len(X), _ROWS), len(X)]):
            self._X[start:stop] = torch.from_numpy(np.array(X[start:stop])).to(device.device)
        self.n_bytes = self._X.nbytes

    def empty(self, n: int) -> FloatArray:
        """Allocate memory that the device reads and writes without a copy."""
        torch, device = self.device
        array: FloatArray = torch.empty(n, dtype=torch.float64, pin_memory=device.type == "cuda").numpy()
        return array

    def scores(self, w: Any, start: int = 0, stop: int | None = None) -> Any:
        """Return X·w for the rows from ``start`` to ``stop``."""
        return self.device.torch.cat([rows.double() @ w for rows in self._X[start:stop].split(_ROWS)])

    def sums(self, gradient: Any, bounds: IntArray) -> Any:
        """Return Xᵀ·gradient for the rows between each two bounds."""
        slices = [slice(start, stop) for start, stop in pairwise(bounds.tolist())]
        return self.device.torch.stack([_sum(self._X[rows], gradient[rows]) for rows in slices])

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        self.device.torch.from_numpy(scores[start:stop]).copy_(self.scores(self.device.tensor(weights), start, stop))

    def pull_back(self, gradient: FloatArray, out: FloatArray, start: int, stop: int) -> None:
        """Add Xᵀ·gradient of the rows from ``start`` to ``stop``."""
        out += _sum(self._X[start:stop], self.device.tensor(gradient[start:stop])).cpu().numpy()


def _sum(X: Any, gradient: Any) -> Any:
    blocks = zip(X.split(_ROWS), gradient.split(_ROWS), strict=True)
    return sum(rows.double().T @ block for rows, block in blocks)
