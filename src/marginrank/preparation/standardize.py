"""Columns on a common scale, learned from the training documents of all queries."""

from __future__ import annotations

import numpy as np

from marginrank.errors import DataError
from marginrank.preparation.base import FeatureTransformer, Grouping
from marginrank.typing import AnyArray, FloatArray

# Rows worked on at a time, so that float32 or memory-mapped features are never held in float64 at once.
BLOCK = 8192


class Standardize(FeatureTransformer):
    """Give each column mean 0 and standard deviation 1 over all training documents.

    ``x' = (x - mean_) / scale_``, ``scale_² = Σ (x - mean_)² / n``

    A column that is constant in the training documents carries nothing to learn from: it has ``scale_`` 0
    and becomes 0 for every later value too. NaN is left out of mean and standard deviation and stays NaN; a
    column without any value counts as constant at 0. ``qid`` and ``group`` are accepted and make no
    difference.

    >>> scaler = Standardize().fit([[1.0, 4.0], [3.0, 4.0]])
    >>> scaler.mean_.tolist(), scaler.scale_.tolist()
    ([2.0, 4.0], [1.0, 0.0])
    >>> scaler.transform([[5.0, 7.0]]).tolist()
    [[3.0, 0.0]]

    Attributes:
        mean_: Mean of each column.
        scale_: Standard deviation of each column, 0 where it is constant.
    """

    mean_: FloatArray
    scale_: FloatArray

    def _learn(self, X: AnyArray) -> None:
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        empty = np.isnan(low)
        low = np.where(empty, 0.0, low)
        with np.errstate(over="ignore"):
            spread = np.where(empty, 0.0, high) - low
        if np.isinf(spread).any():
            column = int(np.argmax(np.isinf(spread)))
            raise DataError(f"the values of column {column} lie further apart than float64 holds; scale it down")
        # In units of the spread, squares cannot overflow or vanish, and a constant column is exactly 0.
        mean, std = _moments(X, low, np.where(spread > 0, spread, 1.0))
        self.mean_ = low + mean * spread
        self.scale_ = std * spread

    def _apply(self, X: AnyArray, grouping: Grouping | None) -> AnyArray:  # noqa: ARG002
        out = np.empty(X.shape, dtype=X.dtype)
        varies = self.scale_ > 0
        for rows in _blocks(len(X)):
            centred = (X[rows] - self.mean_) / np.where(varies, self.scale_, 1.0)
            out[rows] = np.where(varies | np.isnan(centred), centred, 0.0)
        return out


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def _moments(X: AnyArray, origin: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of ``(X - origin) / unit``, by column, without the NaNs."""
    blocks = _blocks(len(X))
    count = np.maximum(sum(np.count_nonzero(~np.isnan(X[rows]), axis=0) for rows in blocks), 1)
    mean = sum(np.nansum((X[rows] - origin) / unit, axis=0) for rows in blocks) / count
    squares = sum(np.nansum(((X[rows] - origin) / unit - mean) ** 2, axis=0) for rows in blocks)
    return mean, np.sqrt(squares / count)
