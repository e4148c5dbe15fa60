"""What every estimator of rankers shares: judged queries in, a model, and what a model is asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypedDict, cast, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from marginrank.data.column_roles import column_names
from marginrank.data.fingerprint import fingerprint
from marginrank.data.grouping import group_rows
from marginrank.data.inputs import Validation, as_queries, check_same_features, refuse_other_columns, validation_parts
from marginrank.data.partitions import AnyQueries, PartitionedQueries, PartitionedScores
from marginrank.data.queries import Queries, check_finite
from marginrank.data.validation import distinct_names
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.evaluation.sklearn_scoring import ROUTING
from marginrank.evaluation.systems import orderings
from marginrank.measures.base import parse_mix
from marginrank.methods.argument_checks import (
    query_contents,
    refuse_parameters,
    refuse_rows,
    refuse_unknown,
    warn_of_split,
    warn_of_ties,
)
from marginrank.methods.attributes import FittedAttributes
from marginrank.model.feature_quantiles import feature_quantiles
from marginrank.model.model import Model, Provenance
from marginrank.preparation.base import check_columns, refuse_empty, set_columns
from marginrank.runtime.option_objects import check_C, check_seed, to_spec
from marginrank.runtime.text import suggest
from marginrank.runtime.threads import default_threads
from marginrank.scorers.additive.form import Shape
from marginrank.solvers.base import Callback
from marginrank.training.checkpoint import Log, repeatable, run_log, start_digest
from marginrank.training.plan import Start
from marginrank.typing import AnyArray, Features, FloatArray

if TYPE_CHECKING:
    from marginrank.export.base import Export, Target


#: How scikit-learn checks rows of features; missing values are looked for afterwards, with better advice.
_ROWS: Final[Mapping[str, Any]] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,
}


class _NanRule(TypedDict):
    """What `as_queries` is told about missing values."""

    allow_nan: bool
    nan_advice: str


class BaseRanker(FittedAttributes, BaseEstimator):
    """An estimator that learns to rank documents, with a scikit-learn API.

    Attributes:
        model_: What training left; everything below is read from it.
        coef_: One weight per feature; for the additive scorer, the parameters of the curves; for trees, the values of
            all leaves; for a Gaussian process, one weight per training document.
        objective_: The objective reached; of a baseline, what it minimises in its own terms.
        gap_: Upper bound on the distance of the objective from the optimum; inf without a certificate.
        n_iter_: Iterations, or rounds.
        solution_: All that the solver reported, with the trace.
        health_: Average slack, objective over objective at 0, ‖w‖, and whether the hinge collapsed; None for a
            baseline, which has no slack.
        measure_: The measure that the ranker is judged by.
        trained_on_: Counts and fingerprint of the training data.
        form_: How ``coef_`` scores documents.
        n_features_in_: Number of features seen in training.
        feature_names_in_: Their names, where they had any.
    """

    def __new__(cls, *positional: Any, **parameters: Any) -> Self:
        """Refuse unknown parameters with what to use instead."""
        refuse_parameters(cls, positional, parameters)
        return cast("Self", super().__new__(cls))

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, and refuse unknown ones with what to use instead."""
        known = self.get_params(deep=False)
        for name in (name.partition("__")[0] for name in parameters):
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; {suggest(name, known)}")
        return cast("Self", super().set_params(**parameters))

    #: Parameters that every estimator has; where there is no C to choose, it is 1.
    C: float
    random_state: int | None
    n_jobs: int | None
    n_features_in_: int
    feature_names_in_: AnyArray

    # With metadata routing, scikit-learn passes qid on without being asked by set_fit_request and the like.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    @abstractmethod
    def _train(
        self,
        queries: AnyQueries,
        Cs: Sequence[float],
        validation: AnyQueries | None,
        callback: Callback | None,
        start: Start | None,
        time_limit: float = np.inf,
        log: Log | None = None,
    ) -> list[Model]:
        """Train on checked queries, for each C, within the estimator's own time limit and the one given.

        Where there is a log, what takes a pass over the queries is kept in it.
        """

    def _check_resumes(self) -> None:
        """Refuse a checkpoint where training cannot go on from one."""
        raise ValueError(
            f"{type(self).__name__} has no solver that could go on from a checkpoint; leave it out, or use it with tune"
        )

    @property
    @abstractmethod
    def _takes_nan(self) -> bool:
        """Whether features may be missing."""

    @property
    def _nan_advice(self) -> str:
        """The way out where they may not."""
        return f"fill it, as {type(self).__name__} takes no missing values"

    @property
    def _nan(self) -> _NanRule:
        return {"allow_nan": self._takes_nan, "nan_advice": self._nan_advice}

    @property
    def _path_of_C(self) -> bool:
        """Whether there is a C to choose."""
        return True

    @property
    def _light(self) -> bool:
        """Whether training on few documents is mostly Python, which one thread at a time can run."""
        return False

    @property
    @abstractmethod
    def criterion(self) -> str:
        """The measure, or mix of measures, that the ranker is judged by."""

    def fit(
        self,
        X: AnyQueries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *positional: Any,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        validation: Validation | None = None,
        callback: Callback | None = None,
        start: Model | BaseRanker | None = None,
        center: Model | BaseRanker | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        **foreign: Any,
    ) -> Self:
        """Train on judged queries.

        Ctrl-C, a time limit or a callback that returns True ends training with the best weights so far and their gap.

        Args:
            X: Queries, in this process or distributed, or features with one row per document.
            y: Grades of the rows.
            qid: The query of each row, in any order.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            query_weights: One weight per query, in order of first appearance.
            validation: Validation queries, or (X, y, qid): the weights of the best iteration on them, or the best
                round of a baseline, are kept.
            callback: Called after every iteration with the `Step` and the best parameters so far; True stops.
            start: A model, or a fitted ranker, to start from. Its scaling, thresholds or landmarks are kept.
            center: Instead of ``start``, a model to start from and to stay near: the regulariser is ½‖θ − its θ‖².
            checkpoint: A file in which what was computed is kept, every few seconds, so that a killed run can go on.
            resume: Go on from the checkpoint if it exists; the model is the one of a run that was not killed.
            positional: Refused; the queries are given by name.
            foreign: Refused; for arguments of other libraries the error says what to use here.
        """
        refuse_unknown(foreign, positional)
        check_seed(self.random_state)
        warm = getattr(self, "warm_start", False) and hasattr(self, "model_")
        begin = Start.of(start, center) or (Start(self.coef_) if warm else None)
        queries = self._training_queries(X, y, qid, group, query_weights)
        held_out = None
        if validation is not None:
            held_out = as_queries(*validation_parts(validation), None, None, **self._nan)
            check_same_features(queries, held_out)
        Cs = [check_C(self.C)]
        if checkpoint is not None:
            self._check_resumes()
        with (
            default_threads(self.n_jobs),
            run_log(checkpoint, resume, lambda: self._about(queries, Cs, held_out, begin)) as log,
        ):
            model = self._train(queries, Cs, held_out, callback, begin, log=log)[0]
        self._adopt(model.with_quantiles(queries))
        self._trained_queries = query_contents(queries) if qid is not None and isinstance(queries, Queries) else None
        warn_of_ties([self.model_], queries)
        return self

    def fit_path(
        self,
        X: AnyQueries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        Cs: Iterable[float],
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> list[Self]:
        """Train for several C with shared cutting planes; return one fitted ranker for each, in the order given.

        The other arguments are those of `fit`.
        """
        first: Self = clone(self)
        values = [check_C(C) for C in Cs]
        if checkpoint is not None:
            self._check_resumes()
        queries = first._training_queries(X, y, qid, group, query_weights)
        with run_log(checkpoint, resume, lambda: first._about(queries, values)) as log:
            path = first._fit_path(queries, values, callback, log=log)
        quantiles = feature_quantiles(queries)
        for ranker in path:
            ranker.model_ = replace(ranker.model_, quantiles=quantiles)
        warn_of_ties([ranker.model_ for ranker in path], queries)
        return path

    def _about(
        self,
        queries: AnyQueries,
        Cs: Sequence[float],
        validation: AnyQueries | None = None,
        start: Start | None = None,
    ) -> dict[str, Any]:
        """Describe a run for its checkpoint."""
        return {
            "estimator": type(self).__name__,
            **repeatable(self._specs()),
            "C": Cs[0] if len(Cs) == 1 else list(Cs),
            "training data": self._provenance(queries).fingerprint,
            "validation data": None if validation is None else self._provenance(validation).fingerprint,
            "start": start_digest(start),
        }

    def _fit_path(
        self,
        queries: AnyQueries,
        Cs: Iterable[float],
        callback: Callback | None,
        time_limit: float = np.inf,
        log: Log | None = None,
    ) -> list[Self]:
        """Train for several C, without a look at what came of it."""
        values = [check_C(C) for C in Cs]
        if not values:
            raise ValueError("Cs is empty; give at least one C")
        refuse_empty(queries)
        check_seed(self.random_state)
        with default_threads(self.n_jobs):
            models = self._train(queries, values, None, callback, None, time_limit, log)
        return [self._with_model(C, model) for C, model in zip(values, models, strict=True)]

    def _bounded_as(self, model: Model) -> Self:  # noqa: ARG002
        """Return this ranker, or one with the bound that a model was trained with if that is left open here."""
        return self

    def _with_model(self, C: float, model: Model) -> Self:
        other = self._with_parameters({"C": C})
        other._adopt(model)
        return other

    def _with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """Return a ranker that is not fitted, with other parameters; a C is left out where there is none."""
        known = self.get_params(deep=False)
        chosen = {name: value for name, value in parameters.items() if name != "C" or name in known}
        return cast("Self", clone(self).set_params(**chosen))

    def _adopt(self, model: Model) -> None:
        """Take a model for one's own."""
        self.model_ = model
        set_columns(self, model.n_features, model.feature_names)

    @overload
    def predict(
        self,
        X: Queries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> FloatArray: ...
    @overload
    def predict(self, X: PartitionedQueries) -> PartitionedScores: ...
    def predict(
        self,
        X: AnyQueries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> FloatArray | PartitionedScores:
        """Return the score of each document, in the order given; higher is better. Compare scores within a query only.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row; only scalings by query need it.
            group: Instead of ``qid``, the number of consecutive rows of each query.

        Returns:
            One score per document; for queries in partitions, `PartitionedScores`, which stay where these are.
        """
        check_is_fitted(self)
        if isinstance(X, PartitionedQueries):
            check_columns(self, X)
            return PartitionedScores(X, _scores, self.model_, X.partitions.threads(self.n_jobs))
        return self.model_.score(self._features(X), qid=qid, group=group, n_jobs=self.n_jobs)

    def explain(
        self,
        X: Queries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        reference: int | None = None,
    ) -> FloatArray:
        """Return the contribution of each feature to the score of each document, as documents × features.

        Each row sums to the score of the document minus the mean score of the query or, with a ``reference``, minus the
        score of that row; see `marginrank.Model.explain`.
        """
        check_is_fitted(self)
        return self.model_.explain(self._features(X), qid=qid, group=group, reference=reference)

    def rank(
        self,
        X: Queries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        k: int | None = None,
        document_groups: npt.ArrayLike | None = None,
        ids: bool = False,
    ) -> list[AnyArray] | list[list[Any]]:
        """Rank the documents of each query, best first; queries are in order of first appearance.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            k: Number of documents per query; all by default.
            document_groups: A label per document; a ranking has only the best document of each. By default those of
                the `Queries`.
            ids: Return document ids instead of row numbers; for `Queries` that have ids.
        """
        scores = self.predict(X, qid=qid, group=group)
        labels = None if document_groups is None else np.asarray(document_groups)
        if labels is not None and labels.shape != scores.shape:
            raise DataError(f"document_groups have shape {labels.shape} for {len(scores)} documents; give one for each")
        if isinstance(X, Queries):
            orders = orderings(scores, X.offsets, None, k, X.document_groups if labels is None else labels)
            return _ids_of(X, orders) if ids else list(orders)
        if ids:
            raise DataError("ids=True needs Queries with document_ids; rows of an array have none")
        if qid is None and group is None:
            raise DataError("rank needs the queries: give qid or group")
        _, offsets, rows = group_rows(len(scores), qid, group)
        if rows is not None:
            scores, labels = scores[rows], None if labels is None else labels[rows]
        return list(orderings(scores, offsets, rows, k, labels))

    def score(
        self,
        X: AnyQueries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: None = None,
    ) -> float:
        """Return the mean of the measure that the ranker was trained for; for a mix, the weighted mean.

        Args:
            X: Queries, or features with one row per document.
            y: Grades of the rows.
            qid: The query of each row.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            sample_weight: Accepted for scikit-learn's pipelines, which name it; measures do not weight documents.
        """
        if sample_weight is not None:
            raise ValueError("measures do not weight documents; leave sample_weight out")
        check_is_fitted(self)
        if not isinstance(X, AnyQueries) and qid is None and group is None:
            raise DataError(f"score needs the queries: give qid or group; {ROUTING}")
        mix = parse_mix(self.measure_)
        measures = [str(m) for _, m in mix]
        queries = as_queries(X, y, qid, group, None, allow_nan=True, nan_advice="")
        if isinstance(queries, PartitionedQueries):
            means = evaluate(queries, self.predict(queries), measures).mean
        else:
            scores = self.predict(cast("Queries", X), qid=qid, group=group)
            if qid is not None:
                warn_of_split(getattr(self, "_trained_queries", None), queries)
            if not isinstance(X, Queries):
                scores = queries.from_source_rows(scores)
            means = evaluate(queries, scores, measures, n_jobs=self.n_jobs).mean
        total = sum(weight for weight, _ in mix)
        return float(sum(weight * means[str(measure)] for weight, measure in mix) / total)

    def shapes(self) -> list[Shape]:
        """Return the learned curve of each feature of an additive ranker."""
        check_is_fitted(self)
        return self.model_.shapes()

    def export(self, target: str | Target, path: str | Path, *, overwrite: bool = True) -> Export:
        """Write the model for another program, such as ``onnx`` or ``solr``; see `Model.export`."""
        check_is_fitted(self)
        return self.model_.export(target, path, overwrite=overwrite)

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the ranker to a file that `load` reads; see `marginrank.model.file_format` for the format."""
        check_is_fitted(self)
        self.model_.save(path, overwrite=overwrite)

    def _specs(self) -> dict[str, Any]:
        """Describe the parameters for a file, but n_jobs, which is a matter of the machine."""
        specs = {}
        for name, value in self.get_params(deep=False).items():
            if name == "n_jobs":
                continue
            try:
                specs[name] = to_spec(value)
            except TypeError as error:
                specs[name] = {"kind": "unknown", "reason": f"{name}: {error}"}
        return specs

    def _provenance(self, queries: AnyQueries) -> Provenance:
        digest = queries.fingerprint if isinstance(queries, PartitionedQueries) else fingerprint(queries)
        return Provenance(len(queries), queries.n_documents, queries.n_features, digest)

    def _training_queries(
        self,
        X: AnyQueries | npt.ArrayLike,
        y: npt.ArrayLike | None,
        qid: npt.ArrayLike | None,
        group: npt.ArrayLike | None,
        query_weights: npt.ArrayLike | None,
        *,
        reset: bool = True,
    ) -> AnyQueries:
        if isinstance(X, AnyQueries):
            if reset:
                refuse_empty(X)
            else:
                check_columns(self, X)
            return as_queries(X, y, qid, group, query_weights, **self._nan)
        # One document teaches nothing, but in a stream of batches it is no mistake.
        least = 2 if reset else 1
        refuse_rows(type(self).__name__, X, y, least=least, expected=None if reset else self.n_features_in_)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None; give one grade per row")
        if qid is None and group is None:
            raise DataError(
                f"training needs the queries: give qid, the query of each row, or group, the rows of each; {ROUTING}"
            )
        # On a copy, so that a fit that fails changes nothing.
        columns = clone(self) if reset else self
        features, grades = validate_data(columns, X, y, reset=reset, y_numeric=True, ensure_min_samples=least, **_ROWS)
        names = column_names(X) if reset else self.model_.feature_names
        check_finite(features, self._takes_nan, self._nan_advice, names)
        return Queries.from_arrays(
            features,
            grades,
            qid=qid,
            group=group,
            query_weights=query_weights,
            feature_names=names,
            allow_nan=True,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _features(self, X: Queries | npt.ArrayLike) -> Queries | Features:
        if isinstance(X, Queries):
            return X
        refuse_other_columns(
            column_names(X), [*map(str, getattr(self, "feature_names_in_", ()))], "the model was trained on"
        )
        refuse_rows(type(self).__name__, X, expected=self.n_features_in_)
        return cast("Features", validate_data(self, X, reset=False, **_ROWS))


def _scores(queries: Queries, model: Model, n_jobs: int | None) -> FloatArray:
    return model.score(queries, n_jobs=n_jobs)


def _ids_of(queries: Queries, orders: Iterable[AnyArray]) -> list[list[Any]]:
    if queries.document_ids is None:
        raise DataError("these queries have no document_ids; give them when making the Queries, or rank without ids")
    distinct_names(queries)
    return [queries.document_ids[order].tolist() for order in orders]
