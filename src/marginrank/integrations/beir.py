"""Collections in the folders of BEIR, and those of ir_datasets: judgements, and texts of queries and documents."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from marginrank.data.formats.query_texts import read_query_texts
from marginrank.data.formats.text_files import NOT_UTF8, line_blocks
from marginrank.data.formats.trec import Qrels
from marginrank.errors import DataError

_HEAD: Final = ("query-id", "corpus-id", "score")


@dataclass(frozen=True)
class TextCollection:
    """Judgements of one split, the texts of its judged queries, and those of all documents, by id."""

    qrels: Qrels
    queries: dict[str, str]
    documents: dict[str, str]


def read_beir(folder: str | Path, split: str = "test") -> TextCollection:
    """Read ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``.

    The text of a document is its title, if it has one, and its text, separated by a blank.

    Args:
        folder: The folder of one collection.
        split: The judgements, such as ``train``, ``dev`` or ``test``.

    Raises:
        DataError: A file is not there, or a line of it is not as it should be.
    """
    folder = Path(folder)
    judged = folder / "qrels" / f"{split}.tsv"
    for path in (folder / "corpus.jsonl", folder / "queries.jsonl", judged):
        if not path.is_file():
            splits = ", ".join(sorted(one.stem for one in (folder / "qrels").glob("*.tsv")))
            what = f"; the splits are {splits}" if path == judged and splits else ", which a BEIR folder has"
            raise DataError(f"no such file{what}", path=path)
    qrels = _read_qrels(judged)
    texts = read_query_texts(folder / "queries.jsonl")
    queries = _judged_texts(qrels, texts, judged)
    return TextCollection(qrels, queries, _read_corpus(folder / "corpus.jsonl"))


def from_ir_datasets(dataset: Any) -> TextCollection:
    """Make a collection of a data set of ir_datasets, such as ``ir_datasets.load("beir/scifact/test")``."""
    grades: dict[str, dict[str, float]] = {}
    for one in dataset.qrels_iter():
        known = grades.setdefault(one.query_id, {}).setdefault(one.doc_id, one.relevance)
        if known != one.relevance:
            raise DataError(
                f"document {one.doc_id} has the grades {known} and {one.relevance} for query {one.query_id}; keep one"
            )
    qrels = Qrels.from_dict(grades)
    texts = _texts(((one.query_id, one.default_text()) for one in dataset.queries_iter()), "query")
    queries = _judged_texts(qrels, texts, None)
    documents = _texts(((one.doc_id, one.default_text()) for one in dataset.docs_iter()), "document")
    return TextCollection(qrels, queries, documents)


def _texts(pairs: Iterable[tuple[str, str]], what: str) -> dict[str, str]:
    """Return texts by id, and refuse two texts of one id."""
    texts: dict[str, str] = {}
    for name, text in pairs:
        if texts.setdefault(name, text) != text:
            raise DataError(f"{what} {name} has two texts; keep one")
    return texts


def _judged_texts(qrels: Qrels, texts: dict[str, str], path: Path | None) -> dict[str, str]:
    for topic in qrels.topics.tolist():
        if topic not in texts:
            raise DataError(f"query {topic} has judgements, but no text among the queries; add it", path=path)
    return {topic: texts[topic] for topic in qrels.topics.tolist()}


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    for block in line_blocks(path):
        for line in block.decode("utf-8", NOT_UTF8).removesuffix("\n").split("\n"):
            number += 1
            if line.strip():
                yield number, line.removesuffix("\r")


def _read_qrels(path: Path) -> Qrels:
    grades: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        fields = line.split("\t")
        if number == 1 and fields[0] == _HEAD[0]:
            continue
        try:
            query, document, grade = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            shape = "\\t".join(_HEAD)
            raise DataError(f"this is not a judgement; a line reads {shape}", path=path, line=number) from None
        if not math.isfinite(grade):
            raise DataError(f"grade {fields[2]} is not a number; leave out the line", path=path, line=number)
        if document in grades.setdefault(query, {}):
            raise DataError(f"document {document} twice for query {query}; keep one line", path=path, line=number)
        grades[query][document] = grade
    if not grades:
        raise DataError("there are no judgements in this file; give another split", path=path)
    return Qrels.from_dict(grades)


def _read_corpus(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in _lines(path):
        try:
            document = json.loads(line)
            name, parts = str(document["_id"]), (document.get("title"), document.get("text"))
            text = " ".join(part for part in parts if part)
        except (ValueError, TypeError, KeyError, AttributeError):
            problem = 'no document; a line reads {"_id": "d1", "title": "...", "text": "..."}'
            raise DataError(problem, path=path, line=number) from None
        if name in texts:
            raise DataError(f"document {name} twice; keep one line", path=path, line=number)
        texts[name] = text
    return texts
