"""Trainers: what turns a plan and queries into models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from marginrank.data.partitions import AnyQueries
from marginrank.data.queries import Queries
from marginrank.data.statistics import queries_of_one_grade
from marginrank.data.unjudged import NOTHING_JUDGED
from marginrank.errors import DataError, Parameter, warn
from marginrank.model.model import Model, Provenance, TrainingRecord
from marginrank.preparation.scaling import FittedScaling
from marginrank.runtime.threads import default_threads
from marginrank.scorers.form import Form
from marginrank.training.loss_minimizer import Fit
from marginrank.training.plan import Capabilities, FitContext, Plan


class Trainer(Protocol):
    """Trains models: `ConvexTrainer`, `StagedTrainer` and the baselines."""

    def capabilities(self, plan: Plan, /) -> Capabilities:
        """Return what this trainer can do with a plan."""

    def train(self, plan: Plan, queries: AnyQueries, context: FitContext, /) -> list[Model]:
        """Train a model for each C of the context."""


def train(plan: Plan, queries: AnyQueries, context: FitContext | None = None) -> Model:
    """Train one model."""
    return train_path(plan, queries, context)[0]


def train_path(plan: Plan, queries: AnyQueries, context: FitContext | None = None) -> list[Model]:
    """Train a model for each C of the context; for the C of the plan by default."""
    context = context or FitContext()
    if not context.Cs:
        context = replace(context, Cs=(plan.C,))
        if plan.C != 1.0 and not plan.capabilities.takes_C:
            warn(f"{plan.label} has no C, so C = {plan.C:g} is ignored; leave it out")
    check_capabilities(plan, queries, context)
    check_judged(plan, queries)
    with default_threads(plan.n_jobs):
        return plan.trainer.train(plan, queries, context)


def check_capabilities(plan: Plan, queries: AnyQueries, context: FitContext) -> None:
    """Refuse what the trainer of a plan cannot do."""
    able = plan.capabilities
    if context.start is not None and context.start.model is not None:
        check_continues(plan)
    if context.log is not None and not able.resumes:
        check_resumes(plan)
    if queries.is_sparse and not able.takes_sparse:
        raise DataError(f"{plan.label} takes no sparse X; pass X.toarray()")


def check_judged(plan: Plan, queries: AnyQueries) -> None:
    """Refuse queries without a grade, or whose judged documents have no order because the others are left out."""
    if not queries.n_unjudged or plan.unjudged == "irrelevant":
        return
    if queries.n_unjudged == queries.n_documents:
        raise DataError(NOTHING_JUDGED)
    if isinstance(queries, Queries) and queries_of_one_grade(queries) == len(queries):
        raise DataError(
            "the judged documents of every query have a single grade, and unjudged ones are left out, so there is "
            "nothing to learn; judge more, or count unjudged documents as irrelevant: ",
            Parameter("unjudged", "irrelevant"),
        )


def check_continues(plan: Plan) -> None:
    """Refuse plans whose trainer cannot continue from a model."""
    if not plan.capabilities.continues:
        raise ValueError(f"{plan.label} cannot be trained further; retrain it on all queries")


def check_resumes(plan: Plan) -> None:
    """Refuse plans whose trainer cannot resume from a checkpoint."""
    if not plan.capabilities.resumes:
        raise ValueError(
            f"{plan.label} has no solver that could resume from a checkpoint; leave it out, or use tune, which saves "
            "finished settings"
        )


def make_models(
    plan: Plan, queries: AnyQueries, scaling: FittedScaling[Any], fits: Iterable[tuple[Form, Fit]]
) -> list[Model]:
    """Return the models of fits to the same queries, with all that is known about their training."""
    # The fingerprint reads all features.
    provenance = Provenance.of(queries)
    return [_make_model(plan, queries, scaling, form, fit, provenance) for form, fit in fits]


def _make_model(
    plan: Plan, queries: AnyQueries, scaling: FittedScaling[Any], form: Form, fit: Fit, provenance: Provenance
) -> Model:
    record = TrainingRecord(
        str(plan.criterion),
        str(fit.loss) if fit.loss is not None else str(plan.trainer),
        plan.preset,
        fit.bound,
        fit.solver,
        plan.weighting,
        {**plan.parameters, "C": fit.solution.C},
    )
    return Model(
        form=form,
        solution=fit.solution,
        n_features=queries.n_features,
        method=record,
        provenance=provenance,
        feature_names=queries.feature_names,
        first_feature=queries.first_feature,
        scaling=scaling.scaling,
        scaler=scaling.scaler,
        health=fit.health,
        stream=fit.stream,
    )
