"""Checks and conversion of the features, grades, weights and labels that users pass."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import text_of_objects
from marginrank.data.text_arrays import label_array
from marginrank.data.validation import FEATURE_TYPES, check_csr
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import BLOCK_BYTES, flush_rows
from marginrank.runtime.text import count
from marginrank.runtime.threads import chunk_bounds
from marginrank.typing import AnyArray, Features, FloatArray, IntArray


def feature_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return the type of features; refuse types other than float32 and float64."""
    chosen = np.dtype(dtype)
    if chosen not in FEATURE_TYPES:
        raise ParameterError(Parameter("dtype"), f" is {chosen}; features are float32 or float64")
    return chosen


def as_features(X: npt.ArrayLike | sp.sparray | sp.spmatrix) -> Features:
    """Make features of an array or a sparse matrix, without a copy if possible."""
    array: Any = X if isinstance(X, np.ndarray) or sp.issparse(X) else np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"X has {array.ndim} dimensions, not 2 (documents × features)")
    return _as_csr(array) if sp.issparse(array) else _as_dense(array)


def _as_csr(X: Any) -> sp.csr_array:
    """Make CSR with sorted columns, each once per row; CSR that is so already is not copied."""
    if X.format == "csr":
        check_csr(X)
    matrix: sp.csr_array = sp.csr_array(_as_floats(X))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _as_dense(X: AnyArray) -> AnyArray:
    array: AnyArray = _as_floats(X)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _as_floats(X: Any) -> Any:
    if X.dtype in FEATURE_TYPES:
        return X
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"X holds {first_word(X)}, which is not a number; encode it as numbers, or leave it out"
        ) from None


def as_grades(y: npt.ArrayLike) -> FloatArray:
    """Check grades: one finite number per document, none below 0."""
    grades = _as_numbers("y", y, "map labels to grades, for example {'bad': 0, 'good': 1}")
    if grades.ndim != 1:
        raise DataError(f"y has {grades.ndim} dimensions, not 1; give one grade per document")
    _refuse(grades, ~np.isfinite(grades), "y", "grades must be finite; drop the rows without a judgement")
    _refuse(grades, grades < 0, "y", "grades must not be negative; shift them, for example y - y.min()")
    return grades


def _as_numbers(name: str, values: npt.ArrayLike, advice: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds {first_word(values)}, which is not a number; {advice}") from None


def first_word(values: Any) -> str:
    """Quote the first of some values that is no number, or say that they have different lengths.

    >>> first_word([1, "2", "good"]), first_word([[1], [2, 3]])
    ("'good'", 'lists of different lengths')
    """
    try:
        entries = np.asarray(values).ravel().tolist()
    except ValueError:
        return "lists of different lengths"
    for entry in entries:
        try:
            float(entry)
        except (TypeError, ValueError):
            return repr(entry)
    return "what numbers cannot be made of"


def as_weights(weights: npt.ArrayLike | None, n_queries: int) -> FloatArray | None:
    """Check query weights: one finite number per query, none below 0, not all 0."""
    if weights is None:
        return None
    array = _as_numbers("query_weights", weights, "give one number per query")
    expect_length("query_weights", array, n_queries, "query", "queries")
    if array.ndim != 1:
        raise DataError(f"query_weights has {array.ndim} dimensions, not 1 (one weight per query)")
    _refuse(array, ~(np.isfinite(array) & (array >= 0)), "query_weights", "weights are finite and not negative")
    if array.size and not array.any():
        raise DataError("all query_weights are zero; give at least one query a positive weight")
    return array


def _refuse(array: FloatArray, bad: npt.NDArray[np.bool_], name: str, rule: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"{name}[{at}] is {array[at]:g}; {rule}")


def expect_length(name: str, array: Features | AnyArray, n: int, one: str, many: str) -> None:
    """Refuse an array whose length is not n."""
    if array.ndim == 0 or array.shape[0] != n:
        length = "no" if array.ndim == 0 else array.shape[0]
        raise DataError(f"{name} has {length} entries for {count(n, one, many)}; it needs one per {one}")


def as_labels(name: str, values: npt.ArrayLike | None, n: int) -> AnyArray | None:
    """Make an array of labels, one for each of n rows."""
    if values is None:
        return None
    array = label_array(values)
    expect_length(name, array, n, "row of X", "rows of X")
    if array.dtype.kind in "OT":
        return text_of_objects(array, name, f"give every row one, or leave out {name}")
    return array


#: An error, NaN, 0, or the least value of that feature among the query's other documents (0 if it has none).
Missing: TypeAlias = Literal["error", "nan", "zero", "min"]

#: Advice for errors about missing values.
MISSING_ADVICE: Final = ("choose what it becomes: ", Parameter("missing", "nan", "zero", "min"))


def check_missing(missing: str) -> None:
    """Refuse a choice that does not exist."""
    if missing not in get_args(Missing):
        raise ParameterError(
            Parameter("missing"), f" is {missing!r}; choose one of {', '.join(map(repr, get_args(Missing)))}"
        )


def fill_missing(X: Features, offsets: IntArray, missing: Missing) -> Features:
    """Replace NaN in place, as chosen; ``"error"`` and ``"nan"`` leave it.

    >>> fill_missing(np.array([[3.0], [np.nan], [np.nan]]), np.array([0, 2, 3]), "min").ravel().tolist()
    [3.0, 3.0, 0.0]
    """
    if missing in ("error", "nan"):
        return X
    if sp.issparse(X):
        if missing == "min":
            raise DataError(Parameter("missing", "min"), " needs dense features; leave out sparse=True")
        X.data[np.isnan(X.data)] = 0.0
        return X
    for first, end in pairwise(chunk_bounds(offsets, max(1, X.nbytes // BLOCK_BYTES)).tolist()):
        bounds = offsets[first : end + 1]
        _fill_block(X[bounds[0] : bounds[-1]], bounds - bounds[0], missing)
        flush_rows(X, slice(int(bounds[0]), int(bounds[-1])))
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
