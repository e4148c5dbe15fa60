"""Docstrings as text to read: without markup and doctests, wrapped to the terminal."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from typing import Final

_MARKUP: Final = re.compile(r":\w+:`([^`]*)`|``(.*?)``|`~?([^`]*)`")
#: A line that starts an item of a list, or the description of a parameter.
_ITEM: Final = re.compile(r"(- |\w+: )")
_WIDEST: Final = 100


def terminal_width() -> int:
    """Return the width of the terminal, but not more than is pleasant to read."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


def screen_width() -> int | None:
    """Return the width of the terminal that standard output is; None for files and pipes, where nothing is wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def readable(documented: object, width: int | None = None) -> str:
    r"""Return the docstring of an object as plain text.

    >>> def search(depth: int) -> None:
    ...     '''Find ``documents`` by their `words`,
    ...     all of them.
    ...
    ...     >>> search(3)
    ...
    ...     Args:
    ...         depth: How many; ``None`` stands
    ...             for all.
    ...     '''
    >>> print(readable(search, 30))
    Find documents by their words,
    all of them.
    <BLANKLINE>
    depth: How many; None stands
        for all.
    """
    text = _MARKUP.sub(lambda match: next(filter(None, match.groups()), ""), inspect.getdoc(documented) or "")
    blocks = [block for block in text.split("\n\n") if not block.lstrip().startswith(">>>")]
    return "\n\n".join(filter(None, (_wrapped(block, width or terminal_width()) for block in blocks)))


def _wrapped(block: str, width: int) -> str:
    """Join the lines of each paragraph or item, and break them anew."""
    items: list[str] = []
    for line in textwrap.dedent(re.sub(r"\A\w+:\n", "", block)).splitlines():
        if not items or (_ITEM.match(line) and not line.startswith(" ")):
            items.append(line.strip())
        else:
            items[-1] += " " + line.strip()
    return "\n".join(
        textwrap.fill(item, width, subsequent_indent=_indent(item), break_on_hyphens=False) for item in items
    )


def _indent(item: str) -> str:
    return "  " if item.startswith("- ") else "    " if _ITEM.match(item) else ""
