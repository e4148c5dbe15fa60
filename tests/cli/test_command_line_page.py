"""The examples of the page on the command line run, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from marginrank.cli.app import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def commands_of(page):
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
    return [" ".join(line[2:].split()) for line in lines if line.startswith("$ ")]


@pytest.mark.slow
@pytest.mark.usefixtures("few_Cs")
def test_examples_of_the_page_run(run, folder, monkeypatch):
    pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'marginrank[serve]'")
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)  # which ends at a signal
    monkeypatch.setattr("marginrank.judging.JudgingServer.serve_forever", lambda *_, **__: None)
    monkeypatch.setattr("gc.set_threshold", lambda _: None)  # of this process
    for name in ("model.safetensors", "scores.txt"):
        (folder / name).unlink()  # made by the examples themselves
    found = commands_of(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 10
    demo = run("demo", "--help").out
    for line in found:
        if f"$ {line}" in demo:
            continue  # takes seconds, and runs as an example of the help
        program, *words = shlex.split(line)
        assert program == "marginrank"
        done = run(*words)
        assert done.code == 0, (line, done.err)


def test_the_page_has_a_section_for_every_command():
    page = PAGE.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"\n##{'#' * command.count(' ')} {command}\n" in page
        assert any(line.startswith(f"marginrank {command}") for line in commands_of(page))
