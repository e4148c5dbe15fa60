"""Exit codes, and errors as one line on standard error."""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import typer

from marginrank.cli.streams import NotRead, note
from marginrank.errors import DataError, Parameter, ParameterError, alternatives

OK: Final = 0
#: Something in the input is wrong: a file, its content, a model, or the place of the output.
FAILED: Final = 1
#: The command was called wrongly.
MISUSED: Final = 2
#: Ctrl-C or SIGTERM came; what was written, if anything, is the best so far.
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


#: Parameters of the library that an option stands for under another name.
_RENAMED: Final = {"n_bins": "bins", "validation": "valid", "measures": "measure", "overwrite": "force"}


class CommandError(Exception):
    """An error in the words of the command line."""

    exit_code = FAILED


class UsageError(CommandError):
    """Options that cannot be used together, or not so."""

    exit_code = MISUSED


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C or SIGTERM ended the work, and its result so far was kept."""


@contextmanager
def naming_option(parameter: str) -> Iterator[None]:
    """Begin the messages of errors about a parameter with its option.

    >>> with naming_option("solver"):
    ...     raise ValueError("unknown solver 'bundel'")
    Traceback (most recent call last):
    ...
    marginrank.errors.ParameterError: solver: unknown solver 'bundel'
    """
    try:
        yield
    except DataError:
        raise
    except ValueError as error:
        message = error.message if isinstance(error, ParameterError) else str(error)
        raise ParameterError(Parameter(parameter), ": ", message) from error


@dataclass(frozen=True)
class OptionName:
    """An option that stands for a parameter, with its command if that is not the one that runs."""

    words: str
    command: str | None = None
    #: For a flag that is on by default, the one that turns it off.
    off: str | None = None


def write_option(parameter: Parameter, options: Mapping[str, OptionName]) -> str:
    """Write a parameter of the library as the option that stands for it; in plain words if there is none.

    >>> options = {name: OptionName(f"--{name.removesuffix('s')}") for name in ("missing", "features", "regroup")}
    >>> options["scorer"] = OptionName("--scorer", "train")
    >>> write_option(Parameter("missing", "nan", "zero", "min"), options)
    '--missing nan, zero or min'
    >>> write_option(Parameter("features", ["bm25", "days old"]), options)
    "--feature bm25 --feature 'days old'"
    >>> write_option(Parameter("regroup", True), options), write_option(Parameter("X"), options)
    ('--regroup', 'the data')
    >>> write_option(Parameter("scorer", "additive"), options), write_option(Parameter("bound", "tight"), options)
    ('--scorer additive (of marginrank train)', 'the bound tight')
    """
    if parameter.name == "X":
        return "the data"
    if parameter == Parameter("allow_nan", True):
        parameter = Parameter("missing", "nan")
    name, values = parameter.name, parameter.values
    option = options.get(name) or options.get(_RENAMED.get(name, name))
    if option is None:
        return f"the {_with_values(name.replace('_', ' '), values)}"
    if values and values[0] is False and option.off is not None:
        option, values = OptionName(option.off, option.command), ()
    place = "" if option.command is None else f" (of marginrank {option.command})"
    return f"{_with_values(option.words, values)}{place}"


def _with_values(name: str, values: tuple[Any, ...]) -> str:
    if not values or values[0] in (True, ...):
        return name
    if isinstance(values[0], list):
        return " ".join(f"{name} {shlex.quote(word)}" for word in values[0])
    return f"{name} {alternatives([shlex.quote(str(value)) for value in values])}"


def exit_code_of(work: Callable[[], Any], *, show_traceback: bool = False) -> int:
    """Do the work of a command and give its exit code; errors become one line on standard error.

    >>> exit_code_of(lambda: None)
    0
    """
    try:
        code = work()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Interrupted as partial:
        note(f"interrupted; {partial}")
        return INTERRUPTED
    except NotRead:
        return NOT_READ
    except Exception as error:
        if show_traceback:
            traceback.print_exc()
        if not _caused_by_interrupt(error):
            message, exit_code = describe(error)
            note(f"error: {message}")
            return exit_code
        code = INTERRUPTED
    if code == INTERRUPTED:
        note("interrupted; nothing was written")
    return code if isinstance(code, int) else OK


def _caused_by_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C raised an error: Python 3.11 makes it a RuntimeError while a class is being created."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def describe(error: Exception) -> tuple[str, int]:
    """Return a line that says what went wrong, and the exit code.

    >>> describe(FileNotFoundError(2, "No such file or directory", "train.txt"))
    ('train.txt: No such file or directory', 1)
    >>> describe(ValueError("give one measure"))
    ('give one measure', 2)
    """
    return " ".join(_message(error).split()), _exit_code(error)


def _exit_code(error: Exception) -> int:
    # Apart from data, the library raises ValueError for parameters that make no sense.
    misused = isinstance(error, ValueError) and not isinstance(error, DataError)
    code: int = getattr(error, "exit_code", MISUSED if misused else FAILED)
    return code


def _message(error: Exception) -> str:
    if hasattr(error, "format_message"):  # what the parser of the command line raises
        return f"{_parsed(error.format_message())}{_help_hint(error)}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}" if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory; use less data, or convert it to .queries, which is memory-mapped"
    if isinstance(error, CommandError | ValueError | OSError | ImportError | FloatingPointError):
        return str(error)
    return f"{type(error).__name__}: {error}; --traceback shows where it comes from"


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


def _help_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f" (see {context.command_path} --help)"
