"""The linear scorer: one weight per feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from marginrank.data.inputs import FeatureError, features_named
from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.data.queries import Queries, feature_number
from marginrank.errors import DataError, Parameter
from marginrank.preparation.standardization import Standardize
from marginrank.runtime.device_features import DeviceFeatures, on_device
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import BLOCK_BYTES, allocate, blocks, for_each_block, reader_of
from marginrank.runtime.threads import for_each
from marginrank.runtime.torch_device import features_device
from marginrank.runtime.tuned_constants import CHUNKS
from marginrank.scorers.base import PreparedScorer, Scorer, check_form
from marginrank.scorers.form import Form
from marginrank.scorers.linear.form import LinearForm, replace_nan
from marginrank.scorers.linear.gpu import GpuFeatures
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: Largest rounding error of a feature, relative to its standard deviation.
_MAX_ERROR: Final = 0.01
#: Relative error of rounding a number to float16, and the absolute error near 0.
_RELATIVE_ERROR: Final = 2.0**-12
_ABSOLUTE_ERROR: Final = 2.0**-25
_ADVICE: Final = ("use ", Parameter("scaling", "standard"), ", or leave out dtype")


def round_to_float16(X: Features, n_jobs: int | None = None, *, checked: bool = True) -> AnyArray:
    """Return dense features in float16.

    Values beyond its range are refused and, if ``checked``, features whose rounding error is above 1% of their
    standard deviation.

    >>> round_to_float16(np.array([[1.0, 0.1], [3.0, 0.7]])).tolist()
    [[1.0, 0.0999755859375], [3.0, 0.7001953125]]
    >>> round_to_float16(np.array([[2024.0, 0.1], [2025.0, 0.7], [4048.5, 0.2]]) + [100_000.0, 0.0])
    Traceback (most recent call last):
        ...
    marginrank.data.inputs.FeatureError: feature 0 has values beyond the range of float16; ...
    """
    if sp.issparse(X):
        raise DataError("float16 is for dense features, and these are sparse; leave it out")
    rounded = allocate(X.shape, np.float16)
    n_rows = max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes))
    moments = np.zeros((1 + len(X) // n_rows, 3, X.shape[1]))
    # Relative to the first row, so that a large common offset does not cost precision.
    origin = np.zeros(X.shape[1]) if not len(X) else np.asarray(X[0], dtype=np.float64)

    def work(number: int, rows: slice, block: AnyArray) -> None:
        with np.errstate(over="ignore", under="ignore"):
            rounded[rows] = block
        errors, centered = rounded[rows].astype(np.float64) - block, block - origin
        moments[number] = (errors * errors).sum(axis=0), centered.sum(axis=0), (centered * centered).sum(axis=0)

    for_each_block(X, work, n_rows, n_jobs, rounded)
    error, mean, square = moments.sum(axis=0) / max(1, len(X))
    if not np.isfinite(error).all():
        column = int(np.argmin(np.isfinite(error)))
        raise FeatureError("{feature} has values beyond the range of float16; ", column, _ADVICE)
    if checked:
        _check_errors(np.sqrt(error), np.sqrt(np.maximum(square - mean * mean, 0.0)))
    return rounded


def check_rounding(scaler: Standardize) -> None:
    """Refuse features whose rounding errors could be too large, given their means and standard deviations."""
    sizes = np.sqrt(scaler.mean_ * scaler.mean_ + scaler.scale_ * scaler.scale_)
    _check_errors(_RELATIVE_ERROR * sizes + _ABSOLUTE_ERROR, scaler.scale_)


def _check_errors(errors: FloatArray, deviations: FloatArray) -> None:
    relative = np.where(deviations > 0.0, errors / np.where(deviations > 0.0, deviations, 1.0), 0.0)
    if relative.max(initial=0.0) > _MAX_ERROR:
        column = int(np.argmax(relative))
        text = f"rounding {{feature}} to float16 changes it by {relative[column]:.1%} of its standard deviation; "
        raise FeatureError(text, column, _ADVICE)


#: Called with an input, an output, and the first and last row.
RowKernel: TypeAlias = Callable[[Any, Any, int, int], None]

#: Types of dense features that kernels take; others become float64.
_KERNEL_TYPES: Final = tuple(np.dtype(kind) for kind in (np.float16, np.float32, np.float64))
#: Minimum size of a chunk of rows.
_CHUNK_BYTES: Final = 1 << 16

#: How a linear scorer treats missing values.
Missing: TypeAlias = Literal["error", "zero", "mean", "indicator"]


@dataclass(frozen=True)
class Linear(Scorer):
    """One weight per feature: the score is X·w, for dense or sparse features.

    Args:
        nonnegative: True for no negative weights, or the features this applies to, by name or number.
        missing: How to treat NaN: ``error`` refuses it; ``zero`` replaces it by 0 before scaling; ``mean`` by the mean
            of the training documents after scaling; ``indicator`` by the mean, and features with missing values in
            training get a second weight that is added if they are missing.
        device: Where dense features are checked, scaled and trained on: None for where they are; ``cuda`` or another
            PyTorch device for a copy there, in float64 unless they are float16; ``auto`` for CUDA if it is available.
            Losses that do not run in PyTorch are computed on the CPU.
        dtype: Type of dense features in training: None for their own, ``float16`` for half of the memory of float32.
            The objective and its gap are those of the rounded features; predictions use the features as they are.

    >>> queries = Queries.from_arrays([[1.0, 0.5], [0.0, 2.0]], [1, 0], group=[2])
    >>> Linear().prepare(queries).scores(np.array([2.0, -1.0])).tolist()
    [1.5, -2.0]
    >>> gaps = Queries.from_arrays([[1.0, np.nan], [0.0, 2.0]], [1, 0], group=[2], allow_nan=True)
    >>> Linear(missing="mean").prepare(gaps).scores(np.array([2.0, -1.0])).tolist()
    [0.0, -2.0]
    >>> Linear(missing="indicator").prepare(gaps).scores(np.array([2.0, -1.0, 7.0])).tolist()
    [7.0, -2.0]
    """

    name = "linear"
    takes_sparse = True
    gil_bound = True
    nonnegative: bool | Sequence[int | str] = False
    missing: Missing = "error"
    device: str | None = None
    dtype: Literal["float16"] | None = None

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return self.missing != "error"

    def place(self, X: Features) -> Features:
        """Return features on the device; those on another one stay there if none is given."""
        device = features_device(self.device, "Linear(device=...)")
        if device is None:
            return X
        if sp.issparse(X):
            raise DataError("Linear(device=...) takes dense features, and these are sparse; leave out device")
        return cast("Features", on_device(X, device))

    @property
    def weights_features(self) -> bool:  # type: ignore[override]
        """Whether scores are weighted sums of the features: not if they are filled after scaling, rounded or copied."""
        return self.missing in ("error", "zero") and self.device is None and self.dtype is None

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale: with ``missing="zero"``, 0 for NaN."""
        return replace_nan(X, np.zeros(X.shape[1])) if self.missing == "zero" else X

    def learn(self, queries: AnyQueries) -> LinearForm:
        """Return the form, with the values that replace missing ones."""
        n = queries.n_features
        match self.missing:
            case "error":
                return LinearForm(n)
            case "zero":
                return LinearForm(n, raw_fill=np.zeros(n))
            case "mean":
                return LinearForm(n, fill=_means(queries))
            case _:
                return LinearForm(n, fill=_means(queries), flagged=_with_gaps(queries))

    def learn_partitioned(self, queries: PartitionedQueries) -> LinearForm:
        """Return the form, with the values that replace missing ones."""
        if self.device is not None:
            raise DataError("features on a device are not trained on partitions; leave out device")
        if self.dtype is not None:
            with features_named(queries):
                check_rounding(Standardize().fit(queries))
        return self.learn(queries)

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring the documents of given queries."""
        return self._prepared(queries, self.learn(queries), n_jobs, checked=True)

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring queries with a form that was learned before."""
        return self._prepared(queries, check_form(self, form, LinearForm), n_jobs)

    def _prepared(
        self, queries: Queries, form: LinearForm, n_jobs: int | None, *, checked: bool = False
    ) -> PreparedLinear:
        X, signs = form.columns(queries.X), self._signs(queries, form)
        if self.dtype is not None:
            with features_named(queries):
                X = round_to_float16(X, n_jobs, checked=checked)
        X = self.place(X)
        return PreparedLinear(queries if X is queries.X else queries.with_features(X), signs, form)

    def _signs(self, queries: Queries, form: LinearForm) -> IntArray | None:
        if self.nonnegative is False or self.nonnegative is None:
            return None
        signs = np.zeros(form.n_parameters, dtype=np.int64)
        for feature in range(queries.n_features) if self.nonnegative is True else self.nonnegative:
            signs[feature_number(feature, queries.feature_labels)] = 1
        return signs


