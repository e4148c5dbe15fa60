"""What commands print: text or one JSON document on standard output, notes on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from marginrank.cli.failures import TRACEBACK_VARIABLE
from marginrank.words import plain

_PANEL = "Output"


@dataclass(frozen=True)
class Output:
    """How to print; every command has these options."""

    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of text.", rich_help_panel=_PANEL)
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no progress and no summary.", rich_help_panel=_PANEL)
    ] = False
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", help=f"Print the traceback of an error, like {TRACEBACK_VARIABLE}=1.", rich_help_panel=_PANEL
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
