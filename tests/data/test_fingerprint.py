"""The same data has the same fingerprint, other data another."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import Queries
from marginrank.data import read_binary, write_binary
from marginrank.data.fingerprint import fingerprint


def some_queries(**changes):
    X = np.arange(1.0, 13.0).reshape(6, 2)
    queries = Queries.from_arrays(X, [0, 1, 2, 0, 1, 0], group=[2, 1, 3], query_weights=[1.0, 2.0, 0.5])
    return replace(queries, **changes)


def sparse_features(index_type=np.int32):
    X = sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 5.0], [6.0, 0.0]]))
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
    return X


@pytest.fixture(params=[1, 16, 4 << 20], ids="block={}".format)
def block(request, monkeypatch):
    monkeypatch.setattr("marginrank.data.fingerprint._BLOCK_BYTES", request.param)


def lanes_of(data):
    """Compute the digest of a block with Python's integers."""
    lanes = [0, 1, 2, 3]
    for at, (word,) in enumerate(struct.iter_unpack("<Q", data + bytes(-len(data) % 32))):
        mixed = (lanes[at % 4] + word * 0xC2B2AE3D27D4EB4F) % 2**64
        lanes[at % 4] = ((mixed << 31 | mixed >> 33) % 2**64) * 0x9E3779B185EBCA87 % 2**64
    return struct.pack("<4Q", *lanes)


@pytest.mark.parametrize("n_rows", [1, 2, 5])
@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 7), (np.float64, 7), (np.float64, 8)])
def test_a_fingerprint_is_its_definition(n_rows, dtype, width, monkeypatch):
    X = np.random.default_rng(0).standard_normal((5, width)).astype(dtype)
    monkeypatch.setattr("marginrank.data.fingerprint._BLOCK_BYTES", n_rows * X[0].nbytes)
    queries = Queries.from_arrays(X, group=[5])
    total = hashlib.sha256(f"X {X.dtype.str} (5, {width})\n".encode())
    for start in range(0, 5, n_rows):
        total.update(lanes_of(X[start : start + n_rows].tobytes()))
    total.update(b"offsets <i8 (2,)\n")
    step = n_rows * X[0].nbytes // 8
    offsets = struct.pack("<2q", 0, 5)
    total.update(b"".join(lanes_of(offsets[at : at + 8 * step]) for at in range(0, 16, 8 * step)))
    assert fingerprint(queries) == total.hexdigest()[:16]


def test_fingerprints_stay_the_same_from_version_to_version():
    assert fingerprint(some_queries()) == "33be46698b1c2c46"
    assert fingerprint(some_queries(X=sparse_features())) == "bbb48aed1a6c00b2"


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("X", [np.arange(1.0, 13.0).reshape(6, 2), sparse_features()], ids=["dense", "sparse"])
def test_every_number_counts(X):
    def changed(array, at):
        array = array.copy()
        array[at] += 1
        return array

    queries = some_queries(X=X)
    parts = ["judgements", "query_offsets", "query_weights"]
    others = [queries, replace(queries, query_weights=None)]
    others += [
        replace(queries, **{part: changed(getattr(queries, part), at)})
        for part in parts
        for at in range(len(getattr(queries, part)))
    ]
    if sp.issparse(X):
        others += [
            replace(queries, X=sp.csr_array((changed(X.data, at), X.indices, X.indptr), shape=X.shape))
            for at in range(X.nnz)
        ]
        others += [replace(queries, X=sp.csr_array((X.data, 1 - X.indices, X.indptr), shape=X.shape))]
        others += [replace(queries, X=sp.csr_array(X, shape=(6, 3)))]
        others += [replace(queries, X=X[::-1])]
    else:
        others += [replace(queries, X=changed(X, at)) for at in np.ndindex(X.shape)]
        others += [replace(queries, X=X[::-1]), replace(queries, X=X.reshape(3, 4)), replace(queries, X=X[:, ::-1])]
    others += [replace(queries, X=X.astype(np.float32))]
    digests = [fingerprint(other) for other in others]
    assert len(set(digests)) == len(others)
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest in digests)


@pytest.mark.usefixtures("block")
def test_memory_layout_does_not_count(tmp_path):
    queries = some_queries()
    X = queries.X
    wide = np.zeros((6, 4))
    wide[:, ::2] = X
    expected = fingerprint(queries, n_jobs=1)
    for other in (np.asfortranarray(X), wide[:, ::2], X.astype(">f8"), X[::-1].copy()[::-1]):
        assert fingerprint(replace(queries, X=other)) == expected
    write_binary(tmp_path / "q", queries)
    mapped = read_binary(tmp_path / "q")
    assert isinstance(mapped.X, np.memmap)
    assert fingerprint(mapped) == expected
    assert fingerprint(queries, n_jobs=3) == expected
    assert fingerprint(replace(queries, query_ids=np.array(["a", "b", "c"]), feature_names=("p", "q"))) == expected


@pytest.mark.usefixtures("block")
def test_sparse_storage_does_not_count(tmp_path):
    queries = some_queries(X=sparse_features())
    expected = fingerprint(queries)
    assert fingerprint(some_queries(X=sparse_features(np.int64))) == expected
    roomy = sparse_features()
    roomy.data, roomy.indices = np.append(roomy.data, 9.0), np.append(roomy.indices, 1)
    assert fingerprint(some_queries(X=roomy)) == expected
    write_binary(tmp_path / "q", queries)
    assert fingerprint(read_binary(tmp_path / "q")) == expected


def test_empty_data_has_a_fingerprint():
    def empty(rows, columns):
        return Queries(np.empty((rows, columns)), np.zeros(rows), np.array([0, rows]), np.array([1]))

    assert len({fingerprint(empty(*shape)) for shape in [(0, 0), (0, 3), (3, 0)]}) == 3
