"""`numba.njit` with the options of this package, and the cache folder of compiled kernels."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba

from marginrank.version import __version__

#: Log message if something has to be compiled.
COMPILING: Final = "compiling kernels for this machine; this takes a few seconds, and happens once"
_LOG: Final = logging.getLogger(__name__)
_PACKAGE: Final = Path(__file__).parents[1]
_CONFIG: Final[Any] = numba.config
_JIT: Final[Any] = numba.njit
_LOCK: Final = threading.Lock()


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be cached."""


def njit(*, nogil: bool = True, cache: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function with Numba.

    A function whose name begins with _ is called by kernels only, and compiled with them. Without options it is
    inlined, which avoids reference counting of its arrays.

    Args:
        nogil: Whether to release the global interpreter lock.
        cache: Whether to cache the compiled function on disk.
        options: Further options of `numba.njit`.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        if function.__name__.startswith("_"):
            return _JIT(nogil=nogil, **(options or {"inline": "always"}))(function)
        folder = cache_folder() if cache else None
        if folder is None:
            return _JIT(nogil=nogil, **options)(function)
        if _is_uncached(Path(function.__code__.co_filename).stem, folder):
            _announce()
        with _LOCK:
            before, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(folder)
            try:
                return _JIT(nogil=nogil, cache=True, **options)(function)
            finally:
                _CONFIG.CACHE_DIR = before  # other packages use Numba too

    return compiled


@cache
def cache_folder() -> Path | None:
    """Return the cache folder of kernels; None, with a warning, if there is none that only this user can write to.

    Its name has a digest of all kernels, since Numba does not notice changes of functions in other modules.
    """
    kernels = sorted(_PACKAGE.rglob("*_kernel.py"))
    digest = hashlib.sha256(b"".join([__version__.encode(), *(path.read_bytes() for path in kernels)]))
    for parent in _parents():
        folder = parent / f"marginrank-kernels-{digest.hexdigest()[:12]}"
        if _is_private(folder):
            return folder
    warnings.warn(
        "no folder for compiled kernels: they are compiled in every run; set NUMBA_CACHE_DIR to a folder that only you "
        "can write to",
        KernelCacheWarning,
        stacklevel=2,
    )
    return None


def _parents() -> Iterator[Path]:
    """Yield the folder that the user configured, or else the one beside the sources and the user's cache folder."""
    if _CONFIG.CACHE_DIR:
        yield Path(_CONFIG.CACHE_DIR)
        return
    yield _PACKAGE / "__pycache__"
    caches = Path(os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", ""))
    if caches.is_absolute():
        yield caches
    elif (home := Path("~").expanduser()).is_dir():
        yield home / ".cache"


def _is_private(folder: Path) -> bool:
    """Make a folder; return whether only this user can write to it, since code in it is executed."""
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        status = folder.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows, where access goes by the folder above
        return True
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return ours and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@cache
def _is_uncached(module: str, folder: Path) -> bool:
    """Return whether no kernel of a module is cached."""
    return not any(folder.glob(f"*/{module}.*"))


@cache
def _announce() -> None:
    """Log that kernels are compiled, once per process."""
    _LOG.info(COMPILING)
