"""Frames of pandas, polars and Arrow, and columnar files."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import feather, ipc, parquet

from marginrank.data.formats.parquet import read_table, write_parquet
from marginrank.data.frames import from_frame
from marginrank.data.queries import Queries
from marginrank.errors import DataError

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
}
COLUMNS: dict[str, list[Any]] = {
    "qid": ["b", "a", "b"],
    "bm25": [0.5, 1.5, 2.5],
    "label": [2, 0, 1],
    "clicks": [7, 8, 9],
    "docid": ["x", "y", "z"],
}


@pytest.fixture(params=FRAMES)
def frame(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    return FRAMES[request.param]


def test_a_frame_of_each_library(frame: Callable[[dict[str, Any]], Any]) -> None:
    q = from_frame(frame(COLUMNS))
    assert q.query_ids.tolist() == ["b", "a"]
    assert q.lengths.tolist() == [2, 1]
    assert q.feature_names == ("bm25", "clicks")
    assert q.X.dtype == np.float64
    assert from_frame(frame(COLUMNS), dtype="float32").X.dtype == np.float32
    np.testing.assert_array_equal(q.X, [[0.5, 7], [1.5, 8], [2.5, 9]])
    assert q.grades.tolist() == [2, 0, 1]
    assert q.document_ids.tolist() == ["x", "y", "z"]
    assert q.grouped.document_ids.tolist() == ["x", "z", "y"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_chosen(frame: Callable[[dict[str, Any]], Any], dtype: type) -> None:
    q = from_frame(frame({"qid": [1], "y": [0], "a": [0.1]}), dtype=dtype)
    assert q.X.dtype == dtype
    assert q.X[0, 0] == dtype(0.1)


def test_columns_by_name(frame: Callable[[dict[str, Any]], Any]) -> None:
    columns = {"who": [1, 1], "good": [1, 0], "name": ["p", "q"], "host": ["h", "h"], "a": [1, 2], "b": [3, 4]}
    q = from_frame(
        frame(columns), qid="who", grade="good", document_id="name", document_group="host", features=["b", "a"]
    )
    assert q.feature_names == ("b", "a")
    np.testing.assert_array_equal(q.X, [[3, 1], [4, 2]])
    assert q.document_ids.tolist() == ["p", "q"]
    assert q.document_groups.tolist() == ["h", "h"]


@pytest.mark.parametrize("qid", ["qid", "query_id", "query", "topic"])
@pytest.mark.parametrize("grade", ["grade", "label", "relevance", "rel", "y"])
def test_usual_names_are_recognized(qid: str, grade: str) -> None:
    q = from_frame(pl.DataFrame({"f": [1.0], grade: [3], qid: ["t"]}))
    assert (q.query_ids.tolist(), q.grades.tolist(), q.feature_names) == (["t"], [3.0], ("f",))


@pytest.mark.parametrize("document", ["document_id", "docid", "doc_id", "docno", "document", "doc"])
def test_usual_names_of_documents_are_recognized(document: str) -> None:
    q = from_frame(pl.DataFrame({"qid": [1, 1], "f": [1.0, 2.0], document: ["a", "b"]}))
    assert q.document_ids is not None
    assert (q.document_ids.tolist(), q.feature_names) == (["a", "b"], ("f",))


def test_numbers_of_any_kind(frame: Callable[[dict[str, Any]], Any]) -> None:
    q = from_frame(frame({"qid": [1, 1], "y": [0.5, 1e6], "flag": [True, False], "n": [-3, 4]}))
    np.testing.assert_array_equal(q.X, [[1, -3], [0, 4]])
    assert q.grades.tolist() == [0.5, 1e6]


# --- nulls

NULLS: dict[str, list[Any]] = {"qid": [1, 1, 2], "y": [0, 1, 2], "a": [None, 5, None], "b": [1.0, None, -1.0]}
NAN = np.nan


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("nan", [[NAN, 1], [5, NAN], [NAN, -1]]),
        ("zero", [[0, 1], [5, 0], [0, -1]]),
        ("min", [[5, 1], [5, 1], [0, -1]]),
    ],
)
def test_nulls_become_what_is_chosen(
    frame: Callable[[dict[str, Any]], Any], missing: Any, expected: list[list[float]]
) -> None:
    np.testing.assert_array_equal(from_frame(frame(NULLS), missing=missing).X, expected)


def test_nulls_are_refused_with_a_way_out_that_exists(frame: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(DataError, match=r"^row \d+ of column '\w+' has no value; .*missing=") as refused:
        from_frame(frame(NULLS))
    assert "allow_nan" not in str(refused.value)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_features_are_refused(frame: Callable[[dict[str, Any]], Any], value: float) -> None:
    with pytest.raises(DataError, match="inf; replace it"):
        from_frame(frame({"qid": [1], "y": [0], "a": [value]}), missing="nan")


def test_a_feature_too_large_for_float32_is_refused(frame: Callable[[dict[str, Any]], Any]) -> None:
    table = frame({"qid": [1], "y": [0], "a": [1e300]})
    assert from_frame(table, dtype=np.float64).X[0, 0] == 1e300
    with pytest.raises(DataError, match="float64"):
        from_frame(table, dtype=np.float32)


def test_a_row_without_a_grade_is_unjudged(frame: Callable[[dict[str, Any]], Any]) -> None:
    queries = from_frame(frame({"qid": [1, 2, 2], "y": [0, None, -1], "a": [0.5, 1.0, 2.0]}))
    np.testing.assert_array_equal(queries.grades, [0, np.nan, np.nan])


@pytest.mark.parametrize("ids", [[1, None], ["a", None]], ids=["numbers", "text"])
def test_a_row_without_a_query_is_refused(frame: Callable[[dict[str, Any]], Any], ids: list[Any]) -> None:
    with pytest.raises(DataError, match=r"^row 1 has no query id; every row needs one$"):
        from_frame(frame({"qid": ids, "y": [0, 1], "a": [0.5, 1.0]}))


def test_a_document_without_a_name_gets_none_made_up(frame: Callable[[dict[str, Any]], Any]) -> None:
    try:
        names = from_frame(frame({"qid": [1, 2], "y": [0, 1], "a": [0.5, 1.0], "docid": ["x", None]})).document_ids
    except DataError:
        return
    assert names.tolist() == ["x", ""]


def test_a_document_without_a_group_is_refused(frame: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(DataError, match=r"^row 1 has no document group; every row needs one$"):
        from_frame(frame({"qid": [1, 2], "y": [0, 1], "a": [0.5, 1.0], "host": ["x", None]}), document_group="host")


# --- wrong columns


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"y": [1], "a": [1]},
            {},
            "no column of query ids among 'y', 'a'; name it with qid= "
            "(recognized: qid, query_id, search_id, query, topic)",
        ),
        ({"qid": [1], "y": [1], "a": [1]}, {"qid": "q"}, "no column 'q'; the columns are 'qid', 'y', 'a'"),
        ({"qid": [1], "y": [1], "a": [1]}, {"grade": "g"}, "no column 'g'; the columns are 'qid', 'y', 'a'"),
        ({"qid": [1], "y": [1], "a": [1]}, {"features": ["b"]}, "no column 'b'; the columns are 'qid', 'y', 'a'"),
        ({"qid": [1], "y": [1], "a": [1]}, {"document_id": "d"}, "no column 'd'; the columns are 'qid', 'y', 'a'"),
        ({"qid": [1], "y": [1], "a": [1]}, {"document_group": "d"}, "no column 'd'; the columns are 'qid', 'y', 'a'"),
        (
            {"qid": [1], "y": [1], "title": ["x"], "a": [1]},
            {"features": ["title", "a"]},
            "column 'title' holds text, not numbers; name the feature columns with features=['a']",
        ),
        ({"qid": [1], "y": [1]}, {}, "no feature columns are left; name them with features="),
    ],
    ids=["no qid", "qid", "grade", "feature", "document", "group", "text", "no features"],
)
def test_wrong_columns_are_named(
    frame: Callable[[dict[str, Any]], Any], columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as refused:
        from_frame(frame(columns), **options)
    assert str(refused.value) == message


@pytest.mark.parametrize("dtype", [np.int32, np.float16, "U3"])
def test_only_float32_and_float64(dtype: Any) -> None:
    with pytest.raises(ValueError, match="features are float32 or float64"):
        from_frame(pl.DataFrame({"qid": [1], "y": [0], "a": [0.5]}), dtype=dtype)


def test_a_choice_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"^missing is 'drop'; choose one of 'error', 'nan', 'zero', 'min'$"):
        from_frame(pl.DataFrame({"qid": [1], "y": [0], "a": [0.5]}), missing="drop")


# --- files


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def write_file(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


FILES: dict[str, tuple[str, Callable[[pa.Table, Path], None]]] = {
    "parquet": ("t.parquet", parquet.write_table),
    "pq in capitals": ("t.PQ", parquet.write_table),
    "feather": ("t.feather", lambda table, path: feather.write_feather(table, str(path))),
    "feather compressed": (
        "t.feather",
        lambda table, path: feather.write_feather(table, str(path), compression="zstd"),
    ),
    "arrow file": ("t.arrow", write_file),
    "arrow stream": ("t.arrow", write_stream),
    "ipc file": ("t.ipc", write_file),
    "ipc stream": ("t.ipc", write_stream),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_hold_what_the_frame_held(tmp_path: Path, kind: str) -> None:
    name, write = FILES[kind]
    write(pa.table(COLUMNS), tmp_path / name)
    found, expected = read_table(tmp_path / name), from_frame(pa.table(COLUMNS))
    assert_equal(found, expected)
    assert read_table(str(tmp_path / name), features=["clicks"]).feature_names == ("clicks",)


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow"])
@pytest.mark.parametrize(
    "data", [b"", b"not a table", b"ARROW1\0\0 cut", b"PAR1"], ids=["empty", "text", "arrow", "par"]
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert str(refused.value).startswith(f"{path}: not a readable {path.suffix} file: ")


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow file", "arrow stream"])
def test_files_cut_short_are_refused(tmp_path: Path, kind: str) -> None:
    name, write = FILES[kind]
    write(pa.table({**COLUMNS, "more": np.arange(3.0)}), tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for share in (0.2, 0.5, 0.9):
        (tmp_path / name).write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(DataError, match="not a readable"):
            read_table(tmp_path / name)


def test_a_missing_file(tmp_path: Path) -> None:
    for name in ("t.parquet", "t.feather", "t.arrow"):
        with pytest.raises(FileNotFoundError):
            read_table(tmp_path / name)


def test_several_files(tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    parquet.write_table(pa.table({"qid": [1, 1], "y": [0, 1], "f": [1.0, 2.0]}), paths[0])
    parquet.write_table(pa.table({"qid": [2], "y": [2], "f": [3.0]}), paths[1])
    q = read_table(paths)
    assert (q.query_ids.tolist(), q.X.ravel().tolist()) == ([1, 2], [1, 2, 3])
    parquet.write_table(pa.table({"qid": [2], "y": [2], "f": [3.0], "g": [1.0]}), paths[1])
    with pytest.raises(DataError) as refused:
        read_table(paths)
    assert str(refused.value) == (
        f"{paths[1]}: 2 features, but a.parquet has 1; name the columns to use with features="
    )


def test_an_error_names_the_file(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"y": [0], "f": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError) as refused:
        read_table(tmp_path / "a.parquet")
    assert str(refused.value).startswith(f"{tmp_path / 'a.parquet'}: no column of query ids among 'y', 'f'")


# --- writing Parquet


def assert_equal(found: Queries, expected: Queries) -> None:
    assert found.X.dtype == expected.X.dtype
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.X, expected.X)
    for name in ("grades", "query_offsets", "query_ids", "document_ids", "order"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), sizes=st.lists(st.integers(1, 4), min_size=1))
def test_parquet_round_trip_is_exact(tmp_path: Path, data: st.DataObject, dtype: type, sizes: list[int]) -> None:
    n = sum(sizes)
    elements = st.floats(width=32 if dtype is np.float32 else 64, allow_infinity=False)
    q = Queries.from_arrays(
        data.draw(hnp.arrays(dtype, (n, 2), elements=elements)),
        data.draw(hnp.arrays(np.float64, n, elements=st.floats(0, 1e300))),
        qid=np.repeat(data.draw(st.sampled_from([np.arange(99), np.arange(99).astype(str)]))[: len(sizes)], sizes),
        document_ids=[f"d{k}" for k in range(n)],
        feature_names=["f1", "two words"],
        allow_nan=True,
    )
    write_parquet(tmp_path / "q.parquet", q)
    assert_equal(read_table(tmp_path / "q.parquet", dtype=dtype, missing="nan"), q)


def test_parquet_names_features_that_have_no_name(tmp_path: Path) -> None:
    write_parquet(tmp_path / "q.parquet", Queries.from_arrays([[1.0, 2.0]], [0], qid=["a"]))
    assert parquet.read_table(tmp_path / "q.parquet").column_names == ["qid", "grade", "0", "1"]


def test_feature_names_that_are_taken_are_refused(tmp_path: Path) -> None:
    q = Queries.from_arrays([[1.0, 2.0]], [0], qid=["a"], feature_names=["grade", "x"])
    with pytest.raises(DataError, match=r"^feature names \['grade'\] are taken by the other columns; rename them$"):
        write_parquet(tmp_path / "q.parquet", q)


def test_feature_names_that_stand_twice_are_refused(tmp_path: Path) -> None:
    q = Queries.from_arrays([[1.0, 2.0]], [0], qid=["a"], feature_names=["x", "x"])
    with pytest.raises(DataError):
        write_parquet(tmp_path / "q.parquet", q)


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_columns_of_one_name_are_refused(kind: str) -> None:
    columns = [pa.array([1, 1]), pa.array([0, 1]), pa.array([0.5, 1.0]), pa.array([0.25, 1.0])]
    table = pa.Table.from_arrays(columns, names=["qid", "y", "f", "f"])
    with pytest.raises(DataError, match="two columns have the same name; rename one"):
        from_frame(table if kind == "arrow" else pd.DataFrame([[1, 0, 0.5, 0.25]], columns=["qid", "y", "f", "f"]))


# --- damaged files


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
def test_ids_that_point_outside_their_text_are_refused(tmp_path: Path, suffix: str) -> None:
    """Arrow reads such a file without complaint, and then from foreign memory."""
    path = tmp_path / f"bad{suffix}"
    table = pa.table({"qid": [1, 1], "y": [0, 1], "f": [0.5, 1.0], "docid": ["abc", "defg"]})
    feather.write_feather(table, path, compression="uncompressed")
    ends, others = (np.array(numbers, dtype=np.int32).tobytes() for numbers in ([0, 3, 7], [0, 3, 2_000_000_000]))
    assert path.read_bytes().count(ends) == 1
    path.write_bytes(path.read_bytes().replace(ends, others))
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert str(refused.value).startswith(f"{path}: not a readable {suffix} file: ")


def test_lengths_that_are_not_true_are_refused(tmp_path: Path) -> None:
    """Asking such a batch for its size reads foreign memory."""
    path, sink = tmp_path / "bad.arrow", pa.BufferOutputStream()
    table = pa.table({"qid": pa.array(["a", "b"]).dictionary_encode(), "y": [0, 1], "f": [0.5, 1.0]})
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole, true, untrue = sink.getvalue().to_pybytes(), struct.pack("<q", 2), struct.pack("<q", 2**31 + 2)
    places = [at for at in range(len(whole) - 8) if whole[at : at + 8] == true]
    for at in places:
        path.write_bytes(whole[:at] + untrue + whole[at + 8 :])
        with suppress(DataError):
            assert read_table(path).n_documents == 2
    assert len(places) > 3


@pytest.mark.parametrize("suffix", [".arrow", ".parquet", ".feather"])
def test_a_cut_table_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"cut{suffix}"
    table = pa.table({"qid": [1] * 99, "y": [0, 1, 2] * 33, "f": np.arange(99.0)})
    if suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError) as refused:
            read_table(path)
        assert refused.value.path == str(path)


def test_ids_that_differ_after_a_nul_stay_apart(tmp_path: Path) -> None:
    q = Queries.from_arrays(
        [[1.0], [2.0]], [0, 1], qid=np.array(["a\0b", "a\0c"]), document_ids=np.array(["x\0y", "x\0z"])
    )
    write_parquet(tmp_path / "q.parquet", q)
    again = read_table(tmp_path / "q.parquet")
    assert again.query_ids.tolist() == ["a\0b", "a\0c"]
    assert again.document_ids is not None
    assert again.document_ids.tolist() == ["x\0y", "x\0z"]


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/q\xff.parquet"))
    try:
        path.touch()
    except OSError as error:
        pytest.skip(f"this file system takes no such name: {error}")
    write_parquet(path, Queries.from_arrays([[1.0]], [0], qid=["a"]))
    assert read_table(path).n_documents == 1
