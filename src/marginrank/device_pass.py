"""A pass over features in the memory of a device: scores, losses and slopes are computed there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from marginrank.devices import Replayed
from marginrank.losses.on_device.base import DeviceLoss
from marginrank.scorers.base import RowsOnDevice
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class DevicePass:
    """The risk of queries in parts, and its slopes by the cells of a table; parts are runs of queries.

    Args:
        rows: The features.
        loss: The loss.
        weights: Weight of each query.
        firsts: The first query of each part, and the number of queries.
    """

    rows: RowsOnDevice
    loss: DeviceLoss
    weights: FloatArray
    firsts: IntArray

    def parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the risk of each part, and its slopes."""
        risks, slopes = self._evaluated(table)
        return risks, slopes

    def curve(self, table: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian of each part times a direction."""
        return self._curved(table, direction)[0]

    @cached_property
    def _evaluated(self) -> Replayed:
        loss, rows, sums = self.loss, self.rows, self._sums
        segments, weights = loss.device.segments(self.firsts), loss.device.tensor(self.weights)

        def evaluate(table: Any) -> tuple[Any, Any]:
            xi, slopes = loss(rows.product(table))
            return segments.sum(weights * xi), sums(slopes)

        return Replayed(loss.device, evaluate)

    @cached_property
    def _curved(self) -> Replayed:
        loss, rows, sums = self.loss, self.rows, self._sums
        return Replayed(
            loss.device,
            lambda table, direction: (sums(loss.curve(rows.product(table), rows.product(direction))),),
        )

    @cached_property
    def _sums(self) -> Any:
        """What pulls slopes of documents back to the table. It does not know the pass, whose memory ends with it."""
        rows, parts = self.rows, self.rows.parts(self.loss.offsets[self.firsts])
        shares = self.loss.device.tensor(np.repeat(self.weights, np.diff(self.loss.offsets)))
        return lambda slopes: rows.sums(slopes * shares, parts)
