"""Dense features in the memory of a PyTorch device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.runtime.mapped_arrays import for_each_block
from marginrank.runtime.torch_device import Device
from marginrank.typing import AnyArray, FloatArray

#: Rows that are converted to float64 together.
BLOCK_ROWS: Final = 1 << 18


class DeviceFeatures:
    """Dense features in the memory of a PyTorch device; NumPy reads them as an array.

    Code for arrays works with them as it is: what it reads is copied from the device, unless the array that they were
    copied from is known. Checks, moments, scaling and products are computed on the device, in float64.

    Args:
        values: A tensor of documents × features.
        source: The array that they were copied from, if any.
    """

    def __init__(self, values: Any, source: AnyArray | None = None) -> None:
        self.values, self.source = values.detach(), source

    @property
    def device(self) -> Device:
        """The device."""
        return Device(sys.modules["torch"], self.values.device)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of documents, and of features."""
        return tuple(self.values.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.values.ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type, as NumPy calls it."""
        return np.dtype(str(self.values.dtype).removeprefix("torch."))

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.values.nbytes)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, selected: Any) -> DeviceFeatures:
        source = self.source[selected] if isinstance(selected, slice) and self.source is not None else None
        return DeviceFeatures(self.values[selected], source)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        if self.source is not None:
            array = self.source
        else:
            torch, device = self.device
            # Copies to pinned memory are several times as fast.
            pinned = torch.empty(self.shape, dtype=self.values.dtype, pin_memory=device.type == "cuda")
            array = pinned.copy_(self.values).numpy()
        return np.array(array, dtype=dtype, copy=copy)

    def blocks(self) -> Iterator[Any]:
        """Yield the rows as tensors of float64, some at a time."""
        return (rows.double() for rows in self.values.split(BLOCK_ROWS))

    def is_finite(self, allow_nan: bool) -> bool:
        """Return whether no value is infinite or, unless that is allowed, NaN."""
        blocks = [(~rows.isinf() if allow_nan else rows.isfinite()).all() for rows in self.values.split(BLOCK_ROWS)]
        return all(bool(finite) for finite in blocks)

    def filled(self, fill: FloatArray) -> DeviceFeatures:
        """Return the same features with NaN replaced by the value of the column."""
        torch, _ = self.device
        values = self.device.tensor(fill).to(self.values)
        return DeviceFeatures(torch.where(self.values.isnan(), values, self.values))

    def moments(self, origin: FloatArray, unit: FloatArray | None = None) -> tuple[AnyArray, ...]:
        """Return count, sum, sum of squares and of magnitudes of ``(X - origin) / unit``, by column, without NaN."""
        start, divisor = map(self.device.tensor, (origin, np.ones(len(origin)) if unit is None else unit))
        sums = self.values.new_zeros((4, len(origin)), dtype=start.dtype)
        for rows in self.blocks():
            values = (rows - start) / divisor
            present = ~values.isnan()
            values.nan_to_num_(nan=0.0, posinf=np.inf, neginf=-np.inf)
            sums += self.device.torch.stack(
                [present.sum(0, dtype=start.dtype), values.sum(0), values.square().sum(0), values.abs().sum(0)]
            )
        return tuple(sums.cpu().numpy())

    def standardized(self, mean: FloatArray, scale: FloatArray) -> DeviceFeatures:
        """Return ``(X - mean) / scale`` in float64, and 0 if the scale is 0; NaN stays NaN."""
        torch, device = self.device
        start, varies = self.device.tensor(mean), self.device.tensor(scale > 0)
        divisor = self.device.tensor(np.where(scale > 0, scale, 1.0))
        with enough_memory(self.shape, device):
            scaled = torch.empty_like(self.values, dtype=torch.float64)
        for rows, out in zip(self.blocks(), scaled.split(BLOCK_ROWS), strict=True):
            torch.div(rows - start, divisor, out=out)
            out.masked_fill_(~(varies | rows.isnan()), 0.0)
        return DeviceFeatures(scaled)


def on_device(X: AnyArray | DeviceFeatures, device: Device) -> DeviceFeatures:
    """Return dense features on a device: themselves if they are there, otherwise a copy."""
    torch, target = device
    if isinstance(X, DeviceFeatures) and X.values.device == target:
        return X
    array: Any = X
    with enough_memory(array.shape, target):
        values = torch.empty(array.shape, dtype=getattr(torch, array.dtype.name), device=target)

    def copy(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        # While a block travels, threads read the next ones; PyTorch reuses pinned memory once its copy has ended.
        pinned = torch.empty(block.shape, dtype=values.dtype, pin_memory=target.type == "cuda")
        pinned.numpy()[...] = block
        values[rows].copy_(pinned, non_blocking=True)

    for_each_block(array, copy)
    return DeviceFeatures(values, array if isinstance(array, np.ndarray) else None)


def without_tensor(X: Any) -> Any:
    """Return a tensor of PyTorch on the CPU as an array, without a copy, and one elsewhere as `DeviceFeatures`.

    Everything else is returned as it is.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(X, torch.Tensor):
        return X
    values = X.detach() if X.dtype in (torch.float32, torch.float64) else X.detach().double()
    return values.numpy() if values.device.type == "cpu" else DeviceFeatures(values)


def to_host(values: Any) -> Any:
    """Return a tensor of PyTorch as an array; everything else as it is."""
    torch: Any = sys.modules.get("torch")
    return values.detach().cpu().numpy() if torch is not None and isinstance(values, torch.Tensor) else values


@contextmanager
def enough_memory(shape: tuple[int, ...], device: Any) -> Iterator[None]:
    """Raise an error with a fix for what did not fit into the memory of a device."""
    torch = sys.modules["torch"]
    try:
        yield
    except torch.OutOfMemoryError:
        raise DataError(
            f"{shape[0]:,} documents of {shape[1]:,} features do not fit into the memory of {device}; leave out device"
        ) from None
