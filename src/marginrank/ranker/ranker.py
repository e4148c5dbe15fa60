"""`Ranker`: every method behind one estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from marginrank.data.column_roles import column_names
from marginrank.data.grouping import group_rows
from marginrank.data.inputs import PairSource, QuerySource, Validation, as_queries, opened, refuse_other_columns
from marginrank.data.partitions import AnyQueries, PartitionedQueries, PartitionedScores, in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.data.unjudged import UnjudgedRule, check_unjudged
from marginrank.data.validation import distinct_names
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.criterion import Criterion
from marginrank.evaluation.sklearn_scoring import ROUTING
from marginrank.evaluation.systems import orderings
from marginrank.evaluation.topics import Diversifier, Topics, diverse_orderings, topic_weights
from marginrank.losses.base import Loss
from marginrank.measures import Measure
from marginrank.methods.baselines.base import Baseline
from marginrank.model.model import Model
from marginrank.preparation.base import check_columns, set_columns
from marginrank.ranker.argument_checks import explains_arguments, query_contents, warn_of_split, warn_of_ties
from marginrank.ranker.attributes import FittedAttributes
from marginrank.ranker.input_queries import features_to_score, training_queries, validation_queries
from marginrank.ranker.resolution import resolve, resolve_bound, resolve_method
from marginrank.runtime.option_objects import OptionObject, check_C
from marginrank.runtime.text import suggest
from marginrank.scorers.adaptive.query_weights import QueryWeights
from marginrank.scorers.additive.form import Shape
from marginrank.scorers.base import Scorer, parse_scorer
from marginrank.solvers.base import Callback, Solver, parse_solver
from marginrank.training.checkpoint import checkpoint_log
from marginrank.training.online import train_batch
from marginrank.training.plan import FitContext, Start
from marginrank.training.progress import shown
from marginrank.training.query_weighting import Weighting
from marginrank.training.tight_bound import Tight
from marginrank.training.trainer import check_continues, check_resumes, train, train_path
from marginrank.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    from marginrank.export.base import Export, Target


class Ranker(FittedAttributes, BaseEstimator):
    """A ranker trained for a measure: minimizes ½‖θ‖² + C · mean over queries of ξ(θ).

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
            them), with ``@k`` after the name if it has a cutoff; a measure or a mix of measures such as
            ``ndcg@10 + 0.5*ap``; a `Loss`; or a baseline such as ``RankBoost(rounds=50)``, which minimizes no loss of
            this package and has no certificate. By default ``svmmap``, chosen and scored by ``ndcg@10``.
        measure: Instead, a measure or a mix of measures.
        loss: Instead, a `Loss`.
        bound: ``hinge`` is convex; ``tight`` is closer to the measure but not convex, and `Tight` has its options;
            ``auto`` minimizes the hinge, or the tight bound if the hinge is minimal at w = 0. By default that of the
            preset, otherwise ``auto``.
        C: Weight of the losses against the regularizer: the larger, the closer the fit to the training queries.
            Networks, most baselines, and trees without ``start`` or ``refit`` have none; another C than 1 then
            warns that it is ignored.
        scorer: ``linear``, ``additive`` (one curve per feature), ``kernel`` (a function of all features together),
            ``boosted`` (trees, by LightGBM or XGBoost), ``neural`` (a network, by PyTorch), or a `Scorer` such as
            ``Additive(bins=64)``. ``auto`` leaves the choice between linear and additive to `tune`.
        solver: ``auto``, ``bundle``, ``newton``, ``frank-wolfe``, ``n-slack``, ``stochastic``, ``subgradient``,
            ``cccp``, ``descent``, or a `Solver` such as ``Bundle(tol=1e-6)``.
        scaling: Scaling of the features inside the model: ``auto``, ``standard``, ``query-minmax``,
            ``query-standard``, ``query-percentile``, or None. ``auto`` standardizes if the spreads of the features
            differ. C, the objective and ``coef_`` refer to scaled features. Scalings by query need ``qid`` to predict.
        weighting: How queries are weighted: ``grades`` (the sum of their grades), ``relevant`` (documents above grade
            0), ``pairs`` (pairs of different grade) or ``sqrt-pairs``; equally by default, as in the papers.
        unjudged: What becomes of unjudged documents, whose grade is NaN, in training, on validation queries and in
            `score`: ``skip`` leaves them out of pairs and margins, ``irrelevant`` gives them grade 0. Features are
            scaled with them, and they are scored like all others.
        time_limit: Maximum number of seconds.
        warm_start: Start from the weights of the previous fit.
        patience: With validation queries, iterations without improvement after which training stops; 10 by default,
            50 for boosted trees and baselines.
        random_state: Seed of baselines, of randomized solvers and of the boosted and neural scorers.
        n_jobs: Number of threads; all cores by default. Results do not depend on it.
        verbose: Whether to show progress, with passes, gap and time left: a bar in a notebook or on a terminal, lines
            on standard error elsewhere, or in the log ``marginrank`` if that takes level INFO. By default only in a
            notebook and in such a log.

    Attributes:
        model_: The trained model; everything below is read from it.
        coef_: One weight per feature; for the additive scorer, the parameters of the curves; for trees, the values of
            all leaves; for a Gaussian process, one weight per training document.
        objective_: The objective reached; of a baseline, what it minimizes in its own terms.
        gap_: Upper bound on the distance of the objective from the optimum; inf without a certificate.
        n_iter_: Iterations, or rounds.
        solution_: The result of the solver, with the trace.
        health_: Average slack, objective over objective at 0, ‖w‖, and whether the hinge collapsed; None for a
            baseline, which has no slack.
        measure_: The measure that the ranker is evaluated with.
        trained_on_: Counts and fingerprint of the training data.
        form_: How ``coef_`` scores documents.
        n_features_in_: Number of features seen in training.
        feature_names_in_: Their names, if they had any.
    """

    n_features_in_: int
    feature_names_in_: AnyArray

    # With metadata routing, scikit-learn passes qid on without being asked by set_fit_request and the like.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__partial_fit: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, Any]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True}

    @explains_arguments
    def __init__(
        self,
        method: str | Measure | Loss | Baseline | None = None,
        *,
        measure: str | Measure | None = None,
        loss: Loss | None = None,
        bound: Literal["auto", "hinge", "tight"] | Tight | None = None,
        C: float = 1.0,
        scorer: str | Scorer = "linear",
        solver: str | Solver = "auto",
        scaling: str | None = "auto",
        weighting: Weighting | None = None,
        unjudged: UnjudgedRule = "skip",
        time_limit: float | None = None,
        warm_start: bool = False,
        patience: int | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = None,
        verbose: bool | None = None,
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
        self.unjudged = unjudged
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def criterion(self) -> str:
        """The measure, or mix of measures, that the ranker is evaluated with."""
        return resolve_method(self).criterion

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; names such as ``scorer__bins`` set those of the method, loss, bound, scorer or solver."""
        known = self.get_params(deep=False)
        inner: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            outer, _, rest = name.partition("__")
            if outer not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {outer!r}; {suggest(outer, known)}")
            if rest:
                inner.setdefault(outer, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            changed = self._option_object(name).with_params(**values)
            if name == "loss":
                # The loss of a preset retains the bound of the preset.
                self.bound = resolve_bound(self, resolve_method(self)) if self.bound is None else self.bound
                self.method = self.measure = None
            setattr(self, name, changed)
        return self

    def _option_object(self, name: str) -> OptionObject:
        """Return the option object that a parameter stands for."""
        if name == "scorer":
            return parse_scorer(self.scorer)
        if name == "solver":
            return parse_solver(self.solver)
        method = resolve_method(self)
        if name == "bound":
            bound = resolve_bound(self, method)
            return bound if isinstance(bound, Tight) else Tight()
        if name == "loss":
            if method.loss is None:
                raise ValueError(f"{self.method!r} is a baseline and has no loss")
            return method.loss
        if name == "method":
            return method.trained
        raise ValueError(f"{name!r} has no parameters of its own; method, loss, bound, scorer and solver have")

    @explains_arguments
    def fit(
        self,
        X: AnyQueries | QuerySource | PairSource | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
        validation: Validation | None = None,
        callback: Callback | None = None,
        start: Model | Ranker | None = None,
        center: Model | Ranker | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on judged queries, on clicks, or on preferences.

        Ctrl-C, a time limit or a callback that returns True ends training with the best weights so far and their gap.

        Args:
            X: Queries, in this process or distributed, a log of clicks with propensities
                (`marginrank.clicks.ClickLog`), preferences with features (`marginrank.judging.Preferences`), or
                features with one row per document.
            y: Grades of the rows.
            qid: The query of each row, in any order.
            group: Instead of ``qid``, the number of consecutive rows of each query.
            query_weights: One weight per query, in order of first appearance.
            validation: Validation queries, or (X, y, qid): the result is the iteration, or the round of a baseline,
                that is best on them.
            callback: Called after every iteration with the `Step` and the best parameters so far; True stops.
            start: A model, or a fitted ranker, to start from. Its scaling, thresholds or landmarks are reused.
            center: Instead of ``start``, a model to start from and to stay near: the regularizer is ½‖θ − its θ‖².
            checkpoint: A file that the state of training is written to, every few seconds.
            resume: Continue from the checkpoint if it exists; the model is the same as without the interruption.
        """
        plan = resolve(self)
        queries = training_queries(self, plan, X, y, qid, group, query_weights)
        held_out = None if validation is None else validation_queries(plan, queries, validation)
        warm_start = Start.of(start, center) or self._warm_start(queries)
        if checkpoint is not None:
            check_resumes(plan)
        with (
            checkpoint_log(checkpoint, resume, lambda: plan.identity(queries, (), held_out, warm_start)) as log,
            shown(self.verbose, 1, plan.solver.tol, callback) as (_, watch),
        ):
            model = train(plan, queries, FitContext((), held_out, warm_start, callback=watch, log=log))
        self._adopt(model.with_quantiles(queries))
        self._trained_queries = query_contents(queries) if isinstance(queries, Queries) else None
        warn_of_ties([self.model_], queries)
        return self

    def _warm_start(self, queries: AnyQueries) -> Start | None:
        if not (self.warm_start and hasattr(self, "model_")):
            return None
        if self.model_.n_features != queries.n_features:
            raise DataError(
                f"X has {queries.n_features} features, and the previous fit, which warm_start=True starts from, had "
                f"{self.model_.n_features}; give the same columns, or use warm_start=False"
            )
        return Start(self.coef_)

    @explains_arguments
    def fit_path(
        self,
        X: AnyQueries | QuerySource | PairSource | npt.ArrayLike,
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
        values = [check_C(C) for C in Cs]
        if not values:
            raise ParameterError(Parameter("Cs"), " is empty; give at least one C")
        plan = resolve(self)
        if checkpoint is not None:
            check_resumes(plan)
        queries = training_queries(self, plan, X, y, qid, group, query_weights)
        with (
            checkpoint_log(checkpoint, resume, lambda: plan.identity(queries, values)) as log,
            shown(self.verbose, len(values), plan.solver.tol, callback) as (_, watch),
        ):
            models = train_path(plan, queries, FitContext(values, callback=watch, log=log))
        quantiles = models[0].with_quantiles(queries).quantiles
        models = [replace(model, quantiles=quantiles) for model in models]
        warn_of_ties(models, queries)
        return [self.with_model(model, C=C) for C, model in zip(values, models, strict=True)]

    @explains_arguments
    def partial_fit(
        self,
        X: Queries | QuerySource | npt.ArrayLike,
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
        plan = resolve(self)
        check_continues(plan)
        first = not hasattr(self, "model_")
        X = opened(X)
        if not first and not isinstance(X, Queries):
            refuse_other_columns(column_names(X), self.model_.feature_names, "the model was trained on")
        queries = training_queries(self, plan, X, y, qid, group, query_weights, reset=first)
        keep_rows = plan.needed_loss.depends_on_rows
        batch = in_canonical_order(in_memory(queries, "a stream of batches"), keep_rows=keep_rows)
        if first:
            self._adopt(train(plan, batch, FitContext(callback=callback)).with_quantiles(batch))
        else:
            self._adopt(train_batch(plan, self.model_, batch, callback))
        return self

    def with_model(self, model: Model, **parameters: Any) -> Self:
        """Return a copy with other parameters, fitted with the given model."""
        ranker = cast("Self", clone(self).set_params(**parameters))
        ranker._adopt(model)
        return ranker

    def _adopt(self, model: Model) -> None:
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
        return self.model_.score(features_to_score(self, X, qid), qid=qid, group=group, n_jobs=self.n_jobs)

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
        return self.model_.explain(features_to_score(self, X, qid), qid=qid, group=group, reference=reference)

    def rank(
        self,
        X: Queries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        k: int | None = None,
        document_groups: npt.ArrayLike | None = None,
        ids: bool = False,
        topics: Topics | None = None,
        diversify: Diversifier | None = None,
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
            topics: Rank by topics too: weights with a row per document and a column per topic, or for `Queries` with
                document ids a dict from id to topics, ``{"a": ["sport"], "b": {"sport": 0.3, "news": 0.7}}``.
            diversify: How topics count: `Diversify`, by default, limits the weight of each topic in a ranking, and
                `Cover` rewards rankings of many topics. Both are in `marginrank.evaluation`.
        """
        scores = self.predict(X, qid=qid, group=group)
        weights = _topics_of(X, topics, diversify, document_groups, len(scores))
        labels = None if document_groups is None else np.asarray(document_groups)
        if labels is not None and labels.shape != scores.shape:
            raise DataError(f"document_groups have shape {labels.shape} for {len(scores)} documents; give one for each")
        if isinstance(X, Queries):
            groups = X.document_groups if labels is None else labels
            if weights is None:
                orders = orderings(scores, X.query_offsets, X.order, k, groups)
            else:
                orders = diverse_orderings(scores, X.query_offsets, X.order, k, weights, diversify)
            return _ids_of(X, orders) if ids else list(orders)
        if ids:
            raise DataError("ids=True needs Queries with document_ids; rows of an array have none")
        if qid is None and group is None:
            raise DataError("rank needs the queries: give qid or group")
        _, offsets, order = group_rows(len(scores), qid, group)
        if weights is not None:
            return list(diverse_orderings(scores, offsets, order, k, weights, diversify))
        return list(orderings(scores, offsets, order, k, labels))

    def score(
        self,
        X: AnyQueries | QuerySource | npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: None = None,
    ) -> float:
        """Return the mean of the measure that the ranker was trained for; for a mix, the weighted mean.

        On queries with document weights, such as clicks, DCG stands for measures that these cannot estimate.

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
        X = opened(X)
        if not isinstance(X, AnyQueries) and qid is None and group is None:
            raise DataError(f"score needs the queries: give qid or group; {ROUTING}")
        queries: AnyQueries = as_queries(cast("Any", X), y, qid, group, None, allow_nan=True, nan_advice="")
        rule = check_unjudged(self.unjudged)
        criterion = Criterion.parse(self.measure_, unjudged=rule).for_queries(queries)
        if isinstance(queries, PartitionedQueries):
            return criterion.mean(queries, self.predict(queries))
        scores = self.predict(cast("Queries", X), qid=qid, group=group)
        trained = getattr(self, "_trained_queries", None)
        if trained is not None:
            warn_of_split(trained, queries)
        return criterion.mean(queries, scores, self.n_jobs)

    def shapes(self) -> list[Shape]:
        """Return the learned curve of each feature of an additive ranker."""
        check_is_fitted(self)
        return self.model_.shapes()

    def query_weights(self, queries: Queries) -> QueryWeights:
        """Return the weights of an adaptive ranker in each query, and the context that changes them most."""
        check_is_fitted(self)
        return self.model_.query_weights(queries)

    def export(self, target: str | Target, path: str | Path, *, overwrite: bool = True) -> Export:
        """Write the model for another program, such as ``onnx`` or ``solr``; see `Model.export`."""
        check_is_fitted(self)
        return self.model_.export(target, path, overwrite=overwrite)

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the ranker to a file that `load` reads; see `marginrank.model.file_format` for the format."""
        check_is_fitted(self)
        self.model_.save(path, overwrite=overwrite)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        capabilities = self.model_.form if "model_" in vars(self) else resolve(self).capabilities
        tags.input_tags.sparse, tags.input_tags.allow_nan = capabilities.takes_sparse, capabilities.takes_nan
        return tags


def _scores(queries: Queries, model: Model, n_jobs: int | None) -> FloatArray:
    return model.score(queries, n_jobs=n_jobs)


def _topics_of(
    X: Queries | npt.ArrayLike,
    topics: Topics | None,
    diversify: Diversifier | None,
    document_groups: npt.ArrayLike | None,
    n: int,
) -> FloatArray | None:
    """Return the topic weights of each row; None without topics."""
    if topics is None:
        if diversify is not None:
            raise DataError("diversify needs the topics of the documents; give topics")
        return None
    queries = X if isinstance(X, Queries) else None
    if document_groups is not None or (queries is not None and queries.document_groups is not None):
        raise DataError(
            "documents have groups and topics; give each group a topic of weight 1, or leave out one of the two"
        )
    return topic_weights(topics, None if queries is None else queries.document_ids, n)


def _ids_of(queries: Queries, orders: Iterable[AnyArray]) -> list[list[Any]]:
    if queries.document_ids is None:
        raise DataError("these queries have no document_ids; give them when making the Queries, or rank without ids")
    distinct_names(queries)
    return [queries.document_ids[order].tolist() for order in orders]
