"""Execution of tasks: results are cached, failures lose nothing, and a killed run continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import all_experiments
from experiments.base import Experiment, Finding, Picture, Report, Table, Task
from experiments.provenance import stale
from experiments.running import Runner, commit
from experiments.writing import write, write_costs, write_findings, write_from_record
from marginrank.errors import DataError
from marginrank.model.plots import new_figure


def _count(data: Path, *, number: int) -> dict[str, int]:
    with (data / "calls").open("a") as file:
        file.write(f"{number}\n")
    if number < 0:
        raise ValueError("negative numbers have no square here")
    return {"square": number * number}


def _report(results):
    figure = new_figure(2, 2)
    figure.subplots().plot([one["square"] for one in results.values()])
    return Report(
        [Table("Squares", ("number", "square"), [(name, one["square"]) for name, one in results.items()])],
        [Picture("line", "The squares.", figure)],
        [Finding("Squares grow.", "Euclid", "holds", "4 > 1")],
        ["Nothing differs."],
    )


def _experiment(numbers, name="squares", **options):
    return Experiment(
        name,
        "Squares",
        "Euclid, Table 1",
        "Numbers, squared.",
        (),
        lambda _: [Task(f"number {n}", _count, {"number": n}, **options) for n in numbers],
        _report,
    )


def _calls(folder):
    return (folder / "calls").read_text().split()


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_each_task_is_computed_once(tmp_path, n_jobs):
    with Runner(tmp_path, tmp_path / "cache", n_jobs=n_jobs) as runner:
        first = runner.run(_experiment([1, 2]))
    with Runner(tmp_path, tmp_path / "cache", n_jobs=n_jobs) as runner:
        second = runner.run(_experiment([1, 2, 3]))
    assert {name: one.result["square"] for name, one in second.items()} == {"number 1": 1, "number 2": 4, "number 3": 9}
    assert [one.seconds for one in first.values()] == [second[name].seconds for name in first]
    assert sorted(_calls(tmp_path)) == ["1", "2", "3"]


def test_fresh_computes_again(tmp_path):
    for fresh in (False, True):
        with Runner(tmp_path, tmp_path / "cache", n_jobs=1, fresh=fresh) as runner:
            runner.run(_experiment([1]))
    assert _calls(tmp_path) == ["1", "1"]


def test_other_data_computes_again(tmp_path):
    experiment = replace(_experiment([1]), data=("set",))
    (tmp_path / "set").mkdir()
    for text in ("old", "newer"):
        (tmp_path / "set" / "a.txt").write_text(text)
        with Runner(tmp_path, tmp_path / "cache", n_jobs=1) as runner:
            runner.run(experiment)
    assert _calls(tmp_path) == ["1", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failure_loses_nothing_of_the_others(tmp_path, n_jobs):
    with Runner(tmp_path, tmp_path / "cache", n_jobs=n_jobs) as runner:
        with pytest.raises(DataError, match=r"squares: task 'number -1' failed: ValueError: negative .* are cached"):
            runner.run(_experiment([1, -1, 2]))
        runner.run(_experiment([1, 2]))
    assert sorted(_calls(tmp_path)) == ["-1", "1", "2"]


def _die(data: Path, *, number: int) -> int:
    os._exit(number)


@pytest.mark.slow
def test_a_process_that_is_ended_is_a_failure_like_others(tmp_path):
    experiment = replace(_experiment([1]), plan=lambda _: [Task("dies", _die, {"number": 9}, alone=True)])
    with Runner(tmp_path, tmp_path / "cache", n_jobs=2) as runner:
        with pytest.raises(DataError, match="task 'dies' failed: its process was ended"):
            runner.run(experiment)
        assert runner.run(_experiment([3]))["number 3"].result == {"square": 9}


@pytest.mark.slow
def test_tasks_alone_come_last(tmp_path):
    experiment = _experiment([1, 2])
    plan = [Task("alone", _count, {"number": 3}, alone=True), *experiment.plan("full")]
    with Runner(tmp_path, tmp_path / "cache", n_jobs=2) as runner:
        runner.run(replace(experiment, plan=lambda _: plan))
    assert _calls(tmp_path)[-1] == "3"


def test_missing_data_is_named_before_anything_runs(tmp_path):
    with (
        Runner(tmp_path, tmp_path / "cache", n_jobs=1) as runner,
        pytest.raises(DataError, match="squares reads nowhere"),
    ):
        runner.run(replace(_experiment([1]), data=("nowhere",)))


def test_progress_counts_what_was_kept(tmp_path):
    told = []

    def tell(*event):
        told.append(event[1:])

    with Runner(tmp_path, tmp_path / "cache", n_jobs=1) as runner:
        runner.run(_experiment([1]))
        runner.run(_experiment([1, 2]), progress=tell)
    assert told == [(2, 2, "number 2")]


def test_results_are_written_for_readers_and_machines(tmp_path):
    experiment = _experiment([1, 2])
    with Runner(tmp_path, tmp_path / "cache", n_jobs=1) as runner:
        results = runner.run(experiment)
    page, record, picture = write(experiment, results, tmp_path, tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    for part in (
        "# Squares",
        "| number 2 | 4 |",
        "**holds**",
        "squares-line.svg",
        "$ python -m experiments run squares",
    ):
        assert part in text
    assert json.loads(record.read_text())["results"]["number 2"] == {"square": 4}
    before = picture.read_bytes()
    write(experiment, results, tmp_path, tmp_path / "out")
    assert picture.read_bytes() == before
    assert (
        "| Squares grow. | Euclid | **holds** | 4 > 1 |" in write_findings([experiment], tmp_path / "out").read_text()
    )


def _written(experiment, data, out):
    with Runner(data, out / "cache", n_jobs=1) as runner:
        return write(experiment, runner.run(experiment), data, out)[1]


def test_pages_name_the_commits_of_their_tasks(tmp_path, monkeypatch):
    for revision, numbers in (("aaa", [1]), ("bbb", [1, 2])):
        monkeypatch.setattr("experiments.running.commit", lambda revision=revision: revision)
        record = _written(_experiment(numbers), tmp_path, tmp_path)
    assert json.loads(record.read_text())["commit"] == "aaa, bbb"
    assert "- commit: aaa, bbb" in record.with_suffix(".md").read_text()


def test_the_commit_is_named_with_the_tree_of_its_sources():
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12"]
    found = [subprocess.run([*git, name], capture_output=True, text=True, check=False) for name in ("HEAD", "HEAD:src")]
    if found[0].returncode:
        pytest.skip("not in a clone")
    revision, sources = (one.stdout.strip() for one in found)
    assert commit().removesuffix(" + changes") == f"{revision} (sources {sources})"


def test_a_record_is_stale_after_a_change_of_plan_data_or_report(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.txt").write_text("old")
    experiment = replace(_experiment([1, 2]), data=("set",))
    record = tmp_path / "squares.json"
    assert stale(experiment, record, tmp_path) == ["never run"]
    assert _written(experiment, tmp_path, tmp_path) == record
    assert stale(experiment, record, tmp_path) == []
    assert stale(experiment, record, tmp_path / "elsewhere") == []
    assert stale(replace(_experiment([1]), data=("set",)), record, tmp_path) == ["the tasks or their options changed"]
    (tmp_path / "set" / "a.txt").write_text("new")
    assert stale(experiment, record, tmp_path) == ["the data changed: set"]
    (tmp_path / "set" / "a.txt").write_text("old")
    other = replace(experiment, report=lambda results: replace(_report(results), notes=()))
    assert stale(other, record, tmp_path) == ["only its report changed: python -m experiments report squares"]
    write_from_record(other, tmp_path)
    assert stale(other, record, tmp_path) == []
    document = json.loads(record.read_text())
    record.write_text(json.dumps(document | {"code": document["code"] | {__name__: "1"}}))
    assert stale(other, record, tmp_path) == [f"the code changed: {__name__}"]
    record.write_text(json.dumps(document | {"code": document["code"] | {"marginrank.no_longer_reached": "1"}}))
    assert stale(other, record, tmp_path) == []


def test_the_cost_page_adds_up_the_records(tmp_path):
    facts = {"seconds of computing": "90", "seconds elapsed": "60", "date": "2001-02-03", "commit": "abc"}
    for name, numbers in (("squares", [1, 2]), ("cubes", [1])):
        record = _written(_experiment(numbers, name), tmp_path, tmp_path)
        document = json.loads(record.read_text())
        record.write_text(json.dumps(document | facts))
    page = write_costs([_experiment([1], "squares"), _experiment([1], "cubes")], tmp_path).read_text()
    assert "All 2 experiments together took 3 minutes of computing" in page
    assert "and 2 minutes on the clock, with 1 tasks at a time" in page
    assert "| [squares](squares.md) | 2 | 90 | 60 | 1 | 2001-02-03 | abc |" in page


def _sleep(data: Path, *, number: int) -> int:
    time.sleep(0.05)
    return number


def test_the_time_of_a_run_that_goes_on_adds_up(tmp_path):
    def times(count):
        experiment = replace(
            _experiment([1]), plan=lambda _: [Task(f"n{n}", _sleep, {"number": n}) for n in range(count)]
        )
        with Runner(tmp_path, tmp_path / "cache", n_jobs=1) as runner:
            return [one.elapsed for one in runner.run(experiment).values()]

    first = times(2)
    whole = times(3)
    assert min(whole) >= 0.05
    assert whole[:2] == first
    assert times(3) == whole


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(
        """
