"""Progress of training: how far it is and how long it takes, as a bar or as lines."""

from __future__ import annotations

import html
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from marginrank.runtime.memory import size_text
from marginrank.runtime.text import count

if TYPE_CHECKING:
    from marginrank.solvers.base import Callback
    from marginrank.solvers.solution import Step
    from marginrank.typing import FloatArray

#: Seconds between two states of a bar, and between two lines.
_BAR_INTERVAL: Final = 0.1
_LOG_INTERVAL: Final = 5.0
#: Seconds before a bar appears in a notebook: it leaves an empty line.
_NOTEBOOK_DELAY: Final = 1.0
_LOG: Final = logging.getLogger("marginrank")


class Progress:
    """A callback of solvers that shows their progress."""

    def __init__(self, display: QuietProgress) -> None:
        self._began = time.perf_counter()
        self._estimate = TimeEstimate()
        self._pass_bytes: int | None = None
        self._display = display
        self._settings = threading.local()

    @property
    def seconds(self) -> float:
        """Seconds since training began."""
        return time.perf_counter() - self._began

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()

    def say(self, text: str) -> None:
        """Show what is being done."""
        self._display.show(text, None)

    def expect(self, n_problems: int, tol: float, pass_bytes: int | None = None) -> None:
        """Set the number of problems to solve, the relative gap to solve them to, and the bytes that a pass reads."""
        self._estimate = TimeEstimate(n_problems, tol)
        self._pass_bytes = pass_bytes

    def begin(self, parameters: Mapping[str, Any]) -> None:
        """Set the parameters that this thread trains with, to be shown."""
        self._settings.text = "".join(f"{name} = {value}, " for name, value in parameters.items())

    def __call__(self, step: Step, theta: FloatArray) -> bool:  # noqa: ARG002
        """Show the state after an iteration; training continues."""
        share = self._estimate.note(step)
        rate = "" if self._pass_bytes is None else _rate(step, self._pass_bytes)
        state = _state(step, self.seconds, self._estimate.seconds_left(share)) + rate
        self._display.show(getattr(self._settings, "text", "") + state, share)
        return False


@contextmanager
def shown(
    verbose: bool | None, n_problems: int, tol: float, callback: Callback | None = None
) -> Iterator[tuple[Progress, Callback | None]]:
    """Show the progress of solvers that are given the callback, which calls the given one too.

    Args:
        verbose: Whether to show it; by default in a notebook, and where the log ``marginrank`` takes level INFO.
        n_problems: Number of problems to solve.
        tol: The relative gap to solve them to.
        callback: A callback of the caller.
    """
    display = _display(verbose)
    with Progress(display or QuietProgress()) as progress:
        progress.expect(n_problems, tol)
        yield progress, callback if display is None else partial(_both, progress, callback)


def _both(progress: Progress, callback: Callback | None, step: Step, theta: FloatArray) -> bool:
    return progress(step, theta) or (callback is not None and bool(callback(step, theta)))


def _display(verbose: bool | None) -> QuietProgress | None:
    """Return where to show progress; None for nowhere."""
    if verbose is False:
        return None
    if _in_notebook():
        return NotebookProgress()
    if _LOG.isEnabledFor(logging.INFO):
        return LogProgress(_LOG.info)
    return terminal_or_lines(partial(print, file=sys.stderr, flush=True), ends=True) if verbose else None


def _in_notebook() -> bool:
    """Return whether this is a notebook's kernel; IPython is not imported for it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


def terminal_or_lines(write: Callable[[str], object], *, ends: bool = False) -> QuietProgress:
    """Return a bar if standard error is a terminal, and lines otherwise, with ``ends`` also one at the end."""
    return TerminalProgress() if sys.stderr.isatty() else LogProgress(write, ends=ends)


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
        # A problem without certificate, such as a tight bound, has a gap of infinity.
        if not math.isfinite(first + now) or not 0 < self._tol < first:
            return 0.0
        return min(max(math.log(first / max(now, self._tol)) / math.log(first / self._tol), 0.0), 1.0)

    def seconds_left(self, share: float) -> float | None:
        """Estimate the time left, if there is enough to estimate it by."""
        spent = time.perf_counter() - self._began
        return spent * (1.0 - share) / share if spent > 1.0 and share > 0.02 else None


def _relative_gap(step: Step) -> float:
    return step.gap / abs(step.primal) if step.primal else 0.0


def _state(step: Step, seconds: float, left: float | None) -> str:
    share = _relative_gap(step)
    gap = f"relative gap {share:.1e}" if math.isfinite(share) else "no certificate"
    guess = "" if left is None else f", about {left:.0f} s left"
    C = "" if step.C is None else f"C = {step.C:g}, "
    return (
        f"{C}objective {step.primal:.6g}, {gap}, {count(round(step.passes), 'pass', 'passes')}, {seconds:.0f} s{guess}"
    )


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
    """Lines for a log, some seconds apart, and with ``ends`` the last state at the end."""

    def __init__(self, write: Callable[[str], object], *, ends: bool = False) -> None:
        self._write, self._ends = write, ends
        self._lock = threading.Lock()
        self._last = time.perf_counter()
        self._unwritten = ""

    def show(self, text: str, share: float | None) -> None:  # noqa: ARG002
        """Write a line, unless the last is recent."""
        with self._lock:
            now = time.perf_counter()
            if now - self._last < _LOG_INTERVAL:
                self._unwritten = text
                return
            self._last, self._unwritten = now, ""
        self._write(text)

    def stop(self) -> None:
        """Write the last state, if asked to."""
        if self._ends and self._unwritten:
            self._write(self._unwritten)


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
        if now - self._last >= _BAR_INTERVAL:
            self._last = now
            total = None if share is None else 1.0
            self._bar.update(self._task, description=text, total=total, completed=share or 0.0)


class NotebookProgress(QuietProgress):
    """A bar under a cell of a notebook, for work that takes a while; removed at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = time.perf_counter() + _NOTEBOOK_DELAY - _BAR_INTERVAL
        self._bar: Any = None

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.update({"text/html": "", "text/plain": ""}, raw=True)

    def show(self, text: str, share: float | None) -> None:
        """Update the bar, unless that was just done."""
        with self._lock:
            now = time.perf_counter()
            if now - self._last < _BAR_INTERVAL:
                return
            self._last = now
            value = "" if share is None else f' value="{share:.3f}"'
            content = {"text/html": f"<progress{value}></progress> {html.escape(text)}", "text/plain": text}
            if self._bar is None:
                self._bar = sys.modules["IPython"].display.display(content, raw=True, display_id=True)
            else:
                self._bar.update(content, raw=True)
