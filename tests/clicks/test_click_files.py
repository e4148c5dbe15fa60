"""Click logs from files and frames."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from marginrank import DataError
from marginrank.clicks import click_files, read_clicks, read_ubi


def frame_of(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "query": rng.choice(["red shoes", "a, b", "ü"], n),
            "doc_id": rng.integers(0, 9, n),
            "rank": rng.integers(1, 5, n),
            "clicked": rng.integers(0, 2, n),
            "bucket": rng.choice(["A", "B"], n),
        }
    )
    return frame.set_index(rng.integers(0, 50, n))


def written(frame, folder, suffix):
    path = folder / f"log{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in suffix else ",")
    return path


def content(log):
    queries = log.documents.query_ids[log.query].tolist()
    systems = [log.system_names[number] for number in log.system]
    columns = (queries, log.document_ids.tolist(), log.position.tolist(), systems)
    return list(zip(*columns, log.shown.tolist(), log.clicks.tolist(), strict=True))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", "frame", "polars"])
def test_all_forms_hold_the_same_log(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(click_files, "_CSV_BLOCK", 2000)
    monkeypatch.setattr(click_files, "_PARQUET_ROWS", 64)
    frame = frame_of()
    source = {"frame": frame, "polars": pl.from_pandas(frame)}.get(suffix)
    source = written(frame, tmp_path, suffix) if source is None else source
    log = read_clicks(source)
    rows = frame[["query", "doc_id", "rank", "bucket", "clicked"]].to_numpy().tolist()
    assert content(log) == [(q, str(d), k, s, 1.0, float(c)) for q, d, k, s, c in rows]
    small = read_clicks(source, aggregate=True)
    assert sorted(content(small)) == sorted(content(log.aggregated()))


def test_errors_name_the_row_of_the_file_whatever_its_block(tmp_path, monkeypatch):
    monkeypatch.setattr(click_files, "_CSV_BLOCK", 2000)
    frame = frame_of()
    frame.iloc[333, 2] = 0
    path = written(frame, tmp_path, ".csv")
    for aggregate in (False, True):
        with pytest.raises(DataError, match=r"log\.csv: row 333 of column 'position' is 0.*positions_from=0"):
            read_clicks(path, aggregate=aggregate)
    assert read_clicks(path, positions_from=0).depth == 5


def test_columns_are_named_or_recognized():
    frame = frame_of().rename(columns={"rank": "place"})
    with pytest.raises(DataError, match=r"no column of positions among .*; name it with position=$"):
        read_clicks(frame)
    nothing = frame.rename(columns={"clicked": "hit", "doc_id": "article"})
    missing = r"no columns of document ids, positions, clicks among .* name them with document=, position=, clicked=$"
    with pytest.raises(DataError, match=missing):
        read_clicks(nothing)
    assert read_clicks(frame, position="place").depth == 4
    with pytest.raises(DataError, match="no column 'plaec'; did you mean 'place'"):
        read_clicks(frame, position="plaec")


@pytest.mark.parametrize("aggregate", [False, True])
def test_impressions_are_kept_apart(aggregate):
    frame = frame_of(8).assign(rank=[1, 2] * 4, doc_id=range(8), impression_id=[1, 1, 2, 2, 3, 3, 4, 4])
    log = read_clicks(frame, merge=False, aggregate=aggregate)
    assert log.documents.query_ids.tolist() == [1, 2, 3, 4]
    with pytest.raises(DataError, match="impression="):
        read_clicks(frame_of(8), merge=False, aggregate=aggregate)


def test_features_of_the_table_are_kept():
    frame = frame_of()
    frame["bm25"] = frame["doc_id"] / 2.0
    log = read_clicks(frame, features=["bm25"])
    assert log.documents.feature_names == ("bm25",)
    assert log.documents.X[:, 0].tolist() == [int(name) / 2 for name in log.documents.document_ids]


def test_a_log_without_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="no rows"):
        read_clicks(frame_of(0))
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_clicks(tmp_path / "absent.csv")


def ubi_event(action, query, name, place):
    attributes = {"object": {"object_id": name}, "position": {"ordinal": place}}
    return {"action_name": action, "query_id": query, "user_query": "ps4", "event_attributes": attributes}


def test_clicks_without_impressions_are_refused_or_dropped(tmp_path):
    path = tmp_path / "ubi.ndjson"
    events = [ubi_event("impression", "q", "x", 1), ubi_event("click", "q", "x", 1), ubi_event("click", "q", "y", 2)]
    path.write_text("\n".join(map(json.dumps, [{"index": {}}, *events])) + "\n")
    with pytest.raises(DataError, match=r"ubi.ndjson:4: a click on document y .* unmatched='drop'"):
        read_ubi(path)
    log = read_ubi(path, unmatched="drop")
    assert log.document_ids.tolist() == ["x"]
    assert log.clicks.tolist() == [1.0]


def test_the_sample_of_user_behavior_insights(shared_data):
    path = shared_data("esci-srw") / "ubi_queries_events.ndjson.xz"
    with pytest.raises(DataError, match="positions_from=0"):
        read_ubi(path, application="esci_ubi_sample", unmatched="drop")
    log = read_ubi(path, application="esci_ubi_sample", positions_from=0)
    assert len(log) == 1000
    assert log.clicks.sum() == 60
    assert log.position.min() == 1
    assert "ps4" in log.documents.query_ids.tolist()
