"""Gains of grades and discounts of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from marginrank.errors import DataError, FractionalGradesWarning
from marginrank.measures.base import Measure
from marginrank.typing import FloatArray

#: A function below by name, or the gains of grades 0, 1, 2, ...
Gain: TypeAlias = Literal["exp2", "linear", "binary"] | tuple[float, ...]
Discount: TypeAlias = Literal["log2", "letor"]
#: Above this grade, sums of 2^g overflow.
LARGEST_EXPONENT: Final = 1000


def exp2(grades: FloatArray) -> FloatArray:
    """Return 2^g − 1, the gain of CLS eq. (1) and of the LETOR scripts.

    >>> exp2(np.array([0.0, 1.0, 3.0])).tolist()
    [0.0, 1.0, 7.0]
    """
    if grades.max(initial=0.0) > LARGEST_EXPONENT:
        raise DataError(
            f"gain 2^g - 1 of grade {grades.max():g} is too large to sum; use linear gains: ndcg@10(gain=linear)"
        )
    return np.exp2(grades) - 1.0


def linear(grades: FloatArray) -> FloatArray:
    """Return the grade itself, as trec_eval does."""
    return grades


def binary(grades: FloatArray) -> FloatArray:
    """Return 1 for grades of at least 1, else 0, as in CHK §2.2.3."""
    return (grades >= 1.0).astype(np.float64)


def log2(n: int) -> FloatArray:
    """Return 1/log2(2 + r) for rank r from 0: CLS eq. (1), DORM eq. (11), trec_eval.

    >>> log2(3).round(4).tolist()
    [1.0, 0.6309, 0.5]
    """
    return np.asarray(1.0 / np.log2(np.arange(2.0, n + 2.0)))


def letor(n: int) -> FloatArray:
    """Return 1, 1, then 1/log2(1 + r) for rank r from 0: CHK §2.2.3 and the LETOR scripts.

    >>> letor(4).round(4).tolist()
    [1.0, 1.0, 0.6309, 0.5]
    """
    return np.asarray(np.log(2.0) / np.log(np.maximum(np.arange(1.0, n + 1.0), 2.0)))


def reciprocal(n: int) -> FloatArray:
    """Return 1/(1 + r) for rank r from 0, the discount of average precision and of the reciprocal ranks.

    >>> reciprocal(3).round(4).tolist()
    [1.0, 0.5, 0.3333]
    """
    return np.asarray(1.0 / np.arange(1.0, n + 1.0))


GAINS: Final[Mapping[str, Callable[[FloatArray], FloatArray]]] = {"exp2": exp2, "linear": linear, "binary": binary}

DISCOUNTS: Final[Mapping[Discount, Callable[[int], FloatArray]]] = {"log2": log2, "letor": letor}


def gains_of(gain: Gain, grades: FloatArray) -> FloatArray:
    """Return the gain of each grade.

    >>> gains_of("exp2", np.array([0.0, 2.0])).tolist(), gains_of((0, 1, 5), np.array([0.0, 2.0])).tolist()
    ([0.0, 3.0], [0.0, 5.0])
    """
    if isinstance(gain, str):
        return GAINS[gain](grades)
    top = len(gain) - 1
    outside = ~np.isin(grades, np.arange(top + 1))
    if outside.any():
        raise DataError(
            f"grade {grades[outside][0]:g} has no gain; the table {'|'.join(f'{g:g}' for g in gain)} is for the grades "
            f"0 to {top}: give a gain for every grade of the data"
        )
    return np.asarray(gain, dtype=np.float64)[grades.astype(np.intp)]


def check_gain(gain: Gain) -> None:
    """Refuse tables of gains that do not begin with 0, decrease or are 0 throughout.

    >>> check_gain((0, 3, 1))
    Traceback (most recent call last):
    ValueError: gain is (0, 3, 1); give the gains of grades 0, 1, 2, ...: finite, at least 0, never decreasing
    """
    if isinstance(gain, str):
        return
    table = np.asarray(gain, dtype=np.float64)
    if not (len(table) and table[0] == 0 < table[-1] < np.inf and np.all(np.diff(table) >= 0)):
        raise ValueError(f"gain is {gain}; give the gains of grades 0, 1, 2, ...: finite, at least 0, never decreasing")


def check_grades(measures: Iterable[Measure], grades: FloatArray, *, stacklevel: int = 3) -> None:
    """Warn once if measures count fractional grades as irrelevant only because they are below a whole threshold.

    Whole grades below the threshold are fine (``rel=2`` for grades 0 to 4), and so is a fractional threshold, which
    somebody chose for such grades.
    """
    fractions = grades[(grades > 0) & (grades != np.floor(grades))]
    if not len(fractions):
        return
    ignored = {measure: int((fractions < (measure.threshold or 0)).sum()) for measure in measures if _is_whole(measure)}
    ignored = {measure: count for measure, count in ignored.items() if count}
    if ignored:
        counts = ", ".join(f"{count:,} for {measure!r}" for measure, count in ignored.items())
        warnings.warn(
            "documents with fractional grades below the relevance threshold count as irrelevant: "
            f"{counts}; {_remedy(next(iter(ignored)))}",
            FractionalGradesWarning,
            stacklevel=stacklevel,
        )


def _is_whole(measure: Measure) -> bool:
    return measure.threshold is not None and float(measure.threshold).is_integer()


def _remedy(measure: Measure) -> str:
    threshold = measure.threshold or 0
    if any(field.name == "rel" for field in fields(measure)):
        lower = replace(cast("Any", measure), rel=threshold - 0.5)
        return f"set a threshold that suits the grades, for example {lower!r}"
    return f"scale the grades so that those of relevant documents are at least {threshold:g}"
