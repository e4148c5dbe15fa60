"""What commands print: text or one JSON document on standard output, notes on standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from marginrank.cli.failures import TRACEBACK_VARIABLE
from marginrank.cli.streams import standard_output
from marginrank.words import plain, printable

_PANEL = "Output"
#: What JSON leaves as it is, but a terminal may obey.
_UNSHOWN: Final = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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
        with standard_output() as file:
            file.write((_json(document) if self.json else _shown(text)) + "\n")

    def summary(self, document: Mapping[str, Any], text: str) -> None:
        """Print what was done; nothing with ``--quiet``, unless JSON is asked for."""
        if self.json or not self.quiet:
            self.result(document, text)


def _json(document: Mapping[str, Any]) -> str:
    text = json.dumps(plain(document), indent=2, ensure_ascii=False)
    return _UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _shown(text: str) -> str:
    """Escape what lines hold; those who put names into lines escape the ends of lines in them."""
    return "\n".join(map(printable, text.split("\n")))
