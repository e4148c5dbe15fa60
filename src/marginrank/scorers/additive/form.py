"""Curves of features: the form of the additive scorer after training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, NoReturn, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError, Parameter
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import reader_of
from marginrank.runtime.text import feature_labels
from marginrank.runtime.threads import for_each
from marginrank.scorers.form import Form, Monotone, monotone_signs, stored
from marginrank.scorers.terms import Curve, CurvesTerm, threshold_grid
from marginrank.typing import AnyArray, BoolArray, Features, FloatArray, IntArray

#: Maximum number of bins of values; with one for NaN, their codes fill a byte.
MOST_BINS: Final = 255
#: Curves that jump at thresholds, or lines between them.
CurveShape: TypeAlias = Literal["steps", "lines"]

#: Height of a unit increment of lines: it makes straight curves cheap and bends expensive.
_BEND: Final = 0.1
#: Bits of a position for the fraction of the way to the next bin value; the upper eight bits are the bin.
_FRACTION_BITS: Final = 24
#: Values of a block that is encoded at a time.
_BLOCK_VALUES: Final = 1 << 20
#: Rows of a block of columns that is dense at a time.
_DENSE_ROWS: Final = 256


@dataclass(frozen=True, eq=False)
class Shape:
    """The curve of one feature.

    Steps have no ``start``: the curve is ``values[k]`` if exactly k of the thresholds are exceeded. Lines join the
    points ``(knots[k], values[k])`` and are constant beyond the first and the last. ``missing`` is the value of NaN, or
    None if NaN has no bin and so the value ``values[0]``.
    """

    name: str
    thresholds: AnyArray
    values: FloatArray
    missing: float | None
    start: float | None = None

    @property
    def knots(self) -> FloatArray:
        """The start and the thresholds, where the lines meet."""
        return np.asarray(np.r_[self.start, self.thresholds], dtype=np.float64)

    @property
    def curve(self) -> Curve:
        """The curve as a term holds it."""
        missing = float(self.values[0]) if self.missing is None else self.missing
        return Curve(np.asarray(self.thresholds, dtype=np.float64), self.values, missing, self.start)

    def at(self, values: FloatArray) -> FloatArray:
        """Return the height of the curve at given values of the feature."""
        return self.curve.at(values)


@dataclass(frozen=True, eq=False)
class AdditiveForm(Form):
    """Thresholds of each feature, and what parameters θ mean.

    With steps, θ has the increments of the thresholds of a feature, then a weight for NaN if it has a bin, feature
    after feature. A value scores the sum of the increments of the thresholds it exceeds,

    ``s(x) = Σ_f Σ_{k ∈ K_f} θ_fk · 1[x_f > k]``,

    which is w·φ of Yue et al. (SIGIR 2007), section 4.2, and of `ThresholdBins`, whose thresholds these are.

    With lines, the knots of a feature are its start and its thresholds. The increment of a threshold k is spread
    evenly from the knot before, k⁻, to k. Each feature that varies also has a slope; slopes follow all increments,

    ``s(x) = Σ_f β_f · x̃_f + Σ_f Σ_{k ∈ K_f} θ_fk/10 · min(1, max(0, (x_f − k⁻) / (k − k⁻)))``,

    where x̃ is the value minus the start, clipped at the last threshold and divided by the standard deviation of the
    knots. So curves are linear between knots and constant beyond them, ‖θ‖² penalizes bends more than straight curves,
    and C means about the same as for a linear scorer on standardized features.

    NaN scores the weight of its bin alone; in a feature without such a bin it exceeds no threshold.

    >>> bins = AdditiveForm((np.array([1.0, 2.0, 3.0]),), np.array([True]))
    >>> bins.n_parameters
    4
    >>> bins.encode([[1.0], [2.5], [99.0], [np.nan]]).tolist()
    [[0], [2], [3], [4]]
    >>> bins.score(np.array([0.5, 0.25, -1.0, 0.125]), [[1.0], [2.5], [99.0], [np.nan]]).tolist()
    [0.0, 0.75, -0.25, 0.125]
    >>> lines = AdditiveForm((np.array([1.0, 3.0]),), np.array([False]), np.array([0.0]))
    >>> lines.score(np.array([5.0, 20.0, 0.0]), [[-1.0], [0.5], [1.0], [2.0], [9.0]]).tolist()
    [0.0, 0.25, 0.5, 1.5, 2.5]

    Args:
        thresholds: Increasing thresholds of each feature.
        missing: Whether NaN has a bin, for each feature.
        starts: Where the lines of each feature begin, below its first threshold; None for steps.
    """

    kind: ClassVar[str] = "additive"
    takes_nan: ClassVar[bool] = True
    sized_by: ClassVar[str] = "spread"
    thresholds: tuple[AnyArray, ...]
    missing: BoolArray
    starts: FloatArray | None = None

    def __post_init__(self) -> None:
        if np.shape(self.missing) != (len(self.thresholds),):
            raise DataError(
                f"missing has shape {np.shape(self.missing)} for {len(self.thresholds)} features; give one for each"
            )
        for feature, cuts in enumerate(self.thresholds):
            if len(cuts) >= MOST_BINS:
                refuse_feature(f"{{feature}} has {len(cuts)} thresholds; {MOST_BINS - 1} are the most", feature)
            if not (np.isfinite(cuts).all() and (np.diff(cuts) > 0).all()):
                refuse_feature("the thresholds of {feature} are not finite and increasing; sort them", feature)
        if self.starts is not None:
            self._check_starts(self.starts)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the thresholds of all features, the number of each, the bins for NaN and, for lines, the starts."""
        starts = {} if self.starts is None else {"starts": np.asarray(self.starts, dtype=np.float64)}
        return starts | {
            "thresholds": np.concatenate([np.zeros(0), *(np.asarray(t, dtype=np.float64) for t in self.thresholds)]),
            "threshold_counts": np.array([len(t) for t in self.thresholds], dtype=np.int64),
            "missing": np.asarray(self.missing, dtype=np.bool_),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the form from what `arrays` returned."""
        counts = stored(arrays, "threshold_counts", np.int64)
        thresholds, missing = stored(arrays, "thresholds", np.float64), stored(arrays, "missing", np.bool_)
        starts = stored(arrays, "starts", np.float64) if "starts" in arrays else None
        if len(counts) != n_features or (counts < 0).any() or counts.sum() != len(thresholds):
            raise ValueError("the thresholds do not add up")
        cuts = np.split(thresholds, np.cumsum(counts)[:-1]) if n_features else []
        return cls(tuple(cuts), missing, starts)

    @property
    def shape(self) -> CurveShape:
        """Steps or lines."""
        return "steps" if self.starts is None else "lines"

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.thresholds)

    @cached_property
    def n_parameters(self) -> int:
        """Length of θ."""
        return self._n_increments + (0 if self.starts is None else len(self._sloped))

    @property
    def _n_increments(self) -> int:
        """Number of increments and weights of NaN."""
        return int(self.n_codes.sum()) - self.n_features

    @cached_property
    def _sloped(self) -> IntArray:
        """Features with a slope: those with a threshold."""
        return np.flatnonzero([len(cuts) > 0 for cuts in self.thresholds])

    @cached_property
    def _units(self) -> FloatArray:
        """Heights of a unit of each increment of lines, and of each weight of NaN."""
        units = [np.r_[np.full(len(cuts), _BEND), np.ones(n_missing)] for cuts, n_missing in self._features]
        return np.concatenate([np.empty(0), *units])

    @property
    def _features(self) -> Iterable[tuple[AnyArray, int]]:
        """Thresholds of each feature, and the number of its bins for NaN."""
        return zip(self.thresholds, map(int, self.missing), strict=True)

    @cached_property
    def _distances(self) -> FloatArray:
        """Distance of each knot from the first of its feature, in standard deviations of the knots."""
        distances = np.zeros(int(self.n_codes.sum()))
        for start, cuts, first in zip(np.asarray(self.starts), self.thresholds, self.first_bins, strict=True):
            if len(cuts):
                # Relative to the largest number, so that neither the range nor a square overflows.
                knots = np.r_[start, cuts] / np.abs([start, cuts[-1]]).max()
                distances[first : first + len(knots)] = (knots - knots[0]) / knots.std()
        return distances

    @cached_property
    def n_codes(self) -> IntArray:
        """Number of bins of each feature, that of NaN included."""
        return np.array([len(cuts) + 1 + n_missing for cuts, n_missing in self._features], dtype=np.int64)

    @cached_property
    def first_bins(self) -> IntArray:
        """Index of the first bin of each feature among the bins of all features."""
        return np.cumsum(self.n_codes) - self.n_codes

    def encode(self, X: npt.ArrayLike | Features, n_jobs: int | None = None) -> AnyArray:
        """Return the bin of each value.

        With steps, codes of one byte: the number of thresholds that a value exceeds. With lines, positions: the bin
        plus the fraction of the way to the next knot, in units of 2⁻²⁴. NaN has the last bin of a feature with a bin
        for it, or else the first.
        """
        values = self.dense(X)
        codes = np.empty(values.shape, dtype=self._code_type)

        def store(start: int, block: AnyArray) -> None:
            codes[start : start + len(block)] = block

        self.encode_blocks(values, store, n_jobs)
        return codes

    def columns(self, X: npt.ArrayLike | Features, n_jobs: int | None = None) -> sp.csr_array:
        """Return the features that θ weights, one column per parameter.

        >>> AdditiveForm((np.array([1.0, 2.0]),), np.array([True])).columns([[0.0], [1.5], [np.nan]]).toarray().tolist()
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        """
        positions = self.encode(X, n_jobs) / (1.0 if self.starts is None else 2.0**_FRACTION_BITS)
        whole = np.floor(positions).astype(np.int64)
        bins, fractions = whole + self.first_bins, positions - whole
        n_bins, blocks = int(self.n_codes.sum()), [sp.csr_array((0, self.n_parameters))]
        for start in range(0, len(positions), _DENSE_ROWS):
            rows = slice(start, start + _DENSE_ROWS)
            number = np.arange(len(bins[rows]))[:, None]
            shares = np.zeros((len(number), n_bins + 1))
            shares[number, bins[rows]] = 1.0 - fractions[rows]
            shares[number, bins[rows] + 1] += fractions[rows]
            blocks.append(sp.csr_array(self.gradient(shares[:, :-1])))
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def encode_blocks(
        self, X: npt.ArrayLike | Features, work: Callable[[int, AnyArray], None], n_jobs: int | None = None
    ) -> None:
        """Call ``work(start, codes)`` for each block of rows, so that not all codes are in memory."""
        from marginrank.scorers.additive.additive_kernel import encode_rows, locate_rows  # noqa: PLC0415

        values, grid = self.dense(X), threshold_grid(self.thresholds)
        missing_codes = np.where(self.missing, self.n_codes - 1, 0)
        step, reader = max(1, _BLOCK_VALUES // max(1, self.n_features)), reader_of(values)

        def encode(start: int) -> None:
            stop = min(start + step, len(values))
            block = np.ascontiguousarray(values[start:stop] if reader is None else reader.rows(start, stop))
            codes = np.empty(block.shape, dtype=self._code_type)
            if self.starts is None:
                encode_rows(block, grid, missing_codes, codes)
            else:
                locate_rows(block, grid, self.starts, missing_codes, codes)
            work(start, codes)

        for_each(encode, [(start,) for start in range(0, len(values), step)], n_jobs)

    def bin_values(self, theta: FloatArray) -> FloatArray:
        """Return the value of each bin, feature after feature, along the last axis, given θ along its last axis."""
        from marginrank.scorers.additive.additive_kernel import running_sums  # noqa: PLC0415

        increments, straight = self._split(np.ascontiguousarray(theta, dtype=np.float64))
        rows = increments.reshape(math.prod(increments.shape[:-1]), self._n_increments)
        values = np.empty((len(rows), int(self.n_codes.sum())))
        running_sums(rows, self.n_codes, self.missing, values)
        return values.reshape(*increments.shape[:-1], values.shape[1]) + straight

    def _numpy_bin_values(self, theta: FloatArray) -> FloatArray:
        """Return the `bin_values` of one θ with NumPy alone."""
        increments, straight = self._split(theta)
        values, begin = np.zeros(int(self.n_codes.sum())), 0
        for first, (cuts, n_missing) in zip(self.first_bins.tolist(), self._features, strict=True):
            end, last = begin + len(cuts), first + len(cuts)
            np.cumsum(increments[begin:end], out=values[first + 1 : last + 1])
            values[last + 1 : last + 1 + n_missing] = increments[end : end + n_missing]
            begin = end + n_missing
        return np.asarray(values + straight)

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return the increments and weights of NaN in units of scores, and the values of the straight part."""
        if theta.shape[-1:] != (self.n_parameters,):
            raise DataError(f"theta has shape {theta.shape}; these bins have {self.n_parameters} parameters")
        if self.starts is None:
            return theta, 0.0
        slopes = np.zeros((*theta.shape[:-1], self.n_features))
        slopes[..., self._sloped] = theta[..., self._n_increments :]
        straight = self._distances * np.repeat(slopes, self.n_codes, axis=-1)
        return np.ascontiguousarray(self._units * theta[..., : self._n_increments]), straight

    def terms(self, theta: FloatArray) -> tuple[CurvesTerm, ...]:
        """Return the curves."""
        return (CurvesTerm(tuple(shape.curve for shape in self.shapes(theta))),)

    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the gradient with respect to θ, given that with respect to the bin values, along the last axis."""
        from marginrank.scorers.additive.additive_kernel import reversed_sums  # noqa: PLC0415

        shape = gradient_sums.shape
        rows = np.ascontiguousarray(gradient_sums).reshape(math.prod(shape[:-1]), shape[-1])
        gradients = np.empty((len(rows), self._n_increments))
        reversed_sums(rows, self.n_codes, self.missing, gradients)
        if self.starts is not None:
            slopes = np.add.reduceat(rows * self._distances, self.first_bins, axis=1)[:, self._sloped]
            gradients = np.hstack([self._units * gradients, slopes])
        return gradients.reshape(*shape[:-1], self.n_parameters)

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the range of the curve of each feature."""
        return np.array([np.ptp(shape.values) for shape in self.shapes(theta)])

    def signs(self, monotone: Monotone, names: Sequence[str] | None = None) -> IntArray:
        """Return the signs of parameters that keep curves monotone: 1 upwards, −1 downwards, 0 free, as NaN always is.

        >>> form = AdditiveForm((np.array([1.0, 2.0]), np.array([0.5])), np.array([True, False]))
        >>> form.signs({0: "decreasing"}).tolist()
        [-1, -1, 0, 0]

        Args:
            monotone: ``increasing`` or ``decreasing`` for all features, or by name or column of a feature.
            names: What the features are called.
        """
        signs = monotone_signs(monotone, self.n_features, names)
        repeated = [
            np.r_[np.full(len(cuts), sign), np.zeros(n_missing, dtype=np.int64)]
            for sign, (cuts, n_missing) in zip(signs, self._features, strict=True)
        ]
        slopes = signs[:0] if self.starts is None else signs[self._sloped]
        return np.concatenate([np.zeros(0, dtype=np.int64), *repeated, slopes])

    def shapes(self, theta: FloatArray, names: Sequence[str] | None = None) -> list[Shape]:
        """Return the curve of each feature.

        >>> bins = AdditiveForm((np.array([1.0, 2.0]),), np.array([True]))
        >>> shape = bins.shapes(np.array([0.5, 0.25, -1.0]), ["bm25"])[0]
        >>> shape.name, shape.values.tolist(), shape.missing
        ('bm25', [0.0, 0.5, 0.75], -1.0)
        """
        labels = feature_labels(names, self.n_features)
        if len(labels) != self.n_features:
            raise DataError(f"{len(labels)} feature names for {self.n_features} features")
        values = np.split(self._numpy_bin_values(theta), self.first_bins[1:]) if self.n_features else []
        starts = [None] * self.n_features if self.starts is None else self.starts.tolist()
        return [
            Shape(name, cuts, heights[: len(cuts) + 1], float(heights[-1]) if missing else None, start)
            for name, cuts, heights, missing, start in zip(
                labels, self.thresholds, values, self.missing, starts, strict=True
            )
        ]

    @property
    def _code_type(self) -> type[np.unsignedinteger[Any]]:
        return np.uint8 if self.starts is None else np.uint32

    def _check_starts(self, starts: FloatArray) -> None:
        if np.shape(starts) != (self.n_features,):
            raise DataError(f"starts has shape {np.shape(starts)} for {self.n_features} features; give one for each")
        for feature, (start, cuts) in enumerate(zip(starts, self.thresholds, strict=True)):
            if not np.isfinite(start) or (len(cuts) and start >= cuts[0]):
                refuse_feature(f"the lines of {{feature}} start at {start}; start below the first threshold", feature)

    def dense(self, X: npt.ArrayLike | Features) -> AnyArray:
        """Return features as an array of float32 or float64, and refuse sparse ones and another number of columns."""
        values = as_dense(X)
        if values.shape[1] != self.n_features:
            raise DataError(
                Parameter("X"),
                f" has {values.shape[1]} features, these bins have {self.n_features}; give the same columns",
            )
        return values


def check_shape(shape: CurveShape) -> None:
    """Raise ValueError if the shape is unknown."""
    if shape not in get_args(CurveShape):
        raise ValueError(f"unknown shape {shape!r}; known: {', '.join(get_args(CurveShape))}")


def as_dense(X: npt.ArrayLike | Features) -> AnyArray:
    """Return rows of float32 or float64, without a copy if possible."""
    if sp.issparse(X):
        raise DataError("the additive scorer takes no sparse X; pass X.toarray()")
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"X has {array.ndim} dimensions, not 2 (documents × features)")
    if array.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        from marginrank.data.arrays import first_word  # noqa: PLC0415

        raise DataError(f"X holds {first_word(array)}, which is not a number; encode it as numbers") from None


def refuse_feature(text: str, feature: int) -> NoReturn:
    """Raise an error about a feature, whose name replaces ``{feature}`` in the text."""
    from marginrank.data.inputs import FeatureError  # noqa: PLC0415

    raise FeatureError(text, feature)
