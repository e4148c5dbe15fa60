"""The linear scorer: one weight per feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from marginrank.data.queries import Queries, feature_number
from marginrank.preparation.standardize import Standardize
from marginrank.scorers.base import PreparedScorer, Scorer
from marginrank.scorers.forms import Form
from marginrank.threads import CHUNKS, for_each
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

Rows: TypeAlias = Callable[[Any, Any, int, int], None]


@dataclass(frozen=True)
class Linear(Scorer):
    """One weight per feature: the score is X·w, for dense or sparse features.

    Args:
        nonnegative: True for weights that are not negative, or the features it holds for, by name or number.

    >>> queries = Queries.from_arrays([[1.0, 0.5], [0.0, 2.0]], [1, 0], group=[2])
    >>> Linear().prepare(queries).scores(np.array([2.0, -1.0])).tolist()
    [1.5, -2.0]
    """

    name = "linear"
    takes_sparse = True
    nonnegative: bool | Sequence[int | str] = False

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedLinear:  # noqa: ARG002
        """Prepare for scoring the documents of given queries."""
        return PreparedLinear(queries, self._signs(queries))

    def _signs(self, queries: Queries) -> IntArray | None:
        if self.nonnegative is False or self.nonnegative is None:
            return None
        signs = np.zeros(queries.n_features, dtype=np.int64)
        chosen = range(queries.n_features) if self.nonnegative is True else self.nonnegative
        for feature in chosen:
            signs[feature_number(feature, queries.n_features, queries.feature_names)] = 1
        return signs


@dataclass(frozen=True)
class Weights(Form):
    """Weights of features: the score is X·θ.

    >>> Weights(2).score(np.array([2.0, -1.0]), np.array([[1.0, 0.5]])).tolist()
    [1.5]
    """

    kind: ClassVar[str] = "linear"
    sized_by: ClassVar[str] = "weight"
    n_features: int

    @property
    def n_parameters(self) -> int:
        """One for each feature."""
        return self.n_features

    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents."""
        return linear_scores(X, theta, n_jobs)

    def contributions(self, theta: FloatArray, X: Features) -> FloatArray:
        """Return weight times value, for each document and feature."""
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64) * theta

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the weights."""
        return theta

    def arrays(self) -> dict[str, AnyArray]:
        """Return nothing: there is only θ."""
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:  # noqa: ARG003
        """Make weights for a number of features."""
        return cls(n_features)


class PreparedLinear(PreparedScorer):
    """Scores X·w of dense or sparse features."""

    def __init__(self, queries: Queries, signs: IntArray | None = None) -> None:
        X = queries.X
        self.queries = queries
        self.signs = signs
        self.form = Weights(queries.n_features)
        self.n_parameters = queries.n_features
        self.n_bytes = X.data.nbytes if sp.issparse(X) else queries.n_documents * queries.n_features * X.dtype.itemsize
        self._score, self._pull_back = _row_kernels(X)

    @cached_property
    def spread(self) -> float:  # type: ignore[override]
        """Root of the mean square distance of the documents from their mean."""
        return float(np.linalg.norm(Standardize().fit(self.queries).scale_))

    def table(self, theta: FloatArray) -> FloatArray:
        """Return the weights themselves."""
        return theta

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        self._score(table, scores, start, stop)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add Σ slope·row."""
        self._pull_back(slopes, cells, start, stop)

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Return the cells themselves."""
        return cells


def linear_scores(X: Features, w: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Scores X·w in float64, whatever the features are, without a copy of them.

    >>> linear_scores(np.array([[1.0, 2.0]], dtype=np.float32), np.array([0.5, 0.25])).tolist()
    [1.0]
    """
    n = X.shape[0]
    scores = np.empty(n)
    score, _ = _row_kernels(X)
    bounds = np.linspace(0, n, min(CHUNKS, n) + 1, dtype=np.int64).tolist()
    for_each(lambda start, stop: score(w, scores, start, stop), list(pairwise(bounds)), n_jobs)
    return scores


def _row_kernels(X: Features) -> tuple[Rows, Rows]:
    """Scores of rows, and slopes of rows back to weights, for the kind of features at hand."""
    from marginrank.scorers import linear_kernel as kernel  # noqa: PLC0415

    if sp.issparse(X):
        parts = X.data, X.indices, X.indptr
        return (
            lambda w, scores, start, stop: kernel.score_sparse_rows(*parts, w, scores, start, stop),
            lambda slopes, out, start, stop: kernel.add_sparse_rows(*parts, slopes, start, stop, out),
        )
    return (
        lambda w, scores, start, stop: kernel.score_rows(X, w, scores, start, stop),
        lambda slopes, out, start, stop: kernel.add_rows(X, slopes, start, stop, out),
    )
