"""Queries: grouping, selecting, joining and refusing."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from marginrank.data.fingerprint import fingerprint
from marginrank.data.frames import from_frame
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.data.reader import read, write_queries
from marginrank.data.validation import check_queries
from marginrank.errors import DataError

qids = st.one_of(
    st.lists(st.integers(-3, 5), max_size=30).map(lambda ids: np.array(ids, dtype=np.int64)),
    st.lists(st.sampled_from(["a", "b", "ccc", "é", ""]), max_size=30).map(lambda ids: np.array(ids, dtype="U3")),
)


def numbered(qid: Any, **options: Any) -> Queries:
    """Queries whose only feature, and document id, is the caller's row number."""
    rows = np.arange(len(qid))
    return Queries.from_arrays(rows[:, None] * 1.0, rows % 3, qid=qid, document_ids=rows, **options)


def some_queries(sizes: tuple[int, ...] = (2, 1, 3, 4), dtype: type = np.float32) -> Queries:
    n = sum(sizes)
    return Queries.from_arrays(
        np.arange(2 * n, dtype=dtype).reshape(n, 2),
        np.arange(n) % 3,
        qid=np.repeat([f"q{k}" for k in range(len(sizes))], sizes),
        document_ids=[f"d{k}" for k in range(n)],
        document_groups=np.arange(n) // 2,
        document_weights=np.arange(n) / 4,
        query_weights=np.arange(1, len(sizes) + 1),
        feature_names=["one", "two"],
    )


def assert_equal(found: Queries, expected: Queries) -> None:
    """Everything is the same."""
    assert found.feature_names == expected.feature_names
    assert found.is_sparse == expected.is_sparse
    assert found.X.dtype == expected.X.dtype
    np.testing.assert_array_equal(found.dense(), expected.dense())
    for name in (
        "grades",
        "query_offsets",
        "query_ids",
        "document_ids",
        "query_weights",
        "document_groups",
        "document_weights",
        "order",
        "rows",
    ):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


# --- grouping by query


@given(qids)
def test_queries_are_numbered_by_first_appearance_and_keep_their_rows_in_order(qid: np.ndarray) -> None:
    q = numbered(qid)
    names = list(dict.fromkeys(qid.tolist()))
    assert q.query_ids.tolist() == names
    assert q.query_ids[q.query_of_row].tolist() == qid.tolist()
    assert q.lengths.tolist() == [qid.tolist().count(name) for name in names]
    rows = list(range(len(qid)))
    by_query = [row for name in names for row in rows if qid[row] == name]
    for chosen, expected in ((q, rows), (q.grouped, by_query)):
        assert chosen.document_ids.tolist() == expected
        assert chosen.X[:, 0].tolist() == expected
        assert chosen.grades.tolist() == [row % 3 for row in expected]
    assert q.grouped.offsets.tolist() == [0, *np.cumsum(q.lengths).tolist()]
    assert q.grouped.grouped is q.grouped


@given(qids, st.randoms(use_true_random=False))
def test_values_are_grouped_and_come_back(qid: np.ndarray, random: Any) -> None:
    q = numbered(qid)
    values = np.array([[random.random(), random.random()] for _ in qid]).reshape(-1, 2)
    np.testing.assert_array_equal(q.from_grouped(q.to_grouped(values)), values)
    np.testing.assert_array_equal(q.to_grouped(q.X), q.grouped.X)


def test_offsets_of_mixed_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"^the rows of these queries are interleaved; use queries\.grouped"):
        _ = numbered([1, 2, 1]).offsets


@given(qids, st.data())
def test_a_selection_in_order_keeps_the_rows_in_order(qid: np.ndarray, data: st.DataObject) -> None:
    q = numbered(qid)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(q), max_size=len(q))), dtype=bool)
    chosen = q[keep]
    expected = [row for row, name in enumerate(qid.tolist()) if name in q.query_ids[keep].tolist()]
    assert chosen.document_ids.tolist() == expected
    assert chosen.query_ids[chosen.query_of_row].tolist() == qid[expected].tolist()
    turned = q[np.flatnonzero(keep)[::-1]]
    if keep.sum() > 1:
        assert turned.order is None
    assert turned.query_ids[turned.query_of_row].tolist() == np.asarray(qid)[turned.document_ids].tolist()


