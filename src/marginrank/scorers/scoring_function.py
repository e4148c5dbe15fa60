"""The scoring function of a model: fill missing values, scale, add the terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from marginrank.data.column_roles import column_names
from marginrank.errors import DataError, NumericalError, Parameter, ParameterError
from marginrank.preparation.run_features import RunTable, parse_features, run_names
from marginrank.preparation.scaling_formulas import BY_QUERY, standardized, unscaled_weights
from marginrank.runtime.text import feature_labels, feature_named, listed
from marginrank.scorers.form import Form
from marginrank.scorers.terms import LinearTerm, Term, add_terms, score_blocks
from marginrank.typing import AnyArray, FloatArray, IntArray


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
        names: Names of the features.
        terms: The terms of the score.
        scaling: Name of the scaling; None if there is none.
        mean: Means of the features, for the scaling ``standard``.
        scale: Standard deviations of the features, 0 for constant ones.
        takes_nan: Whether features may be NaN.
        nan_advice: Advice if they may not.
        value_types: By name, ``bool`` for features that were 0 or 1 in training, which a table may have as true and
            false, and ``int`` for those that were whole numbers.
        header: The header of the model file.
    """

    names: tuple[str, ...]
    terms: tuple[Term, ...]
    scaling: str | None = None
    mean: FloatArray | None = None
    scale: FloatArray | None = None
    takes_nan: bool = False
    nan_advice: str = Form.nan_advice
    value_types: Mapping[str, type] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: ModelArrays, header: Mapping[str, Any]) -> ScoringFunction:
        """Build the function of a model."""
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
        """Names of the inputs: the features or, for a fusion, the runs."""
        return self.names

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.names)

    @property
    def takes_missing(self) -> bool:
        """Whether inputs may be NaN."""
        return self.takes_nan

    @property
    def needs_queries(self) -> bool:
        """Whether scores depend on which documents belong to the same query."""
        return self.scaling in BY_QUERY

    @cached_property
    def raw_fill(self) -> FloatArray | None:
        """Value of each feature that replaces NaN before scaling; None to keep NaN."""
        fills = [term.raw_fill for term in self.terms if isinstance(term, LinearTerm) and term.raw_fill is not None]
        return fills[0] if fills else None

    def score(self, features: npt.ArrayLike | Mapping[str, Any], group: Sequence[int] | None = None) -> FloatArray:
        """Return the score of each document, in the order given; higher is better. Compare scores within a query only.

        Args:
            features: One row per document, or a frame or a mapping with a column of values for each feature, by name.
            group: Number of consecutive rows of each query; by default all rows are of one query.
        """
        X = self._features(features)
        offsets = _offsets(len(X), group)
        return self.score_rows(self._model_features(X, offsets), offsets, n_jobs=1)

    def score_rows(
        self,
        X: AnyArray,
        offsets: IntArray,
        n_jobs: int | None = None,
        *,
        compiled: bool = False,
        refuse: Callable[[], None] | None = None,
    ) -> FloatArray:
        """Return the score of each row of features.

        Args:
            X: Features, one row per document.
            offsets: First row of each query, and the number of rows; no query is empty.
            n_jobs: Number of threads; all cores by default.
            compiled: Whether compiled functions may score many rows; they need Numba, and scores have the same bits.
            refuse: Function that raises an error about the first value that the model does not accept.
        """
        terms, mean, scale = self._scored
        add = add_terms(terms, X, compiled=compiled)

        def check(start: int, rows: AnyArray) -> None:
            if refuse is not None and not self._accepts(rows):
                refuse()
            self._check_finite(rows, start)

        def score(start: int, rows: AnyArray) -> FloatArray:
            if not self._propagates_nan:
                check(start, rows)
            scores = add(self._scaled(rows, offsets, start, mean, scale))
            if not np.isfinite(scores).all():
                check(start, rows)
                check_scores(scores, start)
            return scores

        return score_blocks(score, X, n_jobs, offsets if self.needs_queries else None)

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
        offsets = _offsets(len(X), group)
        scaled = self.scale_rows(self._model_features(X, offsets), offsets)
        contributions = np.zeros((len(chosen), self.n_features))
        for start, end in pairwise(offsets.tolist()):
            inside = (chosen >= start) & (chosen < end)
            if inside.any():
                contributions[inside] = self.contributions(scaled[chosen[inside]], scaled[start:end])
        return contributions

    def scale_rows(self, X: FloatArray, offsets: IntArray) -> FloatArray:
        """Return features filled and scaled."""
        self._check_finite(X)
        return self._scaled(X, offsets, 0, self.mean, self.scale)

    def contributions(self, scaled: FloatArray, references: FloatArray) -> FloatArray:
        """Return the contribution of each feature, relative to the mean of the references, for each row of features."""
        return reduce(np.add, (term.contributions(scaled, references) for term in self.terms))

    def rerank(self, query_features: npt.ArrayLike | Mapping[str, Any], k: int | None = None) -> Ranking:
        """Return the rows and scores of the documents of one query, best first; equal scores keep their order.

        Args:
            query_features: One row per document, or a frame or a mapping with a column of values for each feature.
            k: Number of documents; all by default.
        """
        if k is not None and (not isinstance(k, int | np.integer) or k < 1):
            raise ParameterError(Parameter("k"), f" is {k}; rank a whole number of documents, at least one")
        scores = self.score(query_features)
        rows = (-scores).argsort(kind="stable")[:k]
        return Ranking(rows, scores[rows])

    def _features(self, features: Any) -> FloatArray:
        names = self._columns_of(features)
        absent = [] if names is None else [name for name in self.inputs if name not in names]
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
        """Return the names of named columns; None for rows, and if the model has no names."""
        if isinstance(features, Mapping):
            return features.keys()
        return None if self.header.get("feature_names", self.names) is None else column_names(features)

    def _model_features(self, X: FloatArray, offsets: IntArray) -> FloatArray:  # noqa: ARG002
        """Return the features of the model, given its inputs."""
        return X

    @cached_property
    def _scored(self) -> tuple[tuple[Term, ...], FloatArray | None, FloatArray | None]:
        """The terms, mean and scale for computing scores.

        A linear term includes the scaling: w·(x − mean)/scale is (w/scale)·(x − mean), which saves a division.
        """
        (term, *others), mean, scale = self.terms, self.mean, self.scale
        if others or not isinstance(term, LinearTerm) or mean is None or scale is None:
            return self.terms, mean, scale
        with np.errstate(over="ignore"):
            weights = unscaled_weights(term.weights, scale)
        if not np.isfinite(weights).all():
            return self.terms, mean, scale
        return (term.with_origin(mean, weights),), None, None

    @cached_property
    def _propagates_nan(self) -> bool:
        """Whether a value that the model does not accept makes the score infinite or NaN."""
        linear = all(isinstance(term, LinearTerm) and term.fill is None for term in self.terms)
        return linear and not self.needs_queries

    def _accepts(self, X: AnyArray) -> bool:
        """Return whether the model accepts all values: none is infinite, and none missing unless it may be."""
        return bool(np.isfinite(X).all() or (self.takes_nan and not np.isinf(X).any()))

    def _check_finite(self, X: AnyArray, start: int = 0) -> None:
        """Refuse rows, from `start` on, with a value that the model does not accept, and name the first."""
        if self._accepts(X):
            return
        bad = np.isinf(X) if self.takes_nan else ~np.isfinite(X)
        row, column = (int(at) for at in np.argwhere(bad)[0])
        advice = self.nan_advice if np.isnan(X[row, column]) else "replace it"
        raise DataError(f"document {start + row}: {feature_named(self.names[column])} is {X[row, column]}; {advice}")

    def _scaled(
        self, rows: AnyArray, offsets: IntArray, start: int, mean: FloatArray | None, scale: FloatArray | None
    ) -> AnyArray:
        """Return some rows of features, from `start` on, filled and scaled."""
        if self.raw_fill is not None:
            rows = np.where(np.isnan(rows), self.raw_fill, rows)
        if self.scaling is not None and self.scaling in BY_QUERY and len(rows):
            inside = offsets[(offsets >= start) & (offsets <= start + len(rows))] - start
            return _scaled_by_query(np.asarray(rows, dtype=np.float64), self.scaling, inside, self.names)
        return rows if mean is None or scale is None else standardized(rows, mean, scale)


