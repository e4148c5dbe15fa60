"""Forks of a ready process stand for Python in other tests, so they have to be as it is."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

from tests import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PROGRAMS = {
    "words": "import os, sys; print(sys.argv, os.getcwd(), os.environ['WORD'], __name__, sys.stdin.read())",
    "code": "raise SystemExit(3)",
    "message": "import sys; sys.exit('wrong')",
    "error": "1 / 0",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "crash": "import os; os.abort()",
    "at once": "import os; print('lost'); os._exit(4)",
    "at the end": "import atexit; atexit.register(print, 'end')",
    "threads": "import threading; threading.Timer(0.01, print, ['end']).start()",
    "escapes": "import sys; print(sys.stdin.errors, sys.stdout.encoding); print('\\udce9', file=sys.stderr)",
}


def both(words, **options):
    """Run words after Python and after its stand-in, and return what came of each."""
    for python in ([sys.executable], forks.python()):
        yield subprocess.run([*python, *words], capture_output=True, check=False, **options)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fork_does_what_python_does(name, tmp_path):
    words = ["-c", PROGRAMS[name], "two words", "caf\udce9"]
    expected, done = both(words, cwd=tmp_path, env=os.environ | {"WORD": "\udce9"}, input=b"read")
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert done.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]


def test_a_module_is_run_as_python_does():
    expected, done = both(["-m", "base64", "-t"])
    assert (done.returncode, done.stdout, done.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert done.stdout


STREAMS = """
import os, sys
with open(sys.argv[1], "w") as file:
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        print(stream and (stream.mode, stream.line_buffering, stream.write_through), file=file)
    print(file.fileno(), file=file)
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_closed_in_a_fork(closed, tmp_path):
    found = []
    for number, python in enumerate(([sys.executable], forks.python())):
        line = shlex.join([*python, "-c", STREAMS, str(tmp_path / f"{number}")])
        subprocess.run(["bash", "-c", f"{line} {closed}"], check=True)
        found.append((tmp_path / f"{number}").read_text())
    assert found[0] == found[1]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_signals_reach_a_fork(number):
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    words = [*forks.python(), "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        fork = int(process.stdout.readline())
        assert fork != process.pid
        process.send_signal(getattr(signal, number))
        assert process.stdout.read() == b""  # which the fork has open
    assert process.returncode == -getattr(signal, number)
