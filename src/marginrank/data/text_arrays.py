"""Arrays of text: ids and labels, in memory that grows with the text and not with its longest word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from marginrank.typing import AnyArray, IntArray

#: Characters by which the longest word may exceed the mean in an array of fixed width.
_SPREAD: Final = 64
#: What a Python string takes beside its characters, with the reference to it.
_PER_OBJECT: Final = 64
_WHOLE_NUMBER: Final = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")


def fits_fixed_width(lengths: IntArray) -> bool:
    """Whether words of these lengths are kept at fixed width, which sorts fastest, or as Python strings.

    So text takes at most four bytes per character and 256 per word.

    >>> fits_fixed_width(np.array([9, 40])), fits_fixed_width(np.array([9] * 1000 + [2000]))
    (True, False)
    """
    return len(lengths) == 0 or even_lengths(int(lengths.max()), float(lengths.mean()))


def even_lengths(longest: int, mean: float) -> bool:
    """Whether the longest word of an array exceeds the mean by little.

    >>> even_lengths(40, 9.5), even_lengths(2000, 9.5)
    (True, False)
    """
    return longest <= mean + _SPREAD


def text_array(words: Sequence[str]) -> AnyArray:
    """Make an array of words: of fixed width, or of Python strings if one is much longer than the others.

    Words that end with NUL, which fixed width drops, are Python strings too.

    >>> text_array(["a", "bc"]).dtype.str, text_array(["a"] * 99 + ["b" * 100]).dtype.str
    ('<U2', '|O')
    """
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    if fits_fixed_width(lengths) and not any(word.endswith("\0") for word in words):
        return np.array(words, dtype=f"U{max(1, int(lengths.max(initial=1)))}")
    array = np.empty(len(words), dtype=object)
    array[:] = words
    return array


def id_array(words: Sequence[str]) -> AnyArray:
    """Make an array of ids: whole numbers if every word is the spelling of one, otherwise text.

    >>> id_array(["7", "12"]).tolist(), id_array(["007", "12"]).tolist()
    ([7, 12], ['007', '12'])
    """
    if all(map(_WHOLE_NUMBER.match, words)):
        return np.array([int(word) for word in words], dtype=np.int64)
    return text_array(words)


def label_array(values: npt.ArrayLike) -> AnyArray:
    """Make an array of labels, as NumPy does but for text, which goes to `text_array`, and large whole numbers.

    >>> label_array([-1, 2**63]).dtype.str                     # NumPy makes them float64, which merges numbers
    '|O'
    """
    if isinstance(values, list | tuple) and values:
        if all(isinstance(value, str) for value in values):
            return text_array(cast("Sequence[str]", values))
        if all(isinstance(value, int | np.integer) for value in values) and min(values) < 0 and max(values) >= 2**63:
            return np.array(values, dtype=object)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        labels = np.asarray(values, dtype=object)
        labels[np.ma.getmaskarray(values)] = None
        return labels
    # Series of text become Python strings, and not text of fixed width.
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def as_text(values: AnyArray) -> AnyArray:
    """Return labels of any type as text.

    >>> as_text(np.array([7, 12])).tolist(), as_text(np.array([b"a", b"bc"])).tolist()
    (['7', '12'], ['a', 'bc'])
    """
    if values.dtype.kind == "U":
        return values
    if values.dtype.kind == "S":
        return text_array([word.decode(errors="surrogateescape") for word in values.tolist()])
    if values.dtype.kind in "OT":
        return text_array(list(map(str, values.tolist())))
    return values.astype(str)


def join_text(parts: Sequence[AnyArray]) -> AnyArray:
    """Concatenate arrays of text."""
    widths = [part.dtype.itemsize // 4 for part in parts]
    if all(part.dtype.kind == "U" for part in parts) and max(widths) <= min(widths) + _SPREAD:
        return np.concatenate(parts)
    return text_array([word for part in parts for word in part.tolist()])


def text_bytes(array: AnyArray) -> int:
    """Count the bytes that an array takes, with the strings or numbers it refers to."""
    if array.dtype != object:
        return array.nbytes
    return sum(len(label) for label in array.tolist() if isinstance(label, str)) + _PER_OBJECT * len(array)
