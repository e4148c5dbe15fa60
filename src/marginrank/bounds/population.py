"""Sizes and norms of the population of queries, which the bounds need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import gammaln

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.losses.oracles.grade_levels import Levels, by_level
from marginrank.measures.auc import AUC
from marginrank.measures.dcg import DCG
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import Features, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PairDistances:
    """‖x_i − x_j‖ over the pairs of documents of different level of each query; 0 if it has none."""

    largest: FloatArray
    mean: FloatArray
    root_mean_square: FloatArray


def pair_distances(queries: Queries, levels: Levels) -> PairDistances:
    """Measure the differences of all pairs of different level, a query at a time.

    >>> from marginrank.measures.auc import AUC
    >>> from marginrank.losses.oracles.grade_levels import by_level
    >>> queries = Queries.from_arrays([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], [1, 0, 0], group=[3])
    >>> pairs = pair_distances(queries, by_level(AUC(), queries.grades, queries.offsets))    # 5 and 1
    >>> pairs.largest.tolist(), pairs.mean.tolist(), (pairs.root_mean_square**2).round(9).tolist()
    ([5.0], [3.0], [13.0])
    """
    level, figures = levels.of_document, np.zeros((len(queries), 3))
    for query, start, end in _ordered(queries, levels):
        document_levels = level[start:end]
        apart = distances(queries.X[start:end])[document_levels[:, None] < document_levels]
        figures[query] = apart.max(), apart.mean(), np.sqrt(np.mean(apart * apart))
    return PairDistances(*figures.T)


def widths(queries: Queries, levels: Levels) -> FloatArray:
    """Return the largest ‖x_i − x_j‖ of any two documents of each query, of the same level or not."""
    out = np.zeros(len(queries))
    for query, start, end in _ordered(queries, levels):
        out[query] = distances(queries.X[start:end]).max()
    return out


def sums_from_relevant(queries: Queries, levels: Levels) -> FloatArray:
    """Return each query's largest sum of distances from a document of the best level to all of other levels."""
    level, out = levels.of_document, np.zeros(len(queries))
    for query, start, end in _ordered(queries, levels):
        best = level[start:end] == 0
        out[query] = distances(queries.X[start:end])[best][:, ~best].sum(axis=1).max()
    return out


def _ordered(queries: Queries, levels: Levels) -> Iterator[tuple[int, int, int]]:
    for query in np.flatnonzero(levels.ordered).tolist():
        yield query, int(queries.offsets[query]), int(queries.offsets[query + 1])


def distances(X: Features) -> FloatArray:
    """Return ‖x_i − x_j‖ of all rows, computed from inner products, so that rows may be sparse."""
    rows = X.astype(np.float64)
    if not sp.issparse(rows):
        rows = rows - rows[:1]  # an offset that all share would cost the digits of their differences
    products = rows @ rows.T
    inner = np.asarray(products.toarray() if sp.issparse(products) else products, dtype=np.float64)
    squares = np.diag(inner)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * inner, 0.0))


