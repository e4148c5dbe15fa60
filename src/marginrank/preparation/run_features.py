"""Scores or ranks of retrieval runs on a common scale, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from marginrank.errors import DataError, Parameter
from marginrank.preparation.scaling_formulas import to_percentiles, to_unit_range
from marginrank.runtime.text import suggest
from marginrank.runtime.threads import for_chunks
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: k of reciprocal rank fusion, as Cormack, Clarke and Büttcher (SIGIR 2009) fixed it.
RRF_K: Final = 60
#: Scores of a run are equal if they differ by no more than this share of the highest one, or by less than the smallest
#: difference: engines return float32, and `in_order` lowers equal scores by the least amount of a float64.
EQUAL_SHARE: Final = 1e-12
SMALLEST_DIFFERENCE: Final = 1e-290


class RunTable:
    """Scores of runs, NaN if a run did not return the document.

    >>> runs = RunTable(np.array([[30.0], [10.0], [np.nan]]), np.array([0, 3]))
    >>> runs.ranks.tolist(), runs.features(["percentile", "retrieved"], keep_missing=False).tolist()
    ([[1.0], [2.0], [nan]], [[0.75, 1.0], [0.25, 1.0], [0.0, 0.0]])

    Args:
        X: One row per document, one column per run.
        offsets: Start of each query among the rows grouped by query, and the number of documents.
        are_ranks: The columns hold ranks, 1 is best, instead of scores.
        order: The rows grouped by query; None if they are.
    """

    def __init__(self, X: AnyArray, offsets: IntArray, are_ranks: bool = False, order: IntArray | None = None) -> None:
        if np.isinf(X).any():
            raise DataError("a run has an infinite score; replace it, or leave the document out with NaN")
        if are_ranks and (X < 1).any():
            raise DataError(
                f"{np.nanmin(X):g} is not a rank; ranks begin at 1; for scores leave out ", Parameter("ranks", True)
            )
        self.X, self.offsets, self.are_ranks = X, offsets, are_ranks
        self._order: slice | IntArray = slice(None) if order is None else order

    def features(self, kinds: Sequence[str], *, keep_missing: bool) -> FloatArray:
        """Return the columns of all kinds, side by side; without ``keep_missing``, 0 for NaN."""
        columns = np.hstack([KINDS[kind](self) for kind in kinds])
        if not keep_missing:
            if "score" in kinds and np.isnan(columns).any():
                raise DataError(
                    "no number stands for a missing score; use ",
                    Parameter("scorer", "additive"),
                    ", or another kind of features",
                )
            np.nan_to_num(columns, copy=False, nan=0.0)
        return columns

    @cached_property
    def scores(self) -> FloatArray:
        """The scores, or the negated ranks."""
        X = np.asarray(self.X, dtype=np.float64)
        return -X if self.are_ranks else X

    @cached_property
    def retrieved(self) -> FloatArray:
        """1 if the run returned the document, else 0."""
        return (~np.isnan(self.scores)).astype(np.float64)

    @cached_property
    def unit(self) -> FloatArray:
        """Scores scaled to [0, 1] inside each query: the last document of a run has 0, as all have if equal.

        >>> RunTable(np.array([[5.0], [np.nextafter(5, 0)]]), np.array([0, 2])).unit.tolist()
        [[0.0], [0.0]]
        """
        unit = self._within(to_unit_range)
        unit[self.equal & (self.retrieved == 1)] = 0.0
        return unit

    @cached_property
    def percentile(self) -> FloatArray:
        """Percentile rank of each score among the documents that the run returned for the query."""
        return self._within(to_percentiles)

    @cached_property
    def computed_ranks(self) -> FloatArray:
        """Rank of each document among those of its run in these data, 1 is best; equal scores share the mean."""
        # Half ranks are exact in floating point, sums of percentiles are not.
        return np.rint(2 * (self.counts * (1 - self.percentile) + 0.5)) / 2

    @cached_property
    def ranks(self) -> FloatArray:
        """The given ranks, or else `computed_ranks`."""
        return -self.scores if self.are_ranks else self.computed_ranks

    @cached_property
    def sizes(self) -> FloatArray:
        """Number of documents of the query, in all runs together; a column with one number per document."""
        lengths, sizes = np.diff(self.offsets), np.empty((len(self.X), 1))
        sizes[self._order, 0] = np.repeat(lengths, lengths)
        return sizes

    @cached_property
    def best(self) -> FloatArray:
        """Highest score that each run gave to a document of the query; NaN if it returned none."""
        return self._within(_maxima)

    @cached_property
    def least(self) -> FloatArray:
        """Lowest score that each run gave to a document of the query; NaN if it returned none."""
        return -self._within(lambda scores, offsets: _maxima(-scores, offsets))

    @cached_property
    def equal(self) -> BoolArray:
        """Whether the scores of each run for the query are equal, as of a single document."""
        return np.asarray(self.best - self.least <= EQUAL_SHARE * np.abs(self.best) + SMALLEST_DIFFERENCE)

    @cached_property
    def last(self) -> BoolArray:
        """Whether each score is the lowest that the run gave to a document of the query, or equal to it."""
        return np.asarray(self.scores - self.least <= EQUAL_SHARE * np.abs(self.least) + SMALLEST_DIFFERENCE)

    @cached_property
    def counts(self) -> FloatArray:
        """Number of documents that each run returned for the query."""
        bounds, counts = self._bounds, np.empty(self.scores.shape)
        per_query = np.add.reduceat(self.retrieved[self._order], bounds[:-1], axis=0)
        counts[self._order] = np.repeat(per_query, np.diff(bounds), axis=0)
        return counts

    @cached_property
    def _bounds(self) -> IntArray:
        """Offsets without those of empty queries."""
        return np.unique(self.offsets)

    def _within(self, formula: Callable[[AnyArray, IntArray], FloatArray]) -> FloatArray:
        bounds, out = self._bounds, np.empty(self.scores.shape)

        def work(first: int, end: int) -> None:
            chunk = slice(bounds[first], bounds[end])
            rows = chunk if isinstance(self._order, slice) else self._order[chunk]
            out[rows] = formula(self.scores[rows], bounds[first : end + 1] - bounds[first])

        for_chunks(work, bounds)
        return out


def _reciprocal(runs: RunTable) -> FloatArray:
    """Return reciprocal ranks with 1 at the top, so that the same C suits all kinds."""
    return (RRF_K + 1) / (RRF_K + runs.ranks)


def _maxima(scores: AnyArray, offsets: IntArray) -> FloatArray:
    """Return the maximum of each column over the documents of a query, leaving out NaN.

    >>> _maxima(np.array([[1.0, np.nan], [3.0, np.nan]]), np.array([0, 2])).tolist()
    [[3.0, nan], [3.0, nan]]
    """
    return np.repeat(np.fmax.reduceat(scores, offsets[:-1], axis=0), np.diff(offsets), axis=0)


def _borda(runs: RunTable) -> FloatArray:
    return (runs.sizes - runs.computed_ranks + 1) / runs.sizes


#: Kinds of features by name.
KINDS: Final[Mapping[str, Callable[[RunTable], FloatArray]]] = {
    "score": lambda runs: runs.scores,
    "minmax": lambda runs: runs.unit,
    "percentile": lambda runs: runs.percentile,
    "rrf": _reciprocal,
    "borda": _borda,
    "retrieved": lambda runs: runs.retrieved,
    "best": lambda runs: runs.best,
}


def column_names(kinds: Iterable[str], runs: Sequence[str]) -> list[str]:
    """Return the names of the columns of `RunTable.features`.

    >>> column_names(["rrf", "retrieved"], ["bm25", "dense"])
    ['rrf(bm25)', 'rrf(dense)', 'retrieved(bm25)', 'retrieved(dense)']
    """
    return [f"{kind}({run})" for kind in kinds for run in runs]


def run_names(kinds: Sequence[str], columns: Sequence[str] | None, n_columns: int) -> list[str]:
    """Return the names of the runs that columns were made of; without names, ``run1`` and so on.

    >>> run_names(["rrf", "retrieved"], ["rrf(bm25)", "rrf(dense)", "retrieved(bm25)", "retrieved(dense)"], 4)
    ['bm25', 'dense']
    """
    n_runs = n_columns // len(kinds)
    if columns is None:
        return [f"run{number + 1}" for number in range(n_runs)]
    return [name.removeprefix(f"{kinds[0]}(")[:-1] for name in columns[:n_runs]]


def parse_features(features: str) -> list[str]:
    """Parse kinds of features, one or several with ``+``.

    >>> parse_features("rrf + retrieved")
    ['rrf', 'retrieved']
    >>> parse_features("rank")
    Traceback (most recent call last):
    ValueError: unknown kind of features 'rank'; known: score, minmax, percentile, rrf, borda, retrieved, best
    """
    kinds = [kind.strip().lower() for kind in features.split("+")]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of features {kind!r}; {suggest(kind, KINDS)}")
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"{features!r} names a kind twice; once is enough")
    return kinds
