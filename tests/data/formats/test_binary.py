"""The binary form and NumPy archives."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open

from marginrank.data.formats.binary import QUERY_SETS, read_binary, read_npz, verify_binary, write_binary
from marginrank.data.frames import from_frame
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.model.file_format import write_model
from marginrank.runtime.array_file import read_array_file, write_array_file

COLUMNS = ("grades", "offsets", "query_ids", "document_ids", "query_weights", "document_groups")


def some_queries(sparse: bool = False, dtype: type = np.float32) -> Queries:
    X = np.array([[0.5, 0, 1], [0, 0, 0], [2, -1, 0], [0, 4, 0]], dtype=dtype)
    return Queries.from_arrays(
        sp.csr_array(X) if sparse else X,
        [0, 1, 0.5, 1e6],
        qid=["é", "é", "b", "b"],
        document_ids=["d1", "d2", "漢", "d4"],
        query_weights=[1, 2.5],
        document_groups=[1, 1, 2, 2],
        feature_names=["bm25", "tf·idf", "x"],
    )


def assert_equal(found: Queries, expected: Queries) -> None:
    assert found.is_sparse == expected.is_sparse
    assert found.X.dtype == expected.X.dtype
    assert found.X.shape == expected.X.shape
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.dense(), expected.dense())
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def is_mapped(array: Any) -> bool:
    """Whether an array, or one that it is a view of, lies in a file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_binary(tmp_path / "set.queries", some_queries())
    return tmp_path / "set.queries"


# --- round trip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_everything_comes_back(tmp_path: Path, sparse: bool, dtype: type) -> None:
    q = some_queries(sparse, dtype)
    write_binary(str(tmp_path / "set.queries"), q)
    assert_equal(read_binary(str(tmp_path / "set.queries")), q)


def test_what_is_not_there_comes_back_as_nothing(tmp_path: Path) -> None:
    write_binary(tmp_path / "set.queries", Queries.from_arrays([[1.0], [np.nan]], [0, 1], group=[1, 1], allow_nan=True))
    q = read_binary(tmp_path / "set.queries")
    assert (q.document_ids, q.query_weights, q.document_groups, q.feature_names, q.order) == (None,) * 5
    np.testing.assert_array_equal(q.X, [[1], [np.nan]])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.data(), sizes=st.lists(st.integers(0, 3), max_size=5), width=st.integers(0, 3), sparse=st.booleans())
def test_any_sizes_come_back_bit_for_bit(
    tmp_path: Path, data: st.DataObject, sizes: list[int], width: int, sparse: bool
) -> None:
    n = sum(sizes)
    X = data.draw(hnp.arrays(np.float64, (n, width), elements=st.floats(allow_infinity=False)))
    q = Queries.from_arrays(
        sp.csr_array(X) if sparse else X, np.arange(n), group=np.array(sizes, dtype=np.int64), allow_nan=True
    )
    write_binary(tmp_path / "set.queries", q)
    again = read_binary(tmp_path / "set.queries")
    assert_equal(again, q)
    if not sparse:
        np.testing.assert_array_equal(np.signbit(again.X), np.signbit(q.X))


def test_labels_of_a_frame_come_back(tmp_path: Path) -> None:
    """Frames hand out text as Python objects; those must be stored too."""
    frame = pd.DataFrame({"qid": ["a", "a"], "y": [0, 1], "f": [0.5, 1.0], "host": ["x", "y"], "docid": ["p", "q"]})
    q = from_frame(frame, document_group="host")
    write_binary(tmp_path / "set.queries", q)
    assert read_binary(tmp_path / "set.queries").document_groups.tolist() == ["x", "y"]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_features_stay_on_disk(tmp_path: Path, sparse: bool) -> None:
    write_binary(tmp_path / "set.queries", some_queries(sparse))
    q = read_binary(tmp_path / "set.queries")
    for array in (q.X.data, q.X.indices) if sparse else (q.X, q[0].X, q.grades):
        assert is_mapped(array)
        assert not array.flags.writeable


