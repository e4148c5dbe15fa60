"""Checks and conversion of the features, grades, weights and labels that users pass."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import exact_ids
from marginrank.data.text_arrays import label_array
from marginrank.data.unjudged import UNJUDGED_GRADES, with_nan
from marginrank.data.validation import FEATURE_TYPES, check_csr
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.runtime.device_features import DeviceFeatures, without_tensor
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
    X = without_tensor(without_mask(X))
    known = isinstance(X, np.ndarray | DeviceFeatures) or sp.issparse(X)
    array: Any = X if known else np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"X has {array.ndim} dimensions, not 2 (documents × features)")
    if isinstance(array, DeviceFeatures):
        return cast("Features", array)
    return _as_csr(array) if sp.issparse(array) else _as_dense(array)


def without_mask(X: Any) -> Any:
    """Return features with NaN for what a masked array masks; other features as they are."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    return np.ma.filled(X if X.dtype in FEATURE_TYPES else X.astype(np.float64), np.nan)


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
    if X.dtype.kind in _KINDS:
        raise DataError(f"X holds {_KINDS[X.dtype.kind]}, not numbers; encode them as numbers, or leave them out")
    _refuse_complex("X", X)
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"X holds {first_word(X)}, which is not a number; encode it as numbers, or leave it out"
        ) from None


def as_grades(y: npt.ArrayLike) -> FloatArray:
    """Check grades: one number per document, none below 0; NaN and −1 mean unjudged, and become NaN."""
    grades = as_numbers("y", y, "map labels to grades, for example {'bad': 0, 'good': 1}")
    if grades.ndim != 1:
        raise DataError(f"y has {grades.ndim} dimensions, not 1; give one grade per document")
    grades = with_nan(grades)
    _refuse(grades, np.isinf(grades), "y", f"grades must be finite; {UNJUDGED_GRADES}")
    _refuse(grades, grades < 0, "y", "grades must not be negative, and only -1 means unjudged; shift them: y - y.min()")
    return grades


#: What arrays hold that are no numbers, by NumPy's kind.
_KINDS: Final = {"c": "complex numbers", "M": "dates", "m": "durations"}


def as_numbers(name: str, values: npt.ArrayLike, advice: str) -> FloatArray:
    """Return numbers as float64; refuse text, dates and complex numbers, which NumPy would convert or cut."""
    array = values if isinstance(values, np.ma.MaskedArray) else as_array(name, values)
    if array.dtype.kind in _KINDS:
        raise DataError(f"{name} holds {_KINDS[array.dtype.kind]}, not numbers; {advice}")
    _refuse_complex(name, array)
    try:
        numbers = np.ma.filled(array.astype(np.float64), np.nan)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds {first_word(values)}, which is not a number; {advice}") from None
    if array.dtype.kind in "USO" and any(isinstance(value, str | bytes) for value in array.ravel().tolist()):
        raise DataError(f"{name} holds text, not numbers; convert it, for example with astype(float)")
    return numbers


def _refuse_complex(name: str, array: Any) -> None:
    """Refuse complex numbers among objects, of which NumPy would keep the real part."""
    if array.dtype.kind == "O" and any(isinstance(value, complex) for value in array.ravel().tolist()):
        raise DataError(f"{name} holds complex numbers; give real numbers")


def as_array(name: str, values: npt.ArrayLike) -> AnyArray:
    """Return an array, and refuse lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{name} holds {first_word(values)}, which is not a number; give one number for each") from None


def first_word(values: Any) -> str:
    """Quote the first of some values that is not a number, or say that they have different lengths.

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
    array = as_numbers("query_weights", weights, "give one number per query")
    expect_length("query_weights", array, n_queries, "query", "queries")
    if array.ndim != 1:
        raise DataError(f"query_weights has {array.ndim} dimensions, not 1 (one weight per query)")
    _refuse(array, ~(np.isfinite(array) & (array >= 0)), "query_weights", "weights are finite and not negative")
    if array.size and not array.any():
        raise DataError("all query_weights are zero; give at least one query a positive weight")
    return array


def as_document_weights(
    weights: npt.ArrayLike | None, n_documents: int, *, allow_nan: bool = False
) -> FloatArray | None:
    """Check document weights: one finite number per row, none below 0; NaN, if allowed, in queries that are judged."""
    if weights is None:
        return None
    array = as_numbers("document_weights", weights, "give one number per row")
    expect_length("document_weights", array, n_documents, "row of X", "rows of X")
    if array.ndim != 1:
        raise DataError(f"document_weights has {array.ndim} dimensions, not 1 (one weight per row)")
    bad = ~((np.isfinite(array) & (array >= 0)) | (allow_nan & np.isnan(array)))
    _refuse(array, bad, "document_weights", "weights are finite and not negative")
    return array


def _refuse(array: FloatArray, bad: npt.NDArray[np.bool_], name: str, rule: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"{name}[{at}] is {array[at]:g}; {rule}")


def refuse_lazy(name: str, values: Any) -> None:
    """Refuse lazy frames, which have no rows yet."""
    if hasattr(values, "collect"):
        raise DataError(f"{name} is a {type(values).__name__}, which has no rows yet; give {name}.collect()")


def common_index(**columns: Any) -> Any:
    """Return the index that pandas objects and queries of them have in common; None if there is none.

    >>> import pandas as pd
    >>> common_index(X=pd.DataFrame({"bm25": [0.3, 0.9]}, index=[7, 5]), y=pd.Series([1, 0], index=[5, 7]))
    Traceback (most recent call last):
    marginrank.errors.DataError: y has a different pandas index than X: its row 0 is 5, and that of X 7; align them, ...
    """
    for name, column in columns.items():
        refuse_lazy(name, column)
    indexes: dict[str, Any] = {name: getattr(column, "index", None) for name, column in columns.items()}
    of_pandas = {name: index for name, index in indexes.items() if type(index).__module__.partition(".")[0] == "pandas"}
    if not of_pandas:
        return None
    first, index = next(iter(of_pandas.items()))
    for name, given in of_pandas.items():
        if len(index) == len(given) and not index.equals(given):
            at = int(np.argmin(np.asarray(index == given)))
            raise DataError(
                f"{name} has a different pandas index than {first}: its row {at} is {given[at]}, and that of {first} "
                f"{index[at]}; align them, for example {name}.loc[{first}.index], or pass {name}.to_numpy() if they go "
                "row by row"
            )
    return index


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
    return exact_ids(array, name, f"give every row one, or leave out {name}")


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


def fill_missing(X: Features, offsets: IntArray, missing: Missing, order: IntArray | None = None) -> Features:
    """Replace NaN in place, as chosen; ``"error"`` and ``"nan"`` leave it.

    Args:
        X: The features.
        offsets: Start of each query, and the end of the last.
        missing: What NaN becomes.
        order: The rows grouped by query, if they are not.

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
        rows = slice(int(bounds[0]), int(bounds[-1]))
        if order is None:
            _fill_block(X[rows], bounds - bounds[0], missing)
            flush_rows(X, rows)
        else:
            block = X[order[rows]]
            _fill_block(block, bounds - bounds[0], missing)
            X[order[rows]] = block
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
