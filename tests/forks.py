"""Python that starts at once: forks of a process that has imported everything, for tests that start many commands.

`python` returns the words that stand for ``sys.executable``. The process that they start imports next to nothing: it
hands its streams, folder, variables and arguments to a server, whose fork does what Python would do with them. Signals
are passed on, and it ends as the fork ends; if it is killed, so is the fork. The server has no threads, which a fork
would lack, and ends with the process of the tests.

Imports are no longer to be seen in a fork, and what is read before a program begins, such as ``PYTHONPATH`` and the
variables of Numba, is as it was when the server started: tests of these start Python itself.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_servers: dict[tuple[str, ...], list[str]] = {}


def python(*modules: str) -> list[str]:
    """Return what starts Python with modules imported; where there is no fork, that is Python."""
    if not hasattr(os, "fork"):
        return [sys.executable]
    if modules not in _servers:
        _servers[modules] = _start(modules)
    return _servers[modules]


# The process that asks is started again and again, so what only others need is imported there.


def _start(modules: tuple[str, ...]) -> list[str]:
    import atexit
    import subprocess
    from pathlib import Path
    from tempfile import mkdtemp

    place = f"{mkdtemp()}/server"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forks", "serve", place, *modules],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )

    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return [sys.executable, "-IS", __file__, "ask", place]


def _ask(place: str, words: list[str]) -> None:
    """Have a fork do what the words say, and end as it ends."""
    import json

    numbers = [number for number in range(3) if _is_open(number)]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    socket.send_fds(connection, [b"!"], numbers)
    answers = connection.makefile("rw")
    folder = os.getcwd()  # noqa: PTH109
    print(json.dumps([numbers, words, folder, dict(os.environ)]), file=answers, flush=True)
    fork = int(answers.readline())
    for name in _SIGNALS:
        signal.signal(getattr(signal, name), lambda number, _: os.kill(fork, number))
    code = int(answers.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _is_open(number: int) -> bool:
    with suppress(OSError):
        os.fstat(number)
        return True
    return False


def _serve(place: str, modules: list[str]) -> list[str]:
    """Fork whenever somebody asks; return in the forks, with their words."""
    import gc
    import importlib
    import select
    import shutil
    import threading

    for module in modules:
        importlib.import_module(module)
    assert threading.active_count() == 1, "a fork would have no other threads"
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in ready:  # closed by the tests, at their end
                shutil.rmtree(os.path.dirname(place))  # noqa: PTH120
                os._exit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    return _fork(connection)


def _fork(connection: socket.socket) -> list[str]:
    """Return in a fork, with the streams and the words that were asked for; this process waits for its end."""
    import json
    import select

    words: list[str]
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    answers = connection.makefile("rw")
    numbers, words, folder, variables = json.loads(answers.readline())
    heard, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    if fork := os.fork():
        for stream in streams:
            os.close(stream)
        with suppress(OSError):
            print(fork, file=answers, flush=True)
        ended, _, _ = select.select([connection.fileno(), heard], [], [])
        if heard not in ended:  # but who asked was killed
            os.kill(fork, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        with suppress(OSError):
            print(code, file=answers, flush=True)
        os._exit(0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers.close()
    connection.close()
    for number in (heard, wakes):
        os.close(number)
    _take(dict(zip(numbers, streams, strict=True)))
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    return words


def _take(streams: dict[int, int]) -> None:
    """Make these the standard streams, by number; as in Python, those that are closed are None."""
    import io
    from typing import Any

    stream: Any
    content: Any
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before, stream = getattr(sys, f"__{name}__"), None
        os.close(number)
        if number in streams:
            os.dup2(streams[number], number)
            os.close(streams[number])
            at_once = before.write_through  # where PYTHONUNBUFFERED is set
            content = io.FileIO(number, before.mode, closefd=False)
            if number == 0:
                content = io.BufferedReader(content)
            elif not at_once:
                content = io.BufferedWriter(content)
            stream = io.TextIOWrapper(content, before.encoding, before.errors, write_through=at_once)
            stream.reconfigure(line_buffering=not at_once and (number == 2 or content.isatty()))
            stream.mode = before.mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(words: list[str]) -> None:
    """Do what Python does with ``-m module ...`` or ``-c program ...``."""
    import runpy
    import types

    kind, program, *arguments = words
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(program, vars(main))


if __name__ == "__main__":
    _, role, place, *rest = sys.argv
    if role == "ask":
        _ask(place, rest)
    else:
        _run(_serve(place, rest))
