"""Training continued with batches of queries."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy.typing as npt

from marginrank.data.column_roles import column_names
from marginrank.data.inputs import refuse_other_columns
from marginrank.data.partitions import AnyQueries, SomeQueries, in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.methods.estimator import BaseRanker
from marginrank.methods.presets import ResolvedMethod
from marginrank.model.model import Model
from marginrank.preparation.scaling import FittedScaling, scale_as
from marginrank.ranker.resolution import loss_of
from marginrank.runtime.option_objects import check_C, check_seed, seconds
from marginrank.runtime.threads import default_threads
from marginrank.scorers.base import Prepared, Scorer, parse_scorer, prepare
from marginrank.scorers.form import Form
from marginrank.scorers.staged_scorer import StagedScorer
from marginrank.solvers.base import Callback, Solver
from marginrank.training.convex import ConvexTrainer, Fit
from marginrank.training.online import add_provenance, fit_batch, with_bound_of
from marginrank.training.query_weighting import Weighting, weighted
from marginrank.training.tight_bound import BoundChoice


class Online(BaseRanker):
    """An estimator that is trained on one batch of queries after another."""

    __metadata_request__partial_fit: ClassVar[dict[str, Any]] = {"qid": True}

    scorer: str | Scorer
    scaling: str | None
    weighting: Weighting | None
    time_limit: float | None

    @abstractmethod
    def _method(self) -> ResolvedMethod:
        """Return what is trained."""

    @abstractmethod
    def _bound(self, method: ResolvedMethod) -> BoundChoice:
        """Return the bound that is asked for."""

    @abstractmethod
    def _solver(self, callback: Callback | None, deadline: float) -> Solver:
        """Return the solver, with a callback and a time limit."""

    @abstractmethod
    def _models(
        self, queries: AnyQueries, method: ResolvedMethod, scaled: FittedScaling[Any], fits: Sequence[tuple[Form, Fit]]
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
                self._adopt(self._train(batch, [check_C(self.C)], None, callback, None)[0].with_quantiles(batch))
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
        training = ConvexTrainer(loss_of(method), self._bound(method), self._solver(callback, deadline), self.n_jobs)
        training = with_bound_of(before, training)
        fit = fit_batch(training, prepared, check_C(self.C), before.theta, before.stream)
        if fit is None:
            return before
        model = self._models(batch, method, scaled, [(prepared.form, fit)])[0]
        provenance = add_provenance(before.provenance, model.provenance)
        return replace(model, provenance=provenance, first_feature=before.first_feature, quantiles=before.quantiles)

    def _as_before(self, model: Model, queries: SomeQueries) -> tuple[FittedScaling[SomeQueries], Prepared]:
        """Prepare queries as a model was trained."""
        model.check(queries)
        if self.scaling not in ("auto", model.scaling):
            raise ValueError(
                f"the scaling of the model is {model.scaling!r} and scaling={self.scaling!r}; leave it out"
            )
        scaled = scale_as(queries, model.scaling, model.scaler, model.form.before_scaling)
        scorer = parse_scorer(self.scorer)
        return scaled, prepare(scorer, weighted(scaled.queries, self.weighting), self.n_jobs, model.form)

    def _check_goes_on(self, method: ResolvedMethod) -> None:
        """Refuse methods that no solver trains."""
        scorer = parse_scorer(self.scorer)
        if method.baseline is not None or isinstance(scorer, StagedScorer):
            name = method.preset if method.baseline is not None else f"the {scorer.name} scorer"
            raise ValueError(f"{name} cannot be trained further; train it anew on all queries")
