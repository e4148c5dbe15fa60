"""Base classes of baselines, which have their own training instead of a loss and a solver of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

import numpy as np

from marginrank.data.partitions import AnyQueries, in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.model.model import Model
from marginrank.preparation.scaling import FittedScaling, scale
from marginrank.runtime.option_objects import OptionObject
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.form import NAN_ADVICE, Form
from marginrank.scorers.linear.scorer import Linear
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.loss_minimizer import NO_ORDER, Fit
from marginrank.training.plan import Capabilities, Deadline, FitContext, Plan
from marginrank.training.query_weighting import documents_to_learn_from, ordered_queries
from marginrank.training.staged import StageSelection, keep_best
from marginrank.training.trainer import make_models
from marginrank.typing import Features, FloatArray, IntArray

#: Maximum number of grades that are treated as classes.
_MAX_CLASSES: Final = 64


@dataclass(frozen=True)
class Baseline(OptionObject, ABC):
    """A method with its own training instead of a loss of this package; there is no gap, and no certificate.

    A subclass is a frozen dataclass of its options in a module of this folder. `Ranker` takes an instance, its spelling
    such as ``rankboost(rounds=50)``, or a name in the ``PRESETS`` of the module.
    """

    family = "baseline"
    example = "rankboost or rankboost(rounds=50)"
    #: Whether it has a C.
    takes_C: ClassVar[bool] = False  # noqa: N815
    #: The measure that it is evaluated with.
    default_criterion: ClassVar[str] = "ndcg"
    takes_nan: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    #: Whether it uses the ranker's scorer.
    takes_scorer: ClassVar[bool] = False
    #: Whether scores change with the scale of the features.
    scale_matters: ClassVar[bool] = True
    #: Whether all rounds are trained before the first stage; the baseline then checks the deadline.
    at_once: ClassVar[bool] = False
    #: Whether queries can be weighted.
    takes_weights: ClassVar[bool] = False
    #: Whether it is randomized.
    draws: ClassVar[bool] = False
    # On the validation folds of MQ2008, RankBoost and LambdaRank reach the best of 300 rounds with 50 in all ten fits,
    # with 10 in four of them: rounds are small steps, and the measure is flat for many rounds.
    #: Default number of rounds without improvement on validation queries after which training stops.
    patience: ClassVar[int] = 50

    @abstractmethod
    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:
        """Train and yield a stage per round; the last stage is the result."""

    @property
    def criterion(self) -> str:
        """The measure that the method is evaluated with."""
        return self.default_criterion

    @property
    def fixed_scaling(self) -> str | None:
        """The scaling that is part of the method, by name."""
        return None

    def capabilities(self, plan: Plan) -> Capabilities:
        """Return what the method can do."""
        advice = f"fill it, as {plan.label} takes no missing values"
        return Capabilities(self.takes_nan, advice, self.takes_sparse, self.takes_C)

    def check(self, plan: Plan, queries: Queries) -> None:
        """Refuse queries that the method cannot learn from."""
        if queries.query_weights is not None and not self.takes_weights:
            raise DataError(
                f"{plan.label} cannot weight queries; leave out ", Parameter("weighting"), " and query weights"
            )
        if queries.document_weights is not None:
            raise DataError(
                f"{plan.label} cannot weight documents; train a loss such as 'ranksvm', or leave out the weights"
            )
        if not ordered_queries(queries).any():
            raise DataError(NO_ORDER)

    def train(self, plan: Plan, queries: AnyQueries, context: FitContext) -> list[Model]:
        """Train a model for each C; once, if the method has none."""
        deadline = Deadline.after(min(plan.time_limit, context.time_limit))
        # Sorted before they are scaled: means of the same rows in another order differ in the last digit.
        scaling = self.scale(plan, in_canonical_order(in_memory(queries, plan.label)))
        ready = documents_to_learn_from(scaling.queries, plan.weighting, plan.unjudged)
        self.check(plan, ready)
        fits: list[tuple[Form, Fit]] = []
        for C in context.Cs:
            if fits and not self.takes_C:
                form, fit = fits[0]
                fits.append((form, replace(fit, solution=replace(fit.solution, C=C))))
                continue
            selection = StageSelection.of(plan, scaling, context, self.patience)
            limits = StageLimits(C, deadline.at, plan.seed, plan.n_jobs)
            stages = self.stages(plan, ready, limits)
            stage, solution = keep_best(stages, limits, selection, plan.label, end="stationary", at_once=self.at_once)
            fits.append((stage.form, Fit(solution)))
        return make_models(plan, queries, scaling, fits)

    def before_scaling(self, plan: Plan, X: Features) -> Features:  # noqa: ARG002
        """Return the features to scale."""
        return X

    def scale(self, plan: Plan, queries: Queries) -> FittedScaling[Queries]:
        """Scale the features with the scaling of the method, if it has one, otherwise with that of the plan."""
        before = partial(self.before_scaling, plan)
        if self.fixed_scaling is None:
            return scale(queries, plan.scaling, matters=self.scale_matters, before=before)
        if plan.scaling not in ("auto", None, self.fixed_scaling):
            raise ValueError(f"{plan.label} has its own scaling, {self.fixed_scaling!r}; leave out scaling")
        return scale(queries, self.fixed_scaling, before=before)


@dataclass(frozen=True)
class LinearBaseline(Baseline):
    """A baseline that learns weights of features, or of indicators that features exceed thresholds."""

    takes_sparse: ClassVar[bool] = True
    takes_scorer: ClassVar[bool] = True

    @abstractmethod
    def weights(self, X: Features, queries: Queries, limits: StageLimits) -> Iterator[tuple[FloatArray, float]]:
        """Yield the weights of the columns of X and the objective after each round."""

    def fixed_bins(self, n_features: int) -> AdditiveForm | None:  # noqa: ARG002
        """Return the thresholds that are part of the method."""
        return None

    def capabilities(self, plan: Plan) -> Capabilities:
        """Return what the method can do with the scorer."""
        return replace(super().capabilities(plan), takes_nan=plan.scorer.takes_nan, nan_advice=NAN_ADVICE)

    def before_scaling(self, plan: Plan, X: Features) -> Features:
        """Return the features to scale."""
        return plan.scorer.before_scaling(X)

    def scale(self, plan: Plan, queries: Queries) -> FittedScaling[Queries]:
        """Scale the features, unless the scorer does not depend on their scale."""
        if self.fixed_scaling is None and plan.scaling == "auto" and not plan.scorer.scale_matters:
            return scale(queries, None, matters=False)
        return super().scale(plan, queries)

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:
        """Train on the features, or on their indicators."""
        form = self.fixed_bins(queries.n_features)
        if isinstance(plan.scorer, Additive):
            if form is not None:
                raise ParameterError(
                    f"{plan.label} has its own thresholds; leave out ", Parameter("scorer", "additive")
                )
            form = plan.scorer.learn(queries, plan.n_jobs)
        elif form is None and isinstance(plan.scorer, Linear):
            linear = plan.scorer.learn(queries)
            yield from self._rounds(linear, linear.columns(queries.X), queries, limits)
            return
        if form is None:
            raise ValueError(f"{plan.label} takes the linear or the additive scorer, not {plan.scorer.name}")
        yield from self._rounds(form, form.columns(queries.X, plan.n_jobs), queries, limits)

    def _rounds(self, form: Form, X: Features, queries: Queries, limits: StageLimits) -> Iterator[Stage]:
        for weights, objective in self.weights(X, queries, limits):
            yield Stage(form, weights, objective)


def check_rounds(rounds: int, name: str = "rounds") -> None:
    """Refuse fewer rounds than one."""
    if rounds < 1:
        raise ValueError(f"{rounds} {name}; give at least 1")


def document_weights(queries: Queries) -> FloatArray:
    """Return the weight of each document: that of its query, normalized to the sum 1.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [1, 0, 0], group=[2, 1], query_weights=[1.0, 2.0])
    >>> document_weights(queries).tolist()
    [0.25, 0.25, 0.5]
    """
    by_query = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
    weights = np.repeat(by_query, queries.lengths)
    return np.asarray(weights / weights.sum())


def grade_classes(queries: Queries) -> tuple[FloatArray, IntArray]:
    """Return the distinct grades in increasing order, and the index of each document's grade.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [4, 0, 4], group=[3])
    >>> [part.tolist() for part in grade_classes(queries)]
    [[0.0, 4.0], [1, 0, 1]]
    """
    grades, classes = np.unique(queries.grades, return_inverse=True)
    if len(grades) > _MAX_CLASSES:
        raise DataError(f"there are {len(grades)} different grades; a class for each is for at most {_MAX_CLASSES}")
    return grades, classes.astype(np.int64)
