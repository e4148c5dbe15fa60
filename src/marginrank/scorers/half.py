"""Features rounded to float16: half of the memory, and half of what a pass reads."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from marginrank.data.naming import FeatureError
from marginrank.errors import DataError
from marginrank.mapped import BLOCK_BYTES, reader_of, room, settle
from marginrank.sparse import sp
from marginrank.threads import for_each
from marginrank.typing import AnyArray, Features, FloatArray

#: Most that rounding may move the values of a feature, as a share of their standard deviation.
_MOST: Final = 0.01
_ADVICE: Final = "use scaling='standard', or leave out dtype"


def rounded(X: Features, n_jobs: int | None = None) -> AnyArray:
    """Return dense features in float16; refuse those that would lose more than float16 loses of any number.

    >>> rounded(np.array([[1.0, 0.1], [3.0, 0.7]])).tolist()
    [[1.0, 0.0999755859375], [3.0, 0.7001953125]]
    >>> rounded(np.array([[2024.0, 0.1], [2025.0, 0.7], [4048.5, 0.2]]) + [100_000.0, 0.0])
    Traceback (most recent call last):
        ...
    marginrank.data.naming.FeatureError: feature 0 has values that float16 cannot hold; ...
    """
    if sp.issparse(X):
        raise DataError("dtype is for dense features, and these are sparse; leave it out")
    half = room(X.shape, np.float16)
    step = max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes))
    bounds = list(pairwise([*range(0, len(X), step), len(X)]))
    moments = np.zeros((len(bounds), 3, X.shape[1]))
    reader = reader_of(X)

    def work(number: int, start: int, stop: int) -> None:
        block = X[start:stop] if reader is None else reader.rows(start, stop)
        with np.errstate(over="ignore", under="ignore"):
            half[start:stop] = block
        off = half[start:stop].astype(np.float64) - block
        # Around the first row, so that what all values share does not drown their differences.
        away = block - X[0].astype(np.float64)
        moments[number] = (off * off).sum(axis=0), away.sum(axis=0), (away * away).sum(axis=0)
        settle(half, slice(start, stop))

    # What goes to disk is written in order.
    in_order = reader is not None or reader_of(half) is not None
    for_each(work, [(number, *bound) for number, bound in enumerate(bounds)], 1 if in_order else n_jobs)
    _check(moments.sum(axis=0), max(1, len(X)))
    return half


def _check(moments: FloatArray, n: int) -> None:
    moved, total, squares = moments / n
    if not np.isfinite(moved).all():
        column = int(np.argmin(np.isfinite(moved)))
        raise FeatureError("{feature} has values that float16 cannot hold; " + _ADVICE, column)
    deviations = np.sqrt(np.maximum(squares - total * total, 0.0))
    shares = np.sqrt(moved) / np.where(deviations > 0.0, deviations, np.inf)
    if shares.max(initial=0.0) > _MOST:
        column = int(np.argmax(shares))
        text = f"float16 would move {{feature}} by {shares[column]:.2g} of its standard deviation; {_ADVICE}"
        raise FeatureError(text, column)


def check_half() -> None:
    """Refuse a processor that has no instructions for float16."""
    from llvmlite import binding  # noqa: PLC0415

    features = binding.get_host_cpu_features()
    if "f16c" in features and not features["f16c"]:
        raise DataError("this processor has no instructions for float16; leave out dtype")


def as_kernels_take_it(X: AnyArray) -> AnyArray:
    """Return float16 as whole numbers of 16 bits, since Numba has no float16; other features as they are."""
    return X.view(np.uint16) if X.dtype == np.float16 else X
