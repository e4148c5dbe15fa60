"""`Ranker`: every method behind one estimator."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self, cast

import numpy as np
from sklearn.base import clone

from marginrank.data.partitions import AnyQueries, PartitionedQueries, PartitionedScores, in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.measures import Measure
from marginrank.methods.argument_checks import warn_of_C
from marginrank.methods.estimator import BaseRanker
from marginrank.methods.presets import DEFAULT, ResolvedMethod, loss_for, parse_method
from marginrank.model.model import Model
from marginrank.model.model import TrainingRecord as MethodRecord
from marginrank.preparation.scaling import FittedScaling, scale
from marginrank.ranker.partial_fit import Online
from marginrank.ranker.resolution import NotInFile, loss_of
from marginrank.runtime.option_objects import OptionObject, seconds
from marginrank.scorers.base import Prepared, Scorer, parse_scorer, prepare
from marginrank.scorers.form import NAN_ADVICE, Form
from marginrank.scorers.staged_scorer import StagedScorer, StageLimits
from marginrank.solvers.base import Callback, Solver, parse_solver
from marginrank.training.checkpoint import Log
from marginrank.training.convex import ConvexTrainer, Fit
from marginrank.training.early_stopping import EarlyStopping, Scores, check_patience
from marginrank.training.online import with_bound_of
from marginrank.training.plan import Start
from marginrank.training.query_weighting import Weighting, weighted
from marginrank.training.staged import StagedTrainer, StageSelection
from marginrank.training.tight_bound import BoundChoice, Tight, parse_bound
from marginrank.typing import FloatArray

#: Iterations without an improvement on validation queries after which a solver stops.
_PATIENCE: Final = 10
#: Parameters that say how a loss is minimised, and mean nothing to a baseline.
_OF_LOSSES: Final = ("bound", "solver", "warm_start")
#: Parameters that mean nothing to scorers that are trained in stages.
_OF_SOLVERS: Final = ("solver", "warm_start")
_SET_BELOW: Final = ("method", "measure", "loss", "scaling", "random_state")


class Ranker(Online):
    """A ranker trained for a measure: minimises ½‖θ‖² + C · mean over queries of ξ(θ).

    >>> X = [[1.0, 0.2], [0.1, 0.9], [0.8, 0.3], [0.2, 0.1]]
    >>> ranker = Ranker("svmmap", C=10.0).fit(X, [1, 0, 1, 0], qid=[1, 1, 2, 2])
    >>> bool(ranker.coef_[0] > 0), ranker.gap_ <= 1e-4 * ranker.objective_
    (True, True)
    >>> [order.tolist() for order in ranker.rank(X, qid=[1, 1, 2, 2])]
    [[0, 1], [2, 3]]

    The loss, the scorer and the solver have parameters of their own. In `set_params`, `tune` and scikit-learn's
    searches they have names such as ``scorer__bins``, ``solver__tol`` and ``loss__feature_map``.

    Args:
        method: What to train: the name of a preset such as ``svmmap`` or ``ranksvm`` (``marginrank presets`` lists
            them), with ``@k`` after the name where it has a cutoff; a measure or a mix of measures such as
            ``ndcg@10 + 0.5*ap``; or a `Loss`. ``svmmap`` by default. Some presets are baselines such as ``rankboost``,
            which minimise no loss of this package and have no certificate.
        measure: Instead, a measure or a mix of measures.
        loss: Instead, a `Loss`.
        bound: ``hinge`` is convex; ``tight`` is closer to the measure but not convex, and `Tight` has its options;
            ``auto`` minimises the hinge, or the tight bound if the hinge is minimal at w = 0. By default that of the
            preset, otherwise ``auto``.
        C: Weight of the losses against the regulariser: the larger, the closer the fit to the training queries.
            Networks, most baselines, and trees without ``start`` or ``refit`` have none; another C than 1 then
            warns that it is ignored.
        scorer: ``linear``, ``additive`` (one curve per feature), ``kernel`` (a function of all features together),
            ``boosted`` (trees, by LightGBM or XGBoost), ``neural`` (a network, by PyTorch), or a `Scorer` such as
            ``Additive(bins=64)``. ``auto`` leaves the choice between linear and additive to `tune`.
        solver: ``auto``, ``bundle``, ``newton``, ``frank-wolfe``, ``n-slack``, ``stochastic``, ``subgradient``,
            ``cccp``, ``descent``, or a `Solver` such as ``Bundle(tol=1e-6)``.
        scaling: Scaling of the features inside the model: ``auto``, ``standard``, ``query-minmax``,
            ``query-standard``, ``query-percentile``, or None. ``auto`` standardises if the spreads of the features
            differ. C, the objective and ``coef_`` refer to scaled features. Scalings by query need ``qid`` to predict.
        weighting: How queries are weighted: ``grades`` (the sum of their grades), ``relevant`` (documents above grade
            0), ``pairs`` (pairs of different grade) or ``sqrt-pairs``; equally by default, as in the papers.
        time_limit: Maximum number of seconds.
        warm_start: Start from the weights of the previous fit.
        patience: With validation queries, iterations without improvement after which training stops; 10 by default,
            50 for boosted trees and baselines.
        random_state: Seed of baselines, of randomised solvers and of the boosted and neural scorers.
        n_jobs: Number of threads; all cores by default. Results do not depend on it.
    """

    def __init__(
        self,
        method: str | Measure | Loss | None = None,
        *,
        measure: str | Measure | None = None,
        loss: Loss | None = None,
        bound: Literal["auto", "hinge", "tight"] | Tight | None = None,
        C: float = 1.0,
        scorer: str | Scorer = "linear",
        solver: str | Solver = "auto",
        scaling: str | None = "auto",
        weighting: Weighting | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        patience: int | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.measure = measure
        self.loss = loss
        self.bound = bound
        self.C = C
        self.scorer = scorer
        self.solver = solver
        self.scaling = scaling
        self.weighting = weighting
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def criterion(self) -> str:
        """The measure, or mix of measures, that the ranker is judged by."""
        return self._method().criterion

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; names such as ``scorer__bins`` set those of the loss, bound, scorer or solver."""
        own = {name: value for name, value in parameters.items() if "__" not in name}
        super().set_params(**own)
        inner: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            if "__" in name:
                outer, _, rest = name.partition("__")
                inner.setdefault(outer, {})[rest] = value
        for name, values in inner.items():
            component = self._component(name).with_params(**values)
            if name == "loss":
                # The loss of a preset keeps the bound that the preset has.
                self.bound = self._bound(self._method()) if self.bound is None else self.bound
                self.method = self.measure = None
            setattr(self, name, component)
        return self

    def _component(self, name: str) -> OptionObject:
        """Return the object behind a parameter, whatever it was given as."""
        if name == "scorer":
            return parse_scorer(self.scorer)
        if name == "solver":
            return parse_solver(self.solver)
        if name == "bound":
            bound = self._bound(self._method())
            return bound if isinstance(bound, Tight) else Tight()
        if name == "loss":
            loss = self._method().loss
            if loss is None:
                raise ValueError(f"{self.method!r} is a baseline and has no loss")
            return loss
        raise ValueError(f"{name!r} has no parameters of its own; loss, bound, scorer and solver have")

    def _method(self) -> ResolvedMethod:
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, NotInFile):
                raise DataError(f"{value.reason}; set it with set_params({name}=...) before fitting again")
        given = {name: getattr(self, name) for name in ("method", "measure", "loss")}
        chosen = [name for name, value in given.items() if value is not None]
        if len(chosen) > 1:
            raise ValueError(f"give one of method, measure and loss, not {' and '.join(chosen)}")
        if self.loss is not None:
            if not isinstance(self.loss, Loss):
                raise TypeError(f"loss is {self.loss!r}; give a Loss such as StructuredLoss('ap'), or use measure")
            return ResolvedMethod(self.loss)
        if self.measure is not None:
            return ResolvedMethod(loss_for(self.measure))
        return parse_method(DEFAULT if self.method is None else self.method)

    def _bounded_as(self, model: Model) -> Self:
        """Return this ranker, or one with the bound that a model was trained with if that is left open here."""
        if model.method.bound == "tight" and self._bound(self._method()) == "auto":
            return cast("Self", clone(self).set_params(bound="tight"))
        return self

    def _bound(self, method: ResolvedMethod) -> BoundChoice:
        return method.bound if self.bound is None else parse_bound(self.bound)

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
        method = self._method()
        patience = _PATIENCE if self.patience is None else check_patience(self.patience)
        before = None if start is None else start.model
        if before is not None:
            self._check_goes_on(method)
        if not self._path_of_C:
            scorer_name = parse_scorer(self.scorer).name
            warn_of_C(self.C, f"the {scorer_name} scorer" if method.baseline is None else str(method.preset))
        if method.baseline is not None:
            return self._train_baseline(method, queries, Cs, validation, callback, time_limit)
        scorer = parse_scorer(self.scorer)
        if queries.is_sparse and not scorer.takes_sparse:
            raise DataError(f"the {scorer.name} scorer takes no sparse X; pass X.toarray()")
        if isinstance(scorer, StagedScorer):
            return self._train_stages(method, scorer, queries, Cs, validation, callback, time_limit)
        limit = min(time_limit, seconds(self.time_limit))
        deadline = time.perf_counter() + limit
        if before is None:
            scaled = scale(queries, self.scaling, matters=scorer.scale_matters, before=scorer.before_scaling)
            # Half of the time, so that the solver has as much.
            prepared = prepare(scorer.within(limit / 2), weighted(scaled.queries, self.weighting), self.n_jobs)
            # If the scorer made its own copy, the scaled features can be freed.
            scaled = replace(scaled, queries=queries)
        else:
            scaled, prepared = self._as_before(before, queries)
        stopper = self._stopper(prepared, scaled, validation, patience, callback)
        solver = self._solver(callback if stopper is None else stopper, deadline)
        training = ConvexTrainer(loss_of(method), self._bound(method), solver, self.n_jobs, log)
        if before is not None and start is not None and start.centered:
            fits = [with_bound_of(before, training).near(prepared, Cs[0], start.theta)]
        else:
            fitting = start is not None and start.theta.shape == (prepared.n_parameters,)
            fits = training.path(prepared, Cs, start.theta if start is not None and fitting else None)
        if stopper is not None:
            fits = [replace(fit, solution=stopper.best_of(fit.solution, fit.center)) for fit in fits]
        return self._models(queries, method, scaled, [(prepared.form, fit) for fit in fits])

    def _check_resumes(self) -> None:
        method, scorer = self._method(), parse_scorer(self.scorer)
        if method.baseline is not None or isinstance(scorer, StagedScorer):
            what = f"{method.preset!r}" if method.baseline is not None else f"the {scorer.name} scorer"
            raise ValueError(
                f"{what} has no solver that could go on from a checkpoint; leave it out, or use it with tune, which "
                "keeps what it has finished"
            )

    def _train_stages(
        self,
        method: ResolvedMethod,
        scorer: StagedScorer,
        queries: AnyQueries,
        Cs: Sequence[float],
        validation: AnyQueries | None,
        callback: Callback | None,
        time_limit: float,
    ) -> list[Model]:
        for name in _OF_SOLVERS:
            if not _same(name, getattr(self, name), inspect.signature(Ranker).parameters[name].default):
                raise ValueError(f"{name} is for scorers that a solver trains, and {scorer.name} is not; leave it out")
        deadline = time.perf_counter() + min(seconds(self.time_limit), time_limit)
        # Sorted before they are scaled: means of the same rows in another order differ in the last digit.
        ordered = in_canonical_order(in_memory(queries, f"the {scorer.name} scorer"))
        scaled = scale(ordered, self.scaling, matters=scorer.scale_matters, before=scorer.before_scaling)
        judge = StageSelection(callback, lowest=True, n_jobs=self.n_jobs)
        if validation is not None:
            patience = scorer.patience if self.patience is None else self.patience
            held_out = in_memory(validation, f"the {scorer.name} scorer")
            judge.watch(held_out, scaled.apply(held_out), self.criterion, patience)
        setting = StageLimits(1.0, deadline, self.random_state, self.n_jobs)
        training = StagedTrainer(scorer, loss_of(method), self._bound(method), setting)
        fits = training.path(weighted(scaled.queries, self.weighting), Cs, judge)
        return self._models(queries, method, scaled, fits)

    def _models(
        self, queries: AnyQueries, method: ResolvedMethod, scaled: FittedScaling[Any], fits: Sequence[tuple[Form, Fit]]
    ) -> list[Model]:
        provenance, specs = self._provenance(queries), self._specs()
        return [
            Model(
                form=form,
                solution=fit.solution,
                n_features=queries.n_features,
                method=MethodRecord(
                    type(self).__name__,
                    method.criterion,
                    str(fit.loss),
                    method.preset,
                    fit.bound,
                    fit.solver,
                    self.weighting,
                    {**specs, "C": fit.solution.C},
                ),
                provenance=provenance,
                feature_names=queries.feature_names,
                first_feature=queries.first_feature,
                scaling=scaled.scaling,
                scaler=scaled.scaler,
                health=fit.health,
                stream=fit.stream,
            )
            for form, fit in fits
        ]

    def _stopper(
        self,
        prepared: Prepared,
        scaled: FittedScaling[Any],
        validation: AnyQueries | None,
        patience: int,
        callback: Callback | None,
    ) -> EarlyStopping | None:
        if validation is None:
            return None
        form, n_jobs = prepared.form, self.n_jobs
        if isinstance(validation, PartitionedQueries):
            parts = scaled.apply(validation)
            scores: Scores = lambda theta: PartitionedScores(parts, _scores_at, form, theta)  # noqa: E731
            return EarlyStopping(parts, self.criterion, patience, scores, callback)
        ready = scaled.apply(validation)
        return EarlyStopping(
            validation, self.criterion, patience, lambda theta: form.score(theta, ready.X, n_jobs), callback
        )

    def _solver(self, callback: Callback | None, deadline: float) -> Solver:
        solver = parse_solver(self.solver)
        limit = min(solver.time_limit, max(deadline - time.perf_counter(), 1e-9))
        solver = replace(solver, time_limit=limit, callback=callback or solver.callback)
        # A seed of the solver's own comes first.
        if solver.get_params().get("random_state") == 0:
            solver = solver.with_params(random_state=self.random_state)
        return solver

    def _train_baseline(
        self,
        method: ResolvedMethod,
        queries: AnyQueries,
        Cs: Sequence[float],
        validation: AnyQueries | None,
        callback: Callback | None,
        time_limit: float,
    ) -> list[Model]:
        models = self._baseline(method)._train(queries, Cs, validation, callback, None, time_limit)
        specs = self._specs()
        return [
            replace(
                model,
                method=replace(
                    model.method,
                    estimator=type(self).__name__,
                    preset=method.preset,
                    parameters={**specs, "C": model.solution.C},
                ),
            )
            for model in models
        ]

    def _baseline(self, method: ResolvedMethod) -> BaseRanker:
        """Return the estimator behind a preset, with the parameters of this one that mean something to it."""
        baseline: BaseRanker = clone(method.baseline)
        known = baseline.get_params(deep=False)
        for name, parameter in inspect.signature(Ranker).parameters.items():
            value = getattr(self, name)
            if name in _SET_BELOW or value is None or _same(name, value, parameter.default):
                continue
            if name in _OF_LOSSES:
                raise ValueError(
                    f"{name} is for methods with a loss, and {method.preset!r} is a baseline; leave it out"
                )
            if name in known:
                baseline.set_params(**{name: value})
            elif name == "scorer":
                raise ValueError(f"preset {method.preset!r} has its own form; leave out scorer")
        # None means something for these two.
        baseline.set_params(scaling=self.scaling, random_state=self.random_state)
        return baseline

    def _check_spellings(self) -> None:
        """Refuse names of parts that do not exist; what a file could not hold is left alone."""
        parts: tuple[tuple[Any, Callable[[Any], object]], ...] = (
            (self.scorer, parse_scorer),
            (self.solver, parse_solver),
            ("auto" if self.bound is None else self.bound, parse_bound),
        )
        for value, parse in parts:
            if not isinstance(value, NotInFile):
                parse(value)

    @property
    def _takes_nan(self) -> bool:
        method = self._method()
        if method.baseline is not None:
            return self._baseline(method)._takes_nan
        return parse_scorer(self.scorer).takes_nan

    @property
    def _nan_advice(self) -> str:
        method = self._method()
        return NAN_ADVICE if method.baseline is None else self._baseline(method)._nan_advice

    @property
    def _path_of_C(self) -> bool:
        baseline = self._method().baseline
        if baseline is not None:
            return baseline._path_of_C
        return parse_scorer(self.scorer).takes_C

    @property
    def _light(self) -> bool:
        return self._method().baseline is None and parse_scorer(self.scorer).light

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not isinstance(self.scorer, NotInFile):
            scorer = parse_scorer(self.scorer)
            tags.input_tags.sparse = scorer.takes_sparse
            tags.input_tags.allow_nan = scorer.takes_nan
        return tags


def _scores_at(queries: Queries, form: Form, theta: FloatArray) -> FloatArray:
    return form.score(theta, queries.X, 1)


def _same(name: str, value: Any, default: Any) -> bool:
    """Whether a parameter is its default, which ``Auto()`` is for ``auto``."""
    if name == "solver":
        return parse_solver(value) == parse_solver(default)
    if name == "scorer":
        return parse_scorer(value) == parse_scorer(default)
    return bool(value == default)
