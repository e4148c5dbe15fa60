"""Losses that the bounds are about, and losses that dominate them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import numpy as np

from marginrank.bounds.population import by_grade
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import ListHinge, PositionHinge
from marginrank.measures.ap import AP
from marginrank.scorers.linear.scorer import linear_scores
from marginrank.typing import BoolArray, FloatArray

Statement: TypeAlias = Literal["theorem_3", "corollary_1", "corollary_2", "theorem_4", "corollary_3"]
Form: TypeAlias = Literal["printed", "repaired"]
#: ``query``: the sum over the pairs of a query, as printed; ``pair``: their mean, in which no size is left.
Per: TypeAlias = Literal["query", "pair"]

_BOUND: Final = PositionHinge(m="bound")
_DOMINATING: Final[Mapping[tuple[str, str], Loss]] = {
    ("theorem_3", "printed"): PositionHinge(m="documents"),
    ("corollary_1", "printed"): PositionHinge(m="levels"),
    ("corollary_2", "printed"): PositionHinge(m="levels"),
    ("theorem_3", "repaired"): _BOUND,
    ("corollary_1", "repaired"): _BOUND,
    ("corollary_2", "repaired"): _BOUND,
    ("theorem_4", "printed"): ListHinge(),
    ("theorem_4", "repaired"): ListHinge(),
    ("corollary_3", "printed"): ListHinge(),
    ("corollary_3", "repaired"): ListHinge(),
}


def dominating_loss(statement: Statement, form: Form = "repaired", per: Per = "query") -> Loss:
    """Return the loss whose empirical risk a bound starts from.

    For pairs it is the position-sensitive hinge of Riezler and De Bona (2009) Definition 1. They say that it bounds
    the number of pairs in the wrong order. From three levels on it does not: grades (2, 1, 0) with scores
    (10, 0, 0.1) have one such pair and a loss of 3/2 − 3/3 + 0.1 = 0.6. The smallest margin, m/(r(r − 1)), has to be
    at least 1, so the repaired loss has m = r(r − 1). For two levels, Corollary 2, both are the same.

    For rankings it is the sum of Definition 3. Corollary 3 leaves out rankings that differ inside a level only, so the
    sum over all is more than it needs.

    >>> dominating_loss("theorem_3", "printed")
    PositionHinge(m='documents')
    """
    if (statement, form) not in _DOMINATING:
        known = ", ".join(sorted({name for name, _ in _DOMINATING}))
        raise ValueError(f"no loss for {statement!r}, {form!r}; statements are {known}, forms printed and repaired")
    loss = _DOMINATING[statement, form]
    if per == "pair" and isinstance(loss, PositionHinge):
        return replace(loss, normalize="pairs")
    if per != "query":
        raise ValueError(f"per is {per!r}; choose 'query', or for pairwise losses 'pair'")
    return loss


def mean_loss(queries: Queries, loss: Loss, w: FloatArray) -> float:
    """Return the empirical risk: the mean of ξ over the queries with more than one grade."""
    xi, active = losses_of(queries, loss, w)
    return float(xi[active].mean())


def losses_of(queries: Queries, loss: Loss, w: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return ξ of each query at weights w, and which queries have more than one grade."""
    bound = loss.prepare(check_queries(queries))
    if not bound.active.any():
        raise DataError(
            "every query has a single grade, so there is no risk; give queries with documents of different grades"
        )
    return bound(scores_of(queries, w))[0], np.asarray(bound.active)


def zero_one_loss(queries: Queries, w: FloatArray, per: Per = "query") -> FloatArray:
    """Count the pairs of documents of different grade in the wrong order, for each query; Definition 2.

    Pairs with equal scores do not count. Queries with a single grade have 0.

    >>> queries = Queries.from_arrays([[10.0], [0.0], [0.1]], [2, 1, 0], group=[3])
    >>> zero_one_loss(queries, np.array([1.0])).tolist()
    [1.0]
    """
    scores, levels = scores_of(queries, w), by_grade(check_queries(queries))
    level, out = levels.of_document, np.zeros(len(queries))
    for query in np.flatnonzero(levels.ordered).tolist():
        documents = slice(queries.offsets[query], queries.offsets[query + 1])
        for number in range(int(levels.counts[query]) - 1):
            worse = np.sort(scores[documents][level[documents] > number])
            better = scores[documents][level[documents] == number]
            out[query] += len(worse) * len(better) - np.searchsorted(worse, better, side="right").sum()
    return out / np.maximum(levels.pairs, 1) if per == "pair" else out


def ap_loss(queries: Queries, w: FloatArray, rel: float = 1.0) -> FloatArray:
    """Compute 1 − average precision of each query, Definition 4; NaN without a relevant document.

    >>> queries = Queries.from_arrays([[2.0], [1.0], [0.0]], [0, 1, 0], group=[3])
    >>> ap_loss(queries, np.array([1.0])).tolist()
    [0.5]
    """
    values = evaluate(queries, scores_of(queries, w), AP(rel=rel), n_jobs=1).values
    return 1.0 - next(iter(values.values()))


def binary_grades(queries: Queries, rel: float = 1.0) -> Queries:
    """Return the queries with grade 1 for relevant documents and 0 for the others."""
    return replace(queries, judgements=(queries.grades >= rel).astype(np.float64))


def scores_of(queries: Queries, w: FloatArray) -> FloatArray:
    """Return the scores of the documents in the order they are stored."""
    weights = np.ascontiguousarray(w, dtype=np.float64)
    if weights.shape != (queries.n_features,):
        raise DataError(f"w has shape {weights.shape} for {queries.n_features} features; give one weight per feature")
    return linear_scores(queries.X, weights, n_jobs=1)


def check_queries(queries: Queries) -> Queries:
    """Refuse query weights: the bounds assume identically distributed queries."""
    if queries.query_weights is not None:
        raise DataError("the bounds assume equal query weights; leave out query_weights")
    return queries
