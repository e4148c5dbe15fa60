"""Errors and warnings that name the place and the way out."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path


class DataError(ValueError):
    """Raised for bad input; the message names the place and a fix.

    The message reads ``path:line:column: what is wrong; what to do``, as far as the place is known.

    >>> str(DataError("feature index 0; indices start at 1", path="train.txt", line=3, column=9))
    'train.txt:3:9: feature index 0; indices start at 1'
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.problem = problem
        self.path = None if path is None else str(path)
        self.line = line
        self.column = column
        place = ":".join(str(part) for part in (self.path, line, column) if part is not None)
        super().__init__(f"{place}: {problem}" if place else problem)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders with their place intact."""
        return (_rebuild, (self.problem, self.path, self.line, self.column))


class NumericalError(DataError, FloatingPointError):
    """Raised if numbers are too large, or too far apart, for float64."""


class CheckpointWarning(UserWarning):
    """Warns that a checkpoint is damaged, or cannot be written; training goes on."""


class FractionalGradesWarning(UserWarning):
    """Fractional grades count as irrelevant because they are below the relevance threshold of a measure."""


class NothingRankedWarning(UserWarning):
    """Warns that a trained model gives all documents of a query the same score, on every training query."""


class SplitQueriesWarning(UserWarning):
    """Warns that documents of one query are on both sides of a split."""


class TrainingDataWarning(UserWarning):
    """A system is evaluated on the queries it was trained on."""


def _rebuild(problem: str, path: str | None, line: int | None, column: int | None) -> DataError:
    return DataError(problem, path=path, line=line, column=column)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about a line of code outside of this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "marginrank":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
