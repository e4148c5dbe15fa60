"""Files of commands: inputs that exist, and outputs that are refused early or written whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from marginrank.errors import DataError
from marginrank.sources import no_such_file

Force: TypeAlias = Annotated[
    bool, typer.Option("--force", "-f", help="Replace existing files.", rich_help_panel="Output")
]


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse what is not there or may not be read."""
    for path in paths:
        if not path.exists():
            raise DataError(no_such_file(path), path=path)
        if not os.access(path, os.R_OK):
            raise DataError("permission denied; change the permissions of the file", path=path)


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
def whole(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a place to write to, of the same name, that takes the place of ``path`` once everything is written."""
    from marginrank.atomic import atomic_path  # noqa: PLC0415

    waiting: Path | None = None
    try:
        with atomic_path(path, overwrite=force) as waiting:
            yield waiting
    except FileExistsError:
        raise DataError("already exists; choose another name, or give --force", path=path) from None
    except DataError as error:
        # The waiting name would mean nothing to the reader.
        place = path if error.path == str(waiting) else error.path
        raise DataError(error.problem, path=place, line=error.line, column=error.column) from error
