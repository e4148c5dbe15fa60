"""Quantiles of features at training, as a model keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.partitions import AnyQueries
from marginrank.data.queries import Queries
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Quantiles of each feature: the 0/32, 1/32, ..., 32/32 quantiles.
N_QUANTILES: Final = 33
#: Documents that quantiles are computed from; of more, so many are drawn. They are then exact to about a percent.
_MOST_DOCUMENTS: Final = 10_000
#: Features that quantiles are kept of, so that they stay small beside the model.
_MOST_FEATURES: Final = 5_000
#: Features that are sent and sorted together.
_BLOCK: Final = 256
#: How arrays are named in model files.
PREFIX: Final = "quantiles."


@dataclass(frozen=True, eq=False)
class FeatureQuantiles:
    """The distribution of each feature over the training documents; a missing value counts as the largest.

    Args:
        values: Features × 33 values that occur, the smallest and the largest among them; 0 where all are missing.
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
        if self.values.ndim != 2 or any(part.shape != self.values.shape for part in shares):
            raise ValueError("the quantiles are not three tables of one shape")
        if not np.isfinite(self.values).all() or (np.diff(self.values, axis=1) < 0).any() or self.n_queries < 0:
            raise ValueError("the quantiles of a feature are not increasing numbers")
        if any(not ((part >= 0) & (part <= 1)).all() or (np.diff(part, axis=1) < 0).any() for part in shares):
            raise ValueError("the shares of the quantiles are not increasing numbers from 0 to 1")

    @property
    def missing(self) -> FloatArray:
        """Share of the training documents in which each feature was missing."""
        return np.asarray(1.0 - self.at_most[:, -1], dtype=np.float64)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays for a model file."""
        parts = {"values": self.values, "at_most": self.at_most, "below": self.below}
        return {f"{PREFIX}{name}": part for name, part in parts.items()} | {
            f"{PREFIX}n_queries": np.array([self.n_queries])
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self | None:
        """Read what `arrays` returned; None where a model has no quantiles."""
        if f"{PREFIX}values" not in arrays:
            return None
        values, at_most, below, n_queries = (
            arrays[f"{PREFIX}{name}"] for name in ("values", "at_most", "below", "n_queries")
        )
        kinds = [array.dtype.name for array in (values, at_most, below, n_queries)]
        if kinds != ["float64", "float32", "float32", "int64"] or n_queries.shape != (1,):
            raise ValueError("the quantiles have other types than they are written with")
        if values.shape != (n_features, N_QUANTILES):
            raise ValueError(f"quantiles of shape {values.shape} for {n_features} features")
        return cls(values, at_most, below, int(n_queries[0]))


def feature_quantiles(queries: AnyQueries) -> FeatureQuantiles | None:
    """Compute the quantiles of dense features; None for sparse ones and more than 5,000.

    Of queries in partitions the same documents are drawn as in one memory, and sent here.

    >>> queries = Queries.from_arrays([[1.0], [np.nan], [3.0], [1.0]], group=[4], allow_nan=True)
    >>> quantiles = feature_quantiles(queries)
    >>> [part[0, [0, 22, 32]].tolist() for part in (quantiles.values, quantiles.below, quantiles.at_most)]
    [[1.0, 3.0, 3.0], [0.0, 0.5, 0.5], [0.5, 0.75, 0.75]]
    """
    if queries.is_sparse or queries.n_features > _MOST_FEATURES or not queries.n_documents:
        return None
    shape = queries.n_features, N_QUANTILES
    values, at_most, below = np.zeros(shape), np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    drawn = _drawn(queries.n_documents)
    for start in range(0, queries.n_features, _BLOCK):
        rows = _rows(queries, drawn, start, start + _BLOCK)
        for feature, column in enumerate(np.sort(rows.T, axis=1), start):
            n_present = int(np.searchsorted(column, np.nan))
            if n_present:
                places = np.ceil(np.linspace(0.0, n_present, N_QUANTILES)).astype(np.int64) - 1
                cuts = column[np.maximum(places, 0)]
                values[feature] = cuts
                at_most[feature] = np.searchsorted(column, cuts, side="right") / len(column)
                below[feature] = np.searchsorted(column, cuts, side="left") / len(column)
    return FeatureQuantiles(values, at_most, below, len(queries))


def _drawn(n_documents: int) -> IntArray:
    """Return the documents that quantiles are computed from, in order."""
    if n_documents <= _MOST_DOCUMENTS:
        return np.arange(n_documents)
    return np.sort(np.random.default_rng(0).choice(n_documents, _MOST_DOCUMENTS, replace=False))


def _rows(queries: AnyQueries, drawn: IntArray, first: int, end: int) -> AnyArray:
    """Return some features of documents."""
    if isinstance(queries, Queries):
        return _columns(queries, first, end, drawn)
    starts = offsets_from_sizes([part.documents for part in queries.facts])
    cuts = np.searchsorted(drawn, starts)
    each = [drawn[cuts[k] : cuts[k + 1]] - start for k, start in enumerate(starts[:-1].tolist())]
    return np.concatenate(queries.partitions.map(_columns, first, end, each=each))


def _columns(queries: Queries, first: int, end: int, rows: IntArray) -> AnyArray:
    return np.asarray(queries.X[rows, first:end])
