"""Losses of this package in PyTorch models; needs the extra ``neural``."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.integrations.score_batches import BatchLoss, batch_loss, parse_loss
from marginrank.losses.base import Loss
from marginrank.measures import Measure
from marginrank.runtime.torch_device import Device

try:
    import torch
    from torch.autograd.function import once_differentiable
except ImportError:
    raise ImportError("marginrank.integrations.pytorch needs PyTorch: pip install 'marginrank[neural]'") from None

#: A tensor on any device, or anything that NumPy converts to an array.
Values: TypeAlias = "torch.Tensor | npt.ArrayLike"


class TorchRankingLoss(torch.nn.Module):
    """Mean of a ranking loss over the queries of a batch, as a PyTorch module.

    >>> loss = TorchRankingLoss("softmax")
    >>> scores = torch.zeros(3, requires_grad=True)
    >>> loss(scores, torch.tensor([1, 0, 0])).backward()
    >>> (3 * scores.grad).round(decimals=4).tolist()
    [-2.0, 1.0, 1.0]

    The loss and its gradient are computed in float64. For scores on a GPU, losses with a PyTorch implementation (hinges
    of AUC, AP, RR, NDCG@k and other sums over the first ranks, pairwise hinges, softmax) are computed there; for
    others, scores are copied to the host and their gradient is copied back. The result depends neither on the number of
    threads nor on the order of the queries. Queries whose documents have a single grade do not count; a batch with only
    such queries has the loss 0.

    Args:
        loss: What `marginrank.Ranker` takes as ``method``: a `Loss`, or the name of a preset or a measure such as
            ``svmmap`` or ``ndcg@10``; no baseline.
        n_jobs: Number of threads; all cores by default.
    """

    def __init__(self, loss: str | Measure | Loss = "softmax", n_jobs: int | None = None) -> None:
        super().__init__()
        self.loss, self.n_jobs = parse_loss(loss), n_jobs

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
            offsets: Start of each query, and end of the last; one query by default.
            qid: Instead of ``offsets``, the query of each document, in any order.
            mask: Which scores of a padded batch are documents; all by default. Others have the gradient 0.
            groups: One group label per document, for losses that use groups.
        """
        if not scores.is_floating_point():
            raise DataError(f"scores are of type {scores.dtype}; give floating-point scores")
        given = {"grades": grades, "offsets": offsets, "qid": qid, "mask": mask, "groups": groups}
        batch = {name: _array(values) for name, values in given.items() if values is not None}
        return _MeanLoss.apply(scores, batch_loss(self.loss, tuple(scores.shape), n_jobs=self.n_jobs, **batch))


class _MeanLoss(torch.autograd.Function):
    """The mean loss, whose gradient is computed at the same time."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, batch: BatchLoss) -> Any:
        device, flat = Device(torch, scores.device), scores.detach().reshape(-1)
        loss = batch.loss.torch_loss(device) if device.computes_losses else None
        if loss is None:
            mean, by_score = batch(flat.to("cpu", torch.float64).numpy())
            value, gradient = torch.tensor(mean, dtype=torch.float64), torch.from_numpy(by_score)
        else:
            value, gradient = batch.in_torch(flat.double(), loss)
        ctx.save_for_backward(gradient.reshape(scores.shape).to(scores))
        return value.to(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None


def _array(values: Values) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
