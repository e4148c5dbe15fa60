"""What commands print: text or one JSON document on standard output, notes on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from marginrank.cli.failures import TRACEBACK_VARIABLE

_PANEL = "Output"


@dataclass(frozen=True)
class Output:
    """How to print; every command has these options."""

    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of text.", rich_help_panel=_PANEL)
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no summary.", rich_help_panel=_PANEL)
    ] = False
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", help=f"Show where errors come from; so does {TRACEBACK_VARIABLE}=1.", rich_help_panel=_PANEL
        ),
    ] = False

    def result(self, document: Mapping[str, Any], text: str) -> None:
        """Print what was asked for."""
        sys.stdout.write((json.dumps(plain(document), indent=2, ensure_ascii=False) if self.json else text) + "\n")
        sys.stdout.flush()

    def summary(self, document: Mapping[str, Any], text: str) -> None:
        """Print what was done; nothing with ``--quiet``, unless JSON is asked for."""
        if self.json or not self.quiet:
            self.result(document, text)


def plain(value: Any) -> Any:
    """Give a value as JSON has it; numbers that are not finite become null.

    >>> from pathlib import Path
    >>> plain({"gap": math.inf, "path": Path("a.txt"), "C": (0.1, 1)})
    {'gap': None, 'path': 'a.txt', 'C': [0.1, 1]}
    """
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, which need not be loaded to print
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


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

    >>> print(facts([("C", "10"), ("wrote", "model.marginrank")]))
    C      10
    wrote  model.marginrank
    """
    width = max(len(name) for name, _ in entries) + 2
    return "\n".join(
        (name if at == 0 else "").ljust(width) + line
        for name, text in entries
        for at, line in enumerate(text.split("\n"))
    )


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Count things in words.

    >>> count(1, "query", "queries"), count(1200, "document")
    ('1 query', '1,200 documents')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"
