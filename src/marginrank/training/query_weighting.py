"""Weights of queries in the objective, computed from their grades."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

import numpy as np

from marginrank.data.partitions import PartitionedQueries, SomeQueries
from marginrank.data.queries import Queries
from marginrank.data.unjudged import UnjudgedRule
from marginrank.errors import Parameter, ParameterError
from marginrank.typing import BoolArray, FloatArray, IntArray

Weighting: TypeAlias = Literal["grades", "relevant", "pairs", "sqrt-pairs"]


def _sums(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Sum inside each query.

    >>> _sums(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2, 3])).tolist()
    [3.0, 0.0, 4.0]
    """
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(query, values, minlength=len(offsets) - 1).astype(np.float64)


def _pairs(grades: FloatArray, offsets: IntArray) -> FloatArray:
    """Pairs of documents of different grade: (n² − Σ over grades of their counts squared) / 2.

    >>> _pairs(np.array([2.0, 1.0, 1.0, 0.0]), np.array([0, 4])).tolist()
    [5.0]
    """
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    _, kind, counts = np.unique(np.stack([query, grades]), axis=1, return_inverse=True, return_counts=True)
    same = _sums(counts[kind.ravel()].astype(np.float64), offsets)
    return np.asarray((np.diff(offsets).astype(np.float64) ** 2 - same) / 2.0)


WEIGHTINGS: Final[Mapping[str, Callable[[FloatArray, IntArray], FloatArray]]] = {
    "grades": _sums,
    "relevant": lambda grades, offsets: _sums((grades > 0).astype(np.float64), offsets),
    "pairs": _pairs,
    "sqrt-pairs": lambda grades, offsets: np.sqrt(_pairs(grades, offsets)),
}


def ordered_queries(queries: Queries) -> BoolArray:
    """Return which queries have an order: two grades, and a weight above 0.

    >>> ordered_queries(Queries.from_arrays([[0.0]] * 4, [2, 1, 0, 0], group=[2, 2])).tolist()
    [True, False]
    """
    varied = _pairs(queries.grades, queries.offsets) > 0
    return varied if queries.query_weights is None else varied & (queries.query_weights > 0)


def documents_to_learn_from(
    queries: SomeQueries, weighting: Weighting | None, unjudged: UnjudgedRule = "skip"
) -> SomeQueries:
    """Return scaled queries as losses take them: unjudged documents left out or irrelevant, and queries weighted.

    Features are scaled before, with the unjudged documents: they are among those that will be ranked.

    >>> queries = Queries.from_arrays([[0.0]] * 4, [2, 1, 0, np.nan], group=[2, 2])
    >>> documents_to_learn_from(queries, "pairs").grades.tolist()
    [2.0, 1.0, 0.0]
    """
    return weighted(cast("SomeQueries", queries.with_unjudged(unjudged)), weighting)


def weighted(queries: SomeQueries, weighting: Weighting | None) -> SomeQueries:
    """Return the queries weighted by their grades, times the weights that they have.

    >>> judged = Queries.from_arrays([[0.0]] * 3, [2, 1, 0], group=[2, 1])
    >>> weighted(judged, "grades").query_weights.tolist()
    [3.0, 0.0]
    """
    if weighting is None:
        return queries
    if weighting not in WEIGHTINGS:
        raise ParameterError(
            Parameter("weighting"), f" is {weighting!r}; choose one of {', '.join(WEIGHTINGS)}, or None"
        )
    if queries.has_document_weights:
        raise ParameterError(
            Parameter("weighting", weighting),
            " weights queries by their grades, and these count by the weights of their documents; leave it out",
        )
    if isinstance(queries, PartitionedQueries):
        return cast("SomeQueries", queries.derive(weighted, weighting))
    weights = WEIGHTINGS[weighting](queries.grades, queries.offsets)
    total = weights if queries.query_weights is None else weights * queries.query_weights
    return cast("SomeQueries", replace(queries, query_weights=total))
