"""Prepare features before a ranker sees them: scikit-learn transformers that know queries.

`QueryMinMax`, `QueryStandardize` and `QueryPercentile` look at one query at a time and learn nothing;
`Standardize` and `ThresholdBins` learn from the training documents. `clean` drops the documents that only
add noise. All of them take and give back arrays, frames or `Queries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.cleaning import CleaningReport, clean
from marginrank.preparation.per_query import QueryMinMax, QueryPercentile, QueryStandardize
from marginrank.preparation.standardize import Standardize
from marginrank.preparation.thresholds import ThresholdBins

#: Scalings by name, as a ranker takes them into its model.
SCALINGS: Final[Mapping[str, type[FeatureTransformer]]] = {
    "standard": Standardize,
    "query-minmax": QueryMinMax,
    "query-standard": QueryStandardize,
    "query-percentile": QueryPercentile,
}

__all__ = [
    "SCALINGS",
    "CleaningReport",
    "QueryMinMax",
    "QueryPercentile",
    "QueryStandardize",
    "Standardize",
    "ThresholdBins",
    "clean",
]
