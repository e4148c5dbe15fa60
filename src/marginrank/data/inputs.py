"""Judged queries as estimators take them: `Queries`, or arrays with the query of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_features, as_weights
from marginrank.data.partitioned import AnyQueries, PartitionedQueries
from marginrank.data.queries import NOT_JUDGED, Queries, check_finite
from marginrank.errors import DataError
from marginrank.sklearn_api import column_names

#: Validation queries: `Queries`, in partitions or not, or (X, y, qid).
Validation: TypeAlias = AnyQueries | tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]


@overload
def as_queries(
    X: Queries | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    *,
    allow_nan: bool,
    nan_advice: str = ...,
) -> Queries: ...
@overload
def as_queries(
    X: PartitionedQueries,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    *,
    allow_nan: bool,
    nan_advice: str = ...,
) -> PartitionedQueries: ...
def as_queries(
    X: AnyQueries | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    *,
    allow_nan: bool,
    nan_advice: str = "fill it",
) -> AnyQueries:
    """Make judged queries of what was given, and refuse what contradicts itself."""
    if not isinstance(X, AnyQueries):
        if y is None:
            raise DataError("y is missing; give one grade per row")
        features = as_features(X if hasattr(X, "tocsr") else np.asarray(X))
        names = column_names(X)
        check_finite(features, allow_nan, nan_advice, names)
        return Queries.from_arrays(
            features,
            y,
            qid=qid,
            group=group,
            query_weights=query_weights,
            feature_names=names,
            allow_nan=True,
        )
    if y is not None or qid is not None or group is not None:
        raise DataError("X is a Queries and knows its grades and queries; pass it without y, qid and group")
    if not X.has_grades:
        raise DataError(NOT_JUDGED)
    if isinstance(X, PartitionedQueries):
        if query_weights is not None:
            raise DataError("queries in partitions bring their weights along; give none here, or use weighting=")
        X.check_finite(allow_nan, nan_advice)
        return X
    check_finite(X, allow_nan, nan_advice)
    if query_weights is None:
        return X
    return replace(X, query_weights=as_weights(query_weights, len(X)))


def validation_parts(validation: Validation) -> tuple[Any, Any, Any]:
    """Return X, y and qid of validation queries."""
    if isinstance(validation, AnyQueries):
        return validation, None, None
    if not isinstance(validation, tuple) or len(validation) != 3:
        raise DataError("validation is Queries, or a tuple (X, y, qid)")
    return validation


def refuse_other_columns(found: Sequence[str] | None, expected: Sequence[str] | None, trained: str) -> None:
    """Refuse columns that are not those expected, in their order; without names there is nothing to compare.

    >>> refuse_other_columns(["bm25"], ["bm25", "age"], "the model was trained on")
    Traceback (most recent call last):
    ...
    marginrank.errors.DataError: X has no column 'age', which the model was trained on; give the same columns
    """
    if not found or not expected or list(found) == list(expected):
        return
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    if missing:
        raise DataError(f"X has no column {missing[0]!r}, which {trained}; give the same columns")
    if extra:
        raise DataError(f"X has a column {extra[0]!r} that is not among those {trained}; leave it out")
    raise DataError(f"X has the columns that {trained} in another order; give {', '.join(expected)}")
