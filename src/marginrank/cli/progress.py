"""Progress of training on a terminal or in a log; Ctrl-C and SIGTERM stop it with the best model so far."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self

from marginrank.cli.streams import note
from marginrank.runtime.memory import size_text
from marginrank.runtime.text import count

if TYPE_CHECKING:
    from marginrank.solvers.solution import Step
    from marginrank.typing import FloatArray

#: Seconds between two states of the line on a terminal, and between two lines of a log.
_ON_A_TERMINAL: Final = 0.1
_IN_A_LOG: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class TrainingProgress:
    """A callback of solvers that shows progress and, after a signal, stops them.

    After the first signal the current iteration is finished, so that the best point so far is kept; before the end of
    the first iteration there is none, and the signal raises `KeyboardInterrupt` as usual. So does a second signal.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._began = time.perf_counter()
        self._has_point = False
        self._ears = SignalHandler()
        self._course = TimeEstimate()
        self._pass_bytes: int | None = None
        self._display = _Silence() if quiet else _Line() if sys.stderr.isatty() else _Log()

    @property
    def seconds(self) -> float:
        """Since the watch began."""
        return time.perf_counter() - self._began

    @property
    def stopping(self) -> bool:
        """Whether a signal came."""
        return self._ears.heard() > 0

    def __enter__(self) -> Self:
        self._ears.open(self._handle)
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()
        self._ears.close()

    def say(self, text: str) -> None:
        """Show what is going on."""
        self._display.show(text, None)

    def expect(self, n_problems: int, tol: float, pass_bytes: int | None = None) -> None:
        """Set the number of problems to solve, the relative gap to solve them to, and the bytes that a pass reads."""
        self._course = TimeEstimate(n_problems, tol)
        self._pass_bytes = pass_bytes

    def __call__(self, step: Step, theta: FloatArray) -> bool:  # noqa: ARG002
        """Show the state after an iteration, and return whether to stop."""
        self._has_point = True
        if self.stopping:
            return True
        share = self._course.note(step)
        rate = "" if self._pass_bytes is None else _rate(step, self._pass_bytes)
        self._display.show(_state(step, self.seconds, self._course.seconds_left(share)) + rate, share)
        return False

    def _handle(self, *_: object) -> None:
        if self._ears.heard() > 1 or not self._has_point:
            raise KeyboardInterrupt


class TimeEstimate:
    """How much of the work is done, told by problems solved and by the gap of those under way.

    The gap shrinks by about the same factor with every iteration, so its logarithm tells how far a problem is. Problems
    under way in different threads are told apart by the thread.
    """

    def __init__(self, n_problems: int = 1, tol: float = 1e-4) -> None:
        self._n_problems, self._tol = n_problems, tol
        self._began = time.perf_counter()
        self._solved = 0
        self._under_way: dict[int, tuple[float, Step]] = {}
        self._lock = threading.Lock()

    def note(self, step: Step) -> float:
        """Record an iteration, and return the share of all work that is done."""
        with self._lock:
            thread = threading.get_ident()
            first, last = self._under_way.get(thread, (math.nan, None))
            if last is None or step.seconds < last.seconds:
                self._solved += last is not None
                first = _relative_gap(step)
            self._under_way[thread] = first, step
            parts = sum(self._part(*one) for one in self._under_way.values())
            return min((self._solved + parts) / self._n_problems, 1.0)

    def _part(self, first: float, step: Step) -> float:
        now = _relative_gap(step)
        if not math.isfinite(first) or not 0 < self._tol < first:
            return 0.0
        return min(max(math.log(first / max(now, self._tol)) / math.log(first / self._tol), 0.0), 1.0)

    def seconds_left(self, share: float) -> float | None:
        """Estimate the time left, if there is enough to estimate it by."""
        spent = time.perf_counter() - self._began
        return spent * (1.0 - share) / share if spent > 1.0 and share > 0.02 else None


def _relative_gap(step: Step) -> float:
    return step.gap / abs(step.primal) if step.primal else 0.0


class SignalHandler:
    """Signals that came, for any thread to ask.

    Python handles signals in the main thread, which may be asleep until training ends; but their numbers are written to
    a pipe at once.
    """

    def __init__(self) -> None:
        self._heard: list[int] = []
        self._pipe: tuple[int, int] | None = None

    def open(self, handler: Callable[..., None]) -> None:
        """Listen; only the main thread can."""
        if not _in_main_thread():
            return
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._pipe_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._handlers_before = [(number, signal.signal(number, handler)) for number in _SIGNALS]

    def close(self) -> None:
        """Leave everything as it was."""
        if self._pipe is None:
            return
        for number, handler in self._handlers_before:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._pipe_before)
        self.heard()
        for end in self._pipe:
            os.close(end)
        self._pipe = None

    def heard(self) -> int:
        """Count the signals so far."""
        if self._pipe is not None:
            with suppress(BlockingIOError):
                self._heard.extend(os.read(self._pipe[0], 64))
        return sum(number in _SIGNALS for number in self._heard)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _state(step: Step, seconds: float, left: float | None) -> str:
    share = _relative_gap(step)
    gap = f"relative gap {share:.1e}" if math.isfinite(share) else "no certificate"
    guess = "" if left is None else f", about {left:.0f} s left"
    return f"objective {step.primal:.6g}, {gap}, {count(round(step.passes), 'pass', 'passes')}, {seconds:.0f} s{guess}"


def _rate(step: Step, pass_bytes: int) -> str:
    """Return how much of the features is read in a second, by all workers together."""
    return f", {size_text(round(step.passes * pass_bytes / max(step.seconds, 1e-9)))}/s"


class _Silence:
    """No progress."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def show(self, text: str, share: float | None) -> None:
        """Show nothing."""


class _Log(_Silence):
    """Lines for a log, some seconds apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = time.perf_counter()

    def show(self, text: str, share: float | None) -> None:  # noqa: ARG002
        """Print a line if the last is long ago."""
        with self._lock:
            now = time.perf_counter()
            if now - self._last < _IN_A_LOG:
                return
            self._last = now
        note(text)


class _Line(_Silence):
    """One line of a terminal, with a bar, that is written anew, and gone at the end."""

    def __init__(self) -> None:
        self._last = -math.inf
        self._bar: Any = None

    def start(self) -> None:
        """Show an empty line."""
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

        columns = SpinnerColumn(), BarColumn(20), TextColumn("{task.description}")
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def stop(self) -> None:
        """Remove the line."""
        self._bar.stop()

    def show(self, text: str, share: float | None) -> None:
        """Write the line anew, unless that was just done."""
        now = time.perf_counter()
        if now - self._last >= _ON_A_TERMINAL:
            self._last = now
            total = None if share is None else 1.0
            self._bar.update(self._task, description=text, total=total, completed=share or 0.0)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt` as Ctrl-C does, so that what was begun is cleaned up."""
    if not _in_main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