class PreparedLinear(PreparedScorer):
    """Scores X·w of dense or sparse features, on the CPU or another device.

    Args:
        queries: Queries with one column for each weight.
        signs: Required signs of the weights.
        form: The form after training.
    """

    def __init__(
        self,
        queries: Queries,
        signs: IntArray | None = None,
        form: LinearForm | None = None,
    ) -> None:
        self.form = form or LinearForm(queries.n_features)
        self.queries, X = queries, queries.X
        self.signs = signs
        self.n_parameters = self.form.n_parameters
        self.n_bytes = X.data.nbytes if sp.issparse(X) else X.shape[0] * X.shape[1] * X.dtype.itemsize
        gpu = self.gpu_rows = GpuFeatures(X) if isinstance(X, DeviceFeatures) else None
        kernels: tuple[RowKernel, RowKernel] = _row_kernels(X) if gpu is None else (gpu.score, gpu.pull_back)
        self._score, self._pull_back = kernels
        if gpu is not None:
            self.n_bytes = self.block_bytes = gpu.n_bytes

    @cached_property
    def spread(self) -> float:  # type: ignore[override]
        """Root mean square distance of the documents from their mean."""
        return float(np.linalg.norm(Standardize().fit(self.queries).scale_))

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return θ."""
        return np.ascontiguousarray(theta, dtype=np.float64)

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write X·w for the rows from ``start`` to ``stop``."""
        self._score(weights, scores, start, stop)

    def pull_back(self, gradient: FloatArray, gradient_sums: FloatArray, start: int, stop: int) -> None:
        """Add Σ gradient·row."""
        self._pull_back(gradient, gradient_sums, start, stop)

    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the sums, which are the gradient."""
        return gradient_sums

    def design_matrix(self, documents: IntArray) -> FloatArray:
        """Return the features of some documents."""
        rows = self.queries.X[documents]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


def _with_gaps(queries: AnyQueries) -> IntArray:
    """Return the features that have a missing value."""
    if isinstance(queries, PartitionedQueries):
        return np.flatnonzero(queries.missing)
    X = queries.X
    if sp.issparse(X):
        return np.unique(X.indices[np.isnan(X.data)]).astype(np.int64)
    gaps = np.zeros(X.shape[1], dtype=np.bool_)
    for _, block in blocks(X):
        gaps |= np.isnan(block).any(axis=0)
    return np.flatnonzero(gaps)


def _means(queries: AnyQueries) -> FloatArray:
    """Return the mean of each feature over the documents that have it, 0 if none has."""
    if isinstance(queries, PartitionedQueries) and queries.is_sparse:
        raise DataError(
            "means of sparse features are not learned from partitions; use ",
            Parameter("scorer", "linear(missing=zero)"),
        )
    if isinstance(queries, PartitionedQueries) or not sp.issparse(X := queries.X):
        return np.asarray(Standardize().fit(queries).mean_, dtype=np.float64)
    absent = np.isnan(X.data)
    sums = np.bincount(X.indices, np.where(absent, 0.0, X.data), minlength=X.shape[1])
    known = X.shape[0] - np.bincount(X.indices, absent, minlength=X.shape[1])
    return np.asarray(sums / np.maximum(known, 1.0))


def linear_scores(X: Features, w: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Return X·w in float64, whatever type the features have, without a copy of them.

    >>> linear_scores(np.array([[1.0, 2.0]], dtype=np.float32), np.array([0.5, 0.25])).tolist()
    [1.0]
    """
    n = X.shape[0]
    scores = np.empty(n)
    n_bytes = X.data.nbytes if sp.issparse(X) else X.nbytes
    n_chunks = max(CHUNKS, (0 if sp.issparse(X) else X.nbytes) // BLOCK_BYTES)
    bounds = np.linspace(0, n, min(n_chunks, n, 1 + n_bytes // _CHUNK_BYTES) + 1, dtype=np.int64).tolist()
    (score, _), weights = _row_kernels(X), np.ascontiguousarray(w, dtype=np.float64)
    for_each(lambda start, stop: score(weights, scores, start, stop), list(pairwise(bounds)), n_jobs)
    return scores


def _row_reader(X: AnyArray) -> Callable[[int, int], AnyArray]:
    """Return a function that returns rows as kernels take them, without a copy if possible."""
    dtype, reader = X.dtype if X.dtype in _KERNEL_TYPES else np.dtype(np.float64), reader_of(X)

    def rows(start: int, stop: int) -> AnyArray:
        block = np.ascontiguousarray(X[start:stop] if reader is None else reader.rows(start, stop), dtype=dtype)
        # Numba has no float16.
        return block.view(np.uint16) if dtype == np.float16 else block

    return rows


def _row_kernels(X: Features) -> tuple[RowKernel, RowKernel]:
    """Return the functions that score rows and that add gradients times rows, for dense or sparse features."""
    from marginrank.scorers.linear import linear_kernel as kernel  # noqa: PLC0415

    if sp.issparse(X):
        csr = X.data, X.indices, X.indptr
        return (
            lambda w, scores, start, stop: kernel.score_sparse_rows(*csr, w, scores, start, stop),
            lambda gradient, out, start, stop: kernel.add_sparse_rows(*csr, gradient, out, start, stop),
        )
    rows = _row_reader(X)
    return (
        lambda w, scores, start, stop: kernel.score_rows(rows(start, stop), w, scores[start:stop]),
        lambda gradient, out, start, stop: kernel.add_rows(rows(start, stop), gradient[start:stop], out),
    )