import sys, time
from pathlib import Path
from experiments.base import Experiment, Task
from experiments.running import Runner, commit

def work(data, *, number):
    with (data / "calls").open("a") as file:
        file.write(f"{number}\\n")
    if number == 2 and not (data / "quick").exists():
        time.sleep(600)
    return number

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    tasks = [Task(f"n{n}", work, {"number": n}) for n in (1, 2)]
    experiment = Experiment("slow", "", "", "", (), lambda size: tasks, None)
    with Runner(folder, folder / "cache", n_jobs=int(sys.argv[2])) as runner:
        print(sorted(one.result for one in runner.run(experiment).values()))
"""
    )
    # The script is not in the folder of the repository, where `python -m experiments` is run.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    running = subprocess.Popen([sys.executable, script, tmp_path, "2"], stdout=subprocess.PIPE, env=environment)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("cache/slow/n1-*.json")) or len(_calls(tmp_path)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    running.stdout.close()
    (tmp_path / "quick").touch()
    again = subprocess.run(
        [sys.executable, script, tmp_path, "2"], capture_output=True, text=True, check=True, env=environment
    )
    assert again.stdout == "[1, 2]\n"
    assert sorted(_calls(tmp_path)) == ["1", "2", "2"]


def test_experiments_have_different_names_and_say_what_they_are():
    found = all_experiments()
    assert found
    for name, experiment in found.items():
        assert name == experiment.name == name.lower()
        assert experiment.title
        assert experiment.about.strip()
