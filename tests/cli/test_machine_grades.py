"""`--machine-grades` of `marginrank evaluate` and `compare`: prediction-powered results, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from marginrank import evaluate
from marginrank.data.formats.trec import read_qrels, read_run
from marginrank.judging import prediction_powered_compare, prediction_powered_evaluate

TREC = ("--policy", "trec", "-m", "p@5")


@pytest.fixture
def few(folder):
    """Judgements of people for 24 of 30 topics; the machine has all."""
    lines = Path("judged.qrels").read_text().splitlines()
    (folder / "people.qrels").write_text("".join(f"{line}\n" for line in lines if int(line.split()[0]) <= 24))


@pytest.mark.usefixtures("few")
def test_means_and_differences_are_those_of_the_library(run):
    people, machine = (
        [evaluate(read_qrels(path), read_run(f"{name}.run"), "p@5", policy="trec") for name in ("bm25", "dense")]
        for path in ("people.qrels", "judged.qrels")
    )
    record = run("evaluate", "people.qrels", "bm25.run", "--machine-grades", "judged.qrels", *TREC, "--json").json
    expected = prediction_powered_evaluate(people[0], machine[0], "p@5")
    assert record["prediction_powered"][0]["mean"] == pytest.approx(expected.mean)
    assert record["prediction_powered"][0]["interval"] == pytest.approx(list(expected.interval))
    assert record["prediction_powered"][0]["worth"] == pytest.approx(expected.gain)
    done = run("evaluate", "people.qrels", "bm25.run", "--machine-grades", "judged.qrels", *TREC)
    assert f"{expected.mean:.4f}  [{expected.interval[0]:.4f}, {expected.interval[1]:.4f}]" in done.out
    words = (
        "compare",
        "people.qrels",
        "dense.run",
        "--baseline",
        "bm25.run",
        "--machine-grades",
        "judged.qrels",
        *TREC,
    )
    record = run(*words, "--json").json
    expected = prediction_powered_compare((people[1], people[0]), (machine[1], machine[0]), "p@5")
    assert [one["system"] for one in record["prediction_powered"]] == ["dense"]
    assert record["prediction_powered"][0]["mean"] == pytest.approx(expected.mean)
    assert "minus bm25" in run(*words).out


@pytest.mark.usefixtures("few")
def test_a_machine_that_cannot_help_is_refused_in_words(run, fails):
    lines = [line.split() for line in Path("judged.qrels").read_text().splitlines()]
    upside_down = [f"{topic} 0 {document} {1 - int(grade)}" for topic, _, document, grade in lines]
    Path("machine.qrels").write_text("\n".join(upside_down) + "\n")
    words = ("evaluate", "people.qrels", "bm25.run", "--machine-grades", "machine.qrels", *TREC)
    assert "bm25, p@5: the machine cannot help: its values have a correlation of -" in run(*words).out
    assert "cannot help" in run(*words, "--json").json["prediction_powered"][0]["refused"]
    said = fails("evaluate", "judged.qrels", "bm25.run", "--machine-grades", "people.qrels", *TREC, code=1)
    assert "the machine did not judge query 25;" in said
