"""What training leaves: everything that is needed to score, explain, describe and save a trained ranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.queries import Queries, check_finite
from marginrank.errors import DataError
from marginrank.model_file import read_model, write_model
from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.scalings import SCALINGS
from marginrank.scorers.bins import Bins, Shape
from marginrank.scorers.forms import Form, all_forms
from marginrank.solvers.solution import Solution, Step
from marginrank.typing import AnyArray, Features, FloatArray
from marginrank.words import plain

_SCALER: Final = "scaler."
_REASONS: Final = ("converged", "stationary", "max_iter", "time_limit", "callback", "interrupted")


@dataclass(frozen=True)
class Health:
    """Whether a loss and its feature map got along with the data; Chakrabarti et al. (KDD 2008) §4.2.

    Args:
        average_slack: The risk: mean of ξ over the queries that have an order.
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
class Method:
    """How a model was trained.

    Args:
        estimator: The class of the estimator.
        measure: The measure, or mix of measures, that the model is judged by.
        trained: The loss that was minimised, or the baseline.
        preset: The name that was asked for, if any.
        bound: The bound that was minimised; None for a baseline.
        solver: The solver that was used; None for a baseline.
        weighting: How queries were weighted.
        parameters: The parameters of the estimator, as `marginrank.components.to_spec` describes them.
    """

    estimator: str
    measure: str
    trained: str
    preset: str | None = None
    bound: str | None = None
    solver: str | None = None
    weighting: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """What a model was trained on: counts, and a fingerprint of the data."""

    queries: int
    documents: int
    features: int
    fingerprint: str


