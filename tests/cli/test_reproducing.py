"""`marginrank reproduce`."""

from __future__ import annotations

import json

import pytest

from experiments import all_experiments


def test_all_experiments_are_listed(run):
    record = run("reproduce", "--list", "--json").json["experiments"]
    assert [one["name"] for one in record] == list(all_experiments())
    assert [line.split()[0] for line in run("reproduce", "--list").out.splitlines()[1:]] == list(all_experiments())


def test_an_experiment_is_written_and_goes_on_from_what_is_kept(run, folder):
    first = run("reproduce", "yue-toys", "--jobs", "1")
    assert "yue-toys: 2 of 2, accuracy" in first.err
    assert first.out.splitlines() == ["yue-toys: results/yue-toys.md", "findings: results/findings.md"]
    assert "| h1 | 0.5873 | 0.4667 |" in (folder / "results" / "yue-toys.md").read_text(encoding="utf-8")
    assert "0.5873" in (folder / "results" / "findings.md").read_text(encoding="utf-8")
    assert json.loads((folder / "results" / "yue-toys.json").read_text())["command"] == "marginrank reproduce yue-toys"
    second = run("reproduce", "yue-toys", "--jobs", "1", "--json")
    assert second.err == ""
    assert second.json["written"]["yue-toys"] == ["results/yue-toys.md", "results/yue-toys.json"]
    assert run("reproduce", "yue-toys", "--jobs", "1", "--fresh", "--quiet").out == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "name an experiment"),
        (["yue-toy"], 2, "did you mean 'yue-toys'?"),
        (["yue-toys", "nonsense"], 2, "unknown experiment 'nonsense'"),
        (["all", "--data", "."], 1, "give --data"),
    ],
)
def test_what_cannot_be_run_is_refused(fails, words, code, said):
    assert said in fails("reproduce", *words, code=code)
