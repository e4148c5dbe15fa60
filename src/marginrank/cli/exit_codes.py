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


#: What the parser says of values that it does not take, and plain words for it.
_VALUES: Final = (
    (re.compile(r"Input should be a valid number.*"), "give a number"),
    (re.compile(r"Input should be a valid integer.*"), "give a whole number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"give \1 or more"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"give \1 or less"),
    (re.compile(r"Value error, (.*) is not one of (.*)\."), r"\1 is unknown; choose one of \2"),
)


class Misuse(Exception):  # noqa: N818
    """Options that cannot be used together, or not so."""


def exit_code_of(work: Callable[[], Any], *, show_traceback: bool = False) -> int:
    """Do the work of a command and give its exit code; errors become one line on standard error.

    >>> exit_code_of(lambda: None)
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
    ('--k is 0; rank at least one document', 2)
    """
    if hasattr(error, "format_message"):  # what the parser of the command line raises
        return _line(f"{_parsed(error.format_message())}{_help_hint(error)}"), getattr(error, "exit_code", MISUSED)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _line(f"{place}{error.strerror}"), FAILED
    if isinstance(error, MemoryError):
        return "not enough memory; use less data, or convert it to .queries, which is memory-mapped", FAILED
    if isinstance(error, DataError | OSError | ImportError | FloatingPointError):
        return _line(_in_options(error)), FAILED
    # Apart from data, the library raises ValueError for parameters that make no sense.
    if isinstance(error, Misuse | ValueError):
        return _line(_in_options(error)), MISUSED
    return _line(f"{type(error).__name__}: {error}; --traceback shows where it comes from"), FAILED


def _in_options(error: Exception) -> str:
    """Put an error of the library into the words of the command line; paths stay as they are."""
    from marginrank.cli.vocabulary import in_options  # noqa: PLC0415

    if isinstance(error, DataError):
        return str(error).removesuffix(error.problem) + in_options(error.problem)
    return in_options(str(error)) if isinstance(error, ValueError) else str(error)


def _parsed(message: str) -> str:
    """Put what the parser says of a value into plain words.

    >>> _parsed("Invalid value for '--k': Input should be greater than or equal to 1")
    '--k: give 1 or more'
    >>> _parsed("Invalid value for '--out' / '-o': odd")
    '--out: odd'
    """
    invalid = re.fullmatch(r"Invalid value for '([^']+)'(?: / '[^']+')*: (.*)", message, re.DOTALL)
    if invalid is None:
        return message
    why = invalid[2]
    for pattern, words in _VALUES:
        why = pattern.sub(words, why)
    return f"{invalid[1]}: {why}"


def _line(message: str) -> str:
    return " ".join(message.split())


def _help_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f" (see {context.command_path} --help)"
