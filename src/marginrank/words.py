"""How counts, tables, hints and records are put into words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Count things.

    >>> count(1, "query", "queries"), count(1200, "document")
    ('1 query', '1,200 documents')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that is most like another, if any is like it.

    >>> nearest("stadard", ["standard", "trec"]), nearest("x", ["standard", "trec"])
    ('standard', None)
    """
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask for the name that may have been meant; nothing where none is like it.

    >>> did_you_mean("stadard", ["standard", "trec"]), did_you_mean("x", ["standard", "trec"])
    ("did you mean 'standard'? ", '')
    """
    near = nearest(name, known)
    return "" if near is None else f"did you mean {near!r}? "


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that may have been meant, or list them all.

    >>> suggest("stadard", ["standard", "trec"]), suggest("x", ["standard", "trec"])
    ("did you mean 'standard'?", 'known: standard, trec')
    """
    return did_you_mean(name, known).strip() or f"known: {', '.join(known)}"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Align the columns of rows of text, the numbered ones to the right.

    >>> print(table([["measure", "mean"], ["ap", "0.5"]], right=[1]))
    measure  mean
    ap        0.5
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def facts(entries: Sequence[tuple[str, str]]) -> str:
    """Put names before texts, which may have several lines.

    >>> print(facts([("C", "10"), ("wrote", "model.safetensors")]))
    C      10
    wrote  model.safetensors
    """
    width = max(len(name) for name, _ in entries) + 2
    return "\n".join(
        (name if at == 0 else "").ljust(width) + line
        for name, text in entries
        for at, line in enumerate(text.split("\n"))
    )


def plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers that are not finite become null, objects their spelling.

    >>> from pathlib import Path
    >>> plain({"gap": math.inf, "path": Path("a.txt"), "C": (0.1, 1)})
    {'gap': None, 'path': 'a.txt', 'C': [0.1, 1]}
    """
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, which need not be loaded for this
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)
