"""The line about compilation: at a terminal, and only where something is compiled."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from marginrank.cli.app import _compilation_as_line
from marginrank.kernels import COMPILING


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_is_printed_unless_asked_to_be_quiet(quiet, capsys):
    log = logging.getLogger("marginrank.kernels")
    with _compilation_as_line(quiet):
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no pseudo-terminals")
def test_whoever_waits_at_a_terminal_is_told_why_once(tmp_path):
    # Judgements and runs have the kernels that are the quickest to compile.
    judgements, run = tmp_path / "data.qrels", tmp_path / "some.run"
    judgements.write_text("1 0 a 1\n1 0 b 0\n")
    run.write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 1.0 x\n")
    words = [sys.executable, "-m", "marginrank", "evaluate", str(judgements), str(run)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    assert shown_on_terminal(words, environment).splitlines() == [COMPILING]
    assert shown_on_terminal(words, environment) == ""
    # Where there is no terminal, nothing is said: here of one kernel that has to be compiled anew.
    lost = next(tmp_path.rglob("trec_kernel.parse_numbers.*.kernel"))
    lost.unlink()
    assert subprocess.run(words, env=environment, capture_output=True, check=True).stderr == b""
    assert lost.exists()
