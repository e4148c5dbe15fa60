"""Click logs: what they hold, and how bad ones are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginrank import DataError, Queries
from marginrank.clicks import ClickLog


def log_of(**changes):
    columns = {
        "query": ["a", "b", "a", "b"],
        "document": ["x", "x", "y", "z"],
        "position": [1, 1, 2, 2],
        "clicked": [0, 1, 1, 0],
    }
    return ClickLog.from_arrays(**(columns | changes))


def test_rows_keep_their_order_and_pairs_are_grouped_by_query():
    log = log_of(system=["s", "t", "s", "t"], weight=[1, 2, 3, 4])
    assert log.documents.query_ids.tolist() == ["a", "b"]
    assert log.documents.document_ids.tolist() == ["x", "y", "x", "z"]
    assert log.query.tolist() == [0, 1, 0, 1]
    assert log.document_ids.tolist() == ["x", "x", "y", "z"]
    assert log.clicks.tolist() == [0, 2, 3, 0]
    assert log.system.tolist() == [0, 1, 0, 1]
    assert log.system_names == ("s", "t")
    assert log.impressions.tolist() == [3, 4]


def test_aggregated_rows_add_up():
    rng = np.random.default_rng(0)
    n = 500
    columns = {name: rng.integers(1, 4, n) for name in ("query", "document", "position", "system")}
    log = ClickLog.from_arrays(**columns, clicked=rng.integers(0, 2, n), weight=rng.random(n))
    small = log.aggregated()
    frame = pd.DataFrame(columns | {"shown": log.shown, "clicks": log.clicks})
    expected = frame.groupby(["query", "document", "position", "system"])[["shown", "clicks"]].sum()
    assert len(small) == len(expected)
    for row in range(len(small)):
        key = (
            small.documents.query_ids[small.query[row]],
            int(small.document_ids[row]),
            small.position[row],
            int(small.system_names[small.system[row]]),
        )
        assert small.shown[row] == pytest.approx(expected.loc[key, "shown"])
        assert small.clicks[row] == pytest.approx(expected.loc[key, "clicks"])


def test_impressions_of_a_query_are_merged_or_kept():
    visits = {
        "query": ["a"] * 4,
        "document": ["x", "y", "y", "x"],
        "position": [1, 2, 1, 2],
        "impression": [7, 7, 8, 8],
    }
    assert len(log_of(**visits).documents) == 1
    kept = log_of(**visits, merge=False)
    assert kept.documents.query_ids.tolist() == [7, 8]
    assert kept.documents.n_documents == 4
    with pytest.raises(DataError, match="give impression"):
        log_of(merge=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": [0, 0, 1, 1]}, "row 0 of column 'position' is 0; .* pass positions_from=0"),
        ({"position": [1, -2, 1, 1]}, "row 1 of column 'position' is -2; positions count from 1$"),
        ({"position": [1, 1.5, 1, 1]}, "row 1 of column 'position' is 1.5; positions are whole"),
        ({"position": [1, np.nan, 2, 2]}, "row 1 .* a click without an impression"),
        ({"position": [np.nan, 1, 2, 2]}, "row 0 of column 'position' is missing; every"),
        ({"clicked": [0, 3, 0, 0]}, "row 1 of column 'clicked' is 3; it must be 0 or 1"),
        ({"clicked": ["no", "yes", "no", "no"]}, "clicked holds text"),
        ({"weight": [1, 1, -1, 1]}, "row 2 of column 'weight' is -1; weights must not be negative"),
        ({"propensity": [1, 0.5, 0, 1]}, "row 2 of column 'propensity' is 0; .* above 0 and at most 1"),
        ({"propensity": [1, 0.5, 1.5, 1]}, "row 2 of column 'propensity' is 1.5"),
        ({"query": ["a", None, "a", "b"]}, r"query\[1\] is missing"),
        ({"document": ["x"]}, "document has shape"),
        (
            {"impression": [1, 1, 1, 1], "document": ["x", "x", "y", "z"]},
            "row 1 shows document x again in impression 1",
        ),
        ({"impression": [1, 1, 2, 2], "document": ["x", "v", "y", "z"]}, "row 1 is a second document at position 1"),
    ],
)
def test_bad_logs_are_refused_with_the_row(changes, message):
    with pytest.raises(DataError, match=message):
        log_of(**changes)


def test_an_empty_log_is_refused():
    with pytest.raises(DataError, match="no rows"):
        ClickLog.from_arrays([], [], [], [])


def test_positions_from_0_are_shifted():
    assert log_of(position=[0, 0, 1, 1], positions_from=0).position.tolist() == [1, 1, 2, 2]


def test_features_are_joined_by_document_or_by_query_and_document():
    log = log_of()
    frame = pd.DataFrame({"doc_id": ["z", "y", "x"], "bm25": [3.0, 2.0, 1.0]}, index=[9, 9, 4])
    assert log.with_features(frame).documents.X.tolist() == [[1.0], [2.0], [1.0], [3.0]]
    both = Queries.from_arrays(
        [[5.0], [6.0], [7.0], [8.0]], qid=["b", "b", "a", "a"], document_ids=["z", "x", "y", "x"], feature_names=["f"]
    )
    joined = log.with_features(both)
    assert joined.documents.X.tolist() == [[8.0], [7.0], [6.0], [5.0]]
    assert joined.documents.feature_names == ("f",)
    assert joined.pair.tolist() == log.pair.tolist()


def test_a_rating_of_a_product_is_a_feature_and_a_grade_is_none():
    table = pd.DataFrame({"doc_id": ["x", "y", "z"], "rating": [4.5, 3.0, 5.0], "bm25": [1.0, 2.0, 3.0]})
    assert log_of().with_features(table).documents.feature_names == ("rating", "bm25")
    by_query = table.assign(query="a").iloc[:2]
    joined = log_of().with_features(by_query, unknown="drop").documents
    assert joined.feature_names == ("rating", "bm25")
    judged = log_of().with_features(table.assign(grade=[1, 0, 2], rating=0.0)).documents
    assert judged.feature_names == ("rating", "bm25")


def test_unknown_documents_are_refused_or_dropped():
    log = log_of()
    frame = pd.DataFrame({"doc_id": ["x", "z"], "bm25": [1.0, 3.0]})
    with pytest.raises(DataError, match=r"document y \(query a\) .* unknown='drop'"):
        log.with_features(frame)
    kept = log.with_features(frame, unknown="drop")
    assert kept.document_ids.tolist() == ["x", "x", "z"]
    assert kept.documents.X.tolist() == [[1.0], [1.0], [3.0]]
    assert kept.clicks.tolist() == [0, 1, 0]


def test_features_of_the_rows_must_not_contradict_each_other():
    columns = {"query": ["a", "a"], "document": ["x", "x"], "position": [1, 2], "clicked": [0, 1]}
    assert ClickLog.from_arrays(**columns, features=[[1.0], [1.0]]).documents.X.tolist() == [[1.0]]
    with pytest.raises(DataError, match=r"row 1 has other features .* merge=False"):
        ClickLog.from_arrays(**columns, features=[[1.0], [2.0]])


def test_missing_features_are_refused_by_name_or_filled():
    columns = {"query": ["a"] * 3, "document": ["x", "y", "x"], "position": [1, 2, 2], "clicked": [0, 1, 0]}
    X = [[np.nan, 1.0], [5.0, 2.0], [np.nan, 1.0]]
    with pytest.raises(DataError, match=r"row 0 of column 'feature 0' has no value; .*missing='nan', 'zero' or 'min'"):
        ClickLog.from_arrays(**columns, features=X)
    with pytest.raises(DataError, match="row 0 of column 'bm25' has no value"):
        ClickLog.from_arrays(**columns, features=X, feature_names=["bm25", "age"])
    filled = {name: ClickLog.from_arrays(**columns, features=X, missing=name).documents.X for name in ("zero", "min")}
    assert filled["zero"].tolist() == [[0.0, 1.0], [5.0, 2.0]]
    assert filled["min"].tolist() == [[5.0, 1.0], [5.0, 2.0]]
    kept = ClickLog.from_arrays(**columns, features=X, missing="nan").documents
    assert np.isnan(kept.X).tolist() == [[True, False], [False, False]]
    with pytest.raises(DataError, match="row 2 has other features"):
        ClickLog.from_arrays(**columns, features=[*X[:2], [3.0, 1.0]], missing="nan")
