"""One-hot encoding of columns of categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

import narwhals as nw

from marginrank.data.column_roles import ColumnRoles, column_names
from marginrank.errors import DataError

#: What becomes of columns of categories that are features: an error, or a feature for each level.
Categories: TypeAlias = Literal["error", "onehot"]
#: Types of columns of categories.
CATEGORICAL: Final = (nw.Categorical, nw.Enum)
#: Maximum number of levels of a column that is encoded.
_MOST_LEVELS: Final = 20


def one_hot_roles(rows: nw.DataFrame[Any], roles: ColumnRoles) -> ColumnRoles:
    """Return the roles with a feature ``column=level`` for each level of a feature column of text or categories."""
    features: list[str] = []
    for name in roles.features:
        is_encoded = rows.schema[name] in (nw.String, *CATEGORICAL)
        features += [f"{name}={level}" for level in _levels(rows[name])] if is_encoded else [name]
    return replace(roles, features=tuple(features))


def _levels(column: nw.Series[Any]) -> list[str]:
    """Return the levels of a column, in alphabetical order."""
    levels: list[str] = sorted(column.drop_nulls().unique().cast(nw.String).to_list())
    if len(levels) > _MOST_LEVELS:
        raise DataError(
            f"column {column.name!r} has {len(levels):,} categories, and at most {_MOST_LEVELS} are encoded; merge the "
            "rare ones, or leave it out"
        )
    if "=" in column.name:
        raise DataError(f"column {column.name!r} holds categories and has '=' in its name; rename it to encode it")
    return levels


def source_column(name: str, columns: Sequence[str]) -> str | None:
    """Return the column that a feature ``column=level`` is computed from; None if it is a column or nothing.

    >>> source_column("language=de", ["bm25", "language"]), source_column("bm25", ["bm25", "language"])
    ('language', None)
    """
    column, equals, _ = name.partition("=")
    return column if equals and name not in columns and column in columns else None


def with_indicators(rows: nw.DataFrame[Any], names: Sequence[str]) -> nw.DataFrame[Any]:
    """Add the columns ``column=level`` among the names: whether the column has that level; a missing value has none."""
    sources = {name: source_column(name, rows.columns) for name in names}
    indicators = []
    for name, column in sources.items():
        if column is not None:
            labels, level = rows[column], name.partition("=")[2]
            indicators.append(((labels.cast(nw.String) == level).fill_null(False) & ~labels.is_null()).alias(name))
    return rows.with_columns(indicators) if indicators else rows


def encode_frame(X: Any, names: Sequence[str]) -> Any:
    """Return a frame with the features ``column=level`` that a model has in place of their columns.

    Anything else is returned as it is.

    >>> import pandas as pd
    >>> encode_frame(pd.DataFrame({"language": ["de", "fr"]}), ["language=de", "language=en"]).astype(int).to_numpy()
    array([[1, 0],
           [0, 0]])
    """
    columns = column_names(X)
    if columns is None:
        return X
    encoded = {column: [name for name in names if source_column(name, columns) == column] for column in columns}
    if not any(encoded.values()):
        return X
    chosen = [name for column in columns for name in encoded[column] or [column]]
    return with_indicators(nw.from_native(X, eager_only=True), names).select(chosen).to_native()
