"""Small made-up data with the names and formats of the real sets, so that every experiment can be run through."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

N_QUERIES = 6


def _letor(folder: Path, prefix: str, n_features: int, rng: np.random.Generator, *, ranks: bool = False) -> None:
    folder.mkdir(parents=True)
    for part in range(1, 6):
        lines = []
        for query in range(N_QUERIES):
            for document in range(12):
                grade = int(document % 6 == 0) + int(document % 4 == 0)
                values = rng.normal(0.3 * grade, 0.5, n_features).clip(-1, 2).round(4)
                shown = [f"{v}" for v in values]
                if ranks:
                    shown = ["NULL" if v < 0 else str(1 + int(50 * (2 - v))) for v in values]
                features = " ".join(f"{at}:{value}" for at, value in enumerate(shown, 1))
                lines.append(f"{grade} qid:{100 * part + query} {features} #docid = D{part}-{query}-{document}\n")
        (folder / f"{prefix}{part}.txt.xz").write_bytes(lzma.compress("".join(lines).encode(), preset=0))


def _table(path: Path, rows: list[list[object]], separator: str, header: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = header + "".join(separator.join(map(str, row)) + "\n" for row in rows)
    path.write_bytes(lzma.compress(text.encode(), preset=0))


def _classes(rng: np.random.Generator, n: int, n_features: int, labels: list[int]) -> list[list[object]]:
    """Rows of whole numbers around a center of their class, with the class at the end."""
    centers = rng.integers(0, 16, (len(labels), n_features))
    chosen = rng.integers(0, len(labels), n)
    values = (centers[chosen] + rng.integers(-2, 3, (n, n_features))).clip(0, 16)
    return [[*row, labels[at]] for row, at in zip(values.tolist(), chosen.tolist(), strict=True)]


def _words(rng: np.random.Generator, n: int) -> str:
    return " ".join(f"word{number}" for number in rng.integers(0, 60, n))


def _text_collections(folder: Path, rng: np.random.Generator) -> None:
    """SciFact and Cranfield with 40 documents and 30 queries, which share words with their relevant documents."""
    texts = [_words(rng, 20) for _ in range(40)]
    answers = [rng.choice(40, 2, replace=False) for _ in range(30)]
    asked = [" ".join(texts[document].split()[:4][0] for document in pair) for pair in answers]
    scifact, cranfield = folder / "scifact", folder / "cranfield"
    corpus = [json.dumps({"_id": f"d{n}", "title": text[:12], "text": text}) for n, text in enumerate(texts)]
    records = [f".I {n}\n.T\n{text[:12]}\n.A\nan author\n.B\na journal\n.W\n{text}" for n, text in enumerate(texts, 1)]
    judged = [[(query, document) for document in pair] for query, pair in enumerate(answers)]
    files = {
        scifact / "corpus.jsonl.xz": corpus,
        scifact / "queries.tsv.xz": [f"q{n}\t{text}" for n, text in enumerate(asked)],
        scifact / "qrels.train.txt.xz": [f"q{q} 0 d{d} 1" for pair in judged[:20] for q, d in pair],
        scifact / "qrels.test.txt.xz": [f"q{q} 0 d{d} 1" for pair in judged[20:] for q, d in pair],
        cranfield / "cran.all.1400.xz": records,
        cranfield / "cran.qry.xz": [f".I {n:03}\n.W\n{text}" for n, text in enumerate(asked, 1)],
        cranfield / "cranqrel.xz": [f"{q + 1} {d + 1} 2" for pair in judged for q, d in pair],
    }
    for path, lines in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=0))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of the real data, with made-up numbers."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    _letor(folder / "letor2-ohsumed", "S", 25, rng)
    _letor(folder / "letor3-ohsumed" / "QueryLevelNorm", "S", 45, rng)
    _letor(folder / "letor4-mq2008", "S", 46, rng)
    _letor(folder / "letor4-mq2008-agg", "A", 25, rng, ranks=True)
    for name, n_features in (("optdigits", 64), ("pendigits", 16)):
        for part in ("tra", "tes"):
            _table(folder / f"uci-{name}" / f"{name}.{part}.xz", _classes(rng, 600, n_features, list(range(10))), ",")
    _table(folder / "uci-page-blocks" / "page-blocks.data.xz", _classes(rng, 800, 10, [1, 1, 1, 2, 3, 4, 5]), " ")
    header = ",".join([*(f"f{at}" for at in range(54)), "Cover_Type"]) + "\n"
    _table(folder / "uci-covertype" / "covtype.csv.xz", _classes(rng, 2000, 54, [1, 2, 3, 4, 5, 6, 7]), ",", header)
    ratings = rng.uniform(-10, 10, (60, 100)).round(2)
    ratings[rng.random(ratings.shape) < 0.2] = 99
    rows = [[int((row != 99).sum()), *row.tolist()] for row in ratings]
    _table(folder / "jester-1" / "jester-data-1.csv.xz", rows, ",")
    pairs = np.argwhere(rng.random((60, 80)) < 0.6)
    films = [[user + 1, item + 1, int(rng.integers(1, 6)), 0] for user, item in pairs.tolist()]
    _table(folder / "movielens-100k" / "ratings.tsv.xz", films, "\t", "user_id\titem_id\trating\ttimestamp\n")
    _text_collections(folder, rng)
    return folder
