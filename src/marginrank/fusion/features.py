"""Features of fusions: scores or ranks of runs on a common scale, higher is better."""

from __future__ import annotations

from marginrank.data.naming import features_named
from marginrank.data.queries import Queries
from marginrank.preparation.run_features import RunTable, column_names, parse_features


class Columns(RunTable):
    """The columns of gathered runs, NaN where a run did not return the document.

    Args:
        queries: One column per run.
        are_ranks: The columns hold ranks, 1 is best, instead of scores.
    """

    def __init__(self, queries: Queries, are_ranks: bool = False) -> None:
        super().__init__(queries.dense(), queries.offsets, are_ranks)
        self.queries = queries


def fusion_features(queries: Queries, features: str, *, ranks: bool = False, keep_missing: bool = False) -> Queries:
    """Turn gathered runs into features, all on [0, 1] and larger for better documents.

    - ``minmax``: (s − min) / (max − min) over the documents that the run returned for the query;
    - ``percentile``: the percentile rank among them, above 0;
    - ``rrf``: 61 / (60 + rank);
    - ``borda``: (n − rank + 1) / n, with n documents in the query;
    - ``retrieved``: 1 if the run returned the document;
    - ``score``: the score as it is, or minus the rank.

    A document that the run did not return has 0, which is below the last that it did, except under ``minmax``, where it
    is level with it, and ``score``, where nothing stands for it.

    Several kinds are put side by side with ``+``.

    >>> import numpy as np
    >>> bm25 = Queries.from_arrays(
    ...     [[30.0], [10.0], [np.nan]], [1, 0, 0], group=[3], feature_names=["bm25"], allow_nan=True
    ... )
    >>> both = fusion_features(bm25, "percentile+retrieved")
    >>> both.X.tolist(), both.feature_names
    ([[0.75, 1.0], [0.25, 1.0], [0.0, 0.0]], ('percentile(bm25)', 'retrieved(bm25)'))

    Args:
        queries: One column per run, as `gather` gives them, NaN where a run did not return the document.
        features: Kinds, such as ``rrf`` or ``minmax+retrieved``.
        ranks: The columns hold ranks, 1 is best, instead of scores.
        keep_missing: Leave NaN for documents that a run did not return, for scorers that can tell.
    """
    return features_of(Columns(queries, ranks), features, keep_missing=keep_missing)


def features_of(columns: Columns, features: str, *, keep_missing: bool = False) -> Queries:
    """Turn columns into features; several kinds can share what the columns have computed."""
    kinds, queries = parse_features(features), columns.queries
    names = None if queries.feature_names is None else column_names(kinds, queries.feature_names)
    with features_named(queries):
        return queries.with_features(columns.features(kinds, keep_missing=keep_missing), names)
