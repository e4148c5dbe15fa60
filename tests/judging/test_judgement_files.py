"""Files of judgements: what other tools write is read, and what is written is read back."""

from __future__ import annotations

import csv
import json
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginrank import evaluate, read
from marginrank.data import Run
from marginrank.data.formats.trec import read_qrels
from marginrank.errors import DataError
from marginrank.judging import Judgements, JudgementStore, read_judgements, write_judgements

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_quepid = pytest.mark.skipif(not (SHARED / "quepid").exists(), reason="the Quepid sample is not here")
needs_srw = pytest.mark.skipif(not (SHARED / "esci-srw").exists(), reason="the OpenSearch sample is not here")


def rows_of(tmp_path, name, content, **options):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return list(read_judgements(tmp_path / name, **options).rows())


def test_a_case_of_quepid(tmp_path):
    # Padded rows, a query without ratings, and a blank before a query that a spreadsheet could take for a formula.
    content = "query,docid,rating\nstar wars,11,3\nstar wars,12,0\n =cmd,13,1\nnothing,,\n"
    assert rows_of(tmp_path, "case_7_judgements.csv", content) == [
        ("=cmd", "13", "case_7_judgements", 1.0),
        ("star wars", "11", "case_7_judgements", 3.0),
        ("star wars", "12", "case_7_judgements", 0.0),
    ]
    assert rows_of(tmp_path, "a.csv", "query,docid,rating\nq,1,2\nnothing\n", rater_name="ann") == [
        ("q", "1", "ann", 2.0)
    ]


def test_a_detailed_case_of_quepid(tmp_path):
    content = (
        "Team Name,Case Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,price\n"
        "T,C,6789,milk,d1,1,Milk,3,5\nT,C,6789,milk,d2,2,Soap,,5\n"
    )
    assert rows_of(tmp_path, "detailed.csv", content) == [("milk", "d1", "detailed", 3.0)]


def test_a_book_of_quepid_has_a_column_for_each_rater(tmp_path):
    content = 'query,docid,Ann Lee,"Roe, Bob",Anonymous\nmilk,d1,3.0,2.0,\nmilk,d2,,0.0,1.0\n'
    assert rows_of(tmp_path, "book.csv", content) == [
        ("milk", "d1", "Ann Lee", 3.0),
        ("milk", "d1", "Roe, Bob", 2.0),
        ("milk", "d2", "Anonymous", 1.0),
        ("milk", "d2", "Roe, Bob", 0.0),
    ]


def test_json_of_a_book_and_of_a_case_of_quepid(tmp_path):
    pair = {"query_text": "milk", "doc_id": "d1", "position": 1, "document_fields": "{}"}
    book = {
        "name": "Book",
        "query_doc_pairs": [
            pair
            | {
                "judgements": [
                    {"rating": 3.0, "unrateable": False, "user_email": "ann@example.org"},
                    {"rating": None, "unrateable": True, "user_email": "bob@example.org"},
                    {"rating": 1.0, "unrateable": False},
                ]
            },
            {"query_text": "soap", "doc_id": 7, "judgements": []},
        ],
    }
    assert rows_of(tmp_path, "book.json", json.dumps(book)) == [
        ("milk", "d1", "Anonymous", 1.0),
        ("milk", "d1", "ann@example.org", 3.0),
    ]
    query = {"query_text": "milk", "ratings": [{"doc_id": "d1", "rating": 2}, {"doc_id": "d2", "rating": None}]}
    case = {"case_name": "Shop", "queries": [query]}
    assert rows_of(tmp_path, "case.json", json.dumps(case)) == [("milk", "d1", "Shop", 2.0)]


def test_snapshots_of_quepid(tmp_path):
    basic = "query,docid,rating\nmilk,d1,3\nmilk,d2,\n"
    assert rows_of(tmp_path, "basic_snapshot.csv", basic) == [("milk", "d1", "basic_snapshot", 3.0)]
    (tmp_path / "snapshot.csv").write_text(
        "Snapshot Name,Snapshot Time,Case ID,Query Text,Doc ID,Doc Position\ns,2023,1,milk,d1,1\n"
    )
    with pytest.raises(DataError, match=r"snapshot.csv: this snapshot has no grades; export it .* basic format"):
        read_judgements(tmp_path / "snapshot.csv")


