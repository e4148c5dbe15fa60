"""Scalings by name, and the one a ranker takes when none is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from marginrank.data.partitioned import PartitionedQueries
from marginrank.data.queries import Queries
from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.per_query import QueryMinMax, QueryPercentile, QueryStandardize
from marginrank.preparation.standardize import Standardize

#: Scalings by name, as a ranker takes them into its model.
SCALINGS: Final[Mapping[str, type[FeatureTransformer]]] = {
    "standard": Standardize,
    "query-minmax": QueryMinMax,
    "query-standard": QueryStandardize,
    "query-percentile": QueryPercentile,
}
#: Standard deviations between these need no scaling.
_USUAL: Final = (0.5, 2.0)


def choose_scaling(queries: Queries | PartitionedQueries, kind: str) -> str | None:
    """Return the name of the scaling that ``scaling="auto"`` stands for, or None.

    The penalty ‖w‖² of a linear ranker treats all weights alike: a feature of small spread needs a large weight and is
    held back. Linear weights get ``standard``, unless every feature that varies has a standard deviation between ½ and
    2 already. Bins need no scaling, and trees and expansions have their own. Scalings by query are never chosen: they
    need the query of each document again at prediction.

    >>> queries = Queries.from_arrays([[9.0, 0.02], [12.0, 0.01], [3.0, 0.07]], [1, 2, 0], group=[3])
    >>> choose_scaling(queries, "linear"), choose_scaling(queries, "additive")
    ('standard', None)

    Args:
        queries: Training queries, dense or sparse.
        kind: What scores documents, as `Form.kind` names it: ``linear``, ``additive``, ...
    """
    return chosen_scaling(queries)[0] if kind == "linear" else None


def chosen_scaling(queries: Queries | PartitionedQueries) -> tuple[str | None, Standardize]:
    """Return the name of the scaling that linear weights get, and what was learned to choose it."""
    scaler = Standardize().fit(queries)
    spreads, (low, high) = scaler.scale_, _USUAL
    differ = ((spreads > 0) & ((spreads < low) | (spreads > high))).any()
    return "standard" if differ else None, scaler
