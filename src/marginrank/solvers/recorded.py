"""A problem that asks a checkpoint first."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from marginrank.checkpoint import Log
from marginrank.errors import DataError
from marginrank.solvers.problem import Line, Problem
from marginrank.typing import FloatArray

#: Whether all values so far were exact, number of values and of slopes.
_HEAD: Final = struct.Struct("<?II")


class Recorded(Problem):
    """A problem whose answers are kept in a log, and taken from it where it has them, bit for bit.

    Args:
        problem: The problem.
        log: Where its answers are kept; those of other problems need a log of another name.
    """

    def __init__(self, problem: Problem, log: Log) -> None:
        self.n_parameters, self.n_blocks = problem.n_parameters, problem.n_blocks
        self.center, self.signs = problem.center, problem.signs
        self.convex, self.offers = problem.convex, problem.offers
        self._problem, self._log, self._was_exact = problem, log, True

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether all values so far were computed exactly, those of the log too."""
        return self._was_exact and self._problem.exact

    @cached_property
    def majorant(self) -> Problem | None:  # type: ignore[override]
        """The majorant, whose answers are kept likewise."""
        above = self._problem.majorant
        return None if above is None else Recorded(above, self._log.log("majorant"))

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""

        def ask() -> tuple[FloatArray, FloatArray]:
            value, slope = self._problem(theta)
            return np.array([value]), slope[None, :]

        values, slopes = self.answer(ask, b"risk", _bytes(theta))
        return float(values[0]), slopes[0]

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk, and a subgradient of each."""
        return self.answer(lambda: self._problem.parts(theta), b"parts", _bytes(theta))

    def line(self, start: FloatArray, end: FloatArray) -> Line | None:
        """Return the way between two points, with answers that are kept likewise."""
        line = self._problem.line(start, end)
        return None if line is None else RecordedLine(self, line)

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the share of one block in the risk, and in its subgradient."""

        def ask() -> tuple[FloatArray, FloatArray]:
            value, slope = self._problem.block(number, theta)
            return np.array([value]), slope[None, :]

        values, slopes = self.answer(ask, b"block", str(number).encode(), _bytes(theta))
        return float(values[0]), slopes[0]

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian of the risk at θ times a direction."""

        def ask() -> tuple[FloatArray, FloatArray]:
            return np.zeros(1), self._problem.hessian_product(theta, direction)[None, :]

        slope: FloatArray = self.answer(ask, b"hessian", _bytes(theta), _bytes(direction))[1][0]
        return slope

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return that of the problem, which is made anew: it depends on θ alone, and takes less than a pass."""
        return self._problem.preconditioner(theta, C)

    def preconditioner_passes(self, C: float) -> float:
        """Return that of the problem."""
        return self._problem.preconditioner_passes(C)

    def answer(
        self, ask: Callable[[], tuple[FloatArray, FloatArray]], *question: bytes, width: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return what is kept, with slopes of one number for each parameter or of another width; otherwise ask."""
        kept = self._log.get(*question)
        if kept is not None:
            return self._read(kept, self.n_parameters if width is None else width)
        values, slopes = ask()
        head = _HEAD.pack(self.exact, *slopes.shape[:1], len(values))
        self._log.put(head + _bytes(values) + _bytes(slopes), *question)
        return values, slopes

    def _read(self, kept: bytes, width: int) -> tuple[FloatArray, FloatArray]:
        exact, n_slopes, n_values = _HEAD.unpack_from(kept) if len(kept) >= _HEAD.size else (False, 0, 0)
        if not 1 <= n_values == n_slopes or len(kept) != _HEAD.size + 8 * n_values * (1 + width):
            raise DataError("an answer in it does not fit the problem; remove the file", path=self._log.checkpoint.path)
        numbers = np.frombuffer(kept, dtype="<f8", offset=_HEAD.size).astype(np.float64)
        self._was_exact &= exact
        return numbers[:n_values], numbers[n_values:].reshape(n_slopes, width)


class RecordedLine(Line):
    """A way whose answers are kept in a log: where it has them, no scores are computed.

    Args:
        problem: The problem.
        line: The way.
    """

    def __init__(self, problem: Recorded, line: Line) -> None:
        super().__init__(line.start, line.end)
        self._problem, self._line = problem, line

    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a share of the way, and its slope by that share."""

        def ask() -> tuple[FloatArray, FloatArray]:
            value, slope = self._line(t)
            return np.array([value]), np.array([[slope]])

        values, slopes = self._problem.answer(ask, b"line", *self._question(t), width=1)
        return float(values[0]), float(slopes[0, 0])

    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk there, and a subgradient of each."""
        return self._problem.answer(lambda: self._line.parts(t), b"parts of line", *self._question(t))

    def then(self, t: float, end: FloatArray) -> RecordedLine:
        """Return the way from there to another point."""
        return RecordedLine(self._problem, self._line.then(t, end))

    def _question(self, t: float) -> tuple[bytes, ...]:
        return _bytes(self.start), _bytes(self.end), _bytes(np.array([t]))


def recorded(problem: Problem, log: Log | None, name: str) -> Problem:
    """Return a problem that keeps its answers in a part of a log; the problem itself without a log."""
    return problem if log is None else Recorded(problem, log.log(name))


def _bytes(numbers: FloatArray) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<f8").tobytes()
