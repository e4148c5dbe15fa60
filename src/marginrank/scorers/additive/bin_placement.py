"""Thresholds of bins, chosen from training values."""

from __future__ import annotations

from numbers import Integral
from typing import Final

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.preparation.binning import ColumnQuantiles, Spacing, check_spacing, place_thresholds, sort_values
from marginrank.runtime.mapped_arrays import blocks, is_large
from marginrank.runtime.memory import max_memory
from marginrank.runtime.threads import for_each
from marginrank.scorers.additive.form import (
    MOST_BINS,
    AdditiveForm,
    CurveShape,
    as_dense,
    check_shape,
    refuse_feature,
)
from marginrank.typing import AnyArray, Features

#: Size of the columns that are sorted together, so that a matrix on disk is not read once for each.
_COLUMN_BYTES: Final = 1 << 27


def learn_bins(
    X: npt.ArrayLike | Features,
    n_bins: int = MOST_BINS,
    spacing: Spacing = "mixed",
    n_jobs: int | None = None,
    shape: CurveShape = "steps",
) -> AdditiveForm:
    """Choose thresholds from training values; NaN has a bin if it occurs in them.

    >>> learn_bins([[0.0], [1.0], [3.0]], 4, "even", shape="lines").thresholds[0].tolist()
    [1.0, 2.0, 3.0]

    Args:
        X: Features, one row per document.
        n_bins: Maximum number of bins of values per feature, 2 to 255; a constant feature has one.
        spacing: ``mixed``, ``quantile`` or ``even``, as in `ThresholdBins`.
        n_jobs: Number of threads; all cores by default.
        shape: ``steps``, or ``lines`` from the smallest to the largest training value.
    """
    values = as_dense(X)
    check_bins(n_bins, spacing, shape)
    n, n_features = values.shape
    if n == 0:
        raise DataError("there is no document to learn from; give at least one row")
    thresholds: list[AnyArray] = [np.empty(0)] * n_features
    missing = np.zeros(n_features, dtype=np.bool_)
    starts = np.zeros(n_features) if shape == "lines" else None
    # Each group of columns takes a pass over all rows.
    budget = max(_COLUMN_BYTES, max_memory() // 4) if is_large(values) else _COLUMN_BYTES
    width = max(1, budget // (n * values.dtype.itemsize))

    def place(column: AnyArray, feature: int) -> None:
        sort_values(column)
        _check_finite(column, feature)
        missing[feature] = np.isnan(column[-1])
        start, thresholds[feature] = place_bins(ColumnQuantiles.of(column), int(n_bins), spacing, shape)
        if starts is not None:
            starts[feature] = start

    for first in range(0, n_features, width):
        columns = _columns(values, first, min(first + width, n_features))
        for_each(place, [(column, first + at) for at, column in enumerate(columns)], n_jobs)
    return AdditiveForm(tuple(thresholds), missing, starts)


def check_bins(n_bins: int, spacing: Spacing, shape: CurveShape) -> None:
    """Refuse invalid options of bins."""
    if not isinstance(n_bins, Integral) or not 2 <= n_bins <= MOST_BINS:
        raise ParameterError(Parameter("n_bins"), f" is {n_bins!r}; give a whole number from 2 to {MOST_BINS}")
    check_spacing(spacing)
    check_shape(shape)


def count_placed(n_bins: int, shape: CurveShape) -> int:
    """Return the number of thresholds that the spacing places; lines have one more, the largest value."""
    return n_bins - 1 if shape == "steps" else n_bins - 2


def place_bins(column: ColumnQuantiles, n_bins: int, spacing: Spacing, shape: CurveShape) -> tuple[float, AnyArray]:
    """Return the start of the lines of a feature, 0 for steps, and its thresholds."""
    inner = place_thresholds(column, count_placed(n_bins, shape), spacing)
    if shape == "steps" or not column.n:
        return 0.0, inner
    knots = np.unique(np.concatenate([column.distinct[:1], inner, column.distinct[-1:]]))
    return float(knots[0]), knots[1:]


def _columns(values: AnyArray, first: int, end: int) -> AnyArray:
    """Copy columns out of rows, reading the rows once."""
    columns = np.empty((end - first, len(values)), dtype=values.dtype)
    for rows, block in blocks(values, 1 << 12):
        columns[:, rows] = block[:, first:end].T
    return columns


def _check_finite(column: AnyArray, feature: int) -> None:
    """Refuse infinite values in a sorted column."""
    present = column[: np.searchsorted(column, np.nan)]
    if len(present) and (np.isinf(present[0]) or np.isinf(present[-1])):
        refuse_feature("{feature} has an infinite value; replace it", feature)
