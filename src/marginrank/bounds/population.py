"""What the bounds need of all queries that can be drawn: sizes and norms."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import gammaln

from marginrank.bounds.distances import document_norms, pair_distances
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.losses.oracles.levels import Levels, arrange
from marginrank.measures.auc import AUC
from marginrank.measures.dcg import DCG
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Population:
    """Sizes and norms that hold for every query that can be drawn.

    Riezler and De Bona (2009) §4 have one m for all queries. Where sizes differ, the largest is needed, for two
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
        """Take the largest of the queries given, which are to stand for all; those of one grade are left out.

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
    return arrange(DCG(gain="linear"), queries.grades, queries.offsets)


def by_relevance(queries: Queries, rel: float) -> Levels:
    """Arrange documents in relevant and irrelevant ones."""
    return arrange(AUC(rel=rel), queries.grades, queries.offsets)


def log_factorial(n: IntArray) -> FloatArray:
    """Return ln n! for numbers whose factorial no float holds.

    >>> np.exp(log_factorial(np.array([0, 3, 5]))).round(6).tolist()
    [1.0, 6.0, 120.0]
    """
    return np.asarray(gammaln(np.asarray(n, dtype=np.float64) + 1.0))


def log_rankings(binary: Levels) -> FloatArray:
    """Return ln C(m, rel) for each query of two levels, 0 for one of one level."""
    first = np.zeros(len(binary.counts), dtype=np.int64)
    first[binary.ordered] = np.diff(binary.offsets)[binary.of_query[:-1][binary.ordered]]
    return log_factorial(binary.lengths) - log_factorial(first) - log_factorial(binary.lengths - first)


def _most_rankings(binary: Levels) -> int:
    if not binary.ordered.any():
        return 1
    query = int(np.argmax(log_rankings(binary)))
    at = binary.of_query[query]
    return comb(int(binary.lengths[query]), int(binary.offsets[at + 1] - binary.offsets[at]))
