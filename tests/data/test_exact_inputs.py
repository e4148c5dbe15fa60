"""Inputs that would merge or turn into numbers without a word: indexes, ids, masks, dates, repeated documents."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, ipc
from typer.testing import CliRunner

from marginrank import Queries, Ranker, evaluate, from_frame, read
from marginrank.cli.app import app
from marginrank.errors import DataError, RepeatedDocumentsWarning

#: Rows sorted by grade, so that their numbers give the grades away.
FRAME = pd.DataFrame({"qid": [1, 2] * 4, "grade": [0, 0, 0, 0, 1, 1, 1, 1], "bm25": np.arange(8) % 3 / 2.0})


def write_ipc(frame: pd.DataFrame, path: Path) -> None:
    table = pa.Table.from_pandas(frame)
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table)


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.feather": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path),
    "a.arrow": write_ipc,
    "a.csv": lambda frame, path: frame.to_csv(path),
    "again.csv": lambda frame, path: (frame.to_csv(path), pd.read_csv(path).to_csv(path, index=False)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_pandas_index_is_no_feature(tmp_path: Path, name: str) -> None:
    shuffled = FRAME.sample(frac=1, random_state=0)
    WRITERS[name](shuffled, tmp_path / name)
    queries = read(tmp_path / name)
    assert queries.feature_names == ("bm25",)
    assert queries.X[:, 0].tolist() == shuffled["bm25"].tolist()


def test_an_index_of_ids_or_a_named_one_is_used(tmp_path: Path) -> None:
    FRAME.set_index("qid").to_parquet(tmp_path / "by_query.parquet")
    assert read(tmp_path / "by_query.parquet").query_ids.tolist() == [1, 2]
    FRAME.rename_axis("position").to_parquet(tmp_path / "a.parquet")
    FRAME.set_index(FRAME["bm25"].rename("age") * 2).to_parquet(tmp_path / "named.parquet")
    assert read(tmp_path / "named.parquet").feature_names == ("bm25",)
    assert read(tmp_path / "named.parquet", features=["age", "bm25"]).feature_names == ("age", "bm25")
    table = pa.Table.from_pandas(FRAME.sample(frac=1, random_state=0))
    assert from_frame(table).feature_names == ("bm25",)


def names_of(qid: Any) -> int:
    return len(Queries.from_arrays(np.zeros((len(qid), 1)), qid=qid))


@pytest.mark.parametrize(
    ("qid", "expected"),
    [
        (["a", "a\0", "a"], 2),
        (pd.Series(["a", "a\0", "a"]), 2),
        (pl.Series(["a", "a\0", "a"]), 2),
        ([-1, *(2**63 + k for k in range(19))], 20),
        ((np.int64(-1), np.uint64(2**63), np.uint64(2**63 + 1)), 3),
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), 2),
        (np.array([True, False, True]), 2),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[ns]"), 2),
    ],
    ids=str,
)
def test_ids_that_differ_stay_apart(qid: Any, expected: int) -> None:
    assert names_of(qid) == expected


def test_ids_stay_apart_in_files_and_in_concatenated_sets(tmp_path: Path) -> None:
    table = pa.table({"qid": ["a", "a\0", "b"], "grade": [0, 1, 2], "x": [1.0, 2.0, 3.0]})
    feather.write_feather(table, tmp_path / "a.feather")
    assert len(read(tmp_path / "a.feather")) == len(from_frame(table)) == 3
    (tmp_path / "b.jsonl").write_text(
        "".join(f'{{"qid": {q}, "grade": 1, "x": 0.5}}\n' for q in (-1, 2**63, 2**63 + 1))
    )
    assert read(tmp_path / "b.jsonl").query_ids.tolist() == ["-1", str(2**63), str(2**63 + 1)]
    signed = Queries.from_arrays([[1.0]], [1], qid=np.array([-1]))
    unsigned = Queries.from_arrays([[1.0]] * 2, [1, 0], qid=np.array([2**63, 2**63 + 1], dtype=np.uint64))
    assert len(set(Queries.concatenate([signed, unsigned]).query_ids.tolist())) == 3


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        (np.array(["2020-01-01", "NaT"], dtype="M8[ns]"), r"qid\[1\] is missing"),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), r"qid\[1\] is missing"),
        (np.ma.array([1, 2], mask=[False, True]), r"qid\[1\] is missing"),
        (np.array([1.0, 2.0**53]), r"qid\[1\] is 9007199254740992.0; float64 merges ids of that size"),
        (np.array([1, 2**24], dtype=np.float32), r"qid\[1\] is 16777216.0; float32 merges ids of that size"),
    ],
)
def test_ids_that_are_missing_or_have_merged_are_refused(qid: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        names_of(qid)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "y holds dates, not numbers"),
        (np.array([1, 2], dtype="m8[s]"), "y holds durations, not numbers"),
        (["1", "2"], "y holds text, not numbers; convert it, for example with astype"),
        (pd.Series(["1", "2"]), "y holds text, not numbers"),
        (np.array([1, "2"], dtype=object), "y holds text, not numbers"),
        ([1 + 2j, 0], "y holds complex numbers, not numbers"),
        (np.array([1.0, np.inf]), r"y\[1\] is inf; grades must be finite"),
    ],
)
def test_what_is_no_grade_is_refused(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Queries.from_arrays(np.zeros((2, 1)), y, qid=[1, 1])
    with pytest.raises((DataError, ValueError)):
        Ranker().fit(np.eye(2), y, qid=[1, 1])


@pytest.mark.parametrize(
    "column", [pd.to_datetime(["2020-01-01", "2020-01-02"]), pd.to_timedelta([1, 2], unit="s"), ["1", "2"]]
)
def test_columns_that_are_no_grades_are_refused(column: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"qid": [1, 1], "grade": column, "x": [0.5, 1.0]})
    with pytest.raises(DataError, match=r"column 'grade' holds .*grades are numbers"):
        from_frame(frame)
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"column 'grade' holds .*grades are numbers"):
        read(tmp_path / "a.parquet")


def test_masked_features_are_missing() -> None:
    X = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    with pytest.raises(DataError, match=r"X\[0, 1\] is NaN"):
        Queries.from_arrays(X, [0, 1], group=[2])
    queries = Queries.from_arrays(X, [0, 1], group=[2], allow_nan=True)
    np.testing.assert_array_equal(queries.X, [[1, np.nan], [3, 4]])
    with pytest.raises(DataError, match="is NaN"):
        Ranker().fit(X, [0, 1], group=[2])
    ranker = Ranker(scorer="linear(missing=mean)").fit(X, [0, 1], group=[2])
    assert ranker.predict(X).tolist() == ranker.predict(queries).tolist()


def test_large_whole_scores_do_not_tie() -> None:
    """Times in nanoseconds: 2^60 and 2^60 + 1 are one number in float64."""
    scores = [2**60, 2**60 + 1]
    for grades, value in (([0, 1], 1.0), ([1, 0], 0.5)):
        queries = Queries.from_arrays([[0.0]] * 2, grades, group=[2])
        assert evaluate(queries, scores, "rr").mean["rr"] == value
        assert evaluate(grades, np.array(scores), "rr", group=[2]).mean["rr"] == value


def test_repeated_documents_are_counted_and_warned_of(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"qid": [1, 2, 1, 1, 2], "docid": list("abaab"), "grade": [1, 0, 1, 0, 1], "x": [1.0, 2.0, 1.0, 3.0, 4.0]}
    )
    message = r"3 rows with the id of another row of the same query, first 'a' of query 1;.* keep one of each"
    frame.to_csv(tmp_path / "a.csv", index=False)
    lines = [f"{g} qid:{q} 1:{x} #docid = {d}\n" for q, d, g, x in frame.sort_values("qid").itertuples(index=False)]
    (tmp_path / "a.txt").write_text("".join(lines))
    calls = [
        lambda: from_frame(frame),
        lambda: read(tmp_path / "a.csv"),
        lambda: read(tmp_path / "a.txt"),
        lambda: Queries.from_arrays(frame[["x"]], frame["grade"], qid=frame["qid"], document_ids=frame["docid"]),
    ]
    for call in calls:
        with pytest.warns(RepeatedDocumentsWarning, match=message):
            call()
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "a.csv")])
    assert "repeated rows   3 rows with the id of another row of the same query" in done.stdout
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(from_frame(frame.drop_duplicates(["qid", "docid"]))) == 2
