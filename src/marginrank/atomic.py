"""Files that appear under their name whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a path of the same name to write to, which replaces ``path`` once everything is on the disk.

    Whatever stops the writer, the name holds what it held before or the new file, never a part of it. The new file is
    written in a folder ``.NAME.<hex digits>.unfinished`` beside it, which only a killed process leaves behind. A
    symbolic link stays, and the file it points to is replaced.

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
    waiting = target.with_name(f".{target.name}.{secrets.token_hex(8)}.unfinished")
    try:
        waiting.mkdir()
    except OSError as error:
        raise OSError(error.errno, f"cannot write in this folder: {error.strerror}", str(target.parent)) from None
    try:
        yield waiting / target.name
        _sync(waiting / target.name)
        if overwrite:
            (waiting / target.name).replace(target)
        else:
            _put_in_free_place(waiting / target.name, target)
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    with suppress(OSError):
        _sync(target.parent)


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
