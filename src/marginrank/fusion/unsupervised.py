"""Unsupervised fusions, and the best single run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.fusion.context import columns_of, parse_context
from marginrank.fusion.run_pool import RunScores, with_columns
from marginrank.preparation.run_features import RRF_K
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.typing import FloatArray


def rrf(queries: Queries, *, ranks: bool = False, k: float = RRF_K) -> FloatArray:
    """Compute reciprocal rank fusion: Σ 1 / (k + rank) over the runs that returned the document.

    Cormack, Clarke and Büttcher (SIGIR 2009).

    >>> queries = Queries.from_arrays([[9.0, np.nan], [8.0, 0.3]], [0, 0], group=[2], allow_nan=True)
    >>> rrf(queries).round(6).tolist()                      # 1/61, and 1/62 + 1/61
    [0.016393, 0.032522]
    """
    return np.asarray(np.nansum(1 / (k + RunScores(queries, ranks).ranks), axis=1))


def comb_sum(queries: Queries, *, ranks: bool = False) -> FloatArray:
    """Compute CombSUM: the sum of scores, scaled to [0, 1] by run and query. Fox and Shaw (TREC-2, 1993)."""
    return np.asarray(np.nansum(RunScores(queries, ranks).unit, axis=1))


def comb_mnz(queries: Queries, *, ranks: bool = False) -> FloatArray:
    """Compute CombMNZ: CombSUM times the number of runs that returned the document. Fox and Shaw (TREC-2, 1993).

    >>> queries = Queries.from_arrays([[9.0, 0.1], [8.0, np.nan], [5.0, 0.3]], [0] * 3, group=[3], allow_nan=True)
    >>> comb_sum(queries).tolist()
    [1.0, 0.75, 1.0]
    >>> comb_mnz(queries).tolist()
    [2.0, 0.75, 2.0]
    """
    columns = RunScores(queries, ranks)
    return np.asarray(np.nansum(columns.unit, axis=1) * columns.retrieved.sum(axis=1))


def borda(queries: Queries, *, ranks: bool = False) -> FloatArray:
    """Compute the Borda count: n − rank + 1 points among n documents; those not returned share the remaining points.

    Aslam and Montague (SIGIR 2001).

    >>> queries = Queries.from_arrays([[9.0], [np.nan], [8.0], [np.nan]], [0] * 4, group=[4], allow_nan=True)
    >>> borda(queries).tolist()                             # 4 and 3; (2 + 1) / 2 for the others
    [4.0, 1.5, 3.0, 1.5]
    """
    columns = RunScores(queries, ranks)
    points = columns.sizes - columns.computed_ranks + 1
    left_over = (columns.sizes - columns.counts + 1) / 2
    return np.asarray(np.where(columns.retrieved > 0, points, left_over).sum(axis=1))


#: Fusions by name.
UNSUPERVISED: Final[Mapping[str, Callable[..., FloatArray]]] = {
    "rrf": rrf,
    "combsum": comb_sum,
    "combmnz": comb_mnz,
    "borda": borda,
}


class UnsupervisedFusion(BaseEstimator):
    """An unsupervised fusion.

    >>> queries = Queries.from_arrays([[9.0, np.nan], [8.0, 0.3]], [0, 1], group=[2], allow_nan=True)
    >>> UnsupervisedFusion("combmnz").fit(queries).predict(queries).tolist()
    [1.0, 0.0]

    Args:
        method: ``rrf``, ``combsum``, ``combmnz`` or ``borda``.
        ranks: Whether the columns are ranks (1 is best) instead of scores.
        context: Columns that are no runs, but describe the query, as in `Fusion`; they are left out.
    """

    def __init__(self, method: str = "rrf", *, ranks: bool = False, context: str | Sequence[str] = ()) -> None:
        self.method = method
        self.ranks = ranks
        self.context = context

    def fit(self, train: Queries, valid: Queries | None = None) -> Self:  # noqa: ARG002
        """Do nothing; for use in place of a `Fusion`."""
        return self

    def predict(self, queries: Queries) -> FloatArray:
        """Return one score per row; higher is better."""
        if self.method not in UNSUPERVISED:
            raise ValueError(f"unknown fusion {self.method!r}; known: {', '.join(UNSUPERVISED)}")
        return UNSUPERVISED[self.method](_runs(queries, self.context), ranks=self.ranks)


class BestRun(BaseEstimator):
    """The run that is best on the training queries; documents that it did not return are ranked last.

    Args:
        measure: The measure to choose by.
        ranks: Whether the columns are ranks (1 is best) instead of scores.
        policy: How ties and queries without relevant documents are scored.
        context: Columns that are no runs, but describe the query, as in `Fusion`; they are left out.

    Attributes:
        run_: Index of the run.
        means_: Mean of every run on the training queries.
    """

    run_: int
    means_: FloatArray

    def __init__(
        self,
        measure: str = DEFAULT_MEASURE,
        *,
        ranks: bool = False,
        policy: str = "standard",
        context: str | Sequence[str] = (),
    ) -> None:
        self.measure = measure
        self.ranks = ranks
        self.policy = policy
        self.context = context

    def fit(self, train: Queries, valid: Queries | None = None) -> Self:
        """Find the best run on the training and validation queries."""
        both = train if valid is None else Queries.concatenate([train, valid])
        scores = self._by_run(both)
        means = [evaluate(both, column, self.measure, policy=self.policy).mean[self.measure] for column in scores.T]
        if np.isnan(means).all():
            raise DataError("no training query has a relevant document; give more queries")
        self.means_, self.run_ = np.array(means), int(np.argmax(means))
        return self

    def predict(self, queries: Queries) -> FloatArray:
        """Return one score per row; higher is better."""
        check_is_fitted(self)
        return self._by_run(queries)[:, self.run_]

    def _by_run(self, queries: Queries) -> FloatArray:
        """Return scores in the order of each run, 0 and so last for documents that it did not return."""
        return np.nan_to_num(RunScores(_runs(queries, self.context), self.ranks).percentile, nan=0.0)


def _runs(queries: Queries, context: str | Sequence[str]) -> Queries:
    """Return queries without the columns that are no runs."""
    if not columns_of(context):
        return queries
    names = queries.feature_names or ()
    _, given = parse_context(context, names)
    return with_columns(queries, [name for name in names if name not in given])
