"""The softmax cross entropy in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from marginrank.losses.torch.base import QuerySubset, TorchLoss


@dataclass(frozen=True, eq=False)
class TorchSoftmax(TorchLoss):
    """Cross entropy of a distribution over the documents of a query and the softmax of their scores.

    Args:
        device: The device.
        offsets: Start of each query, and end of the last.
        target: The distribution; 0 for all documents of queries that do not count.
        constant: What −log P_s of each document is added to.
        counted: 1 for documents of queries that count, else 0.
    """

    target: Any
    constant: Any
    counted: Any

    def take(self, subset: QuerySubset) -> Self:
        """Return the loss of some of the queries."""
        columns = (column[subset.documents] for column in (self.target, self.constant, self.counted))
        return type(self)(self.device, subset.offsets, *columns)

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        log_model = self._log_model(scores)
        terms = self.target * (self.constant - log_model)
        return self.segments.sum(terms).clamp_(min=0.0), self.counted * log_model.exp() - self.target

    def curve(self, scores: Any, direction: Any) -> Any:
        """Return the Hessian at the scores times a direction: P∘(v − P·v)."""
        model = self.counted * self._log_model(scores).exp()
        return model * (direction - self.segments.sum(model * direction)[self.segments.numbers])

    def _log_model(self, scores: Any) -> Any:
        segments = self.segments
        shifted = scores - segments.max(scores)[segments.numbers]
        return shifted - segments.sum(shifted.exp()).log()[segments.numbers]
