"""Standard streams: what is printed on them, and what happens where they are closed, full or no longer read."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from marginrank.runtime.text import printable


class NotRead(Exception):  # noqa: N818
    """Nobody reads standard output any more, as after ``| head``."""


def prepare_streams() -> None:
    """Let nothing that is printed be a reason to fail: closed streams lead nowhere, odd characters are escaped.

    A closed stream is replaced before any file is opened, which would otherwise get its number, and what is printed.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Yield standard output, and name it where it cannot be written to."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise NotRead from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


class LoggedLines(logging.Handler):
    """Prints what is logged on standard error, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        note(record.getMessage())


class _NewLines:
    """Lets a message pass once; a table that is read again for other features has the same beginning."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def __call__(self, record: logging.LogRecord) -> bool:
        beginning = tuple(record.getMessage().split(", ")[:2])
        is_new = beginning not in self._seen
        self._seen.add(beginning)
        return is_new


@contextmanager
def logged_as_lines(name: str, *, quiet: bool) -> Iterator[None]:
    """Print what a module logs on standard error, each message once; nothing if quiet."""
    log, lines = logging.getLogger(name), LoggedLines(logging.INFO)
    lines.addFilter(_NewLines())
    level = log.level
    if not quiet:
        log.addHandler(lines)
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(level)


def note(text: str) -> None:
    """Print a line on standard error, if anyone reads it."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)
