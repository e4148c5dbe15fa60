"""Scalings by name, and the automatic choice of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import numpy as np

from marginrank.data.partitions import AnyQueries, PartitionedQueries, SomeQueries
from marginrank.data.queries import Queries
from marginrank.errors import DataError, Parameter
from marginrank.preparation.base import FeatureTransformer, check_columns
from marginrank.preparation.query_scaling import QueryMinMax, QueryPercentile, QueryStandardize
from marginrank.preparation.standardization import Standardize
from marginrank.runtime.mapped_arrays import blocks
from marginrank.runtime.text import feature_named, suggest
from marginrank.typing import Features

#: Scalings of a ranker, by name.
SCALINGS: Final[Mapping[str, type[FeatureTransformer]]] = {
    "standard": Standardize,
    "query-minmax": QueryMinMax,
    "query-standard": QueryStandardize,
    "query-percentile": QueryPercentile,
}

#: Range of standard deviations that need no scaling.
_USUAL: Final = (0.5, 2.0)


def choose_scaling(queries: Queries | PartitionedQueries, kind: str) -> str | None:
    """Return the name of the scaling that ``scaling="auto"`` stands for, or None.

    The penalty ‖w‖² of a linear ranker treats all weights alike: a feature of small spread needs a large weight, which
    is penalized. Linear weights get ``standard``, unless every feature that varies has a standard deviation between ½
    and 2 already. Bins and trees need no scaling. Scalings by query are never chosen: they need the query of each
    document again at prediction.

    >>> queries = Queries.from_arrays([[9.0, 0.02], [12.0, 0.01], [3.0, 0.07]], [1, 2, 0], group=[3])
    >>> choose_scaling(queries, "linear"), choose_scaling(queries, "additive")
    ('standard', None)

    Args:
        queries: Training queries, dense or sparse.
        kind: Kind of the form, as in `Form.kind`: ``linear``, ``additive``, ...
    """
    return chosen_scaling(queries)[0] if kind == "linear" else None


def chosen_scaling(queries: Queries | PartitionedQueries) -> tuple[str | None, Standardize]:
    """Return the name of the scaling for linear weights, and the scaler that was fitted to choose it."""
    scaler = Standardize().fit(queries)
    spreads, (low, high) = scaler.scale_, _USUAL
    differ = ((spreads > 0) & ((spreads < low) | (spreads > high))).any()
    return "standard" if differ else None, scaler


#: Function that is applied to features before scaling.
Before: TypeAlias = Callable[[Features], Features]

OtherQueries = TypeVar("OtherQueries", bound=AnyQueries)

#: Largest feature whose sums of squares, times C, stay far from overflow.
_LARGEST: Final = 1e60

#: Features up to this size are copied: passes over little data take longer if weights are divided. ``fit`` of 50
#: queries: 1.1 without copies.
_COPIED_BYTES: Final = 1 << 23
#: Largest mean, in standard deviations, that is subtracted from scores instead of features: three of their sixteen
#: digits are lost, and the rest is far below any gap.
_LARGEST_OFFSET: Final = 1e3
#: Standard deviations that weights can be divided by, far from overflow in the single precision of preconditioners, and
#: the largest mean, whose sums with gradients stay far from overflow even if the feature is constant.
_PRECISE_SCALES: Final = (1e-30, 1e30)
_LARGEST_MEAN: Final = 1e100


def _unchanged(X: Features) -> Features:
    return X


def _with(queries: SomeQueries, before: Before) -> SomeQueries:
    if isinstance(queries, PartitionedQueries):
        return queries if before is _unchanged else cast("SomeQueries", queries.derive(_with, before))
    X = before(queries.X)
    return queries if X is queries.X else cast("SomeQueries", queries.with_features(X, queries.feature_names))


@dataclass(frozen=True)
class FittedScaling(Generic[SomeQueries]):
    """Scaled queries, and the scaling.

    Args:
        queries: The queries; not scaled if the scaling is deferred.
        scaling: Name of the scaling; None if there is none.
        scaler: The scaling.
        before: Function that is applied to features before scaling.
        deferred: Means and standard deviations that the scorer has to apply, if any.
    """

    queries: SomeQueries
    scaling: str | None
    scaler: FeatureTransformer | None
    before: Before = _unchanged
    deferred: Standardize | None = None

    def apply(self, queries: OtherQueries) -> OtherQueries:
        """Return other queries on the same scale."""
        ready = _with(queries, self.before)
        if self.scaler is None:
            return ready
        scaled: OtherQueries = self.scaler.transform(ready)
        return scaled


def scale(
    queries: SomeQueries,
    scaling: str | None,
    *,
    matters: bool = True,
    before: Before = _unchanged,
    may_defer: bool = False,
) -> FittedScaling[SomeQueries]:
    """Learn a scaling by name and apply it.

    Args:
        queries: The training queries.
        scaling: ``auto``, one of `SCALINGS`, or None.
        matters: Whether the scale of features matters; if not, ``auto`` means no scaling.
        before: Function that is applied to features before scaling.
        may_defer: Whether the scorer can apply means and standard deviations, so that no copy is made if
            `_deferrable` allows it.
    """
    queries = _with(queries, before)
    name, learned = scaling, None
    if scaling == "auto":
        name, learned = chosen_scaling(queries) if matters else (None, None)
    if name is None:
        if matters:
            _check_size(queries, learned)
        return FittedScaling(queries, None, None, before)
    if name not in SCALINGS:
        raise ValueError(f"unknown scaling {scaling!r}; {suggest(str(scaling), ('auto', *SCALINGS, 'None'))}")
    scaler = SCALINGS[name]().fit(queries) if learned is None else learned
    scaled = _scaled(queries, name, scaler, before, may_defer)
    # The model has the names of the features; its scaling takes and returns arrays, whatever scikit-learn's settings.
    scaler.set_output(transform="default")
    if hasattr(scaler, "feature_names_in_"):
        del scaler.feature_names_in_
    return scaled


def scale_as(
    queries: SomeQueries,
    scaling: str | None,
    scaler: FeatureTransformer | None,
    before: Before,
    *,
    may_defer: bool = False,
) -> FittedScaling[SomeQueries]:
    """Apply a fitted scaling."""
    queries = _with(queries, before)
    if scaler is None:
        return FittedScaling(queries, scaling, None, before)
    return _scaled(queries, scaling, scaler, before, may_defer)


def _scaled(
    queries: SomeQueries, name: str | None, scaler: FeatureTransformer, before: Before, may_defer: bool
) -> FittedScaling[SomeQueries]:
    if may_defer and isinstance(scaler, Standardize) and isinstance(queries, Queries) and _deferrable(scaler, queries):
        return FittedScaling(queries, name, scaler, before, scaler)
    return FittedScaling(scaler.transform(queries), name, scaler, before)


def _deferrable(scaler: Standardize, queries: Queries) -> bool:
    """Return whether features are large, and weights can be divided instead without a loss of precision."""
    check_columns(scaler, queries)
    X: Any = queries.X
    values = X.data if queries.is_sparse else X
    if not isinstance(values, np.ndarray) or values.nbytes <= _COPIED_BYTES:
        return False
    deviations, means = scaler.scale_, np.abs(scaler.mean_)
    (smallest, largest), offset = _PRECISE_SCALES, _LARGEST_OFFSET * deviations
    precise = (deviations > smallest) & (deviations < largest) & (means <= offset)
    return bool((precise | ((deviations == 0.0) & (means <= _LARGEST_MEAN))).all())


def _check_size(queries: Queries | PartitionedQueries, learned: Standardize | None) -> None:
    """Refuse features whose sums of squares, times C, would overflow; read them only if their moments do not tell."""
    if learned is not None and not queries.is_sparse:
        # One of n values is at most √n standard deviations from the mean.
        largest = np.abs(learned.mean_) + np.sqrt(queries.n_documents) * learned.scale_
        if (largest <= _LARGEST).all():
            return
    if isinstance(queries, PartitionedQueries):
        X: Any = np.nan_to_num(np.stack(queries.ranges))
        values, sparse = X, False
    else:
        X, sparse = queries.X, queries.is_sparse
        values = X.data if sparse else X
    for rows, block in blocks(values):
        sizes = np.abs(block)
        if float(np.fmax.reduce(sizes, axis=None, initial=0.0)) <= _LARGEST:
            continue
        at = int(np.nanargmax(sizes))
        column = int(X.indices[rows.start + at]) if sparse else at % queries.n_features
        raise DataError(
            f"{feature_named(queries.feature_labels[column])} has the value {np.ravel(block)[at]:g}, and "
            f"without scaling the largest is {_LARGEST:g}; use ",
            Parameter("scaling", "standard"),
            ", or divide the feature",
        )
