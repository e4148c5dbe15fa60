"""A pass over features in the memory of a device: scores, losses and slopes are computed there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.losses.torch.base import DeviceLoss
from marginrank.runtime.torch_device import CudaGraph
from marginrank.scorers.base import PreparedScorer, RowsOnDevice
from marginrank.solvers.problem import Segment
from marginrank.training.risk import RankingRisk
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class GpuPass:
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
    def _evaluated(self) -> CudaGraph:
        loss, rows, sums = self.loss, self.rows, self._sums
        segments, weights = loss.device.segments(self.firsts), loss.device.tensor(self.weights)

        def evaluate(table: Any) -> tuple[Any, Any]:
            xi, slopes = loss(rows.product(table))
            return segments.sum(weights * xi), sums(slopes)

        return CudaGraph(loss.device, evaluate)

    @cached_property
    def _curved(self) -> CudaGraph:
        loss, rows, sums = self.loss, self.rows, self._sums
        return CudaGraph(
            loss.device,
            lambda table, direction: (sums(loss.curve(rows.product(table), rows.product(direction))),),
        )

    @cached_property
    def _sums(self) -> Any:
        """What pulls slopes of documents back to the table. It does not know the pass, whose memory ends with it."""
        rows, parts = self.rows, self.rows.parts(self.loss.offsets[self.firsts])
        shares = self.loss.device.tensor(np.repeat(self.weights, np.diff(self.loss.offsets)))
        return lambda slopes: rows.sums(slopes * shares, parts)


class GpuRisk(RankingRisk):
    """The same risk with features on a device: where the loss has kernels for it, all but blocks is computed there.

    Args:
        scorer: A scorer with its rows on a device.
        rows: These rows.
        loss: The loss.
        n_jobs: Number of threads, for what is computed on the CPU.
        center: Where the regulariser is minimal; 0 by default.
    """

    def __init__(
        self,
        scorer: PreparedScorer,
        rows: RowsOnDevice,
        loss: Loss,
        n_jobs: int | None = None,
        center: FloatArray | None = None,
    ) -> None:
        super().__init__(scorer, loss, n_jobs, center)
        self._device_rows = rows
        there = self.loss.on_device(rows.device) if rows.device.runs_kernels else None
        firsts = np.array([*(self._chunks[start][0] for start in self._part_starts), len(self.queries)])
        self._there = None if there is None else GpuPass(rows, there, self.weights, firsts)

    def _with_loss(self, loss: Loss) -> GpuRisk:
        return GpuRisk(self.scorer, self._device_rows, loss, self._n_jobs, self.center)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return risk and gradient at θ."""
        if self._there is None:
            return super().__call__(theta)
        values, slopes = self.parts(theta)
        return float(values.sum()), slopes.sum(axis=0)

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient at θ in a fixed number of parts, which add up to them."""
        if self._there is None:
            return super().parts(theta)
        values, cells = self._there.parts(self.scorer.table(self._check(theta)))
        gradients = self.scorer.gradient(cells)
        if not np.isfinite(gradients).all():
            raise DataError("scores of some documents are not finite; their features are missing, or w is too large")
        return values, gradients

    def line(self, start: FloatArray, end: FloatArray) -> Segment | None:  # noqa: ARG002
        """Return None: on a device reading features is quick."""
        return None

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian of the risk at θ times a direction; for losses that have one."""
        if self._there is None:
            return super().hessian_product(theta, direction)
        tables = (self.scorer.table(self._check(at)) for at in (theta, direction))
        return np.asarray(self.scorer.gradient(self._there.curve(*tables)).sum(axis=0))
