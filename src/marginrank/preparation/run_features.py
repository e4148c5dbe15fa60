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
#: Rank of the score that `RunTable.gap` compares the best with.
FIFTH: Final = 5
#: Number of documents of each run that `RunTable.overlap` compares.
TOP: Final = 10


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
        n_context: Number of columns at the end that are no runs, but describe the query.
    """

    def __init__(
        self,
        X: AnyArray,
        offsets: IntArray,
        are_ranks: bool = False,
        order: IntArray | None = None,
        n_context: int = 0,
    ) -> None:
        n_runs = X.shape[1] - n_context
        X, self._given = X[:, :n_runs], X[:, n_runs:]
        if np.isinf(X).any():
            raise DataError("a run has an infinite score; replace it, or leave the document out with NaN")
        if are_ranks and (X < 1).any():
            raise DataError(
                f"{np.nanmin(X):g} is not a rank; ranks begin at 1; for scores leave out ", Parameter("ranks", True)
            )
        self.X, self.offsets, self.are_ranks = X, offsets, are_ranks
        self._order: slice | IntArray = slice(None) if order is None else order

    def features(self, kinds: Sequence[str], *, keep_missing: bool, with_context: bool = False) -> FloatArray:
        """Return the columns of all kinds, side by side, then the context; without ``keep_missing``, 0 for NaN."""
        columns = np.hstack([*(KINDS[kind](self) for kind in kinds), *([self.context] if with_context else [])])
        if not keep_missing:
            if "score" in kinds and np.isnan(columns).any():
                raise DataError(
                    "no number stands for a missing score; use ",
                    Parameter("scorer", "additive"),
                    ", or another kind of features",
                )
            np.nan_to_num(columns, copy=False, nan=0.0)
        return columns

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return int(self.X.shape[1])

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
    def context(self) -> FloatArray:
        """The columns that describe the query; documents may leave a value out that others of the query have."""
        context = self._within(_maxima, self._given)
        missing, differ = ~np.isfinite(context), self._given < context
        if missing.any() or differ.any():
            from marginrank.data.inputs import FeatureError  # noqa: PLC0415

            problem = (
                "is missing or infinite in a query; replace it"
                if missing.any()
                else "is not the same for all documents of a query"
            )
            column = self.n_runs + int(np.argwhere(missing if missing.any() else differ)[0, 1])
            raise FeatureError(f"{{feature}} {problem}, as weights depend on it", column)
        return context

    @cached_property
    def best(self) -> FloatArray:
        """Highest score that each run gave to a document of the query; NaN if it returned none."""
        return self._within(_maxima)

    @cached_property
    def least(self) -> FloatArray:
        """Lowest score that each run gave to a document of the query; NaN if it returned none."""
        return -self._within(lambda scores, offsets: _maxima(-scores, offsets))

    @cached_property
    def gap(self) -> FloatArray:
        """Highest score of each run for the query less its fifth highest, or less its lowest if there are fewer."""
        return self._within(_gaps)

    @cached_property
    def peak(self) -> FloatArray:
        """Standard deviations from the mean score of each run for the query to its highest score.

        >>> RunTable(np.array([[9.0], [7.0], [5.0], [3.0]]), np.array([0, 4])).peak[0].round(4).tolist()  # 3 / √5
        [1.3416]
        """
        # It does not depend on the scale, and distances from the top between 0 and 1 cannot underflow when squared.
        below = 1.0 - self.unit
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, square = (self._sums(np.nan_to_num(one)) / self.counts for one in (below, below**2))
            return np.asarray(np.where(self.equal, 0.0, mean / np.sqrt(square - mean**2)))

    @cached_property
    def overlap(self) -> FloatArray:
        """Mean share of the ten best documents of each run that the ten best of another run include.

        >>> runs = RunTable(np.array([[3.0, np.nan, 5.0], [2.0, 0.9, np.nan]]), np.array([0, 2]))
        >>> runs.overlap[0].tolist()
        [0.5, 0.5, 0.5]
        """
        top = self.computed_ranks <= TOP
        n_runs = top.shape[1]
        shared = top * (top.sum(axis=1, keepdims=True) - 1.0)
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sums(shared) / self._sums(top) / max(n_runs - 1, 1))

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
        return self._sums(self.retrieved)

    def _sums(self, columns: AnyArray) -> FloatArray:
        """Return the sum of each column over the documents of a query."""
        bounds, sums = self._bounds, np.empty(columns.shape)
        per_query = np.add.reduceat(columns[self._order], bounds[:-1], axis=0)
        sums[self._order] = np.repeat(per_query, np.diff(bounds), axis=0)
        return sums

    @cached_property
    def _bounds(self) -> IntArray:
        """Offsets without those of empty queries."""
        return np.unique(self.offsets)

    def _within(
        self, formula: Callable[[AnyArray, IntArray], FloatArray], columns: AnyArray | None = None
    ) -> FloatArray:
        """Compute a formula of the scores, or of other columns, query by query."""
        columns = self.scores if columns is None else columns
        bounds, out = self._bounds, np.empty(columns.shape)

        def work(first: int, end: int) -> None:
            chunk = slice(bounds[first], bounds[end])
            rows = chunk if isinstance(self._order, slice) else self._order[chunk]
            out[rows] = formula(columns[rows], bounds[first : end + 1] - bounds[first])

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


def _gaps(scores: AnyArray, offsets: IntArray) -> FloatArray:
    """Return the maximum less the fifth largest value of each column, or less the smallest of fewer.

    >>> _gaps(np.array([[9.0, np.nan], [7.0, 4.0], [3.0, np.nan]]), np.array([0, 3])).tolist()
    [[6.0, 0.0], [6.0, 0.0], [6.0, 0.0]]
    """
    lengths = np.diff(offsets)
    query = np.repeat(np.arange(len(lengths)), lengths)
    gaps = np.empty((len(lengths), scores.shape[1]))
    for column, values in enumerate(np.asarray(scores, dtype=np.float64).T):
        # NaN is sorted last.
        ordered = values[np.lexsort((-values, query))]
        known = np.add.reduceat(~np.isnan(values), offsets[:-1], dtype=np.int64)
        gaps[:, column] = ordered[offsets[:-1]] - ordered[offsets[:-1] + np.clip(known - 1, 0, FIFTH - 1)]
    return np.repeat(gaps, lengths, axis=0)


def _borda(runs: RunTable) -> FloatArray:
    return (runs.sizes - runs.computed_ranks + 1) / runs.sizes


#: Kinds that describe the query, not the document: context that weights may depend on.
CONTEXT_KINDS: Final = ("best", "gap", "peak", "overlap", "count")
#: Kinds of features by name.
KINDS: Final[Mapping[str, Callable[[RunTable], FloatArray]]] = {
    "score": lambda runs: runs.scores,
    "minmax": lambda runs: runs.unit,
    "percentile": lambda runs: runs.percentile,
    "rrf": _reciprocal,
    "borda": _borda,
    "retrieved": lambda runs: runs.retrieved,
    "best": lambda runs: runs.best,
    "gap": lambda runs: runs.gap,
    "peak": lambda runs: runs.peak,
    "overlap": lambda runs: runs.overlap,
    "count": lambda runs: runs.counts,
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
    >>> parse_features("rank")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: unknown kind of features 'rank'; known: score, minmax, percentile, rrf, borda, retrieved, best,
    gap, peak, overlap, count
    """
    kinds = [kind.strip().lower() for kind in features.split("+")]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of features {kind!r}; {suggest(kind, KINDS)}")
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"{features!r} names a kind twice; once is enough")
    return kinds
