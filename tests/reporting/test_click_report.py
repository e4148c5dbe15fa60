"""The page on a click log."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from marginrank.clicks import ClickLog, Propensities, compare_clicks, evaluate_clicks
from marginrank.errors import ParameterError
from marginrank.reporting import write_click_report

pytest.importorskip("vl_convert", reason="reports need vl-convert-python")


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    n, depth = 600, 3
    query = np.repeat(rng.integers(0, 12, n), depth)
    place = np.tile(np.arange(1, depth + 1), n)
    document = (place + np.repeat(rng.integers(0, 2, n), depth)) % 4
    clicked = rng.random(n * depth) < (0.2 + 0.2 * document) / place
    names = [f"d{number}</script>" for number in document]
    return ClickLog.from_arrays([f"q<{number}>" for number in query], names, place, clicked)


def scores(log, sign):
    return np.array([sign * int(name[1]) for name in log.documents.document_names.tolist()], dtype=float)


def test_the_page_has_what_the_library_says(log, tmp_path):
    curve = Propensities.power(1.0, 3, clip=0.4)
    systems = {"down": scores(log, -1), "up <b>": scores(log, 1)}
    report = write_click_report(tmp_path / "page.html", log, systems, "dcg@2", propensities=curve, title="A & B")
    page = (tmp_path / "page.html").read_text()
    for name, of in systems.items():
        mean = evaluate_clicks(log, of, "dcg@2", propensities=curve).mean["ips dcg@2"]
        assert report.to_dict()["systems"][name]["mean"] == pytest.approx(mean)
        assert f"{mean:.4f}" in page
    (row,) = compare_clicks(log, systems, "dcg@2", propensities=curve, baseline="down").rows
    assert report.comparison.rows[0].difference == pytest.approx(row.difference)
    assert report.verdict.startswith("Clicks prefer up <b> to down: +")
    assert "Clicks prefer up &lt;b&gt; to down" in page
    assert "<title>A &amp; B</title>" in page
    assert "−16.7" in page  # 1/3 counts as 0.4
    assert "q&lt;3&gt;" in page
    assert "<b>" not in page
    specs = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    curve_chart = next(spec for spec in specs if "Propensity" in spec["description"])
    drawn = [one["value"] for one in curve_chart["data"]["values"] if one["system"] == "propensity"]
    assert drawn == pytest.approx([1, 1 / 2, 1 / 3])


def test_lower_ranks_are_better(log, tmp_path):
    systems = {"down": scores(log, -1), "up": scores(log, 1)}
    curve = Propensities.power(1.0, 3)
    report = write_click_report(tmp_path / "page.html", log, systems, "rank", propensities=curve, estimator="snips")
    assert report.comparison.rows[0].difference < 0
    assert report.verdict.startswith("Clicks prefer up to down: -")
    assert "A lower rank is better" in (tmp_path / "page.html").read_text()


def test_one_system_and_propensities_of_rows(log, tmp_path):
    given = log.with_propensities(Propensities.power(1.0, 3))
    report = write_click_report(tmp_path / "page.html", given, {"up": scores(log, 1)})
    assert report.verdict.startswith("up has ips dcg@10 ")
    page = (tmp_path / "page.html").read_text()
    assert "propensities of the rows" in page
    assert "Queries that moved most" not in page
    with pytest.raises(ParameterError, match="baseline is 'none'"):
        write_click_report(tmp_path / "page.html", given, {"up": scores(log, 1)}, baseline="none")
