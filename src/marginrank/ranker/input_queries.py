"""Queries from what `fit` and `predict` are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_X_y, validate_data

from marginrank.data.column_roles import column_names
from marginrank.data.inputs import as_queries, refuse_other_columns
from marginrank.data.partitions import AnyQueries
from marginrank.data.queries import Queries, check_finite
from marginrank.errors import DataError
from marginrank.evaluation.sklearn_scoring import ROUTING
from marginrank.preparation.base import check_columns, refuse_empty
from marginrank.ranker.argument_checks import refuse_rows
from marginrank.training.plan import Plan
from marginrank.typing import Features

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker

#: How scikit-learn checks rows of features; missing values are looked for afterwards, with better advice.
_ROWS: Final[Mapping[str, Any]] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,
}


def training_queries(
    ranker: Ranker,
    plan: Plan,
    X: AnyQueries | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    *,
    reset: bool = True,
) -> AnyQueries:
    """Return the queries to train on; with ``reset=False``, the next batch for a fitted ranker."""
    able = plan.capabilities
    if isinstance(X, AnyQueries):
        if reset:
            refuse_empty(X)
        else:
            check_columns(ranker, X)
        return as_queries(X, y, qid, group, query_weights, allow_nan=able.takes_nan, nan_advice=able.nan_advice)
    # One document teaches nothing, but in a stream of batches it is no mistake.
    least = 2 if reset else 1
    refuse_rows(type(ranker).__name__, X, y, least=least, expected=None if reset else ranker.n_features_in_)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None; give one grade per row")
    if qid is None and group is None:
        raise DataError(
            f"training needs the queries: give qid, the query of each row, or group, the rows of each; {ROUTING}"
        )
    features, grades = check_X_y(X, y, y_numeric=True, ensure_min_samples=least, estimator=ranker, **_ROWS)
    names = column_names(X) if reset else ranker.model_.feature_names
    check_finite(features, able.takes_nan, able.nan_advice, names)
    return Queries.from_arrays(
        features, grades, qid=qid, group=group, query_weights=query_weights, feature_names=names, allow_nan=True
    )


def features_to_score(ranker: Ranker, X: Queries | npt.ArrayLike) -> Queries | Features:
    """Return features that a fitted ranker can score; refuse other columns than those of training."""
    if isinstance(X, Queries):
        return X
    names = [*map(str, getattr(ranker, "feature_names_in_", ()))]
    refuse_other_columns(column_names(X), names, "the model was trained on")
    refuse_rows(type(ranker).__name__, X, expected=ranker.n_features_in_)
    return cast("Features", validate_data(ranker, X, reset=False, **_ROWS))