def test_a_judgement_list_of_opensearch_and_what_it_answers(tmp_path):
    ratings = [{"docId": "B1", "rating": "3.000"}, {"docId": "B2", "rating": "0.000"}]
    record = {
        "name": "List",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [{"query": "red dress", "ratings": ratings}],
    }
    expected = [("red dress", "B1", "List", 3.0), ("red dress", "B2", "List", 0.0)]
    assert rows_of(tmp_path, "list.json", json.dumps(record)) == expected
    answer = {"took": 36, "hits": {"total": {"value": 1}, "hits": [{"_id": "x", "_source": record}]}}
    assert rows_of(tmp_path, "answer.json", json.dumps(answer)) == expected
    assert {rater for _, _, rater, _ in rows_of(tmp_path, "l.json", json.dumps(record), rater_name="llm")} == {"llm"}


def test_trec_judgements_with_unjudged_documents(tmp_path):
    content = "101 0 d1 2\n101 0 d2 -1\n101 0 d3 -2\n102 Q0 d1 0\n"
    expected = [("101", "d1", "pool", 2.0), ("101", "d3", "pool", 0.0), ("102", "d1", "pool", 0.0)]
    assert rows_of(tmp_path, "pool.qrels", content) == expected
    assert rows_of(tmp_path, "pool.txt", content) == expected


def test_spreadsheets_with_semicolons_a_byte_order_mark_and_wide_columns(tmp_path):
    content = "\ufeffQuery;Doc ID;ann;bob\r\nmilk;7;2;\r\nmilk;8;;-1\r\nmilk;9;0;1\r\n"
    assert rows_of(tmp_path, "sheet.csv", content) == [
        ("milk", "7", "ann", 2.0),
        ("milk", "9", "ann", 0.0),
        ("milk", "9", "bob", 1.0),
    ]
    content = "query\tdoc\tcomment\tann\tbob\nmilk\td1\tfine, really\t1\t2\n"
    (tmp_path / "sheet.tsv").write_text(content)
    with pytest.raises(DataError, match=r"sheet.tsv:2: column 'comment' holds .*; name the column of grades"):
        read_judgements(tmp_path / "sheet.tsv")
    assert rows_of(tmp_path, "sheet.tsv", content, raters=["ann", "bob"])[1] == ("milk", "d1", "bob", 2.0)
    assert rows_of(tmp_path, "sheet.tsv", content, grade="ann") == [("milk", "d1", "sheet", 1.0)]
    (tmp_path / "sheet.xlsx").write_bytes(b"PK\3\4")
    with pytest.raises(DataError, match="this is a spreadsheet; save it as CSV"):
        read_judgements(tmp_path / "sheet.xlsx")


def test_json_lines_and_parquet_shuffled_with_an_odd_index(tmp_path):
    frame = pd.DataFrame(
        {"rater": ["b", "a", "a"], "label": [1.0, np.nan, 2.5], "doc": [1, 2, 3], "query": ["x", "x", "y"]},
        index=[5, 5, 0],
    )
    frame.to_json(tmp_path / "j.jsonl", orient="records", lines=True)
    frame.iloc[[2, 0, 1]].to_parquet(tmp_path / "j.parquet")
    for name in ("j.jsonl", "j.parquet"):
        assert list(read_judgements(tmp_path / name).rows()) == [("x", "1", "b", 1.0), ("y", "3", "a", 2.5)]


