"""Ids of users and items: whole numbers or text, never both."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from marginrank.data.text import label_array, text_array
from marginrank.errors import DataError
from marginrank.typing import AnyArray, IntArray


def id_column(values: npt.ArrayLike, what: str) -> AnyArray:
    """Return ids as an array of whole numbers or of text.

    Args:
        values: One id for each rating.
        what: ``user`` or ``item``, for errors.

    >>> id_column(["b", "a"], "user").tolist(), id_column([3.0, 1.0], "item").tolist()
    (['b', 'a'], [3, 1])
    >>> id_column(["b", 7], "user")
    Traceback (most recent call last):
    marginrank.errors.DataError: user ids are text ('b') and numbers (7); make all of them text, or all numbers
    """
    ids = label_array(_objects_if_mixed(values))
    if ids.ndim != 1:
        raise DataError(f"{what} ids have {ids.ndim} dimensions, not 1; give one id per rating")
    if ids.dtype.kind in "OT":
        return _from_objects(ids, what)
    if ids.dtype.kind == "f":
        if not np.isfinite(ids).all():
            at = int(np.argmin(np.isfinite(ids)))
            raise DataError(f"the {what} id of rating {at} is missing; every rating needs one")
        if np.any(ids != np.rint(ids)) or np.any(np.abs(ids) >= 2**53):
            at = int(np.argmax((ids != np.rint(ids)) | (np.abs(ids) >= 2**53)))
            raise DataError(f"the {what} id of rating {at} is {ids[at]}; ids are whole numbers or text")
        return ids.astype(np.int64)
    if ids.dtype.kind not in "iuU":
        raise DataError(f"{what} ids have the type {ids.dtype}; ids are whole numbers or text")
    if ids.dtype.kind == "u" and ids.size and int(ids.max()) > np.iinfo(np.int64).max:
        raise DataError(f"the {what} id {ids.max()} is beyond 64 bits; make the ids text")
    return ids.astype(np.int64) if ids.dtype.kind in "iu" else ids


def _objects_if_mixed(values: Any) -> Any:
    """Keep lists of several types as they are: NumPy would turn numbers among text into text."""
    if isinstance(values, list | tuple) and len({type(value) for value in values}) > 1:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return values


def _from_objects(ids: AnyArray, what: str) -> AnyArray:
    values = ids.tolist()
    texts = [isinstance(value, str) for value in values]
    for at, value in enumerate(values):
        if value is None or (not texts[at] and str(value) in ("nan", "NaT", "<NA>")):
            raise DataError(f"the {what} id of rating {at} is missing; every rating needs one")
    if all(texts):
        return text_array(values)
    if any(texts):
        word, number = values[texts.index(True)], values[texts.index(False)]
        raise DataError(
            f"{what} ids are text ({word!r}) and numbers ({number!r}); make all of them text, or all numbers"
        )
    if not all(isinstance(value, Real) for value in values):
        odd = next(value for value in values if not isinstance(value, Real))
        raise DataError(f"{what} ids have the type {type(odd).__name__}; ids are whole numbers or text")
    whole = all(isinstance(value, Integral) for value in values)
    try:
        return id_column(np.array(values, dtype=np.int64 if whole else np.float64), what)
    except OverflowError:
        raise DataError(f"{what} ids are beyond 64 bits; make the ids text") from None


def locate(known: AnyArray, ids: AnyArray, what: str) -> IntArray:
    """Return the position of each id among known ones, which are sorted; −1 for those that are new.

    >>> locate(np.array([2, 5, 9]), np.array([9, 3, 2]), "item").tolist()
    [2, -1, 0]
    """
    if len(known) and len(ids) and (known.dtype.kind in "UO") != (ids.dtype.kind in "UO"):
        kinds = ("text", "numbers") if known.dtype.kind in "UO" else ("numbers", "text")
        raise DataError(
            f"{what} ids were {kinds[0]} in training and are {kinds[1]} here ({ids[:1].tolist()[0]!r}); convert them"
        )
    if not len(known):
        return np.full(len(ids), -1)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, -1)
