"""Texts of queries, from the files that people have."""

from __future__ import annotations

import gzip

import pytest

from marginrank.data.formats.query_texts import read_query_texts
from marginrank.errors import DataError

TEXTS = {"q1": 'convert a "flat" index', "q2": "größe, in cm"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'q1\tconvert a "flat" index\nq2\tgröße, in cm\n'),
        ("queries", 'q1\tconvert a "flat" index\r\nq2\tgröße, in cm'),
        ("a.csv", 'q1,"convert a ""flat"" index"\nq2,"größe, in cm"\n'),
        ("a.csv", 'lang,query,qid\nen,"convert a ""flat"" index",q1\n\nde,"größe, in cm",q2\n'),
        ("a.tsv", 'query_id\ttext\nq1\tconvert a "flat" index\nq2\tgröße, in cm\nq2\tgröße, in cm\n'),
        ("a.csv", 'query,doc,text\nq1,d1,"convert a ""flat"" index"\nq2,d1,"größe, in cm"\nq2,d2,"größe, in cm"\n'),
        ("a.jsonl", '{"_id": "q1", "text": "convert a \\"flat\\" index"}\n\n{"_id": "q2", "text": "größe, in cm"}\n'),
    ],
)
def test_tables_and_json_lines_with_and_without_names(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert read_query_texts(tmp_path / name) == TEXTS


def test_compressed_files_and_numbers_as_ids(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 7, "query": "seven"}'))
    assert read_query_texts(tmp_path / "a.jsonl.gz") == {"7": "seven"}


def test_a_text_in_quotes_may_have_lines(tmp_path):
    (tmp_path / "a.csv").write_text('q1,"two\nlines"\nq2,one\n')
    assert read_query_texts(tmp_path / "a.csv") == {"q1": "two\nlines", "q2": "one"}


def test_judged_data_may_have_long_documents(tmp_path):
    """Longer than Python's csv takes by default."""
    (tmp_path / "a.csv").write_text(f'qid,text,body\nq1,one,"{"word " * 50_000}"\n')
    assert read_query_texts(tmp_path / "a.csv") == {"q1": "one"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "q1 one\n", ":1: no text; separate id and text by tabs"),
        ("a.csv", "q1,one\nq2\n", ":2: no text; separate id and text by commas"),
        ("a.csv", 'q1,"one\n', ":1: a quote is never closed; close it"),
        ("a.csv", 'qid,text,body\nq1,one,"two\nlines"\nq1,two,"two\nlines"\n', ":4: query q1 has two texts"),
        ("a.tsv", "q1\tone\nq1\ttwo\n", ":2: query q1 has two texts"),
        ("a.jsonl", '{"id": "q1"}\n', ":1: no id and text"),
        ("a.jsonl", '["q1", "one"]\n', ":1: no id and text"),
        ("a.jsonl", '{"id": "q1", "text": "one"}\noops\n', ":2: not JSON"),
        ("a.tsv", "\n", "no query texts"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as found:
        read_query_texts(tmp_path / name)
    assert said in str(found.value)
