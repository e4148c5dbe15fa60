"""Batches of scores from models of other libraries: which of them are documents of which query, and their mean loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from marginrank.data.grouping import check_offsets, group_rows, offsets_from_sizes
from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.measures import Measure
from marginrank.methods.presets import parse_method
from marginrank.training.tight_bound import Tight
from marginrank.typing import AnyArray, FloatArray, IntArray

#: The mean loss of a batch and its slopes, as a function of its scores, all in one row.
BatchLoss: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]


def parse_loss(loss: str | Measure | Loss) -> Loss:
    """Return the loss of what `marginrank.Ranker` takes as ``method``; baselines have none.

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
    >>> value, slopes = evaluate(np.array([0.25, 0.0, 7.0]))                 # the second query has no order
    >>> value, slopes.tolist()
    (0.5, [-2.0, 2.0, 0.0])
    """
    check_shapes(shape, grades=grades, groups=groups)
    rows, starts = _layout(shape, offsets, qid, mask)
    prepared = loss.prepare(grades.ravel()[rows], starts, None if groups is None else groups.ravel()[rows])
    n_counted = max(1, int(np.count_nonzero(prepared.active)))

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        xi, own = prepared(flat[rows], n_jobs)
        slopes = np.zeros(len(flat))
        slopes[rows] = own / n_counted
        # A sum that does not depend on the order of the queries.
        return math.fsum(xi[prepared.active]) / n_counted, slopes

    return evaluate


def _layout(
    shape: tuple[int, ...], offsets: AnyArray | None, qid: AnyArray | None, mask: AnyArray | None
) -> tuple[IntArray | slice, IntArray]:
    """Return the scores that are documents, those of a query next to each other, and where each query begins."""
    if len(shape) == 2:
        if offsets is not None or qid is not None:
            raise DataError("scores of a padded batch have a row for each query; leave out offsets and qid")
        check_shapes(shape, mask=mask)
        kept = np.ones(shape, dtype=np.bool_) if mask is None else mask.astype(np.bool_)
        return np.flatnonzero(kept), offsets_from_sizes(kept.sum(axis=1))
    if mask is not None:
        raise DataError("a mask is for padded batches, which have a row for each query; give offsets or qid")
    if qid is not None:
        if offsets is not None:
            raise DataError("offsets and qid are both given; give one of them")
        _, starts, rows = group_rows(shape[0], qid, None)
        return slice(None) if rows is None else rows, starts
    starts = np.array([0, shape[0]]) if offsets is None else check_offsets(offsets, shape[0])
    return slice(None), starts
