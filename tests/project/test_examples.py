"""The examples run, each in an empty folder, without a warning."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

from marginrank.runtime.option_objects import OptionObject

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"})
#: Run by tests/export/test_hybrid_search.py and tests/integrations/test_engine_example.py, which check their figures.
ELSEWHERE = {"hybrid_in_sqlite.py", "hybrid_engines.py"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [script for script in SCRIPTS if script.suffix == ".py" and script.name not in ELSEWHERE],
    ids=lambda path: path.name,
)
def test_an_example_runs(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    known = dict(OptionObject.registry)
    # Some set options of scikit-learn for the whole process.
    with sklearn.config_context():
        runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    for name in set(OptionObject.registry) - set(known):
        if not OptionObject.registry[name].__module__.startswith("marginrank."):
            del OptionObject.registry[name]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a script for the shell of Unix")
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script.suffix == ".sh"], ids=lambda path: path.name)
def test_a_script_of_commands_runs(script, tmp_path):
    command = tmp_path / "bin" / "marginrank"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m marginrank "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", str(script)], cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert SCRIPTS
    assert all(f"`{script.name}`" in listed for script in SCRIPTS)
