"""Conversion of the arguments of `fit` and `predict` to queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_X_y, validate_data

from marginrank.data.arrays import as_grades, common_index, without_mask
from marginrank.data.categories import encode_frame
from marginrank.data.column_roles import column_names
from marginrank.data.inputs import (
    PairSource,
    QuerySource,
    Validation,
    as_queries,
    check_same_features,
    opened,
    refuse_other_columns,
    validation_parts,
)
from marginrank.data.partitions import AnyQueries
from marginrank.data.queries import Queries, check_finite, queries_of_finite
from marginrank.errors import DataError, Parameter
from marginrank.evaluation.sklearn_scoring import ROUTING
from marginrank.preparation.base import check_columns, refuse_empty
from marginrank.ranker.argument_checks import refuse_rows
from marginrank.runtime.device_features import DeviceFeatures, without_tensor
from marginrank.runtime.threads import default_threads
from marginrank.training.plan import Plan
from marginrank.typing import Features

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker

#: How scikit-learn checks rows of features; missing values are refused later, with better advice.
_ROWS: Final[Mapping[str, Any]] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,
}


def training_queries(
    ranker: Ranker,
    plan: Plan,
    X: AnyQueries | QuerySource | PairSource | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    *,
    reset: bool = True,
) -> AnyQueries:
    """Return the queries to train on, grouped; with ``reset=False``, the next batch for a fitted ranker."""
    with default_threads(plan.n_jobs):
        return _training_queries(ranker, plan, X, y, qid, group, query_weights, reset)


def _training_queries(
    ranker: Ranker,
    plan: Plan,
    X: AnyQueries | QuerySource | PairSource | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    reset: bool,
) -> AnyQueries:
    capabilities, X = plan.capabilities, without_tensor(_opened(plan, X))
    if isinstance(X, DeviceFeatures):
        X, y = Queries.from_arrays(X, y, qid=qid, group=group, query_weights=query_weights, allow_nan=True), None
        qid = group = query_weights = None
    if isinstance(X, AnyQueries):
        if reset:
            refuse_empty(X)
        else:
            check_columns(ranker, X)
        if isinstance(X, Queries):
            X = X.placed(plan.scorer.place)
        queries: AnyQueries = as_queries(
            X, y, qid, group, query_weights, allow_nan=capabilities.takes_nan, nan_advice=capabilities.nan_advice
        )
        return queries.grouped
    common_index(X=X, y=y, qid=qid)
    X = without_mask(X)
    # A single document cannot be trained on, but may be a batch of a stream.
    least = 2 if reset else 1
    refuse_rows(type(ranker).__name__, X, y, least=least, expected=None if reset else ranker.n_features_in_)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None; give one grade per row")
    if qid is None and group is None:
        raise DataError(
            f"training needs the queries: give qid, the query of each row, or group, the rows of each; {ROUTING}"
        )
    labels = np.asarray(y)
    grades = as_grades(labels.ravel())
    # scikit-learn takes no missing y.
    known = np.nan_to_num(grades).reshape(labels.shape)
    features, _ = check_X_y(X, known, y_numeric=True, ensure_min_samples=least, estimator=ranker, **_ROWS)
    names = column_names(X) if reset else ranker.model_.feature_names
    features = plan.scorer.place(features)
    check_finite(features, capabilities.takes_nan, capabilities.nan_advice, names)
    return queries_of_finite(
        features, grades, qid=qid, group=group, query_weights=query_weights, feature_names=names
    ).grouped


def _opened(plan: Plan, X: Any) -> Any:
    """Return the queries of a source; those of pairs, if the method is one of pairs."""
    if not isinstance(X, PairSource):
        return opened(X)
    if plan.loss is None or not plan.loss.takes_pairs:
        raise DataError(
            f"{plan.label} cannot be trained on preferences: they say which of two documents is better, and not what a "
            "whole ranking is worth; use PairwiseHinge(), PairwiseHinge(power=2) or SoftmaxCrossEntropy(target='share')"
        )
    if plan.scaling is not None and plan.scaling.startswith("query-"):
        raise DataError(
            f"the scaling {plan.scaling} is computed over all documents of a query, and preferences have two; use ",
            Parameter("scaling", "standard"),
        )
    return X.to_pairs()


def validation_queries(plan: Plan, queries: AnyQueries, validation: Validation) -> AnyQueries:
    """Return validation queries; refuse other features than those of the training queries."""
    X, y, qid = validation_parts(validation)
    capabilities = plan.capabilities
    held_out: AnyQueries = as_queries(
        X, y, qid, None, None, allow_nan=capabilities.takes_nan, nan_advice=capabilities.nan_advice
    )
    check_same_features(queries, held_out)
    return held_out.grouped


def features_to_score(
    ranker: Ranker, X: Queries | npt.ArrayLike, qid: npt.ArrayLike | None = None
) -> Queries | Features:
    """Return features that a fitted ranker can score; refuse columns that differ from those of training."""
    X = without_tensor(X)
    if isinstance(X, DeviceFeatures):
        X = np.asarray(X)
    if isinstance(X, Queries) or _is_checked(ranker, X):
        return cast("Queries | Features", X)
    common_index(X=X, qid=qid)
    X = without_mask(X)
    names = [*map(str, getattr(ranker, "feature_names_in_", ()))]
    X = encode_frame(X, names)
    refuse_other_columns(column_names(X), names, "the model was trained on")
    refuse_rows(type(ranker).__name__, X, expected=ranker.n_features_in_)
    return cast("Features", validate_data(ranker, X, reset=False, **_ROWS))


def _is_checked(ranker: Ranker, X: object) -> bool:
    """Return whether an array is one that all checks return as it is; they take longer than scoring a few rows."""
    return (
        type(X) is np.ndarray
        and X.dtype in _ROWS["dtype"]
        and X.ndim == 2
        and X.flags.c_contiguous
        and X.size > 0
        and X.shape[1] == ranker.n_features_in_
        and not hasattr(ranker, "feature_names_in_")
    )
