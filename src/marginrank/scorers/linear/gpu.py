"""Features that are kept in the memory of a device of PyTorch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.torch_device import Device, import_torch
from marginrank.typing import Features, FloatArray, IntArray

#: Rows that are copied to a device together.
_ROWS: Final = 1 << 18
#: Runs of rows that are added up on their own, in each part of the rows.
_RUNS: Final = 64
#: Rows and columns of the tiles of products with weights, and with slopes: the quickest on one H200.
_SCORED: Final = {"ROWS": 8, "COLUMNS": 64, "num_warps": 1}
_ADDED: Final = {"ROWS": 8, "COLUMNS": 256, "num_warps": 2}


class _Parts(NamedTuple):
    """Parts of the rows: where they begin and end, and on a device that runs kernels, where the runs of each do."""

    bounds: IntArray
    runs: Any


class DeviceRows:
    """Features in the memory of a device, multiplied by weights and by slopes there; products are in float64.

    Where the device runs kernels, features of float32 and float16 stay as they are, and a product reads less.

    Args:
        X: Dense features.
        device: Device of PyTorch, or ``auto``.
    """

    def __init__(self, X: Features, device: str) -> None:
        if sp.issparse(X):
            raise DataError(f"Linear(device={device!r}) takes dense features, and these are sparse; leave out device")
        torch = import_torch("Linear(device=...)")
        self.device = Device.find(torch, device)
        self._kernels = X.dtype in (np.float16, np.float32) and self.device.runs_kernels
        dtype = torch.float64 if not self._kernels else torch.float16 if X.dtype == np.float16 else torch.float32
        try:
            self._X = torch.empty(X.shape, dtype=dtype, device=self.device.device)
        except torch.OutOfMemoryError:
            raise DataError(
                f"{X.shape[0]:,} documents of {X.shape[1]:,} features do not fit into the memory of "
                f"{self.device.device}; leave out device"
            ) from None
        for start, stop in pairwise([*range(0, len(X), _ROWS), len(X)]):
            self._X[start:stop] = torch.from_numpy(np.array(X[start:stop])).to(self.device.device)
        self.n_bytes = self._X.nbytes

    def empty(self, n: int) -> FloatArray:
        """Make room for numbers in memory that the device reads and writes without a copy in between."""
        torch, device = self.device
        room: FloatArray = torch.empty(n, dtype=torch.float64, pin_memory=device.type == "cuda").numpy()
        return room

    def product(self, w: Any, start: int = 0, stop: int | None = None) -> Any:
        """Return X·w for the rows from ``start`` to ``stop``."""
        X = self._X[start:stop]
        if not self._kernels:
            return self.device.torch.mv(X, w)
        from marginrank.scorers.linear.gpu_triton import score_rows  # noqa: PLC0415

        n, d = X.shape
        scores = self.device.torch.empty(n, dtype=w.dtype, device=w.device)
        score_rows[(-(-n // _SCORED["ROWS"]),)](X, w, scores, n, d, **_SCORED)
        return scores

    def parts(self, bounds: IntArray) -> _Parts:
        """Prepare for sums over parts of the rows, which begin and end at the bounds."""
        ends = bounds - bounds[0]
        runs = np.linspace(ends[:-1], ends[1:], _RUNS, endpoint=False, dtype=np.int64, axis=1)
        return _Parts(bounds, self.device.tensor(np.append(runs, ends[-1])) if self._kernels else None)

    def sums(self, slopes: Any, parts: _Parts) -> Any:
        """Return Σ slope·row for each part of the rows; slopes begin with the first part."""
        torch, (bounds, runs) = self.device.torch, parts
        X, n_parts = self._X[bounds[0] : bounds[-1]], len(bounds) - 1
        if not self._kernels:
            own = pairwise((bounds - bounds[0]).tolist())
            return torch.stack([torch.mv(X[start:stop].T, slopes[start:stop]) for start, stop in own])
        from marginrank.scorers.linear.gpu_triton import add_rows  # noqa: PLC0415

        sums = torch.empty((n_parts, _RUNS, X.shape[1]), dtype=slopes.dtype, device=slopes.device)
        grid = n_parts * _RUNS, -(-X.shape[1] // _ADDED["COLUMNS"])
        add_rows[grid](X, slopes, runs, sums, X.shape[1], **_ADDED)
        return sums.sum(1)

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        self.device.torch.from_numpy(scores[start:stop]).copy_(self.product(self.device.tensor(weights), start, stop))

    def pull_back(self, slopes: FloatArray, out: FloatArray, start: int, stop: int) -> None:
        """Add Σ slope·row over the rows from ``start`` to ``stop``."""
        parts = self.parts(np.array([start, stop]))
        out += self.sums(self.device.tensor(slopes[start:stop]), parts)[0].cpu().numpy()
