"""Exit codes, and errors as one line on standard error."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, Final

import typer

from marginrank.cli.streams import NotRead, note
from marginrank.errors import DataError

OK: Final = 0
#: Something in the input is wrong: a file, its content, a model, or the place of the output.
FAILED: Final = 1
#: The command was called wrongly.
MISUSED: Final = 2
#: Ctrl-C or SIGTERM came before there was anything to keep.
INTERRUPTED: Final = 130
#: Nobody reads standard output any more; what a shell reports of programs that SIGPIPE ended.
NOT_READ: Final = 141

#: Set to 1, it shows tracebacks as ``--traceback`` does.
TRACEBACK_VARIABLE: Final = "MARGINRANK_TRACEBACK"


#: Parameters of the library that have options, as errors spell them; what stands in parentheses is left alone.
_PARAMETER: Final = re.compile(
    r"\([^()]*\)|\b(?P<name>features|regroup|missing|missing_topics|first_index|n_features|qid|grade|document_id|"
    r"document_group|dtype|scorer|bound|scaling)=(?P<value>'[^']*'(?:(?:, | or )'[^']*')*|[\w.]+)?"
)


class Misuse(Exception):  # noqa: N818
    """Options that cannot be used together, or not so."""


def guarded(work: Callable[[], Any], *, show_traceback: bool = False) -> int:
    """Do the work of a command and give its exit code; errors become one line on standard error.

    >>> guarded(lambda: None)
    0
    """
    try:
        code = work()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except NotRead:
        return NOT_READ
    except Exception as error:
        if show_traceback:
            traceback.print_exc()
        message, exit_code = describe(error)
        note(f"error: {message}")
        return exit_code
    if code == INTERRUPTED:
        note("interrupted; nothing was written")
    return code if isinstance(code, int) else OK


def describe(error: Exception) -> tuple[str, int]:
    """Say in a line what went wrong, and give the exit code.

    >>> describe(FileNotFoundError(2, "No such file or directory", "train.txt"))
    ('train.txt: No such file or directory', 1)
    >>> describe(ValueError("k is 0; rank at least one document"))
    ('k is 0; rank at least one document', 2)
    """
    if hasattr(error, "format_message"):  # what the parser of the command line raises
        return _line(f"{error.format_message()}{_help_hint(error)}"), getattr(error, "exit_code", MISUSED)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _line(f"{place}{error.strerror}"), FAILED
    if isinstance(error, DataError | OSError | ImportError | FloatingPointError):
        return _with_options(_line(str(error))), FAILED
    if isinstance(error, MemoryError):
        return "not enough memory; use less data, or convert it to .queries, which is memory-mapped", FAILED
    # Apart from data, the library raises ValueError for parameters that make no sense.
    if isinstance(error, Misuse | ValueError):
        return _with_options(_line(str(error))), MISUSED
    return _line(f"{type(error).__name__}: {error}; --traceback shows where it comes from"), FAILED


def _with_options(message: str) -> str:
    """Name options where the library names parameters.

    >>> _with_options("choose what it becomes: missing='nan', 'zero' or 'min'")
    'choose what it becomes: --missing nan, zero or min'
    >>> _with_options("StructuredLoss(measure='ap') has no such bound; use bound='hinge', or pass regroup=True")
    "StructuredLoss(measure='ap') has no such bound; use --bound hinge, or pass --regroup"
    """

    def option(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        name = "--feature" if match["name"] == "features" else f"--{match['name'].replace('_', '-')}"
        return name if match["value"] in (None, "True") else f"{name} {match['value'].replace(chr(39), '')}"

    return _PARAMETER.sub(option, message)


def _line(message: str) -> str:
    return " ".join(message.split())


def _help_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f" (see {context.command_path} --help)"