def document_norms(X: Features) -> FloatArray:
    """Return ‖x_i‖ of all rows.

    >>> document_norms(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.sqrt(np.asarray(squares, dtype=np.float64))


@dataclass(frozen=True)
class Population:
    """Sizes and norms that hold for every query that can be drawn.

    Riezler and De Bona (2009) §4 have one m for all queries. If sizes differ, the largest is needed, for two
    reasons: a query with fewer pairs is one of so many pairs whose other hinges are 0, and one query more or less may
    change the risk by as much as the largest loss. The mean of the sizes proves nothing.

    Args:
        documents: m, the most documents of a query.
        levels: r, the most different grades.
        pairs: Most pairs of documents of different grade.
        relevant_pairs: Most pairs of a relevant and an irrelevant document.
        rankings: Most rankings that average precision can tell apart, C(m, rel).
        document_norm: M, the largest ‖x_i‖.
        difference_norm: D, the largest ‖x_i − x_j‖ of two documents of different grade of one query; at most 2M.
        rel: Documents are relevant from this grade on.
    """

    documents: int
    levels: int
    pairs: int
    relevant_pairs: int
    rankings: int
    document_norm: float
    difference_norm: float
    rel: float = 1.0

    @classmethod
    def of(cls, queries: Queries, *, rel: float = 1.0) -> Population:
        """Return the largest sizes and norms of given queries, as an estimate for all; a single grade does not count.

        >>> queries = Queries.from_arrays([[0.0], [3.0], [1.0], [2.0]], [2, 1, 0, 0], group=[4])
        >>> Population.of(queries)     # 2·1 + 1·2 + 1·1 pairs; 2 of 4 documents are relevant
        Population(documents=4, levels=3, pairs=5, relevant_pairs=4, rankings=6, document_norm=3.0, ...)
        """
        levels = by_grade(queries)
        binary = by_relevance(queries, rel)
        ordered = levels.ordered
        if not ordered.any():
            raise DataError("no query has documents of different grades, so there is nothing to bound; give others")
        documents = np.repeat(ordered, queries.lengths)
        return cls(
            documents=int(queries.lengths[ordered].max()),
            levels=int(levels.counts.max()),
            pairs=int(levels.pairs.max()),
            relevant_pairs=int(binary.pairs.max()),
            rankings=_most_rankings(binary),
            document_norm=float(document_norms(queries.X)[documents].max()),
            difference_norm=float(pair_distances(queries, levels).largest.max()),
            rel=rel,
        )


def by_grade(queries: Queries) -> Levels:
    """Arrange documents by grade."""
    return by_level(DCG(gain="linear"), queries.grades, queries.offsets)


def by_relevance(queries: Queries, rel: float) -> Levels:
    """Arrange documents in relevant and irrelevant ones."""
    return by_level(AUC(rel=rel), queries.grades, queries.offsets)


def log_factorial(n: IntArray) -> FloatArray:
    """Return ln n!, also if n! is beyond the range of floats.

    >>> np.exp(log_factorial(np.array([0, 3, 5]))).round(6).tolist()
    [1.0, 6.0, 120.0]
    """
    return np.asarray(gammaln(np.asarray(n, dtype=np.float64) + 1.0))


def log_rankings(binary: Levels) -> FloatArray:
    """Return ln C(m, rel) for each query of two levels, 0 for a query with one level."""
    first = np.zeros(len(binary.counts), dtype=np.int64)
    first[binary.ordered] = np.diff(binary.offsets)[binary.of_query[:-1][binary.ordered]]
    return log_factorial(binary.lengths) - log_factorial(first) - log_factorial(binary.lengths - first)


def _most_rankings(binary: Levels) -> int:
    if not binary.ordered.any():
        return 1
    query = int(np.argmax(log_rankings(binary)))
    at = binary.of_query[query]
    return comb(int(binary.lengths[query]), int(binary.offsets[at + 1] - binary.offsets[at]))


@dataclass(frozen=True)
class BoundTerms:
    """A bound on a risk, term by term.

    Args:
        empirical: Mean loss over the queries.
        complexity: The cost of learning: the size of the class of rankers, or the influence of one query.
        confidence: What being right with probability 1 − δ costs.
    """

    empirical: float
    complexity: float
    confidence: float

    @property
    def excess(self) -> float:
        """The largest possible excess of the risk over the empirical risk; inf beyond the range of floats."""
        return self.complexity + self.confidence

    @property
    def total(self) -> float:
        """The bound; inf beyond the range of floats."""
        return self.empirical + self.excess


def check_norm(w: FloatArray, B: float | None) -> float:
    """Return B, or ‖w‖ if it is None; refuse a B below ‖w‖."""
    norm = float(np.linalg.norm(w))
    if B is None:
        return norm
    # A B that comes from a formula may be a rounding error below the norm that it is meant for.
    if not norm <= B * (1.0 + 1e-9):
        raise ValueError(f"B is {B:g} and ‖w‖ is {norm:.6g}; the bound is for weights of norm at most B, give a larger")
    return float(B)


def check_delta(delta: float) -> float:
    """Refuse a δ that is not a probability of failure."""
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; give a probability between 0 and 1, such as 0.05")
    return float(delta)
