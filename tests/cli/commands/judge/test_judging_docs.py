"""The commands of the page on judging run, one after the other, with a rater who judges everything."""

from __future__ import annotations

import shlex
from pathlib import Path

from marginrank.judging import JudgingServer
from tests.cli.test_command_line_page import PAGE, commands_of


def test_the_commands_of_the_judging_guide_run(run, monkeypatch):
    def judge_all(self, ready):
        with self:
            ready(self.address)
            for number in self.session._numbers[::2]:
                self.session.judge("ann", f"r{number}", number, float(number % 5))

    monkeypatch.setattr(JudgingServer, "serve", judge_all)
    rows = [f"{row // 20 + 1},doc{row},Title {row}" for row in range(600)]  # of all topics of the runs
    Path("documents.csv").write_text("\n".join(["query,document_id,title", *rows]) + "\n")
    found = commands_of((PAGE.parent / "judging.md").read_text(encoding="utf-8"))
    assert len(found) == 8
    for line in found:
        done = run(*shlex.split(line)[1:])
        assert done.code == 0, (line, done.err)
    assert Path("ann.qrels").read_text().count("\n") == Path("judgements.csv").read_text().count("\n") - 1
