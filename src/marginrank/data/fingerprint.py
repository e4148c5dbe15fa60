"""Fingerprints (digests) of data sets."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import for_each_block
from marginrank.typing import AnyArray

#: Bytes of a block, on which fingerprints depend.
_BLOCK_BYTES: Final = 4 << 20
#: Lanes of a digest, and the bytes of a word for each.
_LANES: Final = 4
_WORDS_BYTES: Final = 8 * _LANES


def fingerprint(queries: Queries, *, n_jobs: int | None = None) -> str:
    """Sixteen hex digits that tell data sets apart: a digest of features, grades, offsets and weights.

    It detects accidental changes, not data made to have a given digest.

    It depends on the bits of the numbers and not on how they lie in memory: a copy, a Fortran-ordered array, a
    memory-mapped one and CSR with wider indices have the digest of the original. float32 and float64, dense and CSR,
    0.0 and -0.0, absent and stored zeros, no grades and grades of
    0, no weights and weights of one all differ. Ids, names and the mixing of the rows of queries do not count.

    Blocks of rows are hashed on ``n_jobs`` threads (all cores unless told), whose number changes nothing; of
    memory-mapped data only these blocks are in memory.

    >>> from dataclasses import replace
    >>> queries = Queries.from_arrays([[0.3], [0.9]], [0, 1], group=[2])
    >>> fingerprint(queries) == fingerprint(replace(queries, query_ids=np.array(["a"])))
    True
    >>> fingerprint(queries) == fingerprint(replace(queries, judgements=np.array([0.0, 2.0])))
    False
    """
    queries = queries.grouped
    total = hashlib.sha256()
    for name, (array, dtype) in _counted_arrays(queries).items():
        total.update(f"{name} {dtype.str} {array.shape}\n".encode())
        total.update(_block_digests(array, dtype, n_jobs).data)
    return total.hexdigest()[:16]


def _counted_arrays(queries: Queries) -> dict[str, tuple[AnyArray, np.dtype[Any]]]:
    """Name the arrays that make up the data, each with the type its numbers are hashed in."""
    X = queries.X
    floats, whole, features = (np.dtype(dtype).newbyteorder("<") for dtype in (np.float64, np.int64, X.dtype))
    counted: dict[str, tuple[AnyArray, np.dtype[Any]]] = {}
    if sp.issparse(X):
        counted["X.shape"] = (np.array(X.shape), whole)
        counted["X.data"] = (X.data[: X.nnz], features)
        counted["X.indices"] = (X.indices[: X.nnz], whole)
        counted["X.indptr"] = (X.indptr, whole)
    else:
        counted["X"] = (X, features)
    if queries.judgements is not None:
        counted["grades"] = (queries.judgements, floats)
    counted["offsets"] = (queries.offsets, whole)
    if queries.query_weights is not None:
        counted["query_weights"] = (queries.query_weights, floats)
    if queries.document_weights is not None:
        counted["document_weights"] = (queries.document_weights, floats)
    return counted


def _block_digests(array: AnyArray, dtype: np.dtype[Any], n_jobs: int | None) -> AnyArray:
    """Return a digest of each block of rows."""
    from marginrank.data.fingerprint_kernel import update_lanes  # noqa: PLC0415

    row_bytes = dtype.itemsize * math.prod(array.shape[1:])
    n_rows = max(1, _BLOCK_BYTES // max(1, row_bytes))
    digests = np.tile(np.arange(_LANES, dtype=np.uint64), (-(-len(array) // n_rows), 1))

    def digest(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        numbers = np.ascontiguousarray(block, dtype=dtype).reshape(-1).view(np.uint8)
        full = len(numbers) // _WORDS_BYTES * _WORDS_BYTES
        update_lanes(digests[number], numbers[:full].view(np.uint64))
        if full < len(numbers):
            rest = np.zeros(_WORDS_BYTES, dtype=np.uint8)
            rest[: len(numbers) - full] = numbers[full:]
            update_lanes(digests[number], rest.view(np.uint64))

    for_each_block(array, digest, n_rows, n_jobs)
    return digests