def test_a_set_can_be_written_over_itself(saved: Path) -> None:
    q = read_binary(saved)
    write_binary(saved, q)
    assert_equal(read_binary(saved), some_queries())


def test_a_set_is_replaced_and_nothing_else_is_left(saved: Path) -> None:
    other = Queries.from_arrays([[1.0]], [0], qid=[1])
    write_binary(saved, other)
    assert_equal(read_binary(saved), other)
    assert [path.name for path in saved.parent.iterdir()] == ["set.queries"]


def test_a_set_that_is_open_stays_what_it_was(saved: Path) -> None:
    """A reader maps one file, so it cannot mix the arrays of two."""
    q = read_binary(saved)
    write_binary(saved, Queries.from_arrays([[1.0]], [0], qid=[1]))
    assert_equal(q, some_queries())


def test_a_link_to_a_set_stays_a_link(saved: Path) -> None:
    link = saved.with_name("link.queries")
    link.symlink_to(saved)
    other = Queries.from_arrays([[1.0]], [0], qid=[1])
    write_binary(link, other)
    assert link.is_symlink()
    assert_equal(read_binary(saved), other)


def test_folders_above_are_made(tmp_path: Path) -> None:
    write_binary(tmp_path / "a" / "b" / "set.queries", some_queries())
    assert_equal(read_binary(tmp_path / "a" / "b" / "set.queries"), some_queries())


@pytest.mark.parametrize("words", [["a", "é\udce9", ""], ["x" * 2000, "\udcff", "漢" * 3]], ids=["short", "long"])
def test_ids_come_back_whatever_they_hold(tmp_path: Path, words: list[str]) -> None:
    q = Queries.from_arrays(np.ones((3, 1)), [0, 1, 2], qid=words, document_ids=words, document_groups=words)
    write_binary(tmp_path / "set.queries", q)
    again = read_binary(tmp_path / "set.queries")
    assert again.query_ids.tolist() == again.document_ids.tolist() == again.document_groups.tolist() == words


@pytest.mark.parametrize("labels", [[1, 2], [True, False], [0.5, 1.5], np.array([3, 4], dtype=np.uint8)])
def test_labels_that_are_numbers_come_back_as_numbers(tmp_path: Path, labels: Any) -> None:
    q = Queries.from_arrays([[0.0], [1.0]], [0, 1], group=[2], document_groups=labels)
    write_binary(tmp_path / "set.queries", q)
    again = read_binary(tmp_path / "set.queries")
    assert again.document_groups.dtype == np.asarray(labels).dtype
    assert again.document_groups.tolist() == list(labels)


def test_other_tools_read_the_file(saved: Path) -> None:
    with safe_open(saved, "numpy") as file:
        document = json.loads(file.metadata()["marginrank-queries"])
        np.testing.assert_array_equal(file.get_tensor("X"), some_queries().X)
    assert document["kind"] == "queries"
    assert document["header"]["documents"] == 4
    digest = hashlib.sha256(b"<f8 (2,) " + np.array([1, 2.5]).tobytes()).hexdigest()
    assert document["arrays"]["query_weights"] == {"dtype": "float64", "shape": [2], "digest": digest}


