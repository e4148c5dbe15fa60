"""The table of peers: settings are chosen on validation queries, and the docs show what the stored cells say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from marginrank import Queries

pytest.importorskip("lightgbm")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def peers():
    folder = ROOT / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("peers", folder / "peers.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def cell(system, setting, valid, test):
    known = {"data": "generated", "fold": 1, "system": system, "setting": setting}
    return {**known, "valid": valid, "ndcg@10": test, "ap": test / 2}


def test_the_choice_is_made_on_validation_queries(peers):
    cells = [
        cell("linear", "a", 0.5, 0.1),
        cell("linear", "b", 0.4, 0.9),
        cell("boosted", "c", 0.6, 0.2),
        cell("CatBoost YetiRank", "d", 0.7, 0.3),
    ]
    rows = {line.split(" | ")[0].strip("| "): line for line in peers.table(cells).splitlines()[2:]}
    assert list(rows) == ["CatBoost YetiRank", "boosted", "linear", "best of ours"]
    assert [rows[name].split(" | ")[-2] for name in rows] == ["0.3000", "0.2000", "0.1000", "0.2000"]


def test_a_system_without_all_folds_has_no_mean(peers):
    one = {**cell("linear", "a", 0.5, 0.1), "data": "mq2008"}
    assert "0.1000" not in peers.table([one])
    assert "0.1000" in peers.table([{**one, "fold": fold} for fold in range(1, 6)])


def test_blended_scores_are_standardized_by_query(peers):
    queries = Queries.from_arrays(np.zeros((5, 1)), [1, 0, 0, 1, 0], group=[3, 2])
    scores = peers.standardized(queries, np.array([3.0, 1.0, 2.0, 7.0, 7.0]))
    np.testing.assert_allclose(scores, [1.5**0.5, -(1.5**0.5), 0.0, 0.0, 0.0])


def test_the_docs_show_the_stored_cells(peers):
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert peers.table(peers.read(peers.RESULTS)) in page
