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
_TERMINAL_INTERVAL: Final = 0.1
_LOG_INTERVAL: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class TrainingProgress:
    """A callback of solvers that shows progress and, after a signal, stops them.

    After the first signal the current iteration is finished, so that the best point so far is kept; before the end of
    the first iteration there is none, and the signal raises `KeyboardInterrupt` as usual. So does a second signal.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._began = time.perf_counter()
        self._has_point = False
        self._signals = SignalHandler()
        self._estimate = TimeEstimate()
        self._pass_bytes: int | None = None
        self._display = QuietProgress() if quiet else TerminalProgress() if sys.stderr.isatty() else LogProgress()

    @property
    def seconds(self) -> float:
        """Seconds since training began."""
        return time.perf_counter() - self._began

    @property
    def stopping(self) -> bool:
        """Whether a signal came."""
        return self._signals.received() > 0

    def __enter__(self) -> Self:
        self._signals.open(self._handle)
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()
        self._signals.close()

    def say(self, text: str) -> None:
        """Show what is being done."""
        self._display.show(text, None)

    def expect(self, n_problems: int, tol: float, pass_bytes: int | None = None) -> None:
        """Set the number of problems to solve, the relative gap to solve them to, and the bytes that a pass reads."""
        self._estimate = TimeEstimate(n_problems, tol)
        self._pass_bytes = pass_bytes

    def __call__(self, step: Step, theta: FloatArray) -> bool:  # noqa: ARG002
        """Show the state after an iteration, and return whether to stop."""
        self._has_point = True
        if self.stopping:
            return True
        share = self._estimate.note(step)
        rate = "" if self._pass_bytes is None else _rate(step, self._pass_bytes)
        self._display.show(_state(step, self.seconds, self._estimate.seconds_left(share)) + rate, share)
        return False

    def _handle(self, *_: object) -> None:
        if self._signals.received() > 1 or not self._has_point:
            raise KeyboardInterrupt


class TimeEstimate:
    """The share of the work that is done, from the problems solved and the gaps of those being solved.

    The gap shrinks by about the same factor with every iteration, so its logarithm tells how far a problem is.
    Problems that are solved at the same time are told apart by their threads.
    """

    def __init__(self, n_problems: int = 1, tol: float = 1e-4) -> None:
        self._n_problems, self._tol = n_problems, tol
        self._began = time.perf_counter()
        self._solved = 0
        self._running: dict[int, tuple[float, Step]] = {}
        self._lock = threading.Lock()

    def note(self, step: Step) -> float:
        """Record an iteration, and return the share of all work that is done."""
        with self._lock:
            thread = threading.get_ident()
            first, last = self._running.get(thread, (math.nan, None))
            if last is None or step.seconds < last.seconds:
                self._solved += last is not None
                first = _relative_gap(step)
            self._running[thread] = first, step
            parts = sum(self._part(*one) for one in self._running.values())
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
    """Counts signals, for any thread to ask.

    Python handles signals in the main thread, which may be asleep until training ends; but their numbers are written to
    a pipe at once.
    """

    def __init__(self) -> None:
        self._received: list[int] = []
        self._pipe: tuple[int, int] | None = None

    def open(self, handler: Callable[..., None]) -> None:
        """Begin to listen, in the main thread; other threads cannot."""
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
        self.received()
        for end in self._pipe:
            os.close(end)
        self._pipe = None

    def received(self) -> int:
        """Count the signals so far."""
        if self._pipe is not None:
            with suppress(BlockingIOError):
                self._received.extend(os.read(self._pipe[0], 64))
        return sum(number in _SIGNALS for number in self._received)


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


class QuietProgress:
    """No progress."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def show(self, text: str, share: float | None) -> None:
        """Show nothing."""


class LogProgress(QuietProgress):
    """Lines for a log, some seconds apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = time.perf_counter()

    def show(self, text: str, share: float | None) -> None:  # noqa: ARG002
        """Print a line, unless the last is recent."""
        with self._lock:
            now = time.perf_counter()
            if now - self._last < _LOG_INTERVAL:
                return
            self._last = now
        note(text)


class TerminalProgress(QuietProgress):
    """A line with a bar on a terminal, removed at the end."""

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
        """Update the line, unless that was just done."""
        now = time.perf_counter()
        if now - self._last >= _TERMINAL_INTERVAL:
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
