"""Queries from frames (pandas, polars, Arrow), and the checks of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

import narwhals as nw
import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import (
    MISSING_ADVICE,
    Missing,
    as_numbers,
    check_missing,
    common_index,
    feature_dtype,
    fill_missing,
)
from marginrank.data.categories import CATEGORICAL, Categories, one_hot_roles, with_indicators
from marginrank.data.column_roles import (
    ColumnRoles,
    RowError,
    choose_columns,
    feature_advice,
    index_columns,
    is_grade_name,
    is_id_name,
    is_weight_name,
    refuse_sparse_columns,
)
from marginrank.data.queries import Queries
from marginrank.data.table_builder import RowBlock, TableOptions
from marginrank.data.text_arrays import as_text
from marginrank.data.unjudged import UNJUDGED_GRADES, with_nan
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.typing import FloatArray

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

#: Types of columns of text.
_TEXT: Final = (nw.String, *CATEGORICAL)


def from_frame(
    frame: IntoFrame,
    *,
    qid: str | None = None,
    grade: str | None = None,
    document_id: str | None = None,
    document_group: str | None = None,
    document_weight: str | None = None,
    features: str | Iterable[str] | None = None,
    dtype: npt.DTypeLike | None = None,
    missing: Missing = "error",
    categories: Categories = "error",
) -> Queries:
    """Build queries from a pandas or polars frame, an Arrow table, or anything else that narwhals supports.

    Args:
        frame: One row per document.
        qid: Column of the query ids; by default ``qid``, ``query_id``, ``search_id``, ``query`` or ``topic``. Here and
            below, case, blanks, hyphens and underscores do not matter.
        grade: Column of the grades; by default ``grade``, ``label``, ``relevance``, ``rel``, ``judgement``, ``rating``
            or ``y`` if there is one. Without grades, the documents can be ranked.
        document_id: Column of document names; by default ``document_id``, ``doc_id``, ``docno``, ``product_id``,
            ``item_id``, ``sku``, ``asin``, ``document``, ``doc`` or ``url`` if there is one.
        document_group: Column of group labels, for rankings that take each group at most once.
        document_weight: Column of document weights; by default ``document_weight`` if there is one.
        features: Feature columns, or patterns such as ``"bm25_*"``; by default all other columns of numbers. An empty
            list for judgements alone.
        dtype: float32 or float64; by default float32 if every feature column is, else float64.
        missing: What null and NaN features become: ``"error"``, ``"nan"``, ``"zero"`` or ``"min"``.
        categories: With ``"onehot"``, feature columns of categories or text with at most 20 levels become a feature
            ``column=level`` for each level, which is 1 in the rows that have it and otherwise 0. Frames to rank are
            encoded like those of training by ``features=ranker.feature_names_in_``.

    Warns:
        ColumnsLeftOutWarning: Columns of text, or of other ids, are no features.
    """
    check_missing(missing)
    asked = None if dtype is None else feature_dtype(dtype)
    if categories not in get_args(Categories):
        raise ParameterError(f"categories is {categories!r}; choose 'error' or 'onehot'")
    features = [features] if isinstance(features, str) else None if features is None else list(features)
    rows = with_indicators(open_frame(frame), features or ())
    chosen = choose_columns(
        rows.columns,
        qid=qid,
        grade=grade,
        document_id=document_id,
        document_group=document_group,
        document_weight=document_weight,
        features=features,
        index=index_columns(frame),
        text=text_columns(rows),
    )
    if categories == "onehot":
        chosen = one_hot_roles(rows, chosen)
        rows = with_indicators(rows, chosen.features)
    check_numbers(rows, chosen)
    queries = Queries.from_arrays(
        _matrix(rows, chosen.features, asked or _common_dtype(rows, chosen.features), missing),
        None if chosen.grade is None else _grades(rows[chosen.grade]),
        qid=_labels(rows[chosen.query], "query id"),
        document_ids=None if chosen.document is None else as_text(_labels(rows[chosen.document], "document id")),
        document_groups=None if chosen.group is None else _labels(rows[chosen.group], "document group"),
        document_weights=None if chosen.weight is None else _weights(rows[chosen.weight]),
        feature_names=chosen.features,
        allow_nan=True,
    )
    fill_missing(queries.X, queries.query_offsets, missing, queries.order)
    chosen.announce()
    return replace(queries, index=common_index(frame=rows.to_native()))


def open_frame(frame: Any) -> nw.DataFrame[Any]:
    """Open a frame of any library; refuse column names that are not text or repeated."""
    try:
        table = nw.from_native(frame)
        rows = table.collect() if isinstance(table, nw.LazyFrame) else table
        names = rows.columns
    except TypeError:
        raise TypeError(
            f"from_frame takes a pandas, polars or Arrow table, not a {type(frame).__name__}; for arrays use "
            "Queries.from_arrays"
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("two columns have the same name; rename one") from None
    refuse_sparse_columns(rows.to_native())
    if not all(isinstance(name, str) for name in names):
        raise DataError("column names must be text; rename the columns, for example with map(str, columns)")
    return rows


def text_columns(rows: nw.DataFrame[Any]) -> list[str]:
    """Return the columns of text, dates and lists; objects may be numbers, and categories can be encoded."""
    others = (nw.Object, nw.Unknown, *CATEGORICAL)
    return [name for name, kind in rows.schema.items() if not _is_number(kind) and kind not in others]


def check_numbers(rows: nw.DataFrame[Any], chosen: ColumnRoles) -> None:
    """Refuse text in columns of numbers."""
    words = [name for name in chosen.features if not _is_number(rows.schema[name])]
    if words:
        numbers = [name for name in chosen.features if name not in words]
        if rows.schema[words[0]] in CATEGORICAL:
            encode = (
                f"column {words[0]!r} holds categories; encode them with from_frame(frame, categories='onehot'), or "
            )
            raise DataError(encode, feature_advice(numbers))
        raise DataError(f"column {words[0]!r} holds {_kind(rows[words[0]])}, not numbers; ", feature_advice(numbers))
    if chosen.grade is not None and rows.schema[chosen.grade] in _TEXT:
        raise DataError(f"column {chosen.grade!r} holds text, not grades; grades are numbers such as 0, 1 and 2")


def _kind(column: nw.Series[Any]) -> str:
    """Name what a column holds, as its library does if narwhals does not know it."""
    if column.dtype in _TEXT:
        return "text"
    if column.dtype != nw.Unknown:
        return str(column.dtype)
    native = column.to_native()
    return str(native.type if column.implementation.is_pyarrow() else native.dtype)


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _common_dtype(rows: nw.DataFrame[Any], names: Sequence[str]) -> np.dtype[Any]:
    return np.dtype(np.float32 if all(rows.schema[name] == nw.Float32 for name in names) else np.float64)


def _matrix(rows: nw.DataFrame[Any], names: Sequence[str], dtype: np.dtype[Any], missing: Missing) -> npt.NDArray[Any]:
    """Copy columns into one C-order matrix, nulls as NaN."""
    X = np.empty((len(rows), len(names)), dtype=dtype)
    for k, name in enumerate(names):
        column = rows[name]
        values = column.cast(nw.Float64).to_numpy() if column.null_count() else column.to_numpy()
        with np.errstate(over="ignore"):
            kept = values.astype(dtype, copy=False)
        check_column(name, values, kept, missing)
        X[:, k] = kept
    return X


def check_column(name: str, values: npt.NDArray[Any], kept: npt.NDArray[Any], missing: Missing) -> None:
    """Refuse infinite values, values that overflow and, if ``missing`` is ``"error"``, missing ones."""
    bad = ~np.isfinite(kept) if missing == "error" else np.isinf(kept)
    if not bad.any():
        return
    at = int(np.argmax(bad))
    value = float(values[at])
    if np.isnan(value):
        raise RowError(at, name, ("has no value; ", MISSING_ADVICE))
    if np.isinf(value):
        raise RowError(at, name, f"is {value:g}; replace it")
    wider = Parameter("dtype", "float64")
    raise RowError(at, name, (f"is {value:g}, too large for {kept.dtype}; pass ", wider, " or rescale"))


def _grades(column: nw.Series[Any]) -> FloatArray:
    if not (_is_number(column.dtype) or column.dtype == nw.Object):
        raise DataError(f"column {column.name!r} holds {_kind(column)}; grades are numbers such as 0, 1 and 2")
    numbers = as_numbers(f"column {column.name!r}", column.to_numpy(), "grades are numbers such as 0, 1 and 2")
    return check_grades(column.name, numbers)


def _weights(column: nw.Series[Any]) -> FloatArray:
    if not (_is_number(column.dtype) or column.dtype == nw.Object):
        raise DataError(f"column {column.name!r} holds {_kind(column)}; weights are numbers such as 1 and 2.5")
    weights = as_numbers(f"column {column.name!r}", column.to_numpy(), "weights are numbers such as 1 and 2.5")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        said = "has no value" if np.isnan(weights[at]) else f"is {weights[at]:g}"
        raise RowError(at, column.name, f"{said}; weights are finite and not negative")
    return weights


def check_grades(name: str, grades: FloatArray) -> FloatArray:
    """Return grades with NaN for unjudged documents; refuse infinite and negative ones."""
    grades = with_nan(grades)
    for bad, rule in (
        (np.isinf(grades), f"grades must be finite; {UNJUDGED_GRADES}"),
        (grades < 0, "grades must not be negative, and only -1 means unjudged; shift them"),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise RowError(at, name, f"is {grades[at]:g}; {rule}")
    return grades


def _labels(column: nw.Series[Any], what: str) -> npt.NDArray[Any]:
    if column.null_count():
        at = int(np.argmax(column.is_null().to_numpy()))
        raise RowError(at, None, f"has no {what}; every row needs one")
    return column.to_numpy()


def row_block(table: Any, roles: ColumnRoles, options: TableOptions) -> RowBlock:
    """Check the columns of an Arrow table, and make arrays of them."""
    rows = nw.from_native(table, eager_only=True)
    ids = {name: _id_column(table[name], what) for name, what in roles.ids.items()}
    return RowBlock(
        roles.features,
        _matrix(rows, roles.features, options.dtype or _common_dtype(rows, roles.features), options.missing),
        None if roles.grade is None else _grades(rows[roles.grade]),
        ids[roles.query],
        None if roles.group is None else ids[roles.group],
        None if roles.document is None else as_text(ids[roles.document].to_numpy(zero_copy_only=False)),
        None if roles.weight is None else _weights(rows[roles.weight]),
    )


def _id_column(column: Any, what: str) -> Any:
    """Return ids as an Arrow array of text or numbers; refuse missing ones."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import types  # noqa: PLC0415

    ids = column.combine_chunks()
    ids = ids.dictionary_decode() if types.is_dictionary(ids.type) else ids
    missing = ids.is_null(nan_is_null=True)
    if missing.true_count:
        raise RowError(missing.index(True).as_py(), None, f"has no {what}; every row needs one")
    if types.is_integer(ids.type) or types.is_floating(ids.type):
        return ids
    if types.is_string(ids.type) or types.is_large_string(ids.type):
        return ids
    return pa.array(as_text(ids.to_numpy(zero_copy_only=False)).tolist(), pa.string())


def label_columns(queries: Queries) -> list[str]:
    """Name the columns of a written table that are not features."""
    known = {
        "grade": queries.judgements,
        "document_id": queries.document_ids,
        "document_weight": queries.document_weights,
    }
    return ["qid", *(name for name, column in known.items() if column is not None)]


def feature_columns(queries: Queries) -> tuple[str, ...]:
    """Name the feature columns of a written table; refuse names that would be read as something else."""
    names = queries.feature_labels
    judged = queries.judgements is not None
    taken = sorted(
        {name for name in names if is_id_name(name) or is_weight_name(name) or is_grade_name(name, judged=judged)}
    )
    if taken:
        raise DataError(f"feature names {taken} are taken by the other columns; rename them")
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(f"feature name {repeated[0]!r} appears more than once; give each column its own name")
    return names
