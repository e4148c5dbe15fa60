"""Losses of batches of scores from models of other libraries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginrank.data.grouping import check_offsets, group_rows, offsets_from_sizes
from marginrank.errors import DataError
from marginrank.losses.base import Loss, PreparedLoss
from marginrank.losses.torch.base import TorchLoss
from marginrank.measures import Measure
from marginrank.methods.presets import parse_method
from marginrank.training.tight_bound import Tight
from marginrank.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True)
class BatchLoss:
    """The mean loss of a batch of queries, and its gradient, as a function of the flat scores.

    Args:
        loss: The loss of the queries.
        rows: Indices of the scores that are documents, those of a query adjacent.
        n_jobs: Number of threads.
    """

    loss: PreparedLoss
    rows: IntArray | slice
    n_jobs: int | None

    @property
    def n_counted(self) -> int:
        """Number of queries in the mean, at least 1."""
        return max(1, int(np.count_nonzero(self.loss.active)))

    def __call__(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean loss and its gradient."""
        xi, by_document = self.loss(scores[self.rows], self.n_jobs)
        gradient = np.zeros(len(scores))
        gradient[self.rows] = by_document / self.n_counted
        # A sum that does not depend on the order of the queries.
        return math.fsum(xi[self.loss.active]) / self.n_counted, gradient

    def in_torch(self, scores: Any, loss: TorchLoss) -> tuple[Any, Any]:
        """Return the mean loss and its gradient for scores on a PyTorch device."""
        rows = self.rows if isinstance(self.rows, slice) else loss.device.tensor(self.rows)
        if not scores[rows].isfinite().all():
            self(scores.cpu().numpy())
        xi, by_document = loss(scores[rows])
        gradient = scores.new_zeros(scores.shape)
        gradient[rows] = by_document / self.n_counted
        # Sorted, so that the sum does not depend on the order of the queries; those that do not count have ξ = 0.
        return xi.sort().values.sum() / self.n_counted, gradient


def parse_loss(loss: str | Measure | Loss) -> Loss:
    """Return the loss of a ``method`` of `marginrank.Ranker`; baselines have none.

    >>> parse_loss("svmmap")
    StructuredLoss(measure='ap')
    """
    method = parse_method(loss)
    if method.loss is None:
        raise ValueError(f"{method.preset!r} is a baseline and has no loss; choose a loss or a measure")
    return method.loss.bounded("tight") if isinstance(method.bound, Tight) else method.loss


def check_shapes(shape: tuple[int, ...], **columns: Any) -> None:
    """Refuse columns of another shape than the scores, and scores that are neither a row nor a padded batch.

    >>> check_shapes((2,), grades=np.zeros(3))
    Traceback (most recent call last):
    ...
    marginrank.errors.DataError: grades have shape (3,) and scores (2,); give one for each score
    """
    if len(shape) not in (1, 2):
        raise DataError(f"scores have shape {shape}; give one per document, or queries × documents")
    for name, values in columns.items():
        if values is not None and tuple(values.shape) != shape:
            verb = "has" if name == "mask" else "have"
            raise DataError(f"{name} {verb} shape {tuple(values.shape)} and scores {shape}; give one for each score")


def batch_loss(
    loss: Loss,
    shape: tuple[int, ...],
    grades: AnyArray,
    offsets: AnyArray | None = None,
    qid: AnyArray | None = None,
    mask: AnyArray | None = None,
    groups: AnyArray | None = None,
    n_jobs: int | None = None,
) -> BatchLoss:
    """Prepare a loss for a batch: scores of documents, or a padded batch of queries × documents.

    >>> evaluate = batch_loss(parse_loss("svmauc"), (3,), np.array([1, 0, 0]), offsets=np.array([0, 2, 3]))
    >>> value, gradient = evaluate(np.array([0.25, 0.0, 7.0]))               # the second query has a single grade
    >>> value, gradient.tolist()
    (0.5, [-2.0, 2.0, 0.0])
    """
    check_shapes(shape, grades=grades, groups=groups)
    rows, starts = _layout(shape, offsets, qid, mask)
    prepared = loss.prepare(grades.ravel()[rows], starts, None if groups is None else groups.ravel()[rows])
    return BatchLoss(prepared, rows, n_jobs)


def _layout(
    shape: tuple[int, ...], offsets: AnyArray | None, qid: AnyArray | None, mask: AnyArray | None
) -> tuple[IntArray | slice, IntArray]:
    """Return the indices of the scores that are documents, those of a query adjacent, and the offsets of queries."""
    if len(shape) == 2:
        if offsets is not None or qid is not None:
            raise DataError("scores of a padded batch have a row for each query; leave out offsets and qid")
        check_shapes(shape, mask=mask)
        is_document = np.ones(shape, dtype=np.bool_) if mask is None else mask.astype(np.bool_)
        return np.flatnonzero(is_document), offsets_from_sizes(is_document.sum(axis=1))
    if mask is not None:
        raise DataError("a mask is for padded batches, which have a row for each query; give offsets or qid")
    if qid is not None:
        if offsets is not None:
            raise DataError("offsets and qid are both given; give one of them")
        _, starts, rows = group_rows(shape[0], qid, None)
        return slice(None) if rows is None else rows, starts
    starts = np.array([0, shape[0]]) if offsets is None else check_offsets(offsets, shape[0])
    return slice(None), starts
