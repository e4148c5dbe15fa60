"""The model: a trained ranker that scores, explains, describes and saves itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.fingerprint import fingerprint
from marginrank.data.grouping import group_rows
from marginrank.data.inputs import refuse_other_columns
from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.data.queries import Queries, check_finite
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.model.feature_quantiles import FeatureQuantiles, feature_quantiles
from marginrank.model.file_format import (
    check_certificate,
    check_counts,
    check_record,
    check_selection,
    check_theta,
    read_model,
    reading_model,
    write_model,
)
from marginrank.model.scoring import SCALER, read_parts
from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.scaling import SCALINGS
from marginrank.preparation.scaling_formulas import LEARNED
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import take_rows
from marginrank.runtime.text import ResultTable, count, data_frame, feature_labels, plain
from marginrank.scorers.adaptive.form import AdaptiveForm
from marginrank.scorers.adaptive.query_weights import QueryWeights
from marginrank.scorers.additive.form import AdditiveForm, Shape
from marginrank.scorers.form import Form
from marginrank.scorers.scoring_function import ModelArrays, ScoringFunction, check_scores
from marginrank.solvers.solution import Solution, Step
from marginrank.solvers.stream_state import StreamState
from marginrank.typing import AnyArray, BoolArray, Features, FloatArray, IntArray

if TYPE_CHECKING:
    from marginrank.export.base import Export, Target
    from marginrank.model.feature_drift import Drift

_REASONS: Final = ("converged", "stationary", "max_iter", "time_limit", "callback", "interrupted")


@dataclass(frozen=True)
class Health:
    """Fit of a loss and its feature map to the data; Chakrabarti et al. (KDD 2008) §4.2.

    Args:
        average_slack: The risk: mean of ξ over the queries with more than one grade.
        slack_at_zero: The same at parameters 0, where all scores are equal.
        objective_ratio: The objective divided by the objective at 0; 1 means that nothing was learned.
        norm: ‖θ‖.
        collapsed: Whether the hinge is minimal at 0.
    """

    average_slack: float
    slack_at_zero: float
    objective_ratio: float
    norm: float
    collapsed: bool


@dataclass(frozen=True)
class TrainingRecord:
    """Record of how a model was trained.

    Args:
        measure: The measure, or mix of measures, that the model is evaluated by.
        trained: The loss that was minimized, or the baseline.
        preset: The name of the preset, if any.
        bound: The bound that was minimized; None for a baseline.
        solver: The solver that was used; None for a baseline.
        weighting: How queries were weighted.
        parameters: The parameters of the estimator, as `marginrank.runtime.option_objects.to_spec` describes them.
    """

    measure: str
    trained: str
    preset: str | None = None
    bound: str | None = None
    solver: str | None = None
    weighting: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Counts and fingerprint of the training data."""

    queries: int
    documents: int
    features: int
    fingerprint: str

    @classmethod
    def of(cls, queries: AnyQueries) -> Provenance:
        """Describe training queries."""
        digest = queries.fingerprint if isinstance(queries, PartitionedQueries) else fingerprint(queries)
        return cls(len(queries), queries.n_documents, queries.n_features, digest)


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A trained ranker: its form and parameters, the scaling of its features, and how it was trained.

    Args:
        form: How parameters score documents.
        solution: The parameters, with their certificate.
        n_features: Number of features.
        method: How the model was trained.
        provenance: Counts and fingerprint of the training data.
        feature_names: Names of the features, if they had any.
        first_feature: Number of the first feature, if they had none.
        scaling: Name of the scaling; None if there is none.
        scaler: The fitted scaling.
        health: How well the loss fits the data; None for a baseline.
        selection: The table of `tune`, if it chose the parameters, as plain values.
        stream: State for training on more queries; None if that is impossible.
        quantiles: Quantiles of the features over the training documents; None for sparse features.
    """

    form: Form
    solution: Solution
    n_features: int
    method: TrainingRecord
    provenance: Provenance
    feature_names: tuple[str, ...] | None = None
    first_feature: int = 0
    scaling: str | None = None
    scaler: FeatureTransformer | None = None
    health: Health | None = None
    selection: Mapping[str, Any] | None = None
    stream: StreamState | None = None
    quantiles: FeatureQuantiles | None = None

    def __post_init__(self) -> None:
        check_theta(self.theta, self.form.n_parameters)
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(f"{len(self.feature_names)} feature names for {self.n_features} features")

    @property
    def theta(self) -> FloatArray:
        """The parameters."""
        return self.solution.theta

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features or, without names, their numbers in the training data."""
        return feature_labels(self.feature_names, self.n_features, self.first_feature)

    @property
    def takes_sparse(self) -> bool:
        """Whether features may be sparse."""
        return self.form.takes_sparse and (self.scaler is None or self.scaler.takes_sparse)

    @property
    def needs_queries(self) -> bool:
        """Whether scores depend on which documents belong to the same query."""
        return self.scaling is not None and self.scaling.startswith("query-")

    def score(
        self,
        X: Queries | Features,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Return the score of each document, in the order given; higher is better. Compare scores within a query only.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row; needed for rows if the scaling goes by query.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            n_jobs: Number of threads; all cores by default.
        """
        self._check_columns(X)
        features = X.X if isinstance(X, Queries) else X
        if isinstance(features, DeviceFeatures):
            features = np.asarray(features)
        if sp.issparse(features):
            self.check(X)
            return check_scores(self.form.score(self.theta, self._scaled_sparse(features), n_jobs))
        offsets, order = self._queries_of(X, qid, group)
        rows = features if order is None else take_rows(features, order)
        scores = self.function.score_rows(rows, offsets, n_jobs, compiled=True, refuse=lambda: self.check(X))
        return _in_given_order(scores, order)

    def explain(
        self,
        X: Queries | Features,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        reference: int | None = None,
    ) -> FloatArray:
        """Return the contribution of each feature to the score of each document, as documents × features.

        Only differences of scores within a query are meaningful, so contributions are relative to the mean score of the
        query: each row sums to the score of the document minus that mean. With a reference, each row sums to the
        difference of two scores, and explains why one document is ranked above the other.

        For linear and additive models, the contribution of a feature is its term of the score, minus that of the
        reference. For trees, it is the Shapley value; see `marginrank.scorers.boosted.shapley_values`.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row; rows without queries are compared with all rows.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            reference: A row; all documents are compared with it instead of the mean.

        Raises:
            TypeError: The scores are not sums over features, such as those of a kernel or a Gaussian process.
        """
        self.check(X)
        features = X.X if isinstance(X, Queries) else X
        values = np.asarray(features.toarray() if sp.issparse(features) else features, dtype=np.float64)
        n, (offsets, order) = len(values), self._queries_of(X, qid, group)
        scaled = self.function.scale_rows(values if order is None else values[order], offsets)
        scaled = _in_given_order(scaled, order)
        if reference is not None:
            if not 0 <= reference < n:
                raise DataError(f"there is no document {reference} among {n} to compare with; numbers start at 0")
            return self.function.contributions(scaled, scaled[reference : reference + 1])
        contributions = np.empty((n, self.n_features))
        for rows in _rows_of_queries(X, n, qid, group):
            contributions[rows] = self.function.contributions(scaled[rows], scaled[rows])
        return contributions

    def shapes(self) -> list[Shape]:
        """Return the learned curve of each feature of an additive model."""
        if not isinstance(self.form, AdditiveForm):
            raise ParameterError(
                f"a {self.form.kind} model has no curves; train with ", Parameter("scorer", "additive")
            )
        return self.form.shapes(self.theta, self.names)

    def query_weights(self, queries: Queries) -> QueryWeights:
        """Return the weights of an adaptive model in each query."""
        if not isinstance(self.form, AdaptiveForm):
            raise ParameterError(
                f"the weights of a {self.form.kind} model do not depend on the query; train with ",
                Parameter("scorer", "adaptive"),
            )
        grouped = queries.grouped
        self.check(grouped)
        known = np.diff(grouped.offsets) > 0
        X = np.asarray(grouped.dense(), dtype=np.float64)
        rows, ids = X[grouped.offsets[:-1][known]], grouped.query_ids[known]
        self._check_context(self.form, X, np.repeat(rows, grouped.lengths[known], axis=0), grouped)
        no_and_yes = self.function.scale_rows(np.array([[0.0], [1.0]]) * np.ones(X.shape[1]), np.zeros(0, np.int64))
        limits = np.stack([self.form.low, self.form.low + self.form.width])
        # Flags are columns that hold only 0 and 1 here, and whose scale in training began at 0 and ended at 1.
        are_ends = np.isclose(no_and_yes[:, self.form.context], limits)
        are_flags = np.vstack([are_ends, np.isin(rows[:, self.form.context], (0.0, 1.0))])
        flags: BoolArray = np.logical_and.reduce(are_flags, axis=0)
        scaled = self.function.scale_rows(rows, np.zeros(0, np.int64))
        return QueryWeights.of(self.form, self.theta, scaled, ids.tolist(), self.names, flags)

    def _check_context(self, form: AdaptiveForm, X: FloatArray, firsts: FloatArray, queries: Queries) -> None:
        """Refuse context that differs between the documents of a query, which then have weights of their own."""
        X, firsts = X[:, form.context], firsts[:, form.context]
        differs = (firsts != X) & ~(np.isnan(X) & np.isnan(firsts))
        if differs.any():
            row, column = np.argwhere(differs)[0].tolist()
            query = queries.query_ids[np.searchsorted(queries.offsets, row, side="right") - 1]
            raise DataError(
                f"{self.names[form.context[column]]} differs between documents of query {query}, so that they have "
                "weights of their own; give context that describes the query"
            )

    def _queries_of(
        self, X: Queries | Features, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
    ) -> tuple[IntArray, IntArray | None]:
        """Return the offsets of queries and, if the scaling is by query and rows are not grouped, the order of rows."""
        if isinstance(X, Queries):
            return np.unique(X.query_offsets), X.order if self.needs_queries else None
        if qid is None and group is None:
            if self.needs_queries and X.shape[0]:
                raise DataError(f"scaling {self.scaling!r} goes by query; give qid or group")
            return np.array([0, X.shape[0]] if X.shape[0] else [0]), None
        _, offsets, order = group_rows(X.shape[0], qid, group)
        return np.unique(offsets), order if self.needs_queries else None

    def _scaled_sparse(self, X: Features) -> Features:
        filled = self.form.before_scaling(X)
        return filled if self.scaler is None else cast("Features", self.scaler.transform(cast("Any", filled)))

    def check(self, X: AnyQueries | Features) -> None:
        """Refuse other columns than in training, and missing values if the model does not accept them."""
        self._check_columns(X)
        if isinstance(X, PartitionedQueries):
            X.check_finite(self.form.takes_nan, self.form.nan_advice)
        else:
            check_finite(X, self.form.takes_nan, self.form.nan_advice, self.feature_names)

    def _check_columns(self, X: AnyQueries | Features) -> None:
        if not isinstance(X, AnyQueries | np.ndarray) and not sp.issparse(X):
            raise TypeError(
                f"a Model takes Queries or arrays, not a {type(X).__name__}; give it to a Ranker, or convert it with "
                "to_numpy()"
            )
        names, n_features = (X.feature_names, X.n_features) if isinstance(X, AnyQueries) else (None, X.shape[1])
        refuse_other_columns(names, self.feature_names, "the model was trained on")
        if n_features != self.n_features:
            raise DataError(
                Parameter("X"),
                f" has {n_features} features but the model was trained on {self.n_features}; give the same "
                "columns to both",
            )

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per feature: its name, and its weight, spread or number of splits.

        Raises:
            TypeError: Features have no size in the model, such as in a Gaussian process.
        """
        sizes = self.form.sizes(self.theta)
        if not len(sizes):
            raise TypeError(f"the scores of a {self.form.kind} model are not made of features")
        return data_frame({"feature": self.names, self.form.sized_by: sizes})

    def __repr__(self) -> str:
        method, solution = self.method, self.solution
        certificate = f", gap {solution.gap:.2g}" if np.isfinite(solution.gap) else ""
        trained = "" if self.health is None else f", C={solution.C:g}{certificate}"
        sizes = f"{count(self.n_features, 'feature')}{trained}"
        learned_on = count(self.provenance.queries, "query", "queries")
        return f"Model({method.preset or method.measure}, {self.form.kind}, {sizes}, trained on {learned_on})"

    def _repr_html_(self) -> str:
        """Return a table of the features, the largest first."""
        sizes = self.form.sizes(self.theta)
        order = np.argsort(-np.abs(sizes), kind="stable").tolist()
        rows = [[self.names[number], f"{sizes[number]:.4g}"] for number in order]
        heads = ["feature", self.form.sized_by] if rows else ["model"]
        return ResultTable([heads, *rows], right=[1], note=repr(self)).html()

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays as plain values, for the header of a model file.

        Numbers that are not finite, such as the gap of a model without a certificate, are None.
        """
        solution = self.solution
        described = {
            **asdict(self.method),
            "form": self.form.kind,
            "scaling": self.scaling,
            "C": solution.C,
            "objective": solution.primal,
            "lower_bound": solution.dual,
            "gap": solution.gap,
            "average_slack": solution.risk,
            "stopped": solution.reason,
            "iterations": solution.n_iter,
            "passes": solution.passes,
            "health": None if self.health is None else asdict(self.health),
            "n_features": self.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "first_feature": self.first_feature,
            "trained_on": asdict(self.provenance),
            "selection": self.selection,
            "stream": None if self.stream is None else self.stream.describe(),
        }
        return {name: plain(value) for name, value in described.items()}

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of the model."""
        steps = [(step.primal, step.dual, step.seconds, step.passes) for step in self.solution.trace]
        arrays = {"theta": self.theta, "trace": np.array(steps, dtype=np.float64).reshape(-1, 4), **self.form.arrays()}
        learned = () if self.scaling is None else LEARNED[self.scaling]
        arrays |= {} if self.stream is None else self.stream.arrays()
        arrays |= {} if self.quantiles is None else self.quantiles.arrays()
        return arrays | {f"{SCALER}{name}": getattr(self.scaler, name) for name in learned}

    @classmethod
    def from_parts(cls, described: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Self:
        """Build a model from what `describe` and `arrays` returned."""
        parts, health = read_parts(described, arrays), described["health"]
        if described["stopped"] not in _REASONS:
            raise ValueError(f"unknown reason to stop {described['stopped']!r}")
        if described["selection"] is not None:
            check_selection(described["selection"])
        model = cls(
            form=parts.form,
            solution=_solution(described, arrays),
            n_features=parts.n_features,
            method=TrainingRecord(**{name: described[name] for name in TrainingRecord.__dataclass_fields__}),
            provenance=Provenance(**described["trained_on"]),
            feature_names=parts.feature_names,
            first_feature=parts.first_feature,
            scaling=parts.scaling,
            scaler=None if parts.scaling is None else _scaler(parts.scaling, parts),
            health=None if health is None else Health(**{name: _or(value, np.nan) for name, value in health.items()}),
            selection=described["selection"],
            stream=StreamState.from_parts(described["stream"], arrays, parts.form.n_parameters),
            quantiles=FeatureQuantiles.from_arrays(arrays, parts.n_features),
        )
        model._check_parts()
        return model

    def _check_parts(self) -> None:
        for record in (self.method, self.provenance, self.health):
            if record is not None:
                check_record(record)
        check_certificate(self.solution)
        learned_on = self.provenance
        check_counts(queries=learned_on.queries, documents=learned_on.documents)
        if learned_on.features != self.n_features:
            raise ValueError(f"{self.n_features} features, but it was trained on {learned_on.features}")

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the model to a file; see `marginrank.model.file_format` for the format."""
        write_model(path, "ranker", self.describe(), self.arrays(), overwrite=overwrite)

    @cached_property
    def function(self) -> ScoringFunction:
        """The scoring function, as in light scoring, the service and exports."""
        learned = () if self.scaling is None else LEARNED[self.scaling]
        parts = ModelArrays(
            form=self.form,
            theta=self.theta,
            n_features=self.n_features,
            feature_names=self.feature_names,
            first_feature=self.first_feature,
            scaling=self.scaling,
            learned={name: getattr(self.scaler, name) for name in learned},
        )
        function = ScoringFunction.of(parts, self.describe())
        types = {} if self.quantiles is None else self.quantiles.value_types
        return replace(function, value_types={function.names[feature]: kind for feature, kind in types.items()})

    def export(self, target: str | Target, path: str | Path, *, overwrite: bool = True) -> Export:
        """Write the model for another program, and a check file with documents and the scores to expect.

        Args:
            target: The format, such as ``onnx``, ``sql(dialect=postgresql)`` or ``solr``;
                see `marginrank.export.all_targets`.
            path: The file to write.
            overwrite: Whether to replace existing files.
        """
        from marginrank.export.export_files import export  # noqa: PLC0415

        return export(self.function, target, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model written by `save`; its scores are the same, bit for bit."""
        kind, header, arrays = read_model(path)
        with reading_model(path):
            if kind == "fusion":
                raise DataError("this model combines runs; use `marginrank fuse RUN... --apply MODEL`, or Fusion.load")
            if kind != "ranker":
                raise DataError(f"this file holds a {kind}, not a ranker")
            return cls.from_parts(header, arrays)

    def with_quantiles(self, queries: AnyQueries) -> Self:
        """Return the same model with the quantiles of the features of its training queries."""
        return replace(self, quantiles=feature_quantiles(queries))

    def drift(self, queries: Queries, *, threshold: float = 0.1, random_state: int | None = 0) -> Drift:
        """Return which features of later queries have moved since training; see `marginrank.model.compare_features`."""
        from marginrank.model.feature_drift import compare_features  # noqa: PLC0415

        if not isinstance(queries, Queries):
            raise TypeError(
                f"drift compares Queries, not {type(queries).__name__}; make them with read(files), from_frame(frame) "
                "or Queries.from_arrays(X, qid=qid)"
            )
        # Features without names have the numbers that they had at training.
        later = replace(queries, first_feature=self.first_feature)
        return compare_features(
            self.quantiles, self.feature_names, later, self.score, threshold=threshold, random_state=random_state
        )

    def with_selection(self, selection: Mapping[str, Any] | None) -> Self:
        """Return the same model with the table of `tune`."""
        return replace(self, selection=selection)

    def as_interrupted(self) -> Self:
        """Return the same model, which says that Ctrl-C or a signal ended its training."""
        return replace(self, solution=replace(self.solution, reason="interrupted"))


def _rows_of_queries(
    X: Queries | Features, n: int, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
) -> list[Any]:
    """Return the rows of each query, as slices or numbers; all rows together if queries are not given."""
    if isinstance(X, Queries):
        offsets, order = X.query_offsets, X.order
    elif qid is None and group is None:
        return [slice(None)] if n else []
    else:
        _, offsets, order = group_rows(n, qid, group)
    slices = [slice(start, stop) for start, stop in pairwise(offsets.tolist()) if start < stop]
    return slices if order is None else [order[rows] for rows in slices]


def _in_given_order(values: FloatArray, order: IntArray | None) -> FloatArray:
    """Return values in the original order of the rows."""
    if order is None:
        return values
    given = np.empty_like(values)
    given[order] = values
    return given


def _solution(described: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Solution:
    names = {"C": np.nan, "objective": np.nan, "lower_bound": -np.inf, "average_slack": np.nan}
    figures = {name: _or(described[name], missing) for name, missing in names.items()}
    for name, figure in figures.items():
        if not isinstance(figure, int | float) or isinstance(figure, bool):
            raise ValueError(f"{name} is {figure!r}, which is not a number")
    theta, trace = arrays["theta"], arrays["trace"]
    if trace.dtype != np.float64 or trace.ndim != 2 or not len(trace):
        raise ValueError(f"the trace has shape {trace.shape} and type {trace.dtype}")
    steps = tuple(Step(*row) for row in trace.tolist())
    C, primal, dual, risk = (float(figure) for figure in figures.values())
    return Solution(theta, C, primal, dual, risk, described["stopped"], steps)


def _scaler(scaling: str, parts: ModelArrays) -> FeatureTransformer:
    scaler = SCALINGS[scaling]()
    scaler.set_output(transform="default")
    scaler.n_features_in_ = parts.n_features
    for name, array in parts.learned.items():
        setattr(scaler, name, array)
    return scaler


def _or(value: Any, missing: float) -> Any:
    return missing if value is None else value
