"""Losses of this package in PyTorch models; needs the extra ``neural``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import check_offsets, group_rows, offsets_from_sizes
from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.measures import Measure
from marginrank.methods.presets import parse_method
from marginrank.methods.tight import Tight
from marginrank.typing import FloatArray, IntArray

try:
    import torch
    from torch.autograd.function import once_differentiable
except ImportError:
    raise ImportError("marginrank.torch needs PyTorch: pip install 'marginrank[neural]'") from None

#: A tensor on any device, or whatever NumPy makes an array of.
Values: TypeAlias = "torch.Tensor | npt.ArrayLike"


class RankingLoss(torch.nn.Module):
    """Mean of a ranking loss over the queries of a batch, as a PyTorch module.

    >>> loss = RankingLoss("softmax")
    >>> scores = torch.zeros(3, requires_grad=True)
    >>> loss(scores, torch.tensor([1, 0, 0])).backward()
    >>> (3 * scores.grad).round(decimals=4).tolist()
    [-2.0, 1.0, 1.0]

    Scores are copied to the host, the loss and its slopes are computed there in float64, and the slopes are copied
    back to the device and type of the scores. The result depends neither on the number of threads nor on the order of
    the queries. Queries whose documents have a single grade do not count; a batch of none but these has the loss 0.

    Args:
        loss: What `marginrank.Ranker` takes as ``method``: a `Loss`, or the name of a preset or a measure such as
            ``svmmap`` or ``ndcg@10``; no baseline.
        n_jobs: Number of threads; all cores by default.
    """

    def __init__(self, loss: str | Measure | Loss = "softmax", n_jobs: int | None = None) -> None:
        super().__init__()
        method = parse_method(loss)
        if method.loss is None:
            raise ValueError(f"{method.preset!r} is a baseline and has no loss; choose a loss or a measure")
        self.loss = method.loss.bounded("tight") if isinstance(method.bound, Tight) else method.loss
        self.n_jobs = n_jobs

    def extra_repr(self) -> str:
        """Show the loss."""
        return str(self.loss)

    def forward(
        self,
        scores: torch.Tensor,
        grades: Values,
        offsets: Values | None = None,
        *,
        qid: Values | None = None,
        mask: Values | None = None,
        groups: Values | None = None,
    ) -> torch.Tensor:
        """Return the mean loss of the queries with an order.

        Args:
            scores: One score per document, or a padded batch of queries × documents.
            grades: One grade per score.
            offsets: Where each query begins and the last ends; one query by default.
            qid: Instead of ``offsets``, the query of each document, in any order.
            mask: Which scores of a padded batch are documents; all by default. Others have the slope 0.
            groups: One group label per document, for losses that use groups.
        """
        if not scores.is_floating_point():
            raise DataError(f"scores are of type {scores.dtype}; give floating-point scores")
        shape = tuple(scores.shape)
        judged, labels = _array(grades), None if groups is None else _array(groups)
        for name, values in (("grades", judged), ("groups", labels)):
            if values is not None and values.shape != shape:
                raise DataError(f"{name} have shape {values.shape} and scores {shape}; give one for each score")
        rows, starts = _layout(shape, offsets, qid, mask)
        prepared = self.loss.prepare(judged.ravel()[rows], starts, None if labels is None else labels.ravel()[rows])
        n_counted = max(1, int(np.count_nonzero(prepared.active)))

        def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
            xi, own = prepared(flat[rows], self.n_jobs)
            slopes = np.zeros(len(flat))
            slopes[rows] = own / n_counted
            # A sum that does not depend on the order of the queries.
            return math.fsum(xi[prepared.active]) / n_counted, slopes

        return _MeanLoss.apply(scores, evaluate)


class _MeanLoss(torch.autograd.Function):
    """A number computed from scores by NumPy, with slopes known at once."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, evaluate: Callable[[FloatArray], tuple[float, FloatArray]]) -> Any:
        value, slopes = evaluate(scores.detach().to("cpu", torch.float64).reshape(-1).numpy())
        ctx.save_for_backward(torch.from_numpy(slopes).reshape(scores.shape).to(scores))
        return scores.new_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        (slopes,) = ctx.saved_tensors
        return upstream * slopes, None


def _array(values: Values) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def _layout(
    shape: tuple[int, ...], offsets: Values | None, qid: Values | None, mask: Values | None
) -> tuple[IntArray | slice, IntArray]:
    """Return the scores that are documents, those of a query next to each other, and where each query begins."""
    if len(shape) == 2:
        if offsets is not None or qid is not None:
            raise DataError("scores of a padded batch have a row for each query; leave out offsets and qid")
        kept = np.ones(shape, dtype=np.bool_) if mask is None else _array(mask).astype(np.bool_)
        if kept.shape != shape:
            raise DataError(f"mask has shape {kept.shape} and scores {shape}; give one for each score")
        return np.flatnonzero(kept), offsets_from_sizes(kept.sum(axis=1))
    if len(shape) != 1:
        raise DataError(f"scores have shape {shape}; give one per document, or queries × documents")
    if mask is not None:
        raise DataError("a mask is for padded batches, which have a row for each query; give offsets or qid")
    if qid is not None:
        if offsets is not None:
            raise DataError("offsets and qid are both given; give one of them")
        _, starts, rows = group_rows(shape[0], _array(qid), None)
        return slice(None) if rows is None else rows, starts
    starts = np.array([0, shape[0]]) if offsets is None else check_offsets(_array(offsets), shape[0])
    return slice(None), starts
