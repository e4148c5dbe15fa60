"""The example of engines: the learned weights give the same NDCG@10 in each engine as here, and more than RRF."""

from __future__ import annotations

import json
import lzma
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.export.conftest import Postgres, postgres

__all__ = ["postgres"]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "hybrid_engines.py"
SCIFACT = ROOT.parent / "shared" / "data" / "scifact"
LIBRARIES = {
    "SQLite": "sqlite3",
    "PostgreSQL": "psycopg",
    "DuckDB": "duckdb",
    "tantivy": "tantivy",
    "LanceDB": "lancedb",
    "Qdrant": "qdrant_client",
}
SIZES = "K, N_TRAIN, N_TEST, DIMENSIONS = 30, 150, 300, 150"


def beir_folder(folder: Path) -> Path:
    """Write SciFact as a folder of BEIR, and return it."""
    if not SCIFACT.exists():
        pytest.skip("SciFact is not in shared/data")

    def lines(name: str) -> list[str]:
        with lzma.open(SCIFACT / f"{name}.xz", "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").write_text("\n".join(lines("corpus.jsonl")), encoding="utf-8")
    texts = (line.split("\t", 1) for line in lines("queries.tsv"))
    queries = [json.dumps({"_id": query, "text": text}) for query, text in texts]
    (folder / "queries.jsonl").write_text("\n".join(queries), encoding="utf-8")
    for split in ("train", "test"):
        judged = ("\t".join((q, d, grade)) for q, _, d, grade in map(str.split, lines(f"qrels.{split}.txt")))
        rows = "\n".join(["query-id\tcorpus-id\tscore", *judged])
        (folder / "qrels" / f"{split}.tsv").write_text(rows, encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["pydocs", "scifact"])
def figures(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, float]]:
    """Run the example with fewer queries and dimensions, which is all that takes long."""
    folder = tmp_path_factory.mktemp("engines")
    collection = [("BEIR", str(beir_folder(folder)))] if request.param == "scifact" else []
    source = EXAMPLE.read_text(encoding="utf-8")
    assert source.count(SIZES) == 1
    script = folder / EXAMPLE.name
    script.write_text(source.replace(SIZES, "K, N_TRAIN, N_TEST, DIMENSIONS = 30, 40, 40, 60"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        server = [("PGHOST", str(postgres.folder)), ("PGUSER", "tests"), ("PGDATABASE", "postgres")]
        for name, value in collection + server:
            patch.setenv(name, value)
        ran: dict[str, Any] = runpy.run_path(str(script))
    return ran["figures"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", LIBRARIES)
def test_an_engine_reproduces_the_gain(engine: str, figures: dict[str, dict[str, float]]) -> None:
    if not find_spec(LIBRARIES[engine]):
        pytest.skip(f"{LIBRARIES[engine]} is not installed: make engines")
    if engine == "DuckDB" and engine not in figures:
        pytest.skip("the extension fts of DuckDB can neither be loaded nor downloaded here")
    found = figures[engine]
    assert found["inside"] == pytest.approx(found["here"], abs=1e-6)
    assert found["inside"] > found["rrf"] + 0.01
