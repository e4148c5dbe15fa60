"""Missing feature values, and what replaces them."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from marginrank.errors import DataError
from marginrank.mapped import BLOCK_BYTES, settle
from marginrank.sparse import sp
from marginrank.threads import chunk_bounds
from marginrank.typing import AnyArray, Features, IntArray

#: An error, NaN, 0, or the least value of that feature among the query's other documents (0 if it has none).
Missing: TypeAlias = Literal["error", "nan", "zero", "min"]
#: The way out where a value is missing.
MISSING_ADVICE: Final = "choose what it becomes: missing='nan', 'zero' or 'min'"


def check_missing(missing: str) -> None:
    """Refuse a choice that does not exist."""
    if missing not in get_args(Missing):
        raise ValueError(f"missing is {missing!r}; choose one of {', '.join(map(repr, get_args(Missing)))}")


def fill_missing(X: Features, offsets: IntArray, missing: Missing) -> Features:
    """Replace NaN in place, as chosen; ``"error"`` and ``"nan"`` leave it.

    >>> fill_missing(np.array([[3.0], [np.nan], [np.nan]]), np.array([0, 2, 3]), "min").ravel().tolist()
    [3.0, 3.0, 0.0]
    """
    if missing in ("error", "nan"):
        return X
    if sp.issparse(X):
        if missing == "min":
            raise DataError("missing='min' needs dense features; leave out sparse=True")
        X.data[np.isnan(X.data)] = 0.0
        return X
    for first, end in pairwise(chunk_bounds(offsets, max(1, X.nbytes // BLOCK_BYTES)).tolist()):
        bounds = offsets[first : end + 1]
        _fill_block(X[bounds[0] : bounds[-1]], bounds - bounds[0], missing)
        settle(X, slice(int(bounds[0]), int(bounds[-1])))
    return X


def _fill_block(X: AnyArray, offsets: IntArray, missing: Missing) -> None:
    absent = np.isnan(X)
    if not absent.any():
        return
    if missing == "zero":
        X[absent] = 0.0
        return
    occupied = np.diff(offsets) > 0
    least = np.fmin.reduceat(X, offsets[:-1][occupied], axis=0)
    stand_in = np.repeat(np.nan_to_num(least, nan=0.0), np.diff(offsets)[occupied], axis=0)
    np.copyto(X, stand_in, where=absent)
