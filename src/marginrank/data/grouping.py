"""Grouping of rows by query id or group sizes, and concatenation of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.text_arrays import as_text, join_text, label_array, text_array
from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import allocate, flush_rows
from marginrank.runtime.mapped_arrays import blocks as blocks_of
from marginrank.typing import AnyArray, Features, IntArray

if TYPE_CHECKING:
    from marginrank.data.queries import Queries


def offsets_from_sizes(sizes: npt.ArrayLike) -> IntArray:
    """Sum sizes into the start of each block and the end of the last.

    >>> offsets_from_sizes([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    counts = np.asarray(sizes, dtype=np.int64)
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def rows_of(offsets: IntArray, queries: IntArray) -> IntArray:
    """Return the rows of some queries, one query after the other.

    >>> rows_of(np.array([0, 2, 3, 5]), np.array([2, 0])).tolist()
    [3, 4, 0, 1]
    """
    sizes = np.diff(offsets)[queries]
    chosen = offsets_from_sizes(sizes)
    return np.asarray(np.arange(chosen[-1]) + np.repeat(offsets[queries] - chosen[:-1], sizes))


def group_rows(
    n: int, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
) -> tuple[AnyArray, IntArray, IntArray | None]:
    """Return query ids, offsets and, if the rows of a query are not together, the order that groups them."""
    if (qid is None) == (group is None):
        raise DataError("pass either qid (the query of each row) or group (the number of rows of each query)")
    if qid is None:
        _refuse_ids_as_sizes(np.asarray(group), n)
        sizes = check_sizes(cast("npt.ArrayLike", group), n)
        return np.arange(len(sizes)), offsets_from_sizes(sizes), None
    return group_by_id(check_ids(label_array(qid), n))


def group_by_id(ids: AnyArray) -> tuple[AnyArray, IntArray, IntArray | None]:
    """Group equal ids, in order of first appearance, keeping the order inside each query.

    >>> names, offsets, order = group_by_id(np.array(["b", "a", "b"]))
    >>> names.tolist(), offsets.tolist(), order.tolist()
    (['b', 'a'], [0, 2, 3], [0, 2, 1])
    """
    n = len(ids)
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if n else np.zeros(0, dtype=np.int64)
    names, first, code = np.unique(ids[starts], return_index=True, return_inverse=True)
    run_sizes = np.diff(np.r_[starts, n])
    if len(names) == len(starts):
        return ids[starts], offsets_from_sizes(run_sizes), None
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    query_of_row = np.repeat(rank[code], run_sizes)
    order = np.argsort(query_of_row, kind="stable")
    return names[np.argsort(first)], offsets_from_sizes(np.bincount(query_of_row)), order


def are_distinct(ids: AnyArray) -> bool:
    """Return whether no id is there twice.

    >>> are_distinct(np.array(["b", "a"])), are_distinct(np.array([7, 9, 7]))
    (True, False)
    """
    in_order = np.sort(ids)
    return not bool((in_order[1:] == in_order[:-1]).any())


def check_sizes(group: npt.ArrayLike, n: int) -> IntArray:
    """Check that the sizes of the queries sum to the number of rows."""
    sizes = np.asarray(group)
    if sizes.ndim != 1 or not (sizes.size == 0 or np.issubdtype(sizes.dtype, np.integer)):
        raise DataError("group must be a list of whole numbers, the rows of each query")
    if sizes.min(initial=0) < 0:
        raise DataError(f"group[{int(np.argmin(sizes))}] is {sizes.min()}; a query cannot have fewer than 0 rows")
    total = _sum(sizes)
    if total != n:
        raise DataError(f"group sums to {total:,} but there are {n:,} rows; it must count every row once")
    return sizes.astype(np.int64)


def check_offsets(offsets: AnyArray, n: int) -> IntArray:
    """Check that offsets rise from 0 to the number of rows."""
    if offsets.ndim != 1 or not np.issubdtype(offsets.dtype, np.integer) or len(offsets) == 0:
        raise DataError("offsets must be a list of whole numbers, the start of each query and the end of the last")
    if offsets[0] != 0 or offsets[-1] != n or np.any(offsets[1:] < offsets[:-1]):
        raise DataError(f"offsets must increase from 0 to the number of rows, {n:,}")
    return offsets.astype(np.int64, copy=False)


def _refuse_ids_as_sizes(sizes: AnyArray, n: int) -> None:
    if sizes.shape != (n,) or n == 0:
        return
    if not np.issubdtype(sizes.dtype, np.integer):
        raise DataError("group has one entry per row: that is a query id per row; pass it as qid=")
    if _sum(sizes) != n:
        raise DataError(
            f"group has {n} entries, one per row: that looks like a query id per row; pass it as qid= "
            "(group takes the number of rows of each query, and sums to the number of rows)"
        )


def _sum(numbers: AnyArray) -> int:
    """Sum whole numbers exactly: those too large to be sizes must not wrap around to a sum that fits."""
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    return int(numbers.sum()) if largest < 2**32 else sum(numbers.tolist())


def check_ids(ids: AnyArray, n: int) -> AnyArray:
    """Check one query id per row; whole floats become integers, and Python objects text."""
    if ids.ndim == 1 and len(ids) != n and np.issubdtype(ids.dtype, np.integer) and int(ids.sum()) == n:
        raise DataError(
            f"qid has {len(ids)} entries that sum to the number of rows: those look like group sizes; "
            "pass them as group="
        )
    if ids.ndim != 1 or len(ids) != n:
        raise DataError(f"qid has shape {ids.shape} for {n} rows; it needs one query id per row")
    return exact_ids(ids, "qid", "every row needs a query id")


def exact_ids(ids: AnyArray, name: str, rule: str) -> AnyArray:
    """Return ids that tell apart what the caller told apart; refuse missing ones, and floats that have merged.

    >>> exact_ids(np.array([2.0**53]), "qid", "every row needs one")
    Traceback (most recent call last):
    marginrank.errors.DataError: qid[0] is 9007199254740992.0; float64 merges ids of that size; pass whole ...
    """
    if ids.dtype.kind == "M" and np.isnat(ids).any():
        raise DataError(f"{name}[{int(np.argmax(np.isnat(ids)))}] is missing; {rule}")
    if ids.dtype.kind == "c":
        raise DataError(f"{name} holds complex numbers; pass whole numbers or text")
    if ids.dtype.kind in "OT":
        return text_of_objects(ids, name, rule)
    if ids.dtype.kind != "f":
        return ids
    if not np.isfinite(ids).all():
        raise DataError(f"{name}[{int(np.argmin(np.isfinite(ids)))}] is not a number; {rule}")
    large = np.abs(ids) >= 2.0 ** (np.finfo(ids.dtype).nmant + 1)
    if large.any():
        at = int(np.argmax(large))
        raise DataError(
            f"{name}[{at}] is {float(ids[at])!r}; {ids.dtype} merges ids of that size; pass whole numbers or text"
        )
    return ids.astype(np.int64) if np.all(ids == np.rint(ids)) else ids


def text_of_objects(values: AnyArray, name: str, rule: str) -> AnyArray:
    """Turn Python objects into text; refuse missing ones.

    >>> text_of_objects(np.array([7, "nan"], dtype=object), "qid", "every row needs one").tolist()
    ['7', 'nan']
    """
    words: list[str] = []
    for at, value in enumerate(values.tolist()):
        if value is None or (not isinstance(value, str) and str(value) in ("nan", "NaT", "<NA>")):
            raise DataError(f"{name}[{at}] is missing; {rule}")
        words.append(str(value))
    return text_array(words)


def check_same_features(sets: Sequence[Queries]) -> None:
    """Refuse sets whose features differ in number or name."""
    for part in sets[1:]:
        if part.n_features != sets[0].n_features:
            raise DataError(
                f"one part has {sets[0].n_features} features, another {part.n_features}; "
                "they must have the same columns"
            )
        if part.feature_names != sets[0].feature_names:
            raise DataError("the parts have different feature_names; rename or reorder the columns")


def stack(blocks: Sequence[Features]) -> Features:
    """Concatenate features, as CSR if any are."""
    if any(sp.issparse(block) for block in blocks):
        return cast("Features", sp.vstack([sp.csr_array(block) for block in blocks], format="csr"))
    dense = cast("list[npt.NDArray[np.floating[Any]]]", blocks)
    return concatenate_into(dense, (dense[0].shape[1],), np.result_type(*dense))


def concatenate_into(parts: Sequence[AnyArray], row: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """Copy arrays into one, on disk if memory has no room for it.

    Args:
        parts: The arrays.
        row: Shape of a row of each.
        dtype: Type of the result.
    """
    offsets = offsets_from_sizes([len(part) for part in parts])
    whole = allocate((int(offsets[-1]), *row), dtype)
    for start, part in zip(offsets.tolist(), parts, strict=False):
        for rows, block in blocks_of(part):
            target = slice(start + rows.start, start + rows.stop)
            whole[target] = block
            flush_rows(whole, target)
    return whole


def stack_orders(sets: Sequence[Queries]) -> IntArray | None:
    """Return the order that groups the rows of all sets, one set after the other; None if all are grouped."""
    if all(part.order is None for part in sets):
        return None
    starts = offsets_from_sizes([part.n_documents for part in sets])[:-1].tolist()
    orders = [np.arange(part.n_documents) if part.order is None else part.order for part in sets]
    return np.concatenate([start + order for start, order in zip(starts, orders, strict=True)])


def stack_optional(name: str, columns: Sequence[AnyArray | None]) -> AnyArray | None:
    """Concatenate a column that all sets have, or none."""
    given = [column for column in columns if column is not None]
    if not given:
        return None
    if len(given) < len(columns):
        raise DataError(f"some parts have {name} and some have none; give them to all or to none")
    return join(given)


def join(columns: Sequence[AnyArray]) -> AnyArray:
    """Concatenate ids, as text if any are text."""
    kinds = {column.dtype.kind for column in columns}
    # NumPy makes float64 of signed and unsigned numbers, which merges large ones.
    if kinds & {"U", "O"} or kinds >= {"i", "u"}:
        return join_text([as_text(column) for column in columns])
    return np.concatenate(columns)
