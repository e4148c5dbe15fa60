"""Quantiles of the features of the training documents, stored in the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.partitions import AnyQueries
from marginrank.data.queries import Queries
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: Quantiles of each feature: the 0/32, 1/32, ..., 32/32 quantiles.
N_QUANTILES: Final = 33
#: Maximum number of documents, drawn at random, to compute quantiles from; they are exact to about a percent.
_MAX_DOCUMENTS: Final = 10_000
#: Maximum number of features with quantiles, so that they stay small beside the model.
_MAX_FEATURES: Final = 5_000
#: Features of a block that is sent and sorted at a time.
_BLOCK: Final = 256
#: Up to here, float64 holds all whole numbers.
_LARGEST_WHOLE: Final = 2.0**53
#: Prefix of the arrays in model files.
PREFIX: Final = "quantiles."


@dataclass(frozen=True, eq=False)
class FeatureQuantiles:
    """The distribution of each feature over the training documents; a missing value counts as the largest.

    Args:
        values: Features × 33 values that occur, including the smallest and the largest; 0 if all are missing.
        at_most: Share of the documents with at most each of these values.
        below: Share of the documents below each.
        n_queries: Number of training queries.
    """

    values: FloatArray
    at_most: AnyArray
    below: AnyArray
    n_queries: int

    def __post_init__(self) -> None:
        shares = (self.at_most, self.below)
        if self.values.ndim != 2 or any(share.shape != self.values.shape for share in shares):
            raise ValueError("the quantiles are not three arrays of one shape")
        if not np.isfinite(self.values).all() or (np.diff(self.values, axis=1) < 0).any() or self.n_queries < 0:
            raise ValueError("the quantiles of a feature are not increasing numbers")
        if any(not ((share >= 0) & (share <= 1)).all() or (np.diff(share, axis=1) < 0).any() for share in shares):
            raise ValueError("the shares of the quantiles are not increasing numbers from 0 to 1")

    @property
    def missing(self) -> FloatArray:
        """Share of the training documents in which each feature was missing."""
        return np.asarray(1.0 - self.at_most[:, -1], dtype=np.float64)

    @property
    def value_types(self) -> dict[int, type]:
        """``bool`` for features that were 0 or 1, and ``int`` for others that were whole numbers, by their numbers."""
        whole = (self.values == np.rint(self.values)) & (np.abs(self.values) < _LARGEST_WHOLE)
        types = dict.fromkeys(np.flatnonzero(whole.all(axis=1)).tolist(), int)
        return types | dict.fromkeys(np.flatnonzero(np.isin(self.values, (0.0, 1.0)).all(axis=1)).tolist(), bool)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays for a model file."""
        arrays = {"values": self.values, "at_most": self.at_most, "below": self.below}
        arrays["n_queries"] = np.array([self.n_queries])
        return {f"{PREFIX}{name}": array for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self | None:
        """Build quantiles from what `arrays` returned; None if a model has none."""
        if f"{PREFIX}values" not in arrays:
            return None
        values, at_most, below, n_queries = (
            arrays[f"{PREFIX}{name}"] for name in ("values", "at_most", "below", "n_queries")
        )
        kinds = [array.dtype.name for array in (values, at_most, below, n_queries)]
        if kinds != ["float64", "float32", "float32", "int64"] or n_queries.shape != (1,):
            raise ValueError("the quantiles do not have the types that they are written with")
        if values.shape != (n_features, N_QUANTILES):
            raise ValueError(f"quantiles of shape {values.shape} for {n_features} features")
        return cls(values, at_most, below, int(n_queries[0]))


def feature_quantiles(queries: AnyQueries) -> FeatureQuantiles | None:
    """Compute the quantiles of dense features; None for sparse ones and more than 5,000.

    Queries in partitions give the same result: the same documents are drawn.

    >>> queries = Queries.from_arrays([[1.0], [np.nan], [3.0], [1.0]], group=[4], allow_nan=True)
    >>> quantiles = feature_quantiles(queries)
    >>> [part[0, [0, 22, 32]].tolist() for part in (quantiles.values, quantiles.below, quantiles.at_most)]
    [[1.0, 3.0, 3.0], [0.0, 0.5, 0.5], [0.5, 0.75, 0.75]]
    """
    if queries.is_sparse or queries.n_features > _MAX_FEATURES or not queries.n_documents:
        return None
    shape = queries.n_features, N_QUANTILES
    values, at_most, below = np.zeros(shape), np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    drawn = _draw(queries.n_documents)
    for start in range(0, queries.n_features, _BLOCK):
        rows = _rows(queries, drawn, start, start + _BLOCK)
        for feature, column in enumerate(_sorted_columns(rows), start):
            n_present = int(np.searchsorted(column, np.nan))
            if n_present:
                ranks = np.ceil(np.linspace(0.0, n_present, N_QUANTILES)).astype(np.int64) - 1
                cuts = column[np.maximum(ranks, 0)]
                values[feature] = cuts
                at_most[feature] = np.searchsorted(column, cuts, side="right") / len(column)
                below[feature] = np.searchsorted(column, cuts, side="left") / len(column)
    return FeatureQuantiles(values, at_most, below, len(queries))


def _draw(n_documents: int) -> IntArray:
    """Return the documents to compute quantiles from, in order."""
    if n_documents <= _MAX_DOCUMENTS:
        return np.arange(n_documents)
    return np.sort(np.random.default_rng(0).choice(n_documents, _MAX_DOCUMENTS, replace=False))


def _rows(queries: AnyQueries, drawn: IntArray, first: int, end: int) -> Features:
    """Return the features from ``first`` to ``end`` of the drawn documents."""
    if isinstance(queries, Queries):
        return _columns(queries, first, end, drawn)
    starts = offsets_from_sizes([part.documents for part in queries.facts])
    cuts = np.searchsorted(drawn, starts)
    each = [drawn[cuts[k] : cuts[k + 1]] - start for k, start in enumerate(starts[:-1].tolist())]
    return np.concatenate(queries.partitions.map(_columns, first, end, each=each))


def _columns(queries: Queries, first: int, end: int, rows: IntArray) -> Features:
    return queries.X[rows, first:end]


def _sorted_columns(rows: Features) -> AnyArray:
    """Return the values of each column in ascending order, NaN last."""
    if isinstance(rows, DeviceFeatures):
        return np.asarray(DeviceFeatures(rows.values.T.contiguous().sort(1).values))
    return np.sort(np.asarray(rows).T, axis=1)
