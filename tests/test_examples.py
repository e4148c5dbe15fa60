"""The examples run, each in an empty folder, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"})


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_runs(script, tmp_path):
    if script.suffix == ".sh" and os.name == "nt":
        pytest.skip("a script for the shell of Unix")
    interpreter = ["sh"] if script.suffix == ".sh" else [sys.executable, "-W", "error"]
    # The command of this installation comes first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*interpreter, str(script)],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert SCRIPTS
    assert all(f"`{script.name}`" in listed for script in SCRIPTS)
