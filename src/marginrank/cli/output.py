"""Output of commands: text or one JSON document on standard output, notes on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import typer

from marginrank.cli.exit_codes import TRACEBACK_VARIABLE, UsageError
from marginrank.cli.streams import standard_output
from marginrank.errors import DataError
from marginrank.runtime.files import no_such_file
from marginrank.runtime.text import plain, printable

#: What JSON leaves as it is, but a terminal may obey.
_UNSHOWN: Final = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Output:
    """Options of output, which every command has."""

    panel: ClassVar = "Output"

    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no summary.")] = False
    traceback: Annotated[
        bool, typer.Option("--traceback", help=f"Print the traceback of an error, like {TRACEBACK_VARIABLE}=1.")
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


Force: TypeAlias = Annotated[
    bool, typer.Option("--force", "-f", help="Replace existing files.", rich_help_panel="Output")
]


Details: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--details", help="Also print bound, solver, objective, slack, norm and passes.", rich_help_panel="Output"
    ),
]


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse what is not there or may not be read."""
    for path in paths:
        if not path.exists():
            raise DataError(no_such_file(path), path=path)
        if not os.access(path, os.R_OK):
            raise DataError("permission denied; change the permissions of the file", path=path)


def standard_input() -> Path:
    """Return the path of standard input; refuse a terminal."""
    path = Path("/dev/stdin")
    if not path.exists():
        raise UsageError("-: there is no standard input here; give a file")
    if sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            "-: standard input is the terminal; redirect a file to it, as in marginrank rank MODEL - < FILE"
        )
    return path


def check_outputs(paths: Sequence[Path | None], *, inputs: Sequence[Path] = (), force: bool = False) -> None:
    """Refuse, before any work is done, what exists or could not be written; None is no output."""
    for path in paths:
        if path is not None:
            _check_output(path, inputs, force)


def _check_output(path: Path, inputs: Sequence[Path], force: bool) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise DataError("no such folder; create it first", path=folder)
    if not os.access(folder, os.W_OK):
        raise DataError("cannot write in this folder; choose another, or change its permissions", path=folder)
    if not path.exists():
        return
    if any(path.samefile(source) for source in inputs if source.exists()):
        raise DataError("this is both input and output; choose another name", path=path)
    if not force:
        raise DataError("already exists; choose another name, or give --force", path=path)
    if path.is_dir():
        raise DataError("this is a folder; give the name of a file", path=path)


@contextmanager
def atomic_output(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a place to write to, of the same name, that takes the place of ``path`` once everything is written."""
    from marginrank.runtime.files import atomic_path  # noqa: PLC0415

    waiting: Path | None = None
    try:
        with atomic_path(path, overwrite=force) as waiting:
            yield waiting
    except FileExistsError:
        raise DataError("already exists; choose another name, or give --force", path=path) from None
    except DataError as error:
        # The waiting name would mean nothing to the reader.
        place = path if error.path == str(waiting) else error.path
        raise DataError(error.message, path=place, line=error.line, column=error.column) from error