# --- interrupted and refused writes


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_an_interrupted_write_leaves_the_old_set_in_place(
    saved: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync", fail) if where == "fsync" else (Path, "replace", fail)))
        with pytest.raises(type(error)):
            write_binary(saved, Queries.from_arrays([[1.0]], [0], qid=[1]))
    assert [path.name for path in saved.parent.iterdir()] == ["set.queries"]
    assert_equal(read_binary(saved), some_queries())


def test_a_set_is_not_replaced_where_that_is_not_wanted(saved: Path) -> None:
    with pytest.raises(FileExistsError):
        write_binary(saved, Queries.from_arrays([[1.0]], [0], qid=[1]), overwrite=False)
    assert_equal(read_binary(saved), some_queries())


# --- damage: arrays that a program may have written, under digests that are right


def rewrite(path: Path, kind: str = "queries", header: dict[str, Any] | None = None, **arrays: Any) -> None:
    """Write a set again with other arrays (None takes one away) and entries of the header."""
    content = read_array_file(path, QUERY_SETS)
    changed = {**content.arrays, **{name.replace("__", "."): array for name, array in arrays.items()}}
    kept = {name: np.array(array) for name, array in changed.items() if array is not None}
    write_array_file(path, QUERY_SETS, kind, {**content.header, **(header or {})}, kept)


NAN, INF = float("nan"), float("inf")
DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "infinite grade": ({"grades": [0, 1, INF, 1]}, "grades[2] is inf"),
    "negative grade": ({"grades": [0, -1.0, 0, 1]}, "grades[1] is -1"),
    "whole grades": ({"grades": [0, 1, 0, 1]}, "grades are int64, not float64"),
    "too few grades": ({"grades": [1.0]}, "grades have the shape (1,), not (4,)"),
    "grades in a table": ({"grades": np.zeros((4, 1))}, "grades have the shape (4, 1)"),
    "no grades": ({"grades": None}, "no array 'grades'"),
    "negative weight": ({"query_weights": [1, -2.0]}, "query_weights[1] is -2"),
    "NaN weight": ({"query_weights": [NAN, 1]}, "query_weights[0] is nan"),
    "too few weights": ({"query_weights": [1.0]}, "query_weights have the shape (1,)"),
    "offsets end early": ({"offsets": [0, 2, 3]}, "offsets must increase"),
    "offsets start late": ({"offsets": [1, 2, 4]}, "offsets must increase"),
    "no offsets": ({"offsets": np.zeros(0, dtype=np.int64)}, "offsets must be a list"),
    "offsets leave the rows": ({"offsets": [0, 1000, 4]}, "offsets must increase"),
    "offsets run backwards": ({"offsets": [0, -3, 4]}, "offsets must increase"),
    "fractional offsets": ({"offsets": [0, 2.5, 4]}, "offsets must be a list"),
    "too many offsets": ({"offsets": [0, 1, 2, 4]}, "4 offsets for 2 queries"),
    "too few query ids": ({"query_ids__codes": np.ones((1, 1), np.uint32)}, "3 offsets for 1 query"),
    "equal query ids": ({"query_ids__codes": np.ones((2, 1), np.uint32)}, "two queries have the same id"),
    "no query ids": ({"query_ids__codes": None}, "no array 'query_ids'"),
    "no character": (
        {"query_ids__codes": np.array([[97], [0x110000]], np.uint32)},
        "something that is not a character",
    ),
    "ids of width 0": ({"query_ids__codes": np.ones((2, 0), np.uint32)}, "query_ids are not text"),
    "ids as numbers in a table": ({"query_ids__codes": np.ones((2, 2), np.int32)}, "query_ids are not text"),
    "too few document ids": ({"document_ids__codes": np.ones((1, 1), np.uint32)}, "document_ids have the shape"),
    "too few groups": ({"document_groups": [1]}, "document_groups have the shape (1,)"),
    "a row twice in the order": ({"order": [0, 1, 1, 3]}, "the order of the rows has a row twice"),
    "order leaves the rows": ({"order": [0, 1, 2, 4]}, "the order of the rows is not made of their numbers"),
    "negative order": ({"order": [0, 1, 2, -1]}, "the order of the rows is not made of their numbers"),
    "fractional order": ({"order": [0, 1, 2, 2.5]}, "the order of the rows is not made of their numbers"),
    "unknown array": ({"extra": [1.0]}, "unknown array 'extra'"),
    "no features": ({"X": None}, "X.data"),
    "whole features": ({"X": np.ones((4, 3), dtype=np.int64)}, "X holds int64"),
    "too few rows": ({"X": np.ones((3, 3))}, "grades have the shape (4,), not (3,)"),
    "flat features": ({"X": np.ones(12)}, "X has the shape (12,)"),
    "other width": ({"header": {"features": 7}}, "3 features, but the header says 7"),
    "other count": ({"header": {"documents": 5}}, "4 documents, but the header says 5"),
    "width no number": ({"header": {"features": "3"}}, "'features' is not a number"),
    "names no list": ({"header": {"feature_names": 5}}, "'feature_names' is not a list"),
    "names no text": ({"header": {"feature_names": [1, 2, 3]}}, "3 feature_names"),
    "too few names": ({"header": {"feature_names": ["a"]}}, "1 feature_names for 3 features"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_no_set_may_hold_is_named_with_the_way_out(saved: Path, case: str) -> None:
    changes, problem = DAMAGE[case]
    rewrite(saved, **changes)
    with pytest.raises(DataError) as refused:
        read_binary(saved)
    assert str(refused.value).startswith(f"{saved}: damaged binary query set (")
    assert problem in str(refused.value)
    assert str(refused.value).endswith("; convert the source again")


# The columns of `some_queries` are 0 2 | | 0 1 | 1.
SPARSE_DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "far beyond the width": ({"X__indices": np.array([0, 2, 0, 1, 2_000_000_000], np.int32)}, "column 2000000000"),
    "just beyond the width": ({"X__indices": np.array([0, 3, 0, 1, 1], np.int32)}, "value 1 is in column 3"),
    "negative": ({"X__indices": np.array([-1, 2, 0, 1, 1], np.int32)}, "value 0 is in column -1"),
    "unsorted": ({"X__indices": np.array([2, 0, 0, 1, 1], np.int32)}, "must increase"),
    "repeated": ({"X__indices": np.array([0, 2, 1, 1, 1], np.int32)}, "must increase"),
    "fractional": ({"X__indices": np.array([0, 2.5, 0, 1, 1])}, "whole numbers"),
    "wraps around": ({"X__indices": np.array([0, 2, 0, 1, 2**32 + 1], np.int64)}, "column 4294967297"),
    "ends late": ({"X__indptr": np.array([0, 2, 2, 4, 9], np.int32)}, ""),
    "too few rows": ({"X__indptr": np.array([0, 2, 2, 5], np.int32)}, ""),
    "runs backwards": ({"X__indptr": np.array([0, 2, -1, 4, 5], np.int32)}, ""),
    "too few columns": ({"X__indices": np.array([0, 1], np.int32)}, ""),
    "too few values": ({"X__data": np.zeros(1, np.float32)}, ""),
    "part gone": ({"X__indptr": None}, ""),
}


@pytest.mark.parametrize("case", SPARSE_DAMAGE)
def test_damaged_sparse_features_are_refused(tmp_path: Path, case: str) -> None:
    path = tmp_path / "set.queries"
    write_binary(path, some_queries(sparse=True))
    changes, problem = SPARSE_DAMAGE[case]
    rewrite(path, **changes)
    with pytest.raises(DataError) as refused:
        read_binary(path)
    assert str(refused.value).startswith(f"{path}: damaged binary query set (")
    assert problem in str(refused.value)


def test_a_csr_matrix_that_points_outside_is_refused() -> None:
    X = sp.csr_array(np.ones((2, 2)))
    X.indices[3] = 2_000_000
    with pytest.raises(DataError, match="value 3 is in column 2000000, but there are 2 features"):
        Queries.from_arrays(X, [0, 1], group=[2])


def test_long_ids_that_overlap_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.queries"
    words = ["x" * 2000, *"abc"]
    write_binary(path, Queries.from_arrays(np.ones((4, 1)), np.ones(4), qid=words))
    for ends in ([2000, 1, 2002, 2003], [2000, 2001, 2002, 9000], [-1, 2001, 2002, 2003]):
        rewrite(path, query_ids__ends=np.array(ends))
        with pytest.raises(DataError, match="the words of query_ids must follow one another"):
            read_binary(path)


# --- damage: bytes


def test_a_cut_file_is_refused_wherever_it_is_cut(saved: Path) -> None:
    for length in reversed(range(saved.stat().st_size)):
        os.truncate(saved, length)
        with pytest.raises(DataError) as refused:
            read_binary(saved)
        assert str(refused.value).startswith(f"{saved}: ")


def test_every_flipped_bit_is_found(saved: Path) -> None:
    """Reading refuses what is wrong in the header; the digests tell the rest."""
    whole, taken, named = saved.read_bytes(), [], {str(saved)}
    for at, bit in itertools.product(range(len(whole)), range(0, 8, 3)):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
        try:
            verify_binary(saved)
        except DataError as error:
            named.add(str(error.path))
        else:
            taken.append((at, bit))
    assert (taken, named) == ([], {str(saved)})


def test_a_folder_and_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a file; give the file that marginrank wrote"):
        read_binary(tmp_path)
    (tmp_path / "text").write_text("1 qid:1 1:1\n")
    with pytest.raises(DataError, match="this is text, not a marginrank binary query set"):
        read_binary(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        read_binary(tmp_path / "absent")
    write_model(tmp_path / "model", "ranker", {}, {})
    with pytest.raises(DataError, match="a safetensors file, but not a binary query set"):
        read_binary(tmp_path / "model")


# --- NumPy archives


def write_npz(path: Path, arrays: dict[str, Any]) -> Path:
    np.savez(path, **arrays)
    return path


X4 = np.array([[0.5, 0], [0, 1], [2, 0], [0, 0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("arrays", "ids"),
    [
        ({"X": X4, "y": [0, 1, 2, 3], "qid": [7, 7, 8, 8]}, [7, 8]),
        ({"X": X4, "grades": [0, 1, 2, 3], "group": [2, 2]}, [0, 1]),
        ({"X": X4, "y": [0, 1, 2, 3], "offsets": [0, 2, 4]}, [0, 1]),
        ({"X": X4, "y": [0, 1, 2, 3], "group": [2, 2], "query_ids": ["a", "b"]}, ["a", "b"]),
    ],
    ids=["qid", "group", "offsets", "names"],
)
def test_an_archive_of_arrays(tmp_path: Path, arrays: dict[str, Any], ids: list[Any]) -> None:
    q = read_npz(write_npz(tmp_path / "a.npz", arrays))
    assert q.X.dtype == np.float32
    np.testing.assert_array_equal(q.X, X4)
    assert q.grades.tolist() == [0, 1, 2, 3]
    assert q.lengths.tolist() == [2, 2]
    assert q.query_ids.tolist() == ids


def test_an_archive_with_everything(tmp_path: Path) -> None:
    arrays = {
        "X": X4,
        "y": [0, 1, 2, 3],
        "qid": [2, 1, 2, 1],
        "document_ids": ["a", "b", "c", "d"],
        "query_weights": [1, 3],
        "document_groups": [1, 2, 3, 4],
        "feature_names": ["p", "q"],
    }
    q = read_npz(write_npz(tmp_path / "a.npz", arrays))
    assert q.query_ids.tolist() == [2, 1]
    assert q.document_ids.tolist() == ["a", "b", "c", "d"]
    assert q.document_groups.tolist() == [1, 2, 3, 4]
    assert q.query_weights.tolist() == [1, 3]
    assert q.feature_names == ("p", "q")


def test_sparse_features_in_an_archive(tmp_path: Path) -> None:
    S = sp.csr_array(X4)
    arrays = {"X.data": S.data, "X.indices": S.indices, "X.indptr": S.indptr, "y": [0, 1, 2, 3], "qid": [1, 1, 1, 1]}
    q = read_npz(write_npz(tmp_path / "a.npz", arrays))
    assert q.is_sparse
    np.testing.assert_array_equal(q.dense(), X4)


NPZ_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no features": ({"y": [1], "qid": [1]}, "no array X or X.data among qid, y"),
    "no queries": ({"X": [[1.0]], "y": [1]}, "no array qid or group or offsets among X, y"),
    "nothing": ({}, "no array X or X.data among none"),
    "wrong sizes": (
        {"X": [[1.0]], "y": [1], "group": [2, 1]},
        "group sums to 3 but there are 1 rows; it must count every row once",
    ),
    "too many names": (
        {"X": [[1.0]], "y": [1], "group": [1], "query_ids": ["a", "b"]},
        "2 query_ids for 1 queries",
    ),
    "offsets start late": (
        {"X": np.zeros((4, 1)), "y": np.zeros(4), "offsets": [1, 3, 5]},
        "offsets must increase from 0 to the number of rows, 4",
    ),
    "negative grade": (
        {"X": [[1.0]], "y": [-2], "qid": [1]},
        "y[0] is -2; grades must not be negative, and only -1 means unjudged; shift them: y - y.min()",
    ),
}


@pytest.mark.parametrize("case", NPZ_REFUSED)
def test_an_archive_that_cannot_be_used(tmp_path: Path, case: str) -> None:
    arrays, message = NPZ_REFUSED[case]
    path = write_npz(tmp_path / "a.npz", arrays)
    with pytest.raises(DataError) as refused:
        read_npz(path)
    assert str(refused.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    "arrays",
    [
        {"X.data": [1.0], "y": [1], "qid": [1]},
        {"X.data": [1.0], "X.indices": [0, 1], "X.indptr": [0, 1], "y": [1], "qid": [1]},
        {"X.data": [1.0], "X.indices": [-1], "X.indptr": [0, 1], "y": [1], "qid": [1]},
        {"X.data": [1.0], "X.indices": [0], "X.indptr": [0, 5], "y": [1], "qid": [1]},
        {"X.data": ["a"], "X.indices": [0], "X.indptr": [0, 1], "y": [1], "qid": [1]},
        {"X.data": [1.0], "X.indices": [0.0], "X.indptr": [0, 1], "y": [1], "qid": [1]},
    ],
    ids=["parts gone", "too many columns", "negative column", "ends late", "words", "fractional column"],
)
def test_damaged_sparse_features_in_an_archive(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = write_npz(tmp_path / "a.npz", arrays)
    with pytest.raises(DataError) as refused:
        read_npz(path)
    assert refused.value.path == str(path)


def test_missing_values_in_an_archive_have_a_way_out_that_exists(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", {"X": [[np.nan]], "y": [1], "qid": [1]})
    with pytest.raises(DataError) as refused:
        read_npz(path)
    assert "allow_nan" not in str(refused.value) or read_npz(path, allow_nan=True).n_documents == 1


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "npy", "pickle", "flipped"])
def test_a_damaged_archive(tmp_path: Path, damage: str) -> None:
    path = write_npz(tmp_path / "a.npz", {"X": np.ones((50, 4)), "y": np.ones(50), "qid": np.ones(50, dtype=int)})
    whole = path.read_bytes()
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("1 qid:1 1:1\n")
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case "npy":
            np.save(tmp_path / "x.npy", np.ones(3))
            shutil.move(tmp_path / "x.npy", path)
        case "pickle":
            np.savez(path, X=np.array([{}, {}]), y=[1, 1], qid=[1, 1])
        case "flipped":
            path.write_bytes(whole[:300] + bytes([whole[300] ^ 0xFF]) + whole[301:])
    with pytest.raises(DataError) as refused:
        read_npz(path)
    assert str(refused.value).startswith(f"{path}: not a readable .npz file: ")
    del refused
    # A file that was left open warns now, and warnings are errors. To search older objects would take a second.
    gc.collect(1)


def test_a_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "nowhere.npz")
