"""Relevance thresholds and grades that do not fit them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np

from marginrank.errors import FractionalGradesWarning
from marginrank.measures.base import Measure
from marginrank.typing import FloatArray


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
