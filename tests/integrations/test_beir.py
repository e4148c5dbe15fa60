"""Folders of BEIR and data sets of ir_datasets: judgements and texts, and what is said of broken files."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from marginrank import DataError, evaluate
from marginrank.integrations.beir import from_ir_datasets, read_beir

CORPUS = [
    {"_id": "d1", "title": "Spades", "text": "A spade digs.", "metadata": {}},
    {"_id": "d2", "title": "", "text": "Räke\u2028leaves."},
    {"_id": "d3", "text": "A hoe."},
]
QUERIES = [{"_id": "q2", "text": "rake", "metadata": {}}, {"_id": "q1", "text": "dig"}, {"_id": "q9", "text": "other"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq1\td3\t0\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with one split."""
    for name, records in (("corpus", CORPUS), ("queries", QUERIES)):
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(QRELS, encoding="utf-8")
    return tmp_path


def test_judgements_and_texts_are_read(folder):
    collection = read_beir(folder)
    assert collection.qrels.to_dict() == {"q1": {"d1": 2, "d3": 0}, "q2": {"d2": 1}}
    assert collection.queries == {"q1": "dig", "q2": "rake"}
    assert collection.documents == {"d1": "Spades A spade digs.", "d2": "Räke\u2028leaves.", "d3": "A hoe."}
    run = {"q1": {"d3": 2.0, "d1": 1.0}, "q2": {"d2": 1.0}}
    assert evaluate(collection.qrels, run, "rr").mean == {"rr": 0.75}  # ranks 2 and 1


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1 d1 1\n", r"test\.tsv.*2.*this is not a judgement"),
        ("qrels/test.tsv", QRELS + "q1\td1\t1\n", "document d1 twice for query q1; keep one line"),
        ("qrels/test.tsv", QRELS + "q5\td1\t1\n", "query q5 has judgements, but no text among the queries; add it"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "there are no judgements in this file"),
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\n["d2"]\n', r"corpus\.jsonl.*2.*no document; a line reads"),
        ("qrels/test.tsv", QRELS + "q1\td2\tnan\n", r"test\.tsv.*5: grade nan is not a number; leave out the line"),
        ("qrels/test.tsv", QRELS + "q1\td2\tinf\n", "grade inf is not a number"),
        ("corpus.jsonl", '{"text": "a"}\n', "no document; a line reads"),
        ("corpus.jsonl", '{"_id": "d1", "title": 5}\n', r"corpus\.jsonl:1: no document; a line reads"),
        ("corpus.jsonl", 2 * '{"_id": "d1", "text": "a"}\n', r"corpus\.jsonl:2: document d1 twice; keep one line"),
    ],
)
def test_broken_files_are_named(name, text, reason, folder):
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=reason):
        read_beir(folder)


def test_other_splits_are_named(folder):
    with pytest.raises(DataError, match=r"train\.tsv: no such file; the splits are test"):
        read_beir(folder, "train")
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(DataError, match=r"corpus\.jsonl: no such file, which a BEIR folder has"):
        read_beir(folder)


def test_a_data_set_of_ir_datasets_is_taken(tmp_path):
    ir_datasets = pytest.importorskip("ir_datasets", reason="ir_datasets is not installed: pip install ir-datasets")
    files = {"docs.tsv": "d1\tA spade.\nd2\tA rake.\n", "queries.tsv": "q2\trake\nq1\tdig\n"}
    files["qrels.txt"] = "q1 0 d1 2\nq2 0 d2 1\nq1 0 d2 0\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    dataset = ir_datasets.create_dataset(*(str(tmp_path / name) for name in files))
    collection = from_ir_datasets(dataset)
    assert collection.qrels.to_dict() == {"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}}
    assert collection.queries == {"q1": "dig", "q2": "rake"}
    assert collection.documents == {"d1": "A spade.", "d2": "A rake."}


class DataSet:
    """What is read of a data set of ir_datasets."""

    def __init__(self, qrels, queries, documents):
        self.qrels, self.queries, self.documents = qrels, queries, documents

    def qrels_iter(self):
        return (
            SimpleNamespace(query_id=query, doc_id=document, relevance=grade) for query, document, grade in self.qrels
        )

    def queries_iter(self):
        return (SimpleNamespace(query_id=name, default_text=lambda text=text: text) for name, text in self.queries)

    def docs_iter(self):
        return (SimpleNamespace(doc_id=name, default_text=lambda text=text: text) for name, text in self.documents)


def test_a_data_set_that_contradicts_itself_is_refused():
    qrels, queries, documents = [("q1", "d1", 1)], [("q1", "dig")], [("d1", "A spade.")]
    assert from_ir_datasets(DataSet(2 * qrels, 2 * queries, 2 * documents)).documents == {"d1": "A spade."}
    with pytest.raises(DataError, match="document d1 has the grades 1 and 2 for query q1; keep one"):
        from_ir_datasets(DataSet([*qrels, ("q1", "d1", 2)], queries, documents))
    with pytest.raises(DataError, match="query q1 has two texts; keep one"):
        from_ir_datasets(DataSet(qrels, [*queries, ("q1", "rake")], documents))
    with pytest.raises(DataError, match="document d1 has two texts; keep one"):
        from_ir_datasets(DataSet(qrels, queries, [*documents, ("d1", "A rake.")]))
