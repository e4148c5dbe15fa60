"""How counts, tables, hints and records are put into words."""

from __future__ import annotations

import difflib
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Count things.

    >>> count(1, "query", "queries"), count(1200, "document")
    ('1 query', '1,200 documents')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def feature_labels(names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    """Return what features are called: their names, or f1, f2, ... in the order of the columns.

    In LETOR text these are the numbers of the file, and tables that are written from it have columns of these names.

    >>> feature_labels(["bm25", "clicks"], 2), feature_labels(None, 2)
    (('bm25', 'clicks'), ('f1', 'f2'))
    """
    return tuple(f"f{number}" for number in range(1, n_features + 1)) if names is None else tuple(names)


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


def printable(text: str) -> str:
    r"""Escape the characters of a text that steer a terminal or turn the order of reading.

    Bytes of a path that are not UTF-8 are shown as such.

    >>> print(printable("a\tb\x1b[31m"), printable("\u202egnp.exe"), printable("caf\udce9 größe"))
    a\tb\x1b[31m \u202egnp.exe caf\xe9 größe
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character in _HARMLESS or unicodedata.category(character) == "Zs":
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


#: Joiners, which scripts and emoji need.
_HARMLESS: Final = "\u200c\u200d"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Align the columns of rows of text, the numbered ones to the right; no cell can leave its place.

    >>> print(table([["measure", "mean"], ["ap", "0.5"]], right=[1]))
    measure  mean
    ap        0.5
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def facts(entries: Sequence[tuple[str, str | Sequence[str]]]) -> str:
    r"""Put names before texts, or lists of lines.

    >>> print(facts([("C", "10"), ("wrote", ["model.safetensors", "model\n2"])]))
    C      10
    wrote  model.safetensors
           model\n2
    """
    width = max(len(name) for name, _ in entries) + 2
    return "\n".join(
        (name if at == 0 else "").ljust(width) + printable(line)
        for name, text in entries
        for at, line in enumerate([text] if isinstance(text, str) else text)
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