def test_grouped_rows_stay_where_they_are() -> None:
    X = np.arange(6.0).reshape(3, 2)
    q = Queries.from_arrays(X, [0, 1, 2], qid=["b", "b", "a"])
    assert q.order is None
    assert q.X is X
    assert q.grouped is q


@pytest.mark.parametrize("qid", [[1, 1, 2], [1, 2, 1]])
def test_queries_are_freed_as_soon_as_nobody_needs_them(qid: list[int]) -> None:
    gc.disable()
    try:
        queries = Queries.from_arrays(np.zeros((3, 1)), qid=qid)
        assert queries.grouped.grouped.n_documents == 3
        alive = [weakref.ref(one) for one in (queries, queries.grouped, queries.X)]
        del queries
        assert [one() for one in alive] == [None, None, None]
    finally:
        gc.enable()


def test_rows_of_sparse_features_are_grouped() -> None:
    q = Queries.from_arrays(sp.csr_array(np.diag([1.0, 2.0, 3.0])), [0, 1, 2], qid=[5, 4, 5])
    np.testing.assert_array_equal(q.dense(), np.diag([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(q.grouped.dense(), [[1, 0, 0], [0, 0, 3], [0, 2, 0]])


@given(st.lists(st.integers(0, 4), max_size=8))
def test_group_sizes_are_the_lengths(sizes: list[int]) -> None:
    n = sum(sizes)
    q = Queries.from_arrays(np.zeros((n, 1)), np.zeros(n), group=np.array(sizes, dtype=np.int32))
    assert q.lengths.tolist() == sizes
    assert q.query_ids.tolist() == list(range(len(sizes)))
    assert q.order is None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_group_and_qid_say_the_same(sizes: list[int]) -> None:
    n = sum(sizes)
    X, y = np.random.default_rng(n).random((n, 2)), np.arange(n)
    by_size = Queries.from_arrays(X, y, group=sizes)
    by_id = Queries.from_arrays(X, y, qid=np.repeat(np.arange(len(sizes)), sizes))
    assert_equal(by_size, by_id)


@pytest.mark.parametrize(
    ("qid", "ids"),
    [
        ([3.0, 1.0, 3.0], [3, 1]),
        ([0.5, 1.5, 0.5], [0.5, 1.5]),
        (np.array(["x", "y", "x"], dtype=object), ["x", "y"]),
        (np.array([7, 8, 7], dtype=object), ["7", "8"]),
        (np.array([True, False, True]), [True, False]),
        (np.array([2**63 + 1, 0, 2**63 + 1], dtype=np.uint64), [2**63 + 1, 0]),
        (np.array(["nan", "x", "nan"], dtype=object), ["nan", "x"]),
    ],
    ids=["whole floats", "other floats", "objects", "whole objects", "booleans", "large", "a query called nan"],
)
def test_query_ids_of_any_kind(qid: Any, ids: list[Any]) -> None:
    q = numbered(qid)
    assert q.query_ids.tolist() == ids
    assert q.lengths.tolist() == [2, 1]


def test_no_documents_at_all() -> None:
    for kind in ({"qid": []}, {"group": []}):
        q = Queries.from_arrays(np.zeros((0, 3)), [], **kind)
        assert (len(q), q.n_documents, q.n_features) == (0, 0, 3)
        assert repr(q) == "Queries(0 queries, 0 documents, 3 features)"
        assert list(q) == []


# --- the classic mistakes, and other refusals

X3 = np.zeros((3, 2))
Y3 = np.zeros(3)

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "neither qid nor group": (
        {},
        "pass either qid (the query of each row) or group (the number of rows of each query)",
    ),
    "both qid and group": (
        {"qid": [1, 1, 2], "group": [2, 1]},
        "pass either qid (the query of each row) or group (the number of rows of each query)",
    ),
    "qid as group": (
        {"group": [7, 7, 9]},
        "group has 3 entries, one per row: that looks like a query id per row; pass it as qid= "
        "(group takes the number of rows of each query, and sums to the number of rows)",
    ),
    "text qid as group": (
        {"group": ["a", "a", "b"]},
        "group has one entry per row: that is a query id per row; pass it as qid=",
    ),
    "group as qid": (
        {"qid": [2, 1]},
        "qid has 2 entries that sum to the number of rows: those look like group sizes; pass them as group=",
    ),
    "group sums to less": ({"group": [1, 1]}, "group sums to 2 but there are 3 rows; it must count every row once"),
    "group sums to more": (
        {"group": [2000, 1]},
        "group sums to 2,001 but there are 3 rows; it must count every row once",
    ),
    "negative group": ({"group": [4, -1]}, "group[1] is -1; a query cannot have fewer than 0 rows"),
    "fractional group": ({"group": [1.5, 1.5]}, "group must be a list of whole numbers, the rows of each query"),
    "one number as group": ({"group": 3}, "group must be a list of whole numbers, the rows of each query"),
    "table as group": ({"group": [[1, 2]]}, "group must be a list of whole numbers, the rows of each query"),
    "short qid": ({"qid": [5, 5]}, "qid has shape (2,) for 3 rows; it needs one query id per row"),
    "table as qid": ({"qid": [[1], [1], [2]]}, "qid has shape (3, 1) for 3 rows; it needs one query id per row"),
    "one number as qid": ({"qid": 1}, "qid has shape () for 3 rows; it needs one query id per row"),
    "NaN qid": ({"qid": [1.0, np.nan, 2.0]}, "qid[1] is not a number; every row needs a query id"),
    "no qid for a row": (
        {"qid": np.array(["a", "b", None], dtype=object)},
        "qid[2] is missing; every row needs a query id",
    ),
    "y too short": ({"y": [1, 2], "group": [3]}, "y has 2 entries for 3 rows of X; it needs one per row of X"),
    "y a number": ({"y": 1.0, "group": [3]}, "y has 0 dimensions, not 1; give one grade per document"),
    "y a table": ({"y": [[1], [2], [3]], "group": [3]}, "y has 2 dimensions, not 1; give one grade per document"),
    "infinite grade": (
        {"y": [0, 1, np.inf], "group": [3]},
        "y[2] is inf; grades must be finite; NaN, -1 and an empty cell mean unjudged",
    ),
    "negative grade": (
        {"y": [0, -2, 1], "group": [3]},
        "y[1] is -2; grades must not be negative, and only -1 means unjudged; shift them: y - y.min()",
    ),
    "X a list": ({"X": [1.0, 2.0, 3.0], "group": [3]}, "X has 1 dimensions, not 2 (documents × features)"),
    "NaN feature": (
        {"X": [[0.0, 1.0], [0.0, np.nan], [0.0, 0.0]], "group": [3]},
        "X[1, 1] is NaN; fill it, or pass allow_nan=True to keep it as missing",
    ),
    "NaN feature in a row that moves": (
        {"X": [[0.0], [np.nan], [0.0]], "qid": [1, 2, 1]},
        "X[1, 0] is NaN; fill it, or pass allow_nan=True to keep it as missing",
    ),
    "infinite feature": ({"X": [[0.0], [0.0], [-np.inf]], "group": [3]}, "X[2, 0] is -inf; replace it"),
    "infinite feature among missing ones": (
        {"X": [[np.nan], [0.0], [np.inf]], "group": [3], "allow_nan": True},
        "X[2, 0] is inf; replace it",
    ),
    "NaN in sparse features": (
        {"X": sp.csr_array([[0.0, 1.0], [0.0, np.nan], [0.0, 0.0]]), "group": [3]},
        "X[1, 1] is NaN; fill it, or pass allow_nan=True to keep it as missing",
    ),
    "NaN in sparse features of a row that moves": (
        {"X": sp.csr_array([[0.0, 1.0], [np.nan, 0.0], [0.0, 3.0]]), "qid": [1, 2, 1]},
        "X[1, 0] is NaN; fill it, or pass allow_nan=True to keep it as missing",
    ),
    "sizes that wrap around": (
        {"group": np.array([2**63, 2**63, 3, 0], dtype=np.uint64)},
        "group sums to 18,446,744,073,709,551,619 but there are 3 rows; it must count every row once",
    ),
    "a document id of nothing": (
        {"group": [3], "document_ids": ["a", None, "c"]},
        "document_ids[1] is missing; give every row one, or leave out document_ids",
    ),
    "weights of words": (
        {"group": [3], "query_weights": ["a"]},
        "query_weights holds 'a', which is not a number; give one number per query",
    ),
    "sparse list": (
        {"X": sp.coo_array(np.ones(3)), "group": [3]},
        "X has 1 dimensions, not 2 (documents × features)",
    ),
    "too few document ids": (
        {"group": [3], "document_ids": ["a"]},
        "document_ids has 1 entries for 3 rows of X; it needs one per row of X",
    ),
    "too many document groups": (
        {"group": [3], "document_groups": [1, 2, 3, 4]},
        "document_groups has 4 entries for 3 rows of X; it needs one per row of X",
    ),
    "weights per document": (
        {"group": [2, 1], "query_weights": [1, 1, 1]},
        "query_weights has 3 entries for 2 queries; it needs one per query",
    ),
    "negative weight": (
        {"group": [2, 1], "query_weights": [1, -2]},
        "query_weights[1] is -2; weights are finite and not negative",
    ),
    "NaN weight": (
        {"group": [2, 1], "query_weights": [np.nan, 1]},
        "query_weights[0] is nan; weights are finite and not negative",
    ),
    "no weight at all": (
        {"group": [2, 1], "query_weights": [0, 0]},
        "all query_weights are zero; give at least one query a positive weight",
    ),
    "too few names": ({"group": [3], "feature_names": ["a"]}, "1 feature_names for 2 features; give one for each"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_the_way_out(case: str) -> None:
    arguments, message = REFUSED[case]
    with pytest.raises(DataError) as refused:
        Queries.from_arrays(**{"X": X3, "y": Y3, **arguments})
    assert str(refused.value) == message


@pytest.mark.parametrize(("name", "value"), [("X", [["a"], ["b"], ["c"]]), ("y", ["a", "b", "c"])])
def test_words_instead_of_numbers_are_refused(name: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"^{name} holds '.*', which is not a number; "):
        Queries.from_arrays(**{"X": X3, "y": Y3, "group": [3], name: value})


@given(hnp.arrays(np.float64, (7, 3), elements=st.sampled_from([0.0, 1.0, np.nan, np.inf])), st.booleans())
def test_exactly_the_finite_features_are_accepted(X: np.ndarray, allow_nan: bool) -> None:
    fine = not np.isinf(X).any() and (allow_nan or not np.isnan(X).any())
    try:
        q = Queries.from_arrays(X, np.zeros(7), group=[3, 4], allow_nan=allow_nan)
    except DataError:
        assert not fine
    else:
        assert fine
        np.testing.assert_array_equal(q.X, X)


def test_a_bad_feature_far_down_is_found() -> None:
    """The check goes in blocks; this one is beyond the first."""
    X = np.zeros((700_000, 2), dtype=np.float32)
    X[600_001, 1] = np.nan
    with pytest.raises(DataError, match=r"^X\[600001, 1\] is NaN"):
        Queries.from_arrays(X, np.zeros(len(X)), group=[len(X)])


# --- grades, weights, groups


def test_grades_are_whole_real_and_huge() -> None:
    q = Queries.from_arrays(np.zeros((4, 1)), [0, 0.5, 1_000_000, 3], qid=[1, 1, 1, 1])
    assert q.grades.tolist() == [0.0, 0.5, 1e6, 3.0]
    assert q.grades.dtype == np.float64
    assert repr(q) == "Queries(1 query, 4 documents, 1 feature, grades 0..1e+06)"


def test_weights_follow_the_order_of_first_appearance() -> None:
    q = numbered(["b", "a", "b"], query_weights=[0.0, 2.5])
    assert dict(zip(q.query_ids.tolist(), q.query_weights.tolist(), strict=True)) == {"b": 0.0, "a": 2.5}


def test_document_groups_and_ids_follow_their_rows() -> None:
    q = Queries.from_arrays(np.zeros((3, 1)), [0, 1, 2], qid=[1, 2, 1], document_groups=["x", "y", "z"])
    assert q.document_groups.tolist() == ["x", "y", "z"]
    assert q.grouped.document_groups.tolist() == ["x", "z", "y"]


def test_document_weights_follow_their_rows() -> None:
    q = Queries.from_arrays(np.ones((3, 1)), [0, 1, 2], qid=[2, 1, 2], document_weights=[0.5, 2.0, 4.0])
    assert q.grouped.document_weights.tolist() == [0.5, 4.0, 2.0]
    assert in_canonical_order(q).document_weights.tolist() == [2.0, 0.5, 4.0]
    other = Queries.from_arrays(np.zeros((1, 1)), [1], qid=[3])
    mixed = Queries.concatenate([q[1], other])
    np.testing.assert_array_equal(mixed.document_weights, [2.0, np.nan])
    assert check_queries(mixed) is mixed
    torn = replace(q, document_weights=np.array([0.5, 2.0, np.nan]))
    with pytest.raises(DataError, match="some documents of query 2 have no weight; give weights to all of them"):
        check_queries(torn)
    assert fingerprint(q) != fingerprint(replace(q, document_weights=None))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_document_weights_are_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(DataError, match=r"document_weights\[1\] is .*; weights are finite and not negative"):
        Queries.from_arrays(np.zeros((2, 1)), [0, 1], group=[2], document_weights=[1.0, bad])
    with pytest.raises(DataError, match=r"row 1 of column 'document_weight' .*; weights are finite and not negative"):
        from_frame(pd.DataFrame({"qid": [1, 1], "a": [0.0, 1.0], "document_weight": [1.0, bad]}))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".queries"])
def test_document_weights_are_written_and_read(tmp_path: Path, suffix: str) -> None:
    columns = {"qid": ["b", "a", "b"], "grade": [1, 0, 2], "bm25": [0.5, 1.5, 2.0], "document_weight": [2.5, 0.0, 4.0]}
    queries = from_frame(pd.DataFrame(columns, index=[7, 5, 9]))
    assert queries.feature_names == ("bm25",)
    path = tmp_path / f"weighted{suffix}"
    write_queries(path, queries)
    found = read(path)
    assert isinstance(found, Queries)
    assert found.feature_names == ("bm25",)
    assert found.document_weights is not None
    assert found.document_weights.tolist() == [2.5, 0.0, 4.0]


# --- features are kept as they are


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_features_are_not_copied(dtype: type) -> None:
    X = np.zeros((3, 2), dtype=dtype)
    assert Queries.from_arrays(X, Y3, group=[3]).X is X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_features_are_not_copied(dtype: type) -> None:
    X = sp.csr_array(np.eye(3, dtype=dtype))
    q = Queries.from_arrays(X, Y3, group=[3])
    assert q.is_sparse
    assert q.X.dtype == dtype
    assert np.shares_memory(q.X.data, X.data)
    assert np.shares_memory(q.X.indices, X.indices)
    assert repr(q) == "Queries(1 query, 3 documents, 3 features, grades 0..0, sparse)"


def test_memory_mapped_features_are_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    q = Queries.from_arrays(X, np.zeros(6), group=[1, 2, 3])
    assert isinstance(q.X, np.memmap)
    assert np.shares_memory(q.X, X)
    part = q[1:]
    assert isinstance(part.X, np.memmap)
    assert np.shares_memory(part.X, X)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_, np.float16, np.longdouble, ">f8", ">f4", object])
