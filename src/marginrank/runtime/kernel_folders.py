"""Where compiled kernels are kept: only folders that nobody else can write to, since what is in them is run."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

#: The folder for compiled kernels, by the name that Numba has for it.
VARIABLE: Final = "NUMBA_CACHE_DIR"
_NAME: Final = "marginrank-kernels"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class KernelCacheWarning(UserWarning):
    """Compiled kernels are kept in a temporary folder, or not at all."""


def folders_to_read(source: Path) -> list[Path]:
    """Return the folders that may hold the kernels of a source file, and that can be trusted."""
    beside, others = _places(source)
    trusted = [beside] if beside is not None and _as_safe_as_source(beside) else []
    return trusted + [folder for folder in others if _is_private(folder)]


def folder_to_write(source: Path) -> Path | None:
    """Return the first folder that kernels of a source file can be kept in; None, with a warning, if there is none."""
    beside, others = _places(source)
    if beside is not None and _is_writable(beside, 0o777) and _as_safe_as_source(beside):
        return beside
    return _first_private(tuple(others))


def _places(source: Path) -> tuple[Path | None, list[Path]]:
    """Return the folder beside a source file, and those of the user; the variable replaces them all."""
    if os.environ.get(VARIABLE):
        return None, [Path(os.environ[VARIABLE], _NAME), *_temporary()]
    return source.parent / "__pycache__", [*_user_cache(), *_temporary()]


def _user_cache() -> list[Path]:
    """Return the folder among the caches of the user; none without a home."""
    chosen = Path(os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return [chosen / _NAME]
    with suppress(RuntimeError):  # no home
        home = Path.home()
        return [home / ".cache" / _NAME] if home.is_dir() else []
    return []


def _temporary() -> list[Path]:
    with suppress(FileNotFoundError):  # no folder for temporary files
        return [Path(tempfile.gettempdir(), f"{_NAME}-{os.getuid() if hasattr(os, 'getuid') else 'user'}")]
    return []


@cache
def _first_private(folders: tuple[Path, ...]) -> Path | None:
    chosen = next((folder for folder in folders if _is_writable(folder, 0o700) and _is_private(folder)), None)
    if chosen is None:
        warnings.warn(
            f"no folder for compiled kernels: every run compiles them anew; set {VARIABLE} to a folder that only you "
            "can write to",
            KernelCacheWarning,
            stacklevel=2,
        )
    elif chosen in _temporary():
        warnings.warn(
            f"compiled kernels are kept in {chosen}; set {VARIABLE} to a folder that only you can write to",
            KernelCacheWarning,
            stacklevel=2,
        )
    return chosen


@cache
def _is_writable(folder: Path, mode: int) -> bool:
    try:
        folder.mkdir(mode, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _as_safe_as_source(beside: Path) -> bool:
    """Tell whether whoever can write the folder of kernels can write the source beside it too, and not everyone can."""
    if not hasattr(os, "getuid"):  # Windows, where access goes by the folder above
        return beside.is_dir()
    try:
        own, source = beside.lstat(), beside.parent.stat()
    except OSError:
        return False
    by_group = own.st_mode & stat.S_IWGRP
    return (
        stat.S_ISDIR(own.st_mode)
        and own.st_uid in (0, os.getuid(), source.st_uid)
        and not own.st_mode & stat.S_IWOTH
        and (not by_group or bool(source.st_mode & stat.S_IWGRP and own.st_gid == source.st_gid))
    )


def _is_private(folder: Path) -> bool:
    """Tell whether a folder is ours alone, and nobody else can put another in its place.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _is_private(Path(folder)), _is_private(Path(folder, "absent"))
    (True, False)
    """
    try:
        own, above = folder.lstat(), [parent.stat() for parent in folder.absolute().parents]
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return folder.is_dir()
    trusted = (0, os.getuid())
    return (
        stat.S_ISDIR(own.st_mode)
        and own.st_uid == os.getuid()
        and not own.st_mode & _OTHERS_WRITE
        and all(p.st_uid in trusted and (not p.st_mode & _OTHERS_WRITE or p.st_mode & stat.S_ISVTX) for p in above)
    )
