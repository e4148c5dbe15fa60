"""`marginrank judge DATA`: what is served, where grades go, and what is refused."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from marginrank.judging import JudgementStore, JudgingServer


@pytest.fixture
def served(monkeypatch):
    """The sessions that commands serve, which end at once."""
    sessions = []

    def serve(self, ready):
        with self:
            ready(self.address)
            sessions.append((self.session.documents, [one.grade for one in self.session.scale], self.session.seed))

    monkeypatch.setattr(JudgingServer, "serve", serve)
    return sessions


def test_the_page_is_served_without_a_word_for_the_command(run, served, monkeypatch):
    opened = queue.Queue()
    monkeypatch.setattr("webbrowser.open", opened.put)
    done = run("judge", "documents.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["address"].startswith("http://127.0.0.1:")
    assert (done.json["documents"], done.json["queries"], done.json["db"]) == (40, 2, "documents.judged.db")
    assert opened.get(timeout=30) == done.json["address"]
    assert Path("documents.judged.db").stat().st_mode & 0o777 == 0o600
    again = run("judge", "page", "documents.csv", "--no-browser", "--in-order")
    assert done.json["address"] in again.out
    assert opened.empty()
    assert [seed for _, _, seed in served] == [0, None]


def test_runs_say_what_is_judged(run, served):
    done = run(
        "judge",
        "documents.csv",
        "--pairs",
        "bm25.run",
        "--depth",
        "5",
        "--scale",
        "0,1",
        "--no-browser",
        "--db",
        "x.db",
    )
    assert done.code == 0, done.err
    documents, scale, _ = served[0]
    assert (len(documents), scale) == (10, [0.0, 1.0])
    assert Path("x.db").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nowhere.csv",), 1, "nowhere.csv: no such file"),
        (("raters.csv", "--field", "titel"), 1, "raters.csv: no column 'titel'"),
        (("bm25.run",), 1, "bm25.run: no column of document ids"),
        (("documents.csv", "--depth", "3"), 1, "name them with --pairs"),
        (("documents.csv", "--scale", "good,bad"), 2, "give grades such as 0,1,2"),
        (("documents.csv", "--db", "documents.csv"), 1, "both input and output"),
        (("documents.csv", "--db", "raters.csv"), 1, "raters.csv: this is not a database of judgements"),
    ],
)
def test_what_cannot_be_judged_is_refused(fails, served, words, code, said):
    assert said in fails("judge", *words, "--no-browser", code=code)
    assert served == []


def test_another_scale_is_refused_with_the_option(run, fails, served):
    assert run("judge", "documents.csv", "--no-browser").code == 0
    with JudgementStore("documents.judged.db") as store:
        store.decide("1", 1, "ann", 2.0)
    said = fails("judge", "documents.csv", "--scale", "0,1", "--no-browser", code=1)
    assert said == "error: documents.judged.db: the grades here are 0,1,2,3,4; give --scale 0,1,2,3,4\n"


def test_judgements_of_the_page_are_read_by_other_commands(run, served):
    assert run("judge", "documents.csv", "--no-browser").code == 0
    with JudgementStore("documents.judged.db") as store:
        store.decide("1", 1, "ann", 2.0)
    assert run("judge", "export", "documents.judged.db", "-o", "ann.csv").code == 0
    assert Path("ann.csv").read_text().splitlines()[1].endswith(",ann,2")
