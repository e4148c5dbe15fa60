"""What is judged: tables, runs, queries, and what raters do not see."""

from __future__ import annotations

import lzma
from pathlib import Path

import pandas as pd
import pytest

from marginrank.errors import DataError
from marginrank.judging import read_documents

TABLE = "qid,query,doc_id,rank,score,title,body,price,grade,rater\n"
ROWS = (
    "1,red shoes,d1,1,9.5,Red shoe,A shoe that is red,10,2,ann\n"
    '1,red shoes,d2,2,8.5,Blue shoe,"A shoe, blue",20,,\n'
    "2,hats,d1,1,7.5,Red shoe,A shoe that is red,10,-1,\n"
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "documents.csv"
    path.write_text(TABLE + ROWS)
    return path


def pairs(documents):
    return [(one.query_id, one.document_id) for one in documents]


def test_raters_see_text_but_no_grades_ranks_scores_and_numbers(table):
    documents = read_documents(table)
    assert pairs(documents) == [("1", "d1"), ("1", "d2"), ("2", "d1")]
    one = documents[1]
    assert (one.query, one.title, one.fields) == ("red shoes", "Blue shoe", (("body", "A shoe, blue"),))


def test_fields_are_chosen_in_order_the_title_first(table):
    one = read_documents(table, fields=["body,price"])[0]
    assert (one.title, one.fields) == ("A shoe that is red", (("price", "10"),))
    with pytest.raises(DataError, match=r"documents.csv: no column 'prize'; did you mean 'price'\?"):
        read_documents(table, fields=["prize"])


def test_json_lines_and_parquet_are_the_same(table, tmp_path):
    frame = pd.read_csv(table)
    frame.to_json(tmp_path / "documents.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "documents.parquet", index=False)
    expected = read_documents(table)
    assert read_documents(tmp_path / "documents.jsonl") == expected
    assert read_documents(tmp_path / "documents.parquet") == expected


def test_unjudged_documents_are_those_without_a_grade(table):
    assert pairs(read_documents(table, unjudged=True)) == [("1", "d2"), ("2", "d1")]


def test_documents_without_queries_are_judged_for_those_of_runs(tmp_path):
    (tmp_path / "documents.csv").write_text("docid,name\na,Apple\nb,Bread\nc,Cheese\n")
    (tmp_path / "one.run").write_text("t1 Q0 a 1 0.5 x\nt1 Q0 b 2 0.9 x\nt2 Q0 c 1 0.1 x\n")
    (tmp_path / "next.csv").write_text("query_id,document_id,leverage\nt1,c,0.3\nt1,b,0.2\n")
    (tmp_path / "queries.csv").write_text("id,text,need\nt1,fruit,Something sweet\n")
    files = [tmp_path / "one.run", tmp_path / "next.csv"]
    documents = read_documents(tmp_path / "documents.csv", pairs=files, queries=tmp_path / "queries.csv")
    assert pairs(documents) == [("t1", "b"), ("t1", "a"), ("t2", "c"), ("t1", "c")]
    assert (documents[0].query, documents[0].query_fields, documents[0].title) == (
        "fruit",
        (("need", "Something sweet"),),
        "Bread",
    )
    assert documents[2].query == "t2"
    assert pairs(read_documents(tmp_path / "documents.csv", pairs=files, depth=1)) == [
        ("t1", "b"),  # by score, not by the rank of the run
        ("t2", "c"),
        ("t1", "c"),
    ]
    with pytest.raises(DataError, match=r"no column of query ids among 'docid', 'name'; name it with qid=, or"):
        read_documents(tmp_path / "documents.csv")


def test_the_text_of_another_query_is_not_shown(table, tmp_path):
    (tmp_path / "pairs.csv").write_text("query,doc\n2,d2\n1,d2\n")
    documents = read_documents(table, pairs=[tmp_path / "pairs.csv"])
    assert [one.query for one in documents] == ["2", "red shoes"]
    assert {one.title for one in documents} == {"Blue shoe"}


def test_documents_that_are_missing_are_left_out_with_a_warning(table, tmp_path):
    (tmp_path / "pairs.csv").write_text("query,doc\n1,d1\n1,d9\n1,d8\n")
    with pytest.warns(UserWarning, match=r"2 of 3 documents to judge are not in the table: d8, d9"):
        assert pairs(read_documents(table, pairs=[tmp_path / "pairs.csv"])) == [("1", "d1")]
    (tmp_path / "pairs.csv").write_text("query,doc\n1,d9\n")
    with pytest.warns(UserWarning, match="1 of 1"), pytest.raises(DataError, match="no document to judge"):
        read_documents(table, pairs=[tmp_path / "pairs.csv"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("query,title\n1,a\n", r"no column of document ids among 'query', 'title'; name it with document_id="),
        ("query,docid\n,a\n", r"documents.csv:2: this row has no query id"),
        ("query,docid\n", "no document to judge"),
        ("", "empty"),
        ("query,docid,title\n1,a\n", r"documents.csv:2: 2 columns, and 3 in the first line"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path, content, said):
    (tmp_path / "documents.csv").write_text(content)
    with pytest.raises(DataError, match=said):
        read_documents(tmp_path / "documents.csv")


def test_a_depth_without_runs_is_refused(table):
    with pytest.raises(DataError, match="name them with pairs="):
        read_documents(table, depth=3)


QUEPID = Path(__file__).parents[3] / "shared" / "data" / "quepid"


@pytest.mark.skipif(not QUEPID.exists(), reason="the Quepid sample is not here")
@pytest.mark.filterwarnings("ignore:.*are not in the table")
def test_the_pool_of_a_shop_search(tmp_path):
    for name in ("documents", "runs", "queries"):
        (tmp_path / f"{name}.csv").write_bytes(lzma.decompress((QUEPID / f"{name}.csv.xz").read_bytes()))
    runs = pd.read_csv(tmp_path / "runs.csv", dtype=str)
    known = set(pd.read_csv(tmp_path / "documents.csv", dtype=str)["doc_id"])
    runs = runs[(runs["rank"].astype(int) <= 5) & runs["doc_id"].isin(known)]
    expected = set(zip(runs["query"], runs["doc_id"], strict=True))
    documents = read_documents(tmp_path / "documents.csv", pairs=[tmp_path / "runs.csv"], depth=5)
    assert set(pairs(documents)) == expected
    assert all(one.title for one in documents)
