"""Inputs, opened for reading; a pipe is read once and kept, so that it can be opened again."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, BinaryIO, Final

from marginrank.memory import check_memory, max_memory
from marginrank.words import nearest

_BLOCK: Final = 1 << 20
_kept: ContextVar[dict[Path, IO[bytes]] | None] = ContextVar("kept", default=None)


def no_such_file(path: Path) -> str:
    """Say that a file is not there, and which one may have been meant."""
    with suppress(OSError):
        near = nearest(path.name, [other.name for other in path.parent.iterdir()], likeness=0.8)
        if near is not None:
            return f"no such file; did you mean {str(path.with_name(near))!r}?"
    return "no such file; check the name and the folder"


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a socket or a device, whose bytes come only once."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


@contextmanager
def streams_kept() -> Iterator[None]:
    """Keep what is read from pipes in temporary files, so that every `open_input` inside gives all of it."""
    if _kept.get() is not None:
        yield
        return
    files: dict[Path, IO[bytes]] = {}
    token = _kept.set(files)
    try:
        yield
    finally:
        _kept.reset(token)
        for file in files.values():
            file.close()


def open_input(path: Path) -> BinaryIO:
    """Open a file or a pipe at its beginning; the result can seek."""
    if not is_stream(path):
        try:
            return path.open("rb")
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: {no_such_file(path)}") from None
    files = _kept.get()
    if files is None:
        return _copy(path)
    if path not in files:
        files[path] = _copy(path)
    again = os.fdopen(os.dup(files[path].fileno()), "rb")
    again.seek(0)
    return again


def _copy(path: Path) -> BinaryIO:
    """Copy a stream to a temporary file without a name, which even a killed process does not leave behind."""
    budget, n_bytes = max_memory(), 0
    copy = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        with path.open("rb", buffering=0) as stream:
            while data := stream.read(_BLOCK):
                n_bytes += len(data)
                check_memory(n_bytes, "the data of this pipe", budget, remedy="give a file", path=path)
                copy.write(data)
        copy.flush()
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy
