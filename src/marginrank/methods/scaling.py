"""The scaling of features inside a model: resolved, learned and applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import numpy as np

from marginrank.data.partitioned import AnyQueries, PartitionedQueries, SomeQueries
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.mapped import blocks
from marginrank.model import Model
from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.scalings import SCALINGS, chosen_scaling
from marginrank.typing import Features
from marginrank.words import feature_named, suggest

#: What happens to features before they are scaled.
Before: TypeAlias = Callable[[Features], Features]
OtherQueries = TypeVar("OtherQueries", bound=AnyQueries)
#: Largest feature whose squares, summed up and times C, stay far from overflow.
_LARGEST: Final = 1e60


def _unchanged(X: Features) -> Features:
    return X


def _with(queries: SomeQueries, before: Before) -> SomeQueries:
    if isinstance(queries, PartitionedQueries):
        return queries if before is _unchanged else cast("SomeQueries", queries.derive(_with, before))
    X = before(queries.X)
    return queries if X is queries.X else cast("SomeQueries", queries.with_features(X, queries.feature_names))


@dataclass(frozen=True)
class Scaled(Generic[SomeQueries]):
    """Queries on the scale of a model, and how they got there."""

    queries: SomeQueries
    scaling: str | None
    scaler: FeatureTransformer | None
    before: Before = _unchanged

    def apply(self, queries: OtherQueries) -> OtherQueries:
        """Bring other queries to the same scale."""
        ready = _with(queries, self.before)
        if self.scaler is None:
            return ready
        scaled: OtherQueries = self.scaler.transform(ready)
        return scaled


def scale(
    queries: SomeQueries, scaling: str | None, *, matters: bool = True, before: Before = _unchanged
) -> Scaled[SomeQueries]:
    """Learn a scaling by name and apply it.

    Args:
        queries: The training queries.
        scaling: ``auto``, one of `SCALINGS`, or None.
        matters: Whether the scale of features matters to what is trained; ``auto`` leaves them alone otherwise.
        before: What happens to features before they are scaled.
    """
    queries = _with(queries, before)
    name, learned = scaling, None
    if scaling == "auto":
        name, learned = chosen_scaling(queries) if matters else (None, None)
    if name is None:
        if matters:
            _check_size(queries)
        return Scaled(queries, None, None, before)
    if name not in SCALINGS:
        raise ValueError(f"unknown scaling {scaling!r}; {suggest(str(scaling), ('auto', *SCALINGS, 'None'))}")
    scaler = SCALINGS[name]().fit(queries) if learned is None else learned
    scaled = Scaled(scaler.transform(queries), name, scaler, before)
    # A model knows the names of its features, and gives its scaling plain arrays.
    if hasattr(scaler, "feature_names_in_"):
        del scaler.feature_names_in_
    return scaled


def scale_as(model: Model, queries: SomeQueries, scaling: str | None) -> Scaled[SomeQueries]:
    """Apply the scaling of a model, unless another one is asked for."""
    if scaling not in ("auto", model.scaling):
        raise ValueError(f"the scaling of the model is {model.scaling!r} and scaling={scaling!r}; leave it out")
    kept = Scaled(queries, model.scaling, model.scaler, model.form.before_scaling)
    return replace(kept, queries=kept.apply(queries))


def _check_size(queries: Queries | PartitionedQueries) -> None:
    """Refuse features whose squares, summed up and times C, would overflow."""
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
            f"without scaling the largest is {_LARGEST:g}; use scaling='standard', or divide the feature"
        )
