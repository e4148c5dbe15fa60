"""SciFact and Cranfield as judged queries whose features are the scores of five retrievers."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from marginrank.data.queries import Queries
from marginrank.datasets.python_docs import Counts, bm25, latent_cosine, ngram_cosine

#: Documents that each retriever contributes to the candidates of a query.
TOP: Final = 50


class Texts(NamedTuple):
    """Documents as title and text, queries, and the grades of judged documents."""

    documents: Mapping[str, tuple[str, str]]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


def _lines(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def _scifact(folder: Path) -> Texts:
    records = [json.loads(line) for line in _lines(folder / "corpus.jsonl.xz")]
    queries = dict(line.split("\t", 1) for line in _lines(folder / "queries.tsv.xz"))
    grades: dict[str, dict[str, int]] = {}
    for part in ("train", "test"):
        for line in _lines(folder / f"qrels.{part}.txt.xz"):
            query, _, document, grade = line.split()
            grades.setdefault(f"{part}/{query}", {})[document] = int(grade)
    texts = {query: queries[query.split("/")[1]] for query in grades}
    return Texts({record["_id"]: (record["title"], record["text"]) for record in records}, texts, grades)


def _cranfield(folder: Path) -> Texts:
    """Codes 1 to 4 are relevant, as the direction of the codes is disputed; queries go by their ordinal numbers."""
    documents = {}
    for record in "\n".join(_lines(folder / "cran.all.1400.xz")).split(".I ")[1:]:
        number, rest = record.split("\n", 1)
        title, text = rest.split(".A\n", 1)[0].removeprefix(".T\n"), rest.split(".W\n", 1)[1]
        documents[number.strip()] = (title, text)
    asked = re.split(r"\.I \d+\n\.W\n", "\n".join(_lines(folder / "cran.qry.xz")))[1:]
    queries = {str(number): text for number, text in enumerate(asked, 1)}
    grades: dict[str, dict[str, int]] = {}
    for line in _lines(folder / "cranqrel.xz"):
        query, document, code = line.split()
        if int(code) > 0:
            grades.setdefault(query, {})[document] = 1
    return Texts(documents, {query: queries[query] for query in grades}, grades)


@cache
def read_texts(data: Path, name: str) -> Texts:
    """Read ``scifact`` or ``cranfield``."""
    return {"scifact": _scifact, "cranfield": _cranfield}[name](data / name)


@cache
def collection(data: Path, name: str) -> Queries:
    """Return the candidates of all queries of ``scifact`` or ``cranfield``, with the scores of five retrievers."""
    texts = read_texts(data, name)
    titles, bodies = zip(*texts.documents.values(), strict=True)
    whole = [f"{title} {body}" for title, body in zip(titles, bodies, strict=True)]
    queries = list(texts.queries.values())
    counts = Counts.of(whole, queries)
    scores = {
        "bm25": bm25(counts),
        "bm25_title": bm25(Counts.of(titles, queries)),
        "bm25_long": bm25(counts, k1=0.9, b=0.4),
        "vectors": latent_cosine(counts),
        "ngrams": ngram_cosine(whole, queries),
    }
    return _candidates(texts, list(scores), [column.round(6) for column in scores.values()])


def _candidates(texts: Texts, names: Sequence[str], scores: Sequence[np.ndarray]) -> Queries:
    documents, queries = np.array(list(texts.documents)), np.array(list(texts.queries))
    found = np.zeros(scores[0].shape, dtype=np.bool_)
    for column in scores:
        np.put_along_axis(found, np.argsort(-column, axis=1, kind="stable")[:, :TOP], values=True, axis=1)
    rows, columns = np.nonzero(found)
    grades = [texts.grades[query].get(document, 0) for query, document in zip(queries[rows], documents[columns])]  # noqa: B905
    return Queries.from_arrays(
        np.stack([column[rows, columns] for column in scores], axis=1),
        grades,
        qid=queries[rows],
        document_ids=documents[columns],
        feature_names=names,
    )
