"""A test that hangs fails under its name, and the others go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HANGING = """
import subprocess, time

def test_sleeps():
    time.sleep(600)

def test_waits():
    subprocess.run(["sleep", "600"])

def test_ends():
    pass
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarms")
def test_a_test_that_hangs_fails(tmp_path):
    shutil.copy(Path(__file__).parents[2] / "conftest.py", tmp_path)
    (tmp_path / "test_hanging.py").write_text(HANGING)
    words = ["-p", "no:cacheprovider", "-o", "time_limit=0.2", "-rf", "--rootdir", ".", "test_hanging.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # which takes as long as the rest
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    for name in ("test_sleeps", "test_waits"):
        assert f"FAILED test_hanging.py::{name} - Failed: no end after 0.2 s" in done.stdout
    assert "2 failed, 1 passed" in done.stdout
