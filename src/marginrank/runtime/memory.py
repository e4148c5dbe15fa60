"""The memory budget, checked before allocation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from marginrank.errors import DataError

#: Environment variable with the budget, in bytes or as ``8GB``.
VARIABLE: Final = "MARGINRANK_MAX_MEMORY"
#: Default budget, as a fraction of the machine's memory.
_DEFAULT_FRACTION: Final = 0.8
_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?)B?", re.IGNORECASE)
_UNLIMITED: Final = 1 << 62


def max_memory(given: int | str | None = None) -> int:
    """Return the budget in bytes: the one given, that of ``MARGINRANK_MAX_MEMORY``, or 80% of the machine's memory.

    A lower limit of the container (cgroup) or of the address space of this process counts instead of the machine's
    memory.

    >>> max_memory("1.5 GB"), max_memory(4096)
    (1500000000, 4096)
    """
    if given is None:
        given = os.environ.get(VARIABLE) or None
    if given is None:
        return int(_DEFAULT_FRACTION * min(_limits(), default=_UNLIMITED))
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    match = _SIZE.fullmatch(str(given).strip())
    if match is None:
        raise ValueError(f"max_memory is {given!r}; give bytes, or a size such as '8GB'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def check_memory(needed: int, what: str, budget: int, *, remedy: str = "", path: str | Path | None = None) -> None:
    """Refuse to allocate more memory than the budget.

    >>> check_memory(5 * 10**9, "3 queries", 10**9, remedy="read fewer", path="a.txt")
    Traceback (most recent call last):
    ...
    marginrank.errors.DataError: a.txt: 3 queries need 5.0 GB of memory, and max_memory is 1.0 GB; read fewer, or \
set max_memory or MARGINRANK_MAX_MEMORY higher
    """
    if needed > budget:
        hint = f"{remedy}, or " if remedy else ""
        raise DataError(
            f"{what} need {size_text(needed)} of memory, and max_memory is {size_text(budget)}; "
            f"{hint}set max_memory or {VARIABLE} higher",
            path=path,
        )


def size_text(n_bytes: int) -> str:
    """Format a number of bytes.

    >>> size_text(5_250_000), size_text(12)
    ('5.2 MB', '12 bytes')
    """
    for unit in ("T", "G", "M", "K"):
        if n_bytes >= _UNITS[unit]:
            return f"{n_bytes / _UNITS[unit]:.1f} {unit}B"
    return f"{n_bytes} bytes"


def _limits() -> Iterator[int]:
    """Yield the limits of the memory of this process."""
    with suppress(AttributeError, OSError, ValueError):  # there is none on Windows
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource  # noqa: PLC0415

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            soft, _ = resource.getrlimit(kind)
            if soft != resource.RLIM_INFINITY:
                yield soft
    yield from _cgroup_limits()


def _cgroup_limits() -> Iterator[int]:
    """Yield the limits of the control groups that this process is in, of both versions."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        group = root / name.lstrip("/")
        for folder in (group, *group.parents):
            if folder == root.parent:
                break
            file = folder / ("memory.limit_in_bytes" if controllers else "memory.max")
            with suppress(OSError, ValueError):
                word = file.read_text(encoding="ascii").strip()
                if word.isdigit():  # otherwise "max"
                    yield int(word)
