"""The example of engines: the learned weights give the same NDCG@10 in each engine as here, and more than RRF."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "hybrid_engines.py"
LIBRARIES = {"SQLite": "sqlite3", "tantivy": "tantivy", "LanceDB": "lancedb", "Qdrant": "qdrant_client"}


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """Run the example with fewer queries and dimensions, which is all that takes long."""
    source = EXAMPLE.read_text(encoding="utf-8")
    assert source.count("150") == 4
    script = tmp_path_factory.mktemp("engines") / EXAMPLE.name
    script.write_text(source.replace("150", "60"), encoding="utf-8")
    ran: dict[str, Any] = runpy.run_path(str(script))
    return ran["figures"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", LIBRARIES)
def test_an_engine_reproduces_the_gain(engine: str, figures: dict[str, dict[str, float]]) -> None:
    if not find_spec(LIBRARIES[engine]):
        pytest.skip(f"{LIBRARIES[engine]} is not installed: make engines")
    found = figures[engine]
    assert found["inside"] == pytest.approx(found["here"], abs=1e-6)
    assert found["inside"] > found["rrf"] + 0.01
