"""The line about compilation: at a terminal, and only where something is compiled."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys

import pytest

from marginrank.cli.streams import logged_as_lines
from marginrank.runtime.kernels import COMPILING, cache_folder


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_is_printed_unless_asked_to_be_quiet(quiet, capsys):
    log = logging.getLogger("marginrank.runtime.kernels")
    with logged_as_lines("marginrank.runtime.kernels", quiet=quiet):
        log.info(COMPILING)
    log.info(COMPILING)  # as in Python, where nobody asked for it
    assert capsys.readouterr().err == ("" if quiet else f"{COMPILING}\n")
    assert log.handlers == []


def shown_on_terminal(words, environment):
    """Run a command with a terminal for standard error, and return what it shows there."""
    import pty

    leader, follower = pty.openpty()
    subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=follower, check=True)
    os.close(follower)
    try:
        return os.read(leader, 4096).decode()
    except OSError:  # nothing was written
        return ""
    finally:
        os.close(leader)


def copy_kernels(folder):
    """Copy the kernels that are compiled by now to where a process finds them that has this folder for them."""
    compiled = cache_folder()
    shutil.copytree(compiled, folder / compiled.name)
    (folder / compiled.name).chmod(0o700)


def lose_kernels(folder, module):
    """Remove the kernels of a module."""
    cached = list(folder.rglob(f"{module}.*"))
    assert cached
    for path in cached:
        path.unlink()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no pseudo-terminals")
def test_whoever_waits_at_a_terminal_is_told_why_once(run, tmp_path):
    words = ["evaluate", "judged.qrels", "bm25.run"]
    assert run(*words).code == 0
    copy_kernels(tmp_path)
    lose_kernels(tmp_path, "text_kernel")
    lose_kernels(tmp_path, "ranking_kernel")
    words = [sys.executable, "-m", "marginrank", *words]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    assert shown_on_terminal(words, environment).splitlines() == [COMPILING]
    assert shown_on_terminal(words, environment) == ""
    # Where there is no terminal, nothing is said.
    lose_kernels(tmp_path, "text_kernel")
    assert subprocess.run(words, env=environment, capture_output=True, check=True).stderr == b""
    assert list(tmp_path.rglob("text_kernel.*"))
