"""Text output: counts, tables, suggestions, JSON values."""

from __future__ import annotations

import difflib
import html
import math
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Format a number of things.

    >>> count(1, "query", "queries"), count(1200, "document")
    ('1 query', '1,200 documents')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def feature_labels(names: Sequence[str] | None, n_features: int, first: int = 0) -> tuple[str, ...]:
    """Return the names of features or, without names, their numbers in the file they come from.

    >>> feature_labels(["bm25", "clicks"], 2), feature_labels(None, 2), feature_labels(None, 2, first=1)
    (('bm25', 'clicks'), ('0', '1'), ('1', '2'))
    """
    return tuple(map(str, range(first, first + n_features))) if names is None else tuple(names)


def feature_named(label: str) -> str:
    """Return how to name a feature in a sentence.

    >>> feature_named("12"), feature_named("bm25")
    ('feature 12', "feature 'bm25'")
    """
    return f"feature {label}" if label.isdecimal() else f"feature {label!r}"


def query_named(query: object) -> str:
    """Return how to name a query in a sentence.

    >>> query_named(17), query_named("query 03"), query_named("Q7")
    ('query 17', 'query 03', 'query Q7')
    """
    return str(query) if str(query).lower().startswith("query") else f"query {query}"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Join names with commas; many are abbreviated to the first, the last and their number.

    >>> listed(["a", "b"]), listed([str(number) for number in range(1, 47)], most=3)
    ('a, b', '1, 2, 3, ... 46 (46 in all)')
    """
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... {names[-1]} ({len(names):,} in all)"


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most similar to another; None if none has the likeness, which is 1 for equal names.

    >>> nearest("stadard", ["standard", "trec"]), nearest("x", ["standard", "trec"]), nearest("c", ["C"])
    ('standard', None, 'C')
    """
    known = list(known)
    if (same := next((candidate for candidate in known if candidate.lower() == name.lower()), None)) is not None:
        return same
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=likeness)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask for a similar name; the empty text if there is none.

    >>> did_you_mean("stadard", ["standard", "trec"]), did_you_mean("x", ["standard", "trec"])
    ("did you mean 'standard'? ", '')
    """
    near = nearest(name, known)
    return "" if near is None else f"did you mean {near!r}? "


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest a similar name, or list all known names.

    >>> suggest("stadard", ["standard", "trec"]), suggest("x", ["standard", "trec"])
    ("did you mean 'standard'?", 'known: standard, trec')
    """
    return did_you_mean(name, known).strip() or f"known: {', '.join(known)}"


def printable(text: str) -> str:
    r"""Escape control characters and those that change the direction of text.

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


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int | None = None) -> str:
    """Align the columns of rows of text, those in ``right`` to the right; control characters are escaped.

    With a width, the last column is wrapped to it.

    >>> print(table([["measure", "mean"], ["ap", "0.5"]], right=[1]))
    measure  mean
    ap        0.5
    >>> print(table([["p", "precision at k"], ["ap", "average precision"]], width=16))
    p   precision at
        k
    ap  average
        precision
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    if width is not None:
        before = sum(max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1])
        rows = [line for row in rows for line in _wrapped(row, max(width - before, 10))]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _wrapped(row: Sequence[str], width: int) -> list[list[str]]:
    """Return the lines of a row whose last cell is wrapped."""
    first, *others = textwrap.wrap(row[-1], width) or [""]
    return [[*row[:-1], first], *([*[""] * (len(row) - 1), line] for line in others)]


def facts(entries: Sequence[tuple[str, str | Sequence[str]]]) -> str:
    r"""Format pairs of a name and a text, or a list of lines, as two columns.

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
    """Return a value as JSON types: numbers that are not finite become None, other objects text.

    >>> from pathlib import Path
    >>> plain({"gap": math.inf, "path": Path("a.txt"), "C": (0.1, 1)})
    {'gap': None, 'path': 'a.txt', 'C': [0.1, 1]}
    """
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, which this need not import
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


#: Maximum number of rows shown in a notebook.
_MAX_ROWS: Final = 30


@dataclass(frozen=True)
class ResultTable:
    """A table of text with a note below it.

    >>> result = ResultTable([["query", "ap"], ["<b>", "0.5"]], right=[1], note="policy: trec")
    >>> print(result.text())
    query   ap
    <b>    0.5
    policy: trec
    >>> "&lt;b&gt;" in result.html(), "<b>" in result.html()
    (True, False)

    Args:
        rows: The column headers, then the rows.
        right: Indices of right-aligned columns.
        note: Text below the table.
    """

    rows: Sequence[Sequence[str]]
    right: Collection[int] = ()
    note: str = ""

    def text(self) -> str:
        """Return the table as aligned text."""
        return f"{table(self.rows, right=tuple(self.right))}\n{printable(self.note)}"

    def html(self) -> str:
        """Return the table as HTML in the colors of the notebook; cells are escaped."""
        heads, *rows = self.rows
        body = "".join(self._row("td", row) for row in rows[:_MAX_ROWS])
        more = f"{len(rows) - _MAX_ROWS:,} more rows; " if len(rows) > _MAX_ROWS else ""
        note = f"<p>{_escaped(more + self.note)}</p>" if more or self.note else ""
        return f"<div><table><thead>{self._row('th', heads)}</thead><tbody>{body}</tbody></table>{note}</div>"

    def _row(self, tag: str, cells: Sequence[str]) -> str:
        sides = ["right" if at in self.right else "left" for at in range(len(cells))]
        words = [
            f'<{tag} style="text-align: {side}">{_escaped(cell)}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(words)}</tr>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return a pandas frame with these columns; say what to install if there is no pandas."""
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas") from None
    return pd.DataFrame(dict(columns))
