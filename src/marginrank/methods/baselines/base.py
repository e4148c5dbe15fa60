"""What a baseline is: an estimator that trains by rounds, in its own way, without a loss or a solver of ours."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from marginrank.data.partitions import AnyQueries, in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.errors import DataError
from marginrank.methods.estimator import BaseRanker
from marginrank.model.model import Model, TrainingRecord
from marginrank.preparation.scaling import FittedScaling, scale
from marginrank.runtime.option_objects import seconds
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.additive.scorer import Additive
from marginrank.scorers.base import Scorer, parse_scorer
from marginrank.scorers.form import NAN_ADVICE, Form
from marginrank.scorers.linear.form import LinearForm
from marginrank.scorers.linear.scorer import Linear
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.solvers.base import Callback
from marginrank.training.checkpoint import Log
from marginrank.training.convex import NO_ORDER
from marginrank.training.plan import Start
from marginrank.training.query_weighting import Weighting, ordered_queries, weighted
from marginrank.training.staged import StageSelection, keep_best
from marginrank.typing import Features, FloatArray, IntArray

#: Maximum number of grades that are taken for classes.
_MOST_CLASSES: Final = 64


@dataclass(eq=False, repr=False)
class Baseline(BaseRanker):
    """A method that is trained in its own way; there is no gap, and no certificate.

    A subclass is an estimator in a module of this folder, whose ``PRESETS`` name it for `Ranker`.

    Args:
        scaling: ``auto``, ``standard``, ``query-minmax``, ``query-standard``, ``query-percentile`` or None.
        weighting: How queries are weighted; see `Ranker`.
        time_limit: Maximum number of seconds.
        patience: With validation queries, rounds without an improvement after which training stops.
        random_state: Seed of whatever is drawn at random.
        n_jobs: Number of threads; all cores by default.
    """

    #: Whether it has a C.
    takes_C: ClassVar[bool] = False  # noqa: N815
    C: ClassVar[float] = 1.0  # type: ignore[misc]  # a field where there is one to choose
    #: The measure that it is judged by.
    judged_by: ClassVar[str] = "ndcg"
    takes_sparse: ClassVar[bool] = False
    #: Whether scores change with the scale of the features.
    scale_matters: ClassVar[bool] = True
    #: Whether all rounds are trained before the first stage; it then looks at the deadline itself.
    at_once: ClassVar[bool] = False
    #: Whether queries can be weighted.
    takes_weights: ClassVar[bool] = False
    #: Whether it draws at random.
    draws: ClassVar[bool] = False

    scaling: str | None = field(default="auto", kw_only=True)
    weighting: Weighting | None = field(default=None, kw_only=True)
    time_limit: float | None = field(default=None, kw_only=True)
    # On the validation parts of MQ2008, RankBoost and LambdaRank reach the best of 300 rounds with 50 in all ten fits,
    # with 10 in four of them: rounds are small steps, and the measure is flat for long.
    patience: int = field(default=50, kw_only=True)
    random_state: int | None = field(default=0, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)

    @abstractmethod
    def stages(self, queries: Queries, setting: StageLimits) -> Iterator[Stage]:
        """Train, a round at a time; the last stage is the result."""

    @property
    def criterion(self) -> str:
        """The measure that the method is judged by."""
        return self.judged_by

    @property
    def own_scaling(self) -> str | None:
        """The scaling that is part of the method, by name."""
        return None

    def __str__(self) -> str:
        return repr(self)

    @property
    def _takes_nan(self) -> bool:
        return False

    @property
    def _path_of_C(self) -> bool:
        return self.takes_C

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = self.takes_sparse, self._takes_nan
        return tags

    def check(self, queries: Queries) -> None:
        """Refuse queries that the method cannot learn from, and parameters that make no sense."""
        if queries.is_sparse and not self.takes_sparse:
            raise DataError(f"{type(self).__name__} takes no sparse X; pass X.toarray()")
        if queries.query_weights is not None and not self.takes_weights:
            raise DataError(f"{type(self).__name__} cannot weight queries; leave out weighting and query_weights")
        if not ordered_queries(queries).any():
            raise DataError(NO_ORDER)

    def _train(
        self,
        queries: AnyQueries,
        Cs: Sequence[float],
        validation: AnyQueries | None,
        callback: Callback | None,
        start: Start | None,
        time_limit: float = np.inf,
        log: Log | None = None,  # noqa: ARG002
    ) -> list[Model]:
        if start is not None:
            raise ValueError(f"{type(self).__name__} cannot start from a model; fit it anew")
        queries = in_memory(queries, type(self).__name__)
        validation = None if validation is None else in_memory(validation, type(self).__name__)
        deadline = time.perf_counter() + min(seconds(self.time_limit), time_limit)
        # Sorted before they are scaled: means of the same rows in another order differ in the last digit.
        scaled = self._scaled(in_canonical_order(queries))
        ready = weighted(scaled.queries, self.weighting)
        self.check(ready)
        provenance, name = self._provenance(queries), type(self).__name__
        method = TrainingRecord(name, self.criterion, str(self), weighting=self.weighting, parameters=self._specs())
        shared = {
            "n_features": queries.n_features,
            "method": method,
            "provenance": provenance,
            "feature_names": queries.feature_names,
            "first_feature": queries.first_feature,
            "scaling": scaled.scaling,
            "scaler": scaled.scaler,
        }
        models: list[Model] = []
        for C in Cs:
            if models and not self.takes_C:
                models.append(replace(models[0], solution=replace(models[0].solution, C=C)))
            else:
                judge = StageSelection(callback, n_jobs=self.n_jobs)
                if validation is not None:
                    judge.watch(validation, scaled.apply(validation), self.criterion, self.patience)
                setting = StageLimits(C, deadline, self.random_state, self.n_jobs)
                stages = self.stages(ready, setting)
                kept, solution = keep_best(stages, setting, judge, str(self), end="stationary", at_once=self.at_once)
                models.append(Model(kept.form, solution, **shared))  # type: ignore[arg-type]
        return models

    def _before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X

    def _scaled(self, queries: Queries) -> FittedScaling[Queries]:
        if self.own_scaling is None:
            return scale(queries, self.scaling, matters=self.scale_matters, before=self._before_scaling)
        if self.scaling not in ("auto", None, self.own_scaling):
            raise ValueError(f"{type(self).__name__} has its own scaling, {self.own_scaling!r}; leave out scaling")
        return scale(queries, self.own_scaling, before=self._before_scaling)


@dataclass(eq=False, repr=False)
class LinearBaseline(Baseline):
    """A baseline that learns weights of features, or of the thresholds that they exceed.

    Args:
        scorer: ``linear``, or ``additive`` for one step function per feature.
    """

    takes_sparse: ClassVar[bool] = True
    scorer: str | Scorer = field(default="linear", kw_only=True)

    @abstractmethod
    def weights(self, X: Features, queries: Queries, setting: StageLimits) -> Iterator[tuple[FloatArray, float]]:
        """Return weights of the columns of X and the objective, a round at a time."""

    def own_bins(self, n_features: int) -> AdditiveForm | None:  # noqa: ARG002
        """Thresholds that are part of the method."""
        return None

    @property
    def _takes_nan(self) -> bool:
        return parse_scorer(self.scorer).takes_nan

    @property
    def _nan_advice(self) -> str:
        return NAN_ADVICE

    def _before_scaling(self, X: Features) -> Features:
        return parse_scorer(self.scorer).before_scaling(X)

    def _scaled(self, queries: Queries) -> FittedScaling[Queries]:
        if self.own_scaling is None and self.scaling == "auto" and not parse_scorer(self.scorer).scale_matters:
            return scale(queries, None, matters=False)
        return super()._scaled(queries)

    def stages(self, queries: Queries, setting: StageLimits) -> Iterator[Stage]:
        """Train on the features, or on their indicators."""
        bins = self.own_bins(queries.n_features)
        scorer = parse_scorer(self.scorer)
        if isinstance(scorer, Additive):
            if bins is not None:
                raise ValueError(f"{type(self).__name__} has its own thresholds; leave out scorer='additive'")
            bins = scorer.learn(queries, self.n_jobs)
        form: Form
        if bins is None:
            weights_form = scorer.learn(queries) if isinstance(scorer, Linear) else LinearForm(queries.n_features)
            form, X = weights_form, weights_form.columns(queries.X)
        else:
            form, X = bins, bins.columns(queries.X, self.n_jobs)
        for weights, objective in self.weights(X, queries, setting):
            yield Stage(form, weights, objective)


def document_weights(queries: Queries) -> FloatArray:
    """Return the weight of each document: that of its query, all together 1.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [1, 0, 0], group=[2, 1], query_weights=[1.0, 2.0])
    >>> document_weights(queries).tolist()
    [0.25, 0.25, 0.5]
    """
    own = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
    weights = np.repeat(own, queries.lengths)
    return np.asarray(weights / weights.sum())


def grade_classes(queries: Queries) -> tuple[FloatArray, IntArray]:
    """Return the grades that occur, the lowest first, and which of them each document has.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [4, 0, 4], group=[3])
    >>> [part.tolist() for part in grade_classes(queries)]
    [[0.0, 4.0], [1, 0, 1]]
    """
    grades, classes = np.unique(queries.grades, return_inverse=True)
    if len(grades) > _MOST_CLASSES:
        raise DataError(f"there are {len(grades)} different grades; a class for each is for at most {_MOST_CLASSES}")
    return grades, classes.astype(np.int64)