@dataclass(frozen=True, eq=False)
class FusedFunction(ScoringFunction):
    """A fusion of runs: columns such as ``minmax(bm25)`` are made of the scores of runs, and then scored.

    Inputs are one row per document with the score of each run, NaN if the run did not return the document.

    Args:
        kinds: Kinds of features, as `marginrank.fusion.fusion_features` makes them.
        runs: Names of the runs.
        context: Names of columns beside the runs that describe the query.
        are_ranks: The runs give ranks, 1 is best, instead of scores.
        depth: Most documents that a run returned for a training query; None if that is not known.
    """

    kinds: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    are_ranks: bool = False
    depth: int | None = None

    @classmethod
    def of_columns(
        cls,
        function: ScoringFunction,
        features: str,
        context: Sequence[str] = (),
        *,
        are_ranks: bool = False,
        depth: int | None = None,
    ) -> Self:
        """Build a fusion from the function of its columns, and the kinds of these, such as ``minmax+retrieved``."""
        kinds, n_columns = parse_features(features), function.n_features - len(context)
        if n_columns <= 0 or n_columns % len(kinds):
            raise ValueError(f"{n_columns} columns are not {features} of some runs")
        names = function.header["feature_names"]
        if list(context) != list(() if names is None else names)[n_columns:]:
            raise ValueError(f"the last columns are not {listed(context, 5)}")
        runs = run_names(kinds, names, n_columns)
        return cls(
            **vars(replace(function)),
            kinds=tuple(kinds),
            runs=tuple(runs),
            context=tuple(context),
            are_ranks=are_ranks,
            depth=depth,
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the runs, and of the columns that describe the query."""
        return (*self.runs, *self.context)

    @property
    def keep_missing(self) -> bool:
        """Whether documents that a run did not return have NaN; otherwise they have 0."""
        return self.takes_nan

    @property
    def takes_missing(self) -> bool:
        """Whether a run may leave documents out."""
        return self.takes_nan or "score" not in self.kinds

    def _model_features(self, X: FloatArray, offsets: IntArray) -> FloatArray:
        if not len(X):
            return np.zeros((0, self.n_features))
        from marginrank.data.inputs import FeatureError  # noqa: PLC0415

        with np.errstate(invalid="ignore"):
            runs = RunTable(X, offsets, self.are_ranks, n_context=len(self.context))
            try:
                return runs.features(self.kinds, keep_missing=self.keep_missing, with_context=True)
            except FeatureError as error:
                raise error.named(self.inputs) from None


class Ranking(NamedTuple):
    """Documents of one query, best first: their rows and their scores."""

    rows: npt.NDArray[np.int64]
    scores: FloatArray


class ModelArrays(NamedTuple):
    """The checked content of a model file that scores depend on."""

    form: Form
    theta: FloatArray
    n_features: int
    feature_names: tuple[str, ...] | None
    first_feature: int
    scaling: str | None
    learned: dict[str, FloatArray]


def check_scores(scores: FloatArray, start: int = 0) -> FloatArray:
    """Return the scores of documents, from `start` on, and refuse those that are not finite."""
    if not np.isfinite(scores).all():
        at = int(np.argmin(np.isfinite(scores)))
        raise NumericalError(f"document {start + at} has score {scores[at]}; its features are too large for this model")
    return scores


def _offsets(n: int, group: Sequence[int] | None) -> IntArray:
    """Return the first row of each query that is not empty, and the number of rows."""
    if group is None:
        return np.array([0, n] if n else [0], dtype=np.int64)
    sizes = [int(size) for size in group]
    if sum(sizes) != n or min(sizes, default=0) < 0:
        raise DataError(f"group has {sum(sizes)} documents for {n} rows; give the number of each query")
    return np.array([0, *accumulate(size for size in sizes if size)], dtype=np.int64)


def _scaled_by_query(X: FloatArray, scaling: str, offsets: IntArray, names: Sequence[str]) -> FloatArray:
    try:
        return BY_QUERY[scaling](X, offsets)
    except DataError as error:
        from marginrank.data.inputs import FeatureError  # noqa: PLC0415

        raise error.named(names) if isinstance(error, FeatureError) else error from None
