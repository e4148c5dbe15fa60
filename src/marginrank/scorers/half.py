"""Features rounded to float16: half of the memory, and half of what a pass reads."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.data.naming import FeatureError
from marginrank.errors import DataError
from marginrank.mapped import BLOCK_BYTES, for_each_block, room
from marginrank.preparation.standardize import Standardize
from marginrank.sparse import sp
from marginrank.typing import AnyArray, Features, FloatArray

#: Most that rounding may move the values of a feature, as a share of their standard deviation.
_MOST: Final = 0.01
#: How far rounding moves a number at most, as a share of it, and where it is next to 0.
_RELATIVE: Final = 2.0**-12
_ABSOLUTE: Final = 2.0**-25
_ADVICE: Final = "use scaling='standard', or leave out dtype"


def rounded(X: Features, n_jobs: int | None = None, *, checked: bool = True) -> AnyArray:
    """Return dense features in float16.

    Values beyond its range are refused and, if ``checked``, features that rounding would move by more than 1 %
    of their standard deviation.

    >>> rounded(np.array([[1.0, 0.1], [3.0, 0.7]])).tolist()
    [[1.0, 0.0999755859375], [3.0, 0.7001953125]]
    >>> rounded(np.array([[2024.0, 0.1], [2025.0, 0.7], [4048.5, 0.2]]) + [100_000.0, 0.0])
    Traceback (most recent call last):
        ...
    marginrank.data.naming.FeatureError: feature 0 has values beyond the range of float16; ...
    """
    if sp.issparse(X):
        raise DataError("dtype is for dense features, and these are sparse; leave it out")
    half = room(X.shape, np.float16)
    n_rows = max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes))
    moments = np.zeros((1 + len(X) // n_rows, 3, X.shape[1]))
    # Around the first row, so that what all values share does not drown their differences.
    origin = np.zeros(X.shape[1]) if not len(X) else X[0].astype(np.float64)

    def work(number: int, rows: slice, block: AnyArray) -> None:
        with np.errstate(over="ignore", under="ignore"):
            half[rows] = block
        off, away = half[rows].astype(np.float64) - block, block - origin
        moments[number] = (off * off).sum(axis=0), away.sum(axis=0), (away * away).sum(axis=0)

    for_each_block(X, work, n_rows, n_jobs, half)
    moved, total, squares = moments.sum(axis=0) / max(1, len(X))
    if not np.isfinite(moved).all():
        column = int(np.argmin(np.isfinite(moved)))
        raise FeatureError("{feature} has values beyond the range of float16; " + _ADVICE, column)
    if checked:
        _check_share(np.sqrt(moved), np.sqrt(np.maximum(squares - total * total, 0.0)))
    return half


def check_rounding(scaler: Standardize) -> None:
    """Refuse features that rounding could move too far, given their means and standard deviations."""
    sizes = np.sqrt(scaler.mean_ * scaler.mean_ + scaler.scale_ * scaler.scale_)
    _check_share(_RELATIVE * sizes + _ABSOLUTE, scaler.scale_)


def _check_share(moved: FloatArray, deviations: FloatArray) -> None:
    shares = np.where(deviations > 0.0, moved / np.where(deviations > 0.0, deviations, 1.0), 0.0)
    if shares.max(initial=0.0) > _MOST:
        column = int(np.argmax(shares))
        text = (
            f"rounding {{feature}} to float16 changes it by {shares[column]:.1%} of its standard deviation; {_ADVICE}"
        )
        raise FeatureError(text, column)


def check_half() -> None:
    """Refuse a processor for which kernels are compiled without instructions for float16."""
    from marginrank.kernels import instructions  # noqa: PLC0415

    machine, known = instructions()
    if machine.startswith(("x86", "i686")) and "+f16c" not in known:
        raise DataError("float16 is not supported on this processor, or for this NUMBA_CPU_NAME; leave out dtype")


def as_kernels_take_it(X: AnyArray) -> AnyArray:
    """Return float16 as whole numbers of 16 bits, since Numba has no float16; other features as they are."""
    return X.view(np.uint16) if X.dtype == np.float16 else X
