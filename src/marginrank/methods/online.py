"""Training that goes on: the next batch of a stream, and the model after it."""

from __future__ import annotations

import hashlib
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from marginrank.components import check_C, check_seed, seconds
from marginrank.data.canonical import in_canonical_order
from marginrank.data.inputs import refuse_other_columns
from marginrank.data.partitioned import AnyQueries, SomeQueries, in_memory
from marginrank.data.queries import Queries
from marginrank.estimator import BaseRanker
from marginrank.losses.base import Bound, Loss
from marginrank.methods.presets import Method
from marginrank.methods.scaling import Scaled, scale_as
from marginrank.methods.tight import BoundChoice, Tight
from marginrank.methods.training import Fit, Training, bound_of
from marginrank.methods.weighting import Weighting, weighted
from marginrank.model import Health, Model, Provenance
from marginrank.partitioned_risk import ranking_risk
from marginrank.preparation.base import check_columns
from marginrank.scorers.base import Prepared, Scorer, parse_scorer, prepare
from marginrank.scorers.expansion import single_blas
from marginrank.scorers.forms import Form
from marginrank.scorers.staged import StagedScorer
from marginrank.sklearn_api import column_names
from marginrank.solvers.base import Callback, Solver
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.solvers.stream import Stream
from marginrank.threads import default_threads
from marginrank.typing import FloatArray


def take_batch(training: Training, scorer: Prepared, C: float, theta: FloatArray, stream: Stream) -> Fit | None:
    """Take the step of a batch, as `Stream` says, and return the parameters after it; None if no query has an order.

    The objective is that of the batch at these parameters: what it is for all batches together is not known, and there
    is no lower bound.

    Args:
        training: The loss, with the bound that is trained, and the solver.
        scorer: A scorer prepared for the batch.
        C: Weight of the risk of all batches.
        theta: The parameters before the batch.
        stream: What was remembered of the batches before.
    """
    began = time.perf_counter()
    risk = ranking_risk(scorer, training.loss, training.n_jobs)
    if not risk.weight:
        return None
    risk.center = stream.center(theta, risk.weight)
    with single_blas():
        step = training.solve(risk, stream.share(risk.weight) * C, theta if stream.last is None else stream.last)
    mean, after = stream.after(step.theta, theta, risk.weight)
    value, at_zero = float(risk(mean)[0]), float(risk(np.zeros_like(mean))[0])
    origin = np.zeros_like(mean) if stream.origin is None else stream.origin
    primal, primal_at_zero = (
        0.5 * float(away @ away) + C * xi for away, xi in ((mean - origin, value), (origin, at_zero))
    )
    reason: Reason = "stationary" if step.reason == "converged" else step.reason
    trace = (Step(primal, -np.inf, time.perf_counter() - began, step.passes + 2.0),)
    ratio = primal / primal_at_zero if primal_at_zero > 0 else 1.0
    return Fit(
        Solution(mean, C, primal, -np.inf, value, reason, trace),
        training.loss,
        bound_of(training.loss),
        training.chosen(risk).name,
        Health(value, at_zero, ratio, float(np.linalg.norm(mean)), collapsed=False),
        origin,
        after,
    )


def together(before: Provenance, batch: Provenance) -> Provenance:
    """Return what a model was trained on after a batch; the fingerprint depends on all batches and their order."""
    digest = hashlib.sha256(f"{before.fingerprint} {batch.fingerprint}".encode()).hexdigest()[:16]
    return replace(
        before,
        queries=before.queries + batch.queries,
        documents=before.documents + batch.documents,
        fingerprint=digest,
    )


