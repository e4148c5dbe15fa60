"""The softmax cross entropy on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginrank.devices import Device
from marginrank.losses.on_device.base import DeviceLoss
from marginrank.typing import BoolArray, FloatArray, IntArray


class DeviceSoftmax(DeviceLoss):
    """Cross entropy of a distribution over the documents of a query and the softmax of their scores.

    Args:
        device: The device.
        target: The distribution; 0 for all documents of queries that do not count.
        constant: What is taken off −log P_s of each document.
        active: Which queries count.
        offsets: Where each query begins and the last ends.
    """

    def __init__(
        self, device: Device, target: FloatArray, constant: FloatArray, active: BoolArray, offsets: IntArray
    ) -> None:
        query = np.repeat(np.arange(len(active)), np.diff(offsets))
        self._query, self._target = device.tensor(query), device.tensor(target)
        self._constant = device.tensor(constant) if constant.any() else 0.0
        self._active = device.tensor(active[query].astype(np.float64))
        self._segments = device.segments(offsets)

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        log_model = self._log_model(scores)
        terms = self._target * (self._constant - log_model)
        return self._segments.sum(terms).clamp_(min=0.0), self._active * log_model.exp() - self._target

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the Hessian at the scores times a direction: P∘(v − P·v)."""
        model = self._active * self._log_model(scores).exp()
        return model * (direction - self._segments.sum(model * direction)[self._query])

    def _log_model(self, scores: Any) -> Any:
        shifted = scores - self._segments.max(scores)[self._query]
        return shifted - self._segments.sum(shifted.exp()).log()[self._query]