@dataclass(frozen=True, eq=False)
class Model:
    """A trained ranker: a form with parameters, the scaling of its features, and how they came about.

    Args:
        form: How parameters score documents.
        solution: The parameters, with their certificate.
        n_features: Number of features.
        method: How the model was trained.
        provenance: What it was trained on.
        feature_names: Names of the features, where they had any.
        scaling: Name of the scaling, None without.
        scaler: The fitted scaling.
        health: How well loss and data got along; None for a baseline.
        selection: The table of the `tune` that chose the parameters, as plain values.
    """

    form: Form
    solution: Solution
    n_features: int
    method: Method
    provenance: Provenance
    feature_names: tuple[str, ...] | None = None
    scaling: str | None = None
    scaler: FeatureTransformer | None = None
    health: Health | None = None
    selection: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.theta.shape != (self.form.n_parameters,):
            raise ValueError(f"{self.theta.shape} parameters for a form of {self.form.n_parameters}")
        if not np.isfinite(self.theta).all():
            raise ValueError(f"parameter {int(np.argmin(np.isfinite(self.theta)))} is not finite")
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(f"{len(self.feature_names)} feature names for {self.n_features} features")

    @property
    def theta(self) -> FloatArray:
        """The parameters."""
        return self.solution.theta

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features; x0, x1, ... where they had none."""
        return self.feature_names or tuple(f"x{number}" for number in range(self.n_features))

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
        """Score documents, in the order of the queries or rows given; higher is better, and only within a query.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row; needed for rows where the scaling goes by query.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            n_jobs: Number of threads; all cores by default.
        """
        return self.form.score(self.theta, self._scaled(X, qid, group), n_jobs)

    def explain(
        self, X: Queries | Features, *, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Return what each feature adds to the score of each document: documents × features, rows sum to the scores.

        Raises:
            TypeError: The scores are not a sum over features, as those of trees.
        """
        return self.form.contributions(self.theta, self._scaled(X, qid, group))

    def shapes(self) -> list[Shape]:
        """Return the learned curve of each feature of an additive model."""
        if not isinstance(self.form, Bins):
            raise ValueError(f"a {self.form.kind} model has no curves; train with scorer='additive'")
        return self.form.shapes(self.theta, self.names)

    def _scaled(self, X: Queries | Features, qid: npt.ArrayLike | None, group: npt.ArrayLike | None) -> Features:
        features = X.X if isinstance(X, Queries) else X
        self._check(X)
        if self.scaler is None:
            return features
        if isinstance(X, Queries):
            scaled: Queries = self.scaler.transform(X)
            return scaled.X
        if self.needs_queries and qid is None and group is None:
            raise DataError(f"scaling {self.scaling!r} goes by query; give qid or group")
        given = {name: value for name, value in (("qid", qid), ("group", group)) if value is not None}
        transformed: Features = self.scaler.transform(cast("Any", features), **given)
        return transformed

    def _check(self, X: Queries | Features) -> None:
        features = X.X if isinstance(X, Queries) else X
        if features.shape[1] != self.n_features:
            raise DataError(
                f"X has {features.shape[1]} features but the model was trained on {self.n_features}; give the same "
                "columns to both"
            )
        names = X.feature_names if isinstance(X, Queries) else None
        if names is not None and self.feature_names is not None and names != self.feature_names:
            raise DataError("feature_names differ from those the model was trained on; rename or reorder them")
        check_finite(features, self.form.takes_nan)

    def describe(self) -> dict[str, Any]:
        """Return everything but arrays as plain values: what a file holds, and what commands and reports show.

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
            "trained_on": asdict(self.provenance),
            "selection": self.selection,
        }
        return {name: plain(value) for name, value in described.items()}

    def arrays(self) -> dict[str, AnyArray]:
        """Return all arrays that the model is made of."""
        steps = [(step.primal, step.dual, step.seconds, step.passes) for step in self.solution.trace]
        arrays = {"theta": self.theta, "trace": np.array(steps, dtype=np.float64).reshape(-1, 4), **self.form.arrays()}
        return arrays | {f"{_SCALER}{name}": array for name, array in self._learned_by_scaler.items()}

    @cached_property
    def _learned_by_scaler(self) -> dict[str, AnyArray]:
        """What the scaling learned: its float arrays."""
        learned = {} if self.scaler is None else vars(self.scaler)
        return {name: v for name, v in learned.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f"}

    @classmethod
    def from_parts(cls, described: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Self:
        """Make a model of what `describe` and `arrays` returned; anything else is an error."""
        forms, n_features = all_forms(), int(described["n_features"])
        if described["form"] not in forms:
            raise ValueError(f"unknown form {described['form']!r}")
        if described["stopped"] not in _REASONS:
            raise ValueError(f"unknown reason to stop {described['stopped']!r}")
        names = described["feature_names"]
        health = described["health"]
        return cls(
            form=forms[described["form"]].from_arrays(arrays, n_features),
            solution=Solution(
                np.asarray(arrays["theta"], dtype=np.float64),
                float(described["C"]),
                _or(described["objective"], np.nan),
                _or(described["lower_bound"], -np.inf),
                _or(described["average_slack"], np.nan),
                described["stopped"],
                tuple(Step(*row) for row in arrays["trace"].tolist()),
            ),
            n_features=n_features,
            method=Method(**{name: described[name] for name in Method.__dataclass_fields__}),
            provenance=Provenance(**described["trained_on"]),
            feature_names=None if names is None else tuple(str(name) for name in names),
            scaling=described["scaling"],
            scaler=None if described["scaling"] is None else _scaler(described["scaling"], n_features, names, arrays),
            health=None if health is None else Health(**{name: _or(value, np.nan) for name, value in health.items()}),
            selection=described["selection"],
        )

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the model to a file; see `marginrank.model_file` for the format."""
        write_model(path, "ranker", self.describe(), self.arrays(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote; it scores as the saved one did, bit for bit."""
        kind, header, arrays = read_model(path)
        with reading(path):
            if kind == "fusion":
                raise DataError("this model combines runs; use `marginrank fuse RUN... --apply MODEL`, or Fusion.load")
            if kind != "ranker":
                raise DataError(f"this file holds a {kind}, not a ranker")
            return cls.from_parts(header, arrays)

    def with_selection(self, selection: Mapping[str, Any] | None) -> Self:
        """Return the same model with the table of the choice it came from."""
        return replace(self, selection=selection)


class reading:  # noqa: N801
    """Turn whatever goes wrong with the content of a file into a `DataError` with its path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Name the file."""
        if isinstance(error, DataError):
            raise DataError(error.problem, path=self.path) from None
        if isinstance(error, KeyError | IndexError | TypeError | ValueError | AttributeError | LookupError):
            raise DataError(f"this model is incomplete or contradicts itself ({error}); save it again", path=self.path)


def _scaler(scaling: str, n_features: int, names: Any, arrays: Mapping[str, AnyArray]) -> FeatureTransformer:
    if scaling not in SCALINGS:
        raise ValueError(f"unknown scaling {scaling!r}")
    scaler = SCALINGS[scaling]()
    scaler.n_features_in_ = n_features
    if names is not None:
        scaler.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    known = type(scaler).__annotations__
    for key, array in arrays.items():
        if key.startswith(_SCALER):
            if key.removeprefix(_SCALER) not in known:
                raise ValueError(f"scaling {scaling!r} learns nothing called {key!r}")
            if array.shape != (n_features,) or not np.isfinite(array).all():
                raise ValueError(f"{key} has shape {array.shape}; it needs one finite number per feature")
            setattr(scaler, key.removeprefix(_SCALER), array)
    return scaler


def _or(value: Any, missing: float) -> Any:
    return missing if value is None else value
