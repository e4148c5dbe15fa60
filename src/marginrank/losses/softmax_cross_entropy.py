"""The cross entropy of softmax distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from marginrank.losses.base import Judgements, PreparedLoss, SmoothLoss
from marginrank.losses.torch.base import TorchLoss
from marginrank.losses.torch.softmax_cross_entropy import TorchSoftmax
from marginrank.measures.gains import Gain, check_gain, gains_of
from marginrank.runtime.threads import for_chunks
from marginrank.runtime.torch_device import Device
from marginrank.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class SoftmaxCrossEntropy(SmoothLoss):
    """Cross entropy of two distributions over the documents of a query, one of the grades and one of the scores.

    ξ = −Σ_i P_g(i) log P_s(i), ∂ξ/∂s = P_s − P_g, with P_s the softmax of the scores. Queries whose gains are all the
    same have ξ = 0.

    Args:
        gain: Gains that define P_g: ``linear`` (the grades), ``exp2`` (2^g − 1), ``binary`` (g ≥ 1), or
            a tuple with those of grades 0, 1, 2, ...
        divergence: Subtract the entropy of P_g. This gives the Kullback-Leibler divergence, with the same derivative
            and minimum 0.
        target: ``softmax`` makes P_g the softmax of the gains: ListNet with top-one probabilities, Cao et al. (ICML
            2007), there of the grades. ``share`` gives each document its share of the gains, so that all irrelevant
            documents have none.

    >>> xi, gradient = SoftmaxCrossEntropy(gain="binary")([1, 0], [0.0, 0.0])         # log 2; ½ - e/(1 + e)
    >>> xi.round(4).tolist(), gradient.round(4).tolist()
    ([0.6931], [-0.2311, 0.2311])
    >>> SoftmaxCrossEntropy(divergence=True)([3, 1], [2.5, 0.5])[0].round(4).tolist()
    [0.0]
    >>> SoftmaxCrossEntropy(target="share")([1, 0], [0.0, 0.0])[1].tolist()           # ½ - 1, ½ - 0
    [-0.5, 0.5]
    """

    gain: Gain = "linear"
    divergence: bool = False
    target: Literal["softmax", "share"] = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gain(self.gain)

    @property
    def sums_relevant(self) -> bool:
        """True: it is the mean log-likelihood of relevant documents."""
        return True

    @property
    def takes_pairs(self) -> bool:
        """True: of two documents, it is the logistic loss, of smoothed labels unless ``target`` is ``share``."""
        return True

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Compute the distribution of the grades."""
        offsets, gains = judged.offsets, gains_of(self.gain, judged.grades)
        active, target, constant = varied(gains, offsets), np.empty(len(gains)), np.zeros(len(gains))

        def fill(first: int, end: int) -> None:
            rows, starts = slice(offsets[first], offsets[end]), offsets[first : end + 1] - offsets[first]
            query = np.repeat(np.arange(end - first), np.diff(starts))
            log_target = _TARGETS[self.target](gains[rows], query, starts)
            target[rows] = np.where(active[first:end][query], np.exp(log_target), 0.0)
            if self.divergence:
                constant[rows] = np.where(target[rows] > 0, log_target, 0.0)

        for_chunks(fill, offsets)
        return _PreparedSoftmax(offsets, active, target, constant)


class _PreparedSoftmax(PreparedLoss):
    def __init__(self, offsets: IntArray, active: BoolArray, target: FloatArray, constant: FloatArray) -> None:
        self.offsets, self.active = offsets, active
        self._target, self._constant = target, constant
        self._lists = offsets, active

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.softmax_kernel import softmax_loss  # noqa: PLC0415

        softmax_loss(self._lists, self._target, self._constant, scores, (xi, gradient), first, end)

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:
        from marginrank.losses.softmax_kernel import curve_softmax  # noqa: PLC0415

        curve_softmax(self._lists, scores, direction, product, first, end)

    def torch_loss(self, device: Device) -> TorchLoss:
        counted = np.repeat(self.active, np.diff(self.offsets)).astype(np.float64)
        parts = map(device.tensor, (self._target, self._constant, counted))
        return TorchSoftmax(device, self.offsets, *parts)

    def diagonal(self, scores: FloatArray) -> FloatArray:
        query = np.repeat(np.arange(len(self.active)), np.diff(self.offsets))
        model = np.where(self.active[query], np.exp(_log_softmax(scores, query, self.offsets)), 0.0)
        return np.asarray(model * (1.0 - model))


def _log_share(gains: FloatArray, query: IntArray, offsets: IntArray) -> FloatArray:
    """Return the logarithm of the share of each document in the gains of its query; −inf for none.

    >>> _log_share(np.array([1.0, 0.0, 3.0]), np.array([0, 0, 0]), np.array([0, 3])).round(4).tolist()
    [-1.3863, -inf, -0.2877]
    """
    sums = np.bincount(query, gains, minlength=len(offsets) - 1)[query]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(gains / np.where(sums > 0, sums, 1.0)))


def varied(values: FloatArray, offsets: IntArray) -> BoolArray:
    """Return which queries have different values.

    >>> varied(np.array([1.0, 0.0, 2.0, 2.0]), np.array([0, 2, 2, 4])).tolist()
    [True, False, False]
    """
    differ = np.zeros(len(offsets) - 1, dtype=np.bool_)
    occupied = np.flatnonzero(np.diff(offsets) > 0)
    if len(occupied):
        starts = offsets[:-1][occupied]
        differ[occupied] = np.maximum.reduceat(values, starts) > np.minimum.reduceat(values, starts)
    return differ


def _log_softmax(values: FloatArray, query: IntArray, offsets: IntArray) -> FloatArray:
    """Return the logarithm of the softmax inside each query; the maximum is subtracted, so nothing overflows.

    >>> _log_softmax(np.array([1000.0, 1000.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])).round(4).tolist()
    [-0.6931, -0.6931, 0.0]
    """
    if len(values) == 0:
        return values
    occupied = np.flatnonzero(np.diff(offsets) > 0)
    largest = np.zeros(len(offsets) - 1)
    largest[occupied] = np.maximum.reduceat(values, offsets[:-1][occupied])
    shifted = values - largest[query]
    sums = np.bincount(query, np.exp(shifted), minlength=len(largest))
    return np.asarray(shifted - np.log(np.maximum(sums, 1.0))[query])


_TARGETS: Final[Mapping[str, Callable[[FloatArray, IntArray, IntArray], FloatArray]]] = {
    "softmax": _log_softmax,
    "share": _log_share,
}
