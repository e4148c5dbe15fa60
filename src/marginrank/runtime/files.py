"""Inputs, opened for reading; a pipe is read once and kept, so that it can be opened again."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, BinaryIO, Final

from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.text import nearest

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


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_UNFINISHED: Final = ".unfinished"


@contextmanager
def atomic_path(path: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a path of the same name to write to, which replaces ``path`` once everything is on the disk.

    Whatever stops the writer, the name holds what it held before or the new file, never a part of it. The new file is
    written in a folder ``.NAME.<hex digits>.unfinished`` beside it, which only a killed process leaves behind; the next
    writer of that name removes it. A symbolic link stays, and the file it points to is replaced.

    Args:
        path: The file to write; its folder has to exist.
        overwrite: Replace a file of that name; otherwise refuse it, before writing and once more after.

    Raises:
        FileExistsError: The file exists and ``overwrite`` is false.
        OSError: The folder is missing or cannot be written to, the name is that of a folder, or the disk is full.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "scores.txt")
    ...     with atomic_path(target) as place:
    ...         _ = place.write_text("0.5")
    ...         print(place.name, target.exists())
    ...     print(target.read_text(), len(list(Path(folder).iterdir())))
    scores.txt False
    0.5 1
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    _check_target(target, overwrite)
    _sweep(target)
    with _waiting_folder(target) as waiting:
        try:
            yield waiting / target.name
            _sync(waiting / target.name)
            if overwrite:
                (waiting / target.name).replace(target)
            else:
                _put_in_free_place(waiting / target.name, target)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno is None or not _is_within(error.filename, waiting):
                raise
            # The waiting name would mean nothing to the reader.
            raise OSError(error.errno, f"cannot write: {error.strerror}", str(target)) from error
    with suppress(OSError):
        _sync(target.parent)


def _is_within(name: object, folder: Path) -> bool:
    return name is None or (isinstance(name, str | os.PathLike) and Path(name).is_relative_to(folder))


@contextmanager
def _waiting_folder(target: Path) -> Iterator[Path]:
    """Make a folder that is locked as long as it is in use, and removed at the end."""
    lock = None
    while lock is None:
        waiting = target.with_name(f".{target.name}.{secrets.token_hex(8)}{_UNFINISHED}")
        try:
            waiting.mkdir()
            lock = _locked(waiting, target, wait=True)
        except OSError as error:
            shutil.rmtree(waiting, ignore_errors=True)
            raise OSError(error.errno, f"cannot write in this folder: {error.strerror}", str(target.parent)) from None
    try:
        yield waiting
    finally:
        # Windows does not remove what is open.
        os.close(lock)
        shutil.rmtree(waiting, ignore_errors=True)


def _sweep(target: Path) -> None:
    """Remove what killed writers of this name left, but nothing that a live one uses."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}" + re.escape(_UNFINISHED))
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in [one for one in entries if pattern.fullmatch(one.name)]:
            if entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_unused(Path(entry.path), target)


def _remove_if_unused(waiting: Path, target: Path) -> None:
    lock = _locked(waiting, target, wait=False)
    if lock is not None:
        if fcntl is None:
            os.close(lock)
        shutil.rmtree(waiting, ignore_errors=True)
        if fcntl is not None:
            os.close(lock)


def _locked(waiting: Path, target: Path, *, wait: bool) -> int | None:
    """Lock a waiting folder and return the descriptor; None if another holds it or has removed it.

    Where there are no such locks, as on Windows, a file that is open cannot be removed, which tells the same.
    """
    path = waiting / f"{target.name}.lock"
    if fcntl is None:
        if not wait:
            path.unlink(missing_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(lock), path.stat()):
            return lock
    except FileNotFoundError:
        pass
    except OSError:
        if wait:  # a file system without locks, where nothing is swept
            return lock
    os.close(lock)
    return None


def _check_target(target: Path, overwrite: bool) -> None:
    folder = target.parent
    if not folder.is_dir():
        kind = NotADirectoryError if folder.exists() else FileNotFoundError
        raise kind(f"{folder}: no such folder; create it first, or choose another")
    if target.is_dir():
        raise IsADirectoryError(f"{target}: this is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise OSError(f"{target}: not a regular file; give another name")
    if not overwrite:
        _refuse_existing(target)


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"{target}: exists; choose another name or pass overwrite=True")


def _put_in_free_place(written: Path, target: Path) -> None:
    try:
        target.hardlink_to(written)
    except OSError:
        # The name was taken meanwhile, or this file system has no hard links.
        _refuse_existing(target)
        written.replace(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