def test_a_database_of_the_page(tmp_path):
    with JudgementStore(tmp_path / "judged.db") as store:
        store.add_documents([("q", "a")])
        store.decide("1", 1, "ann", 2.0)
    assert list(read_judgements(tmp_path / "judged.db").rows()) == [("q", "a", "ann", 2.0)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", "[1, 2]", "neither a case nor a book of Quepid nor a judgement list of OpenSearch"),
        ("a.json", "{", r"a.json: this is not JSON"),
        ("a.json", '{"judgmentRatings": [{"query": "x"}]}', "judgmentRatings is not as expected"),
        ("a.json", '{"judgmentRatings": 3}', "judgmentRatings is not as expected"),
        (
            "a.json",
            '{"judgmentRatings": [{"query": "\\ud800", "ratings": [{"docId": 1, "rating": 2}]}]}',
            "not valid Unicode",
        ),
        ("a.jsonl", '{"query": 1}\n{"query": "\\ud800"}\n', "a.jsonl:2: .* not valid Unicode"),
        ("a.parquet", "PAR1PAR1", "a.parquet: this cannot be read as Parquet"),
        ("a.csv", "query,docid\n1,a\n", "no column of grades among 'query', 'docid'; name it with grade="),
        ("a.csv", "query,docid,rater,grade\n1,,x,2\n", "a.csv:2: this judgement has no document"),
        ("a.csv", "query,docid,rater,grade\n1,a,,2\n", "a.csv:2: this judgement has no rater"),
        ("a.csv", "query,docid,rating\n1,a,-3\n", "grade 0 is -3"),
        ("a.csv", "query,docid,rating\n1,a,\n", "no judgement has a grade"),
        ("a.qrels", "1 0 a 1\n1 0 a\n", "a.qrels:2: 3 columns"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said):
        read_judgements(tmp_path / name)


TABLE = Judgements.of(["7", "7", "8", "8"], ["a", "b", "a", "c,1"], ["ann", "ann", "ann", "bob"], [2, 0.5, 0, 1])


def test_csv_and_quepid_are_read_back(tmp_path):
    for kind in ("csv", "quepid"):
        write_judgements(tmp_path / "j.csv", TABLE, kind)
        assert list(read_judgements(tmp_path / "j.csv").rows()) == list(TABLE.rows())
    single = TABLE.of_raters(["ann"])
    write_judgements(tmp_path / "ann.csv", single, "quepid")
    assert (tmp_path / "ann.csv").read_text() == "query,docid,rating\n7,a,2\n7,b,0.5\n8,a,0\n"
    assert list(read_judgements(tmp_path / "ann.csv").rows()) == list(single.rows())


def test_trec_judgements_are_those_of_the_reader_and_judge_a_run(tmp_path):
    table = Judgements.of(["7", "7", "8"], ["a", "b", "a"], "x", [2, 0, 1])
    write_judgements(tmp_path / "j.qrels", table, "trec")
    assert (tmp_path / "j.qrels").read_text() == "7 0 a 2\n7 0 b 0\n8 0 a 1\n"
    run = Run.from_dict({"7": {"b": 2.0, "a": 1.0}, "8": {"a": 1.0}})
    assert evaluate(read_qrels(tmp_path / "j.qrels"), run, "rr")["rr"].tolist() == [0.5, 1.0]


def test_the_csv_is_what_read_takes(tmp_path):
    write_judgements(tmp_path / "j.csv", TABLE.of_raters(["ann"]))
    judged = read(tmp_path / "j.csv", features=())
    assert judged.grades.tolist() == [2.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLE, "one grade per document, and here are those of ann, bob"),
        (TABLE.of_raters(["ann"]), "the grade 0.5 is fractional"),
        (Judgements.of(["red dress"], ["a"], "x", [1]), "'red dress' has blanks"),
    ],
)
def test_what_trec_files_cannot_hold_is_refused(tmp_path, table, said):
    with pytest.raises(DataError, match=said):
        write_judgements(tmp_path / "j.qrels", table, "trec")


@needs_quepid
def test_the_raters_of_the_quepid_sample():
    path = SHARED / "quepid" / "judgements_anonymised.csv.xz"
    with lzma.open(path, "rt") as file:
        expected = sorted(
            (row["query"].strip(), row["doc_id"], row["rater"], float(row["grade"]))
            for row in csv.DictReader(file)
            if row["grade"]
        )
    assert sorted(read_judgements(path).rows()) == expected
    combined = read_judgements(SHARED / "quepid" / "case_ratings.csv.xz")
    assert combined.raters == ("case_ratings",)
    assert combined.levels.tolist() == [0.0, 1.0, 2.0, 3.0]


@needs_srw
def test_the_opensearch_sample():
    judgements = read_judgements(SHARED / "esci-srw" / "esci_us_judgments.json.xz")
    assert repr(judgements) == "Judgements(6,678 grades of 6,678 documents of 150 queries by ESCI Judgments)"
    assert judgements.levels.tolist() == [0.0, 1.0, 10.0, 100.0]
