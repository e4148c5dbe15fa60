"""Stop a forked child at every system call, as the kernel sees them; Linux only.

`kills` ends the child with SIGKILL at one stop after the other, `failures` lets one call after the other fail.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path

import pytest

_TRACEME, _PEEKUSER, _POKEUSER, _SYSCALL, _SETOPTIONS = 0, 3, 6, 24, 0x4200
_SYSGOOD, _EXITKILL = 1, 0x100000
#: Registers of x86-64 in the user area.
_RDX, _RAX, _ORIG_RAX = 12 * 8, 10 * 8, 15 * 8
_OPENAT = 257
#: Calls that need room on the disk: write, pwrite64, fsync, ftruncate, rename, mkdir, link, fallocate, and their kin.
_WRITING = {1, 18, 20, 74, 75, 77, 82, 83, 86, 258, 264, 265, 285, 316}
_ROOT = Path(__file__).parents[1]
#: How a child ends: the work was done, or raised an OSError.
DONE, REFUSED = 0, 7


def kills(work: Callable[[], None]) -> Iterator[int]:
    """Yield the number of each call that a child which does the work was killed before, until one comes to its end.

    There are two stops for each call, and what the disk holds at the end of one it holds at the beginning of the next.
    """
    call = 0
    while not _stepped(work, kill_at=2 * call):
        yield call
        call += 1


def failures(work: Callable[[], None]) -> Iterator[bool]:
    """Let each call that needs room on the disk fail in turn, in a child of its own; yield whether it was noticed."""
    number = 0
    while True:
        met, status = _with_failure(work, number)
        if not met:
            return
        assert os.WIFEXITED(status), f"call {number}: the child was killed by signal {status & 0x7F}"
        assert os.WEXITSTATUS(status) in (DONE, REFUSED), f"call {number}: an error other than OSError"
        yield os.WEXITSTATUS(status) == REFUSED
        number += 1


def _with_failure(work: Callable[[], None], number: int) -> tuple[bool, int]:
    child, seen, failing, met, entering = _start(work), 0, False, False, True
    while True:
        _ptrace(_SYSCALL, child, 0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSTOPPED(status):
            return met, status
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            continue
        if entering and _needs_room(child):
            failing = seen == number
            met |= failing
            seen += 1
            if failing:
                _ptrace(_POKEUSER, child, _ORIG_RAX, -1)
        elif not entering and failing:
            _ptrace(_POKEUSER, child, _RAX, -errno.ENOSPC)
            failing = False
        entering = not entering


def _needs_room(child: int) -> bool:
    call = _ptrace(_PEEKUSER, child, _ORIG_RAX)
    # A reader opens files too.
    return call in _WRITING or (call == _OPENAT and bool(_ptrace(_PEEKUSER, child, _RDX) & os.O_CREAT))


def _stepped(work: Callable[[], None], kill_at: int) -> bool:
    """Do the work in a child that is killed at a stop; tell whether it came to its end before."""
    child = _start(work)
    for _ in range(kill_at + 1):
        _ptrace(_SYSCALL, child, 0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == DONE
            return True
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _start(work: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of this process do nothing that the child needs
        child = os.fork()
    if child == 0:
        code = 1
        try:
            _ptrace(_TRACEME, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            code = DONE
        except OSError:
            code = REFUSED
        finally:
            os._exit(code)
    os.waitpid(child, 0)
    _ptrace(_SETOPTIONS, child, 0, _SYSGOOD | _EXITKILL)
    return child


@cache
def _system_call() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    return call


def _ptrace(request: int, child: int, address: int, data: int = 0) -> int:
    call = _system_call()
    ctypes.set_errno(0)
    if request == _PEEKUSER:
        # The C library returns the word itself.
        value = int(call(request, child, address, 0))
    else:
        value = int(call(request, child, address, ctypes.c_void_p(data & (2**64 - 1))))
    if value == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), "ptrace")
    return value


@cache
def _works() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        return _stepped(lambda: None, kill_at=10_000)
    except OSError:
        return False  # containers may forbid it


def supported(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test in an interpreter of its own: a process with all that tests import takes ten times as long to fork."""

    @pytest.mark.skipif(not _works(), reason="needs ptrace on Linux, x86-64")
    @wraps(test)
    def in_small_process(**arguments: object) -> None:
        name, module = test.__name__, test.__module__
        code = f"from pathlib import *; from {module} import {name}; {name}.__wrapped__(**{arguments})"
        done = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return in_small_process
