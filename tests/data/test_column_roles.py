"""Columns are recognized by their usual names, and what is unsure is an error that names the parameter."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from marginrank import Queries, from_frame
from marginrank.data.column_roles import choose_columns
from marginrank.data.formats.csv import write_delimited
from marginrank.data.reader import read_queries
from marginrank.errors import ColumnsLeftOutWarning, DataError


@pytest.mark.parametrize("name", ["qid", "query_id", "QueryID", "search_id", "srch_id", "Query", "topic"])
def test_query_ids_are_recognized(name: str) -> None:
    assert choose_columns(["bm25", name]).query == name


@pytest.mark.parametrize(
    "name", ["grade", "label", "Relevance", "rel", "judgment", "Judgement", "rating", "RATING", "y"]
)
def test_grades_are_recognized(name: str) -> None:
    assert choose_columns(["qid", "bm25", name]).grade == name


@pytest.mark.parametrize(
    "name", ["document_id", "doc_id", "docid", "docno", "product_id", "Product ID", "sku", "item_id", "asin", "URL"]
)
def test_document_ids_are_recognized(name: str) -> None:
    assert choose_columns(["qid", "bm25", name]).document == name


def test_ids_are_never_features_unless_they_are_named() -> None:
    columns = ["query_id", "query", "product_id", "sku", "relevance", "rating", "bm25"]
    chosen = choose_columns(columns)
    assert (chosen.query, chosen.document, chosen.grade) == ("query_id", "product_id", "relevance")
    assert (chosen.features, chosen.left_out) == (("rating", "bm25"), ("query", "sku"))
    named = choose_columns(columns, features=["sku", "rating"])
    assert (named.features, named.left_out) == (("sku", "rating"), ())


def test_a_column_named_as_a_feature_holds_no_grades() -> None:
    chosen = choose_columns(["qid", "rating", "sku", "bm25"], features=["rating", "sku"])
    assert (chosen.grade, chosen.document) == (None, None)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["qid", "query_id", "a"], "'qid' and 'query_id' may both be the column of query ids; name it with qid='qid'"),
        (["qid", "label", "grade"], "'label' and 'grade' may both be the column of grades; name it with grade='label'"),
        (["qid", "y", "Rating"], "'y' and 'Rating' may both be the column of grades; name it with grade='y'"),
    ],
)
def test_two_likely_columns_are_an_error(columns: list[str], said: str) -> None:
    with pytest.raises(DataError) as refused:
        choose_columns(columns)
    assert str(refused.value) == said


def test_text_is_no_grade_if_there_are_numbers() -> None:
    assert choose_columns(["qid", "label", "relevance", "a"], text=["label"]).grade == "relevance"
    assert choose_columns(["qid", "label", "a"], text=["label"]).grade == "label"


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ("bm25_*", ("bm25_title", "bm25_body")),
        ("age,bm25_b*", ("age", "bm25_body")),
        (["age", "bm25_*", "age"], ("age", "bm25_title", "bm25_body")),
        ("*", ("bm25_title", "bm25_body", "age", "a,b*")),
        ("a,b*", ("a,b*",)),
    ],
)
def test_features_are_named_by_commas_and_patterns(features: Any, names: tuple[str, ...]) -> None:
    columns = ["qid", "grade", "sku", "name", "bm25_title", "bm25_body", "age", "a,b*"]
    assert choose_columns(columns, features=features, text=["name"]).features == names


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(DataError, match=r"^no column 'dense_\*'; "):
        choose_columns(["qid", "grade", "bm25"], features="dense_*")


ROWS = [
    {"search_id": 1, "Relevance": 2, "sku": 7, "title": "red", "bm25": 0.5, "age": None},
    {"search_id": 1, "Relevance": 0, "sku": 8, "title": "7", "bm25": 1.5, "age": 3.0},
]


def _csv(path: Path) -> Path:
    file = path / "shop.csv"
    pl.DataFrame(ROWS).write_csv(file)
    return file


def _jsonl(path: Path) -> Path:
    file = path / "shop.jsonl"
    file.write_text("".join(json.dumps({**row, "title": f"no {row['title']}"}) + "\n" for row in ROWS))
    return file


def _parquet(path: Path) -> Path:
    file = path / "shop.parquet"
    parquet.write_table(pa.Table.from_pylist(ROWS), file)
    return file


@pytest.mark.parametrize("write", [_jsonl, _parquet])
def test_text_is_left_out_with_a_warning(
    tmp_path: Path, write: Callable[[Path], Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "marginrank")
    with pytest.warns(ColumnsLeftOutWarning, match=r"^columns left out because they hold text or ids: 'title'$"):
        queries = read_queries(write(tmp_path), missing="zero")
    assert queries.feature_names == ("bm25", "age")
    assert queries.document_names.tolist() == ["7", "8"]
    assert queries.grades.tolist() == [2.0, 0.0]
    assert caplog.messages == ["columns  query: search_id, grade: Relevance, document: sku, 2 features: bm25, age"]


def test_text_of_a_frame_is_left_out_with_a_warning() -> None:
    frame = pl.DataFrame(ROWS).with_columns(day=pl.date(2026, 1, 1))
    with pytest.warns(ColumnsLeftOutWarning, match=r"ids: 'title', 'day'$"):
        assert from_frame(frame, missing="nan").feature_names == ("bm25", "age")


def test_a_column_of_a_text_file_that_holds_a_number_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"shop.csv:2: column 'title' holds 'red', not a number; name the feature"):
        read_queries(_csv(tmp_path), missing="zero")


@pytest.mark.parametrize("cells", ["n/a,b", ",b", "b,"])
def test_missing_fields_do_not_decide_whether_a_column_is_text(tmp_path: Path, cells: str) -> None:
    first, second = cells.split(",")
    file = tmp_path / "a.csv"
    file.write_text(f"qid,title,bm25\n1,{first},\n1,{second},2\n")
    with pytest.warns(ColumnsLeftOutWarning, match="'title'"):
        assert read_queries(file, missing="nan").feature_names == ("bm25",)


def test_decimal_commas_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('qid;bm25\n1;"2,5"\n')
    with pytest.raises(DataError, match="write decimal points instead of commas"):
        read_queries(file)


def test_a_written_feature_is_read_as_one(tmp_path: Path) -> None:
    """A rating is a feature beside grades, and would be read as the grade without them."""
    features, file = {"qid": [1, 1], "feature_names": ["rating"]}, tmp_path / "out.csv"
    write_delimited(file, Queries.from_arrays([[1.0], [2.0]], [0, 1], **features))
    assert read_queries(file).feature_names == ("rating",)
    with pytest.raises(DataError, match=r"feature names \['rating'\] are taken"):
        write_delimited(file, Queries.from_arrays([[1.0], [2.0]], **features))


@pytest.mark.parametrize("name", ["label", "sku", "Query"])
def test_a_feature_with_the_name_of_an_id_or_a_grade_is_not_written(tmp_path: Path, name: str) -> None:
    queries = Queries.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, 1], document_ids=["a", "b"], feature_names=[name])
    with pytest.raises(DataError, match="are taken by the other columns"):
        write_delimited(tmp_path / "out.csv", queries)
