"""`python -m experiments`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from experiments import all_experiments
from experiments.__main__ import app


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, words)


def test_all_experiments_are_listed(invoke):
    assert [line.split()[0] for line in invoke("list").stdout.splitlines()] == list(all_experiments())


def test_finished_tasks_are_not_computed_again(invoke, tmp_path):
    words = ("run", "yue-toys", "--jobs", "1", "-o", "new")
    first = invoke(*words)
    assert "yue-toys: 2 of 2, accuracy" in first.stderr
    assert first.stdout.splitlines() == ["new/yue-toys.md", "new/findings.md", "new/costs.md"]
    assert "| h1 | 0.5873 | 0.4667 |" in (tmp_path / "new" / "yue-toys.md").read_text(encoding="utf-8")
    assert "0.5873" in (tmp_path / "new" / "findings.md").read_text(encoding="utf-8")
    assert invoke(*words).stderr == ""
    assert "2 of 2" in invoke(*words, "--fresh").stderr


def test_check_names_stale_results_and_fails(invoke, tmp_path):
    invoke("run", "yue-toys", "--jobs", "1", "-o", "new")
    clean = invoke("check", "yue-toys", "-o", "new")
    assert (clean.exit_code, clean.stdout) == (0, "yue-toys  up to date\n")
    record = tmp_path / "new" / "yue-toys.json"
    document = json.loads(record.read_text(encoding="utf-8"))
    document["code"]["marginrank.measures.ap"] = "of another time"
    record.write_text(json.dumps(document), encoding="utf-8")
    changed = invoke("check", "yue-toys", "-o", "new")
    assert (changed.exit_code, changed.stdout) == (1, "yue-toys  stale: the code changed: marginrank.measures.ap\n")
    everything = invoke("check", "-o", "new")
    assert everything.exit_code == 1
    assert everything.stdout.count("stale: never run") == len(all_experiments()) - 1


def test_report_writes_the_pages_from_the_results_alone(invoke, tmp_path):
    invoke("run", "yue-toys", "--jobs", "1", "-o", "new")
    page, record = tmp_path / "new" / "yue-toys.md", tmp_path / "new" / "yue-toys.json"
    before = page.read_text(encoding="utf-8")
    changed = json.loads(record.read_text(encoding="utf-8")) | {"date": "2001-02-03"}
    changed["results"]["accuracy"]["h1"][0] = 0.25
    record.write_text(json.dumps(changed), encoding="utf-8")
    assert invoke("report", "yue-toys", "-o", "new").stdout.splitlines()[0] == "new/yue-toys.md"
    after = page.read_text(encoding="utf-8")
    assert "- date: 2001-02-03" in after
    assert "| h1 | 0.2500 | 0.6364 |" in after
    assert before.splitlines()[:3] == after.splitlines()[:3]


def test_a_miniature_is_not_written_over_the_results(invoke, tmp_path):
    assert invoke("run", "yue-toys", "--jobs", "1", "--miniature").exit_code == 0
    assert (tmp_path / "out" / "experiments" / "yue-toys.json").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run"], 2, "Missing argument"),
        (["run", "yue-toy"], 2, "did you mean 'yue-toys'?"),
        (["run", "yue-toys", "nonsense"], 2, "unknown experiment 'nonsense'"),
        (["run", "all", "--data", "."], 1, "give --data"),
        (["report", "rdb", "-o", "empty"], 1, "no results of rdb"),
    ],
)
def test_bad_usage_is_refused(invoke, words, code, message):
    result = invoke(*words)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.replace("│", " ").split())