def test_other_numbers_become_float64(dtype: Any) -> None:
    X = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    q = Queries.from_arrays(X, Y3, group=[3])
    assert q.X.dtype == np.float64
    assert q.X.dtype.isnative
    np.testing.assert_array_equal(q.X, [[0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize("form", [sp.coo_array, sp.csc_array, sp.csr_matrix, sp.lil_array])
def test_other_sparse_forms_become_csr(form: Any) -> None:
    q = Queries.from_arrays(form(np.array([[0, 1], [2, 0], [0, 0]])), Y3, group=[3])
    assert isinstance(q.X, sp.csr_array)
    assert q.X.dtype == np.float64
    np.testing.assert_array_equal(q.dense(), [[0, 1], [2, 0], [0, 0]])


def test_sparse_columns_are_sorted() -> None:
    unsorted = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    q = Queries.from_arrays(unsorted, [0], group=[1])
    assert q.X.indices.tolist() == [0, 1]
    assert q.X.data.tolist() == [2.0, 1.0]


def test_a_sparse_column_stands_once_in_a_row() -> None:
    """SciPy adds values that are stored twice; whatever walks the stored values must see their sum."""
    twice = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    q = Queries.from_arrays(twice, [0], group=[1])
    assert q.X.indices.tolist() == [1]
    assert q.X.data.tolist() == [3.0]


@pytest.mark.parametrize("columns", [[1, 0], [1, 1]], ids=["unsorted", "repeated"])
def test_the_callers_sparse_features_stay_as_they_are(columns: list[int]) -> None:
    X = sp.csr_array((np.array([1.0, 2.0]), np.array(columns), np.array([0, 2])), shape=(1, 2))
    Queries.from_arrays(X, [0], group=[1])
    assert (X.data.tolist(), X.indices.tolist(), X.indptr.tolist()) == ([1.0, 2.0], columns, [0, 2])


def test_fortran_order_becomes_c_order() -> None:
    X = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    q = Queries.from_arrays(X, Y3, group=[3])
    assert q.X.flags.c_contiguous
    np.testing.assert_array_equal(q.X, X)


def test_every_second_column_becomes_c_order() -> None:
    X = np.arange(12.0).reshape(3, 4)
    q = Queries.from_arrays(X[:, ::2], Y3, group=[3])
    assert q.X.flags.c_contiguous
    np.testing.assert_array_equal(q.X, X[:, ::2])


def test_nan_is_kept_where_it_is_allowed() -> None:
    q = Queries.from_arrays([[np.nan]], [0], group=[1], allow_nan=True)
    assert np.isnan(q.X).all()


# --- selecting

SELECTORS: dict[str, tuple[Any, list[int]]] = {
    "position": (2, [2]),
    "position from the end": (-1, [3]),
    "numpy position": (np.int64(1), [1]),
    "slice": (slice(1, 3), [1, 2]),
    "all": (slice(None), [0, 1, 2, 3]),
    "step": (slice(None, None, 2), [0, 2]),
    "backwards": (slice(None, None, -1), [3, 2, 1, 0]),
    "mask": (np.array([True, False, False, True]), [0, 3]),
    "mask of neighbors": (np.array([False, True, True, False]), [1, 2]),
    "positions": ([3, 0], [3, 0]),
    "array": (np.array([1, 2]), [1, 2]),
    "repeated": ([1, 1], [1, 1]),
    "no position": ([], []),
    "empty slice": (slice(2, 2), []),
    "empty mask": (np.zeros(4, dtype=bool), []),
}


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", SELECTORS)
def test_selection_takes_whole_queries_in_the_order_asked_for(case: str, sparse: bool) -> None:
    selector, chosen = SELECTORS[case]
    q = some_queries()
    q = q.with_features(sp.csr_array(q.X), q.feature_names) if sparse else q
    part = q[selector]
    rows = [row for k in chosen for row in range(q.offsets[k], q.offsets[k + 1])]
    assert part.is_sparse == sparse
    assert part.query_ids.tolist() == [f"q{k}" for k in chosen]
    assert part.lengths.tolist() == [q.lengths[k] for k in chosen]
    assert part.query_weights.tolist() == [k + 1 for k in chosen]
    assert part.document_ids.tolist() == [f"d{row}" for row in rows]
    assert part.document_groups.tolist() == [row // 2 for row in rows]
    assert part.grades.tolist() == [row % 3 for row in rows]
    assert part.feature_names == ("one", "two")
    np.testing.assert_array_equal(part.dense(), q.dense()[rows])


@pytest.mark.parametrize("case", ["position", "slice", "all", "mask of neighbors", "array"])
def test_consecutive_queries_share_memory(case: str) -> None:
    q = some_queries()
    part = q[SELECTORS[case][0]]
    for name in ("X", "grades", "document_ids", "document_groups"):
        assert np.shares_memory(getattr(part, name), getattr(q, name)), name


@pytest.mark.parametrize("selector", [4, -5, [0, 9], np.ones(3, dtype=bool)])
def test_a_selection_outside_is_an_index_error(selector: Any) -> None:
    with pytest.raises(IndexError):
        some_queries()[selector]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_selecting_with_empty_queries_among_them(sizes: list[int], data: st.DataObject) -> None:
    n = sum(sizes)
    q = Queries.from_arrays(np.arange(n)[:, None], np.zeros(n), group=sizes)
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=6))
    expected = [row for k in chosen for row in range(q.offsets[k], q.offsets[k + 1])]
    assert q[chosen].X[:, 0].tolist() == expected


def test_a_selection_has_its_own_order() -> None:
    part = numbered([1, 2, 1, 2])[1:]
    np.testing.assert_array_equal(part.document_ids, [1, 3])


def test_iterating_gives_each_query() -> None:
    q = some_queries()
    singles = list(q)
    assert [single.query_ids.tolist() for single in singles] == [["q0"], ["q1"], ["q2"], ["q3"]]
    for k in range(len(q)):
        assert_equal(singles[k], q[k : k + 1])


def test_select_by_id() -> None:
    q = some_queries()
    assert q.select(["q3", "q0"]).query_ids.tolist() == ["q3", "q0"]
    assert q.select(np.array(["q1"])).query_ids.tolist() == ["q1"]
    assert len(q.select([])) == 0
    with pytest.raises(KeyError, match=r"no query 'zz' among 4 queries \(first: \['q0', 'q1', 'q2'\]\)"):
        q.select(["q1", "zz"])


# --- splitting and joining


@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.none() | st.integers(0, 99),
)
def test_split_deals_every_query_to_exactly_one_part(sizes: list[int], shares: list[int], seed: int | None) -> None:
    n = sum(sizes)
    q = Queries.from_arrays(np.arange(n)[:, None], np.zeros(n), group=np.array(sizes, dtype=int))
    parts = q.split(*(share / sum(shares) for share in shares), random_state=seed)
    assert len(parts) == len(shares)
    assert sorted(np.concatenate([part.query_ids for part in parts]).tolist()) == q.query_ids.tolist()
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - len(q) * share / sum(shares)) <= 1
        assert_equal(part, q.select(part.query_ids))
    if seed is None:
        assert np.concatenate([part.query_ids for part in parts]).tolist() == q.query_ids.tolist()


