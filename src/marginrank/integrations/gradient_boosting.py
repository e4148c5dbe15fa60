"""Losses of this package as objectives of LightGBM and XGBoost, and measures as their metrics."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import check_sizes, group_rows, offsets_from_sizes
from marginrank.data.queries import Queries
from marginrank.data.unjudged import SOME_UNJUDGED
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.losses.base import Loss, PreparedLoss
from marginrank.losses.score_risk import Curvature, check_curvature, derivatives
from marginrank.measures import Measure
from marginrank.measures.base import parse_mix, spell_mix
from marginrank.typing import AnyArray, FloatArray, IntArray

#: An argument that was not passed: LightGBM's estimators pass a group, XGBoost's do not.
_NOT_PASSED: Final = object()
#: Number of training sets with prepared losses; cross-validation alternates between several.
_MAX_SETS: Final = 32


class _Call(NamedTuple):
    """The arguments of a library: (scores, data) from ``train``, (labels, scores, weights, group) from an estimator."""

    labels: AnyArray
    scores: FloatArray
    weights: AnyArray | None
    sizes: AnyArray | None

    @classmethod
    def read(cls, first: Any, second: Any, weights: Any, group: Any) -> _Call:
        if _is_xgboost(second):
            starts = second.get_uint_info("group_ptr").astype(np.int64)
            sizes, weights = np.diff(starts) if len(starts) else None, second.get_weight()
            return cls(second.get_label(), _flat(first), weights if len(weights) else None, sizes)
        if hasattr(second, "get_label"):
            return cls(second.get_label(), _flat(first), second.get_weight(), second.get_group())
        return cls(np.asarray(first), _flat(second), weights, None if group is _NOT_PASSED else group)


def _is_xgboost(data: Any) -> bool:
    return hasattr(data, "get_uint_info")


def _flat(scores: npt.ArrayLike) -> FloatArray:
    return np.asarray(scores, dtype=np.float64).reshape(-1)


def _matching(labels: AnyArray, candidates: tuple[Queries, ...]) -> Queries:
    """Return the queries whose grades are the labels, which libraries store as float32."""
    for queries in candidates:
        if queries.n_unjudged:
            raise DataError(SOME_UNJUDGED)
        if np.array_equal(queries.grades.astype(np.float32), labels.astype(np.float32)):
            return queries
    counts = " or ".join(f"{queries.n_documents:,}" for queries in candidates)
    raise DataError(
        f"the {len(labels):,} labels are not the grades of the {counts} documents of the queries; train on "
        "queries.X and queries.grades"
    )


def _no_queries(how: str) -> DataError:
    return DataError(f"these rows have no queries; give the data group= (XGBoost: group= or qid=), or use {how}")


class Objective:
    """A loss as an objective of LightGBM and XGBoost; made by `objective`."""

    def __init__(
        self, loss: Loss, queries: Queries | None, sizes: IntArray | None, curvature: Curvature, n_jobs: int | None
    ) -> None:
        self.loss, self.queries, self.curvature, self.n_jobs = loss, queries, curvature, n_jobs
        self._sizes = sizes
        self._sets: deque[tuple[AnyArray, AnyArray, PreparedLoss]] = deque(maxlen=_MAX_SETS)
        self._prepared = None if queries is None else loss.prepare(queries.grouped)

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None, group: Any = _NOT_PASSED
    ) -> tuple[FloatArray, FloatArray]:
        """Return gradient and curvature by document, for (scores, data) or (labels, scores, weights, group)."""
        call = _Call.read(first, second, sample_weight, group)
        prepared, queries = self._prepare(call), self.queries
        scores = call.scores if queries is None else queries.to_grouped(call.scores)
        _, *by_document = derivatives(prepared, scores, self.curvature, self.n_jobs)
        gradient, curvature = by_document if queries is None else map(queries.from_grouped, by_document)
        weights = self._weights(call, prepared)
        return (gradient, curvature) if weights is None else (weights * gradient, weights * curvature)

    def _prepare(self, call: _Call) -> PreparedLoss:
        if self.queries is not None and self._prepared is not None:
            _matching(call.labels, (self.queries,))
            return self._prepared
        sizes = call.sizes if self._sizes is None else self._sizes
        if sizes is None:
            raise _no_queries("objective(loss, queries)")
        for labels, known, prepared in self._sets:
            if np.array_equal(known, sizes) and np.array_equal(labels, call.labels):
                return prepared
        offsets = offsets_from_sizes(check_sizes(sizes, len(call.labels)))
        self._sets.append((np.array(call.labels), np.array(sizes), self.loss.prepare(call.labels, offsets)))
        return self._sets[-1][2]

    def _weights(self, call: _Call, prepared: PreparedLoss) -> FloatArray | None:
        """Return weights of documents: those of the data, per document or per query, times those of the queries."""
        lengths = np.diff(prepared.offsets)
        factors = [call.weights, None if self.queries is None else self.queries.query_weights]
        given = [np.asarray(factor, dtype=np.float64) for factor in factors if factor is not None]
        if not given:
            return None
        query = np.repeat(np.arange(len(lengths)), lengths) if self.queries is None else self.queries.query_of_row
        return np.asarray(np.prod([w[query] if len(w) == len(lengths) else w for w in given], axis=0))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the prepared losses, which clones and other processes prepare again."""
        return {**vars(self), "_sets": deque(maxlen=_MAX_SETS), "_prepared": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepared = None if self.queries is None else self.loss.prepare(self.queries.grouped)

    def __repr__(self) -> str:
        return f"objective({self.loss!r})"


def objective(
    loss: Loss,
    queries: Queries | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    curvature: Curvature = "gradient",
    n_jobs: int | None = None,
) -> Objective:
    """Return a loss as an objective: gradient and curvature by document, as LightGBM and XGBoost expect them.

    It goes into ``LGBMRanker(objective=...)``, the parameter ``objective`` of ``lightgbm.train``, ``obj=`` of
    ``xgboost.train``, and ``XGBRegressor(objective=...)``. Queries are those of the Dataset, DMatrix or ``group=``;
    XGBoost's estimators pass none on, so give them here. Weights of documents or queries multiply the derivatives.

    Args:
        loss: A loss, such as ``StructuredLoss("ap")`` or ``SoftmaxCrossEntropy()``.
        queries: The training queries, if the booster is trained on ``queries.X`` and ``queries.grades``. Losses with
            positional feature maps then break ties by the content of documents, otherwise by their position.
        qid: Instead, the query of each training row; rows of a query have to be adjacent.
        curvature: ``gradient``, the absolute gradient, or for smooth losses ``hessian``, the diagonal of the Hessian.
            The first led to better rankings for most losses; see ``docs/boosting.md``.
        n_jobs: Number of threads; all cores by default.

    >>> from marginrank.losses import SoftmaxCrossEntropy
    >>> gradient, curvature = objective(SoftmaxCrossEntropy(target="share"))([1, 0], [0.0, 0.0], group=[2])
    >>> gradient.tolist(), curvature.tolist()
    ([-0.5, 0.5], [0.5, 0.5])
    """
    if not isinstance(loss, Loss):
        raise TypeError(f"loss is {loss!r}; give a Loss such as StructuredLoss('ap')")
    check_curvature(loss, curvature)
    if queries is not None and qid is not None:
        raise TypeError("a Queries includes the query of each row; leave out qid")
    sizes = None if qid is None else _adjacent_sizes(qid)
    return Objective(loss, queries, sizes, curvature, n_jobs)


def _adjacent_sizes(qid: npt.ArrayLike) -> IntArray:
    ids = np.asarray(qid)
    names, offsets, rows = group_rows(len(ids), ids, None)
    if rows is not None:
        at = int(np.argmax(np.diff(rows) != 1))
        query = names[np.searchsorted(offsets, rows[at], side="right") - 1]
        raise DataError(
            f"the rows of query {query} are not adjacent: row {rows[at + 1]} follows row {rows[at]}; sort all rows by "
            "query first, or build Queries and train on queries.grouped.X"
        )
    return np.diff(offsets)


class Metric:
    """A measure as a metric of LightGBM and XGBoost; made by `metric`."""

    def __init__(self, measure: str | Measure, queries: tuple[Queries, ...], policy: str) -> None:
        self._mix, self._queries, self._policy = parse_mix(measure), queries, policy
        # XGBoost's estimators show it.
        self.__name__ = spell_mix(self._mix)

    def __call__(self, first: Any, second: Any, sample_weight: Any = None, group: Any = _NOT_PASSED) -> Any:
        """Return what each library expects: (name, value, True), (name, value), or the value."""
        call = _Call.read(first, second, sample_weight, group)
        value = self._value(call)
        if _is_xgboost(second):
            return self.__name__, value
        passed_by_lightgbm = hasattr(second, "get_label") or group is not _NOT_PASSED
        return (self.__name__, value, True) if passed_by_lightgbm else value

    def _value(self, call: _Call) -> float:
        names = [str(measure) for _, measure in self._mix]
        if self._queries:
            queries = _matching(call.labels, self._queries)
            means = evaluate(queries, call.scores, names, policy=self._policy).mean
        elif call.sizes is None:
            raise _no_queries(f"metric({self.__name__!r}, queries)")
        else:
            means = evaluate(call.labels, call.scores, names, group=call.sizes, policy=self._policy).mean
        return float(sum(weight * means[str(measure)] for weight, measure in self._mix))

    def __repr__(self) -> str:
        return f"metric({self.__name__!r})"


def metric(measure: str | Measure, *queries: Queries, policy: str = "standard") -> Metric:
    """Return a measure, or mix of measures, as a metric that LightGBM and XGBoost show while they train.

    It goes into ``feval=`` of ``lightgbm.train``, ``eval_metric=`` of LightGBM's ``fit`` and of ``XGBRegressor``, and
    ``custom_metric=`` of ``xgboost.train``. For early stopping XGBoost has to be told that more is better:
    ``xgboost.callback.EarlyStopping(rounds=50, maximize=True)``.

    Args:
        measure: Its spelling, such as ``ndcg@10`` or ``ndcg@10 + 0.5*ap``.
        queries: All sets of queries that are evaluated on, if the library does not pass queries on, as XGBoost's
            estimators.
        policy: How ties and queries without relevant documents are scored; see `marginrank.evaluate`.

    >>> metric("rr")([0, 1, 1, 0], [0.9, 0.1, 0.7, 0.3], None, [2, 2])
    ('rr', 0.75, True)
    """
    return Metric(measure, queries, policy)