class Online(BaseRanker):
    """An estimator that is trained on one batch of queries after another."""

    __metadata_request__partial_fit: ClassVar[dict[str, Any]] = {"qid": True}

    scorer: str | Scorer
    scaling: str | None
    weighting: Weighting | None
    time_limit: float | None

    @abstractmethod
    def _method(self) -> Method:
        """Return what is trained."""

    @abstractmethod
    def _bound(self, method: Method) -> BoundChoice:
        """Return the bound that is asked for."""

    @abstractmethod
    def _solver(self, callback: Callback | None, deadline: float) -> Solver:
        """Return the solver, with a callback and a time limit."""

    @abstractmethod
    def _models(
        self, queries: AnyQueries, method: Method, scaled: Scaled[Any], fits: Sequence[tuple[Form, Fit]]
    ) -> list[Model]:
        """Return what training leaves."""

    def partial_fit(
        self,
        X: Queries | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train on the next batch of whole queries.

        The first call is `fit`, and fixes the features, their scaling, and the thresholds or landmarks of the scorer;
        its batch should be large enough for that. After `fit`, a call continues from the fitted model. Each batch takes
        one step, and is weighted by the weights of its queries. The objective is that of the batch, without a
        certificate. A batch in which every query has a single grade changes nothing.

        Args:
            X: Queries, or features with one row per document.
            y: Grades of the rows.
            qid: The query of each row, in any order.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            query_weights: One weight per query, in order of first appearance.
            callback: Called after every iteration on the batch with the `Step` and the best parameters so far.
        """
        check_seed(self.random_state)
        self._check_goes_on(self._method())
        first = not hasattr(self, "model_")
        if not first and not isinstance(X, Queries):
            refuse_other_columns(column_names(X), self.model_.feature_names, "the model was trained on")
        given = self._training_queries(X, y, qid, group, query_weights, reset=first)
        batch = in_canonical_order(in_memory(given, "a stream of batches"))
        if first:
            with default_threads(self.n_jobs):
                self.model_ = self._train(batch, [check_C(self.C)], None, callback, None)[0].with_quantiles(batch)
        else:
            self.model_ = self._after(batch, callback)
        return self

    def _after(self, batch: Queries, callback: Callback | None) -> Model:
        """Return the model after one more batch."""
        before, method = self.model_, self._method()
        if before.stream is None:
            raise ValueError(f"this model cannot be trained further, as it is one of {before.method.trained}; use fit")
        deadline = time.perf_counter() + seconds(self.time_limit)
        scaled, prepared = self._as_before(before, batch)
        training = Training(loss_of(method), self._bound(method), self._solver(callback, deadline), self.n_jobs)
        training = bounded_as(before, training)
        fit = take_batch(training, prepared, check_C(self.C), before.theta, before.stream)
        if fit is None:
            return before
        model = self._models(batch, method, scaled, [(prepared.form, fit)])[0]
        provenance = together(before.provenance, model.provenance)
        return replace(model, provenance=provenance, first_feature=before.first_feature, quantiles=before.quantiles)

    def _as_before(self, model: Model, queries: SomeQueries) -> tuple[Scaled[SomeQueries], Prepared]:
        """Prepare queries as a model was trained."""
        if isinstance(queries, Queries):
            model.check(queries)
        else:
            check_columns(self, queries)
        scaled = scale_as(model, queries, self.scaling)
        scorer = parse_scorer(self.scorer)
        return scaled, prepare(scorer, weighted(scaled.queries, self.weighting), self.n_jobs, model.form)

    def _check_goes_on(self, method: Method) -> None:
        """Refuse methods that no solver trains."""
        scorer = parse_scorer(self.scorer)
        if method.baseline is not None or isinstance(scorer, StagedScorer):
            name = method.preset if method.baseline is not None else f"the {scorer.name} scorer"
            raise ValueError(f"{name} cannot be trained further; train it anew on all queries")


def bounded_as(model: Model, training: Training) -> Training:
    """Return the training of the bound that a model was trained with; refuse another."""
    bound: Bound = "tight" if model.method.bound == "tight" else "hinge"
    asked = "tight" if isinstance(training.bound, Tight) else training.bound
    if asked not in ("auto", bound):
        raise ValueError(f"the model was trained with the {bound} bound and bound={asked!r}; leave it out, or use fit")
    return replace(training, loss=training.loss.bounded(bound))


def loss_of(method: Method) -> Loss:
    """Return the loss of a method, unless it is a baseline."""
    if method.loss is None:
        raise TypeError(f"{method.preset} is a baseline")
    return method.loss
