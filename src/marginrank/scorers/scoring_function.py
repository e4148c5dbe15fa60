"""Scoring functions of models: fill missing values, scale, add terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from marginrank.data.column_roles import column_names
from marginrank.errors import DataError, NumericalError
from marginrank.preparation.run_features import RunTable, parse_features, run_names
from marginrank.preparation.scaling_formulas import BY_QUERY, standardized, unscaled_weights
from marginrank.runtime.text import feature_labels, feature_named
from marginrank.scorers.form import Form
from marginrank.scorers.terms import LinearTerm, Term
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ScoringFunction:
    """A scoring function: missing values are filled, features scaled, and the terms of the model added up.

    >>> empty = np.zeros(0, dtype=np.int64)
    >>> model = ScoringFunction(("bm25", "clicks"), (LinearTerm(np.array([1.0, 2.0]), None, None, empty, empty),))
    >>> model.score([[0.5, 1.0], [3.0, 0.0]]).tolist()
    [2.5, 3.0]
    >>> model.rerank({"clicks": [1.0, 0.0, 4.0], "bm25": [0.5, 3.0, 0.0]}, k=2).rows.tolist()
    [2, 1]

    Args:
        names: What the features are called.
        terms: What adds up to the score.
        scaling: Name of the scaling; None if there is none.
        mean: Means of the features, for the scaling ``standard``.
        scale: Standard deviations of the features, 0 where they are constant.
        takes_nan: Whether features may be NaN.
        nan_advice: The way out where they may not.
        header: Everything else that the model file says, as plain values.
    """

    names: tuple[str, ...]
    terms: tuple[Term, ...]
    scaling: str | None = None
    mean: FloatArray | None = None
    scale: FloatArray | None = None
    takes_nan: bool = False
    nan_advice: str = Form.nan_advice
    header: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: ModelArrays, header: Mapping[str, Any]) -> ScoringFunction:
        """Make a function of the parts of a model."""
        form, learned = parts.form, parts.learned
        return cls(
            names=feature_labels(parts.feature_names, parts.n_features, parts.first_feature),
            terms=form.terms(parts.theta),
            scaling=parts.scaling,
            mean=learned.get("mean_"),
            scale=learned.get("scale_"),
            takes_nan=form.takes_nan,
            nan_advice=form.nan_advice,
            header=header,
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the values that are scored are called: the features or, of a fusion, the runs."""
        return self.names

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.names)

    @property
    def takes_missing(self) -> bool:
        """Whether values that are scored may be NaN."""
        return self.takes_nan

    @property
    def needs_queries(self) -> bool:
        """Whether scores depend on which documents belong to the same query."""
        return self.scaling in BY_QUERY

    @cached_property
    def raw_fill(self) -> FloatArray | None:
        """What replaces NaN of each feature before scaling; None if nothing does."""
        fills = [term.raw_fill for term in self.terms if isinstance(term, LinearTerm) and term.raw_fill is not None]
        return fills[0] if fills else None

    def score(self, features: npt.ArrayLike | Mapping[str, Any], group: Sequence[int] | None = None) -> FloatArray:
        """Return the score of each document, in the order given; higher is better. Compare scores within a query only.

        Args:
            features: One row per document, or a frame or a mapping with a column of values for each feature, by name.
            group: Number of consecutive rows of each query; by default all rows are of one query.
        """
        X = self._features(features)
        if group is not None:
            # Most models score documents one by one, and would not notice sizes that are wrong.
            _offsets(len(X), group)
        return self._scores(X, group)

    def _scores(self, X: FloatArray, group: Sequence[int] | None) -> FloatArray:
        if self._straight is not None:
            scores = self._straight(X)
            # Whatever is not finite leaves its mark on a sum.
            if np.isfinite(scores).all():
                return scores
        self._check_finite(X)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self._scaled(X, group)
            scores = self.terms[0].score(scaled)
            for term in self.terms[1:]:
                scores = scores + term.score(scaled)
        if not np.isfinite(scores).all():
            at = int(np.argmin(np.isfinite(scores)))
            raise NumericalError(f"document {at} has score {scores[at]}; its features are too large for this model")
        return scores

    def explain(
        self,
        features: npt.ArrayLike | Mapping[str, Any],
        group: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> FloatArray:
        """Return the contribution of each feature to the score of each document, as documents × features.

        Each row sums to the score of the document minus the mean score of its query, as in
        `marginrank.model.model.Model.explain`. Trees are explained by a compiled function, which needs Numba.

        >>> empty = np.zeros(0, dtype=np.int64)
        >>> model = ScoringFunction(("bm25", "clicks"), (LinearTerm(np.array([1.0, 2.0]), None, None, empty, empty),))
        >>> model.explain([[0.5, 1.0], [3.0, 0.0]]).tolist()                  # means are 1.75 and 0.5
        [[-1.25, 1.0], [1.25, -1.0]]

        Args:
            features: One row per document, or a column of values for each feature, by name.
            group: Number of consecutive rows of each query; by default all rows are of one query.
            rows: Documents to explain; all by default.

        Raises:
            TypeError: The scores are not sums over features, such as those of a kernel or a network.
        """
        X = self._features(features)
        chosen = np.arange(len(X)) if rows is None else np.asarray(rows, dtype=np.int64)
        outside = (chosen < 0) | (chosen >= len(X))
        if outside.any():
            raise DataError(f"rows has {chosen[outside][0]}; {len(X)} documents are numbered from 0 to {len(X) - 1}")
        return self._contributions(X, group, chosen)

    def _contributions(self, X: FloatArray, group: Sequence[int] | None, rows: IntArray) -> FloatArray:
        self._check_finite(X)
        scaled = self._scaled(X, group)
        parts = np.zeros((len(rows), self.n_features))
        for start, end in pairwise(_offsets(len(X), group)):
            inside = (rows >= start) & (rows < end)
            for term in self.terms if inside.any() else ():
                parts[inside] += term.contributions(scaled[rows[inside]], scaled[start:end])
        return parts

    def rerank(self, query_features: npt.ArrayLike | Mapping[str, Any], k: int | None = None) -> Ranking:
        """Return the rows and scores of the documents of one query, best first; equal scores keep their order.

        Args:
            query_features: One row per document, or a frame or a mapping with a column of values for each feature.
            k: How many; all by default.
        """
        if k is not None and (not isinstance(k, int | np.integer) or k < 1):
            raise ValueError(f"k is {k}; rank a whole number of documents, at least one")
        scores = self.score(query_features)
        rows = np.argsort(-scores, kind="stable")[:k]
        return Ranking(rows, scores[rows])

    def _features(self, features: Any) -> FloatArray:
        names = self._columns_of(features)
        absent = [name for name in self.inputs if names is not None and name not in names]
        if absent:
            raise DataError(f"there is no {feature_named(absent[0])}; the model needs {', '.join(self.inputs)}")
        try:
            if names is not None:
                features = np.column_stack([np.asarray(features[name], dtype=np.float64) for name in self.inputs])
            X = np.ascontiguousarray(features, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                "features are not numbers of one length; give one row per document, or a column of numbers for each "
                "feature; for Queries, give their X and group=lengths"
            ) from None
        if X.ndim != 2 or X.shape[1] != len(self.inputs):
            raise DataError(f"features have shape {X.shape}; give one row per document and {len(self.inputs)} columns")
        return X

    def _columns_of(self, features: Any) -> Collection[str] | None:
        """Return the names of columns that are given by name; None for rows, and where the model has no names."""
        if isinstance(features, Mapping):
            return features.keys()
        return None if self.header.get("feature_names", self.names) is None else column_names(features)

    @cached_property
    def _straight(self) -> Callable[[FloatArray], FloatArray] | None:
        """Score linear models without fills in as few steps as there are; None for others."""
        term = self.terms[0]
        if len(self.terms) > 1 or not isinstance(term, LinearTerm) or self.takes_nan or self.needs_queries:
            return None
        if self.mean is None or self.scale is None:
            return term.score
        mean, weights = self.mean, unscaled_weights(term.weights, self.scale)

        def score(X: FloatArray) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):
                centred = X - mean
                centred *= weights
                return np.asarray(centred.sum(axis=1))

        return score

    def _check_finite(self, X: FloatArray) -> None:
        """Refuse infinite values, and missing ones where the model takes none."""
        bad = np.isinf(X) if self.takes_nan else ~np.isfinite(X)
        if bad.any():
            row, column = (int(at) for at in np.argwhere(bad)[0])
            advice = self.nan_advice if np.isnan(X[row, column]) else "replace it"
            raise DataError(f"document {row}: {feature_named(self.names[column])} is {X[row, column]}; {advice}")

    def _scaled(self, X: FloatArray, group: Sequence[int] | None) -> FloatArray:
        if self.raw_fill is not None:
            X = np.where(np.isnan(X), self.raw_fill, X)
        if self.scaling is not None and self.scaling in BY_QUERY:
            return _scaled_by_query(X, self.scaling, _offsets(len(X), group), self.names)
        if self.scale is None or self.mean is None:
            return X
        return standardized(X, self.mean, self.scale)


