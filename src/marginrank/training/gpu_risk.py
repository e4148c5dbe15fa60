"""The risk of a loss with features on a PyTorch device."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.losses.torch.base import TorchLoss
from marginrank.scorers.base import GpuRows, PreparedScorer
from marginrank.solvers.problem import Segment
from marginrank.training.risk import RankingRisk
from marginrank.typing import FloatArray, IntArray


class GpuPass:
    """A pass over features on a PyTorch device: scores, losses and gradients are computed there in float64.

    Args:
        rows: The features.
        loss: The loss.
        weights: Weight of each query.
        first_queries: The first query of each part, and the number of queries.
    """

    def __init__(self, rows: GpuRows, loss: TorchLoss, weights: FloatArray, first_queries: IntArray) -> None:
        self._rows, self._loss, self._parts = rows, loss, loss.device.segments(first_queries)
        self._bounds = loss.offsets[first_queries]
        self._weights = loss.device.tensor(weights)

    def parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the risk of each part, and its gradient with respect to the table."""
        xi, gradient = self._loss(self._scores(table))
        return _array(self._parts.sum(self._weights * xi)), self._pull_back(gradient)

    def curve(self, table: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of each part times a direction."""
        return self._pull_back(self._loss.curve(self._scores(table), self._scores(direction)))

    def _scores(self, table: FloatArray) -> Any:
        return self._rows.scores(self._loss.device.tensor(table))

    def _pull_back(self, gradient: Any) -> FloatArray:
        return _array(self._rows.sums(gradient * self._weights[self._loss.segments.numbers], self._bounds))


def _array(tensor: Any) -> FloatArray:
    values: FloatArray = tensor.cpu().numpy()
    return values


class GpuRisk(RankingRisk):
    """The risk with features on a PyTorch device; all but blocks is computed there if the loss can be.

    Values and gradients are in float64 as on the CPU, and the same each time on one machine.

    Args:
        scorer: A scorer with its rows on a device.
        rows: These rows.
        loss: The loss.
        n_jobs: Number of threads, for what is computed on the CPU.
        center: Minimizer of the regularizer; 0 by default.
    """

    def __init__(
        self,
        scorer: PreparedScorer,
        rows: GpuRows,
        loss: Loss,
        n_jobs: int | None = None,
        center: FloatArray | None = None,
    ) -> None:
        super().__init__(scorer, loss, n_jobs, center)
        self._gpu_rows, torch_loss = rows, self.loss.torch_loss(rows.device)
        first_queries = np.array([*(self._chunks[start][0] for start in self._part_starts), len(self.queries)])
        self._gpu = None if torch_loss is None else GpuPass(rows, torch_loss, self.weights, first_queries)

    def _with_loss(self, loss: Loss) -> GpuRisk:
        return GpuRisk(self.scorer, self._gpu_rows, loss, self._n_jobs, self.center)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return risk and gradient at θ."""
        if self._gpu is None:
            return super().__call__(theta)
        values, gradients = self.parts(theta)
        return float(values.sum()), gradients.sum(axis=0)

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient at θ in a fixed number of parts, which add up to them."""
        if self._gpu is None:
            return super().parts(theta)
        values, sums = self._gpu.parts(self.scorer.weights(self._check(theta)))
        gradients = self.scorer.gradient(sums)
        if not (np.isfinite(values).all() and np.isfinite(gradients).all()):
            raise DataError("scores of some documents are not finite; their features are missing, or w is too large")
        return values, gradients

    def segment(self, start: FloatArray, end: FloatArray) -> Segment | None:  # noqa: ARG002
        """Return None: on a GPU, reading the features is fast."""
        return None

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of the risk at θ times a direction; for losses that have one."""
        if self._gpu is None:
            return super().hessian_product(theta, direction)
        tables = (self.scorer.weights(self._check(point)) for point in (theta, direction))
        return np.asarray(self.scorer.gradient(self._gpu.curve(*tables)).sum(axis=0))
