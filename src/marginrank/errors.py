"""Errors and warnings that name the place and a fix.

A message is made of text and of `Parameter`s, so that each interface writes a parameter in its own way: Python as
``missing='zero'``, the command line as ``--missing zero``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(init=False, repr=False)
class Parameter:
    """A parameter that a message names, with values to give it if the message advises some; ``...`` is any value.

    >>> print(Parameter("tol"), Parameter("scaling", "standard"), Parameter("missing", "nan", "zero", "min"), sep="; ")
    tol; scaling='standard'; missing='nan', 'zero' or 'min'
    >>> print("name it with", Parameter("qid", ...))
    name it with qid=
    """

    name: str
    values: tuple[Any, ...]

    def __init__(self, name: str, *values: Any) -> None:
        self.name = name
        self.values = values

    def __str__(self) -> str:
        """Write it as in Python."""
        if not self.values:
            return self.name
        return f"{self.name}={alternatives(['' if value is ... else repr(value) for value in self.values])}"

    __repr__ = __str__


def alternatives(words: list[str]) -> str:
    """Join words by commas and a final "or".

    >>> alternatives(["nan", "zero", "min"])
    'nan, zero or min'
    """
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


#: A message, or a piece of one: text, a parameter, or several pieces.
Message: TypeAlias = "str | Parameter | tuple[Message, ...]"


def write(message: Message, name: Callable[[Parameter], str] = str) -> str:
    """Return a message as text, with its parameters written by a function.

    >>> write(("fill it, or use ", Parameter("missing", "zero")))
    "fill it, or use missing='zero'"
    """
    if isinstance(message, tuple):
        return "".join(write(piece, name) for piece in message)
    return message if isinstance(message, str) else name(message)


class ComposedMessage(Exception):  # noqa: N818
    """Base of errors and warnings whose messages name parameters."""

    def __init__(self, *message: Message) -> None:
        self.message = message
        super().__init__(self.written(str))

    def written(self, name: Callable[[Parameter], str]) -> str:
        """Return the message with its parameters written by a function."""
        return write(self.message, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the parameters when an error crosses process borders."""
        return (type(self), self.message)


class ParameterError(ComposedMessage, ValueError):
    """Raised for parameters that make no sense.

    >>> str(ParameterError(Parameter("tol"), " is -1; it must not be negative"))
    'tol is -1; it must not be negative'
    """


class DataError(ComposedMessage, ValueError):
    """Raised for bad input; the message names the place and a fix.

    The message reads ``path:line:column: what is wrong; what to do``, as far as the place is known.

    >>> str(DataError("feature index 0; indices start at 1", path="train.txt", line=3, column=9))
    'train.txt:3:9: feature index 0; indices start at 1'
    """

    def __init__(
        self,
        *message: Message,
        path: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.path = None if path is None else str(path)
        self.line = line
        self.column = column
        super().__init__(*message)

    @property
    def problem(self) -> str:
        """The message without the place."""
        return write(self.message)

    def written(self, name: Callable[[Parameter], str]) -> str:
        """Return the message, behind the place, with its parameters written by a function."""
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        message = super().written(name)
        return f"{place}: {message}" if place else message

    def at(self, path: str | Path) -> DataError:
        """Return the same error, in this file unless it names one.

        >>> str(DataError("no rows", line=2).at("train.csv"))
        'train.csv:2: no rows'
        """
        return DataError(*self.message, path=self.path or path, line=self.line, column=self.column)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep place and parameters when an error crosses process borders."""
        return (_rebuild, (self.message, self.path, self.line, self.column))


class NumericalError(DataError, FloatingPointError):
    """Raised if numbers are too large, or too far apart, for float64."""


class CheckpointWarning(UserWarning):
    """Warns that a checkpoint is damaged, or cannot be written; training continues."""


class ColumnsLeftOutWarning(UserWarning):
    """Warns that columns of a table are no features because they hold text or ids."""


class FractionalGradesWarning(UserWarning):
    """Fractional grades count as irrelevant because they are below the relevance threshold of a measure."""


class NothingRankedWarning(UserWarning):
    """Warns that a trained model gives all documents of a query the same score, on every training query."""


class RepeatedDocumentsWarning(UserWarning):
    """A document stands more than once in a query."""


class SplitQueriesWarning(UserWarning):
    """Warns that documents of one query are on both sides of a split."""


class TrainingDataWarning(UserWarning):
    """A system is evaluated on the queries it was trained on."""


def _rebuild(message: tuple[Message, ...], path: str | None, line: int | None, column: int | None) -> DataError:
    return DataError(*message, path=path, line=line, column=column)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn about a line of code outside of this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "marginrank":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
