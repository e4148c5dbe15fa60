"""Steps of the check: programs that must succeed, and a table of what was done."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


class CheckFailed(Exception):  # noqa: N818
    """A step whose result is not as it has to be."""


class Skipped(Exception):  # noqa: N818
    """A step that cannot be done on this machine."""


def check_output(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
    timeout: float | None = None,
) -> str:
    """Run a program and return what it prints; raise `CheckFailed` with the ends of its outputs if it fails."""
    try:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=cwd, env=env, umask=umask, timeout=timeout, check=False, text=True, capture_output=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CheckFailed(str(error)) from None
    if done.returncode:
        # Warnings of one would hide what the other says.
        last = "\n".join(line for text in (done.stdout, done.stderr) for line in text.strip().splitlines()[-15:])
        raise CheckFailed(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{last}")
    return done.stdout


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Args:
        step: What was done.
        what: What was installed or found.
        seconds: Seconds by the clock.
        result: ``ok``, ``skipped`` or ``FAILED``.
        reason: Why it failed or was skipped.
    """

    step: str
    what: str
    seconds: float
    result: str
    reason: str = ""


@dataclass
class Table:
    """The steps so far, each printed when it ends."""

    rows: list[Row] = field(default_factory=list)

    def add(self, step: str, do: Callable[[], str]) -> bool:
        """Do a step, and return whether it succeeded."""
        start = time.monotonic()
        what, result, reason = "", "ok", ""
        try:
            what = do()
        except Skipped as skip:
            result, reason = "skipped", str(skip)
        except CheckFailed as failure:
            result, reason = "FAILED", str(failure)
        row = Row(step, what, time.monotonic() - start, result, reason)
        self.rows.append(row)
        print(f"{row.result:8}{row.step}  {row.seconds:.0f} s  {row.what or row.reason}", flush=True)
        return result == "ok"

    @property
    def failed(self) -> list[str]:
        """The steps that failed."""
        return [row.step for row in self.rows if row.result == "FAILED"]

    def __str__(self) -> str:
        """Return all steps as a Markdown table."""
        lines = ["| step | installed, or found | seconds | result |", "| --- | --- | --: | --- |"]
        for row in self.rows:
            reason = " ".join(row.reason.split())[-160:]
            result = f"{row.result}: {reason}" if reason else row.result
            lines.append(f"| {row.step} | {row.what} | {row.seconds:.0f} | {result} |")
        return "\n".join(lines)
