"""Documents without a grade among judged ones: NaN, −1 and empty cells, from every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from marginrank import Queries, from_frame, read
from marginrank.clicks import simulate_clicks
from marginrank.data import read_letor, write_binary, write_letor
from marginrank.data.fingerprint import fingerprint
from marginrank.data.partitions import LocalPartitions, PartitionedQueries
from marginrank.data.reader import convert
from marginrank.errors import DataError
from marginrank.losses import StructuredLoss
from marginrank.preparation import clean
from marginrank.recommend import Recommender
from marginrank.training import empirical_risk

QUERY = ["b", "a", "b", "a", "c"]
GRADES = np.array([2.0, np.nan, 0.0, 1.0, np.nan])
X = np.array([[0.5, 1.0], [1.5, 2.0], [2.5, 3.0], [3.5, 4.0], [4.5, 5.0]])


def queries(grades: Any = GRADES) -> Queries:
    return Queries.from_arrays(X, grades, qid=QUERY, document_ids=list("vwxyz"), feature_names=["f", "g"])


@pytest.mark.parametrize(
    "grades",
    [
        GRADES,
        [2, -1, 0, 1, -1],
        [2, None, 0, 1, None],
        np.array([2, -1, 0, 1, np.nan], dtype=np.float32),
        np.ma.array([2, 9, 0, 1, 9], mask=[0, 1, 0, 0, 1]),
        pd.Series([2, pd.NA, 0, 1, pd.NA], dtype="Int64"),
        pd.Series([2.0, np.nan, 0.0, 1.0, -1.0]),
        pl.Series([2, None, 0, 1, -1]),
        pa.array([2, None, 0, 1, -1]),
    ],
    ids=["nan", "-1", "None", "float32", "mask", "pandas NA", "pandas", "polars", "arrow"],
)
def test_every_kind_of_array_may_lack_grades(grades: Any) -> None:
    made = queries(grades)
    np.testing.assert_array_equal(made.grades, GRADES)
    assert made.n_unjudged == 2
    assert repr(made) == "Queries(3 queries, 5 documents, 2 features, grades 0..2, 2 unjudged)"
    assert fingerprint(made) == fingerprint(queries())


FILES = {
    "rows.csv": "qid,grade,docid,f,g\nb,2,v,.5,1\na,,w,1.5,2\nb,0,x,2.5,3\na,1,y,3.5,4\nc,-1,z,4.5,5\n",
    "words.csv": "qid,grade,docid,f,g\nb,2,v,.5,1\na,NaN,w,1.5,2\nb,0,x,2.5,3\na,1,y,3.5,4\nc,NA,z,4.5,5\n",
    "rows.tsv": "qid\tgrade\tf\tg\nb\t2\t.5\t1\na\t-1\t1.5\t2\nb\t0\t2.5\t3\na\t1\t3.5\t4\nc\t\t4.5\t5\n",
    "rows.jsonl": '{"qid":"b","grade":2,"f":0.5,"g":1}\n{"qid":"a","grade":null,"f":1.5,"g":2}\n'
    '{"qid":"b","grade":0,"f":2.5,"g":3}\n{"qid":"a","grade":1,"f":3.5,"g":4}\n'
    '{"qid":"c","f":4.5,"g":5}\n',
    "slow.jsonl": '{"qid":"b","grade":2,"f":0.5,"g":1}\n{"qid":"a","grade":NaN,"f":1.5,"g":2}\n'
    '{"qid":"b","grade":0,"f":2.5,"g":3}\n{"qid":"a","grade":1,"f":3.5,"g":4}\n'
    '{"qid":"c","grade":-1,"f":4.5,"g":5}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_text_files_may_lack_grades(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    found = read(tmp_path / name)
    assert isinstance(found, Queries)
    np.testing.assert_array_equal(found.grades, GRADES)
    np.testing.assert_array_equal(found.X, X)


@pytest.mark.parametrize("word", ["-1", "-1.0", "nan", "NaN", "NA", "null", "-1.00000000000000000000000000000000001"])
def test_letor_text_may_lack_grades(word: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(f"2 qid:7 1:.5 # v\n{word} qid:7 1:1.5 # w\n0 qid:8 1:2.5#x\n")
    np.testing.assert_array_equal(read_letor(path).grades, [2, np.nan, 0])


def test_lightgbm_text_may_lack_grades(tmp_path: Path) -> None:
    (tmp_path / "rank.train").write_text("2 0:.5\n-1 0:1.5\n0 0:2.5\n")
    (tmp_path / "rank.train.query").write_text("2\n1\n")
    found = read(tmp_path / "rank.train", first_index=0)
    assert isinstance(found, Queries)
    np.testing.assert_array_equal(found.grades, [2, np.nan, 0])
    assert found.lengths.tolist() == [2, 1]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("missing", [None, -1])
def test_frames_may_lack_grades(kind: Any, missing: Any) -> None:
    columns = {"qid": QUERY, "grade": [2, missing, 0, 1, missing], "docid": list("vwxyz"), "f": X[:, 0], "g": X[:, 1]}
    np.testing.assert_array_equal(from_frame(kind(columns)).grades, GRADES)


@pytest.mark.parametrize("suffix", [".queries", ".parquet", ".csv", ".tsv", ".jsonl", ".txt"])
def test_files_keep_missing_grades(suffix: str, tmp_path: Path) -> None:
    write_binary(tmp_path / "source.queries", queries())
    convert(tmp_path / "source.queries", tmp_path / f"copy{suffix}")
    found = read(tmp_path / f"copy{suffix}", **({"dtype": np.float64} if suffix == ".txt" else {}))
    assert isinstance(found, Queries)
    grouped = queries().grouped
    np.testing.assert_array_equal(found.grouped.grades, grouped.grades)
    assert found.grouped.document_names.tolist() == grouped.document_names.tolist()
    assert fingerprint(found) == fingerprint(queries())


def test_arrow_and_npz_may_lack_grades(tmp_path: Path) -> None:
    frame = pl.DataFrame({"qid": QUERY, "grade": [2, None, 0, 1, -1], "f": X[:, 0], "g": X[:, 1]})
    frame.write_ipc(tmp_path / "rows.arrow")
    np.savez(tmp_path / "rows.npz", X=X, y=np.array([2, -1, 0, 1, -1]), qid=np.array(QUERY))
    for name in ("rows.arrow", "rows.npz"):
        np.testing.assert_array_equal(read(tmp_path / name).grades, GRADES)  # type: ignore[union-attr]


def test_letor_writes_minus_one(tmp_path: Path) -> None:
    write_letor(tmp_path / "rows.txt", queries())
    grades = [line.split()[0] for line in (tmp_path / "rows.txt").read_text().splitlines()]
    assert grades == ["2", "0", "-1", "1", "-1"]  # query after query: b, a, c


# --- Queries


def test_unjudged_documents_are_left_out_or_irrelevant() -> None:
    mixed = Queries.from_arrays(
        X,
        GRADES,
        qid=QUERY,
        document_ids=list("vwxyz"),
        query_weights=[3.0, 2.0, 7.0],
        document_weights=[1.0, 2.0, 3.0, 4.0, 5.0],
        document_groups=list("ppqqr"),
    )
    kept = mixed.with_unjudged("skip")
    assert kept.document_names.tolist() == ["v", "x", "y"]
    assert kept.query_ids[kept.query_of_row].tolist() == ["b", "b", "a"]
    assert (kept.grades.tolist(), kept.X[:, 0].tolist()) == ([2.0, 0.0, 1.0], [0.5, 2.5, 3.5])
    assert kept.query_weights is not None
    assert dict(zip(kept.query_ids.tolist(), kept.query_weights.tolist(), strict=True)) == {"b": 3.0, "a": 2.0}
    assert kept.document_weights is not None
    assert kept.document_weights.tolist() == [1.0, 3.0, 4.0]
    assert kept.document_groups is not None
    assert kept.document_groups.tolist() == ["p", "q", "q"]
    assert kept.document_keys.tolist() == mixed.document_keys[[0, 2, 3]].tolist()
    irrelevant = mixed.with_unjudged("irrelevant")
    assert irrelevant.grades.tolist() == [2, 0, 0, 1, 0]
    assert irrelevant.X is mixed.X
    scaled = mixed.with_features(X * 2)
    assert scaled.with_unjudged("skip").document_keys.tolist() == kept.document_keys.tolist()


def test_judged_queries_are_not_copied() -> None:
    judged = queries([2, 0, 0, 1, 0])
    assert judged.unjudged is None
    assert judged.with_unjudged("skip") is judged
    assert judged.with_unjudged("irrelevant") is judged


def test_selection_keeps_missing_grades() -> None:
    np.testing.assert_array_equal(queries()[[1, 2]].grades, [np.nan, 1, np.nan])
    assert queries()[0].n_unjudged == 0
    both = Queries.concatenate([queries().select(["b"]), queries().select(["c"])])
    assert both.n_unjudged == 1


def test_partitions_count_missing_grades() -> None:
    parts = PartitionedQueries(LocalPartitions([lambda: queries().select(["b", "a"]), lambda: queries().select(["c"])]))
    assert (parts.n_unjudged, parts.grades) == (2, {0.0: 1, 1.0: 1, 2.0: 1})
    assert "grades 0..2" in repr(parts)
    left = parts.with_unjudged("skip").partitions.map(lambda part: part.n_documents)
    assert left == [3, 0]


def test_losses_refuse_missing_grades() -> None:
    with pytest.raises(DataError, match=r"some documents are unjudged; leave them out with queries\.with_unjudged"):
        StructuredLoss("ap").prepare(queries().grouped)
    with pytest.raises(DataError, match="some documents are unjudged"):
        StructuredLoss("ap").prepare([1.0, np.nan])


@pytest.mark.parametrize(
    "call",
    [
        clean,
        lambda given: simulate_clicks(given, {"f": given.feature("f")}, sessions=3),
        lambda given: Recommender().fit(given),
        lambda given: empirical_risk(given.grouped, StructuredLoss("ap")),
    ],
    ids=["clean", "simulate", "recommend", "risk"],
)
def test_what_needs_all_grades_says_so(call: Any) -> None:
    with pytest.raises(DataError, match=r"some documents are unjudged; leave them out|rating 1 is nan"):
        call(queries())
