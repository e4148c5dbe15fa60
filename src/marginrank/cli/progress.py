"""Signals that stop training with the best model so far, and its progress on a terminal or in a log."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

from marginrank.cli.streams import note
from marginrank.training.progress import Progress, QuietProgress, terminal_or_lines

if TYPE_CHECKING:
    from marginrank.solvers.solution import Step
    from marginrank.typing import FloatArray

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class TrainingProgress(Progress):
    """A callback of solvers that shows progress and, after a signal, stops them.

    After the first signal the current iteration is finished, so that the best point so far is kept; before the end of
    the first iteration there is none, and the signal raises `KeyboardInterrupt` as usual. So does a second signal.
    """

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(QuietProgress() if quiet else terminal_or_lines(note))
        self._has_point = False
        self._signals = SignalHandler()

    @property
    def stopping(self) -> bool:
        """Whether a signal came."""
        return self._signals.received() > 0

    def __enter__(self) -> Self:
        self._signals.open(self._handle)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._signals.close()

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        """Show the state after an iteration, and return whether to stop."""
        self._has_point = True
        return self.stopping or super().__call__(step, theta)

    def _handle(self, *_: object) -> None:
        if self._signals.received() > 1 or not self._has_point:
            raise KeyboardInterrupt


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
