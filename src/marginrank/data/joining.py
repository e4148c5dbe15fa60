"""Several sets of queries as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.text import as_text, join_text
from marginrank.errors import DataError
from marginrank.mapped import blocks as blocks_of
from marginrank.mapped import room, settle
from marginrank.sparse import sp
from marginrank.typing import AnyArray, Features, IntArray

if TYPE_CHECKING:
    from marginrank.data.queries import Queries


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
    """Put features one after the other, as CSR where any are."""
    if any(sp.issparse(block) for block in blocks):
        return cast("Features", sp.vstack([sp.csr_array(block) for block in blocks], format="csr"))
    dense = cast("list[npt.NDArray[np.floating[Any]]]", blocks)
    return put_together(dense, (dense[0].shape[1],), np.result_type(*dense))


def put_together(parts: Sequence[AnyArray], row: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """Copy arrays into one, on disk where memory has no room for it.

    Args:
        parts: The arrays.
        row: Shape of a row of each.
        dtype: Type of the result.
    """
    offsets = offsets_from_sizes([len(part) for part in parts])
    whole = room((int(offsets[-1]), *row), dtype)
    for start, part in zip(offsets.tolist(), parts, strict=False):
        for rows, block in blocks_of(part):
            target = slice(start + rows.start, start + rows.stop)
            whole[target] = block
            settle(whole, target)
    return whole


def stack_rows(sets: Sequence[Queries]) -> IntArray | None:
    """Return the rows of all sources, one source after the other; None where no row moved."""
    if all(part.rows is None for part in sets):
        return None
    starts = offsets_from_sizes([part.n_documents for part in sets])[:-1].tolist()
    rows = [np.arange(part.n_documents) if part.rows is None else part.rows for part in sets]
    return np.concatenate([start + part for start, part in zip(starts, rows, strict=True)])


def stack_optional(name: str, columns: Sequence[AnyArray | None]) -> AnyArray | None:
    """Put a column that all sets have, or none, one after the other."""
    given = [column for column in columns if column is not None]
    if not given:
        return None
    if len(given) < len(columns):
        raise DataError(f"some parts have {name} and some have none; give them to all or to none")
    return join(given)


def join(columns: Sequence[AnyArray]) -> AnyArray:
    """Put ids one after the other, as text where any are text."""
    if any(column.dtype.kind in "UO" for column in columns):
        return join_text([as_text(column) for column in columns])
    return np.concatenate(columns)
