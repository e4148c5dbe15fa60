"""Input files and pipes, and files written atomically."""

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

from marginrank.errors import DataError
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.text import nearest

_BLOCK: Final = 1 << 20

#: Copies of pipes, which can be read only once.
_pipe_copies: ContextVar[dict[Path, IO[bytes]] | None] = ContextVar("pipe_copies", default=None)


def no_such_file(path: Path) -> str:
    """Return the message for a missing file, with a similar name if there is one."""
    with suppress(OSError):
        near = nearest(path.name, [file.name for file in path.parent.iterdir()], likeness=0.8)
        if near is not None:
            return f"no such file; did you mean {str(path.with_name(near))!r}?"
    return "no such file; check the name and the folder"


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a socket or a device, which can be read only once."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


@contextmanager
def rereadable_pipes() -> Iterator[None]:
    """Copy pipes to temporary files, so that every `open_input` inside the context reads them from the beginning."""
    if _pipe_copies.get() is not None:
        yield
        return
    files: dict[Path, IO[bytes]] = {}
    token = _pipe_copies.set(files)
    try:
        yield
    finally:
        _pipe_copies.reset(token)
        for file in files.values():
            file.close()


def open_input(path: Path) -> BinaryIO:
    """Open a file or a pipe for reading; the result is seekable."""
    if not is_stream(path):
        try:
            return path.open("rb")
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: {no_such_file(path)}") from None
    files = _pipe_copies.get()
    if files is None:
        return _copy(path)
    if path not in files:
        files[path] = _copy(path)
    copy = os.fdopen(os.dup(files[path].fileno()), "rb")
    copy.seek(0)
    return copy


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file; refuse folders, pipes, sockets and devices, whose readers may wait forever."""
    irregular = DataError("not a regular file; put a file there", path=path)
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: {no_such_file(path)}") from None
    except IsADirectoryError:
        raise irregular from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise irregular
    return file


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _copy(path: Path) -> BinaryIO:
    """Copy a stream to a unnamed temporary file, which disappears even if the process is killed."""
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
def atomic_path(path: str | Path, *, overwrite: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` once everything is on the disk.

    If the writer fails, ``path`` is unchanged; it is never half written. The temporary file has the same name and is in
    a folder ``.NAME.<hex digits>.unfinished`` beside it, which nobody else may enter. Only a killed process leaves this
    folder behind, and the next writer of that name removes it. A symbolic link remains, and the file it points to is
    replaced. The new file has the permissions of the one it replaces.

    Args:
        path: The file to write; its folder has to exist.
        overwrite: Replace an existing file; otherwise refuse it, before and after writing.
        private: If there is no such file yet, let only its owner read and write it.

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
    _remove_leftovers(target)
    with _temporary_folder(target) as folder:
        try:
            yield folder / target.name
            _set_mode(folder / target.name, target, private)
            _sync(folder / target.name)
            if overwrite:
                (folder / target.name).replace(target)
            else:
                _move_without_overwriting(folder / target.name, target)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno is None or not _is_within(error.filename, folder):
                raise
            # Name the target: the user does not know the temporary path.
            raise OSError(error.errno, f"cannot write: {error.strerror}", str(target)) from error
    with suppress(OSError):
        _sync(target.parent)


def _is_within(name: object, folder: Path) -> bool:
    return name is None or (isinstance(name, str | os.PathLike) and Path(name).is_relative_to(folder))


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """Make a folder that is locked while in use, and removed at the end."""
    lock = None
    while lock is None:
        folder = target.with_name(f".{target.name}.{secrets.token_hex(8)}{_UNFINISHED}")
        try:
            folder.mkdir(0o700)
            lock = _locked(folder, target, wait=True)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise OSError(error.errno, f"cannot write in this folder: {error.strerror}", str(target.parent)) from None
    try:
        yield folder
    finally:
        # Windows does not remove what is open.
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary folders that killed writers of this name left; those in use are locked."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}" + re.escape(_UNFINISHED))
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in [item for item in entries if pattern.fullmatch(item.name)]:
            if entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_unused(Path(entry.path), target)


def _remove_if_unused(folder: Path, target: Path) -> None:
    lock = _locked(folder, target, wait=False)
    if lock is not None:
        if fcntl is None:
            os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
        if fcntl is not None:
            os.close(lock)


def _locked(folder: Path, target: Path, *, wait: bool) -> int | None:
    """Lock a temporary folder and return the descriptor; None if another process has locked or removed it.

    Windows has no such locks, but an open file cannot be removed there, which has the same effect.
    """
    path = folder / f"{target.name}.lock"
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
        if wait:  # a file system without locks, where leftovers remain
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


def _set_mode(written: Path, target: Path, private: bool) -> None:
    """Set the permissions of the file that is replaced, or those of a private one; others follow the umask."""
    mode = stat.S_IMODE(written.stat().st_mode)
    mode_bits = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600 if private else mode
    if mode_bits != mode:
        written.chmod(mode_bits)


def _move_without_overwriting(written: Path, target: Path) -> None:
    try:
        target.hardlink_to(written)
    except OSError:
        # The name is taken by now, or this file system has no hard links.
        _refuse_existing(target)
        written.replace(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
