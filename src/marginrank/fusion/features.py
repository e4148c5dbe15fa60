"""Features of fusions: scores or ranks of runs on a common scale, higher is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.preparation import QueryMinMax, QueryPercentile
from marginrank.typing import FloatArray
from marginrank.words import suggest

#: k of reciprocal rank fusion, as Cormack, Clarke and Büttcher (SIGIR 2009) fixed it.
RRF_K: Final = 60


@dataclass(frozen=True)
class Columns:
    """The columns of gathered runs, NaN where a run did not return the document.

    Args:
        queries: One column per run.
        are_ranks: The columns hold ranks, 1 is best, instead of scores.
    """

    queries: Queries
    are_ranks: bool = False

    def __post_init__(self) -> None:
        X = self.queries.dense()
        if np.isinf(X).any():
            raise DataError("a run has an infinite score; replace it, or leave the document out with NaN")
        if self.are_ranks and (X < 1).any():
            raise DataError(f"{np.nanmin(X):g} is not a rank; ranks begin at 1; for scores leave out ranks=True")

    @cached_property
    def scores(self) -> FloatArray:
        """The scores as they are, or the ranks turned round."""
        X = self.queries.dense().astype(np.float64)
        return -X if self.are_ranks else X

    @cached_property
    def retrieved(self) -> FloatArray:
        """1 where the run returned the document, else 0."""
        return (~np.isnan(self.scores)).astype(np.float64)

    @cached_property
    def unit(self) -> FloatArray:
        """Scores scaled to [0, 1] inside each query: the last document of a run has 0."""
        return self._within(QueryMinMax())

    @cached_property
    def percentile(self) -> FloatArray:
        """Percentile rank of each score among the documents that the run returned for the query."""
        return self._within(QueryPercentile())

    @cached_property
    def places(self) -> FloatArray:
        """Rank of each document among those of its run that are here, 1 is best; equal scores share the mean."""
        # Half ranks are exact in floating point, sums of percentiles are not.
        return np.rint(2 * (self.counts * (1 - self.percentile) + 0.5)) / 2

    @cached_property
    def ranks(self) -> FloatArray:
        """The ranks that were given, or else `places`."""
        return -self.scores if self.are_ranks else self.places

    @cached_property
    def sizes(self) -> FloatArray:
        """Number of documents of the query, in all runs together; a column with one number per document."""
        return np.repeat(self.queries.lengths, self.queries.lengths)[:, None].astype(np.float64)

    @cached_property
    def counts(self) -> FloatArray:
        """Number of documents that each run returned for the query."""
        occupied = self.queries.lengths > 0
        counts = np.add.reduceat(self.retrieved, self.queries.offsets[:-1][occupied], axis=0)
        return np.repeat(counts, self.queries.lengths[occupied], axis=0)

    def _within(self, scaler: QueryMinMax | QueryPercentile) -> FloatArray:
        scaled: Queries = scaler.fit_transform(self.queries.with_features(self.scores))
        return np.asarray(scaled.dense(), dtype=np.float64)


def _reciprocal(columns: Columns) -> FloatArray:
    """1 at the top, so that the same C suits all kinds."""
    return (RRF_K + 1) / (RRF_K + columns.ranks)


def _borda(columns: Columns) -> FloatArray:
    return (columns.sizes - columns.places + 1) / columns.sizes


#: Kinds of features by name.
KINDS: Final[Mapping[str, Callable[[Columns], FloatArray]]] = {
    "score": lambda columns: columns.scores,
    "minmax": lambda columns: columns.unit,
    "percentile": lambda columns: columns.percentile,
    "rrf": _reciprocal,
    "borda": _borda,
    "retrieved": lambda columns: columns.retrieved,
}


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
    X = np.hstack([KINDS[kind](columns) for kind in kinds])
    if not keep_missing:
        if "score" in kinds and np.isnan(X).any():
            raise DataError("no number stands for a missing score; use scorer='additive', or another kind of features")
        np.nan_to_num(X, copy=False, nan=0.0)
    names = None if queries.feature_names is None else column_names(kinds, queries.feature_names)
    return queries.with_features(X, names)


def column_names(kinds: Iterable[str], runs: Sequence[str]) -> list[str]:
    """Names of the columns that `fusion_features` makes.

    >>> column_names(["rrf", "retrieved"], ["bm25", "dense"])
    ['rrf(bm25)', 'rrf(dense)', 'retrieved(bm25)', 'retrieved(dense)']
    """
    return [f"{kind}({run})" for kind in kinds for run in runs]


def parse_features(features: str) -> list[str]:
    """Read kinds of features, one or several with ``+``.

    >>> parse_features("rrf + retrieved")
    ['rrf', 'retrieved']
    >>> parse_features("rank")
    Traceback (most recent call last):
    ValueError: unknown kind of features 'rank'; known: score, minmax, percentile, rrf, borda, retrieved
    """
    kinds = [kind.strip().lower() for kind in features.split("+")]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of features {kind!r}; {suggest(kind, KINDS)}")
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"{features!r} names a kind twice; once is enough")
    return kinds
