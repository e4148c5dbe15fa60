"""Every experiment, run through on made-up data in seconds: its report can be written, whatever the numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from experiments import all_experiments
from experiments.running import Runner
from experiments.writing import write


@pytest.fixture(autouse=True)
def overlapping(monkeypatch):
    """Draw plots once, without a layout: finding room for their labels takes twice as long as drawing them."""
    monkeypatch.setattr("matplotlib.figure.Figure.get_layout_engine", lambda _: None)


#: Options that say which data a task reads, and not what it does with them.
READ = ("name", "number", "fold")


def stand_ins(tasks):
    """Give for each task the name of the one that runs for it: all that is done and all that is read has its own."""
    first, read, chosen = {}, set(), {}
    for task in tasks:
        options = {name: json.dumps(value) for name, value in task.options.items()}
        what = (task.call, *(option for option in options.items() if option[0] not in READ))
        where = {(task.call, *option) for option in options.items() if option[0] in READ}
        known = what in first and where <= read
        chosen[task.name] = first[what] if known else task.name
        first.setdefault(what, task.name)
        read |= where
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("name", all_experiments())
def test_miniature(name, data, tmp_path):
    experiment = all_experiments()[name]
    tasks = experiment.plan("miniature")
    chosen = stand_ins(tasks)
    fewer = replace(experiment, plan=lambda _: [task for task in tasks if chosen[task.name] == task.name])
    with Runner(data, tmp_path / "cache", n_jobs=1) as runner:
        computed = runner.run(fewer, "miniature")
    results = {task.name: computed[chosen[task.name]] for task in tasks}
    page, record, *pictures = write(experiment, results, data, tmp_path, "miniature")
    written = json.loads(record.read_text(encoding="utf-8"))
    assert written["tables"]
    assert written["findings"]
    assert all(row for table in written["tables"] for row in [table["rows"]])
    assert all(len(row) == len(table["columns"]) for table in written["tables"] for row in table["rows"])
    assert page.read_text(encoding="utf-8").startswith(f"# {experiment.title}")
    assert all(picture.stat().st_size > 1000 for picture in pictures)