@dataclass(frozen=True, eq=False)
class FusedFunction(ScoringFunction):
    """A fusion of runs: columns such as ``minmax(bm25)`` are made of the scores of runs, and then scored.

    What is scored is one row per document with the score of each run, NaN where a run did not return it.

    Args:
        kinds: Kinds of features, as `marginrank.fusion.fusion_features` makes them.
        runs: What the runs are called.
        are_ranks: The runs give ranks, 1 is best, instead of scores.
    """

    kinds: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    are_ranks: bool = False

    @classmethod
    def of_columns(cls, function: ScoringFunction, features: str, *, are_ranks: bool = False) -> Self:
        """Make a fusion of the function of its columns, and what they are, such as ``minmax+retrieved``."""
        kinds = parse_features(features)
        if function.n_features % len(kinds):
            raise ValueError(f"{function.n_features} columns are not {features} of some runs")
        runs = run_names(kinds, function.header["feature_names"], function.n_features)
        return cls(**vars(replace(function)), kinds=tuple(kinds), runs=tuple(runs), are_ranks=are_ranks)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the runs are called."""
        return self.runs

    @property
    def keep_missing(self) -> bool:
        """Whether NaN is left for documents that a run did not return; otherwise they have 0."""
        return self.takes_nan

    @property
    def takes_missing(self) -> bool:
        """Whether a run may leave documents out."""
        return self.takes_nan or "score" not in self.kinds

    def _scores(self, X: FloatArray, group: Sequence[int] | None) -> FloatArray:
        return super()._scores(self._columns(X, group), group)

    def _contributions(self, X: FloatArray, group: Sequence[int] | None, rows: IntArray) -> FloatArray:
        return super()._contributions(self._columns(X, group), group, rows)

    def _columns(self, X: FloatArray, group: Sequence[int] | None) -> FloatArray:
        if not len(X):
            return np.zeros((0, self.n_features))
        offsets = np.array(_offsets(len(X), group))
        with np.errstate(invalid="ignore"):
            return RunTable(X, offsets, self.are_ranks).features(self.kinds, keep_missing=self.keep_missing)


class Ranking(NamedTuple):
    """Documents of one query, best first: their rows and their scores."""

    rows: npt.NDArray[np.int64]
    scores: FloatArray


class ModelArrays(NamedTuple):
    """What a model file says about scores, checked."""

    form: Form
    theta: FloatArray
    n_features: int
    feature_names: tuple[str, ...] | None
    first_feature: int
    scaling: str | None
    learned: dict[str, FloatArray]


def _offsets(n: int, group: Sequence[int] | None) -> list[int]:
    """Return where queries begin, without empty ones, and the number of rows."""
    sizes = [n] if group is None else [int(size) for size in group]
    if sum(sizes) != n or min(sizes, default=0) < 0:
        raise DataError(f"group has {sum(sizes)} documents for {n} rows; give the number of each query")
    return [0, *accumulate(size for size in sizes if size)]


def _scaled_by_query(X: FloatArray, scaling: str, offsets: list[int], names: Sequence[str]) -> FloatArray:
    if not len(X):
        return X
    try:
        return BY_QUERY[scaling](X, np.array(offsets))
    except DataError as error:
        from marginrank.data.inputs import FeatureError  # noqa: PLC0415

        raise error.named(names) if isinstance(error, FeatureError) else error from None
