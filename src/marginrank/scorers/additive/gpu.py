"""Positions of features among thresholds that are kept in the memory of a device of PyTorch."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.torch_device import Device
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.typing import AnyArray, Features, IntArray

#: Codes that a byte holds, and parts of the way from one cell to the next.
_CODES: Final = 256
_UNIT: Final = 2.0**-24
#: Rows that a program scores, and rows of a cell that it sums together.
_ROWS: Final = 256
_SUMMED: Final = 128


class _SortedPositions(NamedTuple):
    """Rows sorted by feature, part and cell: which rows, how far each is on the way, and where cells begin."""

    order: Any
    fractions: Any
    bounds: Any
    n_parts: int


class DevicePlaces:
    """Positions of all rows in the memory of a device, four bytes for each feature and eight more for sums.

    Args:
        X: Features.
        bins: Thresholds.
        device: A device that runs kernels.
        n_jobs: Number of threads.
    """

    def __init__(self, X: Features, bins: AdditiveForm, device: Device, n_jobs: int | None = None) -> None:
        torch = device.torch
        varying = np.flatnonzero(bins.n_codes > 1)
        self.device, self._n, self._n_features = device, X.shape[0], len(varying)
        self._firsts = device.tensor(bins.first_cells[varying])
        self._n_cells = int(bins.n_codes.sum())
        #: The cell of each code, as features × codes; codes that a feature does not have get one cell too many.
        codes = np.arange(_CODES)
        cells = np.where(codes < bins.n_codes[varying, None], bins.first_cells[varying, None] + codes, self._n_cells)
        self._cells = device.tensor(cells.ravel())
        last = np.zeros(self._n_cells, dtype=np.bool_)
        last[bins.first_cells + bins.n_codes - 1] = True
        self._last = device.tensor(last)
        try:
            self._positions = torch.empty((len(varying), X.shape[0]), dtype=torch.int32, device=device.device)
        except torch.OutOfMemoryError:
            raise DataError(
                f"{X.shape[0]:,} documents of {len(varying):,} features do not fit into the memory of {device.device}; "
                "leave out device"
            ) from None
        self.n_bytes = self._positions.nbytes
        self._sorted: tuple[tuple[int, ...], _SortedPositions] | None = None

        def keep(start: int, block: AnyArray) -> None:
            own = block[:, varying].T
            # Steps are codes of one byte, without a way to the next.
            words = own.view(np.int32) if own.dtype == np.uint32 else (own.astype(np.uint32) << 24).view(np.int32)
            self._positions[:, start : start + len(block)] = torch.from_numpy(np.ascontiguousarray(words)).to(
                device.device
            )

        bins.encode_blocks(X, keep, n_jobs)

    def product(self, values: Any) -> Any:
        """Return the scores of all rows, given the value of each cell."""
        from marginrank.scorers.additive.gpu_triton import score_places  # noqa: PLC0415

        torch = self.device.torch
        following = torch.cat([values[1:], values[-1:]])
        ways = torch.where(self._last, 0.0, _UNIT * (following - values))
        scores = torch.empty(self._n, dtype=values.dtype, device=values.device)
        score_places[(-(-self._n // _ROWS),)](
            self._positions, self._firsts, values, ways, scores, self._n, self._n_features, BLOCK=_ROWS
        )
        return scores

    def sums(self, slopes: Any, rows: _SortedPositions) -> Any:
        """Return the slopes summed by cell, for each part of the rows."""
        from marginrank.scorers.additive.gpu_triton import add_places  # noqa: PLC0415

        torch, n_parts = self.device.torch, rows.n_parts
        shape = self._n_features, n_parts, _CODES
        sums, moved = (torch.empty(shape, dtype=slopes.dtype, device=slopes.device) for _ in range(2))
        add_places[(sums.numel(),)](*rows[:2], slopes, rows.bounds, sums, moved, BLOCK=_SUMMED)
        moved *= _UNIT
        sums -= moved
        sums[:, :, 1:] += moved[:, :, :-1]
        by_part = sums.permute(1, 0, 2).reshape(n_parts, -1)
        cells = torch.zeros((n_parts, self._n_cells + 1), dtype=slopes.dtype, device=slopes.device)
        cells[:, self._cells] = by_part
        return cells[:, :-1]

    def parts(self, bounds: IntArray) -> _SortedPositions:
        """Sort the rows of each part by cell, once for as long as the parts are the same."""
        key = tuple(bounds.tolist())
        if self._sorted is None or self._sorted[0] != key:
            torch, n = self.device.torch, self._n
            part = torch.bucketize(
                torch.arange(n, device=self.device.device), self.device.tensor(bounds[1:-1]), right=True
            )
            order, fractions = (torch.empty_like(self._positions) for _ in range(2))
            n_cells = _CODES * (len(bounds) - 1)
            counts = torch.empty((self._n_features, n_cells), dtype=torch.int64, device=order.device)
            for feature, positions in enumerate(self._positions):
                cell = _CODES * part + ((positions >> 24) & 0xFF)
                rows = torch.sort(cell, stable=True).indices
                order[feature], fractions[feature] = rows, positions[rows] & 0xFFFFFF
                counts[feature] = torch.bincount(cell, minlength=n_cells)
            ends = torch.cumsum(counts.ravel(), 0)
            starts = torch.cat([torch.zeros_like(ends[:1]), ends])
            self._sorted = key, _SortedPositions(order, fractions, starts, len(bounds) - 1)
        return self._sorted[1]
