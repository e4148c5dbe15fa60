"""Files that appear under their name whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform == "win32":

    def _claim(_: int) -> bool:
        # Windows removes no file that another process has open, so an open file needs no lock.
        return True

else:
    import fcntl

    def _claim(descriptor: int) -> bool:
        """Lock a file for as long as it is open here, and tell whether nobody else had locked it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


@contextmanager
def atomic_write(path: str | Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name once all of it is on the disk.

    Whatever stops the writer, the name holds what it held before or the new file, never a part of it. On Linux the
    file has no name while it is written, so that even a killed process leaves nothing behind. Where that is not
    possible, and for the moment between naming and replacing, it is called ``.NAME.<16 hex digits>.unfinished``; the
    next write to the same name removes what a killed process left so. Permissions follow the umask. A symbolic link
    stays, and the file it points to is replaced.

    Args:
        path: The file to write; its folder has to exist.
        overwrite: Replace a file of that name; otherwise refuse it, before writing and once more after.

    Raises:
        FileExistsError: The file exists and ``overwrite`` is false.
        OSError: The folder is missing or may not be written to, the name is that of a folder, or the disk is full.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a.bin")) as file:
    ...         _ = file.write(b"new")
    ...         print(Path(folder, "a.bin").exists())
    ...     print(Path(folder, "a.bin").read_bytes())
    False
    b'new'
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    _check_target(target, overwrite)
    _remove_leftovers(target)
    waiting = target.with_name(f".{target.name}.{os.urandom(8).hex()}.unfinished")
    try:
        with os.fdopen(_create(waiting), "w+b") as file:
            _claim(file.fileno())
            yield file
            _sync(file)
            _give_name(file, waiting)
            if sys.platform == "win32":
                file.close()  # an open file cannot be renamed there
            _put_in_place(waiting, target, overwrite)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(target)
        raise
    finally:
        waiting.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _check_target(target: Path, overwrite: bool) -> None:
    folder = target.parent
    if not folder.is_dir():
        kind = errno.ENOTDIR if folder.exists() else errno.ENOENT
        raise OSError(kind, "no such folder; make it first or choose another", str(folder))
    if target.is_dir():
        raise OSError(errno.EISDIR, "this is a folder; give the name of a file", str(target))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file; give another name", str(target))
    if not overwrite:
        _refuse_existing(target)


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise FileExistsError(errno.EEXIST, "exists; choose another name or pass overwrite=True", str(target))


def _remove_leftovers(target: Path) -> None:
    """Remove what killed writers of the same name left behind; a file that is still being written is locked."""
    leftover = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.unfinished")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if leftover.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) and _is_abandoned(entry.path):
                Path(entry.path).unlink(missing_ok=True)


def _is_abandoned(path: str) -> bool:
    with suppress(OSError), Path(path).open("r+b") as file:
        return _claim(file.fileno())
    return False


def _create(waiting: Path) -> int:
    """Open a file that has no name or, where the system or the file system refuses that, a waiting name."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.open(waiting.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
    return _create_named(waiting)


def _create_named(waiting: Path) -> int:
    try:
        return os.open(waiting, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        # The waiting name would mean nothing to the reader.
        raise OSError(error.errno, f"cannot write in this folder: {error.strerror}", str(waiting.parent)) from None


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _give_name(file: BinaryIO, waiting: Path) -> None:
    """Link a file without a name to its waiting name, or copy it there where such links are refused."""
    if waiting.exists():
        return
    here = file.fileno()
    try:
        # Only linkat follows the link in /proc, and Python calls it only where a folder is given.
        os.link(f"/proc/self/fd/{here}", waiting, src_dir_fd=here, follow_symlinks=True)
    except OSError:
        file.seek(0)
        with os.fdopen(_create_named(waiting), "wb") as copy:
            shutil.copyfileobj(file, copy)
            _sync(copy)


def _put_in_place(waiting: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        waiting.replace(target)
        return
    try:
        target.hardlink_to(waiting)
    except OSError:
        # The name was taken meanwhile, or this file system has no hard links.
        _refuse_existing(target)
        waiting.replace(target)


def _sync_folder(folder: Path) -> None:
    """Put the new name itself on the disk, where the system lets a folder be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
