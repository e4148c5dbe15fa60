"""Lengths of documents and of the differences between documents of a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from marginrank.data.queries import Queries
from marginrank.losses.oracles.levels import Levels
from marginrank.sparse import sp
from marginrank.typing import Features, FloatArray


@dataclass(frozen=True, eq=False)
class PairDistances:
    """‖x_i − x_j‖ over the pairs of documents of different level of each query; 0 where a query has none."""

    largest: FloatArray
    mean: FloatArray
    root_mean_square: FloatArray


def pair_distances(queries: Queries, levels: Levels) -> PairDistances:
    """Measure the differences of all pairs of different level, a query at a time.

    >>> from marginrank.measures.auc import AUC
    >>> from marginrank.losses.oracles.levels import arrange
    >>> queries = Queries.from_arrays([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], [1, 0, 0], group=[3])
    >>> found = pair_distances(queries, arrange(AUC(), queries.grades, queries.offsets))    # 5 and 1
    >>> found.largest.tolist(), found.mean.tolist(), (found.root_mean_square**2).round(9).tolist()
    ([5.0], [3.0], [13.0])
    """
    level, figures = levels.of_document, np.zeros((len(queries), 3))
    for query, start, end in _ordered(queries, levels):
        own = level[start:end]
        apart = distances(queries.X[start:end])[own[:, None] < own]
        figures[query] = apart.max(), apart.mean(), np.sqrt(np.mean(apart * apart))
    return PairDistances(*figures.T)


def widths(queries: Queries, levels: Levels) -> FloatArray:
    """Largest ‖x_i − x_j‖ of any two documents of each query, of the same level or not."""
    out = np.zeros(len(queries))
    for query, start, end in _ordered(queries, levels):
        out[query] = distances(queries.X[start:end]).max()
    return out


def sums_from_relevant(queries: Queries, levels: Levels) -> FloatArray:
    """Largest sum of the distances from a document of the best level to all documents of others, for each query."""
    level, out = levels.of_document, np.zeros(len(queries))
    for query, start, end in _ordered(queries, levels):
        best = level[start:end] == 0
        out[query] = distances(queries.X[start:end])[best][:, ~best].sum(axis=1).max()
    return out


def _ordered(queries: Queries, levels: Levels) -> Iterator[tuple[int, int, int]]:
    for query in np.flatnonzero(levels.ordered).tolist():
        yield query, int(queries.offsets[query]), int(queries.offsets[query + 1])


def distances(X: Features) -> FloatArray:
    """‖x_i − x_j‖ of all rows, from their inner products, which sparse rows have too."""
    rows = X.astype(np.float64)
    if not sp.issparse(rows):
        rows = rows - rows[:1]  # an offset that all share would cost the digits of their differences
    products = rows @ rows.T
    inner = np.asarray(products.toarray() if sp.issparse(products) else products, dtype=np.float64)
    squares = np.diag(inner)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * inner, 0.0))


def document_norms(X: Features) -> FloatArray:
    """‖x_i‖ of all rows.

    >>> document_norms(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.sqrt(np.asarray(squares, dtype=np.float64))
