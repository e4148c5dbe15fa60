"""Measures for the ``scoring`` of scikit-learn's searches and cross-validation."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.measures.base import parse_trainable

ROUTING = (
    "scikit-learn's pipelines, searches and cross-validation pass qid on with "
    "sklearn.set_config(enable_metadata_routing=True)"
)


def measure_scorer(measure: str) -> MeasureScorer:
    """Return a scikit-learn scorer of a measure, for ``scoring=`` in `GridSearchCV` or `cross_val_score`.

    It works for any estimator that predicts scores. It requests ``qid``, which scikit-learn passes on if metadata
    routing is enabled.

    >>> import numpy as np, sklearn
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> X, y, qid = np.arange(12.0)[:, None], np.tile([0, 1, 2], 4), np.repeat(np.arange(4), 3)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     cross_val_score(LinearRegression(), X, y, scoring=measure_scorer("ndcg@3"), cv=GroupKFold(2),
    ...         params={"qid": qid, "groups": qid}).tolist()
    [1.0, 1.0]
    """
    return MeasureScorer(str(parse_trainable(measure)))


class MeasureScorer:
    """A callable (estimator, X, y, qid) that returns the mean of a measure."""

    def __init__(self, measure: str) -> None:
        self.measure = measure

    def __repr__(self) -> str:
        return f"measure_scorer({self.measure!r})"

    def __call__(self, estimator: Any, X: Any, y: npt.ArrayLike, qid: npt.ArrayLike | None = None) -> float:
        """Evaluate the predictions of an estimator."""
        if qid is None:
            raise DataError(f"{self!r} needs qid, the query of each row; {ROUTING}")
        scores = estimator.predict(X, qid=qid) if _takes_qid(estimator) else estimator.predict(X)
        return float(evaluate(y, scores, self.measure, qid=qid).mean[self.measure])

    def get_metadata_routing(self) -> Any:
        """Request ``qid`` from scikit-learn."""
        from sklearn.utils.metadata_routing import MetadataRequest  # noqa: PLC0415

        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="qid", alias=True)
        return request


def _takes_qid(estimator: Any) -> bool:
    from sklearn.utils.metadata_routing import get_routing_for_object  # noqa: PLC0415

    return "qid" in get_routing_for_object(estimator).consumes("predict", ["qid"])