def test_split_at_random_repeats_and_shuffles() -> None:
    q = Queries.from_arrays(np.zeros((100, 1)), np.zeros(100), qid=range(100))
    first, again, other = (q.split(0.5, 0.5, random_state=seed)[0].query_ids.tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first != list(range(50))


@pytest.mark.parametrize("shares", [(), (0.5,), (0.5, 0.6), (1.5, -0.5), (1.0, 0.0)])
def test_shares_that_do_not_add_up_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="shares must be positive and sum to 1, not"):
        some_queries().split(*shares)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.data())
def test_concatenate_undoes_cutting(sparse: bool, sizes: list[int], data: st.DataObject) -> None:
    whole = some_queries(tuple(sizes))
    if sparse:
        whole = whole.with_features(sp.csr_array(whole.X), whole.feature_names)
    at = data.draw(st.integers(0, len(sizes)))
    assert_equal(Queries.concatenate([whole[:at], whole[at:]]), whole)


def test_concatenate_of_one_is_that_one() -> None:
    q = some_queries()
    assert Queries.concatenate(iter([q])) is q


@pytest.mark.parametrize(
    "change", [lambda q: q.with_features(q.X * 2), Queries.without_features], ids=["scaled", "without"]
)
def test_concatenate_keeps_the_keys_of_documents(change: Callable[[Queries], Queries]) -> None:
    a, b = (Queries.from_arrays([[1.0], [2.0 + k]], [0, 1], qid=[k, k]) for k in range(2))
    expected = Queries.concatenate([a, b]).document_keys.tolist()
    assert Queries.concatenate([change(a), change(b)]).document_keys.tolist() == expected
    assert Queries.concatenate([a, b]).keys is None


