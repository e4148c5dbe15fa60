"""The bins of features: thresholds between values, a bin for missing ones, and what θ means on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from marginrank.data.queries import feature_number
from marginrank.errors import DataError
from marginrank.preparation.thresholds import Spacing, check_spacing, place_thresholds
from marginrank.scorers.forms import Form
from marginrank.threads import for_each
from marginrank.typing import AnyArray, BoolArray, ByteArray, Features, FloatArray, IntArray

#: Most bins of values; with one for NaN, their numbers fill a byte.
MOST_BINS: Final = 255
#: ``increasing`` or ``decreasing`` for all features, or by number or name of a feature.
Monotone: TypeAlias = str | Mapping[Any, str]

_SIGNS: Final = {"increasing": 1, "decreasing": -1}
#: Values that are encoded together.
_BLOCK_VALUES: Final = 1 << 20
#: Columns that are sorted together, so that a matrix on disk is not read once for each.
_COLUMN_BYTES: Final = 1 << 27


@dataclass(frozen=True, eq=False)
class Shape:
    """The step function of one feature: ``values[k]`` where exactly k of the thresholds are exceeded.

    ``missing`` is the value of NaN, or None if NaN has no bin and so the value ``values[0]``.
    """

    name: str
    thresholds: AnyArray
    values: FloatArray
    missing: float | None


@dataclass(frozen=True, eq=False)
class Bins(Form):
    """Thresholds of each feature, and what parameters θ mean: one increment per threshold, then one weight for NaN.

    A value scores the sum of the increments of the thresholds it exceeds,

    ``s(x) = Σ_f Σ_{k ∈ K_f} θ_fk · 1[x_f > k]``,

    which is w·φ of Yue et al. (SIGIR 2007), section 4.2, and of `ThresholdBins`, whose thresholds these are. NaN scores
    the weight of its bin alone; in a feature without such a bin it exceeds no threshold.

    >>> bins = Bins.learn([[0.0], [1.0], [4.0], [np.nan]], n_bins=4, spacing="even")
    >>> bins.thresholds[0].tolist(), bins.missing.tolist(), bins.n_parameters
    ([1.0, 2.0, 3.0], [True], 4)
    >>> bins.encode([[1.0], [2.5], [99.0], [np.nan]]).tolist()
    [[0], [2], [3], [4]]
    >>> bins.score(np.array([0.5, 0.25, -1.0, 0.125]), [[1.0], [2.5], [99.0], [np.nan]]).tolist()
    [0.0, 0.75, -0.25, 0.125]

    Args:
        thresholds: Increasing thresholds of each feature.
        missing: Whether NaN has a bin of its own, for each feature.
    """

    kind: ClassVar[str] = "additive"
    takes_nan: ClassVar[bool] = True
    sized_by: ClassVar[str] = "spread"
    thresholds: tuple[AnyArray, ...]
    missing: BoolArray

    def __post_init__(self) -> None:
        if np.shape(self.missing) != (len(self.thresholds),):
            raise DataError(
                f"missing has shape {np.shape(self.missing)} for {len(self.thresholds)} features; give one for each"
            )
        for feature, cuts in enumerate(self.thresholds):
            if len(cuts) >= MOST_BINS:
                raise DataError(f"feature {feature} has {len(cuts)} thresholds; {MOST_BINS - 1} are the most")
            if not (np.isfinite(cuts).all() and (np.diff(cuts) > 0).all()):
                raise DataError(f"the thresholds of feature {feature} are not finite and increasing; sort them")

    @classmethod
    def learn(
        cls,
        X: npt.ArrayLike | Features,
        n_bins: int = MOST_BINS,
        spacing: Spacing = "mixed",
        n_jobs: int | None = None,
    ) -> Bins:
        """Choose thresholds from training values; NaN has a bin where it occurs in them.

        Args:
            X: Features, one row per document.
            n_bins: The most bins of values per feature, 2 to 255; a feature that is constant has one.
            spacing: ``mixed``, ``quantile`` or ``even``, as in `ThresholdBins`.
            n_jobs: Number of threads; all cores by default.
        """
        if not isinstance(n_bins, Integral) or not 2 <= n_bins <= MOST_BINS:
            raise ValueError(f"n_bins is {n_bins!r}; give a whole number from 2 to {MOST_BINS}")
        check_spacing(spacing)
        values = _as_dense(X)
        n, n_features = values.shape
        if n == 0:
            raise DataError("there is no document to learn from; give at least one row")
        thresholds: list[AnyArray] = [np.empty(0)] * n_features
        missing = np.zeros(n_features, dtype=np.bool_)
        width = max(1, _COLUMN_BYTES // (n * values.dtype.itemsize))

        def place(column: AnyArray, feature: int) -> None:
            column.sort()
            _check_finite(column, feature)
            thresholds[feature] = place_thresholds(column, int(n_bins) - 1, spacing)
            missing[feature] = np.isnan(column[-1])

        for first in range(0, n_features, width):
            columns = _columns(values[:, first : first + width])
            for_each(place, [(column, first + at) for at, column in enumerate(columns)], n_jobs)
        return cls(tuple(thresholds), missing)

    def arrays(self) -> dict[str, AnyArray]:
        """Thresholds of all features one after the other, how many each has, and which have a bin for NaN."""
        return {
            "thresholds": np.concatenate([np.zeros(0), *(np.asarray(t, dtype=np.float64) for t in self.thresholds)]),
            "threshold_counts": np.array([len(t) for t in self.thresholds], dtype=np.int64),
            "missing": np.asarray(self.missing, dtype=np.bool_),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Make bins of what `arrays` gave."""
        counts = arrays["threshold_counts"]
        if len(counts) != n_features or counts.sum() != len(arrays["thresholds"]):
            raise ValueError("the thresholds do not add up")
        cuts = np.split(arrays["thresholds"], np.cumsum(counts)[:-1]) if n_features else []
        return cls(tuple(cuts), np.asarray(arrays["missing"], dtype=np.bool_))

    @property
    def n_features(self) -> int:
        """Count the features."""
        return len(self.thresholds)

    @cached_property
    def n_parameters(self) -> int:
        """Length of θ."""
        return int(self.n_codes.sum()) - self.n_features

    @cached_property
    def n_codes(self) -> IntArray:
        """Codes of each feature: its bins of values, and one for NaN if it has a bin."""
        sizes = [len(cuts) + 1 + int(own) for cuts, own in zip(self.thresholds, self.missing, strict=True)]
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def first_cells(self) -> IntArray:
        """Where the codes of each feature begin in a table."""
        return np.cumsum(self.n_codes) - self.n_codes

    @cached_property
    def _grid(self) -> FloatArray:
        """Thresholds filled up with inf, which no value exceeds, to rows of a power of two."""
        most = max(map(len, self.thresholds), default=0)
        grid = np.full((self.n_features, 1 << most.bit_length()), np.inf)
        for row, cuts in zip(grid, self.thresholds, strict=True):
            row[: len(cuts)] = cuts
        return grid

    def encode(self, X: npt.ArrayLike | Features, n_jobs: int | None = None) -> ByteArray:
        """Count the thresholds that each value exceeds; NaN has the last code of a feature with a bin for it, or 0."""
        values = self._check(X)
        codes = np.empty(values.shape, dtype=np.uint8)

        def keep(start: int, block: ByteArray) -> None:
            codes[start : start + len(block)] = block

        self.encode_blocks(values, keep, n_jobs)
        return codes

    def score(self, theta: FloatArray, X: npt.ArrayLike | Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents, a block at a time."""
        from marginrank.scorers.additive_kernel import score_codes  # noqa: PLC0415

        values, table = self._check(X), self.table(theta)
        scores = np.empty(len(values))

        def look_up(start: int, codes: ByteArray) -> None:
            score_codes(codes, self.first_cells, table, scores[start : start + len(codes)])

        self.encode_blocks(values, look_up, n_jobs)
        return scores

    def encode_blocks(
        self, X: npt.ArrayLike | Features, work: Callable[[int, ByteArray], None], n_jobs: int | None = None
    ) -> None:
        """Call ``work(start, codes)`` for blocks of rows, so that no more codes than are wanted need be kept."""
        from marginrank.scorers.additive_kernel import encode_rows  # noqa: PLC0415

        values, grid = self._check(X), self._grid
        missing_codes = np.where(self.missing, self.n_codes - 1, 0).astype(np.uint8)
        step = max(1, _BLOCK_VALUES // max(1, self.n_features))

        def encode(start: int) -> None:
            block = np.ascontiguousarray(values[start : start + step])
            codes = np.empty(block.shape, dtype=np.uint8)
            encode_rows(block, grid, missing_codes, codes)
            work(start, codes)

        for_each(encode, [(start,) for start in range(0, len(values), step)], n_jobs)

    def table(self, theta: FloatArray) -> FloatArray:
        """Value of each code, feature after feature: the running sums of increments, and the weight of NaN."""
        from marginrank.scorers.additive_kernel import running_sums  # noqa: PLC0415

        parameters = np.ascontiguousarray(theta, dtype=np.float64)
        if parameters.shape != (self.n_parameters,):
            raise DataError(f"theta has shape {parameters.shape}; these bins have {self.n_parameters} parameters")
        table = np.empty(int(self.n_codes.sum()))
        running_sums(parameters, self.n_codes, self.missing, table)
        return table

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Derivatives by θ, given those by the table, along the last axis."""
        from marginrank.scorers.additive_kernel import reversed_sums  # noqa: PLC0415

        rows = np.ascontiguousarray(cells).reshape(math.prod(cells.shape[:-1]), cells.shape[-1])
        gradients = np.empty((len(rows), self.n_parameters))
        reversed_sums(rows, self.n_codes, self.missing, gradients)
        return gradients.reshape(*cells.shape[:-1], self.n_parameters)

    def sizes(self, theta: FloatArray) -> FloatArray:
        """How far the step function of each feature goes up and down."""
        return np.array([np.ptp(shape.values) for shape in self.shapes(theta)])

    def signs(self, monotone: Monotone, names: Sequence[str] | None = None) -> IntArray:
        """Signs of increments that keep step functions from turning: 1 upwards, −1 downwards, 0 free as NaN always is.

        >>> Bins((np.array([1.0, 2.0]), np.array([0.5])), np.array([True, False])).signs({0: "decreasing"}).tolist()
        [-1, -1, 0, 0]

        Args:
            monotone: ``increasing`` or ``decreasing`` for all features, or by number or name of a feature.
            names: Names of the features.
        """
        wanted = np.zeros(self.n_features, dtype=np.int64)
        if isinstance(monotone, Mapping):
            for feature, direction in monotone.items():
                wanted[feature_number(feature, self.n_features, names)] = _sign(direction)
        else:
            wanted[:] = _sign(monotone)
        pairs = zip(wanted, self.thresholds, self.missing, strict=True)
        signs = [np.r_[np.full(len(cuts), sign), np.zeros(int(own), dtype=np.int64)] for sign, cuts, own in pairs]
        return np.concatenate([np.zeros(0, dtype=np.int64), *signs])

    def shapes(self, theta: FloatArray, names: Sequence[str] | None = None) -> list[Shape]:
        """Give the step function of each feature.

        >>> bins = Bins((np.array([1.0, 2.0]),), np.array([True]))
        >>> shape = bins.shapes(np.array([0.5, 0.25, -1.0]), ["bm25"])[0]
        >>> shape.name, shape.values.tolist(), shape.missing
        ('bm25', [0.0, 0.5, 0.75], -1.0)
        """
        labels = [f"x{feature}" for feature in range(self.n_features)] if names is None else names
        if len(labels) != self.n_features:
            raise DataError(f"{len(labels)} feature names for {self.n_features} features")
        values = np.split(self.table(theta), self.first_cells[1:]) if self.n_features else []
        return [
            Shape(name, cuts, heights[: len(cuts) + 1], float(heights[-1]) if own else None)
            for name, cuts, heights, own in zip(labels, self.thresholds, values, self.missing, strict=True)
        ]

    def _check(self, X: npt.ArrayLike | Features) -> AnyArray:
        values = _as_dense(X)
        if values.shape[1] != self.n_features:
            raise DataError(
                f"X has {values.shape[1]} features, these bins have {self.n_features}; give the same columns"
            )
        return values


def _sign(direction: str) -> int:
    if direction not in _SIGNS:
        raise ValueError(f"unknown direction {direction!r}; known: {', '.join(_SIGNS)}")
    return _SIGNS[direction]


def _as_dense(X: npt.ArrayLike | Features) -> AnyArray:
    """Rows of float32 or float64, in the caller's memory where they are so already."""
    if sp.issparse(X):
        raise DataError("step functions take no sparse X; pass X.toarray()")
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"X has {array.ndim} dimensions, not 2 (documents × features)")
    if array.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"X holds values that are no numbers: {error}") from None


def _columns(values: AnyArray) -> AnyArray:
    """Copy columns out of rows, reading the rows once."""
    columns = np.empty(values.shape[::-1], dtype=values.dtype)
    step = 1 << 12
    for start in range(0, len(values), step):
        columns[:, start : start + step] = values[start : start + step].T
    return columns


def _check_finite(column: AnyArray, feature: int) -> None:
    """Refuse infinite values in a sorted column."""
    present = column[: np.searchsorted(column, np.nan)]
    if len(present) and (np.isinf(present[0]) or np.isinf(present[-1])):
        raise DataError(f"feature {feature} holds an infinite value; replace it")
