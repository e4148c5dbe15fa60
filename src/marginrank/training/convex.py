"""Training of scorers that are linear in their parameters, by a solver."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from marginrank.data.partitions import AnyQueries, PartitionedQueries, PartitionedScores, SomeQueries
from marginrank.data.queries import Queries
from marginrank.errors import Parameter, ParameterError
from marginrank.model.model import Model
from marginrank.preparation.scaling import FittedScaling, scale, scale_as
from marginrank.scorers.base import Prepared, PreparedScorer, prepare
from marginrank.scorers.form import NAN_ADVICE, Form
from marginrank.solvers.base import Callback
from marginrank.training.checkpoint import Log
from marginrank.training.early_stopping import EarlyStopping
from marginrank.training.loss_minimizer import LossMinimizer
from marginrank.training.plan import Capabilities, Deadline, FitContext, Plan, Start
from marginrank.training.query_weighting import documents_to_learn_from
from marginrank.training.standardized_scorer import StandardizedScorer
from marginrank.training.trainer import make_models
from marginrank.typing import FloatArray

#: Iterations without an improvement on validation queries after which a solver stops.
PATIENCE = 10


class ConvexTrainer:
    """Trains scorers that are linear in their parameters."""

    def capabilities(self, plan: Plan) -> Capabilities:
        """Return what this trainer can do with a plan."""
        scorer = plan.scorer
        return Capabilities(
            takes_nan=scorer.takes_nan,
            nan_advice=NAN_ADVICE,
            takes_sparse=scorer.takes_sparse,
            takes_C=scorer.takes_C,
            resumes=True,
            continues=True,
            gil_bound=scorer.gil_bound,
        )

    def train(self, plan: Plan, queries: AnyQueries, context: FitContext) -> list[Model]:
        """Train a model for each C."""
        limit = min(plan.time_limit, context.time_limit)
        deadline = Deadline.after(limit)
        scaling, scorer = bind_scorer(plan, queries, context.start, limit)
        stopping = _early_stopping(plan, scaling, scorer.form, context)
        minimizer = loss_minimizer(plan, deadline, stopping or context.callback, context.log)
        fits = minimizer.from_start(scorer, context.Cs, context.start)
        if stopping is not None:
            fits = [replace(fit, solution=stopping.best_of(fit.solution, fit.center)) for fit in fits]
        return make_models(plan, queries, scaling, [(scorer.form, fit) for fit in fits])


def bind_scorer(
    plan: Plan, queries: SomeQueries, start: Start | None = None, time_limit: float = np.inf
) -> tuple[FittedScaling[SomeQueries], Prepared]:
    """Scale the features and prepare the scorer for them: from scratch, or as the model to start from was trained."""
    if isinstance(queries, Queries):
        queries = cast("SomeQueries", queries.placed(plan.scorer.place))
    model = None if start is None else start.model
    if model is None:
        scaling = scale(
            queries,
            plan.scaling,
            matters=plan.scorer.scale_matters,
            before=plan.scorer.before_scaling,
            may_defer=plan.scorer.weights_features,
        )
        # Half of the time, so that the solver has as much.
        scorer, form = plan.scorer.with_time_limit(time_limit / 2), None
    else:
        _check_continues(plan, model, queries)
        may_defer = plan.scorer.weights_features and model.form.weights_features
        scaling = scale_as(queries, model.scaling, model.scaler, model.form.before_scaling, may_defer=may_defer)
        scorer, form = plan.scorer, model.form
    ready = documents_to_learn_from(scaling.queries, plan.weighting, plan.unjudged)
    prepared = prepare(scorer, ready, plan.n_jobs, form)
    if scaling.deferred is not None and isinstance(prepared, PreparedScorer):
        prepared = StandardizedScorer(prepared, scaling.deferred.mean_, scaling.deferred.scale_)
    # If the scorer made its own copy, the scaled features can be freed.
    return replace(scaling, queries=queries), prepared


def loss_minimizer(
    plan: Plan, deadline: Deadline, callback: Callback | None = None, log: Log | None = None
) -> LossMinimizer:
    """Return what minimizes the loss of a plan, within a deadline."""
    limit = min(plan.solver.time_limit, deadline.seconds_left)
    solver = replace(plan.solver, time_limit=limit, callback=callback or plan.solver.callback)
    return LossMinimizer(plan.needed_loss, plan.bound, solver, plan.n_jobs, log, plan.silent)


def _check_continues(plan: Plan, model: Model, queries: AnyQueries) -> None:
    if isinstance(queries, Queries):
        model.check(queries)
    if plan.scaling not in ("auto", model.scaling):
        raise ParameterError(
            f"the scaling of the model is {model.scaling!r} and ", Parameter("scaling", plan.scaling), "; leave it out"
        )


def _early_stopping(
    plan: Plan, scaling: FittedScaling[AnyQueries], form: Form, context: FitContext
) -> EarlyStopping | None:
    validation = context.validation
    if validation is None:
        return None
    scaled = scaling.apply(validation)
    patience = PATIENCE if plan.patience is None else plan.patience

    def scores(theta: FloatArray) -> FloatArray | PartitionedScores:
        if isinstance(scaled, PartitionedQueries):
            return PartitionedScores(scaled, _scores_at, form, theta)
        return form.score(theta, scaled.X, plan.n_jobs)

    judged = scaled if isinstance(scaled, PartitionedQueries) else validation
    return EarlyStopping(judged, plan.criterion, patience, scores, context.callback)


def _scores_at(queries: Queries, form: Form, theta: FloatArray) -> FloatArray:
    return form.score(theta, queries.X, 1)