def test_concatenate_weighs_one_where_no_weight_is_given() -> None:
    a = Queries.from_arrays([[0.0]], [0], qid=[1], query_weights=[3])
    b = Queries.from_arrays([[0.0]], [0], qid=[2])
    assert Queries.concatenate([a, b]).query_weights.tolist() == [3, 1]


def test_concatenate_keeps_both_precisions_and_forms() -> None:
    single = Queries.from_arrays(np.ones((1, 2), dtype=np.float32), [0], qid=[1])
    double = Queries.from_arrays(np.full((1, 2), 0.1), [0], qid=[2])
    sparse = Queries.from_arrays(sp.csr_array(np.full((1, 2), 0.2)), [0], qid=[3])
    dense = Queries.concatenate([single, double])
    assert dense.X.dtype == np.float64
    np.testing.assert_array_equal(dense.X, [[1, 1], [0.1, 0.1]])
    mixed = Queries.concatenate([single, double, sparse])
    assert mixed.is_sparse
    np.testing.assert_array_equal(mixed.dense(), [[1, 1], [0.1, 0.1], [0.2, 0.2]])


def one(qid: int = 2, width: int = 1, **options: Any) -> Queries:
    return Queries.from_arrays(np.zeros((1, width)), [0], qid=[qid], **options)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "nothing to concatenate: the list of query sets is empty"),
        ([one(1), one(1)], "query 1 is in more than one part; give queries distinct ids"),
        ([one(1), one(2, 3)], "one part has 1 features, another 3; they must have the same columns"),
        (
            [one(1, feature_names=["a"]), one(2, feature_names=["b"])],
            "the parts have different feature_names; rename or reorder the columns",
        ),
        (
            [one(1, document_ids=["a"]), one(2)],
            "some parts have document_ids and some have none; give them to all or to none",
        ),
        (
            [one(1), one(2, document_groups=["a"])],
            "some parts have document_groups and some have none; give them to all or to none",
        ),
    ],
    ids=["none", "same query", "widths", "names", "ids", "groups"],
)
def test_parts_that_do_not_fit_are_refused(parts: list[Queries], message: str) -> None:
    with pytest.raises(DataError) as refused:
        Queries.concatenate(parts)
    assert str(refused.value) == message


