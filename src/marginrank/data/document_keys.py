"""Keys of documents: 64-bit digests of their features, which do not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import blocks
from marginrank.runtime.tuned_constants import HASH_BLOCK_NUMBERS
from marginrank.typing import Features, KeyArray

#: 2^64 over the golden ratio: multiples of it are spread evenly.
_GOLDEN: Final = 0x9E3779B97F4A7C15


def mix(numbers: KeyArray) -> KeyArray:
    """Mix the bits of 64-bit numbers, so that close ones end up far apart: the finalizer of SplitMix64.

    Steele, Lea and Flood, Fast splittable pseudorandom number generators (OOPSLA 2014). It is one to one.

    >>> [hex(number) for number in mix(np.array([0, 0x9E3779B97F4A7C15], dtype=np.uint64)).tolist()]
    ['0x0', '0xe220a8397b1dcdaf']
    """
    mixed = numbers ^ (numbers >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def row_keys(X: Features) -> KeyArray:
    """Return a key for each row of X, made of its values and their columns.

    Equal rows have equal keys wherever they are, whether dense or CSR, float32 or float64; -0.0 counts as 0.0.

    >>> dense, sparse = np.array([[0.5, 0.0]]), sp.csr_array(np.array([[0.5, -0.0]], dtype=np.float32))
    >>> bool(row_keys(dense)[0] == row_keys(sparse)[0])
    True
    """
    keys = np.zeros(X.shape[0], dtype=np.uint64)
    if X.shape[1] == 0:
        return keys
    columns = np.arange(1, X.shape[1] + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    step = max(1, HASH_BLOCK_NUMBERS // X.shape[1])
    parts: Iterator[tuple[slice, Any]] = _sparse_blocks(X, step) if sp.issparse(X) else blocks(X, step)
    for rows, block in parts:
        out = keys[rows]
        if sp.issparse(X):
            rows_of_values = np.repeat(np.arange(len(out)), np.diff(block.indptr))
            np.add.at(out, rows_of_values, _digests(block.data, columns[block.indices]))
        else:
            np.sum(_digests(block, columns), axis=1, out=out)
    return keys


def _sparse_blocks(X: sp.csr_array, step: int) -> Iterator[tuple[slice, Any]]:
    return ((slice(start, start + step), X[start : start + step]) for start in range(0, X.shape[0], step))


def _digests(values: npt.NDArray[np.floating[Any]], columns: KeyArray) -> KeyArray:
    """Digests of values in their columns; those of 0 are 0, so that the sum over a row needs no stored zeros."""
    bits = values.astype(np.float64).view(np.uint64)
    return np.asarray(np.where(values != 0, mix(bits + columns), np.uint64(0)))
