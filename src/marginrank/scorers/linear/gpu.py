"""Products with features on a PyTorch device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from marginrank.runtime.device_features import BLOCK_ROWS, DeviceFeatures, enough_memory
from marginrank.typing import FloatArray, IntArray


class GpuFeatures:
    """Dense features on a PyTorch device; products are in float64.

    Features of float16 stay as they are and are converted in each product, some rows at a time. Others are kept in
    float64, since PyTorch has no product that reads float32 and adds up float64.

    Args:
        X: The features.
    """

    def __init__(self, X: DeviceFeatures) -> None:
        torch, self.device = X.device.torch, X.device
        with enough_memory(X.shape, self.device.device):
            self._X = X.values if X.values.dtype == torch.float16 else X.values.double()
        self.n_bytes = self._X.nbytes

    def scores(self, w: Any, start: int = 0, stop: int | None = None) -> Any:
        """Return X·w for the rows from ``start`` to ``stop``."""
        return self.device.torch.cat([rows.double() @ w for rows in self._X[start:stop].split(BLOCK_ROWS)])

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
    blocks = zip(X.split(BLOCK_ROWS), gradient.split(BLOCK_ROWS), strict=True)
    return sum(rows.double().T @ block for rows, block in blocks)
