"""One estimator for every method, in scikit-learn's manner."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from marginrank.data.fingerprint import fingerprint
from marginrank.data.grouping import group_rows
from marginrank.data.inputs import Validation, as_queries, validation_parts
from marginrank.data.queries import Queries, check_finite
from marginrank.errors import DataError
from marginrank.evaluation.evaluating import evaluate
from marginrank.evaluation.orderings import orderings
from marginrank.losses.base import Bound, Loss
from marginrank.losses.feature_maps import FeatureMap
from marginrank.measures import Measure
from marginrank.methods.baselines.base import Baseline, Setting, Stage
from marginrank.methods.early_stopping import EarlyStopping
from marginrank.methods.presets import Method, Start, loss_for, parse_mix, parse_preset
from marginrank.methods.training import Fit, Health, Options, Report, SolverName, train_baseline, train_path
from marginrank.methods.weighting import Weighting, weighted
from marginrank.preparation import SCALINGS
from marginrank.preparation.base import FeatureTransformer, check_columns, learn_columns
from marginrank.saved import load_ranker, save_ranker
from marginrank.scorers.additive import AdditiveScorer
from marginrank.scorers.bins import Bins, Shape, feature_number
from marginrank.scorers.forms import Form
from marginrank.scorers.linear import LinearScorer
from marginrank.solvers.progress import Callback
from marginrank.solvers.solution import Solution, Step
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

Scaling: TypeAlias = Literal["standard", "query-minmax", "query-standard", "query-percentile"]

#: What is trained where nothing is asked for.
DEFAULT_PRESET: Final = "svmmap"
#: Parameters that say how a loss is minimised, and mean nothing to a baseline.
_OF_LOSSES: Final = ("bound", "monotone", "nonnegative", "solver", "start", "start_C", "anneal", "warm_start")


class Ranker(BaseEstimator):  # type: ignore[misc]
    """A ranker trained for a measure: minimises ½‖θ‖² + C · mean over queries of ξ(θ).

    Nothing is scaled unless asked for: C, the objective and ``coef_`` refer to the features as they are given.

    >>> X = [[1.0, 0.2], [0.1, 0.9], [0.8, 0.3], [0.2, 0.1]]
    >>> ranker = Ranker("svmmap", C=10.0).fit(X, [1, 0, 1, 0], qid=[1, 1, 2, 2])
    >>> bool(ranker.coef_[0] > 0), ranker.gap_ <= 1e-4 * ranker.objective_
    (True, True)
    >>> [order.tolist() for order in ranker.rank(X, qid=[1, 1, 2, 2])]
    [[0, 1], [2, 3]]

    Args:
        preset: A method by name: ``svmmap``, ``svmauc``, ``svmndcg``, ``ranksvm``, ... (`PRESETS` has them all), with
            ``@k`` after the name where it has a cutoff. `svmmap` by default. Some are baselines such as ``rankboost``,
            which minimise no loss of this package: they have no gap, ``@k`` is their number of rounds, and parameters
            that say how a loss is minimised are refused.
        measure: Instead, the measure to train for, or a mix such as ``ndcg@10 + 0.5*ap``.
        loss: Instead, any `Loss`.
        feature_map: With ``measure``, the joint feature map: ``po``, ``dorm`` or ``mrr``.
        bound: ``hinge`` is convex; ``tight`` is closer to the measure, not convex, and starts at ``start``; ``auto``
            trains the hinge, and the tight bound where the hinge turns out to be least at weights 0.
        C: Weight of the losses against the regulariser.
        scorer: ``linear``, or ``additive``: one step function per feature.
        bins: With the additive scorer, the most steps per feature.
        spacing: With the additive scorer, how thresholds are chosen: ``mixed``, ``quantile`` or ``even``.
        shape: With the additive scorer, ``steps`` or ``lines``, piecewise linear curves.
        monotone: With the additive scorer, ``increasing`` or ``decreasing`` for all features, or a mapping from feature
            (name or number) to one of them.
        nonnegative: With the linear scorer, True for weights that are not negative, or the features it holds for.
        scaling: Put features on a common scale inside the model: ``standard``, ``query-minmax``, ``query-standard`` or
            ``query-percentile``. What goes by query needs the queries for predicting too.
        weighting: What queries weigh: ``grades`` (the sum of their grades), ``relevant`` (documents above grade 0),
            ``pairs`` (pairs of different grade) or ``sqrt-pairs``; all the same by default, as the papers have it.
        solver: ``auto``, ``bundle``, ``newton``, ``frank-wolfe``, ``n-slack``, ``subgradient``,
            ``conjugate-subgradient`` or ``cccp``.
        start: Under the tight bound, the w0 of the regulariser ½‖w − w0‖², where training begins: ``ranksvm``,
            ``regression`` or weights; by default what the preset says.
        start_C: C of the w0.
        anneal: Under the tight bound, steps over which it takes the place of the hinge; 0 for at once.
        tol: Gap to the optimum at which training stops, as a share of the objective.
        max_iter: Most iterations.
        time_limit: Most seconds.
        warm_start: Begin at the weights of the last fit.
        patience: With validation queries, iterations without an improvement after which training stops.
        random_state: Seed of solvers that draw at random.
        n_jobs: Threads; all cores by default. Results do not depend on it.

    Attributes:
        coef_: One weight per feature; for the additive scorer, one increment per threshold; for trees, the values of
            all leaves; for a Gaussian process, one weight per training document.
        objective_: The objective reached; of a baseline, what it brings down in its own terms.
        gap_: How far it can be from the optimum; inf under the tight bound and for baselines, without a certificate.
        n_iter_: Iterations, or rounds.
        solution_: All that the solver reported, with the trace.
        bound_: The bound that was trained; None for a baseline.
        solver_: The solver that was used; None for a baseline.
        health_: Average slack, objective over objective at 0, ‖w‖, and whether the hinge collapsed; None for a
            baseline, which has no slack.
        measure_: The measure that the ranker is for.
        loss_: The loss that was minimised, spelled out.
        trained_on_: Counts and fingerprint of the training data.
        selection_: The table of a `tune` that chose the parameters.
        form_: How ``coef_`` scores documents: `Linear`, `Bins`, trees, or a sum over training documents.
        bins_: Thresholds of the additive scorer, or of a baseline made of step functions; None for others.
        scaling_: The scaling: the one asked for, or the one that is part of the method; None without.
        scaler_: The fitted scaling; None without.
        n_features_in_: Features seen in training.
        feature_names_in_: Their names, where they had any.
    """

    coef_: FloatArray
    solution_: Solution
    bound_: Bound | None
    solver_: SolverName | None
    health_: Health | None
    measure_: str
    loss_: str
    trained_on_: dict[str, Any]
    selection_: dict[str, Any]
    form_: Form
    scaling_: Scaling | None
    scaler_: FeatureTransformer | None
    n_features_in_: int
    feature_names_in_: AnyArray

    def __init__(
        self,
        preset: str | None = None,
        *,
        measure: str | Measure | None = None,
        loss: Loss | None = None,
        feature_map: str | FeatureMap | None = None,
        bound: Bound | Literal["auto"] | None = None,
        C: float = 1.0,
        scorer: Literal["linear", "additive"] = "linear",
        bins: int = 255,
        spacing: Literal["mixed", "quantile", "even"] = "quantile",
        shape: Literal["steps", "lines"] = "lines",
        monotone: str | Mapping[Any, str] | None = None,
        nonnegative: bool | Sequence[Any] = False,
        scaling: Scaling | None = None,
        weighting: Weighting | None = None,
        solver: SolverName = "auto",
        start: Start | npt.ArrayLike | None = None,
        start_C: float = 100.0,
        anneal: int = 0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        time_limit: float | None = None,
        warm_start: bool = False,
        patience: int = 10,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.preset = preset
        self.measure = measure
        self.loss = loss
        self.feature_map = feature_map
        self.bound = bound
        self.C = C
        self.scorer = scorer
        self.bins = bins
        self.spacing = spacing
        self.shape = shape
        self.monotone = monotone
        self.nonnegative = nonnegative
        self.scaling = scaling
        self.weighting = weighting
        self.solver = solver
        self.start = start
        self.start_C = start_C
        self.anneal = anneal
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Queries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        validation: Validation | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train on judged queries.

        Ctrl-C, a spent budget or a callback that says so ends training with the best weights so far and their gap.

        Args:
            X: Queries, or features with one row per document.
            y: Grades of the rows.
            qid: The query of each row, in any order.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            query_weights: One weight per query, in order of first appearance.
            validation: Queries, or (X, y, qid), that decide when to stop: the weights of the best iteration, or of the
                best round of a baseline, are kept.
            callback: Called after every iteration with the `Step` and the best parameters so far; True stops.
        """
        queries = self._training_queries(X, y, qid, group, query_weights)
        before = self.coef_ if self.warm_start and hasattr(self, "coef_") else None
        self._fit(queries, [self.C], validation, callback, before)
        return self

    def fit_path(
        self,
        X: Queries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        Cs: Iterable[float],
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> list[Ranker]:
        """Train for several C with one set of cutting planes; give one fitted ranker for each, in the order given."""
        wanted = [float(C) for C in Cs]
        if not wanted:
            raise ValueError("Cs is empty; give at least one C")
        first = clone(self)
        queries = first._training_queries(X, y, qid, group, query_weights)
        fits = first._fit(queries, wanted, None, callback, None)
        return [first._copy_with(C, fit) for C, fit in zip(wanted, fits, strict=True)]

    def predict(
        self,
        X: Queries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Score documents, in the order of the rows given; higher is better, and only within a query.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row; only scalings by query need it.
            group: Instead of ``qid``, the number of consecutive rows of each query.
        """
        check_is_fitted(self)
        features = self._features(X)
        if self.scaler_ is not None:
            if self.scaling_ != "standard" and not isinstance(X, Queries) and qid is None and group is None:
                raise DataError(f"scaling {self.scaling_!r} goes by query; give qid or group")
            scaled = self.scaler_.transform(
                cast("Any", X if isinstance(X, Queries) else features), **_named(qid=qid, group=group)
            )
            features = scaled.X if isinstance(scaled, Queries) else scaled
        scores = self.form_.score(self.coef_, features, self.n_jobs)
        return np.asarray(X.restore(scores)) if isinstance(X, Queries) else scores

    def rank(
        self,
        X: Queries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        k: int | None = None,
        document_groups: npt.ArrayLike | None = None,
    ) -> list[IntArray]:
        """Order the documents of each query, best first, as row numbers; queries come by first appearance.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            k: How many documents of each query; all by default.
            document_groups: A label per row; of each label only the best document of a query is ranked. `Queries` may
                carry their own.
        """
        scores = self.predict(X, qid=qid, group=group)
        if isinstance(X, Queries):
            offsets, rows = X.offsets, X.rows
            own = X.document_groups if document_groups is None else X.arrange(document_groups, "document_groups")
            return orderings(np.asarray(X.arrange(scores)), offsets, rows, k, own)
        if qid is None and group is None:
            raise DataError("rank needs the queries: give qid or group")
        _, offsets, rows = group_rows(len(scores), qid, group)
        labels = None if document_groups is None else np.asarray(document_groups)
        if labels is not None and labels.shape != scores.shape:
            raise DataError(f"document_groups have shape {labels.shape} for {len(scores)} rows; give one label per row")
        if rows is not None:
            scores, labels = scores[rows], None if labels is None else labels[rows]
        return orderings(scores, offsets, rows, k, labels)

    def score(
        self,
        X: Queries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: None = None,
    ) -> float:
        """Mean of the ranker's own measure, policy ``standard``; of a mix, the weighted mean.

        Args:
            X: Queries, or features with one row per document.
            y: Grades of the rows.
            qid: The query of each row.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            sample_weight: There for scikit-learn's pipelines, which name it; a measure has no weights of documents.
        """
        if sample_weight is not None:
            raise ValueError("a measure has no weights of documents; leave sample_weight out")
        check_is_fitted(self)
        queries = as_queries(X, y, qid, group, None, allow_nan=True)
        scores = self.predict(queries if isinstance(X, Queries) else X, qid=qid, group=group)
        mix = parse_mix(self.measure_)
        means = evaluate(queries, scores, [str(measure) for _, measure in mix], n_jobs=self.n_jobs).mean
        total = sum(weight for weight, _ in mix)
        return float(sum(weight * means[str(measure)] for weight, measure in mix) / total)

    @property
    def gap_(self) -> float:
        """How far the objective can be from the optimum."""
        return self.solution_.gap

    @property
    def objective_(self) -> float:
        """The objective reached."""
        return self.solution_.primal

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver, or rounds of a baseline."""
        return self.solution_.n_iter

    @property
    def bins_(self) -> Bins | None:
        """Thresholds of step functions; None where there are none."""
        return self.form_ if isinstance(self.form_, Bins) else None

    def shapes(self) -> list[Shape]:
        """Give the learned step function of each feature of an additive ranker."""
        check_is_fitted(self)
        if self.bins_ is None:
            raise ValueError(f"a {self.form_.kind} ranker has no shapes, but coef_; train with scorer='additive'")
        names = getattr(self, "feature_names_in_", None)
        return self.bins_.shapes(self.coef_, None if names is None else [str(name) for name in names])

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the ranker to a file that `load` reads; see `model_file` for the format."""
        check_is_fitted(self)
        save_ranker(self, path, overwrite=overwrite)

    def _method(self) -> Method:
        given = [name for name in ("preset", "measure", "loss") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of preset, measure and loss, not {' and '.join(given)}")
        if self.feature_map is not None and self.measure is None:
            raise ValueError("feature_map goes with measure; a preset or loss has its own")
        if self.loss is not None:
            if not isinstance(self.loss, Loss):
                raise TypeError(f"loss is {self.loss!r}; give a Loss such as StructuredLoss('ap'), or use measure")
            return Method(self.loss, str(getattr(self.loss, "measure", "ndcg")))
        if self.measure is not None:
            return Method(loss_for(self.measure, self.feature_map), str(self.measure))
        return parse_preset(DEFAULT_PRESET if self.preset is None else self.preset)

    def _fit(
        self,
        queries: Queries,
        Cs: Sequence[float],
        validation: Validation | None,
        callback: Callback | None,
        before: FloatArray | None,
    ) -> list[Fit]:
        method = self._method()
        self._check_options(method.baseline)
        self.scaling_ = self._scaling(method.baseline)
        self.scaler_ = None if self.scaling_ is None else SCALINGS[self.scaling_]()
        ready = weighted(queries if self.scaler_ is None else self.scaler_.fit_transform(queries), self.weighting)
        if isinstance(method.trained, Baseline):
            fits = self._fit_baseline(method.trained, method.measure, ready, Cs, validation, callback)
        else:
            fits = self._fit_loss(method.trained, method, ready, Cs, validation, callback, before)
        trained = method.trained
        if isinstance(trained, Loss) and fits[0].bound is not None and trained.convex:
            trained = trained.bounded(fits[0].bound)
        self.loss_, self.measure_ = str(trained), method.measure
        self._adopt(fits[0])
        self._describe(queries)
        return fits

    def _fit_loss(
        self,
        loss: Loss,
        method: Method,
        queries: Queries,
        Cs: Sequence[float],
        validation: Validation | None,
        callback: Callback | None,
        before: FloatArray | None,
    ) -> list[Fit]:
        scorer = self._scorer(queries)
        stopper = None
        if validation is not None:
            judged, ready = self._held_out(validation)
            held = LinearScorer(ready) if isinstance(scorer, LinearScorer) else AdditiveScorer(ready, scorer.bins)
            stopper = EarlyStopping(judged, method.measure, self.patience, callback, held.scores)
        options = Options(
            solver=self.solver,
            bound=method.bound if self.bound is None else self.bound,
            start=cast("Any", method.start if self.start is None else self.start),
            start_C=self.start_C,
            anneal=self.anneal,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=np.inf if self.time_limit is None else self.time_limit,
            callback=callback if stopper is None else stopper,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            signs=self._signs(queries, scorer.form),
            warm=before if before is not None and before.shape == (scorer.n_parameters,) else None,
        )
        fits = train_path(scorer, loss, Cs, options)
        if stopper is None:
            return fits
        return [replace(fit, solution=stopper.best_of(fit.solution, fit.center)) for fit in fits]

    def _fit_baseline(
        self,
        baseline: Baseline,
        measure: str,
        queries: Queries,
        Cs: Sequence[float],
        validation: Validation | None,
        callback: Callback | None,
    ) -> list[Fit]:
        additive = self.scorer == "additive"
        bins = Bins.learn(queries.X, self.bins, self.spacing, self.n_jobs, self.shape) if additive else None
        setting = Setting(float(Cs[0]), self.random_state, self.n_jobs, bins)
        report = self._report(measure, validation, callback)
        limit = np.inf if self.time_limit is None else self.time_limit
        return train_baseline(baseline, queries, Cs, setting, report, limit)

    def _report(self, measure: str, validation: Validation | None, callback: Callback | None) -> Report:
        """Keep every stage or, with validation queries, the best on them."""
        if validation is None:
            return lambda step, stage: (True, bool(callback is not None and callback(step, stage.theta)))
        judged, ready = self._held_out(validation)
        stopper = EarlyStopping(judged, measure, self.patience, callback)

        def report(step: Step, stage: Stage) -> tuple[bool, bool]:
            stopper.scores = lambda theta: stage.form.score(theta, ready.X, self.n_jobs)
            stop = stopper(step, stage.theta)
            return stopper.best is not None and stopper.best[1] is stage.theta, stop

        return report

    def _held_out(self, validation: Validation) -> tuple[Queries, Queries]:
        """Queries that are not trained on, as given and as the ranker sees them."""
        judged = as_queries(*validation_parts(validation), None, None, allow_nan=self._takes_nan())
        check_columns(self, judged)
        return judged, judged if self.scaler_ is None else self.scaler_.transform(judged)

    def _scaling(self, baseline: Baseline | None) -> Scaling | None:
        own = None if baseline is None else baseline.scaling
        if self.scaling is not None and self.scaling not in SCALINGS:
            raise ValueError(f"scaling is {self.scaling!r}; choose one of {', '.join(SCALINGS)}, or None")
        if own is not None and self.scaling not in (None, own):
            raise ValueError(f"preset {self.preset!r} has a scaling of its own, {own!r}; leave out scaling")
        return cast("Scaling | None", own or self.scaling)

    def _check_options(self, baseline: Baseline | None) -> None:
        """Refuse parameters that mean nothing to a baseline."""
        if self.scorer not in ("linear", "additive"):
            raise ValueError(f"scorer is {self.scorer!r}; choose 'linear' or 'additive'")
        if baseline is None:
            return
        for name in _OF_LOSSES:
            value, default = getattr(self, name), inspect.signature(Ranker).parameters[name].default
            if not (np.isscalar(value) or value is None) or value != default:
                raise ValueError(
                    f"{name} is for methods with a loss, and preset {self.preset!r} is a baseline; leave it out"
                )
        if self.scorer == "additive" and (not baseline.linear or baseline.scaling is not None):
            raise ValueError(f"preset {self.preset!r} has a form of its own; leave out scorer='additive'")

    def _takes_nan(self) -> bool:
        baseline = self._method().baseline
        return self.scorer == "additive" or (baseline is not None and baseline.takes_nan)

    def _adopt(self, fit: Fit) -> None:
        self.form_, self.coef_ = fit.form, fit.solution.theta
        self.solution_, self.bound_, self.solver_, self.health_ = fit.solution, fit.bound, fit.solver, fit.health

    def _describe(self, queries: Queries) -> None:
        self.trained_on_ = {
            "queries": len(queries),
            "documents": queries.n_documents,
            "features": queries.n_features,
            "fingerprint": fingerprint(queries),
        }

    def _copy_with(self, C: float, fit: Fit) -> Ranker:
        other = clone(self).set_params(C=C)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(other, name, value)
        other._adopt(fit)
        return cast("Ranker", other)

    def _scorer(self, queries: Queries) -> LinearScorer | AdditiveScorer:
        if self.scorer == "linear":
            return LinearScorer(queries)
        return AdditiveScorer(queries, Bins.learn(queries.X, self.bins, self.spacing, shape=self.shape))

    def _signs(self, queries: Queries, form: Form) -> IntArray | None:
        names = queries.feature_names
        if isinstance(form, Bins):
            if self.nonnegative is not False:
                raise ValueError("nonnegative is for linear weights; for step functions give monotone='increasing'")
            return None if self.monotone is None else form.signs(self.monotone, names)
        if self.monotone is not None:
            raise ValueError("monotone is for scorer='additive'; for linear weights give nonnegative")
        if self.nonnegative is False or self.nonnegative is None:
            return None
        signs = np.zeros(queries.n_features, dtype=np.int64)
        chosen = range(queries.n_features) if self.nonnegative is True else self.nonnegative
        for feature in chosen:
            signs[feature_number(feature, queries.n_features, names)] = 1
        return signs

    def _training_queries(
        self,
        X: Queries | npt.ArrayLike,
        y: npt.ArrayLike | None,
        qid: npt.ArrayLike | None,
        group: npt.ArrayLike | None,
        query_weights: npt.ArrayLike | None,
    ) -> Queries:
        takes_nan = self._takes_nan()
        if isinstance(X, Queries):
            learn_columns(self, X)
            return as_queries(X, y, qid, group, query_weights, allow_nan=takes_nan)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None; give one grade per row")
        if qid is None and group is None:
            raise DataError("training needs the queries: give qid, the query of each row, or group, the rows of each")
        features, grades = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite="allow-nan" if takes_nan else True,
            y_numeric=True,
        )
        names = getattr(self, "feature_names_in_", None)
        return Queries.from_arrays(
            features,
            grades,
            qid=qid,
            group=group,
            query_weights=query_weights,
            feature_names=names,
            allow_nan=takes_nan,
        )

    def _features(self, X: Queries | npt.ArrayLike) -> Features:
        if isinstance(X, Queries):
            check_columns(self, X)
            check_finite(X.X, self.form_.takes_nan)
            return X.X
        return cast(
            "Features",
            validate_data(
                self,
                X,
                reset=False,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                ensure_all_finite="allow-nan" if self.form_.takes_nan else True,
            ),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self.scorer == "linear"
        tags.input_tags.allow_nan = self.scorer == "additive"
        return tags


def load(path: str | Path) -> Ranker:
    """Read a ranker that `Ranker.save` wrote; it predicts what the saved one did, bit for bit.

    Raises:
        DataError: The file is no model, damaged, cut short, or of a newer version.
    """
    return cast("Ranker", load_ranker(Ranker, path))


def _named(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
