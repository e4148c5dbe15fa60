"""The inputs of estimators: `Queries`, or arrays with the query of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_features, as_weights, common_index, without_mask
from marginrank.data.column_roles import column_names
from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.data.queries import NOT_JUDGED, Queries, check_finite, queries_of_finite
from marginrank.errors import DataError, Message, Parameter
from marginrank.runtime.text import feature_named


@runtime_checkable
class QuerySource(Protocol):
    """Something that queries to train on are made of, such as a log of clicks."""

    def to_queries(self) -> Queries:
        """Return the queries."""


@runtime_checkable
class PairSource(Protocol):
    """Pairs of documents with an order, such as preferences: a loss of whole rankings cannot be trained on them."""

    def to_pairs(self) -> Queries:
        """Return one query of two documents, of grades 1 and 0, for each pair."""


#: Validation queries: `Queries`, in partitions or not, a log of clicks, or (X, y, qid).
Validation: TypeAlias = AnyQueries | QuerySource | tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]


def opened(X: Any) -> Any:
    """Return the queries of a source; refuse pairs, which are no whole queries; return everything else as it is."""
    if isinstance(X, PairSource):
        raise DataError(
            "preferences are pairs, not whole queries: train on them with Ranker.fit or fit_path, choose C by "
            "preferences.accuracy(ranker) on other queries, and validate or tune on judged queries"
        )
    return X.to_queries() if isinstance(X, QuerySource) else X


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
    X = opened(X)
    if not isinstance(X, AnyQueries):
        if y is None:
            raise DataError("y is missing; give one grade per row")
        index = common_index(X=X, y=y, qid=qid)
        features = as_features(X if hasattr(X, "tocsr") else np.asarray(without_mask(X)))
        names = column_names(X)
        check_finite(features, allow_nan, nan_advice, names)
        return queries_of_finite(
            features, y, qid=qid, group=group, query_weights=query_weights, feature_names=names, index=index
        )
    if y is not None or qid is not None or group is not None:
        raise DataError("X is a Queries, which includes grades and queries; pass it without y, qid and group")
    if not X.has_grades:
        raise DataError(NOT_JUDGED)
    if isinstance(X, PartitionedQueries):
        if query_weights is not None:
            raise DataError("queries in partitions have their own weights; give none, or use weighting=")
        X.check_finite(allow_nan, nan_advice)
        return X
    check_finite(X, allow_nan, nan_advice)
    if query_weights is None:
        return X
    return replace(X, query_weights=as_weights(query_weights, len(X)))


def validation_parts(validation: Validation) -> tuple[Any, Any, Any]:
    """Return X, y and qid of validation queries."""
    validation = opened(validation)
    if isinstance(validation, AnyQueries):
        return validation, None, None
    if not isinstance(validation, tuple) or len(validation) != 3:
        raise DataError("validation is Queries, or a tuple (X, y, qid)")
    return validation


def refuse_other_columns(given: Sequence[str] | None, expected: Sequence[str] | None, trained: str) -> None:
    """Refuse columns that are not those expected, in their order; without names there is nothing to compare.

    >>> refuse_other_columns(["bm25"], ["bm25", "age"], "the model was trained on")
    Traceback (most recent call last):
    ...
    marginrank.errors.DataError: X has no column 'age', which the model was trained on; give the same columns
    """
    if not given or not expected or list(given) == list(expected):
        return
    missing = [name for name in expected if name not in given]
    extra = [name for name in given if name not in expected]
    if missing:
        raise DataError(Parameter("X"), f" has no column {missing[0]!r}, which {trained}; give the same columns")
    if extra:
        raise DataError(Parameter("X"), f" has a column {extra[0]!r} that is not among those {trained}; leave it out")
    raise DataError(Parameter("X"), f" has the columns that {trained} in another order; give {', '.join(expected)}")


class FeatureError(DataError):
    """An error in a feature that is raised with its column only; `named` adds its name.

    >>> error = FeatureError("{feature} is too large; scale it down", 1)
    >>> str(error), str(error.named(["bm25", "clicks"]))
    ('feature 1 is too large; scale it down', "feature 'clicks' is too large; scale it down")
    """

    def __init__(self, text: str, column: int, advice: Message = "") -> None:
        self.text, self.number, self.advice = text, column, advice
        super().__init__(text.format(feature=feature_named(str(column))), advice)

    def named(self, labels: Sequence[str]) -> DataError:
        """Return the error with the name of the feature."""
        return DataError(self.text.format(feature=feature_named(labels[self.number])), self.advice)


@contextmanager
def features_named(X: Any) -> Iterator[None]:
    """Name features in errors as queries or the columns of a frame do; columns of arrays count from 0."""
    try:
        yield
    except FeatureError as error:
        labels = X.feature_labels if isinstance(X, Queries | PartitionedQueries) else column_names(X)
        raise error if labels is None else error.named(labels) from None


def check_same_features(queries: AnyQueries, held_out: AnyQueries) -> None:
    """Refuse validation queries with other features than the training queries."""
    if held_out.n_features != queries.n_features:
        raise DataError(
            f"the validation queries have {held_out.n_features} features and the training queries "
            f"{queries.n_features}; give the same columns to both"
        )
    if None not in (queries.feature_names, held_out.feature_names) and queries.feature_names != held_out.feature_names:
        raise DataError("the feature names of validation and training queries differ; rename or reorder them")
