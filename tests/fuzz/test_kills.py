"""A few kills of commands; ``python -m tests.fuzz.kills 1000`` makes more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_command_leaves_the_old_or_the_new_file():
    words = ["5", "--only", "train,tune,table,fuse,rank"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.kills", *words],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "every file was the old or the new one" in done.stdout
