"""Measures of weighted documents: estimates from clicks, each relevant document by its weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.measures import Measure
from marginrank.measures.base import PositionMeasure, cut
from marginrank.measures.ranked_grades import RankedGrades, discounted_sums
from marginrank.typing import FloatArray


def relevant_totals(queries: Queries) -> FloatArray:
    """Return the weight of the relevant documents of each query, times the weight of the query.

    >>> clicks = Queries.from_arrays([[0.0]] * 3, [2, 0, 1], group=[2, 1], document_weights=[1.5, 9.0, 1.0])
    >>> relevant_totals(clicks).tolist()
    [3.0, 1.0]
    """
    if queries.document_weights is not None and np.isnan(queries.document_weights).any():
        raise DataError("some of these queries have clicks and others grades; evaluate one kind at a time")
    totals = np.bincount(queries.query_of_row, np.nan_to_num(queries.relevant_weights()), len(queries))
    return np.asarray(totals if queries.query_weights is None else totals * queries.query_weights)


def with_weights_as_grades(queries: Queries) -> Queries:
    """Return queries whose grades are what each document counts as a relevant one."""
    return replace(queries, judgements=queries.relevant_weights())


def refuse_other_measures(measures: Iterable[Measure]) -> None:
    """Refuse measures that inverse weighting does not estimate without bias."""
    for measure in measures:
        if not measure.sums_over_relevant:
            raise DataError(
                f"{measure} is not a sum over relevant documents, so weights of documents, such as 1/p of clicks, do "
                "not estimate it without bias; evaluate dcg@10 or p@10, or judged queries without document weights"
            )


def mean_over_relevant(measures: Mapping[str, Measure], rankings: RankedGrades) -> dict[str, FloatArray]:
    """Return the mean of each measure over relevant documents, each alone and by its weight; NaN if there are none.

    With v_i the weight of document i, which the rankings have instead of grades, it is Σ_i v_i·λ(rank_i) / Σ_i v_i: in
    the mean over queries by Σ_i v_i, the self-normalized estimate of Swaminathan and Joachims (NeurIPS 2015).
    """
    query = np.repeat(np.arange(len(rankings)), np.diff(rankings.pool_offsets))
    totals = np.bincount(query, rankings.pool, len(rankings))
    weights = rankings.mean_over_ties(rankings.grades)
    values: dict[str, FloatArray] = {}
    for name, measure in measures.items():
        if not isinstance(measure, PositionMeasure):
            raise TypeError(f"{measure} is a sum over relevant documents, but not over ranks")
        sums = discounted_sums(weights, rankings.offsets, cut(measure.discounts(rankings.longest), rankings.depth))
        one = np.ones(1)
        worth = float(measure.gains(one, one)[0]) / float(measure.normalizer)
        values[name] = np.divide(worth * sums, totals, out=np.full(len(totals), np.nan), where=totals > 0)
    return values
