"""What clicks are worth: the tables of the docs are those of the stored results."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "pictures" / "clicks-training.json"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("clicks_training", ROOT / "benchmarks" / "clicks_training.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["clicks_training"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["clicks_training"]


@pytest.fixture(scope="module")
def results():
    return json.loads(STORED.read_text(encoding="utf-8"))


def test_the_tables_are_made_of_the_results(script, results):
    assert STORED.with_suffix(".txt").read_text(encoding="utf-8") == script.table(results)


def test_every_method_has_values_and_cpu_seconds(script, results):
    assert list(results["generated"]["values"]) == list(script.METHODS)
    assert list(results["mq2008"]["values"]) == [name for name in script.METHODS if name not in script.ALL_SHOWN]
    for name in ("generated", "mq2008"):
        for method, by_size in results[name]["values"].items():
            assert all(0 < value < 1 for values in by_size.values() for value in values)
            assert by_size.keys() == results[name]["cpu"][method].keys()


def test_clicks_against_all_candidates_count_the_shown_ones_alone(script):
    case = script.generated(0)
    train, _ = case.logs(500, 0, aggregate=True)
    queries = script.with_candidates(train, case.train)
    assert queries.n_documents == case.train.n_documents
    assert queries.relevant_weights().sum() == pytest.approx(float((train.clicks * train.position).sum()))


def test_sessions_have_a_click_and_come_by_position(script):
    case = script.generated(0)
    log, _ = case.logs(200, 0, aggregate=False)
    rows = script.Sessions.of(log)
    assert rows.sizes.sum() == len(rows.X) == len(rows.clicked)
    ends = np.cumsum(rows.sizes)
    for start, end in zip(np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True):
        assert rows.clicked[start:end].any()
        assert rows.position[start:end].tolist() == list(range(end - start))
    assert rows.clicked.sum() == log.clicks.sum()