def test_other_features_row_for_row() -> None:
    q = some_queries()
    other = q.with_features(np.ones((10, 3)), ["a", "b", "c"])
    assert (other.n_features, other.feature_names) == (3, ("a", "b", "c"))
    assert other.grades is q.grades
    with pytest.raises(DataError, match=r"^X has 9 entries for 10 documents; it needs one per document$"):
        q.with_features(np.ones((9, 3)))


def test_repr_counts_with_separators() -> None:
    q = Queries.from_arrays(np.zeros((1200, 1)), np.zeros(1200), qid=range(1200))
    assert repr(q) == "Queries(1,200 queries, 1,200 documents, 1 feature, grades 0..0)"


# --- crossing process borders


def test_queries_survive_pickling() -> None:
    q = numbered([1, 2, 1])
    again = pickle.loads(pickle.dumps(q))
    assert_equal(again, q)
    np.testing.assert_array_equal(again.order, q.order)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({}, "it is wrong"),
        ({"path": Path("a.txt")}, "a.txt: it is wrong"),
        ({"path": "a.txt", "line": 3}, "a.txt:3: it is wrong"),
        ({"path": "a.txt", "line": 3, "column": 9}, "a.txt:3:9: it is wrong"),
    ],
)
@pytest.mark.parametrize("copied", [lambda e: e, lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_errors_keep_their_place_when_copied_and_pickled(place: dict[str, Any], text: str, copied: Any) -> None:
    error = copied(DataError("it is wrong", **place))
    assert isinstance(error, DataError)
    assert isinstance(error, ValueError)
    assert str(error) == text
    path = place.get("path")
    expected = ("it is wrong", path and str(path), place.get("line"), place.get("column"))
    assert (error.problem, error.path, error.line, error.column) == expected


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array], ids=["C", "F", "CSR"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("value", "shown"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_the_first_bad_value_of_many_blocks_is_named(layout, dtype, value, shown, monkeypatch):
    monkeypatch.setattr("marginrank.runtime.mapped_arrays.BLOCK_BYTES", 64)
    X = np.ones((40, 3), dtype=dtype)
    # Sums of finite values may be infinite.
    X[5] = np.finfo(dtype).max
    Queries.from_arrays(layout(X), group=[40])
    X[[29, 33, 38], [1, 0, 2]] = value, np.nan, np.inf
    with pytest.raises(DataError, match=rf"X\[29, 1\] is {shown}; "):
        Queries.from_arrays(layout(X), group=[40])
    X[29, 1] = np.nan
    with pytest.raises(DataError, match=r"X\[38, 2\] is inf; replace it"):
        Queries.from_arrays(layout(X), group=[40], allow_nan=True)
