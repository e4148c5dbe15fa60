"""Keys of documents."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from marginrank import Queries
from marginrank.data.document_keys import mix, row_keys


def splitmix64(state: int) -> int:
    """The generator's output function, as published, on Python's whole numbers."""
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_mixing_is_that_of_splitmix64() -> None:
    numbers = np.random.default_rng(0).integers(0, 2**63, 1000, dtype=np.uint64) * np.uint64(2)
    before = numbers.copy()
    assert mix(numbers).tolist() == [splitmix64(number) for number in numbers.tolist()]
    np.testing.assert_array_equal(numbers, before)


def test_keys_depend_on_values_and_columns_alone() -> None:
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((3000, 40)) * (rng.random((3000, 40)) < 0.3)).astype(np.float32)
    X[5] = 0.0
    keys = row_keys(X)
    assert len(np.unique(keys)) == 3000
    for same in (X.astype(np.float64), sp.csr_array(X), sp.csr_array(X.astype(np.float64)), np.where(X == 0, -0.0, X)):
        np.testing.assert_array_equal(row_keys(same), keys)
    rows = rng.permutation(3000)
    np.testing.assert_array_equal(row_keys(X[rows]), keys[rows])
    np.testing.assert_array_equal(row_keys(sp.csr_array(X)[rows]), keys[rows])
    with_zeros = sp.csr_array(X)
    with_zeros.data[0] = 0.0
    np.testing.assert_array_equal(row_keys(with_zeros), row_keys(with_zeros.toarray()))


def test_keys_tell_rows_apart() -> None:
    rows = [[1.0, 2.0], [2.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [-1.0, 2.0], [np.nan, 0.0], [1 + 2**-52, 2.0]]
    assert len(set(row_keys(np.array(rows)).tolist())) == len(rows)
    assert row_keys(np.zeros((3, 0))).tolist() == [0, 0, 0]


def test_keys_are_hardly_related_to_values() -> None:
    x = np.linspace(-1, 1, 20_000)
    keys = row_keys(x[:, None]).astype(np.float64)
    assert abs(np.corrcoef(x, keys)[0, 1]) < 0.03
    assert abs(np.corrcoef(keys[1:], keys[:-1])[0, 1]) < 0.03


def test_keys_follow_documents_through_selections_and_new_features() -> None:
    rng = np.random.default_rng(2)
    queries = Queries.from_arrays(rng.standard_normal((30, 3)), np.zeros(30), qid=rng.integers(0, 5, 30))
    scaled = queries.with_features(queries.X / 3.0)
    np.testing.assert_array_equal(scaled.document_keys, queries.document_keys)
    np.testing.assert_array_equal(scaled.with_features(scaled.X[:, :1]).document_keys, queries.document_keys)
    for selector in (slice(1, 3), [3, 0]):
        np.testing.assert_array_equal(scaled[selector].document_keys, queries[selector].document_keys)
