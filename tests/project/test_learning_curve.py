"""The learning curve of the docs: table and picture are those of the stored results."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "pictures" / "learning-curve.json"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("learning_curve", ROOT / "benchmarks" / "learning_curve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results():
    return json.loads(STORED.read_text(encoding="utf-8"))


def test_table_and_picture_are_made_of_the_results(script, results):
    assert STORED.with_suffix(".txt").read_text(encoding="utf-8") == script.table(results)
    assert STORED.with_suffix(".svg").read_text(encoding="utf-8") == script.picture(results)


def test_every_method_has_a_value_for_every_draw(script, results):
    assert list(results["values"]) == list(script.METHODS)
    for by_size in results["values"].values():
        assert {size: len(values) for size, values in by_size.items()} == {
            str(size): script.N_DRAWS for size in script.SIZES
        }
        assert all(0 < value < 1 for values in by_size.values() for value in values)


def test_means_and_deviations_are_over_draws(script):
    rows = script.summarize({"values": {"a": {"20": [0.1, 0.3], "50": [0.5]}}})
    assert rows == {"a": [(20, pytest.approx(0.2), pytest.approx(0.02**0.5)), (50, 0.5, 0.0)]}


def test_the_picture_is_small_and_has_colors_for_light_and_dark(script, results):
    text = script.picture(results)
    assert len(text) < 20_000
    assert "prefers-color-scheme: dark" in text
    root = ET.fromstring(text)
    labels = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(any(label.startswith(name) for label in labels) for name in script.METHODS)


def test_labels_keep_their_order_and_do_not_overlap(script):
    places = {"a": 10.0, "b": 12.0, "c": 13.0, "d": 60.0, "e": 75.0}
    moved = script.spread(places, 18)
    assert list(moved) == list(places)
    gaps = [after - before for before, after in zip(list(moved.values()), list(moved.values())[1:], strict=False)]
    assert min(gaps) >= 18 - 1e-9
    assert moved["b"] == pytest.approx((10 + 12 + 13) / 3)
    assert script.spread({"a": 0.0, "b": 30.0}, 18) == {"a": 0.0, "b": 30.0}


def test_readme_and_docs_show_the_picture():
    for page in ("README.md", "docs/learning-curve.md"):
        assert re.search(
            r"!\[[^\]]+\]\((docs/)?pictures/learning-curve\.svg\)", (ROOT / page).read_text(encoding="utf-8")
        )
