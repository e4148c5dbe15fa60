"""Every experiment, run through on made-up data in seconds: its report can be written, whatever the numbers."""

from __future__ import annotations

import json

import pytest

from experiments import all_experiments
from experiments.running import Runner
from experiments.writing import write


@pytest.fixture(autouse=True)
def overlapping(monkeypatch):
    """Leave plots as they are drawn first: finding room for their labels takes as long as drawing them."""
    monkeypatch.setattr("matplotlib.layout_engine.ConstrainedLayoutEngine.execute", lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("name", all_experiments())
def test_miniature(name, data, tmp_path):
    experiment = all_experiments()[name]
    with Runner(data, tmp_path / "kept", n_jobs=1) as runner:
        kept = runner.run(experiment, "miniature")
    page, record, *pictures = write(experiment, kept, tmp_path, "miniature")
    written = json.loads(record.read_text(encoding="utf-8"))
    assert written["tables"]
    assert written["findings"]
    assert all(row for table in written["tables"] for row in [table["rows"]])
    assert all(len(row) == len(table["columns"]) for table in written["tables"] for row in table["rows"])
    assert page.read_text(encoding="utf-8").startswith(f"# {experiment.title}")
    assert all(picture.stat().st_size > 1000 for picture in pictures)
