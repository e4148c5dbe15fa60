"""The binary form and NumPy archives."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from marginrank.data.queries import Queries
from marginrank.data.storage import is_binary, read_binary, read_npz, write_binary
from marginrank.data.tables import from_frame
from marginrank.errors import DataError

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
    assert (q.document_ids, q.query_weights, q.document_groups, q.feature_names, q.rows) == (None,) * 5
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
    assert sorted(path.name for path in saved.iterdir()) == [
        "X.npy", "grades.npy", "header.json", "offsets.npy", "query_ids.npy",
    ]  # fmt: skip
    assert [path.name for path in saved.parent.iterdir()] == ["set.queries"]


def test_a_link_to_a_set_stays_a_link(saved: Path) -> None:
    link = saved.with_name("link.queries")
    link.symlink_to(saved)
    other = Queries.from_arrays([[1.0]], [0], qid=[1])
    write_binary(link, other)
    assert link.is_symlink()
    assert_equal(read_binary(saved), other)


def test_folders_above_are_made(tmp_path: Path) -> None:
    write_binary(tmp_path / "a" / "b" / "set.queries", some_queries())
    assert is_binary(tmp_path / "a" / "b" / "set.queries")


# --- interrupted and refused writes


def interrupt_at(monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException) -> None:
    calls = {"n": 0}
    save, rename = np.save, Path.rename

    def failing_save(*args: Any, **kwargs: Any) -> None:
        calls["n"] += 1
        if calls["n"] == 3:
            raise error
        save(*args, **kwargs)

    def failing_rename(self: Path, target: Path) -> Path:
        if self.name.startswith(".set.queries-"):
            raise error
        return rename(self, target)

    if where == "save":
        monkeypatch.setattr(np, "save", failing_save)
    else:
        monkeypatch.setattr(Path, "rename", failing_rename)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"])
@pytest.mark.parametrize("where", ["save", "rename"])
def test_an_interrupted_write_leaves_the_old_set_in_place(
    saved: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, where, error)
        with pytest.raises(type(error)):
            write_binary(saved, Queries.from_arrays([[1.0]], [0], qid=[1]))
    assert [path.name for path in saved.parent.iterdir()] == ["set.queries"]
    assert_equal(read_binary(saved), some_queries())


FOREIGN: dict[str, Callable[[Path], None]] = {
    "a file": lambda path: path.write_text("precious"),
    "an empty folder": Path.mkdir,
    "a folder": lambda path: (path.mkdir(), (path / "precious.txt").write_text("precious")),
    "a folder with another header": lambda path: (
        path.mkdir(),
        (path / "precious.txt").write_text("precious"),
        (path / "header.json").write_text('{"format": "something else"}'),
    ),
    "a folder with a header that is no JSON": lambda path: (
        path.mkdir(),
        (path / "precious.txt").write_text("precious"),
        (path / "header.json").write_text("precious"),
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_not_ours_is_not_overwritten(tmp_path: Path, case: str) -> None:
    target = tmp_path / "target"
    FOREIGN[case](target)
    before = {path: path.read_bytes() for path in [target, *target.rglob("*")] if path.is_file()}
    with pytest.raises(DataError) as refused:
        write_binary(target, some_queries())
    assert str(refused.value) == f"{target}: exists and is not a binary query set; choose another name or remove it"
    assert {path: path.read_bytes() for path in [target, *target.rglob("*")] if path.is_file()} == before


# --- damage


def change_header(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        header = json.loads((folder / "header.json").read_text(encoding="utf-8")) | changes
        (folder / "header.json").write_text(json.dumps(header), encoding="utf-8")

    return change


def drop_from_header(name: str) -> Callable[[Path], None]:
    def drop(folder: Path) -> None:
        header = json.loads((folder / "header.json").read_text(encoding="utf-8"))
        del header[name]
        (folder / "header.json").write_text(json.dumps(header), encoding="utf-8")

    return drop


def rewrite(name: str, array: Any) -> Callable[[Path], None]:
    """Put another array in place, and describe it truly in the header."""

    def change(folder: Path) -> None:
        header = json.loads((folder / "header.json").read_text(encoding="utf-8"))
        values = np.asarray(array)
        np.save(folder / f"{name}.npy", values)
        header["arrays"][name] = {"dtype": values.dtype.str, "shape": list(values.shape)}
        (folder / "header.json").write_text(json.dumps(header), encoding="utf-8")

    return change


def cut(name: str, share: float) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])

    return change


HEADER, FOLDER = "{folder}/header.json: ", "{folder}: "
AGAIN = "; convert the source again"

DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "header empty": (cut("header.json", 0), HEADER + "damaged header (", AGAIN),
    "header cut": (cut("header.json", 0.5), HEADER + "damaged header (", AGAIN),
    "header not JSON": (lambda f: (f / "header.json").write_text("hello"), HEADER + "damaged header (", AGAIN),
    "header a list": (lambda f: (f / "header.json").write_text("[1, 2]"), HEADER + "damaged header (", AGAIN),
    "header a number": (lambda f: (f / "header.json").write_text("5"), HEADER + "damaged header (", AGAIN),
    "header not UTF-8": (lambda f: (f / "header.json").write_bytes(b"\xff{"), HEADER + "damaged header (", AGAIN),
    "another format": (change_header(format="zarr"), HEADER + "format 'zarr' is not 'marginrank-queries'", ""),
    "a later version": (
        change_header(version=2),
        HEADER + "format version 2; this marginrank reads version 1",
        "",
    ),
    "no version": (drop_from_header("version"), HEADER + "damaged header ('version')", AGAIN),
    "no arrays": (drop_from_header("arrays"), "{folder}", AGAIN),
    "arrays no table": (change_header(arrays=None), "{folder}", AGAIN),
    "array without description": (change_header(arrays={"X": 5}), "{folder}", AGAIN),
    "too few arrays": (change_header(arrays={}), FOLDER + "damaged binary query set (", AGAIN),
    "no width": (drop_from_header("features"), "{folder}", AGAIN),
    "wrong width": (change_header(features=7), FOLDER + "damaged binary query set (", AGAIN),
    "no names": (drop_from_header("feature_names"), "{folder}", AGAIN),
    "names no list": (change_header(feature_names=5), "{folder}", AGAIN),
    "too few names": (change_header(feature_names=["a"]), "{folder}", AGAIN),
    "unknown array": (rewrite("extra", [1.0]), "{folder}", AGAIN),
    "array outside": (
        change_header(arrays={"../X": {"dtype": "<f4", "shape": [4, 3]}}),
        HEADER + "damaged header (unknown array '../X')",
        AGAIN,
    ),
    "array gone": (lambda f: (f / "grades.npy").unlink(), "{folder}/grades.npy: missing or damaged array (", AGAIN),
    "array empty": (cut("X.npy", 0), "{folder}/X.npy: missing or damaged array (", AGAIN),
    "array head cut": (cut("X.npy", 0.2), "{folder}/X.npy: missing or damaged array (", AGAIN),
    "array cut": (cut("X.npy", 0.95), "{folder}/X.npy: missing or damaged array (", AGAIN),
    "array of text": (
        lambda f: (f / "X.npy").write_text("not an array at all"),
        "{folder}/X.npy: missing or damaged array (",
        AGAIN,
    ),
    "array of another shape": (
        lambda f: np.save(f / "X.npy", np.zeros((4, 2), dtype=np.float32)),
        "{folder}/X.npy: holds float32 (4, 2), but the header says <f4 (4, 3)",
        AGAIN,
    ),
    "array of another type": (
        lambda f: np.save(f / "X.npy", np.zeros((4, 3))),
        "{folder}/X.npy: holds float64 (4, 3), but the header says <f4 (4, 3)",
        AGAIN,
    ),
    "array of objects": (
        lambda f: np.save(f / "query_ids.npy", np.array([{}, {}]), allow_pickle=True),
        "{folder}/query_ids.npy: missing or damaged array (",
        AGAIN,
    ),
    "offsets end early": (rewrite("offsets", [0, 2, 3]), FOLDER + "damaged binary query set (", AGAIN),
    "offsets start late": (rewrite("offsets", [1, 2, 4]), FOLDER + "damaged binary query set (", AGAIN),
    "no offsets": (rewrite("offsets", np.zeros(0, dtype=np.int64)), FOLDER + "damaged binary query set (", AGAIN),
    "offsets leave the rows": (rewrite("offsets", [0, 1000, 4]), FOLDER + "damaged binary query set (", AGAIN),
    "offsets run backwards": (rewrite("offsets", [0, -3, 4]), FOLDER + "damaged binary query set (", AGAIN),
    "too few query ids": (rewrite("query_ids", ["a"]), FOLDER + "damaged binary query set (", AGAIN),
    "too few document ids": (rewrite("document_ids", ["a"]), FOLDER + "damaged binary query set (", AGAIN),
    "too few weights": (rewrite("query_weights", [1.0]), FOLDER + "damaged binary query set (", AGAIN),
    "too few groups": (rewrite("document_groups", [1]), FOLDER + "damaged binary query set (", AGAIN),
    "too few grades": (rewrite("grades", [1.0]), FOLDER + "damaged binary query set (", AGAIN),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named_with_the_way_out(saved: Path, case: str) -> None:
    damage, start, end = DAMAGE[case]
    damage(saved)
    with pytest.raises(DataError) as refused:
        read_binary(saved)
    assert str(refused.value).startswith(start.format(folder=saved))
    assert str(refused.value).endswith(end)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("X.indptr", np.array([0, 2, 2, 4, 9], dtype=np.int32)),
        ("X.indptr", np.array([0, 2, 2, 4], dtype=np.int32)),
        ("X.indptr", np.array([0, 2, -1, 4, 4], dtype=np.int32)),
        ("X.indices", np.array([0, 1], dtype=np.int32)),
        ("X.data", np.zeros(1, dtype=np.float32)),
    ],
    ids=["ends late", "too few rows", "runs backwards", "too few columns", "too few values"],
)
def test_damaged_sparse_features_are_refused(tmp_path: Path, name: str, array: np.ndarray) -> None:
    write_binary(tmp_path / "set.queries", some_queries(sparse=True))
    rewrite(name, array)(tmp_path / "set.queries")
    with pytest.raises(DataError, match=r"damaged binary query set \(.*\); convert the source again$"):
        read_binary(tmp_path / "set.queries")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    assert not is_binary(tmp_path)
    assert not is_binary(tmp_path / "nowhere")
    with pytest.raises((DataError, FileNotFoundError), match=str(tmp_path)):
        read_binary(tmp_path)


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
    assert q.document_ids.tolist() == ["a", "c", "b", "d"]
    assert q.document_groups.tolist() == [1, 3, 2, 4]
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
    "no grades": ({"X": [[1.0]], "qid": [1]}, "no array y or grades among X, qid"),
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
        "offsets must rise from 0 to the number of rows, 4",
    ),
    "negative grade": (
        {"X": [[1.0]], "y": [-1], "qid": [1]},
        "y[0] is -1; grades must not be negative; shift them, for example y - y.min()",
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
    gc.collect()  # a file that was left open warns now, and warnings are errors


def test_a_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "nowhere.npz")
